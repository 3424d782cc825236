//! The end of the log: turns submits into batches in the active segment.

use crate::batch::{BATCH_HEADER_BYTES, BatchBuilder, BatchHeader, Placed};
use crate::block::{SECTOR_BYTES, VERSION, align};
use crate::buffer::WriteBuffer;
use crate::catalog::Catalog;
use crate::codec::{self, AcceptHead, RECORD_HEADER_BYTES, Residue, kind};
use crate::config::SpoolConfig;
use crate::io::SealWrite;
use crate::live::Live;
use crate::name::{FileName, SegmentKey};
use crate::record::{Accept, Attempt, BlobId, Body, Record, Settle, State};
use crate::segment::{Footer, Header, Marks, SegmentEnd};
use bytes::Bytes;
use mail::MessageId;
use std::mem::take;

/// Zeros are written ahead of batches up to this average size.
const SMALL_BATCH_BYTES: u64 = 8 << 10;
/// Length of one run of zeros.
const ZERO_AHEAD_BYTES: u64 = 256 << 10;

/// The active segment and the position of the next batch.
#[derive(Debug)]
pub(crate) struct Writer {
    pub key: SegmentKey,
    pub file: FileName,
    /// Start of the next batch; everything before is durable, except for a pending batch.
    pub offset: u64,
    footer_offset: u64,
    last_index: u64,
    /// The segment before this one.
    previous: SegmentEnd,
    catalog: Catalog,
    pub next_batch: u64,
    pub next_position: u64,
    node: u16,
    log: u8,
    block_bytes: u64,
    index_every_bytes: u64,
    /// End of the last index batch.
    indexed_to: u64,
    /// Every block of the active segment before this was written once.
    pub written_to: u64,
    /// Average size of the last batches in bytes, with recent ones weighted more.
    typical_bytes: u64,
}

/// A batch during assembly.
#[derive(Debug)]
pub(crate) struct Batch {
    pub buffer: WriteBuffer,
    builder: BatchBuilder,
    /// Start of the write in the segment.
    pub write_offset: u64,
    /// Start of the batch.
    offset: u64,
    /// Log position of its first record.
    position: u64,
    /// Blobs of the messages it settles.
    pub dropped_blobs: Vec<BlobId>,
    group_open: bool,
}

impl Writer {
    pub(crate) fn new(
        config: &SpoolConfig,
        key: SegmentKey,
        length: u64,
        previous: SegmentEnd,
        next: (u64, u64),
    ) -> Writer {
        let mut writer = Writer {
            key,
            file: key.name(),
            offset: 0,
            footer_offset: 0,
            last_index: 0,
            previous: SegmentEnd::default(),
            catalog: Catalog::default(),
            next_batch: next.0,
            next_position: next.1,
            node: config.node,
            log: config.log,
            block_bytes: config.block_bytes,
            index_every_bytes: config.index_every_bytes,
            indexed_to: 0,
            written_to: 0,
            typical_bytes: 0,
        };
        writer.begin(key, length, previous);
        writer
    }

    fn begin(&mut self, key: SegmentKey, length: u64, previous: SegmentEnd) {
        self.key = key;
        self.file = key.name();
        self.offset = self.block_bytes;
        self.footer_offset = length.saturating_sub(SECTOR_BYTES);
        self.last_index = 0;
        self.previous = previous;
        self.indexed_to = self.offset;
        self.written_to = 0;
    }

    /// Zeros to write after a batch, in the same write. Blocks never written before make a sync more expensive, because
    /// the file system must mark them as written. Zeros save small batches this cost; large ones would only be written
    /// twice.
    fn zeros_ahead(&mut self, write_offset: u64) -> u64 {
        let bytes = self.offset - write_offset;
        self.typical_bytes = (self.typical_bytes * 7 + bytes) / 8;
        if self.offset <= self.written_to {
            return 0;
        }
        let ahead = if self.typical_bytes <= SMALL_BATCH_BYTES { ZERO_AHEAD_BYTES } else { 0 };
        self.written_to = (self.offset + ahead).min(self.footer_offset).max(self.offset);
        self.written_to - self.offset
    }

    /// Maximum bytes of one submit in a segment of this length, with its share of the index.
    pub(crate) fn submit_bytes_max(length: u64, block_bytes: u64) -> u64 {
        // A quarter is left for the records that compaction writes with a message.
        length.saturating_sub(overhead(block_bytes) + block_bytes + 512) / 4 * 3
    }

