//! Threads for password hashing: few, and of low priority, because password guessing causes load. One half serves known
//! clients, the other half all other clients, as in [`mta::hashing_lanes`]. They start at the first password check; a
//! server without logins has none.

use crate::mutex::lock;
use lookup::Requester;
use mail::Mono;
use mta::hashing_lanes::{Crew, Lanes, Spent, WorkerStep};
use mta::pressure::{FnGauge, Gauge};
use mta::problems::ClockReading;
use mta::seams::{Hashed, Hashing, Lane, Overloaded};
use rustix::time::{ClockId, clock_gettime};
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// No more threads in a crew, however many processors there are. Each may take 256 MiB for a hash
/// (`auth::password`).
const THREADS_MAX: usize = 4;
/// Niceness of the threads (nice(2), on Linux per thread).
const NICE: i32 = 10;

/// Something to be done, or only a turn to be taken.
struct Job {
    lane: Lane,
    asker: Requester,
    /// The work with its result; `None` if nothing was done.
    work: Box<dyn FnOnce() -> Option<Hashed<()>> + Send>,
}

/// A handle to the threads; each shard has one.
#[derive(Clone)]
pub(crate) struct HashingThreads(Arc<HashingQueueHandle>);

/// The queue; dropping it ends the threads.
struct HashingQueueHandle {
    desk: Arc<HashingQueue>,
    threads_max: usize,
}

impl Drop for HashingQueueHandle {
    fn drop(&mut self) {
        self.desk.lock().is_closed = true;
        self.desk.prompt.more.notify_all();
        self.desk.paced.more.notify_all();
    }
}

struct HashingQueue {
    started: Instant,
    state: Mutex<State>,
    /// Processor time of the last check in microseconds.
    usual_us: AtomicU64,
    prompt: WorkSignal,
    paced: WorkSignal,
}

/// Rings when there is more to do for a crew.
#[derive(Default)]
struct WorkSignal {
    more: Condvar,
}

struct State {
    lanes: Lanes<Job>,
    prompt: Threads,
    paced: Threads,
    is_closed: bool,
}

/// Threads of a crew.
#[derive(Default)]
struct Threads {
    started: usize,
    idle: usize,
}

impl State {
    fn threads(&mut self, crew: Crew) -> &mut Threads {
        match crew {
            Crew::Prompt => &mut self.prompt,
            Crew::Paced => &mut self.paced,
        }
    }
}

impl HashingThreads {
    /// Two threads for two processors, one of each crew.
    pub(crate) fn new() -> HashingThreads {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        HashingThreads::with_threads(processors, (processors / 2).clamp(1, THREADS_MAX))
    }

    fn with_threads(processors: usize, threads_max: usize) -> HashingThreads {
        let state = State {
            lanes: Lanes::new(processors),
            prompt: Threads::default(),
            paced: Threads::default(),
            is_closed: false,
        };
        let desk = HashingQueue {
            started: Instant::now(),
            state: Mutex::new(state),
            usual_us: AtomicU64::new(0),
            prompt: WorkSignal::default(),
            paced: WorkSignal::default(),
        };
        HashingThreads(Arc::new(HashingQueueHandle { desk: Arc::new(desk), threads_max }))
    }

    /// Shows how much waits.
    pub(crate) fn gauge(&self) -> impl Gauge + use<> {
        let desk = Arc::clone(&self.0.desk);
        FnGauge(move |_: ClockReading| {
            let (level, most) = desk.lock().lanes.level(desk.now());
            (level, most.map(|(site, count)| (site.to_string(), count)))
        })
    }

    fn leave(&self, job: Job, is_idle: bool) -> Result<(), Overloaded> {
        let (desk, lane, asker) = (&self.0.desk, job.lane, job.asker);
        let crew = Crew::of(lane);
        let mut state = desk.lock();
        let waiting = state.lanes.waiting(crew);
        let threads = state.threads(crew);
        if threads.idle <= waiting && threads.started < self.0.threads_max {
            let theirs = Arc::clone(desk);
            let name = match crew {
                Crew::Prompt => format!("hashing-{}", threads.started),
                Crew::Paced => format!("hashing-paced-{}", threads.started),
            };
            let started = thread::Builder::new().name(name).spawn(move || theirs.work(crew));
            // If no thread can be created, existing threads do the work.
            threads.started += usize::from(started.is_ok());
            if threads.started == 0 {
                return Err(Overloaded);
            }
        }
        state.lanes.push((lane, asker), job, is_idle, desk.now())?;
        desk.bell(crew).more.notify_one();
        Ok(())
    }
}

