//! Lookup of next hops per recipient. If the next hop depends on the recipient, the due entries of a scheduled queue
//! are looked up one by one, a few at a time.
//!
//! An entry stays a member of its scheduled queue. If it is deferred, or the configuration changes, it waits there and
//! is looked up again. The same is done for an entry that waits behind a failing next hop.

pub(crate) mod line;

use crate::action::HopLookup;
use crate::queue::Queue;
use crate::scheduled::RoutingState;
use crate::slab::State;
use crate::{Action, Deferred, EntryId, NamedLimit, ReadyId, ReadyKey, ReadyLimits, ScheduledId};
use line::LOCATING_MAX;
use mail::{Failure, Mono};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// Time after which an entry waiting for a next hop that has failed is looked up again: its recipient may have moved.
const MAY_HAVE_MOVED_AFTER: Duration = Duration::from_secs(300);

/// Result of a next-hop lookup for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HopLookupResult {
    /// Its ready queue, returned by [`Queue::enter_located`].
    At(ReadyId),
    /// The lookup service does not answer. The whole scheduled queue waits and retries by its policy, as after
    /// [`crate::Resolution::Retry`]. If another of its entries was answered since this lookup began, only this entry is
    /// deferred.
    Silence(Arc<Failure>),
    /// No next hop at present: only this entry is deferred.
    Deferred(Arc<Failure>),
    /// No next hop, permanently: returned as [`Action::Failed`].
    Refused(Arc<Failure>),
    /// The recipients of this scheduled queue no longer have separate next hops: the queue is resolved again.
    Elsewhere,
}

impl Queue {
    /// Returns the ready queue of a next hop found for some of these entries, for use in [`Queue::handle_located`]. Its
    /// number stands for the key until [`Action::Forgotten`]. `None`: the lookup began before a reload, and its answers
    /// are not used.
    pub fn enter_located(
        &mut self,
        now: Mono,
        locating: &HopLookup,
        key: &ReadyKey,
        limits: &ReadyLimits,
        shared: &[NamedLimit],
    ) -> Option<ReadyId> {
        let queue = self.scheduled.get(locating.scheduled.0)?;
        if locating.epoch != self.epoch {
            return None;
        }
        let retry = Arc::clone(&queue.retry);
        let ready = self.intern_ready(now, key, limits, shared, locating.epoch);
        self.ready[ready].gate.retry = Some(retry);
        Some(ReadyId(ready))
    }

    /// Handles the answers to [`Action::Locate`], in the order of its entries. Returns, in the same order, the
    /// deferrals to record.
    pub fn handle_located(
        &mut self,
        now: Mono,
        locating: &HopLookup,
        answers: Vec<HopLookupResult>,
    ) -> Vec<Option<Deferred>> {
        let count = u32::try_from(locating.entries.len()).unwrap_or(u32::MAX);
        self.locating.asked = self.locating.asked.saturating_sub(count);
        let answers = answers.into_iter().chain(std::iter::repeat(HopLookupResult::Elsewhere));
        let entries = locating.entries.iter().zip(answers);
        entries.map(|((entry, _), answer)| self.located(now, locating, *entry, answer)).collect()
    }

    fn located(
        &mut self,
        now: Mono,
        locating: &HopLookup,
        entry: EntryId,
        answer: HopLookupResult,
    ) -> Option<Deferred> {
        let number = locating.scheduled.0;
        let is_asked = self
            .slab
            .get(entry)
            .is_some_and(|entry| entry.state() == State::Locating && entry.scheduled == number);
        if !is_asked {
            return None;
        }
        let slot = entry.slot;
        if locating.epoch != self.epoch {
            self.schedule(slot);
            return None;
        }
        match answer {
            HopLookupResult::At(ready) => self.move_to(now, slot, ready),
            HopLookupResult::Silence(failure) => {
                if self.scheduled[number].located.is_some_and(|at| at >= locating.asked) {
                    return self.defer(now, slot, failure);
                }
                self.fall_silent(now, number, failure);
                self.schedule(slot);
            }
            HopLookupResult::Deferred(failure) => return self.defer(now, slot, failure),
            HopLookupResult::Refused(failure) => {
                let detail = self.leave_with_detail(now, slot);
                self.actions.push_back(Action::Failed(detail, failure));
            }
            HopLookupResult::Elsewhere => {
                let queue = &mut self.scheduled[number];
                if matches!(queue.known, RoutingState::Each(_)) {
                    queue.known = RoutingState::Nothing;
                    queue.each_since = None;
                }
                self.schedule(slot);
                self.arm(number);
            }
        }
        None
    }

