//! Prepares segments ahead of need: zero-writes and renames files.

use super::{BulkPurpose, Spool};
use crate::disk::{DiskError, DiskErrorKind};
use crate::io::{Op, OpResult};
use crate::name::{SegmentKey, spare_name, unfinished_name};
use crate::space::ZERO_STEP_BYTES;

/// With this much space in the active segment the segment after the next can wait.
const ROOMY_BYTES: u64 = 64 << 20;

impl Spool {
    pub(super) fn prepare_segments(&mut self) {
        if self.space.next.is_none()
            && !self.space.naming
            && let Some(spare) = self.space.spares.pop_front()
        {
            let key = SegmentKey::new(self.config.salt, self.take_generation());
            self.space.naming = true;
            self.space.next_written = self.space.written.remove(&spare);
            let (from, to) = (spare_name(spare), key.name());
            let op = Op::Rename { from, to, sync: self.is_sync() };
            self.push_bulk(op, BulkPurpose::NameSegment { key });
        }
        let coming = self.space.coming_count();
        if coming >= self.config.spare_segments_max || self.space.zeroing.is_some() {
            return;
        }
        // Mail in transit frees segments as fast as it fills them. With plenty of space none is zero-written that a
        // freed one may replace.
        let roomy = if self.writer.length() < self.config.segment_bytes {
            self.writer.length() / 2
        } else {
            ROOMY_BYTES.max(self.config.segment_bytes / 2)
        };
        if coming > 0 && !self.space.no_room && self.writer.room_bytes() > roomy {
            return;
        }
        // The reserve may use the last disk space; further segments may not.
        let keep = if coming == 0 { 0 } else { self.reserve_bytes() };
        let enough = self.space.free_bytes >= keep.saturating_add(self.config.segment_bytes);
        if enough && !self.space.failed {
            let generation = self.take_generation();
            self.space.zeroing = Some((generation, 0));
            self.zero_step(generation, 0);
        } else {
            self.space.failed = true;
        }
    }

    fn take_generation(&mut self) -> u32 {
        let generation = self.next_generation;
        self.next_generation = generation.saturating_add(1);
        generation
    }

    fn zero_step(&mut self, generation: u32, offset: u64) {
        let bytes = (self.config.segment_bytes - offset).min(ZERO_STEP_BYTES);
        let file = unfinished_name(generation);
        let sync = self.is_sync();
        let op = if offset == 0 {
            Op::Make { file, length: self.config.segment_bytes, bytes, sync }
        } else {
            Op::Zero { file, offset, bytes, sync }
        };
        self.push_bulk(op, BulkPurpose::Zero { generation, done: offset + bytes });
    }

    /// A file was zero-written, renamed or removed.
    pub(super) fn handle_file_done(
        &mut self,
        waiting: BulkPurpose,
        result: Result<OpResult, DiskError>,
    ) {
        match waiting {
            BulkPurpose::Zero { generation, done } => self.handle_zeroed(generation, done, result),
            BulkPurpose::NameSpare { generation } => {
                self.space.zeroing = None;
                match result {
                    Ok(_) => {
                        self.space.note_made();
                        self.add_spare(generation);
                    }
                    Err(error) => self.poison(&error),
                }
                self.ask_for_space();
            }
            BulkPurpose::NameSegment { key } => {
                self.space.naming = false;
                match result {
                    Ok(_) => {
                        self.space.next = Some(key);
                        self.space.note_ready();
                        self.registrar.enter(key, self.config.segment_bytes);
                        self.keep_register();
                    }
                    Err(error) => self.poison(&error),
                }
            }
            BulkPurpose::Retire { generation, spare } => {
                self.space.recycling_count -= usize::from(spare);
                match result {
                    Ok(outcome) => {
                        self.live.segments.map.remove(&generation);
                        self.status.released_count += 1;
                        if spare && !matches!(outcome, OpResult::Unshared) {
                            self.space.written.insert(generation);
                            self.add_spare(generation);
                        }
                    }
                    Err(error) => self.poison(&error),
                }
                self.ask_for_space();
            }
            _ => {}
        }
    }

    fn add_spare(&mut self, generation: u32) {
        self.space.spares.push_back(generation);
        self.space.note_ready();
    }

    fn handle_zeroed(&mut self, generation: u32, done: u64, result: Result<OpResult, DiskError>) {
        let from = unfinished_name(generation);
        let is_allocated = matches!(result, Ok(OpResult::Allocated));
        if let Err(error) = result {
            // No guarantee depends on this file: retry once there is space.
            self.space.zeroing = None;
            self.space.note_failed(error.kind == DiskErrorKind::Full);
            self.push_bulk(Op::Remove { file: from, sync: false }, BulkPurpose::RemoveUnfinished);
        } else if done < self.config.segment_bytes && !is_allocated {
            self.space.zeroing = Some((generation, done));
            self.zero_step(generation, done);
        } else {
            if !is_allocated {
                self.space.written.insert(generation);
            }
            let op = Op::Rename { from, to: spare_name(generation), sync: self.is_sync() };
            self.push_bulk(op, BulkPurpose::NameSpare { generation });
        }
    }

    pub(super) fn ask_for_space(&mut self) {
        if !self.space.asking && self.memory.is_none() {
            self.space.asking = true;
            self.space.written_bytes = 0;
            self.push_bulk(Op::Space, BulkPurpose::Space);
        }
    }

    pub(super) fn handle_space(&mut self, result: Result<OpResult, DiskError>) {
        self.space.asking = false;
        if let Ok(OpResult::Free(bytes)) = result {
            let (reserve, segment) = (self.reserve_bytes(), self.config.segment_bytes);
            self.space.handle_free(bytes, reserve, segment);
        }
    }
}
