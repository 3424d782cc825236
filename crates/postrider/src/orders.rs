//! Orders of an operator, which are written to a file before they are answered, and effects of shaping rules, which are
//! written as well: by a job beside the shards (`file_watch`), as the disk may hang.

use crate::console::ConsoleLog;
use crate::effects::EffectStore;
use crate::file_watch::{Bell, FileJobs};
use crate::kept_file::StateFiles;
use crate::mutex::lock;
use crate::revoked_logins::RevokedLogins;
use crate::suspensions::Suspensions;
use crate::under_way::{HANGS_AFTER, WorkRegistry};
use crate::world::clock::wall_now;
use crate::world::listening_socket::AcceptedSocket;
use mta::console::{Console as _, Level};
use mta::control::{Effect, Lift, Revocation, Scope, Suspension};
use mta::inbox::{ShardMessage, ShardSender};
use mta::login_registry::LoginRegistry;
use mta::watched::Watcher;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Pause before suspensions that could not be written are written again.
const KEPT_AGAIN: Duration = Duration::from_secs(10);

/// For people, when it hangs.
const DISK: &str = "the disk of the first spool directory";

/// What came of an order.
pub(crate) type OrderResult = Result<String, String>;

/// What is to be done.
pub(crate) enum Order {
    Suspend(Suspension),
    Resume(Scope),
    Lift(Lift),
    Revoke(Revocation),
    /// Ends the revocation of this login.
    Allow(String),
    /// Writes what is not written yet.
    Keep,
}

/// An order, and the caller that waits for its result.
type PendingOrder = (Order, oneshot::Sender<OrderResult>);

/// Orders that wait for the job, and its results.
pub(crate) struct Orders {
    orders: mpsc::Sender<PendingOrder>,
    bell: Bell,
    suspended: Arc<Mutex<Arc<[Suspension]>>>,
    pub(crate) under_way: WorkRegistry,
}

/// The job's own.
struct OrderWorker {
    orders: mpsc::Receiver<PendingOrder>,
    suspensions: Suspensions,
    revoked: RevokedLogins,
    /// Time of the last attempt to write a file.
    written_at: Instant,
    effects: EffectStore,
    changes: Watcher<Arc<[Effect]>>,
    shards: Vec<ShardSender<AcceptedSocket>>,
    logins: Arc<LoginRegistry>,
    suspended: Arc<Mutex<Arc<[Suspension]>>>,
    under_way: WorkRegistry,
    files: StateFiles,
    console: Arc<ConsoleLog>,
}

impl Orders {
    /// Starts the job, which is one of `jobs`.
    pub(crate) fn start(
        (suspensions, revoked): (Suspensions, RevokedLogins),
        effects: EffectStore,
        (shards, logins): (Vec<ShardSender<AcceptedSocket>>, &Arc<LoginRegistry>),
        (files, jobs, console): (&StateFiles, &FileJobs, &Arc<ConsoleLog>),
    ) -> Orders {
        let (orders, waiting) = mpsc::channel();
        let suspended = Arc::new(Mutex::new(suspensions.in_force(wall_now())));
        let under_way = WorkRegistry::default();
        let mut clerk = OrderWorker {
            orders: waiting,
            suspensions,
            revoked,
            logins: Arc::clone(logins),
            written_at: Instant::now(),
            changes: effects.follow(),
            effects,
            shards,
            suspended: Arc::clone(&suspended),
            under_way: under_way.clone(),
            files: files.clone(),
            console: Arc::clone(console),
        };
        let bell = jobs.add(move |bell| Some(clerk.work(bell)));
        Orders { orders, bell, suspended, under_way }
    }

    /// What is suspended now.
    pub(crate) fn suspended(&self) -> Vec<Suspension> {
        let now = wall_now();
        let all = Arc::clone(&lock(&self.suspended));
        all.iter().filter(|one| one.until.is_none_or(|until| until > now)).cloned().collect()
    }

    /// Has an order carried out. Where the disk hangs the answer says so, and the order is carried out when it
    /// does not any more.
    pub(crate) fn give(&self, order: Order) -> impl Future<Output = OrderResult> + use<> {
        let (answer, answered) = oneshot::channel();
        let is_given = self.orders.send((order, answer)).is_ok();
        self.bell.ring();
        let hanging = self.under_way.oldest();
        async move {
            let stopping = || Err("the server is stopping".to_owned());
            if !is_given {
                return stopping();
            }
            // Behind one that hangs nobody waits again.
            let patience = if hanging.is_some() { std::time::Duration::ZERO } else { HANGS_AFTER };
            match timeout(patience, answered).await {
                Ok(told) => told.unwrap_or_else(|_| stopping()),
                Err(_) => {
                    let why = hanging.unwrap_or_else(|| "the spool's disk hangs".to_owned());
                    Err(format!("{why}: the command is executed when it recovers"))
                }
            }
        }
    }
}

impl OrderWorker {
    /// Carries out the orders that wait, then writes. Returns the pause before the next time; `bell` wakes it before.
    fn work(&mut self, bell: &Waker) -> Duration {
        while let Ok((order, answer)) = self.orders.try_recv() {
            let work = self.under_way.begin(DISK);
            let told = self.carry_out(order);
            drop(work);
            let _ = answer.send(told);
        }
        if self.is_unkept() && self.written_at.elapsed() >= KEPT_AGAIN {
            let _work = self.under_way.begin(DISK);
            self.suspensions.list().keep();
            self.revoked.list().keep();
            self.note_kept(true);
        }
        if let Poll::Ready(Ok(())) =
            pin!(self.changes.changed()).poll(&mut Context::from_waker(bell))
        {
            let _work = self.under_way.begin(DISK);
            self.effects.keep(&self.console);
            // The next change rings only after it was asked for; orders come first.
            return Duration::ZERO;
        }
        match self.is_unkept() {
            true => KEPT_AGAIN.saturating_sub(self.written_at.elapsed()),
            false => KEPT_AGAIN,
        }
    }

