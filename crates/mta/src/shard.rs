//! One shard: what its sessions, connections and timers share, and the pump that turns the
//! queue's decisions into tasks.
//!
//! Everything here lives on one thread. Other shards, the commit threads and the control socket
//! reach it by [`ShardMail`] only.

use crate::alarm::Alarm;
use crate::budget::Budget;
use crate::clients::Clients;
use crate::config::Config;
use crate::console::Console;
use crate::control::{ControlRequest, ShardAnswer, Suspension};
use crate::egress::{self, Hops, IdleConnections};
use crate::event::{EventSink, RefusalMeter};
use crate::gathering::Gathering;
use crate::ingress::ListenerRules;
use crate::known_hops::KnownHops;
use crate::line::{Line, Parts};
use crate::lookup;
use crate::message::{self, MessageCache};
use crate::metrics::Metrics;
use crate::name_servers::NameServers;
use crate::recovery::REPORTS;
use crate::report::ReportLimit;
use crate::route::retry_policy;
use crate::seams::{Net, Spawn, Time, World};
use crate::settle::Settles;
use crate::spool_client::{LogPort, SpoolClient};
use crate::suspension::Suspensions;
use crate::unreported::Unreported;
use mail::{MessageId, Mono, Wall};
use queue::lease::LeaseMessage;
use queue::{Action, Pause, Queue, QueueConfig, ReadyId, RetryPolicy, ScheduledKey};
use spool::{Completion, RecoveredMessage, Ticket};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

/// Size of a shard's read buffer: sessions that are idle own none.
pub(crate) const SCRATCH_BYTES: usize = 64 * 1024;

/// What comes to a shard from outside its thread.
#[derive(Debug)]
pub enum ShardMail<A> {
    /// A connection to serve.
    Connection {
        /// The socket.
        accepted: A,
        /// The client.
        peer: SocketAddr,
        /// Index into the configured listeners.
        listener: usize,
    },
    /// Completions from a commit thread.
    Completions(Vec<(Ticket, Completion)>),
    /// From another shard's queue.
    Lease {
        /// Which shard.
        from: u16,
        /// What it says.
        message: LeaseMessage,
    },
    /// An operator asks.
    Control {
        /// What.
        request: Box<ControlRequest>,
        /// Where the parts of the answer go.
        answer: mpsc::Sender<ShardAnswer>,
    },
    /// An operator has suspended something, or resumed it: all that is suspended.
    Suspensions(Arc<[Suspension]>),
    /// The configuration changed.
    Reload(Arc<Config>),
    /// Stop: transactions get `grace_ms`, then 421.
    Stop {
        /// Milliseconds.
        grace_ms: u64,
        /// Told when nothing is under way any more.
        done: oneshot::Sender<()>,
    },
}

/// What all shards share.
#[derive(Debug)]
pub struct Shared {
    /// Body memory, in bytes.
    pub body_memory: Arc<Budget>,
    /// Recipients queued.
    pub queue_slots: Arc<Budget>,
    /// Sessions per listener and client address.
    pub clients: Clients,
    /// Sessions, per shard: the acceptor looks for the least loaded.
    pub sessions: Vec<AtomicU32>,
    /// Those of them that are being turned away: they count against nobody.
    pub turned_away: AtomicU32,
    /// Sessions at once, whatever listeners allow.
    pub sessions_max: u32,
    /// Connections to next hops at once.
    pub connections: Arc<Line>,
    /// Workers that write mailboxes, or discard, at once.
    pub workers: Arc<Line>,
    /// Bytes of messages that were read back for deliveries and reports.
    pub reads: Arc<Line>,
    /// DNS lookups at once.
    pub lookups: Arc<Line>,
    /// Whether lookups are answered.
    pub name_servers: NameServers,
    /// Next hops, as far as any shard knows them.
    pub(crate) known_hops: KnownHops,
    /// Next hops that are left alone.
    pub suspensions: Suspensions,
    /// Lookups that the limit of open files allows.
    lookups_max: u32,
    /// Whether the clock can be trusted.
    pub clock: ClockDoubt,
    /// Reports to strangers.
    pub(crate) reports: ReportLimit,
}

/// Whether the clock lay so far from the spool's newest record at the start that it is not
/// believed. Then nothing is given up for its age: mail that is a week old by such a clock may
/// have come this morning.
#[derive(Debug, Default)]
pub struct ClockDoubt {
    pub(crate) doubted: AtomicBool,
    /// When the newest record was written, in milliseconds.
    pub(crate) newest_ms: AtomicU64,
}

