//! Accounting of each segment while the log runs.

use crate::block::SECTOR_BYTES;
use crate::name::{FileName, SegmentKey};
use std::collections::{BTreeMap, BTreeSet};

/// An inclusive range of message ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRange {
    pub low: u64,
    pub high: u64,
}

impl IdRange {
    pub(crate) fn contains(self, id: u64) -> bool {
        (self.low..=self.high).contains(&id)
    }
}

/// Accounting of one segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub key: SegmentKey,
    pub file: FileName,
    /// Of the file, in bytes.
    pub length: u64,
    /// It is full: nothing more is written to it.
    pub sealed: bool,
    /// Messages with their newest accept record here.
    pub live_count: u64,
    /// Bytes of these records.
    pub live_bytes: u64,
    /// Bytes of all accept records written here since the start.
    pub accepted_bytes: u64,
    /// It was begun and filled since the start.
    pub filled: bool,
    /// Bytes of all records other than accepts.
    pub small_bytes: u64,
    /// Bytes and number of the records of a message's state: attempts and residues.
    pub statements_bytes: u64,
    pub statements_count: u64,
    /// Messages with their newest complete state here, which may be the accept.
    pub stated_count: u64,
    /// Older segments with accept records of messages that have further records here. While one of those segments is
    /// readable, this one must be too.
    pub depends_on: BTreeSet<u32>,
    /// Smallest and largest message id accepted here.
    pub ids: Option<IdRange>,
    /// Pending reads: the file stays until they end.
    pub readers_count: u32,
    /// A part is unreadable: never recycled.
    pub damaged: bool,
    /// Compaction has moved all needed records.
    pub evacuated: bool,
    /// It holds a record that cannot be moved: not compacted again until the next start.
    pub stuck: bool,
    /// The disk failed to read it: not tried again for this many ticks.
    pub resting_ticks: u32,
    /// Its file is being renamed or removed.
    pub releasing: bool,
}

impl Segment {
    pub(crate) fn new(key: SegmentKey, length: u64) -> Segment {
        Segment {
            key,
            file: key.name(),
            length,
            sealed: false,
            live_count: 0,
            live_bytes: 0,
            accepted_bytes: 0,
            filled: false,
            small_bytes: 0,
            statements_bytes: 0,
            statements_count: 0,
            stated_count: 0,
            depends_on: BTreeSet::new(),
            ids: None,
            readers_count: 0,
            damaged: false,
            evacuated: false,
            stuck: false,
            resting_ticks: 0,
            releasing: false,
        }
    }

    /// Bytes of non-accept records that may be needed. Of the state records, an average share is counted for each
    /// message without newer state.
    pub(crate) fn needed_small_bytes(&self) -> u64 {
        let others = self.small_bytes.saturating_sub(self.statements_bytes);
        let all = u128::from(self.statements_bytes) * u128::from(self.stated_count);
        let newest = all / u128::from(self.statements_count.max(1));
        others + u64::try_from(newest).unwrap_or(u64::MAX).min(self.statements_bytes)
    }

    /// Start of the footer; data ends before.
    pub(crate) fn footer_offset(&self) -> u64 {
        self.length.saturating_sub(SECTOR_BYTES)
    }

    /// Rewriting it would need as much space as it takes: all accepts in it are live, and most of its other records are
    /// not replaced by newer ones.
    pub(crate) fn is_dense(&self) -> bool {
        self.filled
            && self.live_bytes == self.accepted_bytes
            && self.small_bytes.saturating_mul(4) < self.length
            && self.needed_small_bytes().saturating_mul(2) >= self.small_bytes
    }

    /// Records that an accept record of `id` is here.
    pub(crate) fn include_id(&mut self, id: u64) {
        let IdRange { low, high } = self.ids.unwrap_or(IdRange { low: id, high: id });
        self.ids = Some(IdRange { low: low.min(id), high: high.max(id) });
    }
}

/// All segments with records, by generation.
#[derive(Debug, Default)]
pub(crate) struct SegmentTable {
    pub map: BTreeMap<u32, Segment>,
}

impl SegmentTable {
    pub(crate) fn get(&self, generation: u32) -> Option<&Segment> {
        self.map.get(&generation)
    }