impl HashingQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn now(&self) -> Mono {
        Mono(0) + self.started.elapsed()
    }

    fn bell(&self, crew: Crew) -> &WorkSignal {
        match crew {
            Crew::Prompt => &self.prompt,
            Crew::Paced => &self.paced,
        }
    }

    fn work(&self, crew: Crew) {
        // Failure is harmless: the work runs at normal priority.
        let _ = rustix::process::nice(NICE);
        while let Some((job, lane)) = self.take(crew) {
            let (began, before) = (self.now(), processor_time());
            let Job { asker, work, .. } = job;
            let usual = Duration::from_micros(self.usual_us.load(Ordering::Relaxed));
            let spent = work().map(|Hashed { is_wasted, has_failed, .. }| {
                let took = processor_time().saturating_sub(before);
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.usual_us.store(took_us, Ordering::Relaxed);
                Spent { is_wasted, has_failed, took }
            });
            self.lock().lanes.note_done((lane, asker), began, spent, usual);
        }
    }

    /// Waits for the next job, and in which lane it waited; `None`: there will be none.
    fn take(&self, crew: Crew) -> Option<(Job, Lane)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let now = self.now();
            let bell = &self.bell(crew).more;
            match state.lanes.next(crew, now) {
                WorkerStep::Do(job, lane) => return Some((job, lane)),
                // The thread pauses, and new jobs wait for its end.
                WorkerStep::Rest(until) => {
                    let waited = bell.wait_timeout(state, until.since(now));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                WorkerStep::Nothing => {
                    state.threads(crew).idle += 1;
                    state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.threads(crew).idle -= 1;
                }
            }
        }
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Hashing for HashingThreads {
    fn run<T: Send + 'static>(
        &self,
        (lane, asker): (Lane, Requester),
        work: impl FnOnce() -> Hashed<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Overloaded>> + 'static {
        let (answer, answered) = oneshot::channel();
        let work = move || {
            // The session has ended.
            if answer.is_closed() {
                return None;
            }
            let Hashed { answer: found, is_wasted, has_failed } = work();
            let _ = answer.send(found);
            Some(Hashed { answer: (), is_wasted, has_failed })
        };
        let left = self.leave(Job { lane, asker, work: Box::new(work) }, false);
        async move {
            left?;
            answered.await.map_err(|_| Overloaded)
        }
    }

    fn take_turn(
        &self,
        (lane, asker): (Lane, Requester),
    ) -> impl Future<Output = Result<(), Overloaded>> + 'static {
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let _ = answer.send(());
            None
        };
        let left = self.leave(Job { lane, asker, work: Box::new(work) }, true);
        async move {
            left?;
            answered.await.map_err(|_| Overloaded)
        }
    }

    fn usual_time(&self) -> Duration {
        Duration::from_micros(self.0.desk.usual_us.load(Ordering::Relaxed))
    }

    fn secret(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            // Only a signal interrupts it, and then it is retried.
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

    fn right<T>(answer: T) -> Hashed<T> {
        Hashed { answer, is_wasted: false, has_failed: false }
    }

    #[test]
    fn as_much_waits_as_may_and_all_of_it_is_done() {
        let hashing = HashingThreads::with_threads(1, 1);
        assert_eq!(hashing.0.desk.lock().prompt.started, 0, "nobody has asked yet");
        let (go, wait_for_go) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let first = hashing.run((Lane::Known, Requester::Ours), move || {
            begun.send(()).unwrap();
            wait_for_go.recv().unwrap();
            right(0)
        });
        has_begun.recv().unwrap();
        let mut waiting = Vec::new();
        for n in 1.. {
            waiting.push(hashing.run((Lane::Known, Requester::Ours), move || right(n)));
            if hashing.0.desk.lock().lanes.waiting(Crew::Prompt) < waiting.len() {
                break;
            }
        }
        let beyond = waiting.pop().unwrap();
        assert_eq!(wait(beyond), Err(Overloaded));
        go.send(()).unwrap();
        assert_eq!(wait(first), Ok(0));
        for (n, waiting) in waiting.into_iter().enumerate() {
            assert_eq!(wait(waiting), Ok(n + 1));
        }
        assert_eq!(wait(hashing.run((Lane::Known, Requester::Ours), || right(7))), Ok(7));
        let state = hashing.0.desk.lock();
        assert_eq!((state.prompt.started, state.paced.started), (1, 0));
    }

    #[test]
    fn what_nobody_waits_for_is_not_done() {
        let hashing = HashingThreads::with_threads(1, 1);
        let (go, wait_for_go) = mpsc::channel::<()>();
        let (done, was_done) = mpsc::channel();
        let first =
            hashing.run((Lane::Known, Requester::Ours), move || right(wait_for_go.recv().is_ok()));
        drop(hashing.run((Lane::Known, Requester::Ours), move || right(done.send(()).is_ok())));
        go.send(()).unwrap();
        assert_eq!(wait(first), Ok(true));
        assert_eq!(wait(hashing.run((Lane::Known, Requester::Ours), || right(7))), Ok(7));
        assert!(was_done.try_recv().is_err());
    }

    #[test]
    fn a_known_client_is_done_with_while_all_others_wait() {
        let hashing = HashingThreads::with_threads(1, 1);
        let (go, wait_for_go) = mpsc::channel::<()>();
        let guess = hashing.run((Lane::Suspect, Requester::Ours), move || {
            wait_for_go.recv().unwrap();
            Hashed { answer: (), is_wasted: true, has_failed: true }
        });
        let other = hashing.run((Lane::Stranger, Requester::Ours), || right(1));
        assert_eq!(wait(hashing.run((Lane::Known, Requester::Ours), || right(2))), Ok(2));
        go.send(()).unwrap();
        assert_eq!(wait(guess), Ok(()));
        assert_eq!(wait(other), Ok(1), "so little is owed that it is no rest");
    }

    #[test]
    fn processor_time_is_that_of_work() {
        let before = processor_time();
        while processor_time() == before {
            std::hint::spin_loop();
        }
        let before = processor_time();
        thread::spawn(|| {
            let before = processor_time();
            while processor_time() < before + Duration::from_millis(50) {
                std::hint::spin_loop();
            }
        })
        .join()
        .unwrap();
        assert!(processor_time() - before < Duration::from_millis(50), "another's is not counted");
    }

    #[test]
    fn secrets_differ() {
        let hashing = HashingThreads::new();
        assert_ne!(hashing.secret(), hashing.secret());
    }
}
