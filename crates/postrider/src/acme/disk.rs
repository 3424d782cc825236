//! Work on the files of orders. It runs on another thread: a disk that hangs must not delay other services. An interruption
//! of an order waits for the end of the work, as it would wait for a system call.

use crate::limited_work::finished;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Works on files, one job at a time.
#[derive(Debug, Default)]
pub(super) struct DiskWork {
    is_busy: AtomicBool,
}

impl DiskWork {
    /// The result of some work. Only [`DiskWork::unless`] may drop this before its end.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.is_busy.store(true, Ordering::Relaxed);
        let result = finished(work).await;
        self.is_busy.store(false, Ordering::Relaxed);
        result
    }

    /// The output of `task`, which drops its work on files at no time but between two jobs.
    ///
    /// # Errors
    /// The output of `end`, which came before.
    pub(super) async fn unless<E, T>(
        &self,
        end: impl Future<Output = E>,
        task: impl Future<Output = T>,
    ) -> Result<T, E> {
        let (mut end, mut task) = (pin!(end), pin!(task));
        poll_fn(|cx| {
            loop {
                let was_busy = self.is_busy();
                if !was_busy && let Poll::Ready(end) = end.as_mut().poll(cx) {
                    return Poll::Ready(Err(end));
                }
                if let Poll::Ready(output) = task.as_mut().poll(cx) {
                    return Poll::Ready(Ok(output));
                }
                // After a job `end` has its turn.
                if !was_busy || self.is_busy() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio::sync::oneshot;
    use tokio::time::{sleep, timeout};

    #[tokio::test]
    async fn an_end_waits_for_the_job_on_a_file() {
        let disk = DiskWork::default();
        let (release, released) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let mut is_noted = false;
        let task = async {
            assert!(disk.run(move || released.recv().is_ok()).await);
            is_noted = true;
            pending::<()>().await;
        };
        let mut interrupted = Box::pin(disk.unless(stopped, task));
        assert!(timeout(Duration::from_millis(20), &mut interrupted).await.is_err());
        stop.send(7).unwrap();
        assert!(timeout(Duration::from_millis(20), &mut interrupted).await.is_err());
        release.send(()).unwrap();
        assert_eq!(interrupted.await, Err(Ok(7)));
        assert!(is_noted, "what follows the job is done, too");
    }

    #[tokio::test]
    async fn without_a_job_the_first_to_end_counts() {
        let disk = DiskWork::default();
        let short = || sleep(Duration::from_millis(5));
        assert_eq!(disk.unless(short(), pending::<()>()).await, Err(()));
        assert_eq!(disk.unless(pending::<()>(), disk.run(|| 3)).await, Ok(3));
    }
}
