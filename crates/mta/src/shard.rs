//! A shard: connects its parts, handles messages from other threads, and turns the schedule's decisions into tasks.
//!
//! Everything here is on one thread; other threads send a [`ShardMessage`].

use crate::alarm::Alarm;
use crate::commands;
use crate::console::Console;
use crate::control::Suspension;
use crate::custody::{Custody, LogPort};
use crate::delivery::{
    Channels, Delivery, giving_up, locating::start_locating, mailbox_check, start::start_connection,
};
use crate::event::{EventSink, Kind};
use crate::inbox::{ShardMessage, ShardSender};
use crate::ingress::{
    self, Ingress, Protocols, RehearsedMail, RehearsedRefusal, Resolved, StageKinds, rehearsal,
    start::start_session,
};
use crate::metrics::Metrics;
use crate::operator::Operator;
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::reply_classes::ReplyClasses;
use crate::routing::Router;
use crate::schedule::application::start_resolution;
use crate::schedule::{Schedule, standing, trouble, warmup};
use crate::seams::{Net, World};
use crate::services::{SCRATCH_BYTES, Services};
use crate::shared::SharedState;
use crate::stopping::Stopping;
use crate::watched::Signal;
use config::Config;
use queue::Action;
use spool::RecoveredMessage;
#[cfg(feature = "planted")]
use std::cell::Cell;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Interval at which idle connections are checked while the process has few permits left.
const FRUGAL_EVERY: Duration = Duration::from_millis(100);
/// Time for sessions to send a 421 reply after the grace period of a shutdown.
const LAST_REPLIES: Duration = Duration::from_millis(200);
/// Time for the last settles in a shutdown.
const LAST_SETTLES: Duration = Duration::from_secs(2);

/// The parts of a shard.
pub struct ShardParts<W: World> {
    pub number: u16,
    pub world: W,
    /// The configuration at start.
    pub config: Arc<Config>,
    pub ports: Vec<Arc<LogPort>>,
    pub shared: Arc<SharedState>,
    /// Senders to all shards, including this one.
    pub shards: Vec<ShardSender<<W::Net as Net>::Accepted>>,
    pub events: Rc<dyn EventSink>,
    pub console: Rc<dyn Console>,
    pub metrics: Arc<Metrics>,
    /// Suspensions by operators.
    pub suspensions: Arc<[Suspension]>,
    /// Egress channels, one of each kind in the configuration.
    pub channels: Channels<W>,
    /// Ingress protocols, one of each kind in the configuration.
    pub protocols: Protocols<W>,
    /// The stages of mail before it is durable, one of each kind in the configuration.
    pub stages: StageKinds<W>,
}

pub struct Shard<W: World> {
    services: Rc<Services<W>>,
    custody: Rc<Custody<W>>,
    router: Rc<Router>,
    schedule: Rc<Schedule<W>>,
    ingress: Rc<Ingress<W>>,
    delivery: Rc<Delivery<W>>,
    operator: Rc<Operator<W>>,
    /// Senders to all shards.
    shards: Vec<ShardSender<<W::Net as Net>::Accepted>>,
}