    pub(crate) fn get_mut(&mut self, generation: u32) -> Option<&mut Segment> {
        self.map.get_mut(&generation)
    }

    /// A message's newest accept record is in this segment now.
    pub(crate) fn add_live(&mut self, generation: u32, id: u64, bytes: u32) {
        if let Some(segment) = self.map.get_mut(&generation) {
            segment.live_count += 1;
            segment.live_bytes += u64::from(bytes);
            segment.accepted_bytes += u64::from(bytes);
            segment.include_id(id);
        }
    }

    /// Subtracts a record that is no longer the newest accept of a live message.
    pub(crate) fn drop_live(&mut self, generation: u32, bytes: u32) {
        if let Some(segment) = self.map.get_mut(&generation) {
            segment.live_count = segment.live_count.saturating_sub(1);
            segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(bytes));
        }
    }

    /// Moves the newest complete state of a message from segment `from` to segment `to`; an accept is also one.
    pub(crate) fn move_statement(&mut self, from: Option<u32>, to: Option<u32>) {
        if let Some(segment) = from.and_then(|from| self.map.get_mut(&from)) {
            segment.stated_count = segment.stated_count.saturating_sub(1);
        }
        if let Some(segment) = to.and_then(|to| self.map.get_mut(&to)) {
            segment.stated_count += 1;
        }
    }

    /// A record in segment `newer` is about a message that was accepted in segment `older`.
    pub(crate) fn depend(&mut self, newer: u32, older: u32) {
        if newer != older
            && let Some(segment) = self.map.get_mut(&newer)
        {
            segment.depends_on.insert(older);
        }
    }

    /// The segments that `generation` depends on and that are still there.
    pub(crate) fn dependencies(&self, generation: u32) -> Vec<u32> {
        let Some(segment) = self.map.get(&generation) else { return Vec::new() };
        segment.depends_on.iter().copied().filter(|on| self.map.contains_key(on)).collect()
    }

    /// The segment is no longer needed. It holds no live message, and each other record in it is about a message with
    /// an accept that is durably gone or was copied by compaction. Call only if all known state is durable.
    pub(crate) fn is_releasable(&self, generation: u32) -> bool {
        let Some(segment) = self.map.get(&generation) else { return false };
        segment.sealed
            && segment.live_count == 0
            && segment.readers_count == 0
            && !segment.releasing
            && (segment.evacuated || self.dependencies(generation).is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SegmentTable {
        let mut table = SegmentTable::default();
        for generation in 1..=3 {
            let key = SegmentKey { generation, salt: 0 };
            let segment = Segment { sealed: true, ..Segment::new(key, 4096) };
            table.map.insert(generation, segment);
        }
        table
    }

    #[test]
    fn a_segment_with_a_live_message_stays() {
        let mut table = table();
        table.add_live(1, 7, 100);
        assert!(!table.is_releasable(1) && table.is_releasable(2));
        table.drop_live(1, 100);
        assert!(table.is_releasable(1));
    }

    #[test]
    fn a_settle_stays_while_the_accept_can_be_read() {
        let mut table = table();
        // Segment 3 settles what 2 copied from 1: each must outlive the one before.
        table.depend(2, 1);
        table.depend(3, 2);
        table.depend(3, 3);
        assert!(table.is_releasable(1) && !table.is_releasable(2) && !table.is_releasable(3));
        // Being renamed is not gone: the name may come back after a crash.
        table.get_mut(1).expect("there").releasing = true;
        assert!(!table.is_releasable(1) && !table.is_releasable(2));
        table.map.remove(&1);
        assert!(table.is_releasable(2) && !table.is_releasable(3));
        table.map.remove(&2);
        assert!(table.is_releasable(3));
    }

    #[test]
    fn what_compaction_moved_holds_nothing_back() {
        let mut table = table();
        table.depend(3, 1);
        assert!(!table.is_releasable(3));
        table.get_mut(3).expect("there").evacuated = true;
        assert!(table.is_releasable(3));
        table.get_mut(3).expect("there").readers_count = 1;
        assert!(!table.is_releasable(3), "somebody reads it");
    }

    #[test]
    fn the_active_segment_stays() {
        let mut table = table();
        table.get_mut(2).expect("there").sealed = false;
        assert!(!table.is_releasable(2));
        assert!(!table.is_releasable(9));
    }
}
