//! Looking at the queue without changing it.

use crate::queue::Queue;
use crate::slab::{CHUNK, State};
use crate::{EntryDetail, EntryId, Filter, ReadyId, ReadyKey, ScheduledId, ScheduledKey};
use mail::{MessageId, Mono};

/// How many entries are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting for their time or for their next hop.
    pub scheduled: usize,
    /// Waiting for a connection.
    pub ready: usize,
    /// Being delivered.
    pub in_flight: usize,
    /// Held by an operator.
    pub held: usize,
    /// Scheduled queues known, empty ones included.
    pub scheduled_queues: usize,
    /// Ready queues known, empty ones included.
    pub ready_queues: usize,
}

/// One scheduled queue.
#[derive(Clone, Debug)]
pub struct ScheduledCounts<'a> {
    /// Its number.
    pub id: ScheduledId,
    /// Its key.
    pub key: &'a ScheduledKey,
    /// Entries in any state.
    pub entries: usize,
    /// Entries waiting for their time or for their next hop.
    pub waiting: usize,
}

/// One ready queue.
#[derive(Clone, Debug)]
pub struct ReadyCounts<'a> {
    /// Its number.
    pub id: ReadyId,
    /// Its key.
    pub key: &'a ReadyKey,
    /// Entries waiting.
    pub entries: usize,
    /// Open connections of this shard.
    pub open: u32,
    /// Of these, idle.
    pub idle: u32,
    /// Connections that this shard is opening.
    pub opening: u32,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The entries, in no order that means anything.
    pub entries: Vec<EntryDetail>,
    /// Where to go on; `None`: that was all.
    pub next: Option<u32>,
}

/// Slots looked at for one page, so that a rare match in a big queue does not block the shard.
const PAGE_SLOTS_MAX: u32 = 64 * CHUNK;

impl Queue {
    /// Counts by state.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        QueueCounts {
            scheduled: self.states[State::Scheduled as usize],
            ready: self.states[State::Ready as usize],
            in_flight: self.states[State::InFlight as usize],
            held: self.states[State::Held as usize],
            scheduled_queues: self.scheduled.len(),
            ready_queues: self.ready.len(),
        }
    }

    /// All scheduled queues.
    pub fn scheduled_queues(&self) -> impl Iterator<Item = ScheduledCounts<'_>> + '_ {
        self.scheduled.iter().map(|(number, queue)| ScheduledCounts {
            id: ScheduledId(number),
            key: &queue.key,
            entries: queue.entries as usize,
            waiting: queue.heap.len(),
        })
    }

    /// All ready queues.
    pub fn ready_queues(&self) -> impl Iterator<Item = ReadyCounts<'_>> + '_ {
        self.ready.iter().map(|(number, queue)| ReadyCounts {
            id: ReadyId(number),
            key: &queue.key,
            entries: queue.backlog.len() as usize,
            open: queue.open,
            idle: queue.idle,
            opening: queue.opening,
        })
    }

    /// The recipients of a message that are queued, by a scan of all entries.
    #[must_use]
    pub fn entries(&self, now: Mono, id: MessageId) -> Vec<EntryDetail> {
        self.slots_of(id).into_iter().map(|slot| self.detail(now, slot)).collect()
    }

    /// One entry; `None` if it is gone.
    #[must_use]
    pub fn entry(&self, now: Mono, entry: EntryId) -> Option<EntryDetail> {
        self.slab.get(entry)?;
        Some(self.detail(now, entry.slot))
    }

    /// At most `limit` entries that match (fewer where matches are rare), beginning at `cursor`, which
    /// is 0 at first and then [`Page::next`]. What is queued all the while is listed once; what
    /// comes or goes between two pages may be missing.
    #[must_use]
    pub fn page(&self, now: Mono, filter: &Filter, cursor: u32, limit: usize) -> Page {
        let mut entries = Vec::new();
        let first = cursor / CHUNK;
        let last = self.slab.chunk_count().min(first + PAGE_SLOTS_MAX / CHUNK);
        for chunk in first..last {
            for slot in self.slab.slots(chunk).filter(|slot| *slot >= cursor) {
                if entries.len() >= limit.max(1) {
                    return Page { entries, next: Some(slot) };
                }
                let entry = &self.slab[slot];
                let matches = match filter {
                    Filter::All => true,
                    Filter::Id(id) => entry.id == *id,
                    Filter::Domain(domain) => self.scheduled[entry.scheduled].key.domain == *domain,
                };
                if matches {
                    entries.push(self.detail(now, slot));
                }
            }
        }
        let more = last < self.slab.chunk_count();
        Page { entries, next: more.then_some(last * CHUNK) }
    }
}
