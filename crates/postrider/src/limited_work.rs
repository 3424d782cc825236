//! Work that may hang, on a thread of its own, and waited for no longer than a limit. A thread that hangs ends with the
//! process.
//!
//! A panic in any thread or task ends the process.
//!
//! A shard, a commit thread or a bulk thread that is gone would leave a server that looks alive and
//! delivers nothing, or acknowledges nothing. Better that a supervisor sees us go, and recovery picks
//! up what is on disk.

use std::process::abort;
use std::sync::mpsc;
use std::time::Duration;
use std::{io, panic, thread};
use tokio::sync::oneshot;

/// What work came to; `None`: it has not come back for so long, or the system gives no thread.
pub(crate) fn waited_for<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, when_done) = mpsc::sync_channel(1);
    on_a_thread(move || drop(done.send(work()))).ok()?;
    when_done.recv_timeout(limit).ok()
}

/// The same for a task, which waits as one.
pub(crate) async fn awaited<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, when_done) = oneshot::channel();
    on_a_thread(move || drop(done.send(work()))).ok()?;
    tokio::time::timeout(limit, when_done).await.ok()?.ok()
}

/// The same for work that nobody waits for here.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn on_a_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("limited-work".to_owned()).spawn(work).map(drop)
}

/// From now on a panic is told as usual, and then the process aborts.
pub(crate) fn ends_the_process() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        abort();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::Duration;
    use std::{env, thread};

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

    const CHILD: &str = "POSTRIDER_TEST_PANICS";

    /// Does nothing but in a process of its own, which the next test starts.
    #[test]
    fn a_thread_and_a_task_that_panic() {
        let Ok(which) = env::var(CHILD) else { return };
        super::ends_the_process();
        let _ = thread::spawn(move || {
            if which == "task" {
                // A runtime catches the panics of its tasks.
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let set = tokio::task::LocalSet::new();
                set.spawn_local(async { panic!("in a task") });
                set.block_on(&runtime, std::future::pending::<()>());
            }
            panic!("in a thread");
        });
        thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn a_panic_in_any_thread_or_task_ends_the_process() {
        for which in ["thread", "task"] {
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", "panic::tests::a_thread_and_a_task_that_panic"])
                .env(CHILD, which)
                .output()
                .unwrap();
            // SIGABRT.
            assert_eq!(output.status.signal(), Some(6), "{which}: {output:?}");
        }
    }
}