    /// Moves a located entry; the lookup service is therefore working.
    fn move_to(&mut self, now: Mono, slot: u32, ready: ReadyId) {
        let number = self.slab[slot].scheduled;
        let queue = &mut self.scheduled[number];
        queue.end_trouble();
        queue.located = Some(now);
        if let RoutingState::Trouble(_, until) = &mut queue.known {
            *until = now;
        }
        let goes_by_recipient =
            matches!(queue.known, RoutingState::Each(_) | RoutingState::Trouble(..));
        if !goes_by_recipient || queue.way_lost || queue.is_suspended(now) {
            self.schedule(slot);
        } else {
            self.slab[slot].due = now;
            self.make_ready(slot, ready, false);
        }
        self.arm(number);
    }

    /// Handles an unanswered lookup: the whole scheduled queue waits for its retry.
    fn fall_silent(&mut self, now: Mono, number: u32, failure: Arc<Failure>) {
        let queue = &mut self.scheduled[number];
        if matches!(queue.known, RoutingState::Each(_)) {
            queue.troubles = queue.troubles.saturating_add(1);
            queue.answered = now;
            queue.used = now;
            let (retry, troubles) = (Arc::clone(&queue.retry), queue.troubles);
            let until = now + retry.delay(troubles, &mut self.random);
            self.scheduled[number].known = RoutingState::Trouble(failure, until);
            self.arm(number);
        }
    }

    /// Returns true if an entry's ready queue follows from the current answer for its scheduled queue.
    pub(crate) fn is_located(&self, slot: u32) -> bool {
        let entry = &self.slab[slot];
        let since = self.scheduled[entry.scheduled].each_since;
        since.is_some_and(|(_, since)| entry.due >= since)
    }

    /// Returns true if the recipient of a ready entry may have moved; relevant after its next hop has failed.
    pub(crate) fn may_have_moved(&self, now: Mono, slot: u32) -> bool {
        let entry = &self.slab[slot];
        let failed_at = self.ready[entry.ready].gate.failed_at;
        failed_at.is_some_and(|at| at >= entry.due) && now >= entry.due + MAY_HAVE_MOVED_AFTER
    }

    /// Has a scheduled queue wait for its turn to have entries located.
    pub(crate) fn line_up(&mut self, number: u32) {
        let queue = &mut self.scheduled[number];
        if !queue.in_line {
            queue.in_line = true;
            self.locating.waiting.push_back(number);
        }
        self.arm(number);
    }

    /// Empties the line: all waiting queues are resolved again.
    pub(crate) fn leave_line(&mut self) {
        for number in std::mem::take(&mut self.locating.waiting) {
            if let Some(queue) = self.scheduled.get_mut(number) {
                queue.in_line = false;
                self.arm(number);
            }
        }
    }

    /// Returns true if the first in line may have entries located.
    pub(crate) fn may_locate(&self) -> bool {
        self.paused.is_none() && self.locating.has_turn()
    }

    /// Starts the lookup of the due recipients of one message, from the scheduled queue first in line, and moves that
    /// queue to the end of the line.
    pub(crate) fn locate_next(&mut self, now: Mono) {
        let Some(number) = self.locating.waiting.pop_front() else { return };
        let Some(queue) = self.scheduled.get_mut(number) else { return };
        queue.in_line = false;
        if let Some(slot) = self.first_to_locate(now, number) {
            let action = Action::Locate(self.begin_to_locate(now, slot));
            self.actions.push_back(action);
        }
        self.arm(number);
    }

    /// The next entry of a scheduled queue to locate. Expired entries are skipped.
    fn first_to_locate(&self, now: Mono, number: u32) -> Option<u32> {
        let queue = &self.scheduled[number];
        let is_each = matches!(queue.known, RoutingState::Each(until) if now < until);
        if !is_each || queue.epoch != self.epoch || queue.is_suspended(now) {
            return None;
        }
        let first = queue.heap.first().filter(|slot| self.slab[*slot].due <= now);
        first.filter(|slot| !self.is_given_up(now, *slot))
    }

    /// Removes an entry, and the due entries of the same message and scheduled queue, from the queue.
    fn begin_to_locate(&mut self, now: Mono, first: u32) -> HopLookup {
        let (id, number) = (self.slab[first].id, self.slab[first].scheduled);
        let room = LOCATING_MAX.saturating_sub(self.locating.asked).max(1);
        let is_due = |slot: &u32| {
            let entry = &self.slab[*slot];
            entry.state() == State::Scheduled && entry.scheduled == number && entry.due <= now
        };
        let slots: SmallVec<[u32; 1]> =
            self.ring(first).filter(is_due).take(room as usize).collect();
        let mut entries = SmallVec::new();
        for slot in slots {
            self.detach(slot);
            self.moved(slot, State::Locating);
            self.slab[slot].set_state(State::Locating);
            entries.push((self.slab.entry_id(slot), self.slab[slot].recipient));
            self.locating.asked += 1;
        }
        let scheduled = ScheduledId(number);
        HopLookup { id, scheduled, entries, asked: now, epoch: self.epoch }
    }
}
