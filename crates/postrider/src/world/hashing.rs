//! The threads that hash passwords: few, and of low priority, as whoever guesses passwords has them
//! work. They are started when the first password is checked: a server without logins has none.

use crate::mutex::lock;
use mta::seams::{Hashing, Overloaded};
use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

/// No more threads, however many processors there are. Each may take 256 MiB for a hash
/// (`auth::password`).
const THREADS_MAX: usize = 8;
/// What waits to be hashed; beyond it clients are told to come again.
const WAITING_MAX: usize = 256;
/// How much others go first (nice(2), on Linux for one thread).
const NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

/// A way to the threads; each shard has one.
#[derive(Clone)]
pub(crate) struct HashingThreads(Arc<Open>);

/// The desk, as long as anybody may leave something there.
struct Open {
    desk: Arc<Desk>,
    threads_max: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.desk.state).is_closed = true;
        self.desk.more.notify_all();
    }
}

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl HashingThreads {
    /// A thread for two processors.
    pub(crate) fn new() -> HashingThreads {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        HashingThreads::with_threads((processors / 2).clamp(1, THREADS_MAX))
    }

    fn with_threads(threads_max: usize) -> HashingThreads {
        HashingThreads(Arc::new(Open { desk: Arc::default(), threads_max }))
    }

    fn leave(&self, job: Job) -> Result<(), Overloaded> {
        let desk = &self.0.desk;
        let mut state = lock(&desk.state);
        if state.jobs.len() >= WAITING_MAX {
            return Err(Overloaded);
        }
        if state.idle <= state.jobs.len() && state.threads < self.0.threads_max {
            let theirs = Arc::clone(desk);
            let name = format!("hashing-{}", state.threads);
            let started = thread::Builder::new().name(name).spawn(move || theirs.work());
            // Without a new one those that there are do it.
            state.threads += usize::from(started.is_ok());
            if state.threads == 0 {
                return Err(Overloaded);
            }
        }
        state.jobs.push_back(job);
        desk.more.notify_one();
        Ok(())
    }
}

impl Desk {
    fn work(&self) {
        // Where that is not allowed the work is done all the same.
        let _ = rustix::process::nice(NICE);
        while let Some(job) = self.take() {
            job();
        }
    }

    /// Waits for the next job; `None`: there will be none.
    fn take(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Hashing for HashingThreads {
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Overloaded>> + 'static {
        let (answer, answered) = oneshot::channel();
        let left = self.leave(Box::new(move || {
            // Nobody waits any more: the session has ended.
            if !answer.is_closed() {
                let _ = answer.send(work());
            }
        }));
        async move {
            left?;
            answered.await.map_err(|_| Overloaded)
        }
    }

    fn secret(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            // Only a signal ends it early, and then it is asked again.
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(rest, flags).unwrap_or(0);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn as_much_waits_as_may_and_all_of_it_is_done() {
        let hashing = HashingThreads::with_threads(1);
        assert_eq!(lock(&hashing.0.desk.state).threads, 0, "nobody has asked yet");
        let (go, wait_for_go) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let first = hashing.run(move || {
            begun.send(()).unwrap();
            wait_for_go.recv().unwrap();
            0
        });
        has_begun.recv().unwrap();
        let waiting: Vec<_> = (1..=WAITING_MAX).map(|n| hashing.run(move || n)).collect();
        assert_eq!(wait(hashing.run(|| 0)), Err(Overloaded));
        go.send(()).unwrap();
        assert_eq!(wait(first), Ok(0));
        for (n, waiting) in waiting.into_iter().enumerate() {
            assert_eq!(wait(waiting), Ok(n + 1));
        }
        assert_eq!(wait(hashing.run(|| 7)), Ok(7));
        assert_eq!(lock(&hashing.0.desk.state).threads, 1);
    }

    #[test]
    fn what_nobody_waits_for_is_not_done() {
        let hashing = HashingThreads::with_threads(1);
        let (go, wait_for_go) = mpsc::channel::<()>();
        let (done, was_done) = mpsc::channel();
        let first = hashing.run(move || wait_for_go.recv().unwrap());
        drop(hashing.run(move || done.send(()).unwrap()));
        go.send(()).unwrap();
        assert_eq!(wait(first), Ok(()));
        assert_eq!(wait(hashing.run(|| ())), Ok(()));
        assert!(was_done.try_recv().is_err());
    }

    #[test]
    fn secrets_differ() {
        let hashing = HashingThreads::new();
        assert_ne!(hashing.secret(), hashing.secret());
    }
}
