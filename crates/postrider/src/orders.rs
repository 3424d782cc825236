//! Orders of an operator that are written to a file before they are answered, and what rules of shaping have set in force,
//! which is written as well: on a thread of their own, as the disk may hang.

use crate::console::ConsoleLog;
use crate::effects::EffectStore;
use crate::kept_file::StateFiles;
use crate::mutex::lock;
use crate::suspensions::Suspensions;
use crate::under_way::{HANGS_AFTER, WorkRegistry};
use crate::world::clock::wall_now;
use crate::world::listening_socket::AcceptedSocket;
use mta::console::{Console as _, Level};
use mta::control::{Lift, Scope, Suspension};
use mta::inbox::{ShardMessage, ShardSender};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// What could not be written is written again so often.
const KEPT_AGAIN: Duration = Duration::from_secs(10);

/// What came of an order.
pub(crate) type OrderResult = Result<String, String>;

/// What is to be done.
pub(crate) enum Order {
    Suspend(Suspension),
    Resume(Scope),
    Lift(Lift),
    /// Writes what is not written yet.
    Keep,
}

/// Orders that wait for the thread, and what it has told.
pub(crate) struct Orders {
    orders: mpsc::UnboundedSender<(Order, oneshot::Sender<OrderResult>)>,
    suspended: Arc<Mutex<Arc<[Suspension]>>>,
    pub(crate) under_way: WorkRegistry,
}

/// What the thread has.
struct OrderWorker {
    suspensions: Suspensions,
    effects: EffectStore,
    shards: Vec<ShardSender<AcceptedSocket>>,
    suspended: Arc<Mutex<Arc<[Suspension]>>>,
    under_way: WorkRegistry,
    files: StateFiles,
    console: Arc<ConsoleLog>,
}

impl Orders {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub(crate) fn start(
        suspensions: Suspensions,
        effects: EffectStore,
        shards: Vec<ShardSender<AcceptedSocket>>,
        (files, console): (&StateFiles, &Arc<ConsoleLog>),
    ) -> Result<Orders, String> {
        let failed = |error| format!("cannot start a thread: {error}");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let (orders, taken) = mpsc::unbounded_channel();
        let suspended = Arc::new(Mutex::new(suspensions.in_force(wall_now())));
        let under_way = WorkRegistry::default();
        let clerk = OrderWorker {
            suspensions,
            effects,
            shards,
            suspended: Arc::clone(&suspended),
            under_way: under_way.clone(),
            files: files.clone(),
            console: Arc::clone(console),
        };
        let run = move || runtime.block_on(clerk.run(taken));
        thread::Builder::new().name("orders".to_owned()).spawn(run).map_err(failed)?;
        Ok(Orders { orders, suspended, under_way })
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
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<(Order, oneshot::Sender<OrderResult>)>,
    ) {
        let mut effects = self.effects.follow();
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => {
                    let Some((order, answer)) = order else { return };
                    let work = self.under_way.begin("the disk of the first spool directory");
                    let told = self.carry_out(order);
                    drop(work);
                    let _ = answer.send(told);
                }
                () = tokio::time::sleep(KEPT_AGAIN), if self.suspensions.unkept().is_some() => {
                    let work = self.under_way.begin("the disk of the first spool directory");
                    self.suspensions.keep();
                    self.note_kept(true);
                    drop(work);
                }
                Ok(()) = effects.changed() => {
                    let work = self.under_way.begin("the disk of the first spool directory");
                    self.effects.keep(&self.console);
                    drop(work);
                }
            }
        }
    }

    fn carry_out(&mut self, order: Order) -> OrderResult {
        let done = match order {
            Order::Suspend(suspension) => self.suspensions.suspend(suspension, wall_now()),
            Order::Resume(scope) => self.suspensions.resume(&scope, wall_now()),
            Order::Lift(lift) => return told(self.effects.lift(&lift), &self.console),
            Order::Keep => {
                self.effects.keep(&self.console);
                return Ok(String::new());
            }
        };
        if done.is_ok() {
            self.note_kept(false);
            let all = self.suspensions.in_force(wall_now());
            *lock(&self.suspended) = Arc::clone(&all);
            for shard in &self.shards {
                let _ = shard.send(ShardMessage::Suspensions(Arc::clone(&all)));
            }
        }
        told(done, &self.console)
    }

    /// Whether what is suspended is on disk is a problem or none.
    fn note_kept(&self, is_known: bool) {
        let shown = self.suspensions.shown();
        match self.suspensions.unkept() {
            None => self.files.written(Path::new(&shown)),
            Some(_) if is_known => {}
            Some(why) => self.files.unwritten("suspensions", Path::new(&shown), why),
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
