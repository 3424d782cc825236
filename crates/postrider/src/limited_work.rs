//! Runs work that may hang on its own thread, with a time limit for the caller. A thread that hangs ends with the
//! process.

use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};
use tokio::sync::oneshot;

/// Runs work on a new thread with a time limit. Returns `None` after the limit, or if the system cannot create a
/// thread.
pub(crate) fn waited_for<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, when_done) = mpsc::sync_channel(1);
    on_a_thread(move || drop(done.send(work()))).ok()?;
    when_done.recv_timeout(limit).ok()
}

/// As [`waited_for`], for an asynchronous caller.
pub(crate) async fn awaited<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, when_done) = oneshot::channel();
    on_a_thread(move || drop(done.send(work()))).ok()?;
    tokio::time::timeout(limit, when_done).await.ok()?.ok()
}

/// Runs work on its own thread without waiting.
///
/// # Errors
/// Returns an error if the system cannot create a thread.
pub(crate) fn on_a_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("limited-work".to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_waited_for_until_the_limit() {
        const LONG: Duration = Duration::from_secs(60);
        const SHORT: Duration = Duration::from_millis(20);
        assert_eq!(waited_for(LONG, || 1), Some(1));
        assert_eq!(awaited(LONG, || 2).await, Some(2));
        assert_eq!(awaited(Duration::MAX, || 3).await, Some(3));
        let (_release, released) = mpsc::channel::<()>();
        assert_eq!(waited_for(SHORT, move || released.recv().is_ok()), None);
        let (_release, released) = mpsc::channel::<()>();
        assert_eq!(awaited(SHORT, move || released.recv().is_ok()).await, None);
    }
}
