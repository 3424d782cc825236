//! Expiry: an entry expires when it is too old and its last attempt was made.
//!
//! An attempt that could not start also counts: the next hop, or its lookup, failed after the entry fell due. A dead
//! next hop therefore needs no attempt per message. Mail that became too old while the server was down, or while the
//! mail was on hold or suspended, is tried once more before a bounce is sent.

use crate::queue::Queue;
use crate::scheduled::RoutingState;
use crate::slab::State;
use mail::Mono;
use std::sync::Arc;
use std::time::Duration;

/// An expired entry waits for its last attempt at most its lifetime, and at most this long. Without a limit, a next hop
/// that neither accepts mail nor fails would keep it for ever.
const LAST_TRY_WAIT_MAX: Duration = Duration::from_secs(86_400);

impl Queue {
    /// Time at which an entry becomes too old.
    pub(crate) fn expires_at(&self, slot: u32) -> Mono {
        let entry = &self.slab[slot];
        let at = entry.moment_at_age(self.scheduled[entry.scheduled].retry.give_up_us());
        at.min(self.deadlines_at(slot).expires)
    }

    pub(crate) fn is_too_old(&self, now: Mono, slot: u32) -> bool {
        !self.keeps_all && self.expires_at(slot) <= now
    }

    /// Returns true if a waiting entry is too old and has had its last attempt.
    pub(crate) fn is_given_up(&self, now: Mono, slot: u32) -> bool {
        if !self.is_too_old(now, slot) {
            return false;
        }
        let entry = &self.slab[slot];
        if self.is_overdue(now, slot) {
            return matches!(entry.state(), State::Scheduled | State::Ready);
        }
        let queue = &self.scheduled[entry.scheduled];
        if queue.is_suspended(now) {
            return false;
        }
        let mut due = entry.due.max(queue.resumed());
        let failed_at = match entry.state() {
            State::Scheduled if entry.due > now => return false,
            State::Scheduled => match queue.known {
                RoutingState::Trouble(..) => Some(queue.answered),
                _ => None,
            },
            State::Ready => {
                let ready = &self.ready[entry.ready];
                // An entry of a suspended next hop waits, as one without a token does.
                if ready.standstill.get().is_some() {
                    return false;
                }
                due = due.max(ready.standstill.ended());
                ready.gate.failed_at
            }
            State::Held | State::InFlight | State::Locating | State::Free => return false,
        };
        let wait = queue.retry.give_up_after.min(LAST_TRY_WAIT_MAX);
        failed_at.is_some_and(|at| at >= due) || now >= due.max(self.expires_at(slot)) + wait
    }

    /// Suppresses expiry and delay notices while `keeps` is set: the clock is not trusted.
    pub fn keep_all(&mut self, now: Mono, keeps: bool) {
        let is_over = self.keeps_all && !keeps;
        self.keeps_all = keeps;
        if is_over {
            self.sweep.hurry();
            self.arm_all_deadlines(now);
        }
    }

    /// Returns true while [`Queue::keep_all`] is in force.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.keeps_all
    }

    /// Corrects the ages of the entries in a chunk that were received before `before`: the clock was wrong by
    /// `wrong_us`. To be called for the chunks from 0 to [`Queue::chunk_count`].
    pub fn correct_ages(&mut self, chunk: u32, before: Mono, wrong_us: i64) {
        let before = i64::try_from(before.0).unwrap_or(i64::MAX);
        let slots: Vec<u32> = self.slab.slots(chunk).collect();
        for slot in slots {
            let received_us = &mut self.slab[slot].received_us;
            if *received_us < before {
                *received_us = received_us.saturating_add(wrong_us).min(before);
                self.postpone_deadlines(slot, wrong_us);
            }
        }
    }

    /// Age at which mail of a scheduled queue expires; `None` if the queue is unknown.
    #[must_use]
    pub fn give_up_after(&self, scheduled: crate::ScheduledId) -> Option<Duration> {
        self.scheduled.get(scheduled.0).map(|queue| queue.retry.give_up_after)
    }

    /// Shortens a wait that is longer than a changed policy allows. The entry is tried once more when it becomes too
    /// old.
    pub(crate) fn follow_policy(&mut self, now: Mono, slot: u32) {
        let entry = &self.slab[slot];
        if entry.state() != State::Scheduled || entry.due <= now {
            return;
        }
        let (number, attempts, mut due) = (entry.scheduled, entry.attempts, entry.due);
        let retry = &self.scheduled[number].retry;
        // Before the first attempt an entry waits for a time set by its sender.
        if attempts > 0 && due > now + retry.longest_delay() {
            let retry = std::sync::Arc::clone(retry);
            due = now + retry.delay(attempts, &mut self.random);
        }
        if !self.keeps_all {
            due = due.min(self.expires_at(slot).max(now));
        }
        if due < self.slab[slot].due {
            self.slab[slot].due = due;
            self.scheduled[number].heap.hastened(&mut self.slab, slot);
            self.arm(number);
        }
    }

    /// Applies the retry policy of a new configuration to a scheduled queue. Waiting entries are adjusted by the sweep,
    /// which is hurried. The next hop is resolved again as entries fall due, whatever the last answer was.
    pub fn set_retry(&mut self, scheduled: crate::ScheduledId, retry: &crate::RetryPolicy) {
        let Some(queue) = self.scheduled.get(scheduled.0) else { return };
        let is_another = *queue.retry != *retry;
        if matches!(queue.known, RoutingState::Trouble(..)) {
            // The error may be over: do not wait for the time of the next retry.
            self.arm(scheduled.0);
        }
        if !is_another {
            return;
        }
        self.scheduled[scheduled.0].retry = self.policy(retry);
        for ready in self.scheduled[scheduled.0].ready() {
            if let Some(ready) = self.ready.get_mut(ready.0) {
                ready.gate.retry = Some(Arc::clone(&self.scheduled[scheduled.0].retry));
            }
        }
        self.sweep.hurry();
    }
}
