//! Compaction: frees sparse segments. Records still needed are rewritten at the end of the log, a step at a time, after
//! the records that sessions wait for.
//!
//! Two kinds are needed: live messages, and records about messages with an accept in an older existing segment. Without
//! the latter, that accept would become live again. A record is not needed if a later segment restates the message's
//! full state. Attempts of recipients settled since are not needed either.

use crate::codec::{self, AcceptHead, kind};
use crate::config::SpoolConfig;
use crate::index::IndexEntry;
use crate::io::{Mention, Op};
use crate::live::Live;
use crate::table::{IdRange, Segment};
use crate::writer::{Batch, Writer};
use bytes::Bytes;
use mail::MessageId;
use std::collections::{BTreeMap, VecDeque};

/// The segment that is being compacted, if any.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    victim: Option<u32>,
    phase: Phase,
    items: VecDeque<Item>,
    /// Ranges of the pending read.
    reading: Vec<(u64, u32, u32)>,
    /// A read is pending.
    pub busy: bool,
    /// A record could not be read or written: the segment stays.
    stuck: bool,
    /// Abandoned segments, with the free bytes at that time; with no more space a retry would fail again.
    given_up: BTreeMap<u32, u64>,
    /// Bytes rewritten since the start.
    pub written_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Copying live messages with ids from here on.
    Copying(u64),
    /// Scanning for records about messages of older segments.
    #[default]
    Scanning,
    /// Writing these records again.
    Repeating,
}

#[derive(Debug)]
enum Item {
    Copy { id: u64, offset: u32, record: Bytes },
    Repeat(u64),
}

/// Bytes that compaction would have to write for a segment.
fn needed_bytes(live: &Live, segment: &Segment) -> u64 {
    let pinned = segment.depends_on.iter().any(|on| live.segments.get(*on).is_some());
    segment.live_bytes + if pinned { segment.needed_small_bytes() } else { 0 }
}

impl Compaction {
    pub(crate) fn victim(&self) -> Option<u32> {
        self.victim
    }

    /// Picks the segment that frees most for the fewest bytes written, if one is sparse enough and its needed records
    /// fit into `room` bytes.
    pub(crate) fn choose(&mut self, live: &Live, percent: u8, newest_too: bool, room: u64) {
        if self.victim.is_some() {
            return;
        }
        let sealed = live.segments.map.values().filter(|segment| segment.sealed);
        let newest = sealed.clone().map(|segment| segment.key.generation).max();
        let best = sealed
            .filter(|segment| {
                let new = !newest_too && Some(segment.key.generation) == newest;
                let given_up = self.given_up.get(&segment.key.generation);
                let hopeless = given_up.is_some_and(|&had| room <= had);
                let rests = segment.stuck || segment.resting_ticks > 0;
                let idle = rests || segment.releasing || segment.evacuated;
                !(idle || segment.is_dense() || new || hopeless)
            })
            .map(|segment| (needed_bytes(live, segment), segment))
            .filter(|(needed, segment)| {
                // A segment without needed records is released without compaction.
                let free = segment.live_count == 0
                    && live.segments.dependencies(segment.key.generation).is_empty();
                // Copies come with index entries, so short messages take more space than before. Copying them without a
                // gain would never end.
                let indexed = segment.live_count * INDEXED_BYTES_TYPICAL as u64;
                let copied = needed.saturating_add(indexed);
                let gains = copied <= room && copied.saturating_mul(10) < segment.length * 9;
                !free && gains && needed.saturating_mul(100) < segment.length * u64::from(percent)
            })
            .min_by_key(|(needed, segment)| needed.saturating_mul(1_000) / segment.length.max(1));
        if let Some((_, segment)) = best {
            self.victim = Some(segment.key.generation);
            self.phase = Phase::Copying(0);
            self.stuck = false;
        }
    }

