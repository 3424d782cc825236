//! From due to ready: finding out where a scheduled queue's messages go.

use crate::hours::KnownHours;
use crate::lease::BorrowerKey;
use crate::lease::hash_of;
use crate::queue::Queue;
use crate::ready::Ready;
use crate::scheduled::RoutingState;
use crate::ways::{Mark, Ways};
use crate::{
    Action, NamedLimit, ReadyId, ReadyKey, ReadyLimits, ScheduledId, SuspendedQueue, WaitingCount,
};
use mail::{Failure, Mono};
use smallvec::SmallVec;
use std::sync::Arc;

/// A ready queue that mail of a scheduled queue may use, with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedPath {
    /// The ready queue that it leads to.
    pub key: ReadyKey,
    /// The limits that the ready queue shares with no other.
    pub limits: ReadyLimits,
    /// The limits shared with other ready queues, each name once.
    pub shared: Vec<NamedLimit>,
    /// Its weight relative to the other ready queues of its tier; at least 1.
    pub weight: u32,
    /// Ready queues of a higher tier are used only while all those of lower tiers are suspended.
    pub tier: u8,
}

/// The answer to [`Action::Resolve`].
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// Resolved.
    Ready {
        /// The ready queues that its mail is distributed over, at least one.
        ways: Vec<WeightedPath>,
        /// Entries that fall due after this need a new answer.
        fresh_until: Mono,
    },
    /// The lookup failed (DNS error): the whole scheduled queue waits. It retries by its policy, and each lookup counts
    /// as one attempt.
    Retry(Arc<Failure>),
    /// No route at present, not even the earlier one: the whole scheduled queue waits, and retries as after
    /// [`Resolution::Retry`].
    Unrouted(Arc<Failure>),
    /// No route, permanently: each due entry is returned as [`Action::Failed`].
    Refuse(Arc<Failure>),
    /// The next hop depends on the recipient: each due entry is returned as [`Action::Locate`].
    Each {
        /// Entries that fall due after this need a new answer.
        fresh_until: Mono,
    },
}

impl Queue {
    /// Handles the answer to [`Action::Resolve`]. Returns the ready queues that it names, in the order of the answer.
    /// The numbers stand for the keys until [`Action::Forgotten`].
    pub fn handle_resolved(
        &mut self,
        now: Mono,
        scheduled: ScheduledId,
        answer: Resolution,
    ) -> SmallVec<[ReadyId; 1]> {
        let number = scheduled.0;
        let Some(queue) = self.scheduled.get(number) else { return SmallVec::new() };
        // An answer requested before a reload belongs to that epoch.
        let epoch = if queue.asked { queue.asked_epoch } else { self.epoch };
        let way_lost = matches!(answer, Resolution::Unrouted(_));
        let known = match answer {
            Resolution::Ready { ways, fresh_until } => {
                let ways = self.enter_ways(now, number, &ways, epoch);
                // An answer that is stale at once would be requested again for ever.
                RoutingState::Ready(ways, fresh_until.max(Mono(now.0.saturating_add(1))))
            }
            Resolution::Retry(failure) | Resolution::Unrouted(failure) => {
                let queue = &mut self.scheduled[number];
                queue.troubles = queue.troubles.saturating_add(1);
                let (retry, troubles) = (Arc::clone(&queue.retry), queue.troubles);
                RoutingState::Trouble(failure, now + retry.delay(troubles, &mut self.random))
            }
            Resolution::Refuse(failure) => RoutingState::Refused(failure),
            Resolution::Each { fresh_until } => {
                RoutingState::Each(fresh_until.max(Mono(now.0.saturating_add(1))))
            }
        };
        let ready = match &known {
            RoutingState::Ready(ways, _) => ways.iter().collect(),
            _ => SmallVec::new(),
        };
        let queue = &mut self.scheduled[number];
        queue.each_since = each_since(&known, queue.each_since, epoch, now);
        if !matches!(known, RoutingState::Trouble(..) | RoutingState::Each(_)) {
            queue.end_trouble();
        }
        queue.epoch = epoch;
        queue.asked = false;
        queue.way_lost = way_lost;
        queue.answered = now;
        queue.used = now;
        let before = std::mem::replace(&mut queue.known, known);
        self.drop_reference(now, &before);
        self.finish_refusing(now, number);
        self.arm(number);
        ready
    }

