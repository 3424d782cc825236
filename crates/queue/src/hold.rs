//! Holds set by operators, and their reasons.

use crate::EntryId;
use crate::queue::Queue;
use crate::slab::{HELD, NONE, State};
use mail::Mono;
use std::sync::Arc;

/// Result of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldResult {
    /// The message was not on hold before.
    New,
    /// The message was on hold for another reason.
    Again,
    /// It was, for this reason.
    Already,
    /// The entry no longer exists.
    Gone,
}

impl Queue {
    /// Holds the message of an entry: its recipients are not tried before [`Queue::release`] and do not expire. Those
    /// in flight are held when they return.
    pub fn hold(&mut self, entry: EntryId, reason: &Arc<str>) -> HoldResult {
        if self.slab.get(entry).is_none() {
            return HoldResult::Gone;
        }
        let mut outcome = HoldResult::Already;
        for slot in self.slots_of_message(entry.slot) {
            if self.slab[slot].has(HELD) {
                if self.hold_reason_at(slot) != Some(reason) {
                    self.hold_reasons.give_back(self.slab[slot].previous);
                    self.slab[slot].previous = self.hold_reasons.take(reason);
                    outcome = if outcome == HoldResult::New { outcome } else { HoldResult::Again };
                }
                continue;
            }
            self.detach(slot);
            self.slab[slot].set(HELD, true);
            self.slab[slot].previous = self.hold_reasons.take(reason);
            outcome = HoldResult::New;
        }
        outcome
    }

    /// Releases a held message, named by one of its recipients. However old it has become, it is tried once more.
    /// Returns false if it is gone or was not held.
    pub fn release(&mut self, now: Mono, entry: EntryId) -> bool {
        if self.slab.get(entry).is_none() {
            return false;
        }
        let mut slots = self.slots_of_message(entry.slot);
        slots.retain(|slot| self.slab[*slot].has(HELD));
        for &slot in &slots {
            self.forget_hold(slot);
            self.arm_deadline(now, slot);
            let due = self.slab[slot].due;
            self.slab[slot].due = due.max(now);
            if self.slab[slot].state() == State::Held {
                self.place(now, slot);
            }
        }
        !slots.is_empty()
    }

    /// Reason of a message's hold, named by one of its recipients; `None` if it is not held.
    #[must_use]
    pub fn hold_reason(&self, entry: EntryId) -> Option<Arc<str>> {
        let found = self.slab.get(entry)?;
        let of = self.hold_reason_at(entry.slot).cloned();
        found.has(HELD).then(|| of.unwrap_or_else(|| Arc::from("")))
    }

    pub(crate) fn hold_reason_at(&self, slot: u32) -> Option<&Arc<str>> {
        let entry = &self.slab[slot];
        self.hold_reasons.get(entry.previous).filter(|_| entry.has(HELD))
    }

    pub(crate) fn forget_hold(&mut self, slot: u32) {
        let entry = &mut self.slab[slot];
        if entry.has(HELD) {
            entry.set(HELD, false);
            let number = std::mem::replace(&mut entry.previous, NONE);
            self.hold_reasons.give_back(number);
        }
    }
}