    /// The next read, once the records of the last one are written and durable.
    pub(crate) fn poll_op(&mut self, live: &mut Live, config: &SpoolConfig) -> Option<Op> {
        let victim = self.victim?;
        if self.busy || !self.items.is_empty() {
            return None;
        }
        let segment = live.segments.get(victim)?;
        let (file, key) = (segment.file.clone(), segment.key);
        if let Phase::Copying(id) = self.phase {
            let step = config.compact_step_bytes as u64;
            let (found, next) = live.index.in_segment(victim, id, step);
            self.phase = next.map_or(Phase::Scanning, Phase::Copying);
            if !found.is_empty() {
                let ranges = found.iter().map(|&(_, at, len)| (u64::from(at), len)).collect();
                self.reading = found;
                self.busy = true;
                return Some(Op::ReadMany { file, ranges });
            }
        }
        if self.phase == Phase::Scanning {
            self.phase = Phase::Repeating;
            let older = live.segments.dependencies(victim);
            let ranges: Vec<IdRange> =
                older.iter().filter_map(|&on| live.segments.get(on)?.ids).collect();
            if !ranges.is_empty() {
                self.busy = true;
                return Some(Op::Scan { file, key, ranges });
            }
        }
        self.finish(live);
        None
    }

    /// Ends the compaction of a segment: it can be freed unless something failed.
    fn finish(&mut self, live: &mut Live) {
        let Some(segment) = self.victim.take().and_then(|victim| live.segments.get_mut(victim))
        else {
            return;
        };
        if segment.live_count == 0 && !self.stuck {
            segment.evacuated = true;
            self.given_up.remove(&segment.key.generation);
        } else {
            segment.stuck = true;
        }
    }

    /// The disk failed: skips this segment for a while, since the error may be temporary.
    pub(crate) fn handle_failed(&mut self, live: &mut Live) {
        self.busy = false;
        self.items.clear();
        if let Some(segment) = self.victim.take().and_then(|victim| live.segments.get_mut(victim)) {
            segment.resting_ticks = RESTING_TICKS;
        }
    }

    /// To be called twice a second.
    pub(crate) fn handle_tick(live: &mut Live) {
        for segment in live.segments.map.values_mut() {
            segment.resting_ticks = segment.resting_ticks.saturating_sub(1);
        }
    }

    /// The next record does not fit into `room` free bytes: abandons the segment until more is free.
    pub(crate) fn give_up(&mut self, room: u64) {
        if let Some(victim) = self.victim.take() {
            self.given_up.insert(victim, room);
        }
        self.items.clear();
    }

    pub(crate) fn handle_read(&mut self, records: Vec<Bytes>) {
        self.busy = false;
        let found = std::mem::take(&mut self.reading);
        self.items.extend(
            found.into_iter().zip(records).map(|((id, offset, _), record)| Item::Copy {
                id,
                offset,
                record,
            }),
        );
    }

    /// Handles the scan's result: messages that the victim has records about.
    pub(crate) fn handle_scanned(&mut self, found: &[Mention], live: &Live) {
        self.busy = false;
        let Some(victim) = self.victim else { return };
        let needed = found.iter().filter(|mention| match live.index.get(mention.id) {
            Some(entry) => is_needed(entry, victim),
            // The last recipient was ended by a record that may end recipients, in another segment.
            None => mention.may_end,
        });
        self.items.extend(needed.map(|mention| Item::Repeat(mention.id)));
    }

    /// Adds ready records to a batch, as far as space and the step allow.
    pub(crate) fn add_to(
        &mut self,
        writer: &mut Writer,
        live: &mut Live,
        batch: &mut Batch,
        step_bytes: u64,
    ) {
        let Some(victim) = self.victim else { return };
        let before = batch.length();
        while let Some(item) = self.items.front() {
            let done = batch.length() - before;
            if done >= step_bytes {
                break;
            }
            let needed = item_bytes(item, live);
            if !writer.fits(batch.length(), needed) {
                break;
            }
            let Some(item) = self.items.pop_front() else { break };
            let good = match item {
                Item::Copy { id, offset, record } => {
                    copy(writer, live, batch, (victim, id, offset), &record)
                }
                Item::Repeat(id) => {
                    repeat(writer, live, batch, victim, id);
                    true
                }
            };
            self.stuck |= !good;
        }
        self.written_bytes += batch.length() - before;
        if batch.length() > before {
            // The new records also replace the victim's records about older segments.
            let active = writer.key.generation;
            for older in live.segments.dependencies(victim) {
                live.segments.depend(active, older);
            }
            live.segments.depend(active, victim);
        }
    }