    /// Returns true if this many bytes of records and index entries fit into the active segment, after the `used` bytes
    /// of the batch so far.
    pub(crate) fn fits(&self, used: u64, bytes: u64) -> bool {
        let needed = used + bytes + self.catalog.bytes_max() + overhead(self.block_bytes);
        self.offset + needed <= self.footer_offset
    }

    /// Approximate space in the active segment, less a reserve for settles.
    pub(crate) fn room_bytes(&self) -> u64 {
        let used = self.offset + self.catalog.bytes_max() + overhead(self.block_bytes);
        self.footer_offset.saturating_sub(used + self.footer_offset / 16)
    }

    /// Returns true if a quarter of the active segment, and at least `rest` bytes, remain after this many bytes more.
    pub(crate) fn leaves(&self, used: u64, bytes: u64, rest: u64) -> bool {
        self.offset + used + bytes + rest.max(self.footer_offset / 4) <= self.footer_offset
    }

    /// Length of the active segment's file.
    pub(crate) fn length(&self) -> u64 {
        self.footer_offset + SECTOR_BYTES
    }

    fn header(&self, live: &Live, offset: u64) -> BatchHeader {
        BatchHeader {
            node: self.node,
            log: self.log,
            sequence: self.next_batch,
            position: self.next_position,
            synced_offset: offset,
            next_sequence: live.next_sequence,
            next_blob: live.next_blob,
            previous_index: self.last_index,
            ..BatchHeader::default()
        }
    }

    /// The first block of the active segment, while it contains no batch.
    pub(crate) fn segment_header(
        &self,
        live: &Live,
        registered: bool,
    ) -> [u8; SECTOR_BYTES as usize] {
        let header = Header {
            version: VERSION,
            node: self.node,
            log: self.log,
            registered,
            first_offset: self.block_bytes,
            previous: self.previous,
            marks: self.marks(live),
        };
        header.encode(self.key)
    }

    /// The next unused numbers.
    pub(crate) fn marks(&self, live: &Live) -> Marks {
        Marks {
            batch: self.next_batch,
            position: self.next_position,
            sequence: live.next_sequence,
            blob: live.next_blob,
        }
    }

    /// Finishes the active segment and continues in `next`.
    pub(crate) fn roll(&mut self, live: &Live, next: SegmentKey, length: u64) -> SealWrite {
        let mut buffer = WriteBuffer::default();
        let index_offset = self.offset;
        let bytes = self.write_index(&mut buffer, live, index_offset);
        let footer = Footer { end: index_offset + bytes, index_offset };
        let seal = SealWrite {
            file: self.file.clone(),
            index_offset,
            index: take(&mut buffer.small),
            footer_offset: self.footer_offset,
            footer: footer.encode(self.key, self.footer_offset).to_vec(),
        };
        let full = SegmentEnd { generation: self.key.generation, end: footer.end };
        self.begin(next, length, full);
        seal
    }

    fn write_index(&mut self, buffer: &mut WriteBuffer, live: &Live, synced: u64) -> u64 {
        let header = BatchHeader { is_index: true, ..self.header(live, synced) };
        let at = (self.key, self.offset);
        let bytes = self.catalog.write(buffer, &live.index, at, header, self.block_bytes);
        self.next_batch += 1;
        self.last_index = self.offset;
        self.indexed_to = self.offset + bytes;
        bytes
    }

    /// Begins a batch, preceded by the segment's header or by an index batch if one is due. The index is written before
    /// this batch takes effect: it must include messages that only this batch settles.
    pub(crate) fn begin_batch(
        &mut self,
        live: &Live,
        registered: bool,
        mut buffer: WriteBuffer,
    ) -> Batch {
        buffer.clear();
        let mut write_offset = self.offset;
        if self.offset == self.block_bytes {
            write_offset = 0;
            buffer.small.extend_from_slice(&self.segment_header(live, registered));
            buffer.small.resize(self.block_bytes as usize, 0);
        } else if self.offset - self.indexed_to >= self.index_every_bytes {
            self.offset += self.write_index(&mut buffer, live, write_offset);
        }
        let builder = BatchBuilder::new(&mut buffer, self.key, self.offset);
        Batch {
            buffer,
            builder,
            write_offset,
            offset: self.offset,
            position: self.next_position,
            dropped_blobs: Vec::new(),
            group_open: false,
        }
    }

