//! Entry points for the fuzzer behind the checksums, which it could never guess. Compiled with `--cfg fuzzing` only:
//! see `docs/internals/fuzzing.md`.

use crate::batch::{BATCH_HEADER_BYTES, BatchBuilder, BatchHeader};
use crate::block::{SECTOR_BYTES, VERSION};
use crate::buffer::{BufferPart, WriteBuffer};
use crate::codec::{self, RECORD_HEADER_BYTES, RawRecord, SmallRecord, kind};
use crate::name::{self, Name, SegmentKey};
use crate::record::{Accept, Body};
use crate::request::{Loaded, LoadedBody};
use crate::segment::{Footer, Header, Marks, SegmentEnd};
use bytes::Bytes;
use mail::{Domain, MessageId};

const KEY: SegmentKey = SegmentKey { generation: 3, salt: 0x5eed };

/// Reads a record with this body and, if it is valid, writes and reads it again.
///
/// # Panics
/// Panics if the second read differs.
pub fn check_record(kind: u8, body: &[u8]) {
    let bytes = sealed(kind, body);
    let record = codec::read_record(&bytes, KEY, 512).expect("the checksum is right");
    assert_eq!((record.kind, record.body), (kind, body));
    let _ = codec::read_record(body, KEY, 512);
    match kind {
        kind::ACCEPT | kind::COPY => check_accept(&record),
        kind::INDEXED => check_indexed(&record),
        _ => check_small(kind, body),
    }
}

fn sealed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_HEADER_BYTES];
    bytes.extend_from_slice(body);
    codec::finish_record(&mut bytes, 0, (kind, codec::FLAG_FIRST), (KEY, 512), &[]);
    bytes
}

fn check_accept(record: &RawRecord<'_>) {
    let head = codec::read_head(record);
    let summary = codec::read_summary(record, &mut |text| Domain::parse(text).ok());
    let source = codec::index_source(record.body);
    assert!(head.is_some() || (summary.is_none() && source.is_none()));
    if let (Some(head), Some(source)) = (&head, &source) {
        let mut indexed = Vec::new();
        codec::put_indexed(&mut indexed, head, source);
        let bytes = sealed(kind::INDEXED, &indexed);
        let record = codec::read_record(&bytes, KEY, 512).expect("the checksum is right");
        assert_eq!(codec::read_head(&record).as_ref(), Some(head));
        let again = codec::read_summary(&record, &mut |text| Domain::parse(text).ok());
        assert_eq!(again, summary, "the index says something else");
    }
    let body = Bytes::copy_from_slice(record.body);
    let Some(loaded) = codec::read_loaded(&body) else { return };
    let Some(again) = written(&loaded) else { return };
    let read = codec::read_loaded(&Bytes::from(again.clone())).expect("what was written");
    assert_eq!(format!("{loaded:?}"), format!("{read:?}"));
    assert_eq!(written(&read).as_ref(), Some(&again));
}

fn written(loaded: &Loaded) -> Option<Vec<u8>> {
    let (body, tail) = match &loaded.body {
        LoadedBody::Memory(body) => (Body::Memory(vec![body.clone()]), body.clone()),
        LoadedBody::Blob { blob, body_bytes } => {
            (Body::Blob { blob: *blob, body_bytes: *body_bytes }, Bytes::new())
        }
    };
    let accept = Accept {
        id: loaded.id,
        received_at: loaded.received_at,
        envelope: loaded.envelope.clone(),
        meta: loaded.meta.clone(),
        prefix: loaded.prefix.clone(),
        body,
        facts: loaded.facts,
    };
    let mut out = Vec::new();
    codec::put_accept(&mut out, &accept).then(|| {
        out.extend_from_slice(&tail);
        let exact = codec::record_bytes(&crate::Record::Accept(Box::new(accept)));
        assert_eq!(out.len() + RECORD_HEADER_BYTES, exact);
        out
    })
}

fn check_indexed(record: &RawRecord<'_>) {
    let head = codec::read_head(record);
    let summary = codec::read_summary(record, &mut |text| Domain::parse(text).ok());
    if let Some(summary) = summary {
        let head = head.expect("there is a summary");
        assert_eq!(summary.domains.len(), head.recipients_count as usize);
    }
}

fn check_small(kind: u8, body: &[u8]) {
    let Some(small) = codec::read_small(kind, body) else { return };
    // Long texts are truncated when they are written: only the second decoding is compared.
    let bytes = written_small(&small);
    let cut = codec::read_small(kind, &bytes).expect("what was written");
    assert_eq!(cut.id(), small.id());
    assert_eq!(written_small(&cut), bytes);
    assert_eq!(codec::read_small(kind, &bytes), Some(cut));
}

