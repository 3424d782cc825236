//! Looking at the queue without changing it.

use crate::queue::Queue;
use crate::scheduled::Scheduled;
use crate::slab::{FIRST, HELD, NONE, State};
use crate::{EntryDetail, EntryId, ReadyId, ReadyKey, ScheduledId, ScheduledKey};
use mail::{Failure, MessageId, Mono};
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of entries by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting for their due time or their next hop.
    pub scheduled: usize,
    /// Waiting for a connection.
    pub ready: usize,
    /// Handed to connections.
    pub in_flight: usize,
    /// Held by an operator.
    pub held: usize,
    /// Scheduled queues known, empty ones included.
    pub scheduled_queues: usize,
    /// Ready queues known, empty ones included.
    pub ready_queues: usize,
}

/// A scheduled queue, for lists.
#[derive(Clone, Debug)]
pub struct ScheduledCounts<'a> {
    /// Its id, valid while the queue exists.
    pub id: ScheduledId,
    /// Properties common to its entries.
    pub key: &'a ScheduledKey,
    /// Entries in any state.
    pub entries: usize,
    /// Entries waiting for their due time or their next hop.
    pub waiting: usize,
}

/// A ready queue, for lists.
#[derive(Clone, Debug)]
pub struct ReadyCounts<'a> {
    /// Its id, valid while the queue exists.
    pub id: ReadyId,
    /// Properties common to its entries.
    pub key: &'a ReadyKey,
    /// Entries that wait for a connection.
    pub entries: usize,
    /// Open connections of this shard.
    pub open: u32,
    /// Open connections without a transaction.
    pub idle: u32,
    /// Connections that this shard is opening.
    pub opening: u32,
}

/// Summary of one entry, for listings of the whole queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its name in the queue.
    pub entry: EntryId,
    /// The message of this recipient.
    pub id: MessageId,
    /// Its index in the envelope.
    pub recipient: u32,
    /// Its scheduled queue.
    pub scheduled: ScheduledId,
    /// Its ready queue if it is ready or in flight.
    pub ready: Option<ReadyId>,
    /// The kind of queue it is in.
    pub state: GlanceState,
    /// Age of the message, in microseconds.
    pub age_us: u64,
    /// Set for exactly one of the recipients of a message.
    pub is_first: bool,
    /// No other recipient of its message is queued.
    pub is_alone: bool,
}

/// State of an entry in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlanceState {
    /// Waits for its due time or its next hop.
    Scheduled,
    /// Waits for a connection.
    Ready,
    /// Handed to a connection.
    InFlight,
    /// On hold, or will be after its attempt.
    Held,
}