    fn carry_out(&mut self, order: Order) -> OrderResult {
        let done = match order {
            Order::Suspend(suspension) => self.suspensions.suspend(suspension, wall_now()),
            Order::Resume(scope) => self.suspensions.resume(&scope, wall_now()),
            Order::Revoke(revocation) => self.revoked.revoke(revocation, wall_now()),
            Order::Allow(login) => self.revoked.allow(&login),
            Order::Lift(lift) => return told(self.effects.lift(&lift), &self.console),
            Order::Keep => {
                self.effects.keep(&self.console);
                return Ok(String::new());
            }
        };
        if done.is_ok() {
            self.note_kept(false);
            self.logins.adopt(self.revoked.all());
            let all = self.suspensions.in_force(wall_now());
            *lock(&self.suspended) = Arc::clone(&all);
            for shard in &self.shards {
                let _ = shard.send(ShardMessage::Suspensions(Arc::clone(&all)));
            }
        }
        told(done, &self.console)
    }

    /// Returns true if a restart would lose orders.
    fn is_unkept(&mut self) -> bool {
        self.suspensions.list().unkept().is_some() || self.revoked.list().unkept().is_some()
    }

    /// Sets or clears the problems of orders that are not on disk, after an attempt to write them.
    fn note_kept(&mut self, is_known: bool) {
        self.written_at = Instant::now();
        let suspensions = self.suspensions.list();
        let suspensions = ("suspensions", suspensions.shown(), suspensions.unkept());
        let revoked = self.revoked.list();
        let revoked = ("logins", revoked.shown(), revoked.unkept());
        for (topic, shown, unkept) in [suspensions, revoked] {
            match unkept {
                None => self.files.written(Path::new(&shown)),
                Some(_) if is_known => {}
                Some(why) => self.files.unwritten(topic, Path::new(&shown), why),
            }
        }
    }
}

/// Notes on the console what an operator has done.
pub(crate) fn told(done: OrderResult, console: &ConsoleLog) -> OrderResult {
    if let Ok(text) = &done {
        console.line(Level::Info, "operator", format_args!("{text}"));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_watch::FileWatch;
    use mta::shared::SharedState;
    use std::process::Command;

    fn orders(directory: &Path) -> Orders {
        let text = format!(
            "[spool]\npath = \"{}\"\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n",
            directory.display()
        );
        let config = channels::sections().parse(&text, "test.toml").unwrap();
        let console = Arc::new(ConsoleLog::stderr(Level::Error));
        let shared = Arc::new(SharedState::new(&config, 1));
        let (suspensions, lost) = Suspensions::open(directory, wall_now());
        assert_eq!(lost, None);
        let effects = EffectStore::open(&config, &shared, &console);
        let jobs = FileJobs::at(&FileWatch::start().unwrap(), directory);
        let kept = (&StateFiles::new(&console), &jobs, &console);
        let (revoked, lost) = RevokedLogins::open(directory);
        assert_eq!(lost, None);
        Orders::start((suspensions, revoked), effects, (Vec::new(), &shared.logins), kept)
    }

    fn suspend(domain: &str) -> Order {
        let scope = Scope { domain: Some(domain.to_owned()), ..Scope::default() };
        Order::Suspend(Suspension { scope, reason: String::new(), since: wall_now(), until: None })
    }

    fn kept(directory: &Path) -> usize {
        Suspensions::open(directory, wall_now()).0.in_force(wall_now()).len()
    }

    #[tokio::test]
    async fn orders_are_on_disk_when_they_are_answered() {
        let directory = tempfile::tempdir().unwrap();
        let orders = orders(directory.path());
        for count in 1..=5 {
            orders.give(suspend(&format!("{count}.test"))).await.unwrap();
            assert_eq!((kept(directory.path()), orders.suspended().len()), (count, count));
        }
        // Given together, in one run.
        let given: Vec<_> = (6..=50).map(|n| orders.give(suspend(&format!("{n}.test")))).collect();
        for answer in given {
            answer.await.unwrap();
        }
        assert_eq!(kept(directory.path()), 50);
        assert_eq!(orders.give(Order::Keep).await, Ok(String::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn order_on_a_hanging_disk_is_answered_and_carried_out_later() {
        let directory = tempfile::tempdir().unwrap();
        let fresh = directory.path().join("suspensions.json.new");
        assert!(Command::new("mkfifo").arg(&fresh).status().unwrap().success());
        let orders = orders(directory.path());
        // Time passes at once where only the disk is waited for.
        let why = orders.give(suspend("a.test")).await.unwrap_err();
        assert!(why.ends_with("hangs: the command is executed when it recovers"), "{why}");
        assert!(orders.suspended().is_empty());
        let mut pipe = std::fs::File::open(&fresh).unwrap();
        std::fs::remove_file(&fresh).unwrap();
        std::io::copy(&mut pipe, &mut std::io::sink()).unwrap();
        while orders.suspended().is_empty() {
            std::thread::yield_now();
        }
        // What the pipe took is written with the next order.
        drop(orders.give(suspend("b.test")));
        while kept(directory.path()) < 2 {
            std::thread::yield_now();
        }
    }
}
