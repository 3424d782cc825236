//! Record headers and checksums.

use crate::block::u32_at;
use crate::name::SegmentKey;
use bytes::Bytes;

/// Length (u32), kind (u8), flags (u8), two zero bytes, CRC-32C (u32) of these and the body.
pub(crate) const RECORD_HEADER_BYTES: usize = 12;

/// Kinds of record on disk.
pub(crate) mod kind {
    /// A message was accepted.
    pub(crate) const ACCEPT: u8 = 1;
    /// Recipients were tried and stay open.
    pub(crate) const ATTEMPT: u8 = 2;
    /// Recipients are done with.
    pub(crate) const SETTLE: u8 = 3;
    /// Hold, next try, overrides, delay notice.
    pub(crate) const STATE: u8 = 4;
    /// An accept that compaction moved here; it replaces earlier records of the message.
    pub(crate) const COPY: u8 = 5;
    /// A message's complete state besides its accept.
    pub(crate) const RESIDUE: u8 = 6;
    /// A message is settled; replaces its settles at compaction.
    pub(crate) const GONE: u8 = 7;
    /// In index batches: an accept or copy, without its content.
    pub(crate) const INDEXED: u8 = 8;
}

/// The record begins a group: the records of one submit, made durable together.
pub(crate) const FLAG_FIRST: u8 = 1;

/// Fills in the header of the record that starts at `start` of `out` and at `offset` of the segment. `tail` holds
/// further bytes not included in `out`. Returns the checksum.
pub(crate) fn finish_record(
    out: &mut [u8],
    start: usize,
    header: (u8, u8),
    at: (SegmentKey, u64),
    tail: &[Bytes],
) -> u32 {
    let tail_bytes: usize = tail.iter().map(Bytes::len).sum();
    let Some(record) = out.get_mut(start..) else { return 0 };
    let length = (record.len() + tail_bytes) as u32;
    let Some((head, rest)) = record.split_at_mut_checked(RECORD_HEADER_BYTES) else { return 0 };
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = header.0;
    head[5] = header.1;
    head[6..8].copy_from_slice(&[0, 0]);
    let mut crc = crc32c::crc32c_append(at.0.seed(at.1), &head[..8]);
    crc = crc32c::crc32c_append(crc, rest);
    for piece in tail {
        crc = crc32c::crc32c_append(crc, piece);
    }
    head[8..12].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// A record with a valid checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    pub kind: u8,
    pub first: bool,
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// In bytes, header included.
    pub length: u32,
    pub crc: u32,
    /// Without header.
    pub body: &'a [u8],
}

/// Decodes the record at the front of `bytes`, which is at `offset` in the segment. `Err` contains the record's length
/// if only its checksum is wrong, so that the next record can be tried.
pub(crate) fn read_record(
    bytes: &[u8],
    key: SegmentKey,
    offset: u64,
) -> Result<RawRecord<'_>, Option<usize>> {
    let length = u32_at(bytes, 0).ok_or(None)?;
    let record = bytes.get(..length as usize).ok_or(None)?;
    let record = raw_record(record, key, offset).ok_or(None)?;
    let told = u32_at(bytes, 8);
    if told == Some(record.crc) { Ok(record) } else { Err(Some(length as usize)) }
}

/// The record that `record` is, with the checksum that it ought to have.
fn raw_record(record: &[u8], key: SegmentKey, offset: u64) -> Option<RawRecord<'_>> {
    let (head, body) = record.split_at_checked(RECORD_HEADER_BYTES)?;
    let crc = crc32c::crc32c_append(key.seed(offset), head.get(..8)?);
    let crc = crc32c::crc32c_append(crc, body);
    let length = u32::try_from(record.len()).ok()?;
    let kind = head.get(4).copied().unwrap_or(0);
    let flags = head.get(5).copied().unwrap_or(0);
    Some(RawRecord { kind, first: flags & FLAG_FIRST != 0, offset, length, crc, body })
}

/// A planted fault: as [`read_record`], ignoring the checksum.
#[cfg(feature = "planted")]
pub(crate) fn read_torn_record(
    bytes: &[u8],
    key: SegmentKey,
    offset: u64,
) -> Option<RawRecord<'_>> {
    let length = u32_at(bytes, 0)? as usize;
    raw_record(bytes.get(..length)?, key, offset)
}