    fn enter_ways(&mut self, now: Mono, number: u32, ways: &[WeightedPath], epoch: u32) -> Ways {
        let mut entered = Ways::default();
        for WeightedPath { key, limits, shared, weight, tier } in ways {
            let ready = self.intern_ready(now, key, limits, shared, epoch);
            let retry = Arc::clone(&self.scheduled[number].retry);
            let queue = &mut self.ready[ready];
            // Referenced before the old answer is released: most ready queues are in both.
            queue.references += 1;
            queue.gate.retry = Some(retry);
            entered.add(ReadyId(ready), (*weight, *tier), hash_of(&key.source));
        }
        entered
    }

    /// Removes the reference of a scheduled queue to these ready queues.
    pub(crate) fn drop_reference(&mut self, now: Mono, known: &RoutingState) {
        let RoutingState::Ready(ways, _) = known else { return };
        for ready in ways.iter() {
            if let Some(queue) = self.ready.get_mut(ready.0) {
                queue.references -= 1;
                queue.used = now;
            }
        }
    }

    /// The ready queue for an entry, if the routing state is of this epoch and has not expired.
    pub(crate) fn way_of(&self, now: Mono, slot: u32) -> Option<ReadyId> {
        let entry = &self.slab[slot];
        let ways = self.scheduled[entry.scheduled].fresh(now, self.epoch)?;
        ways.choose(Mark::new(entry.id, entry.recipient), |way| self.is_open(now, way))
    }

    /// Returns true if this ready queue may send.
    fn is_open(&self, now: Mono, way: ReadyId) -> bool {
        self.ready.get(way.0).is_some_and(|ready| !ready.is_suspended(now))
    }

    /// Returns true if an entry is at a closed ready queue while another one of its scheduled queue is open. The same
    /// for one without connections while one of a lower tier is open.
    pub(crate) fn may_go_another_way(&self, now: Mono, ways: &Ways, at: ReadyId) -> bool {
        if !ways.are_several() {
            return false;
        }
        if !self.is_open(now, at) {
            return ways.iter().any(|way| self.is_open(now, way));
        }
        let is_served = self.ready.get(at.0).is_some_and(|ready| ready.connections() > 0);
        !is_served && ways.before(at).any(|way| self.is_open(now, way))
    }

    pub(crate) fn intern_ready(
        &mut self,
        now: Mono,
        key: &ReadyKey,
        limits: &ReadyLimits,
        shared: &[NamedLimit],
        epoch: u32,
    ) -> u32 {
        let number = match self.ready_names.get(key) {
            Some(&number) => number,
            None => {
                let mut queue = Ready::new(key.clone(), limits.clone());
                queue.window.divide(self.config.shards);
                let number = self.ready.insert(queue);
                self.ready_names.insert(key.clone(), number);
                number
            }
        };
        let queue = &mut self.ready[number];
        queue.used = now;
        // An answer requested before a reload must not restore the old limits.
        if epoch >= queue.epoch && queue.adopt(limits, shared, epoch, self.config.shards) {
            self.tell_terms(now, BorrowerKey::Ready(number));
            self.mark(number);
        }
        number
    }

    /// Changes the limits of a ready queue before the next resolution.
    pub fn set_limits(
        &mut self,
        now: Mono,
        ready: ReadyId,
        limits: &ReadyLimits,
        shared: &[NamedLimit],
    ) {
        let shards = self.config.shards;
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        let epoch = queue.epoch;
        if queue.adopt(limits, shared, epoch, shards) {
            self.tell_terms(now, BorrowerKey::Ready(ready.0));
            self.mark(ready.0);
        }
    }

    /// Requests the resolution of a scheduled queue, once.
    pub(crate) fn want_resolution(&mut self, number: u32) {
        let queue = &mut self.scheduled[number];
        if !queue.asked {
            queue.asked = true;
            queue.asked_epoch = self.epoch;
            self.actions.push_back(Action::Resolve(ScheduledId(number)));
        }
    }

    /// Failed next-hop lookups of this queue in a row, the time of the next one, and the waiting recipients, now and
    /// later.
    #[must_use]
    pub fn trouble(&mut self, scheduled: ScheduledId) -> Option<(u16, Mono, WaitingCount)> {
        let queue = self.scheduled.get_mut(scheduled.0)?;
        match queue.known {
            RoutingState::Trouble(_, until) => Some((queue.troubles, until, queue.waiting())),
            _ => None,
        }
    }

