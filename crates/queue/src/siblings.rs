//! The recipients of one message.

use crate::EntryId;
use crate::queue::Queue;
use crate::slab::{NONE, State};
use mail::Mono;

/// Expectation of further results for other recipients of a message, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Siblings {
    /// No other recipient of the message is queued.
    None,
    /// Others wait for a later event.
    Waiting,
    /// One is due, or too old, by then.
    Due,
    /// One is being delivered.
    InFlight,
}

impl Queue {
    /// Another queued recipient of the message of `entry`.
    #[must_use]
    pub fn sibling(&self, entry: EntryId) -> Option<EntryId> {
        self.slab.get(entry)?;
        self.sibling_of(entry.slot)
    }

    pub(crate) fn sibling_of(&self, slot: u32) -> Option<EntryId> {
        let next = self.slab[slot].sibling_next;
        (next != NONE && next != slot).then(|| self.slab.entry_id(next))
    }

    /// Returns the results to expect until `by` for `entry` and the other queued recipients of its message. `None` if
    /// the entry is gone.
    #[must_use]
    pub fn siblings(&self, entry: EntryId, by: Mono) -> Siblings {
        if self.slab.get(entry).is_none() {
            return Siblings::None;
        }
        self.ring(entry.slot).map(|slot| self.expected(slot, by)).max().unwrap_or(Siblings::None)
    }

    fn expected(&self, slot: u32, by: Mono) -> Siblings {
        let entry = &self.slab[slot];
        match entry.state() {
            State::InFlight => Siblings::InFlight,
            State::Ready | State::Locating => Siblings::Due,
            State::Scheduled if entry.due <= by => Siblings::Due,
            _ if self.expires_at(slot) <= by => Siblings::Due,
            _ => Siblings::Waiting,
        }
    }

    /// The entry in `first` and its siblings.
    pub(crate) fn ring(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let slot = next?;
            let after = self.slab[slot].sibling_next;
            next = (after != NONE && after != first).then_some(after);
            Some(slot)
        })
    }
}
