//! The queue and what lies beside it: next hops, connections that wait for work, what an operator
//! has suspended.

pub(crate) mod application;
mod entry;
pub(crate) mod hops;
mod idle;
mod named_limits;
mod places;
pub(crate) mod resolution;
pub(crate) mod shaped;
pub(crate) mod standing;
pub(crate) mod tls_domains;
pub(crate) mod trouble;
pub(crate) mod warmup;

use crate::alarm::Alarm;
use crate::control::Suspension;
use crate::custody::Custody;
use crate::holding::{Amount, HeldShare};
use crate::line::{FairKey, TrustLevel};
use crate::message::Message;
use crate::metrics::QueueState;
use crate::overrides::Overrides;
use crate::routing::Router;
use crate::routing::hop::NextHop;
use crate::seams::{Time, World};
use crate::services::Services;
use entry::{Clocks, EntryContext, Incoming, IncomingRecipient};
use hops::{Hops, SourcesOut};
pub(crate) use idle::IdleConnections;
use mail::Mono;
use places::KnownPlaces;
use queue::{
    Action, Deferred, EntryDetail, EntryId, EntryOutcome, Glance, NewEntry, Pause, Queue,
    QueueConfig, ReadyId, ReadyKey, ScheduledId, ScheduledKey, Take, Transferred,
};
use shaped::ShapingEffects;
use spool::RecoveredMessage;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tls_domains::TlsDomains;
use warmup::Warming;

/// Between two looks at the gauges.
const GAUGES_EVERY: Duration = Duration::from_millis(500);

/// The schedule of one shard.
pub(crate) struct Schedule<W: World> {
    pub(crate) services: Rc<Services<W>>,
    pub(crate) custody: Rc<Custody<W>>,
    pub(crate) router: Rc<Router>,
    queue: RefCell<Queue>,
    hops: Hops,
    /// Where mail goes that several scheduled queues have for one domain.
    known_places: KnownPlaces,
    /// Whose mail goes to these, while reports about TLS are made.
    pub(crate) tls_domains: TlsDomains,
    /// Connections that wait for work.
    pub(crate) idle: IdleConnections,
    /// Sources that cannot send at present.
    sources_out: SourcesOut,
    /// Ready queues whose source warms up.
    warming: Warming,
    /// Rules of shaping, and what came of them.
    pub(crate) shaped: ShapingEffects,
    /// What an operator has suspended.
    suspensions: RefCell<Arc<[Suspension]>>,
    /// Counts changes that all queues must follow.
    change: Cell<u32>,
    gauges_due: Cell<Mono>,
}

impl<W: World> Schedule<W> {
    /// An empty one, for one of so many shards.
    pub(crate) fn new(
        services: &Rc<Services<W>>,
        custody: &Rc<Custody<W>>,
        router: &Rc<Router>,
        shards: u16,
        suspensions: Arc<[Suspension]>,
    ) -> Rc<Schedule<W>> {
        let mut queue = Queue::new(QueueConfig {
            seed: services.world.time().random(),
            ..QueueConfig::new(services.number, shards)
        });
        // Before anything is queued.
        queue.keep_all(services.now(), services.shared.clock.is_doubted());
        Rc::new(Schedule {
            services: Rc::clone(services),
            custody: Rc::clone(custody),
            router: Rc::clone(router),
            queue: RefCell::new(queue),
            hops: Hops::default(),
            known_places: KnownPlaces::default(),
            tls_domains: TlsDomains::default(),
            idle: IdleConnections::default(),
            sources_out: SourcesOut::default(),
            warming: Warming::default(),
            shaped: ShapingEffects::default(),
            suspensions: RefCell::new(suspensions),
            change: Cell::new(0),
            gauges_due: Cell::new(Mono(0)),
        })
    }

