//! Outcomes of delivery attempts.

use crate::queue::Queue;
use crate::retry::LastDeferred;
use crate::slab::{HELD, REMOVED, State};
use crate::{Action, EntryId};
use mail::{Failure, Mono};
use std::sync::Arc;

/// Outcome of an entry that was in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// Delivered or failed permanently: it leaves the queue.
    Settled,
    /// The attempt failed; another one is worthwhile.
    Deferred(Arc<Failure>),
    /// Not tried: no attempt is counted, and the entry keeps its place at the front.
    Untried,
    /// Not tried, and not sent to any peer: the allowance ([`crate::TransactionWork::allowance`]) is refunded.
    Unnamed(u32),
}

/// Result of a deferral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// Number of attempts, including this one.
    pub attempts: u16,
    /// Due time of the next attempt.
    pub next_try: Mono,
}

impl Queue {
    /// Takes back an entry that [`Queue::take`] handed out. `Some` after
    /// [`EntryOutcome::Deferred`], unless the entry came back too old or removed: then
    /// [`Action::Expired`] or [`Action::Removed`] follows.
    pub fn handle_outcome(
        &mut self,
        now: Mono,
        entry: EntryId,
        outcome: EntryOutcome,
    ) -> Option<Deferred> {
        let found = self.slab.get(entry).filter(|e| e.state() == State::InFlight)?;
        let ready = found.ready;
        match outcome {
            EntryOutcome::Settled => {
                self.leave(now, entry.slot);
                if let Some(queue) = self.ready.get_mut(ready) {
                    let was_told = queue.gate.told > 0;
                    queue.gate.succeed();
                    if was_told {
                        self.mark(ready);
                    }
                }
                None
            }
            EntryOutcome::Untried | EntryOutcome::Unnamed(_) => {
                if let EntryOutcome::Unnamed(allowance) = outcome {
                    self.refund_allowance(ready, allowance);
                }
                // An entry that was not tried does not expire here, however old it is: its last attempt is still due.
                if self.slab[entry.slot].has(REMOVED) {
                    let detail = self.leave_with_detail(now, entry.slot);
                    self.actions.push_back(Action::Removed(detail));
                } else {
                    self.give_back_untried(now, entry.slot);
                }
                None
            }
            EntryOutcome::Deferred(failure) => self.defer(now, entry.slot, failure),
        }
    }

    pub(crate) fn defer(
        &mut self,
        now: Mono,
        slot: u32,
        failure: Arc<Failure>,
    ) -> Option<Deferred> {
        let ticket = self.ticket(slot, failure);
        let entry = &mut self.slab[slot];
        entry.failure = ticket;
        entry.attempts = entry.attempts.saturating_add(1);
        let attempts = entry.attempts;
        if self.left_on_return(now, slot) {
            return None;
        }
        // The last attempt is made exactly when the entry becomes too old. An entry that is already too old and stays
        // is tried at its usual pace.
        let expires_at = Some(self.expires_at(slot)).filter(|at| *at > now);
        let next_try = self.next_try(now, slot).min(expires_at.unwrap_or(Mono::NEVER));
        self.slab[slot].due = next_try;
        self.moved(slot, State::Held);
        self.slab[slot].set_state(State::Held);
        if !self.slab[slot].has(HELD) {
            self.schedule(slot);
        }
        self.warn_if_late(now, slot);
        Some(Deferred { attempts, next_try })
    }

    /// Time of the next attempt of a deferred entry. Recipients of one message that failed together get the same time:
    /// one transaction, and one record of the attempt.
    fn next_try(&mut self, now: Mono, slot: u32) -> Mono {
        let entry = &self.slab[slot];
        let (id, attempts) = (entry.id, entry.attempts);
        let retry = Arc::clone(&self.scheduled[entry.scheduled].retry);
        if let Some(last) = &self.deferred
            && (last.id, last.at, last.attempts) == (id, now, attempts)
            && Arc::ptr_eq(&last.retry, &retry)
        {
            return last.next_try;
        }
        let next_try = now + retry.delay(attempts, &mut self.random);
        self.deferred = Some(LastDeferred { id, at: now, attempts, retry, next_try });
        next_try
    }

    fn give_back_untried(&mut self, now: Mono, slot: u32) {
        let on_its_way = self.is_on_its_way(slot);
        self.moved(slot, State::Held);
        self.arm_deadline(now, slot);
        let entry = &mut self.slab[slot];
        entry.set_state(State::Held);
        if entry.has(HELD) {
            return;
        }
        let ready = crate::ReadyId(entry.ready);
        if on_its_way && self.ready.get(ready.0).is_some() {
            self.make_ready(slot, ready, true);
        } else {
            self.place(now, slot);
        }
    }

    /// Handles the return of an entry that must leave because it is too old or was removed. Returns true if it left.
    fn left_on_return(&mut self, now: Mono, slot: u32) -> bool {
        let action = if self.slab[slot].has(REMOVED) {
            Action::Removed
        } else if self.is_too_old(now, slot) && !self.slab[slot].has(HELD) {
            Action::Expired
        } else {
            return false;
        };
        let detail = self.leave_with_detail(now, slot);
        self.actions.push_back(action(detail));
        true
    }

    /// The ticket of a failure. Repetitions of the same failure in a scheduled queue are stored once.
    fn ticket(&mut self, slot: u32, failure: Arc<Failure>) -> u32 {
        let queue = &mut self.scheduled[self.slab[slot].scheduled];
        if let Some((last, ticket)) = &queue.last_failure
            && (Arc::ptr_eq(last, &failure) || **last == *failure)
            && self.failures.get(*ticket).is_some()
        {
            return *ticket;
        }
        let ticket = self.failures.remember(Arc::clone(&failure));
        queue.last_failure = Some((failure, ticket));
        ticket
    }
}
