//! Tasks of the node, on the test's own thread.

use mta::seams::{Spawn, Task};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// The tasks, and what they leave to others.
#[derive(Clone, Default)]
pub(crate) struct LocalTasks(Rc<Tasks>);

#[derive(Default)]
struct Tasks {
    running: RefCell<Vec<AbortHandle>>,
    long_work_done: Cell<usize>,
    long_work_stands: Cell<bool>,
}

impl LocalTasks {
    /// The process ends where it stands.
    pub(crate) fn end(&self) {
        self.0.running.borrow_mut().drain(..).for_each(|task| task.abort());
    }

    pub(super) fn set_long_work_stands(&self, stands: bool) {
        self.0.long_work_stands.set(stands);
    }

    pub(super) fn long_work_done(&self) -> usize {
        self.0.long_work_done.get()
    }
}

impl Spawn for LocalTasks {
    fn spawn(&self, task: Task) {
        self.0.running.borrow_mut().push(tokio::task::spawn_local(task).abort_handle());
    }

    fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + 'static {
        let tasks = Rc::clone(&self.0);
        async move {
            while tasks.long_work_stands.get() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tasks.long_work_done.set(tasks.long_work_done.get() + 1);
            Some(work())
        }
    }
}
