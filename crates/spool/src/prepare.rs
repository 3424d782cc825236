//! Makes segments ready ahead of need: zero-writes files, gives them their names.

use crate::config::{SpoolConfig, SpoolError};
use crate::disk::{Disk, DiskError, DiskErrorKind};
use crate::io::{self, Op, Outcome};
use crate::recovery::Recovery;
use crate::segment::{
    Header, SEGMENT_BLOCKS_MIN, SegmentKey, VERSION, spare_name, unfinished_name,
};
use crate::space::ZERO_STEP_BYTES;
use crate::spool::{Spool, Waiting};
use mail::random;
use std::io::IoSlice;
use std::mem::take;

/// With no less room in the active segment the next but one can wait.
const ROOMY_BYTES: u64 = 64 << 20;

/// The key of a segment: its salt is a number that nobody can guess who does not know `salt`.
pub(crate) fn segment_key(salt: u64, generation: u32) -> SegmentKey {
    SegmentKey { generation, salt: random::nth(salt, u64::from(generation)) }
}

impl Spool {
    pub(crate) fn prepare_segments(&mut self) {
        if self.space.next.is_none()
            && !self.space.naming
            && let Some(spare) = self.space.spares.pop_front()
        {
            let key = segment_key(self.config.salt, self.take_generation());
            self.space.naming = true;
            self.space.next_written = self.space.written.remove(&spare);
            let (from, to) = (spare_name(spare), key.name());
            let op = Op::Rename { from, to, sync: self.is_sync() };
            self.push_bulk(op, Waiting::NameSegment { key });
        }
        let coming = self.space.coming_count();
        if coming >= self.config.spare_segments_max || self.space.zeroing.is_some() {
            return;
        }
        // Mail that passes through frees segments as fast as it fills them: as long as there is much
        // room, none is zero-written that one of these may save.
        let roomy = if self.writer.length() < self.config.segment_bytes {
            self.writer.length() / 2
        } else {
            ROOMY_BYTES.max(self.config.segment_bytes / 2)
        };
        if coming > 0 && !self.space.no_room && self.writer.room_bytes() > roomy {
            return;
        }
        // The reserve may be made of the last disk space, the others not.
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
        self.push_bulk(op, Waiting::Zero { generation, done: offset + bytes });
    }