    /// Failed next-hop lookups of this queue, or of its entries, since the last answer.
    #[must_use]
    pub fn trouble_count(&self, scheduled: ScheduledId) -> u16 {
        self.scheduled.get(scheduled.0).map_or(0, |queue| queue.troubles)
    }

    /// Returns true if the last next-hop lookup of this queue failed.
    #[must_use]
    pub fn is_in_trouble(&self, scheduled: ScheduledId) -> bool {
        self.trouble_count(scheduled) > 0
    }

    /// Sets the timer of a scheduled queue.
    pub(crate) fn arm(&mut self, number: u32) {
        let queue = &self.scheduled[number];
        if let Some(look) = queue.standstill.worth_a_look() {
            // A suspension is checked whatever else is pending, and even if all entries lie in ready queues.
            let at = if queue.entries > 0 { look } else { Mono::NEVER };
            self.scheduled_timers.set(number, at);
            return;
        }
        let opens = queue.hours.as_ref().map_or(Mono(0), KnownHours::worth_a_look);
        let at = match (queue.heap.first(), &queue.known) {
            _ if queue.asked || queue.in_line => Mono::NEVER,
            (None, _) => Mono::NEVER,
            (Some(slot), RoutingState::Trouble(_, until)) if queue.epoch == self.epoch => {
                self.slab[slot].due.max(*until)
            }
            (Some(slot), _) => self.slab[slot].due,
        };
        self.scheduled_timers.set(number, at.max(opens));
    }

    /// Queries the owner about the end of a suspension at its due time. Returns true while suspended.
    fn stands_still(&mut self, now: Mono, number: u32) -> bool {
        let standstill = &mut self.scheduled[number].standstill;
        if standstill.ask(now) {
            self.actions
                .push_back(Action::Standstill(SuspendedQueue::Scheduled(ScheduledId(number))));
        }
        standstill.get().is_some()
    }

    /// Moves one due entry on, or requests its resolution.
    pub(crate) fn promote(&mut self, now: Mono, number: u32) {
        if self.stands_still(now, number) {
            self.arm(number);
            return;
        }
        let queue = &self.scheduled[number];
        let Some(slot) = queue.heap.first().filter(|_| !queue.asked) else {
            self.arm(number);
            return;
        };
        if self.slab[slot].due > now || self.waits_for_hours(now, number) {
            self.arm(number);
            return;
        }
        let queue = &self.scheduled[number];
        if self.is_given_up(now, slot) {
            self.expire(now, slot);
            return;
        }
        let current = queue.epoch == self.epoch;
        match &queue.known {
            RoutingState::Ready(..) if let Some(ready) = self.way_of(now, slot) => {
                self.detach(slot);
                self.slab[slot].due = now;
                self.make_ready(slot, ready, false);
            }
            RoutingState::Refused(failure) if current => {
                let failure = Arc::clone(failure);
                let detail = self.leave_with_detail(now, slot);
                self.actions.push_back(Action::Failed(detail, failure));
                self.finish_refusing(now, number);
            }
            RoutingState::Trouble(_, until) if current && now < *until => self.arm(number),
            RoutingState::Each(until) if current && now < *until => self.line_up(number),
            _ => {
                self.want_resolution(number);
                self.arm(number);
            }
        }
    }

    /// A refusal applies to entries due at its arrival; later ones cause a new resolution.
    fn finish_refusing(&mut self, now: Mono, number: u32) {
        let queue = &mut self.scheduled[number];
        let more = queue.heap.first().is_some_and(|slot| self.slab[slot].due <= now);
        if !more && matches!(queue.known, RoutingState::Refused(_)) {
            queue.known = RoutingState::Nothing;
        }
    }

    /// Moves a ready entry back to its scheduled queue because its next hop is no longer valid.
    pub(crate) fn reschedule(&mut self, slot: u32) {
        self.detach(slot);
        self.schedule(slot);
    }
}

/// The time since which each entry of a scheduled queue is located by recipient, if `known` is the new state. Errors in
/// between do not change the next hops of located entries.
fn each_since(
    known: &RoutingState,
    before: Option<(u32, Mono)>,
    epoch: u32,
    now: Mono,
) -> Option<(u32, Mono)> {
    match known {
        RoutingState::Each(_) => before.filter(|(of, _)| *of == epoch).or(Some((epoch, now))),
        RoutingState::Trouble(..) => before,
        RoutingState::Nothing | RoutingState::Ready(..) | RoutingState::Refused(_) => None,
    }
}
