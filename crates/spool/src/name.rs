//! Names in the log directory: of segments, spares and blobs.

use mail::random;
use std::sync::Arc;

/// File names are shared, not copied.
pub(crate) type FileName = Arc<str>;

/// The file of the register; see `register.rs`.
pub(crate) const REGISTER: &str = "register";

/// The value mixed into every checksum of a segment. It is derived from the name, so that damage to the content cannot
/// hide it and old content of a recycled file is invalid under the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentKey {
    /// Increases with each segment of the log; never reused.
    pub generation: u32,
    /// Unknown to all senders.
    pub salt: u64,
}

impl SegmentKey {
    /// The key of a new segment: its salt cannot be guessed without knowing the log's salt.
    pub(crate) fn new(log_salt: u64, generation: u32) -> SegmentKey {
        SegmentKey { generation, salt: random::nth(log_salt, u64::from(generation)) }
    }

    /// The initial checksum of everything at `offset`.
    pub(crate) fn seed(self, offset: u64) -> u32 {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.generation.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.salt.to_le_bytes());
        bytes[12..].copy_from_slice(&offset.to_le_bytes());
        crc32c::crc32c(&bytes)
    }

    pub(crate) fn name(self) -> FileName {
        format!("{:08x}-{:016x}.segment", self.generation, self.salt).into()
    }
}

/// The kinds of names in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(SegmentKey),
    /// Zero-written or recycled, ready to become a segment.
    Spare(u32),
    /// Being zero-written.
    Unfinished(u32),
    /// A damaged segment, set aside once none of its records was needed.
    Damaged(SegmentKey),
    Blob(u64),
    /// A file that does not belong to a log.
    Other,
}

/// Returns true if a file of this name belongs to a log.
#[must_use]
pub fn is_spool_name(text: &str) -> bool {
    text == REGISTER || Name::parse(text) != Name::Other
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

/// Parses exactly `digits` lower-case hexadecimal digits: a number has only one name.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