    /// Closes the batch; the next one starts after it.
    pub(crate) fn finish_batch(&mut self, live: &Live, batch: Batch) -> (WriteBuffer, u64) {
        let Batch { mut buffer, builder, write_offset, offset, position, .. } = batch;
        // A segment header or index batch in the same write is not yet synced before this batch.
        let header = BatchHeader { position, ..self.header(live, write_offset) };
        let records = u64::from(builder.records_count());
        let bytes = builder.finish(&mut buffer, header, self.block_bytes);
        buffer.mark();
        self.next_batch += 1;
        self.next_position = position + records;
        self.offset = offset + bytes;
        let zeros = self.zeros_ahead(write_offset);
        buffer.push_zeros(zeros);
        (buffer, records)
    }

    /// Adds and applies the records of a submit that change the state. Returns the number of the first. `restates`: the
    /// space for [`Writer::restated_bytes`] is available.
    pub(crate) fn add_submit(
        &mut self,
        live: &mut Live,
        batch: &mut Batch,
        records: &[Record],
        restates: bool,
    ) -> u64 {
        let position = batch.position + u64::from(batch.builder.records_count());
        batch.group_open = false;
        for record in records {
            match record {
                Record::Accept(accept) => self.add_accept(live, batch, accept),
                Record::Attempt(attempt) => self.add_attempt(live, batch, attempt, restates),
                Record::Settle(settle) => self.add_settle(live, batch, settle),
                Record::State(state) => self.add_state(live, batch, state),
            }
        }
        position
    }

    fn add_accept(&mut self, live: &mut Live, batch: &mut Batch, accept: &Accept) {
        let start = batch.builder.begin(&mut batch.buffer);
        codec::put_accept(&mut batch.buffer.small, accept);
        let head_end = batch.buffer.small.len();
        let (body, blob) = match &accept.body {
            Body::Memory(pieces) => (pieces.as_slice(), None),
            Body::Blob { blob, .. } => (&[][..], Some(*blob)),
        };
        let placed = batch.end(start, kind::ACCEPT, body);
        let head = AcceptHead {
            id: accept.id,
            recipients_count: accept.envelope.recipients.len() as u32,
            blob,
            copied: false,
            offset: placed.offset,
            length: placed.length,
        };
        let fixed = batch.buffer.small.get(start + RECORD_HEADER_BYTES..head_end).unwrap_or(&[]);
        if let Some(source) = codec::index_source(fixed) {
            self.catalog.add_accept(&head, &source);
        }
        live.accept(self.key.generation, &head);
    }

    /// Upper bound of the bytes of an attempt, with its index entry, that restates the message's complete state. This
    /// is done for the first attempt in each segment that does not contain the complete state itself. A message tried
    /// for days then needs only the newest segment.
    pub(crate) fn restated_bytes(&self, live: &Live, attempt: &Attempt) -> Option<usize> {
        let entry = live.index.get(attempt.id.0)?;
        if entry.stated() >= self.key.generation || entry.is_stated_by_attempt(&attempt.recipients)
        {
            return None;
        }
        let before = codec::residue_bytes_max(&entry.residue(attempt.id.0, &live.reasons));
        Some(2 * (before + codec::retried_bytes_max(attempt)))
    }

    fn add_attempt(
        &mut self,
        live: &mut Live,
        batch: &mut Batch,
        attempt: &Attempt,
        restates: bool,
    ) {
        let Some(entry) = live.index.get(attempt.id.0) else { return };
        let is_open = |&index: &u32| entry.is_open(index);
        if !attempt.recipients.iter().all(is_open) {
            let mut open = attempt.clone();
            open.recipients.retain(is_open);
            if !open.recipients.is_empty() {
                self.add_attempt(live, batch, &open, restates);
            }
            return;
        }
        if restates && self.restated_bytes(live, attempt).is_some() {
            live.tried(attempt);
            if let Some(entry) = live.index.get(attempt.id.0) {
                let residue = entry.residue(attempt.id.0, &live.reasons);
                self.put_residue(live, batch, &residue);
            }
            return;
        }
        let bytes = self.add_small(live, batch, attempt.id, kind::ATTEMPT, |out| {
            codec::put_attempt(out, attempt);
        });
        live.attempt(self.key.generation, attempt, bytes);
    }

