//! Where passwords are hashed: at once, or by two crews that take turns as the server's threads do.

use super::TestWorld;
use lookup::Requester;
use mail::Mono;
use mta::answer::Later;
use mta::hashing_lanes::{Crew, Lanes, Spent, WorkerStep};
use mta::pools::PoolId;
use mta::pressure::{FnGauge, Pressures};
use mta::problems::ClockReading;
use mta::seams::{Hashed, Hashing, Lane, Overloaded};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// One thread of each crew.
const PROCESSORS: usize = 2;

/// Remembers in which lane it hashed, and whether it was for nothing; so it does with turns in which nothing is
/// hashed.
#[derive(Default)]
pub(crate) struct HashingHere {
    hashed: RefCell<Vec<(Lane, bool)>>,
    turns: RefCell<Vec<Lane>>,
    /// How long it takes; nothing: it is done at once, whoever waits.
    takes: Cell<Duration>,
    crews: OnceCell<Arc<Crews>>,
}

impl TestWorld {
    /// Hashing a password takes so long from now on, and passwords take turns for it.
    pub(crate) fn set_hashing_time(&self, takes: Duration, pools: &Pressures) {
        self.0.hashing.takes.set(takes);
        let crews = Arc::clone(self.0.hashing.crews(takes));
        let level = move |_: ClockReading| {
            let (level, most) = crews.lanes().level(crews.now());
            (level, most.map(|(site, count)| (site.to_string(), count)))
        };
        pools.keep(PoolId::Passwords, FnGauge(level));
    }

    /// What was hashed so far: in which lane, and whether for nothing.
    pub(crate) fn hashed(&self) -> Vec<(Lane, bool)> {
        self.0.hashing.hashed.borrow().clone()
    }

    /// In which lanes logins waited for which nothing was hashed.
    pub(crate) fn turns(&self) -> Vec<Lane> {
        self.0.hashing.turns.borrow().clone()
    }
}

/// What came of work, and whoever waits for it.
type Done = (Hashed<()>, Box<dyn FnOnce() + Send>);

struct Job {
    of: (Lane, Requester),
    /// `None`: there was nothing to be done.
    work: Box<dyn FnOnce() -> Option<Done> + Send>,
}

/// The crews.
struct Crews {
    started: Instant,
    takes: Duration,
    lanes: Mutex<Lanes<Job>>,
    more: [Notify; 2],
}

impl Crews {
    fn lanes(&self) -> MutexGuard<'_, Lanes<Job>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Mono {
        Mono(0) + self.started.elapsed()
    }

    fn bell(&self, crew: Crew) -> &Notify {
        &self.more[usize::from(crew == Crew::Paced)]
    }

    fn leave(&self, job: Job, is_idle: bool) -> Result<(), Overloaded> {
        let of = job.of;
        self.lanes().push(of, job, is_idle, self.now())?;
        self.bell(Crew::of(of.0)).notify_one();
        Ok(())
    }

    async fn work(self: Arc<Crews>, crew: Crew) {
        loop {
            let now = self.now();
            let next = self.lanes().next(crew, now);
            let bell = self.bell(crew).notified();
            match next {
                WorkerStep::Nothing => bell.await,
                WorkerStep::Rest(until) => _ = timeout(until.since(now), bell).await,
                WorkerStep::Do(Job { of: (_, asker), work }, lane) => {
                    let done = work();
                    if done.is_some() {
                        sleep(self.takes).await;
                    }
                    let spent = done.map(|(hashed, tell)| {
                        tell();
                        let Hashed { is_wasted, has_failed, .. } = hashed;
                        Spent { is_wasted, has_failed, took: self.takes }
                    });
                    self.lanes().note_done((lane, asker), now, spent, self.takes);
                }
            }
        }
    }
}

impl HashingHere {
    fn crews(&self, takes: Duration) -> &Arc<Crews> {
        self.crews.get_or_init(|| {
            let (lanes, more) = (Mutex::new(Lanes::new(PROCESSORS)), Default::default());
            let crews = Arc::new(Crews { started: Instant::now(), takes, lanes, more });
            for crew in [Crew::Prompt, Crew::Paced] {
                tokio::task::spawn_local(Arc::clone(&crews).work(crew));
            }
            crews
        })
    }

    /// Waits for what a crew does.
    fn left<T: 'static>(
        &self,
        job: Job,
        is_idle: bool,
        answered: oneshot::Receiver<T>,
    ) -> Later<'static, Result<T, Overloaded>> {
        let left = self.crews(self.takes.get()).leave(job, is_idle);
        Box::pin(async move {
            left?;
            answered.await.map_err(|_| Overloaded)
        })
    }
}

impl Hashing for HashingHere {
    fn run<T: Send + 'static>(
        &self,
        of: (Lane, Requester),
        work: impl FnOnce() -> Hashed<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Overloaded>> + 'static {
        if self.takes.get().is_zero() {
            let hashed = work();
            self.hashed.borrow_mut().push((of.0, hashed.is_wasted));
            let at_once: Later<'static, _> = Box::pin(std::future::ready(Ok(hashed.answer)));
            return at_once;
        }
        let (answer, answered) = oneshot::channel();
        let work = move || {
            if answer.is_closed() {
                return None;
            }
            let Hashed { answer: found, is_wasted, has_failed } = work();
            let tell: Box<dyn FnOnce() + Send> = Box::new(move || _ = answer.send(found));
            Some((Hashed { answer: (), is_wasted, has_failed }, tell))
        };
        self.left(Job { of, work: Box::new(work) }, false, answered)
    }

    fn take_turn(
        &self,
        of: (Lane, Requester),
    ) -> impl Future<Output = Result<(), Overloaded>> + 'static {
        self.turns.borrow_mut().push(of.0);
        if self.takes.get().is_zero() {
            let at_once: Later<'static, _> = Box::pin(std::future::ready(Ok(())));
            return at_once;
        }
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let _ = answer.send(());
            None
        };
        self.left(Job { of, work: Box::new(work) }, true, answered)
    }

    fn usual_time(&self) -> Duration {
        self.takes.get()
    }

    fn secret(&self) -> [u8; 16] {
        *b"a fixed secret.."
    }
}
