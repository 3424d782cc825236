//! Reads a file piece by piece, around sectors that can't be read.

use crate::block::SECTOR_BYTES;
use crate::disk::{Disk, DiskError, read_around};
use std::collections::BTreeSet;

/// The fuzzer's segments are small; a small window makes it use more than one.
pub(super) const WINDOW_BYTES: usize = if cfg!(fuzzing) { 4 << 10 } else { 1 << 20 };

/// Reads a file through a buffer of at least a mebibyte, or the rest of the file.
pub(super) struct Window<'a> {
    disk: &'a dyn Disk,
    file: &'a str,
    /// Of the file, in bytes.
    length: u64,
    start: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are filled from the file.
    filled: usize,
    /// Sectors that can't be read, by offset.
    unreadable: BTreeSet<u64>,
}

impl<'a> Window<'a> {
    pub(super) fn new(disk: &'a dyn Disk, file: &'a str, length: u64) -> Window<'a> {
        let unreadable = BTreeSet::new();
        Window { disk, file, length, start: 0, buffer: Vec::new(), filled: 0, unreadable }
    }

    /// `bytes` bytes from `offset`, fewer where the file ends.
    pub(super) fn get(&mut self, offset: u64, bytes: usize) -> Result<&[u8], DiskError> {
        let within = offset.checked_sub(self.start).map_or(usize::MAX, |at| at as usize);
        if within.saturating_add(bytes) > self.filled {
            // One byte more than is left, so that the read notices the end of the file.
            let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
            let wanted = bytes.max(WINDOW_BYTES.min(left.saturating_add(1)));
            if self.buffer.len() < wanted {
                self.buffer = vec![0; wanted];
            }
            self.filled = 0;
            let bad = &mut self.unreadable;
            self.filled = read_around(self.disk, self.file, offset, &mut self.buffer, bad)?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        let to = from.saturating_add(bytes).min(self.filled);
        Ok(self.buffer.get(from..to).unwrap_or(&[]))
    }

    /// Returns true if a sector between the two is unreadable.
    pub(super) fn is_unreadable(&self, from: u64, to: u64) -> bool {
        self.unreadable.range(from / SECTOR_BYTES * SECTOR_BYTES..to).next().is_some()
    }

    /// Runs of unreadable sectors, as offset and length.
    pub(super) fn unreadable_runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &sector in &self.unreadable {
            match runs.last_mut() {
                Some((from, bytes)) if *from + *bytes == sector => *bytes += SECTOR_BYTES,
                _ => runs.push((sector, SECTOR_BYTES)),
            }
        }
        runs
    }
}

/// Reads a range; `None` if one of its sectors is unreadable.
pub(super) fn read_range(
    disk: &dyn Disk,
    file: &str,
    offset: u64,
    buffer: &mut [u8],
) -> Result<Option<usize>, DiskError> {
    let mut unreadable = BTreeSet::new();
    let count = read_around(disk, file, offset, buffer, &mut unreadable)?;
    Ok(unreadable.is_empty().then_some(count))
}
