//! The queue: takes entries in and returns actions.

use crate::backlog::Payer;
use crate::failures::{Failures, HoldReasons};
use crate::locating::line::LocatingLine;
use crate::named_limit::Limit;
use crate::ready::Ready;
use crate::retry::LastDeferred;
use crate::scheduled::{JUST_ASKED_FOR, Scheduled};
use crate::slab::{HELD, NONE, STATES, Slab, State, Table};
use crate::sweep::cursor::SweepCursor;
use crate::tenant::Tenants;
use crate::timers::Timers;
use crate::{
    Action, Deadlines, EntryDetail, EntryId, NewEntry, Pause, ReadyId, ReadyKey, RetryPolicy,
    ScheduledId, ScheduledKey,
};
use mail::map::FixedMap;
use mail::{Mono, Random};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum pieces of work (entries moved, queues checked, chunks swept) between two `None`s of [`Queue::poll`]; the
/// rest continues at the next call. A piece takes about a microsecond. The caller decides how soon it calls again, and
/// thereby how long a big queue keeps a shard from its sockets.
const ROUND_MAX: u32 = 2048;

/// Configuration of a queue.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Number of this shard, from 0.
    pub shard: u16,
    /// Shards in all, at least 1.
    pub shards: u16,
    /// For jitter; the same seed and the same calls yield the same actions.
    pub seed: u64,
    /// Time after its last use at which a scheduled or ready queue is dropped.
    pub forget_after: Duration,
}

impl QueueConfig {
    /// Shard `shard` of `shards`, with seed 0 and the usual times.
    #[must_use]
    pub fn new(shard: u16, shards: u16) -> QueueConfig {
        QueueConfig {
            shard,
            shards: shards.max(1),
            seed: 0,
            forget_after: Duration::from_secs(600),
        }
    }
}