fn written_small(small: &SmallRecord) -> Vec<u8> {
    let mut out = Vec::new();
    match small {
        SmallRecord::Attempt(attempt) => codec::put_attempt(&mut out, attempt),
        SmallRecord::Settle(settle) => codec::put_settle(&mut out, settle),
        SmallRecord::State(state) => codec::put_state(&mut out, state),
        SmallRecord::Residue(residue) => codec::put_residue(&mut out, residue),
        SmallRecord::Gone(MessageId(id)) => out.extend_from_slice(&id.to_le_bytes()),
    }
    out
}

/// Reads headers and names from arbitrary bytes, headers also with corrected checksums.
///
/// # Panics
/// Panics if a written header or name is read differently.
pub fn check_blocks(bytes: &[u8]) {
    if let Some(header) = BatchHeader::decode(bytes, KEY, 512) {
        assert_eq!(header.encode(KEY, 512)[..8], bytes[..8]);
    }
    if let Some(mut block) = bytes.get(..BATCH_HEADER_BYTES).map(<[u8]>::to_vec) {
        block[..4].copy_from_slice(b"PRBT");
        block[4..6].copy_from_slice(&VERSION.to_le_bytes());
        let at = BATCH_HEADER_BYTES - 4;
        let crc = crc32c::crc32c_append(KEY.seed(512), &block[..at]);
        block[at..].copy_from_slice(&crc.to_le_bytes());
        if let Some(header) = BatchHeader::decode(&block, KEY, 512) {
            let again = header.encode(KEY, 512);
            assert_eq!(BatchHeader::decode(&again, KEY, 512), Some(header));
        }
    }
    let _ = (Header::decode(bytes, KEY), Footer::decode(bytes, KEY, 512));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let name = match Name::parse(text) {
            Name::Segment(key) => key.name(),
            Name::Spare(generation) => name::spare_name(generation),
            Name::Unfinished(generation) => name::unfinished_name(generation),
            Name::Damaged(key) => name::damaged_name(key),
            Name::Blob(blob) => name::blob_name(blob),
            Name::Other => text.into(),
        };
        assert_eq!(&*name, text);
    }
}

/// A synthetic batch of a segment.
#[derive(Debug, Default)]
pub struct MadeBatch {
    /// It is an index, with records to match.
    pub is_index: bool,
    /// Deviation of the numbers in its header.
    pub skew: u64,
    /// Kind, whether it begins a group, and body.
    pub records: Vec<(u8, bool, Vec<u8>)>,
}

/// A segment file with valid checksums and arbitrary records.
#[must_use]
pub fn segment(generation: u32, batches: &[MadeBatch], has_footer: bool) -> (String, Vec<u8>) {
    let key = SegmentKey { generation, ..KEY };
    let marks = Marks { batch: 1, position: 1, sequence: 1, blob: 1 };
    let header = Header {
        version: VERSION,
        node: 7,
        log: 3,
        registered: false,
        first_offset: SECTOR_BYTES,
        previous: SegmentEnd { generation: generation.saturating_sub(1), end: 0 },
        marks,
    };
    let mut file = header.encode(key).to_vec();
    let mut last_index = 0;
    for (number, batch) in (1_u64..).zip(batches) {
        let offset = file.len() as u64;
        let mut out = WriteBuffer::default();
        let mut builder = BatchBuilder::new(&mut out, key, offset);
        for (kind, first, body) in &batch.records {
            let start = builder.begin(&mut out);
            out.small.extend_from_slice(body);
            builder.end(&mut out, start, *kind, *first, &[]);
        }
        let header = BatchHeader {
            node: 7,
            log: 3,
            is_index: batch.is_index,
            sequence: u64::from(generation) * 100 + number,
            position: number.wrapping_add(batch.skew),
            synced_offset: offset,
            next_sequence: batch.skew,
            next_blob: batch.skew,
            previous_index: last_index,
            ..BatchHeader::default()
        };
        builder.finish(&mut out, header, SECTOR_BYTES);
        last_index = if batch.is_index { offset } else { last_index };
        out.mark();
        for part in &out.parts {
            match part {
                BufferPart::Small(from, to) => file.extend_from_slice(&out.small[*from..*to]),
                BufferPart::Large(piece) => file.extend_from_slice(piece),
            }
        }
    }
    let end = file.len() as u64;
    let footer = Footer { end, index_offset: last_index };
    let length = end + SECTOR_BYTES;
    file.resize(length as usize, 0);
    if has_footer && last_index != 0 {
        file[end as usize..].copy_from_slice(&footer.encode(key, end));
    }
    (key.name().to_string(), file)
}

/// Start of the last write to a segment file that has a batch with a valid header, if any. The write includes the
/// unsynced parts before the batch: the segment's header or an index batch.
#[must_use]
pub fn last_write(name: &str, content: &[u8]) -> Option<u64> {
    let Name::Segment(key) = Name::parse(name) else { return None };
    let offsets = (0..content.len() as u64).step_by(SECTOR_BYTES as usize);
    let batch = |offset: u64| {
        let bytes = &content[offset as usize..];
        BatchHeader::decode(bytes, key, offset).filter(|header| !header.is_index)
    };
    offsets.filter_map(batch).last().map(|header| header.synced_offset)
}