impl Shared {
    /// Budgets as the configuration has them; connections are not limited yet.
    #[must_use]
    pub fn new(config: &Config, shards: u16) -> Shared {
        Shared {
            body_memory: Budget::new(config.spool.body_memory_bytes),
            queue_slots: Budget::new(u64::from(config.spool.queue_recipients_max)),
            clients: Clients::new(config.listeners.len()),
            sessions: (0..shards).map(|_| AtomicU32::new(0)).collect(),
            turned_away: AtomicU32::new(0),
            sessions_max: u32::MAX,
            connections: Line::new(egress::connection_parts(u64::MAX)),
            workers: Line::new(Parts::equal(egress::WORKERS_MAX)),
            reads: Line::new(message::read_parts(config)),
            lookups: Line::new(lookup::parts(config.dns.max_lookups)),
            name_servers: NameServers::default(),
            known_hops: KnownHops::default(),
            suspensions: Suspensions::default(),
            lookups_max: u32::MAX,
            clock: ClockDoubt::default(),
            reports: ReportLimit::default(),
        }
    }

    /// Has the shards doubt the clock as `clock` does.
    #[must_use]
    pub fn with_clock(self, clock: ClockDoubt) -> Shared {
        Shared { clock, ..self }
    }

    /// Limits connections of both kinds, so that neither leaves the other, or the spool, without
    /// a descriptor.
    #[must_use]
    pub fn with_connections(self, sessions_max: u32, egress_max: u64) -> Shared {
        self.connections.set_parts(egress::connection_parts(egress_max));
        Shared { sessions_max, ..self }
    }

    /// Limits lookups to what descriptors allow, whatever the configuration says.
    #[must_use]
    pub fn with_lookups(self, lookups_max: u32) -> Shared {
        let max = u64::from(lookups_max).min(self.lookups.parts().max);
        self.lookups.set_parts(lookup::parts(u32::try_from(max).unwrap_or(u32::MAX)));
        Shared { lookups_max, ..self }
    }

    /// Follows limits that a reload changed.
    fn adopt(&self, config: &Config) {
        self.queue_slots.set_max(u64::from(config.spool.queue_recipients_max));
        self.body_memory.set_max(config.spool.body_memory_bytes);
        self.reads.set_parts(message::read_parts(config));
        self.lookups.set_parts(lookup::parts(config.dns.max_lookups.min(self.lookups_max)));
    }

    /// Sessions now, those included that are being turned away.
    pub(crate) fn session_count(&self) -> u32 {
        self.sessions.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Sessions now that were let in, or may yet be.
    pub(crate) fn admitted_count(&self) -> u32 {
        self.session_count().saturating_sub(self.turned_away.load(Ordering::Relaxed))
    }
}

/// A way into each shard, for threads that hold none.
pub type ShardSender<A> = mpsc::UnboundedSender<ShardMail<A>>;

/// What a shard is made of.
pub struct ShardParts<W: World> {
    /// Its number.
    pub number: u16,
    /// The seams.
    pub world: W,
    /// The configuration at start.
    pub config: Arc<Config>,
    /// The logs.
    pub ports: Vec<Arc<LogPort>>,
    /// Budgets and counts.
    pub shared: Arc<Shared>,
    /// Ways to all shards, this one included.
    pub shards: Vec<ShardSender<<W::Net as Net>::Accepted>>,
    /// Takes events.
    pub events: Rc<dyn EventSink>,
    /// Takes console lines.
    pub console: Rc<dyn Console>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What an operator has suspended.
    pub suspensions: Arc<[Suspension]>,
}

/// One shard.
pub struct Shard<W: World> {
    pub(crate) number: u16,
    pub(crate) world: W,
    pub(crate) config: RefCell<Rc<Active>>,
    pub(crate) spool: Rc<SpoolClient>,
    pub(crate) queue: RefCell<Queue>,
    pub(crate) cache: RefCell<MessageCache>,
    pub(crate) settles: Settles,
    pub(crate) unreported: Unreported,
    pub(crate) gathering: Gathering,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<ShardSender<<W::Net as Net>::Accepted>>,
    pub(crate) events: Rc<dyn EventSink>,
    pub(crate) refusals: RefCell<RefusalMeter>,
    pub(crate) console: Rc<dyn Console>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) hops: Hops,
    pub(crate) idle: IdleConnections,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    /// What an operator has suspended.
    pub(crate) suspensions: RefCell<Arc<[Suspension]>>,
    /// Counts changes that all queues must follow.
    pub(crate) change: Cell<u32>,
    /// Messages that wait for memory to be read into.
    pub(crate) unread: RefCell<BTreeSet<MessageId>>,
    /// The empty text, for keys.
    pub(crate) nothing: Arc<str>,
    pub(crate) stopping: Stopping,
    /// Tells the timer task that the queue's next moment may have come nearer.
    timer: Notify,
    /// What the timer task waits for.
    timer_at: Cell<Mono>,
    pumping: Cell<bool>,
    gauges_due: Cell<Mono>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Cell<Option<Planted>>,
}

