//! Batches: the unit of one write and one sync, with the checks by which a reader recognises a whole batch.

use crate::block::{VERSION, align, u16_at, u32_at, u64_at};
use crate::buffer::WriteBuffer;
use crate::codec::{self, FLAG_FIRST, RECORD_HEADER_BYTES};
use crate::name::SegmentKey;
use bytes::Bytes;

pub(crate) const BATCH_HEADER_BYTES: usize = 96;
const MAGIC: &[u8; 4] = b"PRBT";
const HEADER_CRC: usize = BATCH_HEADER_BYTES - 4;

/// The header of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub node: u16,
    pub log: u8,
    /// An index batch: repeats the records of earlier batches of the segment, for a quick start.
    pub is_index: bool,
    pub records_count: u32,
    /// Increases by one per batch.
    pub sequence: u64,
    /// Log position of its first record.
    pub position: u64,
    /// Everything in this segment before this offset was synced before the batch was written.
    pub synced_offset: u64,
    /// Size of its records in bytes, without this header and padding.
    pub payload_bytes: u64,
    /// Distance in bytes from the start of this batch to the next.
    pub total_bytes: u64,
    /// Message sequences from here on were never used.
    pub next_sequence: u64,
    /// Blob numbers from here on were never used.
    pub next_blob: u64,
    /// For index batches, the offset of the previous one; 0 for none.
    pub previous_index: u64,
    /// CRC-32C over the checksums of the records.
    pub records_crc: u32,
}

impl BatchHeader {
    pub(crate) fn encode(&self, key: SegmentKey, offset: u64) -> [u8; BATCH_HEADER_BYTES] {
        let mut out = [0; BATCH_HEADER_BYTES];
        out[..4].copy_from_slice(MAGIC);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6] = u8::from(self.is_index);
        out[7] = self.log;
        out[8..10].copy_from_slice(&self.node.to_le_bytes());
        out[12..16].copy_from_slice(&self.records_count.to_le_bytes());
        let numbers = [
            self.sequence,
            self.position,
            self.synced_offset,
            self.payload_bytes,
            self.total_bytes,
            self.next_sequence,
            self.next_blob,
            self.previous_index,
        ];
        for (field, number) in out[16..80].chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        out[80..84].copy_from_slice(&self.records_crc.to_le_bytes());
        let crc = crc32c::crc32c_append(key.seed(offset), &out[..HEADER_CRC]);
        out[HEADER_CRC..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Returns `None` if no batch of this segment starts here.
    pub(crate) fn decode(bytes: &[u8], key: SegmentKey, offset: u64) -> Option<BatchHeader> {
        let bytes = bytes.get(..BATCH_HEADER_BYTES)?;
        if !bytes.starts_with(MAGIC) || u16_at(bytes, 4)? != VERSION {
            return None;
        }
        let crc = crc32c::crc32c_append(key.seed(offset), bytes.get(..HEADER_CRC)?);
        if u32_at(bytes, HEADER_CRC)? != crc {
            return None;
        }
        let header = BatchHeader {
            is_index: *bytes.get(6)? & 1 != 0,
            log: *bytes.get(7)?,
            node: u16_at(bytes, 8)?,
            records_count: u32_at(bytes, 12)?,
            sequence: u64_at(bytes, 16)?,
            position: u64_at(bytes, 24)?,
            synced_offset: u64_at(bytes, 32)?,
            payload_bytes: u64_at(bytes, 40)?,
            total_bytes: u64_at(bytes, 48)?,
            next_sequence: u64_at(bytes, 56)?,
            next_blob: u64_at(bytes, 64)?,
            previous_index: u64_at(bytes, 72)?,
            records_crc: u32_at(bytes, 80)?,
        };
        let needed = header.payload_bytes.checked_add(BATCH_HEADER_BYTES as u64)?;
        (header.total_bytes >= needed).then_some(header)
    }
}

/// Assembles one batch in a buffer that may contain other data before it.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    key: SegmentKey,
    /// Start of the batch in the segment.
    offset: u64,
    /// Start of its header in the copied bytes.
    header_at: usize,
    /// Length of the buffer before this batch.
    before_bytes: u64,
    records_count: u32,
    records_crc: u32,
}

/// Position of a written record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// In bytes, header included.
    pub length: u32,
}

/// Minimum size of a piece of an inline body that is written without being copied.
const COPY_BYTES_MAX: usize = 4 << 10;

impl BatchBuilder {
    pub(crate) fn new(out: &mut WriteBuffer, key: SegmentKey, offset: u64) -> BatchBuilder {
        let (header_at, before_bytes) = (out.small.len(), out.length());
        out.small.extend_from_slice(&[0; BATCH_HEADER_BYTES]);
        BatchBuilder { key, offset, header_at, before_bytes, records_count: 0, records_crc: 0 }
    }

    pub(crate) fn records_count(&self) -> u32 {
        self.records_count
    }

    /// Bytes so far, header included.
    pub(crate) fn length(&self, out: &WriteBuffer) -> u64 {
        out.length() - self.before_bytes
    }

    /// Begins a record: where its bytes start in `out.small`.
    pub(crate) fn begin(&self, out: &mut WriteBuffer) -> usize {
        let start = out.small.len();
        out.small.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        start
    }

    /// Ends the record that began at `start`; `body` is appended to the bytes in `out.small`.
    pub(crate) fn end(
        &mut self,
        out: &mut WriteBuffer,
        start: usize,
        kind: u8,
        first: bool,
        body: &[Bytes],
    ) -> Placed {
        let body_bytes: usize = body.iter().map(Bytes::len).sum();
        let written = out.small.len() - start;
        let offset = self.offset + (self.length(out) - written as u64);
        let by_copy = body.iter().all(|piece| piece.len() < COPY_BYTES_MAX);
        if by_copy {
            for piece in body {
                out.small.extend_from_slice(piece);
            }
        }
        let tail = if by_copy { &[][..] } else { body };
        let flags = if first { FLAG_FIRST } else { 0 };
        let crc =
            codec::finish_record(&mut out.small, start, (kind, flags), (self.key, offset), tail);
        for piece in tail {
            out.push_large(piece.clone());
        }
        self.records_crc = crc32c::crc32c_append(self.records_crc, &crc.to_le_bytes());
        self.records_count += 1;
        Placed { offset, length: (written + body_bytes) as u32 }
    }

    /// Fills in the header, pads to `block_bytes`: the batch's length.
    pub(crate) fn finish(self, out: &mut WriteBuffer, mut header: BatchHeader, block: u64) -> u64 {
        let used = self.length(out);
        header.records_count = self.records_count;
        header.records_crc = self.records_crc;
        header.payload_bytes = used - BATCH_HEADER_BYTES as u64;
        header.total_bytes = align(self.offset + used, block) - self.offset;
        let encoded = header.encode(self.key, self.offset);
        if let Some(place) = out.small.get_mut(self.header_at..self.header_at + BATCH_HEADER_BYTES)
        {
            place.copy_from_slice(&encoded);
        }
        let padding = (header.total_bytes - used) as usize;
        out.small.resize(out.small.len() + padding, 0);
        header.total_bytes
    }
}
