//! Entries that an operator puts into another scheduled queue.

use crate::queue::Queue;
use crate::slab::{HELD, State};
use crate::{EntryId, ScheduledId};
use mail::Mono;

/// What [`Queue::transfer`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transferred {
    /// It waits there now, or is on hold there.
    Done,
    /// It is being tried, and stays where it is.
    InFlight,
    /// There is no such entry any more.
    Gone,
}

impl Queue {
    /// Puts an entry into another scheduled queue, or the same, with this priority. When it is due, how often it
    /// was tried and whether it is held stay as they are.
    ///
    /// # Panics
    /// If `scheduled` was dropped (see [`Queue::scheduled`]).
    pub fn transfer(
        &mut self,
        now: Mono,
        entry: EntryId,
        scheduled: ScheduledId,
        priority: u8,
    ) -> Transferred {
        let Some(found) = self.slab.get(entry) else { return Transferred::Gone };
        let (state, ready, slot) = (found.state(), found.ready, entry.slot);
        match state {
            State::Free => return Transferred::Gone,
            State::InFlight => return Transferred::InFlight,
            // Perhaps nothing waits there any more.
            State::Ready => self.mark(ready),
            State::Scheduled | State::Locating | State::Held => {}
        }
        self.detach(slot);
        let number = self.slab[slot].scheduled;
        let left = &mut self.scheduled[number];
        left.entries -= 1;
        left.used = now;
        self.tenants.count_out(left.tenant);
        let entered = &mut self.scheduled[scheduled.0];
        entered.entries += 1;
        entered.used = now;
        self.tenants.count_in(entered.tenant);
        self.slab[slot].scheduled = scheduled.0;
        self.slab[slot].set_priority(priority);
        if !self.slab[slot].has(HELD) {
            self.place(now, slot);
        }
        Transferred::Done
    }
}
