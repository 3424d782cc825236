//! Accept records in index batches, without content, and the header fields common to both forms.

use super::accept::{HAS_BLOB, NULL_PATH, read_parts};
use super::envelope::{envelope_domains, meta_of_queue, read_meta};
use super::field::{FieldReader, put_optional};
use super::frame::{RawRecord, kind};
use crate::record::{BlobId, Meta, RECIPIENTS_MAX};
use mail::{Domain, MessageId, Wall};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Id, time, body bytes, offset, length, flags, recipients, length of the meta.
pub(super) const INDEXED_FIXED_BYTES: usize = 8 + 8 + 8 + 8 + 4 + 4 + 4 + 4;

/// The accept record was moved here by compaction.
const COPIED: u32 = 32;

/// The fields of an accept record that recovery needs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptHead {
    pub id: MessageId,
    pub recipients_count: u32,
    pub blob: Option<BlobId>,
    /// Moved by compaction.
    pub copied: bool,
    /// Offset of the record.
    pub offset: u64,
    /// Its length, header included.
    pub length: u32,
}

/// The part of an accept record that recovery hands to the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcceptSummary {
    pub received_at: Wall,
    pub meta: Meta,
    pub reverse_path_is_null: bool,
    pub body_bytes: u64,
    /// One for each recipient.
    pub domains: Vec<Domain>,
}

/// Input of [`put_indexed`], taken from an encoded accept.
#[derive(Debug)]
pub(crate) struct IndexSource<'a> {
    pub received_at: u64,
    pub body_bytes: u64,
    pub null_path: bool,
    pub meta: Cow<'a, [u8]>,
    pub domains: SmallVec<[&'a str; 4]>,
}

/// Appends the index's version of an accept record that is (or was read) at `head`.
pub(crate) fn put_indexed(out: &mut Vec<u8>, head: &AcceptHead, summary: &IndexSource<'_>) {
    let mut flags = if summary.null_path { NULL_PATH } else { 0 };
    if head.copied {
        flags |= COPIED;
    }
    if head.blob.is_some() {
        flags |= HAS_BLOB;
    }
    out.extend_from_slice(&head.id.0.to_le_bytes());
    out.extend_from_slice(&summary.received_at.to_le_bytes());
    out.extend_from_slice(&summary.body_bytes.to_le_bytes());
    out.extend_from_slice(&head.offset.to_le_bytes());
    out.extend_from_slice(&head.length.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&head.recipients_count.to_le_bytes());
    out.extend_from_slice(&(summary.meta.len() as u32).to_le_bytes());
    if let Some(blob) = head.blob {
        out.extend_from_slice(&blob.0.to_le_bytes());
    }
    out.extend_from_slice(&summary.meta);
    let mut last = None;
    for &domain in &summary.domains {
        // A domain is written as received; zero repeats the last one.
        if last == Some(domain) {
            out.push(0);
        } else {
            put_optional(out, Some(domain));
            last = Some(domain);
        }
    }
}

#[derive(Debug)]
struct IndexedParts<'a> {
    received_at: Wall,
    body_bytes: u64,
    null_path: bool,
    meta: &'a [u8],
    domains: &'a [u8],
}

fn read_indexed(body: &[u8]) -> Option<(AcceptHead, IndexedParts<'_>)> {
    let mut r = FieldReader { rest: body };
    let (id, received_at) = (MessageId(r.u64()?), Wall(r.u64()?));
    let (body_bytes, offset, length) = (r.u64()?, r.u64()?, r.u32()?);
    let (flags, recipients_count, meta) = (r.u32()?, r.u32()?, r.u32()? as usize);
    let blob = if flags & HAS_BLOB != 0 { Some(BlobId(r.u64()?)) } else { None };
    let copied = flags & COPIED != 0;
    if recipients_count == 0 || recipients_count as usize > RECIPIENTS_MAX {
        return None;
    }
    let head = AcceptHead { id, recipients_count, blob, copied, offset, length };
    let meta = r.take(meta)?;
    let null_path = flags & NULL_PATH != 0;
    Some((head, IndexedParts { received_at, body_bytes, null_path, meta, domains: r.rest }))
}

/// Decodes the head of an accept, copy or indexed record; `None` if malformed.
pub(crate) fn read_head(record: &RawRecord<'_>) -> Option<AcceptHead> {
    if record.kind == kind::INDEXED {
        return read_indexed(record.body).map(|(head, _)| head);
    }
    let parts = read_parts(record.body)?;
    Some(AcceptHead {
        id: parts.id,
        recipients_count: parts.recipients_count,
        blob: parts.blob.map(|(blob, _)| blob),
        copied: record.kind == kind::COPY,
        offset: record.offset,
        length: record.length,
    })
}

/// Reads the summary for the queue from an accept, copy or indexed record. `intern` maps the domain of an address to a
/// shared one.
pub(crate) fn read_summary(
    record: &RawRecord<'_>,
    intern: &mut dyn FnMut(&str) -> Option<Domain>,
) -> Option<AcceptSummary> {
    if record.kind != kind::INDEXED {
        let parts = read_parts(record.body)?;
        let mut domains = Vec::with_capacity(parts.recipients_count as usize);
        for domain in envelope_domains(parts.envelope, parts.recipients_count)? {
            domains.push(intern(domain)?);
        }
        return Some(AcceptSummary {
            received_at: parts.received_at,
            meta: read_meta(&meta_of_queue(parts.meta))?,
            reverse_path_is_null: parts.flags & NULL_PATH != 0,
            body_bytes: parts.facts.body_bytes,
            domains,
        });
    }
    let (head, parts) = read_indexed(record.body)?;
    let mut domains: Vec<Domain> = Vec::with_capacity(head.recipients_count as usize);
    let mut r = FieldReader { rest: parts.domains };
    for _ in 0..head.recipients_count {
        let domain = match r.optional()? {
            Some(text) => intern(text)?,
            None => domains.last()?.clone(),
        };
        domains.push(domain);
    }
    Some(AcceptSummary {
        received_at: parts.received_at,
        meta: read_meta(&meta_of_queue(parts.meta))?,
        reverse_path_is_null: parts.null_path,
        body_bytes: parts.body_bytes,
        domains,
    })
}

/// Returns the index fields of an accept or copy record that was read or just written.
pub(crate) fn index_source(body: &[u8]) -> Option<IndexSource<'_>> {
    let parts = read_parts(body)?;
    Some(IndexSource {
        received_at: parts.received_at.0,
        body_bytes: parts.facts.body_bytes,
        null_path: parts.flags & NULL_PATH != 0,
        meta: meta_of_queue(parts.meta),
        domains: envelope_domains(parts.envelope, parts.recipients_count)?,
    })
}