/// A fault in the message's way, for the simulator to catch.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A connection is used again after a reply that breaks the protocol.
    ReuseAfterProtocolError,
    /// A reload forgets when retries are due.
    DropTimersAtReload,
    /// A connection slot is given back twice.
    ReleaseSlotTwice,
    /// Each recipient is reported by itself.
    ReportEach,
    /// Content is sent before a recipient was accepted, whatever the route says.
    UnaskedContent,
    /// A next hop that refuses everything is not left alone.
    NeverSuspend,
    /// A shard keeps to itself which next hops are well.
    KeepToItself,
}

/// The configuration with what is derived from it once.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) config: Arc<Config>,
    /// In the order of the sockets that were opened at start.
    pub(crate) listeners: Vec<Rc<ListenerRules>>,
    retries: Vec<Retries>,
    default_retry: Retries,
    /// By what it came into force, and when.
    pub(crate) since: (&'static str, Wall),
}

/// The retry policies of one route.
#[derive(Debug)]
struct Retries {
    mail: RetryPolicy,
    /// Of mail without a sender.
    reports: RetryPolicy,
}

impl Retries {
    fn new(config: &Config, retry: &crate::config::Retry) -> Retries {
        let reports = config.report_retry.of(retry);
        Retries { mail: retry_policy(retry), reports: retry_policy(&reports) }
    }
}

impl Active {
    fn new(config: Arc<Config>, since: (&'static str, Wall)) -> Active {
        Active {
            listeners: config
                .listeners
                .iter()
                .map(|listener| Rc::new(ListenerRules::new(&config, listener)))
                .collect(),
            retries: config.routes.iter().map(|r| Retries::new(&config, &r.retry)).collect(),
            default_retry: Retries::new(&config, &config.retry),
            config,
            since,
        }
    }

    /// The retry policy of a scheduled queue: its route's, or the general one; reports have their
    /// own.
    pub(crate) fn retry_of(&self, key: &ScheduledKey) -> &RetryPolicy {
        let route = crate::route::route_of_key(&self.config, key);
        let retries =
            route.and_then(|route| self.retries.get(route.index)).unwrap_or(&self.default_retry);
        if &*key.campaign == REPORTS { &retries.reports } else { &retries.mail }
    }
}

/// The rules for each socket after a reload. Sockets stay as they were opened, whatever order the
/// new configuration has: what it says of another listener, one that may relay perhaps, must not
/// apply to them. A socket that it does not name keeps its rules.
fn rules_by_socket(
    sockets: &[Rc<ListenerRules>],
    new: &[Rc<ListenerRules>],
) -> Vec<Rc<ListenerRules>> {
    let find = |old: &ListenerRules| {
        let same_address = |rules: &&Rc<ListenerRules>| {
            let address = rules.listener.address;
            address.port() != 0 && address == old.listener.address
        };
        let same_name = |rules: &&Rc<ListenerRules>| rules.name == old.name;
        new.iter().find(same_address).or_else(|| new.iter().find(same_name)).cloned()
    };
    sockets.iter().map(|old| find(old).unwrap_or_else(|| Rc::clone(old))).collect()
}

/// How often idle connections are looked at while the process has few left.
const FRUGAL_EVERY: Duration = Duration::from_millis(100);

/// How long sessions have to say 421 when the grace of a stop is over.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Whether and until when the shard stops.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    until: Cell<Option<Mono>>,
    /// Wakes sessions and idle connections.
    pub(crate) notify: Notify,
    /// Tasks that must end before the shard may.
    pub(crate) busy: Cell<usize>,
}

impl Stopping {
    /// When the grace ends, once the shard stops.
    pub(crate) fn until(&self) -> Option<Mono> {
        self.until.get()
    }
}