/// All queued messages of a shard.
pub struct Queue {
    pub(crate) config: QueueConfig,
    pub(crate) random: Random,
    pub(crate) slab: Slab,
    pub(crate) scheduled: Table<Scheduled>,
    pub(crate) scheduled_names: BTreeMap<Arc<ScheduledKey>, u32>,
    pub(crate) scheduled_timers: Timers,
    pub(crate) ready: Table<Ready>,
    pub(crate) ready_names: BTreeMap<ReadyKey, u32>,
    pub(crate) ready_timers: Timers,
    /// Named limits that this shard lends.
    pub(crate) limits: Table<Limit>,
    pub(crate) limit_names: BTreeMap<Arc<str>, u32>,
    pub(crate) limit_timers: Timers,
    /// Ready queues to service.
    pub(crate) dirty: VecDeque<u32>,
    /// Ready queues to service at the end of the pause.
    pub(crate) stalled: Vec<u32>,
    pub(crate) paused: Option<Pause>,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) failures: Failures,
    /// Entries by state.
    pub(crate) states: [usize; STATES],
    /// Deadlines set by senders, by slot.
    pub(crate) deadlines: FixedMap<u32, Deadlines>,
    pub(crate) deadline_timers: Timers,
    /// Scheduled queues that locate next hops per recipient.
    pub(crate) locating: LocatingLine,
    /// Incremented when all next-hop answers become stale.
    pub(crate) epoch: u32,
    pub(crate) sweep: SweepCursor,
    /// Expiry is suppressed because ages are not trusted.
    pub(crate) keeps_all: bool,
    pub(crate) hold_reasons: HoldReasons,
    pub(crate) tenants: Tenants,
    pub(crate) tenant_timers: Timers,
    policies: Vec<Arc<RetryPolicy>>,
    /// The recipient deferred last: the rest of its transaction gets the same delay.
    pub(crate) deferred: Option<LastDeferred>,
    /// Allowances so far.
    pub(crate) allowances: u32,
    spent: u32,
    #[cfg(feature = "planted")]
    drops_timers: bool,
    #[cfg(feature = "planted")]
    pub(crate) is_patient: bool,
    #[cfg(feature = "planted")]
    pub(crate) loses_leases: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("shard", &self.config.shard)
            .field("entries", &self.slab.live())
            .field("scheduled", &self.scheduled.len())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// A queue without entries and without other shards' queues.
    #[must_use]
    pub fn new(config: QueueConfig) -> Queue {
        Queue {
            random: Random::new(config.seed ^ u64::from(config.shard) << 48),
            config,
            slab: Slab::new(),
            scheduled: Table::default(),
            scheduled_names: BTreeMap::new(),
            scheduled_timers: Timers::default(),
            ready: Table::default(),
            ready_names: BTreeMap::new(),
            ready_timers: Timers::default(),
            limits: Table::default(),
            limit_names: BTreeMap::new(),
            limit_timers: Timers::default(),
            dirty: VecDeque::new(),
            stalled: Vec::new(),
            paused: None,
            actions: VecDeque::new(),
            failures: Failures::default(),
            states: [0; STATES],
            deadlines: FixedMap::default(),
            deadline_timers: Timers::default(),
            locating: LocatingLine::default(),
            epoch: 0,
            sweep: SweepCursor::default(),
            keeps_all: false,
            hold_reasons: HoldReasons::default(),
            tenants: Tenants::default(),
            tenant_timers: Timers::default(),
            policies: Vec::new(),
            deferred: None,
            allowances: 0,
            spent: 0,
            #[cfg(feature = "planted")]
            drops_timers: false,
            #[cfg(feature = "planted")]
            is_patient: false,
            #[cfg(feature = "planted")]
            loses_leases: false,
        }
    }

    /// Returns the scheduled queue with this key, created if missing, and sets its retry policy.
    ///
    /// The id is valid while the queue has entries or an unanswered [`Action::Resolve`], and for `forget_after` after
    /// that. Then the queue is dropped and its number reused, so call this shortly before each [`Queue::push`] instead
    /// of storing the id.
    pub fn scheduled(&mut self, key: &ScheduledKey, retry: &RetryPolicy) -> ScheduledId {
        if let Some(&number) = self.scheduled_names.get(key) {
            if *self.scheduled[number].retry != *retry {
                self.scheduled[number].retry = self.policy(retry);
            }
            self.scheduled[number].used = JUST_ASKED_FOR;
            return ScheduledId(number);
        }
        let tenant = self.tenants.refer(&key.tenant);
        let key = Arc::new(key.clone());
        let retry = self.policy(retry);
        let queue = Scheduled::new(Arc::clone(&key), tenant, retry);
        let number = self.scheduled.insert(queue);
        self.scheduled_names.insert(key, number);
        ScheduledId(number)
    }

    /// A shared copy of the policy: one for all queues that use it.
    pub(crate) fn policy(&mut self, retry: &RetryPolicy) -> Arc<RetryPolicy> {
        if let Some(known) = self.policies.iter().find(|known| ***known == *retry) {
            return Arc::clone(known);
        }
        self.policies.retain(|known| Arc::strong_count(known) > 1);
        self.policies.push(Arc::new(retry.clone()));
        Arc::clone(&self.policies[self.policies.len() - 1])
    }

    /// The key of a scheduled queue.
    #[must_use]
    pub fn scheduled_key(&self, scheduled: ScheduledId) -> Option<&ScheduledKey> {
        self.scheduled.get(scheduled.0).map(|queue| &*queue.key)
    }

    /// The key of a ready queue.
    #[must_use]
    pub fn ready_key(&self, ready: ReadyId) -> Option<&ReadyKey> {
        self.ready.get(ready.0).map(|queue| &queue.key)
    }

    /// The number of a ready queue that is known.
    #[must_use]
    pub fn ready_id(&self, key: &ReadyKey) -> Option<ReadyId> {
        self.ready_names.get(key).copied().map(ReadyId)
    }

    /// Queues a recipient. A due entry with a known next hop goes directly to its ready queue.
    ///
    /// # Panics
    /// If `scheduled` was dropped (see [`Queue::scheduled`]).
    pub fn push(&mut self, now: Mono, scheduled: ScheduledId, entry: NewEntry) -> EntryId {
        let queue = &mut self.scheduled[scheduled.0];
        queue.set_entries(queue.entries + 1);
        queue.used = now;
        self.tenants.count_in(queue.tenant);
        if self.slab.loaded() == 0 {
            self.sweep.start(now);
        }
        let slot = self.slab.insert(scheduled.0, &entry);
        self.states[State::Held as usize] += 1;
        self.set_deadlines(now, slot, entry.deadlines);
        if !entry.held {
            self.place(now, slot);
        }
        self.slab.entry_id(slot)
    }

    /// Puts an unlisted entry into its list, by its due time.
    pub(crate) fn place(&mut self, now: Mono, slot: u32) {
        let entry = &self.slab[slot];
        debug_assert!(!entry.has(HELD));
        if entry.due <= now
            && let Some(ready) = self.way_of(now, slot)
        {
            self.slab[slot].due = now;
            self.make_ready(slot, ready, false);
            return;
        }
        self.schedule(slot);
    }

    /// Inserts an entry that is in no list into the heap of its scheduled queue.
    pub(crate) fn schedule(&mut self, slot: u32) {
        let number = self.slab[slot].scheduled;
        self.moved(slot, State::Scheduled);
        let heap = &mut self.scheduled[number].heap;
        heap.push(&mut self.slab, slot);
        if heap.first() == Some(slot) {
            self.arm(number);
        }
    }

    /// Puts an unlisted entry into a ready queue.
    pub(crate) fn make_ready(&mut self, slot: u32, ready: ReadyId, front: bool) {
        self.moved(slot, State::Ready);
        let tenant = self.scheduled[self.slab[slot].scheduled].tenant;
        let payer = Payer { tenant, weight: self.tenants.table[tenant].weight() };
        self.tenants.arrive(tenant);
        self.slab[slot].ready = ready.0;
        let queue = &mut self.ready[ready.0];
        if front {
            queue.backlog.push_front(&mut self.slab, slot, payer);
        } else {
            queue.backlog.push_back(&mut self.slab, slot, payer);
        }
        if !self.tenants.may_send(tenant) {
            self.park_tenant(ready.0, tenant);
        }
        self.mark(ready.0);
    }

    /// Removes an entry from its list, if any.
    pub(crate) fn detach(&mut self, slot: u32) {
        let number = self.slab[slot].scheduled;
        match self.slab[slot].state() {
            State::Scheduled => {
                self.scheduled[number].heap.remove(&mut self.slab, slot);
                self.arm(number);
            }
            State::Ready => {
                let ready = self.slab[slot].ready;
                let tenant = self.scheduled[number].tenant;
                self.ready[ready].backlog.remove(&mut self.slab, slot, tenant);
                self.tenants.depart(tenant);
            }
            State::Locating => {}
            State::Free | State::InFlight | State::Held => return,
        }
        self.moved(slot, State::Held);
        self.slab[slot].set_state(State::Held);
    }

    /// Counts a state change; call before making the change.
    pub(crate) fn moved(&mut self, slot: u32, to: State) {
        self.states[self.slab[slot].state() as usize] -= 1;
        self.states[to as usize] += 1;
    }

    /// Forgets an entry, wherever it is.
    pub(crate) fn leave(&mut self, now: Mono, slot: u32) {
        if self.slab[slot].state() == State::Ready {
            // The queue may be empty now.
            self.mark(self.slab[slot].ready);
        }
        self.detach(slot);
        self.forget_hold(slot);
        self.forget_deadlines(slot);
        let entry = &self.slab[slot];
        self.states[entry.state() as usize] -= 1;
        let queue = &mut self.scheduled[entry.scheduled];
        queue.set_entries(queue.entries - 1);
        queue.used = now;
        self.tenants.count_out(queue.tenant);
        self.slab.remove(slot);
    }

    /// Removes an entry and returns its details.
    pub(crate) fn leave_with_detail(&mut self, now: Mono, slot: u32) -> EntryDetail {
        let detail = self.detail(now, slot);
        self.leave(now, slot);
        detail
    }

    pub(crate) fn detail(&self, now: Mono, slot: u32) -> EntryDetail {
        let entry = &self.slab[slot];
        EntryDetail {
            entry: self.slab.entry_id(slot),
            id: entry.id,
            recipient: entry.recipient,
            scheduled: ScheduledId(entry.scheduled),
            attempts: entry.attempts.max(self.attempts_in_vain(slot)),
            age: Duration::from_micros(entry.age_us(now)),
            is_overdue: self.is_overdue(now, slot),
            last_failure: self.last_failure_at(slot).cloned(),
            sibling: self.sibling_of(slot),
        }
    }

    /// The last failure of an entry, or the failure that keeps its next hop closed, if still known.
    pub(crate) fn last_failure_at(&self, slot: u32) -> Option<&Arc<mail::Failure>> {
        let entry = &self.slab[slot];
        let queue = &self.scheduled[entry.scheduled];
        let own = self.failures.get(entry.failure);
        // A failure of the next hop counts too: an entry that never got a connection expires because of the next hop. A
        // failure that may name another recipient does not: it would leak that recipient.
        let of_ready = match entry.state() {
            State::Ready => self.ready.get(entry.ready).and_then(|r| r.gate.failure.as_ref()),
            _ => None,
        };
        let of_ready = of_ready.filter(|failure| !failure.may_name_a_recipient());
        let of_resolution = match &queue.known {
            crate::scheduled::RoutingState::Trouble(failure, _) => Some(failure),
            _ => None,
        };
        of_ready.or(own).or(of_resolution)
    }

    /// Number of connections or next-hop lookups that failed while an entry waited for them. Each counts as an attempt
    /// of all entries that waited for it.
    fn attempts_in_vain(&self, slot: u32) -> u16 {
        let entry = &self.slab[slot];
        let waits_since = |began: Mono| entry.moment_at_age(0) <= began;
        if entry.state() == State::Ready
            && let Some(gate) = self.ready.get(entry.ready).map(|ready| &ready.gate)
        {
            return if waits_since(gate.since) { gate.step } else { gate.step.min(1) };
        }
        let troubles = self.scheduled[entry.scheduled].troubles;
        if entry.attempts == 0 && entry.state() == State::Scheduled { troubles } else { 0 }
    }

    /// Schedules a ready queue for service before the next `None`.
    pub(crate) fn mark(&mut self, ready: u32) {
        if let Some(queue) = self.ready.get_mut(ready)
            && !queue.dirty
        {
            queue.dirty = true;
            self.dirty.push_back(ready);
        }
    }

    /// Returns the next action. Call until it returns `None`, after every call that may have changed something, and at
    /// [`Queue::next_timeout`]. A timeout in the past means that work is left over: call again soon.
    pub fn poll(&mut self, now: Mono) -> Option<Action> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            if self.spent >= ROUND_MAX || !self.work(now) {
                self.spent = 0;
                return None;
            }
            self.spent += 1;
        }
    }

    /// Time of the next call of [`Queue::poll`] without other events.
    #[must_use]
    pub fn next_timeout(&self) -> Mono {
        let is_any_dirty = !self.dirty.is_empty() || self.tenants.is_any_dirty();
        if !self.actions.is_empty() || is_any_dirty || self.may_locate() {
            return Mono(0);
        }
        let first = |timers: &Timers| timers.peek().map_or(Mono::NEVER, |(at, _)| at);
        first(&self.scheduled_timers)
            .min(first(&self.ready_timers))
            .min(first(&self.limit_timers))
            .min(first(&self.tenant_timers))
            .min(first(&self.deadline_timers))
            .min(self.next_sweep())
    }

    /// Performs one piece of work, if any is due.
    fn work(&mut self, now: Mono) -> bool {
        // Before any other work.
        if let Some((at, slot)) = self.deadline_timers.peek()
            && at <= now
        {
            self.meet_deadline(now, slot);
            return true;
        }
        if let Some(ready) = self.dirty.pop_front() {
            self.service(now, ready);
            return true;
        }
        if self.tenants.is_any_dirty() {
            self.service_dirty_tenant(now);
            return true;
        }
        if let Some((at, number)) = self.scheduled_timers.peek()
            && at <= now
        {
            self.promote(now, number);
            return true;
        }
        // After all due queues have lined up.
        if self.may_locate() {
            self.locate_next(now);
            return true;
        }
        if let Some((at, number)) = self.ready_timers.peek()
            && at <= now
        {
            self.service(now, number);
            return true;
        }
        if let Some((at, number)) = self.limit_timers.peek()
            && at <= now
        {
            self.deal_limit(now, number);
            return true;
        }
        if let Some((at, number)) = self.tenant_timers.peek()
            && at <= now
        {
            self.service_tenant(now, number);
            return true;
        }
        self.sweep_a_piece(now)
    }

    /// Pauses or resumes deliveries and connection attempts of the whole shard. Entries in flight continue.
    pub fn set_paused(&mut self, pause: Option<Pause>) {
        if self.paused == pause {
            return;
        }
        self.paused = pause;
        if self.paused.is_none() {
            for ready in std::mem::take(&mut self.stalled) {
                self.ready[ready].stalled = false;
                self.mark(ready);
            }
        }
    }

    /// Marks all next-hop answers as stale after a change of the configuration. They are requested again as entries
    /// fall due, and entries in ready queues are looked up again.
    pub fn invalidate_resolutions(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        self.sweep.hurry();
        let filled = |(number, queue): (u32, &Ready)| (queue.backlog.total() > 0).then_some(number);
        let filled: Vec<u32> = self.ready.iter().filter_map(filled).collect();
        for ready in filled {
            self.mark(ready);
        }
        self.leave_line();
        #[cfg(feature = "planted")]
        if self.drops_timers {
            self.scheduled_timers = Timers::default();
        }
    }

    /// A planted fault: [`Queue::invalidate_resolutions`] forgets when retries are due.
    #[cfg(feature = "planted")]
    pub fn plant_dropped_timers(&mut self) {
        self.drops_timers = true;
    }

    /// A planted fault: refusals never suspend a next hop.
    #[cfg(feature = "planted")]
    pub fn plant_patience(&mut self) {
        self.is_patient = true;
    }

    /// A planted fault: slots and tokens lent by other shards are not returned.
    #[cfg(feature = "planted")]
    pub fn plant_lost_leases(&mut self) {
        self.loses_leases = true;
    }

    /// The slots of a message's recipients, starting with `slot`.
    pub(crate) fn slots_of_message(&self, slot: u32) -> Vec<u32> {
        let mut slots = vec![slot];
        let mut at = self.slab[slot].sibling_next;
        while at != NONE && at != slot {
            slots.push(at);
            at = self.slab[at].sibling_next;
        }
        slots
    }
}
