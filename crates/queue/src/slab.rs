//! Storage of entries: a slab of chunks, so that growth never copies existing entries.
//!
//! An entry is 64 bytes, one cache line, and its origin is another four bytes beside it. The sweep frees chunks that
//! became empty.

use crate::{EntryId, NewEntry, Origin};
use mail::{MessageId, Mono};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{Index, IndexMut};

/// No slot, no queue.
pub(crate) const NONE: u32 = u32::MAX;
pub(crate) const CHUNK: u32 = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 10;

/// An operator holds it.
pub(crate) const HELD: u8 = 1;
/// The delay notice went out.
pub(crate) const WARNED: u8 = 2;
/// In a ready queue directly after another recipient of the same message: counts as one transaction with it.
pub(crate) const FOLLOWER: u8 = 4;
/// Removed by an operator while in flight: leaves on its return.
pub(crate) const REMOVED: u8 = 8;
/// Set on exactly one recipient of each message; the number of messages is counted by it.
pub(crate) const FIRST: u8 = 16;

/// It has deadlines set by its sender; they are stored outside of the slab.
pub(crate) const TIMED: u8 = 32;

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot is not used.
    Free = 0,
    /// In the heap of its scheduled queue.
    Scheduled = 1,
    /// In a list of a ready queue.
    Ready = 2,
    /// Handed to a connection.
    InFlight = 3,
    /// Waits for an operator; in no list.
    Held = 4,
    /// A lookup of its next hop is pending; it is in no list.
    Locating = 5,
}

/// The number of states.
pub(crate) const STATES: usize = 6;

#[derive(Clone, Debug)]
pub(crate) struct QueueEntry {
    pub(crate) id: MessageId,
    /// Microseconds since `Mono(0)`; negative if older than the process.
    pub(crate) received_us: i64,
    pub(crate) due: Mono,
    pub(crate) generation: u32,
    pub(crate) recipient: u32,
    pub(crate) scheduled: u32,
    pub(crate) ready: u32,
    /// Scheduled: place in the heap. Ready: the next in the list. Free: the next free slot.
    pub(crate) link: u32,
    /// Ready: the previous entry in the list. With [`HELD`]: the number of the reason, or `NONE`.
    pub(crate) previous: u32,
    /// Ring of a message's recipients that were pushed one after the other.
    pub(crate) sibling_next: u32,
    pub(crate) sibling_previous: u32,
    /// Ticket of the last failure, 0 for none.
    pub(crate) failure: u32,
    pub(crate) attempts: u16,
    state_and_priority: u8,
    flags: u8,
}

const _: () = assert!(size_of::<QueueEntry>() == 64);

impl QueueEntry {
    fn free(generation: u32, link: u32) -> QueueEntry {
        QueueEntry {
            id: MessageId(0),
            received_us: 0,
            due: Mono(0),
            generation,
            recipient: 0,
            scheduled: NONE,
            ready: NONE,
            link,
            previous: NONE,
            sibling_next: NONE,
            sibling_previous: NONE,
            failure: 0,
            attempts: 0,
            state_and_priority: 0,
            flags: 0,
        }
    }

    pub(crate) fn state(&self) -> State {
        match self.state_and_priority & 7 {
            1 => State::Scheduled,
            2 => State::Ready,
            3 => State::InFlight,
            4 => State::Held,
            5 => State::Locating,
            _ => State::Free,
        }
    }

    pub(crate) fn set_state(&mut self, state: State) {
        self.state_and_priority = (self.state_and_priority & !7) | state as u8;
    }

    pub(crate) fn priority(&self) -> u8 {
        self.state_and_priority >> 3
    }

