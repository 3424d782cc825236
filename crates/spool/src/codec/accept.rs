//! Accept records: messages as received.

use super::envelope::{
    envelope_bytes, meta_bytes, put_envelope, put_meta, read_envelope, read_meta,
};
use super::field::FieldReader;
use crate::record::{Accept, BlobId, Body, RECIPIENTS_MAX};
use crate::request::{Loaded, LoadedBody};
use bytes::Bytes;
use mail::{ContentFacts, MessageId, Wall};
use std::sync::Arc;

/// Id, time, body bytes, dot lines, longest line, flags, recipients, three lengths.
pub(super) const ACCEPT_FIXED_BYTES: usize = 8 + 8 + 8 + 8 + 4 + 4 + 4 + 4 + 4 + 4;

/// Number and length of a blob.
pub(super) const BLOB_BYTES: usize = 16;

const HAS_8BIT: u32 = 1;
const HAS_NUL: u32 = 2;
const ENDS_WITH_CRLF: u32 = 4;
pub(super) const HAS_BLOB: u32 = 8;
pub(super) const NULL_PATH: u32 = 16;

fn facts_flags(facts: &ContentFacts) -> u32 {
    let mut flags = 0;
    for (on, flag) in [
        (facts.has_8bit, HAS_8BIT),
        (facts.has_nul, HAS_NUL),
        (facts.ends_with_crlf, ENDS_WITH_CRLF),
    ] {
        flags |= if on { flag } else { 0 };
    }
    flags
}

/// Appends an accept's record body up to, not including, an inline body. `false` when a part is
/// too long for the format.
pub(crate) fn put_accept(out: &mut Vec<u8>, accept: &Accept) -> bool {
    let envelope = u32::try_from(envelope_bytes(&accept.envelope));
    let meta = u32::try_from(meta_bytes(&accept.meta));
    let prefix = u32::try_from(accept.prefix.len());
    let (Ok(envelope), Ok(meta), Ok(prefix)) = (envelope, meta, prefix) else { return false };
    if accept.envelope.recipients.len() > RECIPIENTS_MAX || accept.envelope.recipients.is_empty() {
        return false;
    }
    let mut flags = facts_flags(&accept.facts);
    if matches!(accept.body, Body::Blob { .. }) {
        flags |= HAS_BLOB;
    }
    if accept.envelope.reverse_path.is_none() {
        flags |= NULL_PATH;
    }
    out.extend_from_slice(&accept.id.0.to_le_bytes());
    out.extend_from_slice(&accept.received_at.0.to_le_bytes());
    out.extend_from_slice(&accept.facts.body_bytes.to_le_bytes());
    out.extend_from_slice(&accept.facts.dot_lines.to_le_bytes());
    out.extend_from_slice(&accept.facts.longest_line.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(accept.envelope.recipients.len() as u32).to_le_bytes());
    out.extend_from_slice(&envelope.to_le_bytes());
    out.extend_from_slice(&meta.to_le_bytes());
    out.extend_from_slice(&prefix.to_le_bytes());
    if let Body::Blob { blob, body_bytes } = &accept.body {
        out.extend_from_slice(&blob.0.to_le_bytes());
        out.extend_from_slice(&body_bytes.to_le_bytes());
    }
    put_envelope(out, &accept.envelope);
    put_meta(out, &accept.meta);
    out.extend_from_slice(&accept.prefix);
    true
}

/// The parts of an accept record's body.
#[derive(Debug)]
pub(super) struct AcceptParts<'a> {
    pub id: MessageId,
    pub received_at: Wall,
    pub facts: ContentFacts,
    pub flags: u32,
    pub recipients_count: u32,
    pub blob: Option<(BlobId, u64)>,
    pub envelope: &'a [u8],
    pub meta: &'a [u8],
    /// Start and end of the prefix within the record body; the inline body follows.
    pub prefix: (usize, usize),
}

pub(super) fn read_parts(body: &[u8]) -> Option<AcceptParts<'_>> {
    let mut r = FieldReader { rest: body };
    let (id, received_at) = (MessageId(r.u64()?), Wall(r.u64()?));
    let (body_bytes, dot_lines, longest_line) = (r.u64()?, r.u64()?, r.u32()?);
    let (flags, recipients_count) = (r.u32()?, r.u32()?);
    let lengths = (r.u32()? as usize, r.u32()? as usize, r.u32()? as usize);
    let blob = if flags & HAS_BLOB != 0 { Some((BlobId(r.u64()?), r.u64()?)) } else { None };
    let (envelope, meta) = (r.take(lengths.0)?, r.take(lengths.1)?);
    let prefix_start = body.len() - r.rest.len();
    r.take(lengths.2)?;
    if recipients_count == 0 || recipients_count as usize > RECIPIENTS_MAX {
        return None;
    }
    let facts = ContentFacts {
        body_bytes,
        has_8bit: flags & HAS_8BIT != 0,
        has_nul: flags & HAS_NUL != 0,
        longest_line,
        ends_with_crlf: flags & ENDS_WITH_CRLF != 0,
        dot_lines,
    };
    let prefix = (prefix_start, prefix_start + lengths.2);
    Some(AcceptParts {
        id,
        received_at,
        facts,
        flags,
        recipients_count,
        blob,
        envelope,
        meta,
        prefix,
    })
}

/// Decodes a whole message from the body of its record; its content shares the memory of `body`.
pub(crate) fn read_loaded(body: &Bytes) -> Option<Loaded> {
    let parts = read_parts(body)?;
    let envelope = read_envelope(parts.envelope, parts.recipients_count)?;
    let content = match parts.blob {
        Some((blob, body_bytes)) => LoadedBody::Blob { blob, body_bytes },
        None => LoadedBody::Memory(body.slice(parts.prefix.1..)),
    };
    Some(Loaded {
        id: parts.id,
        received_at: parts.received_at,
        envelope: Arc::new(envelope),
        meta: read_meta(parts.meta)?,
        prefix: body.slice(parts.prefix.0..parts.prefix.1),
        body: content,
        facts: parts.facts,
        // Filled in by the caller from the index.
        last_reason: None,
        overrides: None,
    })
}

/// Length of envelope and meta in the body of an accept record.
pub(crate) fn envelope_and_meta_bytes(body: &[u8]) -> usize {
    read_parts(body).map_or(0, |parts| parts.envelope.len() + parts.meta.len())
}
