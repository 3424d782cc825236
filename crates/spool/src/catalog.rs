//! Content of the next index batch: the records since the last one, without message content.

use crate::batch::{BATCH_HEADER_BYTES, BatchBuilder, BatchHeader};
use crate::buffer::WriteBuffer;
use crate::codec::{AcceptHead, IndexSource, RECORD_HEADER_BYTES, kind, put_indexed};
use crate::index::Index;
use crate::name::SegmentKey;

/// Records that wait to be indexed.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    entries: Vec<CatalogEntry>,
    /// Concatenated record bodies.
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct CatalogEntry {
    id: u64,
    kind: u8,
    /// An accept that was never compacted: no other copy exists.
    original: bool,
    end: usize,
}

impl Catalog {
    /// Notes an accept or a copy.
    pub(crate) fn add_accept(&mut self, head: &AcceptHead, source: &IndexSource<'_>) {
        put_indexed(&mut self.bytes, head, source);
        self.push(head.id.0, kind::INDEXED, !head.copied);
    }

    /// Adds a record without content, by its body.
    pub(crate) fn add_small(&mut self, id: u64, kind: u8, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.push(id, kind, false);
    }

    fn push(&mut self, id: u64, kind: u8, original: bool) {
        self.entries.push(CatalogEntry { id, kind, original, end: self.bytes.len() });
    }

    /// Upper bound of the length of an index batch over the noted records, without padding.
    pub(crate) fn bytes_max(&self) -> u64 {
        (BATCH_HEADER_BYTES + self.bytes.len() + self.entries.len() * RECORD_HEADER_BYTES) as u64
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    /// Writes the index batch at `offset`, clears the catalog and returns the batch's length.
    ///
    /// Messages accepted and settled since the last index batch are left out, which under steady traffic is nearly all.
    /// This is sound: all their records lie before this batch in one segment, and were made durable before it.
    pub(crate) fn write(
        &mut self,
        out: &mut WriteBuffer,
        index: &Index,
        at: (SegmentKey, u64),
        header: BatchHeader,
        block: u64,
    ) -> u64 {
        let mut vanished: Vec<u64> = self
            .entries
            .iter()
            .filter(|entry| entry.original && index.get(entry.id).is_none())
            .map(|entry| entry.id)
            .collect();
        vanished.sort_unstable();
        let mut builder = BatchBuilder::new(out, at.0, at.1);
        let mut from = 0;
        for entry in &self.entries {
            let body = self.bytes.get(from..entry.end).unwrap_or(&[]);
            from = entry.end;
            if vanished.binary_search(&entry.id).is_ok() {
                continue;
            }
            let start = builder.begin(out);
            out.small.extend_from_slice(body);
            builder.end(out, start, entry.kind, true, &[]);
        }
        self.clear();
        builder.finish(out, header, block)
    }
}
