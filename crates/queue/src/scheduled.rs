//! Scheduled queues: entries that wait for their due time or for a next-hop answer.

use crate::hours::KnownHours;
use crate::slab::{Slab, State};
use crate::suspension::SuspensionState;
use crate::ways::Ways;
use crate::{Blocker, ReadyId, RetryPolicy, ScheduledKey, WaitingCount};
use mail::{Failure, Mono};
use smallvec::SmallVec;
use std::sync::Arc;

/// State of a scheduled queue's next-hop resolution.
#[derive(Clone, Debug)]
pub(crate) enum RoutingState {
    /// Not resolved yet.
    Nothing,
    /// Ready queues for its entries, valid until this time.
    Ready(Ways, Mono),
    /// The lookup failed; retry at this time.
    Trouble(Arc<Failure>, Mono),
    /// No next hop: due entries are refused.
    Refused(Arc<Failure>),
    /// Entries are located one by one at their due time; until then.
    Each(Mono),
}

/// Value of `used` for a queue with an id returned since the last sweep.
pub(crate) const JUST_ASKED_FOR: Mono = Mono(0);

pub(crate) struct Scheduled {
    pub(crate) key: Arc<ScheduledKey>,
    pub(crate) tenant: u32,
    pub(crate) retry: Arc<RetryPolicy>,
    pub(crate) heap: DueHeap,
    pub(crate) known: RoutingState,
    /// The epoch in which the answer was requested: a reload makes older ones stale.
    pub(crate) epoch: u32,
    /// The epoch of the open question.
    pub(crate) asked_epoch: u32,
    /// A `Resolve` is pending.
    pub(crate) asked: bool,
    /// Failed lookups since the last answer.
    pub(crate) troubles: u16,
    /// Entries in any state.
    pub(crate) entries: u32,
    /// Entries in ready queues may not continue there either.
    pub(crate) way_lost: bool,
    /// Time of the last answer.
    pub(crate) answered: Mono,
    /// Time since which entries are located by recipient, and the epoch of that answer.
    pub(crate) each_since: Option<(u32, Mono)>,
    /// Time at which one of its entries was located last.
    pub(crate) located: Option<Mono>,
    /// It is in the list of queues that wait for lookups of their entries.
    pub(crate) in_line: bool,
    /// An operator stopped it.
    pub(crate) standstill: SuspensionState,
    /// State of the sending window; `None` without a window.
    pub(crate) hours: Option<KnownHours>,
    /// Last use, for dropping it.
    pub(crate) used: Mono,
    /// The last failure of any of its entries, and its ticket.
    pub(crate) last_failure: Option<(Arc<Failure>, u32)>,
    /// Its entries, for other threads, while its lookups fail.
    waiting: Option<WaitingCount>,
}

impl Scheduled {
    pub(crate) fn new(key: Arc<ScheduledKey>, tenant: u32, retry: Arc<RetryPolicy>) -> Scheduled {
        let hours = (!key.window.is_empty()).then(KnownHours::new);
        Scheduled {
            key,
            tenant,
            retry,
            heap: DueHeap::default(),
            known: RoutingState::Nothing,
            epoch: 0,
            asked_epoch: 0,
            asked: false,
            troubles: 0,
            entries: 0,
            way_lost: false,
            answered: Mono(0),
            each_since: None,
            located: None,
            in_line: false,
            standstill: SuspensionState::default(),
            hours,
            used: JUST_ASKED_FOR,
            last_failure: None,
            waiting: None,
        }
    }

    /// Sets the number of its entries.
    pub(crate) fn set_entries(&mut self, entries: u32) {
        self.entries = entries;
        if let Some(waiting) = &self.waiting {
            waiting.set(entries);
        }
    }

    /// Its entries, for other threads, until [`Scheduled::end_trouble`].
    pub(crate) fn waiting(&mut self) -> WaitingCount {
        let waiting = self.waiting.get_or_insert_default();
        waiting.set(self.entries);
        waiting.clone()
    }

    /// A lookup succeeded.
    pub(crate) fn end_trouble(&mut self) {
        self.troubles = 0;
        self.waiting = None;
    }

    /// Its ready queues, if the answer is of this epoch and not too old.
    pub(crate) fn fresh(&self, now: Mono, epoch: u32) -> Option<&Ways> {
        match &self.known {
            _ if self.is_suspended(now) => None,
            RoutingState::Ready(ways, until) if self.epoch == epoch && now < *until => Some(ways),
            _ => None,
        }
    }

    pub(crate) fn is_suspended(&self, now: Mono) -> bool {
        self.standstill.get().is_some()
            || self.hours.as_ref().is_some_and(|hours| !hours.are_open(now))
    }