impl<W: World> Shard<W> {
    /// Connects the parts of a shard. [`Shard::run`] starts it.
    #[must_use]
    pub fn new(parts: ShardParts<W>) -> Rc<Shard<W>> {
        let shards = u16::try_from(parts.shards.len()).unwrap_or(u16::MAX);
        let services = Rc::new(Services {
            number: parts.number,
            world: parts.world,
            classes: ReplyClasses::new(parts.shared.classes(), parts.config.providers()),
            shared: parts.shared,
            metrics: parts.metrics,
            events: parts.events,
            console: parts.console,
            stopping: Rc::new(Stopping::default()),
            changed: Signal::default(),
            scratch: Rc::new(RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice())),
            #[cfg(feature = "planted")]
            planted: Cell::new(None),
        });
        let custody = Custody::new(&services, parts.ports, &parts.config, shards);
        let router = Rc::new(Router::new(parts.config, services.wall()));
        let schedule = Schedule::new(&services, &custody, &router, shards, parts.suspensions);
        schedule.shaped.set_rules(services.shared.rules.rules());
        let readers = ingress::readers(&services, &router);
        let check = mailbox_check(&parts.channels);
        let ingress = Ingress::new(&schedule, parts.protocols, parts.stages, check);
        let delivery = Delivery::new(&schedule, parts.channels, readers, ingress.above_own());
        Rc::new(Shard {
            ingress,
            operator: Operator::new(&delivery),
            services,
            custody,
            router,
            schedule,
            delivery,
            shards: parts.shards,
        })
    }

    /// Plants a fault, before [`Shard::run`].
    #[cfg(feature = "planted")]
    pub fn plant(&self, fault: Planted) {
        self.services.planted.set(Some(fault));
        match fault {
            Planted::DropTimersAtReload => self.schedule.queue_mut().plant_dropped_timers(),
            Planted::NeverSuspend => self.schedule.queue_mut().plant_patience(),
            Planted::LoseLease => self.schedule.queue_mut().plant_lost_leases(),
            _ => {}
        }
    }

    /// Frees a shard after all its tasks were dropped: pending requests to the spool keep references to it. For
    /// simulations, which run many shards.
    pub fn abandon(&self) {
        self.custody.abandon();
    }

    /// Rehearses a session up to RCPT. Needs neither logs nor [`Shard::run`].
    ///
    /// # Errors
    /// The first refusal.
    pub async fn rehearse(&self, mail: RehearsedMail<'_>) -> Result<Resolved, RehearsedRefusal> {
        rehearsal::rehearse(&self.ingress, mail).await
    }

    /// Queues messages recovered from the spool, before [`Shard::run`]: they are not processed until all logs are
    /// ready.
    pub fn adopt(&self, messages: Vec<RecoveredMessage>) {
        for message in messages {
            self.schedule.adopt(message);
        }
    }

    /// Handles messages to the shard until it is shut down or every sender is dropped.
    pub async fn run(
        self: Rc<Self>,
        mut inbox: mpsc::UnboundedReceiver<ShardMessage<<W::Net as Net>::Accepted>>,
    ) {
        // First, so that stored effects are in force before any mail is sent.
        self.services.spawn(Rc::clone(&self.operator).follow_rules());
        let schedule = Rc::clone(&self);
        self.services.spawn(async move { schedule.run_schedule().await });
        if self.services.shared.clock.is_doubted() {
            self.services.spawn(standing::watch_clock(Rc::clone(&self.schedule)));
        }
        self.services.spawn(Rc::clone(&self.operator).run_holds());
        let frugal = Rc::clone(&self);
        self.services.spawn(async move { frugal.run_frugality().await });
        while let Some(message) = inbox.recv().await {
            self.handle_message(message);
        }
    }

    fn handle_message(self: &Rc<Self>, message: ShardMessage<<W::Net as Net>::Accepted>) {
        match message {
            ShardMessage::Connection { accepted, peer, listener } => {
                start_session(&self.ingress, accepted, peer, listener);
            }
            ShardMessage::Completions(completions) => {
                for (ticket, completion) in completions {
                    self.custody.handle_completion(ticket, completion);
                }
                // Sending may have waited for these settles.
                self.services.changed.note();
            }
            ShardMessage::Lease { from, message } => {
                let now = self.services.now();
                self.schedule.queue_mut().handle_lease(now, from, message);
            }
            ShardMessage::Control { request, answer } => {
                commands::handle(&self.operator, *request, answer);
            }
            ShardMessage::Suspensions(suspensions) => {
                standing::set_suspensions(&self.schedule, suspensions);
            }
            ShardMessage::Reload(config) => self.reload(&config),
            ShardMessage::Problem { problem, is_cleared } => {
                self.services.emit_of_none(match is_cleared {
                    true => Kind::ProblemCleared(problem),
                    false => Kind::Problem(problem),
                });
            }
            ShardMessage::Own(own) => {
                self.services.spawn(ingress::own::submit(Rc::clone(&self.ingress), *own));
            }
            // A caller that has gone needs no answer.
            ShardMessage::AreYouAlive(answer) => drop(answer.send(())),
            ShardMessage::Stop { grace_ms, done } => {
                let shard = Rc::clone(self);
                self.services.spawn(async move { shard.stop(grace_ms, done).await });
            }
        }
    }

    fn reload(self: &Rc<Self>, config: &Arc<Config>) {
        self.services.shared.adopt(config);
        self.services.classes.adopt(self.services.shared.classes(), config.providers());
        self.schedule.shaped.set_rules(self.services.shared.rules.rules());
        self.custody.adopt(config);
        self.router.adopt(Arc::clone(config), self.services.wall());
        self.ingress.adopt(config);
        self.schedule.invalidate_resolutions();
        self.schedule.follow_tenants();
        // Applies new retry policies, and the suspensions of changed routes.
        standing::follow_changes(&self.schedule);
    }

    /// Lets transactions finish for `grace_ms`, then aborts the rest, and writes the last settles.
    async fn stop(self: Rc<Self>, grace_ms: u64, done: oneshot::Sender<()>) {
        let (services, stopping) = (&self.services, &self.services.stopping);
        let until = services.now() + Duration::from_millis(grace_ms);
        stopping.begin(until);
        services.changed.note();
        self.schedule.idle.wake_all();
        stopping.wake();
        let mut alarm = Alarm::new(services.world.time().clone());
        let tick = Duration::from_millis(10);
        // The first tick lets sessions with a transaction register.
        alarm.wait(services.now() + tick).await;
        while stopping.is_busy() && services.now() < until {
            alarm.wait(services.now() + tick).await;
        }
        // Sessions detect the end of the grace period, and send a 421 reply.
        stopping.wake();
        let said = services.now() + LAST_REPLIES;
        alarm.wait(services.now() + tick).await;
        while stopping.is_busy() && services.now() < said {
            alarm.wait(services.now() + tick).await;
        }
        self.delivery.gathering.retry_all_now();
        self.custody.flush_settles();
        let last = services.now() + LAST_SETTLES;
        let is_quiet = || self.custody.is_quiet() && self.delivery.gathering.is_quiet();
        #[cfg(feature = "planted")]
        let last = match services.has_planted(Planted::WaitForDisk) {
            true => mail::Mono::NEVER,
            false => last,
        };
        while !is_quiet() && services.now() < last {
            alarm.wait(services.now() + Duration::from_millis(1)).await;
        }
        let _ = done.send(());
    }

    /// Runs the schedule's actions as tasks.
    async fn run_schedule(self: Rc<Self>) {
        let mut alarm = Alarm::new(self.services.world.time().clone());
        loop {
            while let Some(action) = self.schedule.poll() {
                self.perform(action);
            }
            self.schedule.refresh_gauges(|| self.delivery.unreported.count());
            self.schedule.changed(&mut alarm).await;
        }
    }

    fn perform(self: &Rc<Self>, action: Action) {
        let (schedule, delivery) = (&self.schedule, &self.delivery);
        match action {
            Action::Resolve(scheduled) => start_resolution(schedule, scheduled),
            Action::Hours(scheduled) => standing::tell_hours(schedule, scheduled),
            Action::Standstill(of) => standing::look_again(schedule, of),
            Action::Locate(locating) => start_locating(delivery, locating),
            Action::Open(ready) => start_connection(delivery, ready),
            Action::Wake(ready) => schedule.idle.wake_one(ready),
            Action::Expired(entry) => giving_up::expire(delivery, entry),
            Action::Failed(entry, failure) => giving_up::refuse(delivery, entry, failure),
            Action::Removed(entry) => giving_up::removed(delivery, entry),
            Action::Warn(late) => giving_up::warn(delivery, late),
            Action::Allowance { ready, recipients } => warmup::ask(schedule, ready, recipients),
            Action::Spare { ready, recipients } => warmup::spare(schedule, ready, recipients),
            Action::Forgotten(ready) => schedule.forget_hop(ready),
            Action::Suspended(suspended) => trouble::tell_suspended(schedule, &suspended),
            Action::Resumed { ready, recovered } => {
                trouble::tell_resumed(schedule, ready, recovered);
            }
            Action::Lease { shard, message } => {
                let message = ShardMessage::Lease { from: self.services.number, message };
                // A shard with a closed inbox has ended: the process is stopping.
                let _ = self.shards[usize::from(shard)].send(message);
            }
        }
    }

    /// Closes idle connections, the oldest first, when the process has few permits left.
    async fn run_frugality(self: Rc<Self>) {
        let (services, idle) = (&self.services, &self.schedule.idle);
        let connections = &services.shared.connections;
        let mut alarm = Alarm::new(services.world.time().clone());
        loop {
            std::future::poll_fn(|cx| connections.poll_tight(cx)).await;
            idle.ask_to_go(connections.excess());
            let again = services.now() + FRUGAL_EVERY;
            tokio::select! {
                biased;
                () = idle.entered() => {}
                () = alarm.wait(again) => {}
            }
        }
    }
}
