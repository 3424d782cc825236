//! The thread that services share. Their tasks wait there for sockets and clocks, and for nothing else: reading or
//! writing a file, and computing for long, belong on another thread ([`crate::limited_work::finished`]). A disk that
//! hangs then delays one service only.

use crate::mutex::lock;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};

/// Makes a task on the thread.
type TaskSeed = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The thread of the process for tasks of services. It starts with the first service that needs it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ServiceRuntime(Arc<Mutex<Option<TaskSpawner>>>);

/// Starts tasks on the running thread, which ends with the last spawner.
#[derive(Clone)]
pub(crate) struct TaskSpawner(mpsc::UnboundedSender<TaskSeed>);

impl ServiceRuntime {
    /// Starts the thread unless it runs.
    ///
    /// # Errors
    /// A sentence, when the system gives no thread.
    pub(crate) fn start(&self) -> Result<TaskSpawner, String> {
        let mut started = lock(&self.0);
        if let Some(tasks) = &*started {
            return Ok(tasks.clone());
        }
        let tasks = run().map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(started.insert(tasks).clone())
    }
}

impl TaskSpawner {
    /// Starts a task. `make` is called on the thread; the task stays there.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        // The thread receives as long as there is a sender.
        let _ = self.0.send(Box::new(move || Box::pin(make())));
    }
}

fn run() -> io::Result<TaskSpawner> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, mut seeds) = mpsc::unbounded_channel::<TaskSeed>();
    thread::Builder::new().name("services".to_owned()).spawn(move || {
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, async move {
            while let Some(seed) = seeds.recv().await {
                spawn_local(seed());
            }
        });
        // Sockets are closed within the runtime that they belong to.
        let within = runtime.enter();
        drop(tasks);
        drop(within);
        // A lookup of a name or a read of a file may hang.
        runtime.shutdown_background();
    })?;
    Ok(TaskSpawner(sender))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc as std_mpsc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn services_share_a_thread_that_ends_with_them() {
        let runtime = ServiceRuntime::default();
        let (sender, names) = std_mpsc::channel();
        for tasks in [runtime.start().unwrap(), runtime.clone().start().unwrap()] {
            let sender = sender.clone();
            tasks.spawn(move || async move {
                let thread = thread::current();
                sender.send((thread.id(), thread.name().map(str::to_owned))).unwrap();
            });
        }
        let (first, second) =
            (names.recv_timeout(LONG).unwrap(), names.recv_timeout(LONG).unwrap());
        assert_eq!(first, second);
        assert_eq!(first.1.as_deref(), Some("services"));
        // A task that waits is dropped.
        runtime.start().unwrap().spawn(move || async move {
            sender.send((thread::current().id(), None)).unwrap();
            std::future::pending::<()>().await;
            drop(sender);
        });
        names.recv_timeout(LONG).unwrap();
        drop(runtime);
        assert_eq!(names.recv_timeout(LONG), Err(std_mpsc::RecvTimeoutError::Disconnected));
    }
}
