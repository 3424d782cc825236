//! Opening of a log: first it is read, then its messages are handed over. In between the used numbers are known, so
//! that the receivers can be started and accept each message as it comes. Memory never holds more messages than the
//! receiver allows to wait.

use crate::activate::activate;
use crate::block::SECTOR_BYTES;
use crate::config::{Durability, RecoveryReport, SpoolConfig, SpoolError};
use crate::disk::Disk;
use crate::recovery::Recovery;
use crate::registrar::Registrar;
use crate::request::RecoveredMessage;
use crate::segment::SEGMENT_BLOCKS_MIN;
use crate::spool::Spool;
use crate::table::Segment;
use crate::writer::Writer;
use std::io::IoSlice;

/// A log that has been read, before its messages are handed over. It accepts no requests.
#[derive(Debug)]
pub struct Opening {
    config: SpoolConfig,
    /// `None` with [`Durability::Memory`].
    recovery: Option<Recovery>,
}

impl Spool {
    /// Recovers the data on disk, hands over each message with open recipients, and makes the log ready. Blocks. With
    /// [`Durability::Memory`] the disk is not touched.
    ///
    /// # Errors
    /// Returns an error if the disk fails, is too full for one segment, or holds other data.
    pub fn open(
        disk: &dyn Disk,
        config: SpoolConfig,
        recovered: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<(Spool, RecoveryReport), SpoolError> {
        Opening::read(disk, config)?.finish(disk, recovered)
    }
}

impl Opening {
    /// Reads the data on disk and makes it durable. Blocks. [`Opening::finish`] must follow without any other operation
    /// on the disk in between.
    ///
    /// # Errors
    /// Returns an error if the disk fails or holds other data.
    pub fn read(disk: &dyn Disk, config: SpoolConfig) -> Result<Opening, SpoolError> {
        check(&config)?;
        if config.durability == Durability::Memory {
            return Ok(Opening { config, recovery: None });
        }
        let recovery = Recovery::new();
        #[cfg(feature = "planted")]
        let recovery = recovery.trusting(config.trusts_torn_tail);
        let mut recovery = recovery.read(disk, Some((config.node, config.log)))?;
        #[cfg(feature = "planted")]
        if config.removes_orphans_first {
            recovery.remove_orphans(disk)?;
        }
        recovery.make_durable(disk, &config, config.durability == Durability::Sync)?;
        Ok(Opening { config, recovery: Some(recovery) })
    }

    /// First message sequence that was never used in this log. The caller counts on from here.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.recovery.as_ref().map_or(1, |recovery| recovery.live.next_sequence)
    }

    /// First blob number that was never used in this log. The caller counts on from here.
    #[must_use]
    pub fn next_blob(&self) -> u64 {
        self.recovery.as_ref().map_or(1, |recovery| recovery.live.next_blob)
    }

    /// Hands over each message with open recipients, each once, and makes the log ready. Blocks.
    ///
    /// # Errors
    /// Returns an error if the disk fails or is too full for one segment. Messages already handed over must then not be
    /// sent.
    pub fn finish(
        self,
        disk: &dyn Disk,
        recovered: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<(Spool, RecoveryReport), SpoolError> {
        let Opening { config, recovery } = self;
        let Some(mut recovery) = recovery else {
            return Ok((Spool::in_memory(config), RecoveryReport::default()));
        };
        let sync = config.durability == Durability::Sync;
        recovery.hand_over(disk, recovered)?;
        let generations: Vec<u32> = recovery.live.segments.map.keys().copied().collect();
        let free = generations.iter().filter(|g| recovery.live.segments.is_releasable(**g));
        recovery.report.freed_segments_count = free.count() as u64;
        let (key, length) = activate(disk, &config, &mut recovery, sync)?;
        recovery.live.segments.map.insert(key.generation, Segment::new(key, length));
        let known = std::mem::take(&mut recovery.register);
        let mut registrar = Registrar::recovered(known, recovery.live.segments.map.values());
        registrar.note_marks(recovery.marks());
        registrar.write_now(disk, sync)?;
        let next = (recovery.next_batch, recovery.next_position);
        let writer = Writer::new(&config, key, length, recovery.last, next);
        // Written before anything is freed: from here on the header contains the numbers used so far.
        let header = writer.segment_header(&recovery.live, !registrar.off);
        disk.write_at(&writer.file, 0, &mut [IoSlice::new(&header)])?;
        if sync {
            disk.sync_data(&writer.file)?;
        }
        recovery.remove_orphans(disk)?;
        let mut spool = Spool::new(config, writer, recovery.live);
        spool.registrar = registrar;
        spool.next_generation = recovery.next_generation;
        spool.space.spares = recovery.spares.iter().map(|spare| spare.generation).collect();
        spool.space.free_bytes = disk.free_bytes()?;
        spool.lost_bodies = recovery.lost_bodies;
        spool.go_on();
        Ok((spool, recovery.report))
    }
}

/// Counts messages with open recipients in a log that is not open; changes nothing.
///
/// # Errors
/// Returns an error if the directory cannot be read or has an unknown format version.
pub fn count_queued(disk: &dyn Disk) -> Result<u64, SpoolError> {
    Ok(Recovery::new().read(disk, None)?.live.index.count())
}

fn check(config: &SpoolConfig) -> Result<(), SpoolError> {
    let block = config.block_bytes;
    if block == 0 || !block.is_multiple_of(SECTOR_BYTES) || block > 1 << 20 {
        return Err(SpoolError::Config("block_bytes must be a multiple of 512"));
    }
    if config.segment_bytes > 2 << 30 || config.segment_bytes < SEGMENT_BLOCKS_MIN * block {
        return Err(SpoolError::Config("segment_bytes must be 16 blocks to 2 GiB"));
    }
    if config.first_segment_bytes < SEGMENT_BLOCKS_MIN * block {
        return Err(SpoolError::Config("first_segment_bytes must be at least 16 blocks"));
    }
    if config.spare_segments_max < 2 {
        return Err(SpoolError::Config("spare_segments_max must be at least 2"));
    }
    Ok(())
}
