//! The scheduler of a shard: the queue with its next hops, idle connections and suspensions.

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
use crate::answer::Answer;
use crate::control::Suspension;
use crate::custody::Custody;
use crate::facts::StoredFacts;
use crate::holding::{Amount, HeldShare};
use crate::line::{FairKey, TrustLevel};
use crate::message::Message;
use crate::metrics::QueueState;
use crate::overrides::Overrides;
use crate::routing::conditional::choose;
use crate::routing::hop::NextHop;
use crate::routing::{Active, Router};
use crate::seams::{Time, World};
use crate::services::Services;
use entry::{Clocks, EntryContext, Incoming, IncomingRecipient};
use hops::{Hops, SourcesOut, Unreachable};
pub(crate) use idle::IdleConnections;
use lookup::Requester;
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

/// Interval for updating the gauges.
const GAUGES_EVERY: Duration = Duration::from_millis(500);

/// The schedule of one shard.
pub(crate) struct Schedule<W: World> {
    pub(crate) services: Rc<Services<W>>,
    pub(crate) custody: Rc<Custody<W>>,
    pub(crate) router: Rc<Router>,
    queue: RefCell<Queue>,
    hops: Hops,
    /// Cache of resolutions shared by several scheduled queues of a domain.
    known_places: KnownPlaces,
    /// Recipient domains of ready queues, while TLS reports are enabled.
    pub(crate) tls_domains: TlsDomains,
    /// Idle connections.
    pub(crate) idle: IdleConnections,
    /// Egress sources that cannot send now.
    sources_out: SourcesOut,
    /// Next hops that can't be reached and have a fallback.
    unreachable: Unreachable,
    /// Ready queues with a source in warm-up.
    warming: Warming,
    /// Shaping rules and their effects.
    pub(crate) shaped: ShapingEffects,
    /// Suspensions by an operator.
    suspensions: RefCell<Arc<[Suspension]>>,
    /// Number of changes that all queues must follow.
    change: Cell<u32>,
    gauges_due: Cell<Mono>,
}