    /// A file was zero-written, renamed or removed.
    pub(crate) fn handle_file_done(
        &mut self,
        waiting: Waiting,
        result: Result<Outcome, DiskError>,
    ) {
        match waiting {
            Waiting::Zero { generation, done } => self.handle_zeroed(generation, done, result),
            Waiting::NameSpare { generation } => {
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
            Waiting::NameSegment { key } => {
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
            Waiting::Retire { generation, spare } => {
                self.space.recycling_count -= usize::from(spare);
                match result {
                    Ok(_) => {
                        self.live.segments.map.remove(&generation);
                        self.status.released_count += 1;
                        if spare {
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

    fn handle_zeroed(&mut self, generation: u32, done: u64, result: Result<Outcome, DiskError>) {
        let from = unfinished_name(generation);
        let is_allocated = matches!(result, Ok(Outcome::Allocated));
        if let Err(error) = result {
            // No promise depends on this file: try again when there is space.
            self.space.zeroing = None;
            self.space.note_failed(error.kind == DiskErrorKind::Full);
            self.push_bulk(Op::Remove { file: from, sync: false }, Waiting::RemoveUnfinished);
        } else if done < self.config.segment_bytes && !is_allocated {
            self.space.zeroing = Some((generation, done));
            self.zero_step(generation, done);
        } else {
            if !is_allocated {
                self.space.written.insert(generation);
            }
            let op = Op::Rename { from, to: spare_name(generation), sync: self.is_sync() };
            self.push_bulk(op, Waiting::NameSpare { generation });
        }
    }

    pub(crate) fn ask_for_space(&mut self) {
        if !self.space.asking && self.memory.is_none() {
            self.space.asking = true;
            self.space.written_bytes = 0;
            self.push_bulk(Op::Space, Waiting::Space);
        }
    }

    pub(crate) fn handle_space(&mut self, result: Result<Outcome, DiskError>) {
        self.space.asking = false;
        if let Ok(Outcome::Free(bytes)) = result {
            let (reserve, segment) = (self.reserve_bytes(), self.config.segment_bytes);
            self.space.handle_free(bytes, reserve, segment);
        }
    }
}

/// Makes the segment that the log goes on in: a spare if there is one, else a new file, else one
/// that holds nothing any more.
pub(crate) fn activate(
    disk: &dyn Disk,
    config: &SpoolConfig,
    recovery: &mut Recovery,
    sync: bool,
) -> Result<(SegmentKey, u64), SpoolError> {
    let key = segment_key(config.salt, recovery.next_generation);
    recovery.next_generation = recovery.next_generation.saturating_add(1);
    // Of another size are those that an older configuration left behind.
    let spares = take(&mut recovery.spares);
    let (usable, other): (Vec<_>, Vec<_>) =
        spares.into_iter().partition(|&(_, length)| length == config.segment_bytes);
    recovery.spares = usable;
    let length = if let Some((spare, length)) = recovery.spares.pop() {
        disk.rename(&spare_name(spare), &key.name())?;
        length
    } else {
        let length = config.first_segment_bytes.min(config.segment_bytes);
        match make(disk, key, length, sync) {
            Ok(()) => length,
            Err(error) if error.kind == DiskErrorKind::Full => {
                match reuse(disk, config, recovery, (key, sync))? {
                    Some(length) => length,
                    None => make_shorter(disk, key, config, sync)?,
                }
            }
            Err(error) => return Err(error.into()),
        }
    };
    for (spare, _) in other {
        disk.remove(&spare_name(spare))?;
    }
    if sync {
        disk.sync_dir()?;
    }
    Ok((key, length))
}

fn make(disk: &dyn Disk, key: SegmentKey, length: u64, sync: bool) -> Result<(), DiskError> {
    let file = unfinished_name(key.generation);
    let made = io::make(disk, &file, length, sync).and_then(|allocated| {
        if !allocated {
            io::zero(disk, &file, 0, length, sync)?;
        }
        Ok(())
    });
    if let Err(error) = made {
        // Best effort: the next start removes it, too.
        let _ = disk.remove(&file);
        return Err(error);
    }
    disk.rename(&file, &key.name())
}

/// The disk is full: as long a segment as there is room for. The segments that recovery sealed were
/// cut, so there is about as much as the last one had left.
fn make_shorter(
    disk: &dyn Disk,
    key: SegmentKey,
    config: &SpoolConfig,
    sync: bool,
) -> Result<u64, DiskError> {
    let shortest = config.block_bytes * SEGMENT_BLOCKS_MIN;
    let room = disk.free_bytes()?.min(config.first_segment_bytes.min(config.segment_bytes));
    let mut length = room / config.block_bytes * config.block_bytes;
    loop {
        length = length.max(shortest);
        match make(disk, key, length, sync) {
            Ok(()) => return Ok(length),
            Err(error) if error.kind == DiskErrorKind::Full && length > shortest => {
                length = length / 2 / config.block_bytes * config.block_bytes;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The disk is full: takes a segment that nothing is needed of, if there is one.
fn reuse(
    disk: &dyn Disk,
    config: &SpoolConfig,
    recovery: &mut Recovery,
    (key, sync): (SegmentKey, bool),
) -> Result<Option<u64>, DiskError> {
    let marks = recovery.marks();
    let previous = recovery.last;
    let segments = &mut recovery.live.segments;
    let generations: Vec<u32> = segments.map.keys().copied().collect();
    let found = generations.into_iter().find(|&generation| {
        segments.is_releasable(generation) && segments.get(generation).is_some_and(|s| !s.damaged)
    });
    let Some(segment) = found.and_then(|generation| segments.map.remove(&generation)) else {
        return Ok(None);
    };
    // It may be the only one that says which numbers were used, and under its new name nothing in
    // it is valid: so the new header is there before the name, at the end.
    let (node, log, first_offset) = (config.node, config.log, config.block_bytes);
    let header =
        Header { version: VERSION, node, log, registered: true, first_offset, previous, marks };
    let header = header.encode(key);
    disk.write_at(&segment.file, segment.footer_offset(), &mut [IoSlice::new(&header)])?;
    if sync {
        disk.sync_data(&segment.file)?;
    }
    recovery.register.strike(disk, segment.key.generation, sync)?;
    disk.rename(&segment.file, &key.name())?;
    Ok(Some(segment.length))
}
