//! Deadlines set by a message's sender: expiry, and the time of the delay notice. Few messages have any, so they are
//! kept beside the slab with a timer each.
//!
//! They are exact in every state except on hold, in flight, and while the clock is not trusted; an overdue entry leaves
//! as soon as that state ends. The sender's deadline allows no last attempt.

use crate::Action;
use crate::entry::Deadlines;
use crate::queue::Queue;
use crate::slab::{HELD, State, TIMED};
use mail::Mono;

impl Queue {
    /// Remembers the wishes for a new entry.
    pub(crate) fn set_deadlines(&mut self, now: Mono, slot: u32, deadlines: Deadlines) {
        if deadlines == Deadlines::NONE {
            return;
        }
        self.slab[slot].set(TIMED, true);
        self.deadlines.insert(slot, deadlines);
        self.arm_deadline(now, slot);
    }

    /// The entry leaves.
    pub(crate) fn forget_deadlines(&mut self, slot: u32) {
        if self.slab[slot].has(TIMED) {
            self.deadlines.remove(&slot);
            self.deadline_timers.set(slot, Mono::NEVER);
        }
    }

    pub(crate) fn deadlines_at(&self, slot: u32) -> Deadlines {
        let known = self.deadlines.get(&slot).filter(|_| self.slab[slot].has(TIMED));
        known.copied().unwrap_or(Deadlines::NONE)
    }

    /// Returns true if the sender's deadline has passed.
    pub(crate) fn is_overdue(&self, now: Mono, slot: u32) -> bool {
        !self.keeps_all && self.deadlines_at(slot).expires <= now
    }

    /// Sets the timer of an entry; overdue work that was blocked before is done next.
    pub(crate) fn arm_deadline(&mut self, now: Mono, slot: u32) {
        if !self.slab[slot].has(TIMED) {
            return;
        }
        let Deadlines { expires, notice } = self.deadlines_at(slot);
        let notice = if self.slab[slot].has(crate::slab::WARNED) { Mono::NEVER } else { notice };
        self.deadline_timers.set(slot, expires.min(notice).max(now));
    }

    /// Corrects deadlines that were set while the wall clock was wrong by this much.
    pub(crate) fn postpone_deadlines(&mut self, slot: u32, wrong_us: i64) {
        if let (true, Some(known)) = (self.slab[slot].has(TIMED), self.deadlines.get_mut(&slot)) {
            for at in [&mut known.expires, &mut known.notice] {
                *at = Mono(at.0.saturating_add_signed(wrong_us));
            }
        }
    }

    /// Sets all timers once the clock is trusted again.
    pub(crate) fn arm_all_deadlines(&mut self, now: Mono) {
        // The order of setting them does not matter.
        let slots: Vec<u32> = self.deadlines.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.arm_deadline(now, slot));
    }

    /// Handles an expired deadline timer.
    pub(crate) fn meet_deadline(&mut self, now: Mono, slot: u32) {
        let expires = self.deadlines_at(slot).expires;
        let entry = &self.slab[slot];
        let is_stuck = self.keeps_all || entry.has(HELD) || entry.state() == State::InFlight;
        let next = if expires > now { expires } else { Mono::NEVER };
        // A stuck entry is checked when that state ends.
        self.deadline_timers.set(slot, next);
        if is_stuck {
            return;
        }
        if expires <= now {
            self.expire(now, slot);
        } else {
            self.warn_if_late(now, slot);
        }
    }

    /// Expires an entry that is not in flight.
    pub(crate) fn expire(&mut self, now: Mono, slot: u32) {
        let detail = self.leave_with_detail(now, slot);
        self.actions.push_back(Action::Expired(detail));
    }
}
