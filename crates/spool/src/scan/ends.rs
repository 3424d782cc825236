//! Both ends of a segment file, and what is known of where its data ends.

use super::window::read_range;
use crate::block::SECTOR_BYTES;
use crate::disk::{Disk, DiskError};
use crate::name::SegmentKey;
use crate::segment::{Footer, Header};

/// A segment file and what it, the one after it and the register say about its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub key: SegmentKey,
    pub length: u64,
    pub header: Option<Header>,
    pub footer: Option<Footer>,
    /// Where the header of the segment after it, or the register, says that its data ends.
    pub said_end: Option<u64>,
}

impl Extent {
    /// The footer and the index before it were synced for sure.
    pub(crate) fn is_confirmed(&self) -> bool {
        match (self.footer, self.said_end) {
            (Some(footer), Some(end)) => footer.end <= end,
            _ => false,
        }
    }

    /// Everything before here was synced. A footer may have arrived without the index that was
    /// written with it; what comes before that index was synced earlier.
    pub(crate) fn known_end(&self) -> Option<u64> {
        match self.footer {
            Some(footer) if self.is_confirmed() => Some(footer.end),
            Some(footer) => Some(footer.index_offset),
            None => self.said_end,
        }
    }
}

/// The header and footer of a segment file.
pub(crate) fn read_ends(
    disk: &dyn Disk,
    file: &str,
    key: SegmentKey,
    length: u64,
) -> Result<(Option<Header>, Option<Footer>), DiskError> {
    let mut block = [0; SECTOR_BYTES as usize];
    let count = read_range(disk, file, 0, &mut block)?.unwrap_or(0);
    let header = block.get(..count).and_then(|block| Header::decode(block, key));
    let offset = length.saturating_sub(SECTOR_BYTES);
    let count = read_range(disk, file, offset, &mut block)?.unwrap_or(0);
    let end = block.get(..count).unwrap_or(&[]);
    let footer = Footer::decode(end, key, offset);
    // A segment that was used again has its header there until it has one in front.
    Ok((header.or_else(|| Header::decode(end, key)), footer))
}