    pub(crate) fn set_priority(&mut self, priority: u8) {
        self.state_and_priority = (self.state_and_priority & 7) | (priority.min(9) << 3);
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.flags |= flag;
        } else {
            self.flags &= !flag;
        }
    }

    /// Order within a scheduled queue.
    pub(crate) fn rank(&self) -> (Mono, MessageId, u32) {
        (self.due, self.id, self.recipient)
    }

    /// Age in microseconds; never negative.
    pub(crate) fn age_us(&self, now: Mono) -> u64 {
        let now = i64::try_from(now.0).unwrap_or(i64::MAX);
        u64::try_from(now.saturating_sub(self.received_us)).unwrap_or(0)
    }

    /// The time at which it is `age_us` old.
    pub(crate) fn moment_at_age(&self, age_us: u64) -> Mono {
        let age = i64::try_from(age_us).unwrap_or(i64::MAX);
        match self.received_us.checked_add(age) {
            Some(at) => Mono(u64::try_from(at).unwrap_or(0)),
            None => Mono::NEVER,
        }
    }
}

struct Chunk {
    /// Empty while the chunk has no memory.
    entries: Box<[QueueEntry]>,
    /// The origins of the entries, by slot.
    origins: Box<[Origin]>,
    free: u32,
    live: u32,
    /// Generation of all slots when the chunk is allocated again.
    generation: u32,
}

