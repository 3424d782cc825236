//! Runs work that may hang on its own thread. The caller waits up to a limit, or as a task that delays no other. A thread
//! that hangs ends with the process.

use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// Pause before another try where the system gives no thread.
const THREAD_RETRY: Duration = Duration::from_millis(100);

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

/// Runs work on its own thread and waits for its result as a task, without a limit. The work goes on if the task is dropped.
/// If the system cannot create a thread, another attempt follows after a pause.
pub(crate) async fn finished<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let hand = loop {
        let (hand, handed) = mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(1);
        match on_a_thread(move || handed.recv().map_or((), |work| work())) {
            Ok(()) => break hand,
            Err(_) => sleep(THREAD_RETRY).await,
        }
    };
    let (done, when_done) = oneshot::channel();
    let _ = hand.send(Box::new(move || drop(done.send(work()))));
    match when_done.await {
        Ok(result) => result,
        // The work panicked, which ends the process.
        Err(_) => pending().await,
    }
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

    #[tokio::test]
    async fn work_without_a_limit_goes_on_when_its_task_is_dropped() {
        assert_eq!(finished(|| 1).await, 1);
        let (release, released) = mpsc::channel();
        let (done, when_done) = oneshot::channel();
        let work = finished(move || done.send(released.recv()).is_ok());
        assert!(tokio::time::timeout(Duration::from_millis(20), work).await.is_err());
        release.send(2).unwrap();
        assert_eq!(when_done.await, Ok(Ok(2)));
    }
}