impl<W: World> Schedule<W> {
    /// An empty schedule for one of `shards` shards.
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
        // Must be set before the first entry is queued.
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
            unreachable: Unreachable::default(),
            warming: Warming::default(),
            shaped: ShapingEffects::default(),
            suspensions: RefCell::new(suspensions),
            change: Cell::new(0),
            gauges_due: Cell::new(Mono(0)),
        })
    }

    /// The queue, read-only.
    pub(crate) fn queue(&self) -> Ref<'_, Queue> {
        self.queue.borrow()
    }

    /// The queue, mutable. Its actions are polled soon after.
    pub(crate) fn queue_mut(&self) -> RefMut<'_, Queue> {
        self.services.changed.note();
        self.queue.borrow_mut()
    }

    /// Waits for a change or for the queue's next timeout.
    pub(crate) async fn changed(&self, alarm: &mut Alarm<W::Time>) {
        poll_fn(|cx| match self.services.changed.poll_taken(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => alarm.poll(cx, self.queue().next_timeout()),
        })
        .await;
    }

    /// Queues all recipients of a message that has just become durable.
    pub(crate) fn enqueue(&self, message: &Rc<Message>) {
        self.push_recipients(message);
    }

    /// Queues a message that is on hold. `share` is its part of the capacity for messages held by checks.
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

    /// Returns the last entry.
    fn push_recipients(&self, message: &Rc<Message>) -> Option<EntryId> {
        let recipients = &message.envelope.recipients;
        self.custody.messages.keep(message, recipients.len());
        let incoming = Incoming::new(message, self.moment());
        let active = self.router.active();
        let mut last = None;
        for (recipient, index) in recipients.iter().zip(0..) {
            let domain = recipient.mailbox.domain();
            let choice = self.choice(&active, message, (&incoming, index));
            let recipient =
                IncomingRecipient { index, domain, attempts: 0, next_try: None, choice };
            last = Some(self.push(&incoming.entry(&self.router, recipient)));
        }
        last
    }

    /// The choice of the route or login by facts of the message, if it is known without waiting.
    fn choice(
        &self,
        active: &Rc<Active>,
        message: &Message,
        (incoming, index): (&Incoming<'_>, u32),
    ) -> Option<Arc<str>> {
        if !active.has_choices() {
            return None;
        }
        let of = (index, incoming.fixed_route(index));
        match choose(&self.services.world.tables(Requester::Ours), active, message, of) {
            Answer::Now(Ok(choice)) => Some(choice),
            // Found when the recipient falls due.
            Answer::Now(Err(_)) | Answer::Later(_) => None,
        }
    }

    /// Queues a message recovered from the spool.
    pub(crate) fn adopt(&self, message: RecoveredMessage) {
        let recipients = message.open.len() as u64;
        self.services.shared.queue_slots.take(recipients);
        if StoredFacts::of(&message.meta).alert().is_some() {
            self.custody.alerts.adopt(message.id, message.open.len());
        }
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
                // Its message is on disk.
                choice: None,
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

    /// Transfers queued recipients of a message to the queue that the operator's overrides select. Recipients in flight
    /// stay.
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
            // The tenant does not change, so the queue knows it.
            let choice = self.choice(&active, message, (&incoming, found.recipient));
            let key = incoming.key(&self.router, (found.recipient, domain), choice);
            let scheduled = queue.scheduled(&key, active.retry_of(&key));
            queue.transfer(now, entry, scheduled, incoming.priority())
        });
        transferred.collect()
    }

    /// Moves a queued recipient to the scheduled queue of this choice among routes with conditions. Recipients in flight
    /// stay.
    pub(crate) fn assign(&self, entry: EntryId, choice: Arc<str>) {
        let (now, active) = (self.services.now(), self.router.active());
        let mut queue = self.queue_mut();
        let Some(found) = queue.entry(now, entry) else { return };
        let Some(key) = queue.scheduled_key(found.scheduled).cloned() else { return };
        let key = ScheduledKey { choice, ..key };
        let scheduled = queue.scheduled(&key, active.retry_of(&key));
        queue.reassign(now, entry, scheduled);
    }

    /// Applies changed tenant limits.
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

    /// Takes work for a connection of a ready queue that has carried `carried` messages.
    pub(crate) fn take(&self, ready: ReadyId, carried: u32) -> Take {
        let mut queue = self.queue_mut();
        queue.set_paused(self.pause());
        queue.take(self.services.now(), ready, carried)
    }

    /// Reports the outcome of an attempt to the queue. Returns the state to be recorded if the recipient is retried.
    pub(crate) fn outcome(&self, entry: EntryId, outcome: EntryOutcome) -> Option<Deferred> {
        self.queue_mut().handle_outcome(self.services.now(), entry, outcome)
    }

    /// The next action of the queue.
    pub(crate) fn poll(&self) -> Option<Action> {
        let mut queue = self.queue.borrow_mut();
        queue.set_paused(self.pause());
        queue.poll(self.services.now())
    }

    /// The reason why nothing may be sent now, if there is one.
    fn pause(&self) -> Option<Pause> {
        match self.services.stopping.until() {
            Some(_) => Some(Pause::Stopping),
            None => self.custody.obstacle(),
        }
    }

    /// Resolves all scheduled queues again.
    pub(crate) fn invalidate_resolutions(&self) {
        self.queue_mut().invalidate_resolutions();
    }

    /// The next hop of a ready queue.
    pub(crate) fn hop(&self, ready: ReadyId) -> Option<Rc<NextHop>> {
        self.hops.get(ready)
    }

    /// Sets the next hop of a ready queue.
    fn learn_hop(&self, ready: ReadyId, key: &ReadyKey, hop: NextHop) {
        self.hops.learn(&self.services.shared.known_hops, ready, key, hop);
    }

    /// An operator retries mail for these ready queues.
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

    /// The mailbox provider of an entry, as far as known.
    pub(crate) fn provider_of(&self, queue: &Queue, glance: &Glance) -> Option<Arc<str>> {
        match glance.ready {
            Some(ready) => self.hop(ready)?.provider.clone(),
            None => self.provider_of_scheduled(queue, glance.scheduled),
        }
    }

    /// The mailbox provider of a scheduled queue at its last resolution.
    pub(crate) fn provider_of_scheduled(
        &self,
        queue: &Queue,
        scheduled: ScheduledId,
    ) -> Option<Arc<str>> {
        let mut ways = queue.ways_of(scheduled).into_iter();
        ways.find_map(|ready| self.hop(ready)?.provider.clone())
    }

    /// The ready queue's key in the fair queue for connections.
    pub(crate) fn who(&self, ready: ReadyId) -> Option<FairKey> {
        self.hops.who(ready)
    }

    /// The standing of a ready queue's hop on all shards.
    pub(crate) fn standing(&self, ready: ReadyId) -> TrustLevel {
        self.hops.standing(&self.services.shared.known_hops, ready, self.services.now())
    }

    /// Notes for all shards that a ready queue's hop answered or was silent.
    pub(crate) fn note_standing(&self, ready: ReadyId, standing: TrustLevel) {
        let now = self.services.now();
        self.hops.note(&self.services.shared.known_hops, ready, standing, now);
    }

    /// Notes the result of the last connection attempt for all shards.
    pub(crate) fn note_opening(&self, ready: ReadyId) {
        let last = self.queue().last_opening(ready);
        if let Some(opened) = last {
            let now = self.services.now();
            self.hops.note_opening(&self.services.shared.known_hops, ready, opened, now);
        }
    }

    /// Time of receipt of an entry's message, derived from its age.
    pub(crate) fn received_at(&self, entry: &EntryDetail) -> mail::Wall {
        let age_ms = u64::try_from(entry.age.as_millis()).unwrap_or(u64::MAX);
        mail::Wall(self.services.wall().0.saturating_sub(age_ms))
    }

    /// Expiry of a recipient of a message with this time of receipt.
    pub(crate) fn give_up_at(&self, received_at: mail::Wall, entry: &EntryDetail) -> mail::Wall {
        let queue = self.queue();
        let by_age = received_at.after(queue.give_up_after(entry.scheduled).unwrap_or_default());
        let Some(at) = queue.expiry(entry.entry) else { return by_age };
        let at = self.services.wall_of(at);
        // A larger difference means that the sender set the time. Rounding between the clocks is within milliseconds.
        let differs = at.since(by_age).max(by_age.since(at)) > Duration::from_secs(2);
        if differs { at } else { by_age }
    }

    /// Updates the gauges, twice a second at most.
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
            // Values shared by all shards are set by the first one.
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
