//! Release of unneeded segments: first from the register, then from the directory.

use super::{BulkPurpose, Spool};
use crate::io::{Io, Op};
use crate::name::{blob_name, damaged_name, spare_name};
use crate::registrar::Leaving;
use crate::request::LogSnapshot;

impl Spool {
    pub(super) fn release_segments(&mut self) {
        let generations: Vec<u32> = self
            .live
            .segments
            .map
            .keys()
            .copied()
            .filter(|&generation| {
                self.live.segments.is_releasable(generation)
                    && self.compaction.victim() != Some(generation)
            })
            .collect();
        for generation in generations {
            self.retire(generation);
        }
    }

    fn retire(&mut self, generation: u32) {
        let wanted = self.space.coming_count() < self.config.spare_segments_max;
        let sync = self.is_sync();
        let Some(segment) = self.live.segments.get_mut(generation) else { return };
        segment.releasing = true;
        let from = segment.file.clone();
        let spare = wanted && !segment.damaged && segment.length == self.config.segment_bytes;
        let op = if segment.damaged {
            Op::Rename { from, to: damaged_name(segment.key), sync }
        } else if spare {
            Op::Recycle { from, to: spare_name(generation), sync }
        } else {
            Op::Remove { file: from, sync }
        };
        self.space.recycling_count += usize::from(spare);
        self.registrar.leave(Leaving { generation, spare, op });
        self.keep_register();
    }

    /// Writes the register if it has changed, and disposes of segments removed from it.
    pub(super) fn keep_register(&mut self) {
        for Leaving { generation, spare, op } in self.registrar.take_struck() {
            self.push_bulk(op, BulkPurpose::Retire { generation, spare });
        }
        self.registrar.note_marks(self.writer.marks(&self.live));
        if let Some(bytes) = self.registrar.poll_write() {
            let op = Op::Register { bytes, sync: self.is_sync() };
            self.push_bulk(op, BulkPurpose::Register);
        }
    }

    pub(super) fn compact(&mut self) {
        // With space left, only very sparse segments are worth rewriting.
        let reserve = self.reserve_bytes();
        let tight = self.space.exhausted
            || self.space.failed
            || self.space.no_room
            || self.space.coming_count() == 0
            || self.space.free_bytes < reserve.saturating_mul(2);
        let percent = if tight { 90 } else { self.config.compact_below_percent };
        // Does not begin a copy that does not fit: it would take the last space from the settles.
        let room = if tight { self.room_bytes() } else { u64::MAX };
        self.compaction.choose(&self.live, percent, tight, room);
        if let Some(op) = self.compaction.poll_op(&mut self.live, &self.config) {
            let waiting = match op {
                Op::Scan { .. } => BulkPurpose::CompactionScan,
                _ => BulkPurpose::CompactionRead,
            };
            self.push_bulk(op, waiting);
        } else {
            self.release_segments();
        }
    }

    /// The files with all durable records. They stay as long as the caller holds the spool.
    ///
    /// # Errors
    /// Returns the reason while a batch is being written, or if the log is poisoned or in memory.
    pub fn snapshot(&self) -> Result<LogSnapshot, &'static str> {
        if self.commit.is_some() {
            return Err("the log waits for space on its disk");
        }
        if self.poisoned.is_some() {
            return Err("a write or sync of the log failed: restart the server first");
        }
        if self.memory.is_some() {
            return Err("the spool is in memory");
        }
        let active = &self.writer.file;
        let segments = self.live.segments.map.values();
        let whole = segments.filter(|segment| !segment.releasing && segment.file != *active);
        let blobs = self.live.blobs.values().map(|blob| blob_name(blob.0));
        let files = whole.map(|segment| segment.file.clone()).chain(blobs);
        Ok(LogSnapshot {
            files: files.map(|file| Box::from(&*file)).collect(),
            active: Box::from(&**active),
            active_bytes: self.writer.offset,
            active_length: self.writer.length(),
        })
    }

    /// The last operation of an orderly stop: records the end of the log, so that a cut or emptied last segment is
    /// noticed. Perform it after all other operations; no submit may follow. `None` while a batch is pending, or if
    /// there is nothing to record.
    pub fn close(&mut self) -> Option<Io> {
        let waits = self.commit.is_some() || self.poisoned.is_some() || self.memory.is_some();
        if waits {
            return None;
        }
        let bytes = self.registrar.closing(self.writer.key.generation, self.writer.offset)?;
        Some(Io { ticket: self.ticket(), op: Op::Register { bytes, sync: self.is_sync() } })
    }
}