/// All entries of a shard.
#[derive(Default)]
pub(crate) struct Slab {
    chunks: Vec<Chunk>,
    /// Exactly the chunks that have a free slot (or no memory yet); the lowest is filled first.
    open: BinaryHeap<Reverse<u32>>,
    live: usize,
    loaded: u32,
    /// The entry pushed last: most siblings are pushed directly after each other.
    last: u32,
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab { last: NONE, ..Slab::default() }
    }

    /// Entries in use.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Chunks that have memory.
    pub(crate) fn loaded(&self) -> u32 {
        self.loaded
    }

    pub(crate) fn chunk_count(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// The slots in use in one chunk.
    pub(crate) fn slots(&self, chunk: u32) -> impl Iterator<Item = u32> + '_ {
        let chunk_ref = self.chunks.get(chunk as usize).filter(|c| c.live > 0);
        let (entries, live) = chunk_ref.map_or((&[][..], 0), |c| (&c.entries, c.live));
        entries
            .iter()
            .zip(chunk << CHUNK_BITS..)
            .filter(|(e, _)| e.state() != State::Free)
            .map(|(_, slot)| slot)
            // All live entries were found: the rest of the chunk is not searched.
            .take(live as usize)
    }

    /// All entries in use, by slot.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &QueueEntry)> + '_ {
        self.chunks.iter().enumerate().filter(|(_, c)| c.live > 0).flat_map(|(i, c)| {
            c.entries
                .iter()
                .zip((i as u32) << CHUNK_BITS..)
                .filter(|(e, _)| e.state() != State::Free)
                .map(|(e, slot)| (slot, e))
        })
    }

    /// Stores a new entry in the state `Held`, which means that it is in no list.
    pub(crate) fn insert(&mut self, scheduled: u32, new: &NewEntry) -> u32 {
        let index = match self.open.peek() {
            Some(Reverse(index)) => *index,
            None => self.grow(),
        };
        let chunk = &mut self.chunks[index as usize];
        if chunk.entries.is_empty() {
            let generation = chunk.generation;
            chunk.entries = (0..CHUNK)
                .map(|i| QueueEntry::free(generation, if i + 1 < CHUNK { i + 1 } else { NONE }))
                .collect();
            chunk.origins = [Origin::OURS; CHUNK as usize].into();
            chunk.free = 0;
            self.loaded += 1;
        }
        let within = chunk.free;
        chunk.origins[within as usize] = new.origin;
        let entry = &mut chunk.entries[within as usize];
        chunk.free = entry.link;
        chunk.live += 1;
        let full = chunk.free == NONE;
        let older_us = i64::try_from(new.age_before_start.as_micros()).unwrap_or(i64::MAX);
        *entry = QueueEntry {
            id: new.id,
            received_us: i64::try_from(new.received.0).unwrap_or(i64::MAX) - older_us,
            due: new.due,
            recipient: new.recipient,
            scheduled,
            attempts: new.attempts,
            state_and_priority: (new.priority.min(9) << 3) | State::Held as u8,
            flags: if new.held { HELD } else { 0 } | if new.warned { WARNED } else { 0 },
            ..QueueEntry::free(entry.generation, NONE)
        };
        if full {
            self.open.pop();
        }
        self.live += 1;
        let slot = index << CHUNK_BITS | within;
        self.join_siblings(slot);
        slot
    }

    fn grow(&mut self) -> u32 {
        let index = self.chunks.len() as u32;
        // 2^22 chunks of 2^10 slots: u32 slots end at 4 thousand million recipients, 270 GB.
        assert!(index < u32::MAX >> CHUNK_BITS, "more than 2^32 queued recipients");
        self.chunks.push(Chunk {
            entries: Box::default(),
            origins: Box::default(),
            free: 0,
            live: 0,
            generation: 0,
        });
        self.open.push(Reverse(index));
        index
    }

    fn join_siblings(&mut self, slot: u32) {
        let id = self[slot].id;
        let last = std::mem::replace(&mut self.last, slot);
        if last == NONE || self[last].id != id {
            self[slot].set(FIRST, true);
            return;
        }
        // A ring of one entry has NONE on both sides.
        let first = match self[last].sibling_next {
            NONE => last,
            next => next,
        };
        self[slot].sibling_previous = last;
        self[slot].sibling_next = first;
        self[last].sibling_next = slot;
        self[first].sibling_previous = slot;
    }

    /// Frees an entry, which must be in no list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (next, previous) = (self[slot].sibling_next, self[slot].sibling_previous);
        if next != NONE {
            if self[slot].has(FIRST) {
                self[next].set(FIRST, true);
            }
            if next == previous {
                self[next].sibling_next = NONE;
                self[next].sibling_previous = NONE;
            } else {
                self[next].sibling_previous = previous;
                self[previous].sibling_next = next;
            }
        }
        if self.last == slot {
            self.last = previous;
        }
        let index = slot >> CHUNK_BITS;
        let chunk = &mut self.chunks[index as usize];
        let entry = &mut chunk.entries[(slot & (CHUNK - 1)) as usize];
        debug_assert_ne!(entry.state(), State::Free);
        entry.set_state(State::Free);
        entry.generation = entry.generation.wrapping_add(1);
        entry.link = chunk.free;
        if chunk.free == NONE {
            self.open.push(Reverse(index));
        }
        chunk.free = slot & (CHUNK - 1);
        chunk.live -= 1;
        self.live -= 1;
    }

    /// Frees an empty chunk.
    pub(crate) fn release(&mut self, chunk: u32) {
        let Some(chunk) = self.chunks.get_mut(chunk as usize) else { return };
        if chunk.live > 0 || chunk.entries.is_empty() {
            return;
        }
        let newest = chunk.entries.iter().map(|e| e.generation).max().unwrap_or(0);
        chunk.generation = newest.wrapping_add(1);
        chunk.entries = Box::default();
        chunk.origins = Box::default();
        self.loaded -= 1;
    }

    /// The entry, unless it is gone.
    pub(crate) fn get(&self, id: EntryId) -> Option<&QueueEntry> {
        let chunk = self.chunks.get((id.slot >> CHUNK_BITS) as usize)?;
        let entry = chunk.entries.get((id.slot & (CHUNK - 1)) as usize)?;
        (entry.generation == id.generation && entry.state() != State::Free).then_some(entry)
    }

    pub(crate) fn origin(&self, slot: u32) -> Origin {
        self.chunks[(slot >> CHUNK_BITS) as usize].origins[(slot & (CHUNK - 1)) as usize]
    }

    pub(crate) fn entry_id(&self, slot: u32) -> EntryId {
        EntryId { slot, generation: self[slot].generation }
    }
}

impl Index<u32> for Slab {
    type Output = QueueEntry;

    fn index(&self, slot: u32) -> &QueueEntry {
        &self.chunks[(slot >> CHUNK_BITS) as usize].entries[(slot & (CHUNK - 1)) as usize]
    }
}

