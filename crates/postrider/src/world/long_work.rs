//! Threads for long computations: conversions between X.400 and internet mail. They start with the first job, and have
//! low priority, so that shards go first.

use crate::mutex::lock;
use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

/// Maximum number of threads on any number of processors. The queue is bounded by its memory.
const THREADS_MAX: usize = 4;
/// Niceness of the threads (nice(2), on Linux per thread).
const NICE: i32 = 10;

type LongWorkJob = Box<dyn FnOnce() + Send>;

/// A handle to the threads; each shard has one.
#[derive(Clone)]
pub(crate) struct LongWork(Arc<LongWorkQueueHandle>);

/// The queue; dropping it ends the threads.
struct LongWorkQueueHandle {
    desk: Arc<LongWorkQueue>,
    threads_max: usize,
}

impl Drop for LongWorkQueueHandle {
    fn drop(&mut self) {
        lock(&self.desk.state).is_closed = true;
        self.desk.more.notify_all();
    }
}

#[derive(Default)]
struct LongWorkQueue {
    state: Mutex<State>,
    /// Rings when there is more to do.
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// The first that was left is done first.
    waiting: VecDeque<LongWorkJob>,
    started: usize,
    idle: usize,
    is_closed: bool,
}

impl LongWork {
    /// Half as many threads as there are processors, and one at least.
    pub(crate) fn new() -> LongWork {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads_max = (processors / 2).clamp(1, THREADS_MAX);
        LongWork(Arc::new(LongWorkQueueHandle { desk: Arc::default(), threads_max }))
    }

    /// Runs a job on one of the threads. `None` if no thread could run it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + 'static {
        let (answer, answered) = oneshot::channel();
        let work = move || {
            // Skip the work if its connection has ended.
            if !answer.is_closed() {
                let _ = answer.send(work());
            }
        };
        self.leave(Box::new(work));
        async move { answered.await.ok() }
    }

    fn leave(&self, work: LongWorkJob) {
        let desk = &self.0.desk;
        let mut state = lock(&desk.state);
        if state.idle <= state.waiting.len() && state.started < self.0.threads_max {
            let theirs = Arc::clone(desk);
            let name = format!("long-work-{}", state.started);
            let started = thread::Builder::new().name(name).spawn(move || theirs.serve());
            // If no thread can be created, existing threads do the work.
            state.started += usize::from(started.is_ok());
        }
        // Without any thread the work is dropped, which notifies its caller.
        if state.started > 0 {
            state.waiting.push_back(work);
            desk.more.notify_one();
        }
    }
}

impl LongWorkQueue {
    fn serve(&self) {
        // Failure is harmless: the work runs at normal priority.
        let _ = rustix::process::nice(NICE);
        while let Some(work) = self.take() {
            work();
        }
    }

    /// Waits for the next; `None`: there will be none.
    fn take(&self) -> Option<LongWorkJob> {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(work) = state.waiting.pop_front() {
                return Some(work);
            }
            state.idle += 1;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_work_is_done_by_others() {
        let long_work = LongWork::new();
        let here = thread::current().id();
        let elsewhere = long_work.run(|| thread::current().id()).await;
        assert!(elsewhere.is_some_and(|thread| thread != here));
        // What nobody waits for any more is not done.
        let (done, counted) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let blocks: Vec<_> =
            std::iter::once(wait).map(|wait| long_work.run(move || wait.recv().is_ok())).collect();
        for number in 0..3 {
            let done = done.clone();
            let future = long_work.run(move || done.send(number).is_ok());
            if number != 1 {
                tokio::spawn(future);
            }
        }
        drop((go, done));
        for block in blocks {
            assert_eq!(block.await, Some(false));
        }
        let mut all: Vec<i32> = Vec::new();
        while let Ok(number) = counted.recv() {
            all.push(number);
        }
        // With several threads the second may have begun before it was given up.
        all.retain(|number| *number != 1);
        all.sort_unstable();
        assert_eq!(all, [0, 2]);
    }
}
