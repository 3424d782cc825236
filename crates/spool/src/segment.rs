//! The first and the last block of a segment file.

use crate::block::{SECTOR_BYTES, VERSION, check_block, finish_block, u16_at, u32_at, u64_at};
use crate::name::SegmentKey;

/// No segment is shorter, in blocks.
pub(crate) const SEGMENT_BLOCKS_MIN: u64 = 16;

const HEADER_MAGIC: &[u8; 4] = b"PRSG";
const FOOTER_MAGIC: &[u8; 4] = b"PRFT";

/// The first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub version: u16,
    pub node: u16,
    pub log: u8,
    /// A register existed when the segment was started.
    pub registered: bool,
    /// Start of the first batch.
    pub first_offset: u64,
    /// The segment that was full before this one was started. Nothing before its end can be a torn tail.
    pub previous: SegmentEnd,
    /// Numbers used before the first batch: known even if all other segments are freed.
    pub marks: Marks,
}

/// A segment and the end of its data; zeros for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentEnd {
    pub generation: u32,
    pub end: u64,
}

/// The next unused value of each number that is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Batches of the log.
    pub batch: u64,
    /// Records of the log.
    pub position: u64,
    /// Message ids of the log.
    pub sequence: u64,
    /// Blobs of the log.
    pub blob: u64,
}

impl Header {
    pub(crate) fn encode(self, key: SegmentKey) -> [u8; SECTOR_BYTES as usize] {
        let mut block = [0; SECTOR_BYTES as usize];
        block[..4].copy_from_slice(HEADER_MAGIC);
        block[4..6].copy_from_slice(&self.version.to_le_bytes());
        block[6..8].copy_from_slice(&self.node.to_le_bytes());
        block[8] = self.log;
        block[9] = u8::from(self.registered);
        block[16..24].copy_from_slice(&self.first_offset.to_le_bytes());
        block[24..28].copy_from_slice(&key.generation.to_le_bytes());
        block[28..32].copy_from_slice(&self.previous.generation.to_le_bytes());
        block[32..40].copy_from_slice(&self.previous.end.to_le_bytes());
        let marks = [self.marks.batch, self.marks.position, self.marks.sequence, self.marks.blob];
        for (field, mark) in block[40..72].chunks_exact_mut(8).zip(marks) {
            field.copy_from_slice(&mark.to_le_bytes());
        }
        finish_block(block, key.seed(0))
    }

    /// Returns `None` if it is missing or damaged.
    pub(crate) fn decode(block: &[u8], key: SegmentKey) -> Option<Header> {
        let block = check_block(block, HEADER_MAGIC, key.seed(0))?;
        Some(Header {
            version: u16_at(block, 4)?,
            node: u16_at(block, 6)?,
            log: *block.get(8)?,
            registered: *block.get(9)? & 1 != 0,
            first_offset: u64_at(block, 16)?,
            previous: SegmentEnd { generation: u32_at(block, 28)?, end: u64_at(block, 32)? },
            marks: Marks {
                batch: u64_at(block, 40)?,
                position: u64_at(block, 48)?,
                sequence: u64_at(block, 56)?,
                blob: u64_at(block, 64)?,
            },
        })
    }
}

/// The last block of a segment's file, written when the segment is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// End of its data.
    pub end: u64,
    /// Start of its last index batch.
    pub index_offset: u64,
}

impl Footer {
    pub(crate) fn encode(self, key: SegmentKey, offset: u64) -> [u8; SECTOR_BYTES as usize] {
        let mut block = [0; SECTOR_BYTES as usize];
        block[..4].copy_from_slice(FOOTER_MAGIC);
        block[4..6].copy_from_slice(&VERSION.to_le_bytes());
        block[8..16].copy_from_slice(&self.end.to_le_bytes());
        block[16..24].copy_from_slice(&self.index_offset.to_le_bytes());
        finish_block(block, key.seed(offset))
    }

    pub(crate) fn decode(block: &[u8], key: SegmentKey, offset: u64) -> Option<Footer> {
        let block = check_block(block, FOOTER_MAGIC, key.seed(offset))?;
        let footer = Footer { end: u64_at(block, 8)?, index_offset: u64_at(block, 16)? };
        (footer.end <= offset && footer.index_offset < footer.end).then_some(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_valid_only_where_it_was_written() {
        let key = SegmentKey { generation: 3, salt: 4 };
        let footer = Footer { end: 2048, index_offset: 1024 };
        let block = footer.encode(key, 4096);
        assert_eq!(Footer::decode(&block, key, 4096), Some(footer));
        assert_eq!(Footer::decode(&block, key, 8192), None);
        assert_eq!(Footer::decode(&block, SegmentKey { generation: 4, ..key }, 4096), None);
        assert_eq!(Footer::decode(&block[..511], key, 4096), None);
    }
}
