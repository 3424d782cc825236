//! What the sender of a message wants of time: until when it is tried, and when it is told of a delay. Few have
//! such wishes, so they stand beside the slab, with a timer each.
//!
//! These hold to the moment and in every state, except on hold, while the clock is doubted, and in flight: then
//! what is overdue leaves when that is over. There is no last try after the sender's deadline.

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

    /// Whether the sender wants it given up by now.
    pub(crate) fn is_overdue(&self, now: Mono, slot: u32) -> bool {
        !self.keeps_all && self.deadlines_at(slot).expires <= now
    }

    /// Sets the timer of an entry; what is due and could not be done before is done next.
    pub(crate) fn arm_deadline(&mut self, now: Mono, slot: u32) {
        if !self.slab[slot].has(TIMED) {
            return;
        }
        let Deadlines { expires, notice } = self.deadlines_at(slot);
        let notice = if self.slab[slot].has(crate::slab::WARNED) { Mono::NEVER } else { notice };
        self.deadline_timers.set(slot, expires.min(notice).max(now));
    }

    /// The time of day was wrong by so much when they were taken.
    pub(crate) fn postpone_deadlines(&mut self, slot: u32, wrong_us: i64) {
        if let (true, Some(known)) = (self.slab[slot].has(TIMED), self.deadlines.get_mut(&slot)) {
            for at in [&mut known.expires, &mut known.notice] {
                *at = Mono(at.0.saturating_add_signed(wrong_us));
            }
        }
    }

    /// The clock is trusted again.
    pub(crate) fn arm_all_deadlines(&mut self, now: Mono) {
        // In what order they are set changes nothing.
        let slots: Vec<u32> = self.deadlines.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.arm_deadline(now, slot));
    }

    /// A deadline has come.
    pub(crate) fn meet_deadline(&mut self, now: Mono, slot: u32) {
        let expires = self.deadlines_at(slot).expires;
        let entry = &self.slab[slot];
        let is_stuck = self.keeps_all || entry.has(HELD) || entry.state() == State::InFlight;
        let next = if expires > now { expires } else { Mono::NEVER };
        // Who is stuck is looked at when that is over.
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

    /// An entry, which is not in flight, is given up.
    pub(crate) fn expire(&mut self, now: Mono, slot: u32) {
        let detail = self.leave_with_detail(now, slot);
        self.actions.push_back(Action::Expired(detail));
    }
}
