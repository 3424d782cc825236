//! Creates the active segment at a start.

use crate::block::VERSION;
use crate::config::{SpoolConfig, SpoolError};
use crate::disk::{Disk, DiskError, DiskErrorKind};
use crate::name::{SegmentKey, spare_name, unfinished_name};
use crate::perform;
use crate::recovery::Recovery;
use crate::segment::{Header, SEGMENT_BLOCKS_MIN};
use crate::table::Segment;
use std::io::IoSlice;
use std::mem::take;

/// Creates the active segment: from a spare if available, else as a new file, else from a segment without needed
/// records.
pub(crate) fn activate(
    disk: &dyn Disk,
    config: &SpoolConfig,
    recovery: &mut Recovery,
    sync: bool,
) -> Result<(SegmentKey, u64), SpoolError> {
    let key = SegmentKey::new(config.salt, recovery.next_generation);
    recovery.next_generation = recovery.next_generation.saturating_add(1);
    // Spares of a different size are left from an older configuration.
    let spares = take(&mut recovery.spares);
    let (usable, other): (Vec<_>, Vec<_>) =
        spares.into_iter().partition(|spare| spare.length == config.segment_bytes);
    recovery.spares = usable;
    let length = if let Some(spare) = recovery.spares.pop() {
        disk.rename(&spare_name(spare.generation), &key.name())?;
        spare.length
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
    for spare in other {
        disk.remove(&spare_name(spare.generation))?;
    }
    if sync {
        disk.sync_dir()?;
    }
    Ok((key, length))
}

fn make(disk: &dyn Disk, key: SegmentKey, length: u64, sync: bool) -> Result<(), DiskError> {
    let file = unfinished_name(key.generation);
    let made = perform::make(disk, &file, length, sync).and_then(|allocated| {
        if !allocated {
            perform::zero(disk, &file, 0, length, sync)?;
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

/// The disk is full: makes a segment of the longest length that fits. Recovery cut the sealed segments, so about the
/// unused part of the last one is free.
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

/// Reuses a segment without needed records, if any, because the disk is full.
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
        // A backup keeps the content of a segment that it shares.
        let is_whole = |s: &Segment| !s.damaged && disk.is_shared(&s.file) == Ok(false);
        segments.is_releasable(generation) && segments.get(generation).is_some_and(is_whole)
    });
    let Some(segment) = found.and_then(|generation| segments.map.remove(&generation)) else {
        return Ok(None);
    };
    // This segment may hold the only marks of used numbers, and its content is invalid under its new name. The new
    // header is therefore written, at the end of the file, before the rename.
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
