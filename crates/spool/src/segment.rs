//! Segment files: their names, their first and last block, and what is known of each.

use crate::io::FileName;
use std::collections::{BTreeMap, BTreeSet};

/// The only format version there is.
pub(crate) const VERSION: u16 = 1;
/// What disks write at once; headers and footers have this size.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// No segment is shorter, in blocks.
pub(crate) const SEGMENT_BLOCKS_MIN: u64 = 16;

const HEADER_MAGIC: &[u8; 4] = b"PRSG";
const FOOTER_MAGIC: &[u8; 4] = b"PRFT";

/// What is mixed into every checksum of a segment: its name says it, so that no damage to its
/// content can hide it, and a recycled file's old content is not valid under its new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentKey {
    /// Rises with each segment of the log, never reused.
    pub generation: u32,
    /// Not known to any sender.
    pub salt: u64,
}

impl SegmentKey {
    /// The checksum that everything at `offset` starts from.
    pub(crate) fn seed(self, offset: u64) -> u32 {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.generation.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.salt.to_le_bytes());
        bytes[12..].copy_from_slice(&offset.to_le_bytes());
        crc32c::crc32c(&bytes)
    }

    /// The file's name.
    pub(crate) fn name(self) -> FileName {
        format!("{:08x}-{:016x}.segment", self.generation, self.salt).into()
    }
}

/// What a name in the directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(SegmentKey),
    /// Zero-written or recycled, ready to become a segment.
    Spare(u32),
    /// Being zero-written.
    Unfinished(u32),
    /// A segment with damage, put aside when nothing in it was needed any more.
    Damaged(SegmentKey),
    Blob(u64),
    /// Not ours.
    Other,
}

/// Whether a file of this name is one of a log.
#[must_use]
pub fn is_spool_name(text: &str) -> bool {
    text == crate::register::REGISTER || Name::parse(text) != Name::Other
}

impl Name {
    pub(crate) fn parse(text: &str) -> Name {
        let Some((stem, extension)) = text.split_once('.') else { return Name::Other };
        let keyed = || {
            let (generation, salt) = stem.split_once('-')?;
            Some(SegmentKey { generation: hex(generation, 8)? as u32, salt: hex(salt, 16)? })
        };
        let found = match extension {
            "segment" => keyed().map(Name::Segment),
            "damaged" => keyed().map(Name::Damaged),
            "spare" => hex(stem, 8).map(|n| Name::Spare(n as u32)),
            "new" => hex(stem, 8).map(|n| Name::Unfinished(n as u32)),
            "blob" => hex(stem, 16).map(Name::Blob),
            _ => None,
        };
        found.unwrap_or(Name::Other)
    }
}

/// Exactly `digits` lower-case hexadecimal digits: one number has one name.
fn hex(text: &str, digits: usize) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if text.len() != digits || !plain {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

pub(crate) fn spare_name(generation: u32) -> FileName {
    format!("{generation:08x}.spare").into()
}

pub(crate) fn unfinished_name(generation: u32) -> FileName {
    format!("{generation:08x}.new").into()
}

pub(crate) fn damaged_name(key: SegmentKey) -> FileName {
    format!("{:08x}-{:016x}.damaged", key.generation, key.salt).into()
}

pub(crate) fn blob_name(blob: u64) -> FileName {
    format!("{blob:016x}.blob").into()
}

/// `n` rounded up to a multiple of `block`.
pub(crate) fn align(n: u64, block: u64) -> u64 {
    n.div_ceil(block.max(1)).saturating_mul(block.max(1))
}

/// The first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub version: u16,
    pub node: u16,
    pub log: u8,
    /// There was a register when it was begun.
    pub registered: bool,
    /// Where the first batch begins.
    pub first_offset: u64,
    /// The segment that was full before this one was begun, and where its data ends; zeros for
    /// none. Says that nothing before that end can be a torn tail.
    pub previous: (u32, u64),
    /// What was used before the first batch: so much is known even if all else is freed.
    pub marks: Marks,
}

/// The next of each number that is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Batches of the log.
    pub batch: u64,
    /// Records of the log.
    pub position: u64,
    /// Messages.
    pub sequence: u64,
    /// Blobs.
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
        block[28..32].copy_from_slice(&self.previous.0.to_le_bytes());
        block[32..40].copy_from_slice(&self.previous.1.to_le_bytes());
        let marks = [self.marks.batch, self.marks.position, self.marks.sequence, self.marks.blob];
        for (field, mark) in block[40..72].chunks_exact_mut(8).zip(marks) {
            field.copy_from_slice(&mark.to_le_bytes());
        }
        finish_block(block, key.seed(0))
    }

    /// `None` when it is not there or damaged.
    pub(crate) fn decode(block: &[u8], key: SegmentKey) -> Option<Header> {
        let block = check_block(block, HEADER_MAGIC, key.seed(0))?;
        Some(Header {
            version: u16_at(block, 4)?,
            node: u16_at(block, 6)?,
            log: *block.get(8)?,
            registered: *block.get(9)? & 1 != 0,
            first_offset: u64_at(block, 16)?,
            previous: (u32_at(block, 28)?, u64_at(block, 32)?),
            marks: Marks {
                batch: u64_at(block, 40)?,
                position: u64_at(block, 48)?,
                sequence: u64_at(block, 56)?,
                blob: u64_at(block, 64)?,
            },
        })
    }
}