    /// End of the last suspension or closed window.
    pub(crate) fn resumed(&self) -> Mono {
        let opened = self.hours.as_ref().map_or(Mono(0), KnownHours::opened);
        self.standstill.ended().max(opened)
    }

    /// The blocker of its entries outside the sending window.
    pub(crate) fn closed_window(&self, now: Mono) -> Option<Blocker> {
        let until = self.hours.as_ref()?.closed_until(now)?;
        Some(Blocker::Hours { window: Arc::clone(&self.key.window), until })
    }

    /// The ready queues that the last answer named, even if the answer is old.
    pub(crate) fn ready(&self) -> SmallVec<[ReadyId; 1]> {
        match &self.known {
            RoutingState::Ready(ways, _) => ways.iter().collect(),
            _ => SmallVec::new(),
        }
    }
}

/// A binary heap of slots by due time, then by message and recipient, so that entries due together keep their order of
/// arrival. Entries know their positions, so any can leave.
#[derive(Default)]
pub(crate) struct DueHeap(Vec<u32>);

impl DueHeap {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The entry due first.
    pub(crate) fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds an entry and sets its state.
    pub(crate) fn push(&mut self, slab: &mut Slab, slot: u32) {
        if self.0.len() == self.0.capacity() {
            // Grows by half instead of doubling: a million entries in one queue must not take twice their size at the
            // peak. Vec's own amortised growth would double.
            self.0.reserve_exact((self.0.len() / 2).max(2));
        }
        slab[slot].set_state(State::Scheduled);
        slab[slot].link = self.0.len() as u32;
        self.0.push(slot);
        self.up(slab, self.0.len() - 1);
    }

    /// Takes an entry out; its state stays for the caller to set.
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        let place = slab[slot].link as usize;
        debug_assert_eq!(self.0.get(place), Some(&slot));
        self.0.swap_remove(place);
        if let Some(&moved) = self.0.get(place) {
            slab[moved].link = place as u32;
            self.up(slab, place);
            self.down(slab, slab[moved].link as usize);
        }
        if self.0.capacity() > 32 && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    /// The entry's due time was brought forward.
    pub(crate) fn hastened(&mut self, slab: &mut Slab, slot: u32) {
        self.up(slab, slab[slot].link as usize);
    }

    fn up(&mut self, slab: &mut Slab, mut place: usize) {
        let slot = self.0[place];
        let rank = slab[slot].rank();
        while place > 0 {
            let parent = (place - 1) / 2;
            let above = self.0[parent];
            if slab[above].rank() <= rank {
                break;
            }
            self.0[place] = above;
            slab[above].link = place as u32;
            place = parent;
        }
        self.0[place] = slot;
        slab[slot].link = place as u32;
    }

    fn down(&mut self, slab: &mut Slab, mut place: usize) {
        let slot = self.0[place];
        let rank = slab[slot].rank();
        loop {
            let left = 2 * place + 1;
            let Some(&left_slot) = self.0.get(left) else { break };
            let (mut child, mut child_slot) = (left, left_slot);
            if let Some(&right_slot) = self.0.get(left + 1)
                && slab[right_slot].rank() < slab[left_slot].rank()
            {
                (child, child_slot) = (left + 1, right_slot);
            }
            if rank <= slab[child_slot].rank() {
                break;
            }
            self.0[place] = child_slot;
            slab[child_slot].link = place as u32;
            place = child;
        }
        self.0[place] = slot;
        slab[slot].link = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewEntry;
    use mail::{MessageId, Random};
    use std::time::Duration;

    #[test]
    fn entries_come_out_by_due_time_and_any_may_leave() {
        let (mut slab, mut heap, mut random) = (Slab::new(), DueHeap::default(), Random::new(9));
        let mut slots = Vec::new();
        for _ in 0..2000 {
            let new = NewEntry {
                id: MessageId(1),
                recipient: 0,
                received: Mono(0),
                age_before_start: Duration::ZERO,
                due: Mono(1000 + random.below(500)),
                attempts: 0,
                priority: 4,
                held: false,
                warned: false,
                deadlines: crate::Deadlines::NONE,
                origin: crate::Origin::OURS,
            };
            let slot = slab.insert(0, &new);
            heap.push(&mut slab, slot);
            slots.push(slot);
        }
        for slot in slots.iter().step_by(3) {
            heap.remove(&mut slab, *slot);
            slab.remove(*slot);
        }
        slab[slots[1]].due = Mono(1);
        heap.hastened(&mut slab, slots[1]);
        assert_eq!(heap.first(), Some(slots[1]));
        let mut order = Vec::new();
        while let Some(slot) = heap.first() {
            order.push(slab[slot].due);
            heap.remove(&mut slab, slot);
        }
        assert_eq!(order.len(), 2000 - 667);
        assert!(order.is_sorted());
    }
}