    fn add_settle(&mut self, live: &mut Live, batch: &mut Batch, settle: &Settle) {
        let Some(entry) = live.index.get(settle.id.0) else { return };
        let ascends = settle.recipients.is_sorted_by(|a, b| a.0 < b.0);
        if ascends && settle.recipients.iter().all(|&(index, _)| entry.is_open(index)) {
            if settle.recipients.is_empty() {
                return;
            }
            self.add_small(live, batch, settle.id, kind::SETTLE, |out| {
                codec::put_settle(out, settle);
            });
            batch.dropped_blobs.extend(live.settle(settle));
            return;
        }
        let mut open = settle.clone();
        open.recipients.retain(|&(index, _)| entry.is_open(index));
        // The first settle of a recipient counts.
        open.recipients.sort_by_key(|&(index, _)| index);
        open.recipients.dedup_by_key(|&mut (index, _)| index);
        self.add_settle(live, batch, &open);
    }

    fn add_state(&mut self, live: &mut Live, batch: &mut Batch, state: &State) {
        if live.index.get(state.id.0).is_none() {
            return;
        }
        self.add_small(live, batch, state.id, kind::STATE, |out| codec::put_state(out, state));
        live.state(state);
    }

    fn add_small(
        &mut self,
        live: &mut Live,
        batch: &mut Batch,
        id: MessageId,
        kind: u8,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        let start = batch.builder.begin(&mut batch.buffer);
        put(&mut batch.buffer.small);
        let placed = batch.end(start, kind, &[]);
        let body = batch.buffer.small.get(start + RECORD_HEADER_BYTES..).unwrap_or(&[]);
        self.catalog.add_small(id.0, kind, body);
        live.note_small(self.key.generation, id, u64::from(placed.length));
        u64::from(placed.length)
    }

    /// Writes a message's complete state.
    fn put_residue(&mut self, live: &mut Live, batch: &mut Batch, residue: &Residue) {
        let id = MessageId(residue.id);
        let bytes = self.add_small(live, batch, id, kind::RESIDUE, |out| {
            codec::put_residue(out, residue);
        });
        batch.dropped_blobs.extend(live.residue(self.key.generation, residue, bytes));
    }

    /// Copies a live message here: `body` is its accept record without header.
    pub(crate) fn add_copy(
        &mut self,
        live: &mut Live,
        batch: &mut Batch,
        mut head: AcceptHead,
        body: &Bytes,
        residue: Option<&Residue>,
    ) {
        batch.group_open = false;
        let start = batch.builder.begin(&mut batch.buffer);
        let placed = batch.end(start, kind::COPY, std::slice::from_ref(body));
        (head.offset, head.length, head.copied) = (placed.offset, placed.length, true);
        if let Some(source) = codec::index_source(body) {
            self.catalog.add_accept(&head, &source);
        }
        live.accept(self.key.generation, &head);
        if let Some(residue) = residue {
            self.put_residue(live, batch, residue);
        }
    }

    /// Restates a message's state; its accept stays in place.
    pub(crate) fn add_residue(&mut self, live: &mut Live, batch: &mut Batch, residue: &Residue) {
        batch.group_open = false;
        self.put_residue(live, batch, residue);
    }

    /// Restates that a message is settled while its accept is still readable in a segment.
    pub(crate) fn add_gone(&mut self, live: &mut Live, batch: &mut Batch, id: MessageId) {
        batch.group_open = false;
        self.add_small(live, batch, id, kind::GONE, |out| {
            out.extend_from_slice(&id.0.to_le_bytes());
        });
    }
}

impl Batch {
    /// Bytes so far, header included.
    pub(crate) fn length(&self) -> u64 {
        self.builder.length(&self.buffer)
    }

    pub(crate) fn records_count(&self) -> u32 {
        self.builder.records_count()
    }

    fn end(&mut self, start: usize, kind: u8, body: &[Bytes]) -> Placed {
        let first = !std::mem::replace(&mut self.group_open, true);
        self.builder.end(&mut self.buffer, start, kind, first, body)
    }
}

/// Overhead of a batch and the index batches around it, besides records and index entries.
fn overhead(block_bytes: u64) -> u64 {
    // A due index batch, the data batch, the index batch that seals: headers and padding.
    align(3 * BATCH_HEADER_BYTES as u64, block_bytes) + 3 * block_bytes
}