/// Counts a task among those that a stop waits for.
#[derive(Debug)]
pub(crate) struct Busy<'a>(&'a Stopping);

impl<'a> Busy<'a> {
    pub(crate) fn new(stopping: &'a Stopping) -> Busy<'a> {
        stopping.busy.set(stopping.busy.get() + 1);
        Busy(stopping)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

impl<W: World> Shard<W> {
    /// Puts a shard together. [`Shard::run`] makes it live.
    #[must_use]
    pub fn new(parts: ShardParts<W>) -> Rc<Shard<W>> {
        let now = parts.world.time().now();
        let since = ("start", parts.world.time().wall());
        let shards = u16::try_from(parts.shards.len()).unwrap_or(u16::MAX);
        let mut queue = Queue::new(QueueConfig {
            seed: parts.world.time().random(),
            ..QueueConfig::new(parts.number, shards)
        });
        // Before anything is queued.
        queue.keep_all(parts.shared.clock.is_doubted());
        let cache_bytes = parts.config.spool.body_memory_bytes / 4 / u64::from(shards.max(1));
        Rc::new(Shard {
            number: parts.number,
            spool: SpoolClient::new(parts.number, parts.ports),
            queue: RefCell::new(queue),
            cache: RefCell::new(MessageCache::new(
                usize::try_from(cache_bytes).unwrap_or(usize::MAX),
            )),
            settles: Settles::new(u64::from(parts.config.spool.unsettled_max), shards),
            unreported: Unreported::default(),
            gathering: Gathering::default(),
            config: RefCell::new(Rc::new(Active::new(parts.config, since))),
            shared: parts.shared,
            shards: parts.shards,
            events: parts.events,
            refusals: RefCell::new(RefusalMeter::new(10, 100, now)),
            console: parts.console,
            metrics: parts.metrics,
            hops: Hops::default(),
            idle: IdleConnections::default(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            suspensions: RefCell::new(parts.suspensions),
            change: Cell::new(0),
            unread: RefCell::default(),
            nothing: Arc::from(""),
            stopping: Stopping::default(),
            timer: Notify::new(),
            timer_at: Cell::new(Mono::NEVER),
            pumping: Cell::new(false),
            gauges_due: Cell::new(Mono(0)),
            #[cfg(feature = "planted")]
            planted: Cell::new(None),
            world: parts.world,
        })
    }

    /// Plants a fault, before [`Shard::run`].
    #[cfg(feature = "planted")]
    pub fn plant(&self, fault: Planted) {
        self.planted.set(Some(fault));
        match fault {
            Planted::DropTimersAtReload => self.queue.borrow_mut().plant_dropped_timers(),
            Planted::NeverSuspend => self.queue.borrow_mut().plant_patience(),
            _ => {}
        }
    }

    /// Frees a shard all of whose tasks were dropped; see [`SpoolClient::abandon`].
    pub fn abandon(&self) {
        self.spool.abandon();
    }

    /// Queues messages that the spool held at the start, before [`Shard::run`]: nothing is done
    /// about them until all logs are ready.
    pub fn adopt(self: &Rc<Self>, messages: Vec<RecoveredMessage>) {
        for message in messages {
            self.adopt_recovered(message);
        }
    }

    /// Serves the shard's mail until it is stopped or every sender is gone.
    pub async fn run(
        self: Rc<Self>,
        mut mail: mpsc::UnboundedReceiver<ShardMail<<W::Net as Net>::Accepted>>,
    ) {
        let timer = Rc::clone(&self);
        self.world.spawn().spawn(async move { timer.run_timer().await });
        if self.shared.clock.is_doubted() {
            self.world.spawn().spawn(Rc::clone(&self).watch_clock());
        }
        let frugal = Rc::clone(&self);
        self.world.spawn().spawn(async move { frugal.run_frugality().await });
        // What was adopted.
        self.pump();
        while let Some(item) = mail.recv().await {
            self.handle_mail(item);
        }
    }

    fn handle_mail(self: &Rc<Self>, item: ShardMail<<W::Net as Net>::Accepted>) {
        match item {
            ShardMail::Connection { accepted, peer, listener } => {
                crate::ingress::start_session(self, accepted, peer, listener);
            }
            ShardMail::Completions(completions) => {
                for (ticket, completion) in completions {
                    self.spool.handle_completion(ticket, completion);
                }
                self.pump();
            }
            ShardMail::Lease { from, message } => {
                let now = self.now();
                self.queue.borrow_mut().handle_lease(now, from, message);
                self.pump();
            }
            ShardMail::Control { request, answer } => self.handle_control(*request, answer),
            ShardMail::Suspensions(suspensions) => self.set_suspensions(suspensions),
            ShardMail::Reload(config) => self.reload(config),
            ShardMail::Stop { grace_ms, done } => {
                let shard = Rc::clone(self);
                self.world.spawn().spawn(async move { shard.stop(grace_ms, done).await });
            }
        }
    }

    /// Monotonic time.
    pub(crate) fn now(&self) -> Mono {
        self.world.time().now()
    }

    /// The configuration in force.
    pub(crate) fn active(&self) -> Rc<Active> {
        Rc::clone(&self.config.borrow())
    }

    fn reload(self: &Rc<Self>, config: Arc<Config>) {
        self.shared.adopt(&config);
        let since = ("reload", self.world.time().wall());
        let mut active = Active::new(config, since);
        active.listeners = rules_by_socket(&self.active().listeners, &active.listeners);
        *self.config.borrow_mut() = Rc::new(active);
        self.queue.borrow_mut().invalidate_resolutions();
        self.pump();
        // Retry policies, and suspensions of routes that are others now.
        self.follow_changes();
    }

    /// Lets transactions finish for `grace_ms`, then has the rest broken off, and writes the last
    /// settles.
    async fn stop(self: Rc<Self>, grace_ms: u64, done: oneshot::Sender<()>) {
        let until = self.now() + Duration::from_millis(grace_ms);
        self.stopping.until.set(Some(until));
        self.queue.borrow_mut().set_paused(Some(Pause::Stopping));
        self.idle.wake_all();
        self.stopping.notify.notify_waiters();
        let mut alarm = Alarm::new(self.world.time().clone());
        let tick = Duration::from_millis(10);
        // The first tick lets sessions with a transaction count themselves in.
        alarm.wait(self.now() + tick).await;
        while self.stopping.busy.get() > 0 && self.now() < until {
            alarm.wait(self.now() + tick).await;
        }
        // Sessions notice the end of the grace by themselves and say 421.
        self.stopping.notify.notify_waiters();
        let said = self.now() + LAST_WORDS;
        alarm.wait(self.now() + tick).await;
        while self.stopping.busy.get() > 0 && self.now() < said {
            alarm.wait(self.now() + tick).await;
        }
        self.gathering.hasten_all();
        self.flush_settles();
        let last = self.now() + Duration::from_secs(2);
        while !(self.settles.is_quiet() && self.gathering.is_quiet()) && self.now() < last {
            alarm.wait(self.now() + Duration::from_millis(1)).await;
        }
        let _ = done.send(());
    }

    /// Turns what the queue wants into tasks. Called after whatever may have changed its mind.
    pub(crate) fn pump(self: &Rc<Self>) {
        // An action's handler may end up here again: the outer loop sees to it all.
        if self.pumping.replace(true) {
            return;
        }
        self.pause_if_needed();
        loop {
            let now = self.now();
            let action = self.queue.borrow_mut().poll(now);
            let Some(action) = action else { break };
            self.perform(action);
        }
        self.pumping.set(false);
        self.refresh_gauges();
        let next = self.queue.borrow().next_timeout();
        if next < self.timer_at.get() {
            self.timer.notify_one();
        }
    }

    /// Brings the gauges up to date, twice a second at most.
    fn refresh_gauges(&self) {
        let now = self.now();
        if now < self.gauges_due.get() {
            return;
        }
        self.gauges_due.set(now + Duration::from_millis(500));
        let counts = self.queue.borrow().counts();
        let metrics = &self.metrics;
        metrics.queue_recipients_waiting.set_u64(counts.scheduled as u64);
        metrics.queue_recipients_ready.set_u64(counts.ready as u64);
        metrics.queue_recipients_in_flight.set_u64(counts.in_flight as u64);
        metrics.queue_recipients_held.set_u64(counts.held as u64);
        metrics.queue_recipients_unreported.set_u64(self.unreported.count() as u64);
        metrics.unsettled.set_u64(self.settles.unsettled());
        if self.number == 0 {
            // What all shards share is told by one of them.
            let (slots, memory) = (&self.shared.queue_slots, &self.shared.body_memory);
            metrics.queue_slots_free.set_u64(slots.max().saturating_sub(slots.used()));
            metrics.body_memory_bytes.set_u64(memory.used());
            let suspended = u64::try_from(self.shared.suspensions.count()).unwrap_or(u64::MAX);
            metrics.next_hops_suspended.set_u64(suspended);
            metrics.connections_waiting.set_u64(self.shared.connections.waiting());
            metrics.lookups_waiting.set_u64(self.shared.lookups.waiting());
        }
    }

    /// Tells the queue whether egress stands still.
    pub(crate) fn pause_if_needed(&self) {
        self.queue.borrow_mut().set_paused(self.pause());
    }

    /// Why egress stands still, if it must.
    fn pause(&self) -> Option<Pause> {
        if self.stopping.until().is_some() {
            return Some(Pause::Stopping);
        }
        self.settles.pause()
    }

    fn perform(self: &Rc<Self>, action: Action) {
        match action {
            Action::Resolve(scheduled) => crate::route::start_resolution(self, scheduled),
            Action::Open(ready) => egress::start_connection(self, ready),
            Action::Wake(ready) => self.wake_idle(ready),
            Action::Expired(entry) => crate::outcome::expire(self, entry),
            Action::Failed(entry, failure) => crate::outcome::refuse(self, entry, failure),
            Action::Removed(entry) => crate::outcome::removed(self, entry),
            Action::Warn(late) => crate::outcome::warn(self, late),
            Action::Forgotten(ready) => self.hops.forget(&self.shared.known_hops, ready),
            Action::Suspended(suspended) => self.tell_suspended(&suspended),
            Action::Resumed { ready, recovered } => self.tell_resumed(ready, recovered),
            Action::Lease { shard, message } => {
                let mail = ShardMail::Lease { from: self.number, message };
                // A shard whose mail nobody takes has ended: so will this one.
                let _ = self.shards[usize::from(shard)].send(mail);
            }
        }
    }

    fn wake_idle(&self, ready: ReadyId) {
        self.idle.wake_one(ready);
    }

    /// Pumps when the queue's next moment comes.
    async fn run_timer(self: Rc<Self>) {
        let mut alarm = Alarm::new(self.world.time().clone());
        loop {
            let next = self.queue.borrow().next_timeout();
            self.timer_at.set(next);
            tokio::select! {
                biased;
                () = self.timer.notified() => continue,
                () = alarm.wait(next) => {}
            }
            self.pump();
        }
    }

    /// Has idle connections make room, the oldest first, when the process has few left.
    async fn run_frugality(self: Rc<Self>) {
        let mut alarm = Alarm::new(self.world.time().clone());
        loop {
            std::future::poll_fn(|cx| self.shared.connections.poll_tight(cx)).await;
            self.idle.ask_to_go(self.shared.connections.excess());
            let again = self.now() + FRUGAL_EVERY;
            tokio::select! {
                biased;
                () = self.idle.entered() => {}
                () = alarm.wait(again) => {}
            }
        }
    }

    /// A session began or ended here.
    pub(crate) fn count_session(&self, began: bool) {
        if let Some(count) = self.shared.sessions.get(usize::from(self.number)) {
            if began {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Rc<ListenerRules>> {
        let text = format!("hostname = \"relay.test\"\n{text}[[route]]\ndiscard = {{}}\n");
        let config = Config::parse(&text, "test.toml").unwrap();
        Active::new(Arc::new(config), ("start", Wall(0))).listeners
    }

    #[test]
    fn a_reload_that_moves_listeners_about_gives_no_socket_the_rules_of_another() {
        let open = "[[listener]]\nname = \"open\"\naddress = \"127.0.0.1:2525\"\n\
            relay_from = [\"127.0.0.0/8\"]\n";
        let shut = "[[listener]]\nname = \"shut\"\naddress = \"0.0.0.0:2526\"\n";
        let sockets = rules(&format!("{open}{shut}"));
        let names = |rules: &[Rc<ListenerRules>]| -> Vec<String> {
            rules.iter().map(|rules| rules.name.to_string()).collect()
        };
        let swapped = rules_by_socket(&sockets, &rules(&format!("{shut}{open}")));
        assert_eq!(names(&swapped), ["open", "shut"]);
        let fewer = rules_by_socket(&sockets, &rules(shut));
        assert_eq!(names(&fewer), ["open", "shut"]);
        assert!(Rc::ptr_eq(&fewer[0], &sockets[0]), "what is not named stays");
        let moved = shut.replace("2526", "2527");
        let moved = rules_by_socket(&sockets, &rules(&format!("{moved}{open}")));
        assert_eq!(moved[1].listener.address.port(), 2527, "found by its name");
    }
}