    /// Bytes that the next item needs in a segment; `None` without an item.
    pub(crate) fn first_bytes(&self, live: &Live) -> Option<u64> {
        self.items.front().map(|item| item_bytes(item, live))
    }

    /// The next item fits into no segment: skips it.
    pub(crate) fn skip_first(&mut self) {
        self.items.pop_front();
        self.stuck = true;
    }
}

/// Records and index entries, at most.
fn item_bytes(item: &Item, live: &Live) -> u64 {
    let (id, record) = match item {
        Item::Copy { id, record, .. } => (*id, record.len()),
        Item::Repeat(id) => (*id, 0),
    };
    // An index entry is at most 100 bytes longer than the record's envelope and meta.
    let residue = live
        .index
        .get(id)
        .map_or(64, |entry| codec::residue_bytes_max(&entry.residue(id, &live.reasons)));
    let indexed = record.min(INDEXED_BYTES_TYPICAL.max(envelope_share(item)));
    (record + indexed + 2 * residue + 200) as u64
}

const INDEXED_BYTES_TYPICAL: usize = 512;

/// A minute: a disk with failing reads is not retried all the time.
const RESTING_TICKS: u32 = 120;

/// Length of the envelope and meta of the record to copy.
fn envelope_share(item: &Item) -> usize {
    let Item::Copy { record, .. } = item else { return 0 };
    record.get(codec::RECORD_HEADER_BYTES..).map_or(0, codec::envelope_and_meta_bytes)
}

/// Copies a message if it is live and still at the place read. Returns `false` if the record is damaged.
fn copy(
    writer: &mut Writer,
    live: &mut Live,
    batch: &mut Batch,
    place: (u32, u64, u32),
    record: &Bytes,
) -> bool {
    let (victim, id, offset) = place;
    let Some(entry) = live.index.get(id) else { return true };
    if (entry.segment, entry.offset) != (victim, offset) {
        return true;
    }
    let Some(key) = live.segments.get(victim).map(|segment| segment.key) else { return true };
    let Ok(raw) = codec::read_record(record, key, u64::from(offset)) else { return false };
    if !matches!(raw.kind, kind::ACCEPT | kind::COPY) || raw.length as usize != record.len() {
        return false;
    }
    let Some(head) = codec::read_head(&raw).filter(|head| head.id.0 == id) else { return false };
    let residue = (!entry.is_fresh()).then(|| entry.residue(id, &live.reasons));
    let head = AcceptHead { copied: true, ..head };
    let body = record.slice(codec::RECORD_HEADER_BYTES..);
    writer.add_copy(live, batch, head, &body, residue.as_ref());
    true
}

/// Returns true if the victim's records about a live message must be written again. A younger accept is a copy with the
/// full state, and a younger complete statement replaces them too.
fn is_needed(entry: &IndexEntry, victim: u32) -> bool {
    entry.segment < victim && entry.stated() <= victim
}

/// Rewrites the victim's records about a message of an older segment.
fn repeat(writer: &mut Writer, live: &mut Live, batch: &mut Batch, victim: u32, id: u64) {
    let Some(entry) = live.index.get(id) else {
        writer.add_gone(live, batch, MessageId(id));
        return;
    };
    if is_needed(entry, victim) {
        let residue = entry.residue(id, &live.reasons);
        writer.add_residue(live, batch, &residue);
    }
}