impl Queue {
    /// Counts the entries by state.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        QueueCounts {
            scheduled: self.states[State::Scheduled as usize]
                + self.states[State::Locating as usize],
            ready: self.states[State::Ready as usize],
            in_flight: self.states[State::InFlight as usize],
            held: self.states[State::Held as usize],
            scheduled_queues: self.scheduled.len(),
            ready_queues: self.ready.len(),
        }
    }

    /// All scheduled queues that are known, empty ones included.
    pub fn scheduled_queues(&self) -> impl Iterator<Item = ScheduledCounts<'_>> + '_ {
        self.scheduled.iter().map(|(number, queue)| ScheduledCounts {
            id: ScheduledId(number),
            key: &queue.key,
            entries: queue.entries as usize,
            waiting: queue.heap.len(),
        })
    }

    /// All ready queues that are known, empty ones included.
    pub fn ready_queues(&self) -> impl Iterator<Item = ReadyCounts<'_>> + '_ {
        self.ready.iter().map(|(number, queue)| ReadyCounts {
            id: ReadyId(number),
            key: &queue.key,
            entries: queue.backlog.total() as usize,
            open: queue.open,
            idle: queue.idle,
            opening: queue.opening,
        })
    }

    /// Number of chunks of entries, for [`Queue::glances`].
    #[must_use]
    pub fn chunk_count(&self) -> u32 {
        self.slab.chunk_count()
    }

    /// The entries of one chunk, about a thousand. A loop over all chunks from 0 to [`Queue::chunk_count`] may pause
    /// between chunks. It sees each entry once that is queued all the time, and may miss entries that arrive or leave.
    pub fn glances(&self, now: Mono, chunk: u32) -> impl Iterator<Item = Glance> + '_ {
        self.slab.slots(chunk).map(move |slot| self.glance(now, slot))
    }

    fn glance(&self, now: Mono, slot: u32) -> Glance {
        let entry = &self.slab[slot];
        let held = entry.has(HELD);
        let state = match entry.state() {
            _ if held => GlanceState::Held,
            State::Ready => GlanceState::Ready,
            State::InFlight => GlanceState::InFlight,
            _ => GlanceState::Scheduled,
        };
        let is_placed = matches!(entry.state(), State::Ready | State::InFlight);
        Glance {
            entry: self.slab.entry_id(slot),
            id: entry.id,
            recipient: entry.recipient,
            scheduled: ScheduledId(entry.scheduled),
            ready: is_placed.then_some(ReadyId(entry.ready)),
            state,
            age_us: entry.age_us(now),
            is_first: entry.has(FIRST),
            is_alone: entry.sibling_next == NONE,
        }
    }

    /// Summaries of the queued recipients of a message, named by one recipient.
    #[must_use]
    pub fn glances_of(&self, now: Mono, entry: EntryId) -> Vec<Glance> {
        if self.slab.get(entry).is_none() {
            return Vec::new();
        }
        self.slots_of_message(entry.slot).into_iter().map(|slot| self.glance(now, slot)).collect()
    }

    /// Details of the queued recipients of a message, named by one recipient.
    #[must_use]
    pub fn entries(&self, now: Mono, entry: EntryId) -> Vec<EntryDetail> {
        if self.slab.get(entry).is_none() {
            return Vec::new();
        }
        let slots = self.slots_of_message(entry.slot);
        slots.into_iter().map(|slot| self.detail(now, slot)).collect()
    }

    /// Details of an entry; `None` if it no longer exists.
    #[must_use]
    pub fn entry(&self, now: Mono, entry: EntryId) -> Option<EntryDetail> {
        self.slab.get(entry)?;
        Some(self.detail(now, entry.slot))
    }

    /// The last failure of an entry or its queue, if still known.
    #[must_use]
    pub fn last_failure(&self, entry: EntryId) -> Option<&Arc<Failure>> {
        self.slab.get(entry)?;
        self.last_failure_at(entry.slot)
    }

    /// The ready queue that an entry waits in, or was taken from.
    #[must_use]
    pub fn ready_of(&self, entry: EntryId) -> Option<&ReadyKey> {
        let found = self.slab.get(entry)?;
        let is_placed = matches!(found.state(), State::Ready | State::InFlight);
        self.ready.get(found.ready).filter(|_| is_placed).map(|queue| &queue.key)
    }

    /// Ready queues of a scheduled queue, as far as they are resolved.
    #[must_use]
    pub fn ways_of(&self, scheduled: ScheduledId) -> SmallVec<[ReadyId; 1]> {
        self.scheduled.get(scheduled.0).map(Scheduled::ready).unwrap_or_default()
    }

    /// Time at which an entry expires if nothing changes; `None` if it is gone.
    #[must_use]
    pub fn expiry(&self, entry: EntryId) -> Option<Mono> {
        self.slab.get(entry)?;
        Some(self.expires_at(entry.slot))
    }

    /// One page of the scheduled queues, for listings: numbers and keys starting at `from`, and the start of the next
    /// page.
    pub fn scheduled_piece(
        &self,
        from: u32,
    ) -> (impl Iterator<Item = ScheduledCounts<'_>> + '_, Option<u32>) {
        let end = self.scheduled.end();
        let to = end.min(from.saturating_add(PIECE_ROWS));
        let rows = (from..to).filter_map(|n| Some((n, self.scheduled.get(n)?)));
        let counts = rows.map(|(number, queue)| ScheduledCounts {
            id: ScheduledId(number),
            key: &queue.key,
            entries: queue.entries as usize,
            waiting: queue.heap.len(),
        });
        (counts, (to < end).then_some(to))
    }
}

/// Queues per page.
const PIECE_ROWS: u32 = 1_024;
