//! Files ready to become segments, and the free space for more mail.

use crate::name::SegmentKey;
use std::collections::{BTreeSet, VecDeque};

/// Bytes zero-written in one operation.
pub(crate) const ZERO_STEP_BYTES: u64 = 4 << 20;

/// Zero-written files and free disk space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Generations of the `.spare` files, which all have the full length.
    pub spares: VecDeque<u32>,
    /// Spares with every block written once, as far as is known.
    pub written: BTreeSet<u32>,
    /// The segment that is used next, its name durable.
    pub next: Option<SegmentKey>,
    /// Every block of the next segment was written once.
    pub next_written: bool,
    /// The next segment is being renamed.
    pub naming: bool,
    /// The file that is being zero-written, and how far that is.
    pub zeroing: Option<(u32, u64)>,
    /// Segments that are being turned into spares.
    pub recycling_count: usize,
    /// Free disk space at the last query.
    pub free_bytes: u64,
    /// A query of free space is pending.
    pub asking: bool,
    /// Bytes written since the query.
    pub written_bytes: u64,
    /// The last file could not be zero-written; no other is begun before the next query of free space.
    pub failed: bool,
    /// Queries of disk space to skip before the next try, and the number after the next failure. Failures with another
    /// cause than space must not be retried without a pause.
    pub patience: (u32, u32),
    /// A segment is needed, and none is available.
    pub exhausted: bool,
    /// A file could not be made because the disk was full, whatever free space it reports (a quota, a thin volume), and
    /// none has been made since.
    pub no_room: bool,
    /// Free space when that happened.
    pub failed_at_bytes: u64,
}

impl Space {
    /// Returns true if a segment is available after the active one, now or once renamed or recycled.
    pub(crate) fn has_next(&self) -> bool {
        self.ready_count() > 0 || self.naming || self.recycling_count > 0
    }

    /// Returns true if further segments are being prepared.
    pub(crate) fn is_more_coming(&self) -> bool {
        self.coming_count() > self.ready_count()
    }

    /// Segments that can be used at once.
    pub(crate) fn ready_count(&self) -> usize {
        self.spares.len() + usize::from(self.next.is_some())
    }

    /// Ready segments and those in preparation.
    pub(crate) fn coming_count(&self) -> usize {
        self.ready_count()
            + usize::from(self.naming)
            + usize::from(self.zeroing.is_some())
            + self.recycling_count
    }

    /// Returns true if a batch with accepts may begin the next segment. The last segment is the reserve for settles and
    /// compaction, unless disk space for another one is certain.
    pub(crate) fn may_accept_roll(&self, reserve_bytes: u64, segment_bytes: u64) -> bool {
        let ample = reserve_bytes.saturating_add(segment_bytes.saturating_mul(2));
        self.next.is_some()
            && (self.ready_count() >= 2
                || (self.coming_count() >= 2 && !self.failed && self.free_bytes >= ample))
    }

    /// A file could not be made; `for_room` if the disk was full.
    pub(crate) fn note_failed(&mut self, for_room: bool) {
        self.failed = true;
        self.no_room |= for_room;
        self.failed_at_bytes = self.free_bytes;
        self.patience = (self.patience.1, (self.patience.1 * 2 + 1).min(1_023));
    }

    /// Handles free space; decides if another file may be tried.
    pub(crate) fn handle_free(&mut self, bytes: u64, reserve_bytes: u64, segment_bytes: u64) {
        self.free_bytes = bytes;
        let keep = if self.coming_count() == 0 { 0 } else { reserve_bytes };
        if bytes < keep.saturating_add(segment_bytes) {
            return;
        }
        // Space was freed: retry at once.
        let is_roomier = bytes > self.failed_at_bytes.saturating_add(segment_bytes / 16);
        if self.patience.0 > 0 && !is_roomier {
            self.patience.0 -= 1;
        } else {
            self.failed = false;
            self.exhausted = false;
        }
    }

    /// A segment became ready.
    pub(crate) fn note_ready(&mut self) {
        let is_scarce = self.ready_count() < 2;
        self.exhausted &= is_scarce;
        self.no_room &= is_scarce;
        self.patience = (0, 0);
    }

    /// A file was made: the disk is not full.
    pub(crate) fn note_made(&mut self) {
        self.no_room = false;
    }

    /// Returns true if accepts must be refused.
    pub(crate) fn is_full(&self, reserve_bytes: u64) -> bool {
        self.exhausted || self.no_room || self.free_bytes < reserve_bytes
    }
}