impl IndexMut<u32> for Slab {
    fn index_mut(&mut self, slot: u32) -> &mut QueueEntry {
        &mut self.chunks[(slot >> CHUNK_BITS) as usize].entries[(slot & (CHUNK - 1)) as usize]
    }
}

/// A table of boxed rows, which grows by eight bytes per row whatever the size of a row.
pub(crate) struct Table<T> {
    rows: Vec<Option<Box<T>>>,
    /// The number that was freed first is used first, so that a stale one lives long unused.
    free: VecDeque<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: Vec::new(), free: VecDeque::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        let number = self.free.pop_front().unwrap_or(self.rows.len() as u32);
        match self.rows.get_mut(number as usize) {
            Some(place) => *place = Some(Box::new(row)),
            None => self.rows.push(Some(Box::new(row))),
        }
        number
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(place) = self.rows.get_mut(number as usize)
            && place.take().is_some()
        {
            self.free.push_back(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.rows.get(number as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.rows.get_mut(number as usize)?.as_deref_mut()
    }

    /// One more than the highest number ever used.
    pub(crate) fn end(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        self.rows.iter().zip(0..).filter_map(|(row, n)| Some((n, row.as_deref()?)))
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("a queue that is in use")
    }
}

impl<T> IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("a queue that is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn new(id: u64) -> NewEntry {
        NewEntry {
            id: MessageId(id),
            recipient: 0,
            received: Mono(5),
            age_before_start: Duration::from_micros(8),
            due: Mono(0),
            attempts: 0,
            priority: 4,
            held: false,
            warned: false,
            deadlines: crate::Deadlines::NONE,
            origin: Origin::OURS,
        }
    }

    #[test]
    fn stale_ids_are_recognised_even_after_a_chunk_was_released() {
        let mut slab = Slab::new();
        let slot = slab.insert(0, &new(1));
        let id = slab.entry_id(slot);
        assert_eq!(slab[slot].age_us(Mono(10)), 13);
        slab.remove(slot);
        assert!(slab.get(id).is_none());
        slab.release(0);
        assert!(slab.get(id).is_none());
        let again = slab.insert(0, &new(2));
        assert_eq!(again, slot);
        assert!(slab.get(id).is_none());
        assert!(slab.get(slab.entry_id(again)).is_some());
    }

    #[test]
    fn recipients_of_a_message_form_a_ring() {
        let mut slab = Slab::new();
        let slots: Vec<u32> = (0..4).map(|_| slab.insert(0, &new(7))).collect();
        let other = slab.insert(0, &new(8));
        assert_eq!(slab[other].sibling_next, NONE);
        let mut at = slots[0];
        for expected in [1, 2, 3, 0] {
            at = slab[at].sibling_next;
            assert_eq!(at, slots[expected]);
        }
        let firsts = |slab: &Slab| slab.iter().filter(|(_, e)| e.has(FIRST)).count();
        assert_eq!(firsts(&slab), 2);
        slab.remove(slots[1]);
        assert_eq!(slab[slots[0]].sibling_next, slots[2]);
        slab.remove(slots[0]);
        assert_eq!(firsts(&slab), 2, "another stands for the message");
        slab.remove(slots[3]);
        assert_eq!(slab[slots[2]].sibling_next, NONE);
    }

    #[test]
    fn slots_are_reused_lowest_chunk_first() {
        let mut slab = Slab::new();
        let slots: Vec<u32> = (0..u64::from(CHUNK) * 3).map(|i| slab.insert(0, &new(i))).collect();
        assert_eq!((slab.live(), slab.chunk_count()), (3 * CHUNK as usize, 3));
        slab.remove(slots[CHUNK as usize * 2 + 1]);
        slab.remove(slots[3]);
        assert_eq!(slab.insert(0, &new(1)), slots[3]);
        assert_eq!(slab.insert(0, &new(2)), slots[CHUNK as usize * 2 + 1]);
        assert_eq!(slab.iter().count(), 3 * CHUNK as usize);
        assert_eq!(slab.slots(2).count(), CHUNK as usize);
        assert_eq!(slab.insert(0, &new(3)), 3 * CHUNK);
    }
}