    /// The queue, to look at.
    pub(crate) fn queue(&self) -> Ref<'_, Queue> {
        self.queue.borrow()
    }

    /// The queue, to change it. What it then wants done is looked at soon.
    pub(crate) fn queue_mut(&self) -> RefMut<'_, Queue> {
        self.services.changed.note();
        self.queue.borrow_mut()
    }

    /// Waits for a change, or for a moment in which there may be something to do.
    pub(crate) async fn changed(&self, alarm: &mut Alarm<W::Time>) {
        poll_fn(|cx| match self.services.changed.poll_taken(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => alarm.poll(cx, self.queue().next_timeout()),
        })
        .await;
    }

    /// Queues every recipient of a message that has just become durable.
    pub(crate) fn enqueue(&self, message: &Rc<Message>) {
        self.push_recipients(message);
    }

    /// The same, for one that waits for an operator. `share` is its part of what checks may hold.
    pub(crate) fn enqueue_held(
        &self,
        message: &Rc<Message>,
        reason: &Arc<str>,
        share: Option<HeldShare>,
    ) {
        let Some(entry) = self.push_recipients(message) else { return };
        self.queue_mut().hold(entry, reason);
        if let (Some(share), Some(held)) = (share, message.kept().held()) {
            let open = message.envelope.recipients.len();
            let id = (message.id, entry);
            self.custody.held.add(id, open, message.received_at, &held, share);
        }
    }

    /// Gives the last entry.
    fn push_recipients(&self, message: &Rc<Message>) -> Option<EntryId> {
        let recipients = &message.envelope.recipients;
        self.custody.messages.keep(message, recipients.len());
        let incoming = Incoming::new(message, self.moment());
        let mut last = None;
        for (recipient, index) in recipients.iter().zip(0..) {
            let domain = recipient.mailbox.domain();
            let recipient = IncomingRecipient { index, domain, attempts: 0, next_try: None };
            last = Some(self.push(&incoming.entry(&self.router, recipient)));
        }
        last
    }

    /// Queues what the spool held of one message when the server started.
    pub(crate) fn adopt(&self, message: RecoveredMessage) {
        let recipients = message.open.len() as u64;
        self.services.shared.queue_slots.take(recipients);
        let mut message = message;
        let open = std::mem::take(&mut message.open);
        let incoming = Incoming::recovered(&message, self.moment());
        let mut last = None;
        for recipient in open {
            let recipient = IncomingRecipient {
                index: recipient.index,
                domain: recipient.domain,
                attempts: recipient.attempts,
                next_try: recipient.next_try,
            };
            last = Some(self.push(&incoming.entry(&self.router, recipient)));
        }
        if let (Some(entry), Some(reason)) = (last, message.hold.as_deref()) {
            self.queue_mut().hold(entry, &Arc::from(reason));
            let amount = Amount { recipients, bytes: message.body_bytes };
            let since = (message.received_at, &message.meta, reason);
            let holdings = &self.services.shared.holdings;
            self.custody.held.adopt(holdings, (message.id, entry), amount, since);
        }
    }

    fn moment(&self) -> EntryContext {
        let clocks = Clocks { now: self.services.now(), wall: self.services.wall() };
        EntryContext { clocks, salt: self.services.shared.spool_salt }
    }

    fn push(&self, (key, entry): &(ScheduledKey, NewEntry)) -> EntryId {
        let active = self.router.active();
        let mut queue = self.queue_mut();
        let (now, tenant) = (self.services.now(), &key.tenant);
        let is_new_tenant = !tenant.is_empty() && !queue.knows_tenant(tenant);
        let scheduled = queue.scheduled(key, active.retry_of(key));
        if is_new_tenant {
            let terms = self.services.shared.tenants.terms(&active.config.tenants, tenant);
            queue.set_tenant(now, tenant, terms);
        }
        queue.push(now, scheduled, entry.clone())
    }

    /// Has queued recipients of a message wait where what an operator has chosen for it leads. What is being
    /// tried stays where it is.
    pub(crate) fn transfer(
        &self,
        message: &Message,
        overrides: &Overrides,
        entries: impl IntoIterator<Item = EntryId>,
    ) -> Vec<Transferred> {
        let incoming = Incoming::overridden(message, overrides, self.moment());
        let (now, active) = (self.services.now(), self.router.active());
        let mut queue = self.queue_mut();
        let transferred = entries.into_iter().map(|entry| {
            let Some(found) = queue.entry(now, entry) else { return Transferred::Gone };
            let from = queue.scheduled_key(found.scheduled).map(|key| key.domain.clone());
            let Some(domain) = from else { return Transferred::Gone };
            // Its tenant is the same, and known.
            let key = incoming.key(&self.router, found.recipient, domain);
            let scheduled = queue.scheduled(&key, active.retry_of(&key));
            queue.transfer(now, entry, scheduled, incoming.priority())
        });
        transferred.collect()
    }

    /// What tenants may have has changed.
    pub(crate) fn follow_tenants(&self) {
        let (now, active) = (self.services.now(), self.router.active());
        let mut queue = self.queue_mut();
        let known: Vec<Arc<str>> =
            queue.tenants().filter(|name| !name.is_empty()).cloned().collect();
        for name in &known {
            let terms = self.services.shared.tenants.terms(&active.config.tenants, name);
            queue.set_tenant(now, name, terms);
        }
    }

    /// Work for a connection of a ready queue that has carried so many messages.
    pub(crate) fn take(&self, ready: ReadyId, carried: u32) -> Take {
        let mut queue = self.queue_mut();
        queue.set_paused(self.pause());
        queue.take(self.services.now(), ready, carried)
    }

    /// What became of an entry that was taken. What is to be recorded of it, if it is tried again.
    pub(crate) fn outcome(&self, entry: EntryId, outcome: EntryOutcome) -> Option<Deferred> {
        self.queue_mut().handle_outcome(self.services.now(), entry, outcome)
    }

    /// What must be done next.
    pub(crate) fn poll(&self) -> Option<Action> {
        let mut queue = self.queue.borrow_mut();
        queue.set_paused(self.pause());
        queue.poll(self.services.now())
    }

    /// Why nothing is sent, if nothing may be.
    fn pause(&self) -> Option<Pause> {
        match self.services.stopping.until() {
            Some(_) => Some(Pause::Stopping),
            None => self.custody.obstacle(),
        }
    }

    /// Asks anew where everything goes.
    pub(crate) fn invalidate_resolutions(&self) {
        self.queue_mut().invalidate_resolutions();
    }

    /// Where a ready queue leads.
    pub(crate) fn hop(&self, ready: ReadyId) -> Option<Rc<NextHop>> {
        self.hops.get(ready)
    }

    /// This is where a ready queue leads from now on.
    fn learn_hop(&self, ready: ReadyId, key: &ReadyKey, hop: NextHop) {
        self.hops.learn(&self.services.shared.known_hops, ready, key, hop);
    }

    /// An operator has mail tried now that goes by these ready queues.
    pub(crate) fn note_retried(&self, now: Mono, ways: &[ReadyId]) {
        self.hops.retried(now, ways);
    }

    /// The queue has dropped a ready queue.
    pub(crate) fn forget_hop(&self, ready: ReadyId) {
        self.hops.forget(&self.services.shared.known_hops, ready);
        self.tls_domains.forget(ready);
        self.warming.forget(ready);
        self.shaped.forget(ready);
    }

    /// Whose hosts the mail of an entry goes to, as far as that is known.
    pub(crate) fn provider_of(&self, queue: &Queue, glance: &Glance) -> Option<Arc<str>> {
        match glance.ready {
            Some(ready) => self.hop(ready)?.provider.clone(),
            None => self.provider_of_scheduled(queue, glance.scheduled),
        }
    }

    /// The provider that a scheduled queue's mail went to when that was found out last.
    pub(crate) fn provider_of_scheduled(
        &self,
        queue: &Queue,
        scheduled: ScheduledId,
    ) -> Option<Arc<str>> {
        let mut ways = queue.ways_of(scheduled).into_iter();
        ways.find_map(|ready| self.hop(ready)?.provider.clone())
    }

    /// What a ready queue's hop is called in the line for connections.
    pub(crate) fn who(&self, ready: ReadyId) -> Option<FairKey> {
        self.hops.who(ready)
    }

    /// What any shard knows of a ready queue's hop.
    pub(crate) fn standing(&self, ready: ReadyId) -> TrustLevel {
        self.hops.standing(&self.services.shared.known_hops, ready, self.services.now())
    }

    /// A ready queue's hop answered, or was silent: for all shards to know.
    pub(crate) fn note_standing(&self, ready: ReadyId, standing: TrustLevel) {
        let now = self.services.now();
        self.hops.note(&self.services.shared.known_hops, ready, standing, now);
    }

    /// Lets the other shards know how the last opening went.
    pub(crate) fn note_opening(&self, ready: ReadyId) {
        let last = self.queue().last_opening(ready);
        if let Some(opened) = last {
            let now = self.services.now();
            self.hops.note_opening(&self.services.shared.known_hops, ready, opened, now);
        }
    }

    /// When the message of an entry was received, as far as the queue knows.
    pub(crate) fn received_at(&self, entry: &EntryDetail) -> mail::Wall {
        let age_ms = u64::try_from(entry.age.as_millis()).unwrap_or(u64::MAX);
        mail::Wall(self.services.wall().0.saturating_sub(age_ms))
    }

    /// When a recipient of a message that was received then is given up.
    pub(crate) fn give_up_at(&self, received_at: mail::Wall, entry: &EntryDetail) -> mail::Wall {
        let queue = self.queue();
        let by_age = received_at.after(queue.give_up_after(entry.scheduled).unwrap_or_default());
        let Some(at) = queue.expiry(entry.entry) else { return by_age };
        let at = self.services.wall_of(at);
        // Its sender set a time. The clocks' readings for the other differ by milliseconds.
        let differs = at.since(by_age).max(by_age.since(at)) > Duration::from_secs(2);
        if differs { at } else { by_age }
    }

    /// Brings the gauges up to date, twice a second at most.
    pub(crate) fn refresh_gauges(&self, unreported: impl FnOnce() -> usize) {
        let now = self.services.now();
        if now < self.gauges_due.get() {
            return;
        }
        self.gauges_due.set(now + GAUGES_EVERY);
        let counts = self.queue().counts();
        let (metrics, shared) = (&self.services.metrics, &self.services.shared);
        let states = [
            (QueueState::Scheduled, counts.scheduled),
            (QueueState::Ready, counts.ready),
            (QueueState::InFlight, counts.in_flight),
            (QueueState::Held, counts.held),
            (QueueState::Unreported, unreported()),
        ];
        for (state, recipients) in states {
            metrics.queue_recipients[state].set_u64(recipients as u64);
        }
        metrics.unsettled.set_u64(self.custody.unsettled());
        if self.services.number == 0 {
            // What all shards share is told by one of them.
            let (slots, memory) = (&shared.queue_slots, &shared.body_memory);
            metrics.queue_slots_free.set_u64(slots.max().saturating_sub(slots.used()));
            metrics.body_memory_bytes.set_u64(memory.used());
            let suspended = u64::try_from(shared.suspensions.count()).unwrap_or(u64::MAX);
            metrics.next_hops_suspended.set_u64(suspended);
            metrics.connections_waiting.set_u64(shared.connections.waiting());
            let (held, max) = (shared.holdings.held(), shared.holdings.max());
            metrics.held_by_checks.set_u64(held.recipients);
            metrics.held_by_checks_max.set_u64(max.recipients);
            metrics.lookups_waiting.set_u64(shared.lookups.waiting());
        }
    }
}
