//! Scheduled queues with sending windows.

use crate::hours::Hours;
use crate::queue::Queue;
use crate::{Action, ScheduledId};
use mail::Mono;

impl Queue {
    /// Takes the answer to [`Action::Hours`].
    pub fn set_hours(&mut self, now: Mono, scheduled: ScheduledId, hours: Hours) {
        let Some(queue) = self.scheduled.get_mut(scheduled.0) else { return };
        let Some(known) = &mut queue.hours else { return };
        known.answer(now, hours);
        self.arm(scheduled.0);
    }

    /// Start of the sending window of an entry that was not tried yet, `NEVER` outside of the window; `None` without
    /// one.
    pub(crate) fn opened_for(&self, now: Mono, slot: u32) -> Option<Mono> {
        let entry = &self.slab[slot];
        let known = self.scheduled[entry.scheduled].hours.filter(|_| entry.attempts == 0)?;
        Some(if known.are_open(now) { known.opened() } else { Mono::NEVER })
    }

    /// Requests the sending window's state if the last answer has expired. Returns true if the queue must wait.
    pub(crate) fn waits_for_hours(&mut self, now: Mono, number: u32) -> bool {
        let Some(known) = &mut self.scheduled[number].hours else { return false };
        if known.are_open(now) {
            return false;
        }
        if known.closed_until(now).is_none() && known.ask() {
            self.actions.push_back(Action::Hours(ScheduledId(number)));
        }
        true
    }
}