/// The last block of a segment's file, written when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where its data ends.
    pub end: u64,
    /// Where its last index batch begins.
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

const BLOCK_CRC: usize = SECTOR_BYTES as usize - 4;

fn finish_block(mut block: [u8; 512], seed: u32) -> [u8; 512] {
    let crc = crc32c::crc32c_append(seed, &block[..BLOCK_CRC]);
    block[BLOCK_CRC..].copy_from_slice(&crc.to_le_bytes());
    block
}

fn check_block<'a>(block: &'a [u8], magic: &[u8; 4], seed: u32) -> Option<&'a [u8]> {
    let block = block.get(..SECTOR_BYTES as usize)?;
    let crc = crc32c::crc32c_append(seed, block.get(..BLOCK_CRC)?);
    (block.starts_with(magic) && u32_at(block, BLOCK_CRC)? == crc).then_some(block)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// What is known of one segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub key: SegmentKey,
    pub file: FileName,
    /// Of the file.
    pub length: u64,
    /// No more is written to it.
    pub sealed: bool,
    /// Messages whose newest accept record is here.
    pub live_count: u64,
    /// Bytes of these records.
    pub live_bytes: u64,
    /// Bytes of all accept records that were written here since the start.
    pub accepted_bytes: u64,
    /// It was begun and filled since the start.
    pub filled: bool,
    /// Bytes of the records that are not accepts.
    pub small_bytes: u64,
    /// Bytes and number of those that say how things are with a message: attempts and residues.
    pub statements_bytes: u64,
    pub statements_count: u64,
    /// Messages of which the newest complete statement is here, be it the accept.
    pub stated_count: u64,
    /// Older segments with accept records of messages that a record here says more about: while
    /// one of them can be read again, this one must be, too.
    pub depends_on: BTreeSet<u32>,
    /// Smallest and largest message id accepted here.
    pub ids: Option<(u64, u64)>,
    /// Reads under way.
    pub readers_count: u32,
    /// Part of it can't be read: never recycled.
    pub damaged: bool,
    /// Compaction has moved all that is needed.
    pub evacuated: bool,
    /// It holds what can't be moved: not tried again until the next start.
    pub stuck: bool,
    /// The disk failed to read it: not tried again for so many ticks.
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

    /// Bytes of those records that are not accepts and may be needed: of the statements about as many
    /// as there are messages that nothing newer speaks of.
    pub(crate) fn needed_small_bytes(&self) -> u64 {
        let others = self.small_bytes.saturating_sub(self.statements_bytes);
        let all = u128::from(self.statements_bytes) * u128::from(self.stated_count);
        let newest = all / u128::from(self.statements_count.max(1));
        others + u64::try_from(newest).unwrap_or(u64::MAX).min(self.statements_bytes)
    }

    /// Where the footer goes; data ends before.
    pub(crate) fn footer_offset(&self) -> u64 {
        self.length.saturating_sub(SECTOR_BYTES)
    }

    /// Written again it would take as much room as it does: all that was accepted here is live, and
    /// most of what was said here is not said anew elsewhere.
    pub(crate) fn is_dense(&self) -> bool {
        self.filled
            && self.live_bytes == self.accepted_bytes
            && self.small_bytes.saturating_mul(4) < self.length
            && self.needed_small_bytes().saturating_mul(2) >= self.small_bytes
    }

    /// Notes that an accept record of `id` is here.
    pub(crate) fn include_id(&mut self, id: u64) {
        self.ids = Some(self.ids.map_or((id, id), |(low, high)| (low.min(id), high.max(id))));
    }
}

/// All segments that hold records, by generation.
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

    /// It no longer is, or the message is settled.
    pub(crate) fn drop_live(&mut self, generation: u32, bytes: u32) {
        if let Some(segment) = self.map.get_mut(&generation) {
            segment.live_count = segment.live_count.saturating_sub(1);
            segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(bytes));
        }
    }

    /// The newest complete statement about a message is not in segment `from` any more but in `to`;
    /// its accept is one, too.
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

    /// Nothing in the segment will be needed again: it holds no live message, and each record in
    /// it that says something about a message is about one whose accept is durably gone (or was
    /// copied on by compaction). Only to be asked when all that is known is durable.
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

    #[test]
    fn names_are_read_as_they_are_written() {
        let key = SegmentKey { generation: 0x12, salt: 0xabc };
        assert_eq!(Name::parse(&key.name()), Name::Segment(key));
        assert_eq!(Name::parse(&damaged_name(key)), Name::Damaged(key));
        assert_eq!(Name::parse(&spare_name(5)), Name::Spare(5));
        assert_eq!(Name::parse(&unfinished_name(5)), Name::Unfinished(5));
        assert_eq!(Name::parse(&blob_name(5)), Name::Blob(5));
        for other in ["lock", "control.sock", "5.spare", "0000000A.spare", "00000005.SPARE", ""] {
            assert_eq!(Name::parse(other), Name::Other);
        }
    }

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
