//! Records as bytes. Numbers are little-endian; lengths inside a record are LEB128.

use crate::record::{Accept, Attempt, BlobId, Body, Meta, Record, Settle, SettleKind, State};
use crate::request::{Loaded, LoadedBody};
use crate::segment::{SegmentKey, u16_at, u32_at, u64_at};
use bytes::Bytes;
use mail::Wall;
use mail::{BodyType, ContentFacts, Domain, Envelope, Mailbox, MessageId, Notify, Recipient, Ret};
use std::sync::Arc;

/// Length (u32), kind (u8), flags (u8), two zero bytes, CRC-32C (u32) of these and the rest.
pub(crate) const RECORD_HEADER_BYTES: usize = 12;
/// Id, time, body bytes, dot lines, longest line, flags, recipients, three lengths.
const ACCEPT_FIXED_BYTES: usize = 8 + 8 + 8 + 8 + 4 + 4 + 4 + 4 + 4 + 4;
const BLOB_BYTES: usize = 16;
/// Reasons, hold reasons and route overrides are cut here.
const TEXT_BYTES_MAX: usize = 512;
/// No legal record is anywhere near.
pub(crate) const RECIPIENTS_MAX: usize = u16::MAX as usize;

/// Kinds of record on disk.
pub(crate) mod kind {
    /// A message was accepted.
    pub(crate) const ACCEPT: u8 = 1;
    /// Recipients were tried.
    pub(crate) const ATTEMPT: u8 = 2;
    /// Recipients are done with.
    pub(crate) const SETTLE: u8 = 3;
    /// Hold, next try, route override, delay notice.
    pub(crate) const STATE: u8 = 4;
    /// An accept that compaction moved here; what it says replaces what was said before.
    pub(crate) const COPY: u8 = 5;
    /// All that is known of a message beside its accept.
    pub(crate) const RESIDUE: u8 = 6;
    /// A message is settled; what compaction leaves of its settles.
    pub(crate) const GONE: u8 = 7;
    /// In index batches: an accept or copy, without its content.
    pub(crate) const INDEXED: u8 = 8;
}

/// The record begins a group: what one submit made durable together.
pub(crate) const FLAG_FIRST: u8 = 1;

const HAS_8BIT: u32 = 1;
const HAS_NUL: u32 = 2;
const ENDS_WITH_CRLF: u32 = 4;
const HAS_BLOB: u32 = 8;
const NULL_PATH: u32 = 16;
const COPIED: u32 = 32;

/// Retry state of one recipient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    pub attempts: u16,
    pub next_try: Option<Wall>,
}

/// Everything known of a message beside its accept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Residue {
    pub id: MessageId0,
    /// Indices that are open, ascending.
    pub open: Vec<u32>,
    /// Of all recipients but those in `retries`.
    pub retry: Retry,
    pub retries: Vec<(u32, Retry)>,
    pub hold: Option<Box<str>>,
    pub route_override: Option<Box<str>>,
    pub delay_notice_sent: bool,
    pub reason: Option<Box<str>>,
}

/// A message id as a bare number, so that `Residue` can be `Default`.
pub(crate) type MessageId0 = u64;

/// A record without content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SmallRecord {
    Attempt(Attempt),
    Settle(Settle),
    State(State),
    Residue(Residue),
    Gone(MessageId),
}

impl SmallRecord {
    pub(crate) fn id(&self) -> MessageId {
        match self {
            SmallRecord::Attempt(attempt) => attempt.id,
            SmallRecord::Settle(settle) => settle.id,
            SmallRecord::State(state) => state.id,
            SmallRecord::Residue(residue) => MessageId(residue.id),
            SmallRecord::Gone(id) => *id,
        }
    }
}

/// What recovery needs first of an accept record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptHead {
    pub id: MessageId,
    pub recipients_count: u32,
    pub blob: Option<BlobId>,
    /// Moved by compaction.
    pub copied: bool,
    /// Where the record is.
    pub offset: u64,
    /// Its length, header included.
    pub length: u32,
}

/// What recovery hands to the queue of an accept record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub received_at: Wall,
    pub meta: Meta,
    pub reverse_path_is_null: bool,
    pub body_bytes: u64,
    /// One for each recipient.
    pub domains: Vec<Domain>,
}

// ---- writing ----------------------------------------------------------------------------------

pub(crate) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn varint_bytes(n: usize) -> usize {
    (64 - (n as u64 | 1).leading_zeros() as usize).div_ceil(7)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn text_bytes(text: &str) -> usize {
    varint_bytes(text.len()) + text.len()
}

/// Length plus one, or zero for none.
fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    put_varint(out, text.map_or(0, |text| text.len() as u64 + 1));
    out.extend_from_slice(text.unwrap_or("").as_bytes());
}

fn optional_bytes(text: Option<&str>) -> usize {
    text.map_or(1, |text| varint_bytes(text.len() + 1) + text.len())
}

/// Cuts at a character boundary.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

fn put_envelope(out: &mut Vec<u8>, envelope: &Envelope) {
    let ret = match envelope.ret {
        None => 0,
        Some(Ret::Full) => 1,
        Some(Ret::Headers) => 2,
    };
    let eight_bit = u8::from(envelope.body == BodyType::EightBit);
    out.push(eight_bit | u8::from(envelope.smtputf8) << 1 | ret << 2);
    put_optional(out, envelope.reverse_path.as_ref().map(Mailbox::as_str));
    put_optional(out, envelope.envid.as_deref());
    for recipient in &envelope.recipients {
        out.push(recipient.notify.0);
        put_text(out, recipient.mailbox.as_str());
        put_optional(out, recipient.orcpt.as_deref());
    }
}

fn envelope_bytes(envelope: &Envelope) -> usize {
    let fixed = 1
        + optional_bytes(envelope.reverse_path.as_ref().map(Mailbox::as_str))
        + optional_bytes(envelope.envid.as_deref());
    envelope.recipients.iter().fold(fixed, |sum, recipient| {
        sum + 1
            + text_bytes(recipient.mailbox.as_str())
            + optional_bytes(recipient.orcpt.as_deref())
    })
}

fn put_meta(out: &mut Vec<u8>, meta: &Meta) {
    for (tag, value) in &meta.fields {
        out.extend_from_slice(&tag.to_le_bytes());
        put_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

fn meta_bytes(meta: &Meta) -> usize {
    meta.fields.iter().map(|(_, value)| 2 + varint_bytes(value.len()) + value.len()).sum()
}

/// The length of a record on disk, exact for an accept, an upper bound for the others.
pub(crate) fn record_bytes(record: &Record) -> usize {
    RECORD_HEADER_BYTES
        + match record {
            Record::Accept(accept) => {
                let body = match &accept.body {
                    Body::Memory(pieces) => pieces.iter().map(Bytes::len).sum(),
                    Body::Blob { .. } => BLOB_BYTES,
                };
                ACCEPT_FIXED_BYTES
                    + envelope_bytes(&accept.envelope)
                    + meta_bytes(&accept.meta)
                    + accept.prefix.len()
                    + body
            }
            Record::Attempt(attempt) => {
                32 + attempt.reason.len().min(TEXT_BYTES_MAX) + attempt.recipients.len() * 5
            }
            Record::Settle(settle) => 26 + settle.recipients.len() * 6,
            Record::State(state) => {
                let texts =
                    u8::from(state.hold.is_some()) + u8::from(state.route_override.is_some());
                32 + usize::from(texts) * (TEXT_BYTES_MAX + 4)
            }
        }
}

/// No less than what a record adds to the index.
pub(crate) fn indexed_bytes_max(record: &Record) -> usize {
    match record {
        Record::Accept(accept) => {
            RECORD_HEADER_BYTES
                + INDEXED_FIXED_BYTES
                + BLOB_BYTES
                + envelope_bytes(&accept.envelope)
                + meta_bytes(&accept.meta)
        }
        small => record_bytes(small),
    }
}

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

pub(crate) fn put_attempt(out: &mut Vec<u8>, attempt: &Attempt) {
    out.extend_from_slice(&attempt.id.0.to_le_bytes());
    out.extend_from_slice(&attempt.at.0.to_le_bytes());
    out.extend_from_slice(&attempt.next_try.0.to_le_bytes());
    out.extend_from_slice(&attempt.attempts.to_le_bytes());
    put_text(out, cut(&attempt.reason));
    for &index in &attempt.recipients {
        put_varint(out, u64::from(index));
    }
}

pub(crate) fn put_settle(out: &mut Vec<u8>, settle: &Settle) {
    out.extend_from_slice(&settle.id.0.to_le_bytes());
    out.extend_from_slice(&settle.at.0.to_le_bytes());
    for &(index, how) in &settle.recipients {
        put_varint(out, u64::from(index));
        out.push(match how {
            SettleKind::Delivered => 1,
            SettleKind::Relayed => 2,
            SettleKind::Failed => 3,
            SettleKind::Expired => 4,
            SettleKind::Removed => 5,
        });
    }
}

pub(crate) fn put_state(out: &mut Vec<u8>, state: &State) {
    out.extend_from_slice(&state.id.0.to_le_bytes());
    let notice = state.delay_notice_sent.map_or(0, |sent| 8 | u8::from(sent) << 4);
    out.push(
        u8::from(state.hold.is_some())
            | u8::from(state.next_try.is_some()) << 1
            | u8::from(state.route_override.is_some()) << 2
            | notice,
    );
    if let Some(hold) = &state.hold {
        put_optional(out, hold.as_deref().map(cut));
    }
    if let Some(next_try) = state.next_try {
        out.extend_from_slice(&next_try.0.to_le_bytes());
    }
    if let Some(route) = &state.route_override {
        put_optional(out, route.as_deref().map(cut));
    }
}

fn put_retry(out: &mut Vec<u8>, retry: Retry) {
    out.extend_from_slice(&retry.attempts.to_le_bytes());
    put_varint(out, retry.next_try.map_or(0, |wall| wall.0.saturating_add(1)));
}

/// No less than what [`put_residue`] writes, with the record header.
pub(crate) fn residue_bytes_max(residue: &Residue) -> usize {
    RECORD_HEADER_BYTES
        + 64
        + residue.open.len() * 5
        + residue.retries.len() * 17
        + [&residue.hold, &residue.route_override, &residue.reason]
            .into_iter()
            .flatten()
            .map(|text| text.len() + 4)
            .sum::<usize>()
}

/// How much longer what is known of a message is after an attempt, at most.
pub(crate) fn retried_bytes_max(attempt: &Attempt) -> usize {
    attempt.reason.len().min(TEXT_BYTES_MAX) + 4 + attempt.recipients.len() * 17
}

pub(crate) fn put_residue(out: &mut Vec<u8>, residue: &Residue) {
    out.extend_from_slice(&residue.id.to_le_bytes());
    out.push(u8::from(residue.delay_notice_sent));
    put_retry(out, residue.retry);
    put_optional(out, residue.hold.as_deref().map(cut));
    put_optional(out, residue.route_override.as_deref().map(cut));
    put_optional(out, residue.reason.as_deref().map(cut));
    put_varint(out, residue.retries.len() as u64);
    for &(index, retry) in &residue.retries {
        put_varint(out, u64::from(index));
        put_retry(out, retry);
    }
    // Gaps between open indices: one byte each, nearly always.
    let mut next = 0;
    for &index in &residue.open {
        put_varint(out, u64::from(index.saturating_sub(next)));
        next = index.saturating_add(1);
    }
}

const INDEXED_FIXED_BYTES: usize = 8 + 8 + 8 + 8 + 4 + 4 + 4 + 4;

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
    out.extend_from_slice(summary.meta);
    let mut last = None;
    for &domain in &summary.domains {
        // A domain is written as given; zero stands for "as before".
        if last == Some(domain) {
            out.push(0);
        } else {
            put_optional(out, Some(domain));
            last = Some(domain);
        }
    }
}

/// What [`put_indexed`] takes from an encoded accept.
#[derive(Debug)]
pub(crate) struct IndexSource<'a> {
    pub received_at: u64,
    pub body_bytes: u64,
    pub null_path: bool,
    pub meta: &'a [u8],
    pub domains: smallvec::SmallVec<[&'a str; 4]>,
}

/// Fills in the header of a record whose bytes begin at `start` of `out` and lie at `offset` of the
/// segment, the `tail` not included in `out`. Returns the checksum.
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

// ---- reading ----------------------------------------------------------------------------------

/// Takes values off the front; `None` when there are too few bytes or they make no sense.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        u16_at(self.take(2)?, 0)
    }

    fn u32(&mut self) -> Option<u32> {
        u32_at(self.take(4)?, 0)
    }

    fn u64(&mut self) -> Option<u64> {
        u64_at(self.take(8)?, 0)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    fn index(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// The outer `None` is an error, the inner one an absent text.
    fn optional(&mut self) -> Option<Option<&'a str>> {
        match self.varint()?.checked_sub(1) {
            None => Some(None),
            Some(length) => {
                let bytes = self.take(usize::try_from(length).ok()?)?;
                std::str::from_utf8(bytes).ok().map(Some)
            }
        }
    }
}

/// A record whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    pub kind: u8,
    pub first: bool,
    /// In the segment.
    pub offset: u64,
    /// Header included.
    pub length: u32,
    pub crc: u32,
    /// Without header.
    pub body: &'a [u8],
}

/// Reads the record at the front of `bytes`, which lies at `offset` of the segment. `Err` has the
/// record's length when only the checksum is wrong, so that the next may be tried.
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

/// A planted fault: as [`read_record`], whatever the checksum says.
#[cfg(feature = "planted")]
pub(crate) fn read_torn_record(
    bytes: &[u8],
    key: SegmentKey,
    offset: u64,
) -> Option<RawRecord<'_>> {
    let length = u32_at(bytes, 0)? as usize;
    raw_record(bytes.get(..length)?, key, offset)
}

/// The parts of an accept record's body.
#[derive(Debug)]
struct AcceptParts<'a> {
    id: MessageId,
    received_at: Wall,
    facts: ContentFacts,
    flags: u32,
    recipients_count: u32,
    blob: Option<(BlobId, u64)>,
    envelope: &'a [u8],
    meta: &'a [u8],
    /// Where the prefix begins and ends within the record body; the inline body follows.
    prefix: (usize, usize),
}

fn read_parts(body: &[u8]) -> Option<AcceptParts<'_>> {
    let mut r = Reader { rest: body };
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

/// The head of an accept, copy or indexed record; `None` when it is malformed.
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

fn read_indexed(body: &[u8]) -> Option<(AcceptHead, IndexedParts<'_>)> {
    let mut r = Reader { rest: body };
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

#[derive(Debug)]
struct IndexedParts<'a> {
    received_at: Wall,
    body_bytes: u64,
    null_path: bool,
    meta: &'a [u8],
    domains: &'a [u8],
}

/// What is handed to the queue of an accept, copy or indexed record. `intern` turns the text after
/// the `@` into a domain.
pub(crate) fn read_summary(
    record: &RawRecord<'_>,
    intern: &mut dyn FnMut(&str) -> Option<Domain>,
) -> Option<Summary> {
    if record.kind != kind::INDEXED {
        let parts = read_parts(record.body)?;
        let mut domains = Vec::with_capacity(parts.recipients_count as usize);
        for domain in envelope_domains(parts.envelope, parts.recipients_count)? {
            domains.push(intern(domain)?);
        }
        return Some(Summary {
            received_at: parts.received_at,
            meta: read_meta(parts.meta)?,
            reverse_path_is_null: parts.flags & NULL_PATH != 0,
            body_bytes: parts.facts.body_bytes,
            domains,
        });
    }
    let (head, parts) = read_indexed(record.body)?;
    let mut domains: Vec<Domain> = Vec::with_capacity(head.recipients_count as usize);
    let mut r = Reader { rest: parts.domains };
    for _ in 0..head.recipients_count {
        let domain = match r.optional()? {
            Some(text) => intern(text)?,
            None => domains.last()?.clone(),
        };
        domains.push(domain);
    }
    Some(Summary {
        received_at: parts.received_at,
        meta: read_meta(parts.meta)?,
        reverse_path_is_null: parts.null_path,
        body_bytes: parts.body_bytes,
        domains,
    })
}

/// What the index says of an accept or copy record that was read (or just written).
pub(crate) fn index_source(body: &[u8]) -> Option<IndexSource<'_>> {
    let parts = read_parts(body)?;
    Some(IndexSource {
        received_at: parts.received_at.0,
        body_bytes: parts.facts.body_bytes,
        null_path: parts.flags & NULL_PATH != 0,
        meta: parts.meta,
        domains: envelope_domains(parts.envelope, parts.recipients_count)?,
    })
}

/// The text after the last `@` of each recipient, without building the mailboxes.
fn envelope_domains(envelope: &[u8], count: u32) -> Option<smallvec::SmallVec<[&str; 4]>> {
    let mut r = Reader { rest: envelope };
    r.u8()?;
    r.optional()?;
    r.optional()?;
    let mut domains = smallvec::SmallVec::new();
    for _ in 0..count {
        r.u8()?;
        let mailbox = r.text()?;
        // No domain or address literal contains an `@`.
        domains.push(mailbox.rsplit_once('@').map_or("", |(_, domain)| domain));
        r.optional()?;
    }
    Some(domains)
}

fn read_envelope(bytes: &[u8], count: u32) -> Option<Envelope> {
    let mut r = Reader { rest: bytes };
    let flags = r.u8()?;
    let mailbox = |text: &str| Mailbox::parse(text, true).ok();
    let reverse_path = match r.optional()? {
        Some(text) => Some(mailbox(text)?),
        None => None,
    };
    let envid = r.optional()?.map(Box::from);
    let mut recipients = Vec::with_capacity((count as usize).min(bytes.len()));
    for _ in 0..count {
        let notify = Notify(r.u8()?);
        let mailbox = mailbox(r.text()?)?;
        recipients.push(Recipient { mailbox, notify, orcpt: r.optional()?.map(Box::from) });
    }
    Some(Envelope {
        reverse_path,
        recipients,
        body: if flags & 1 != 0 { BodyType::EightBit } else { BodyType::SevenBit },
        smtputf8: flags & 2 != 0,
        ret: match flags >> 2 & 3 {
            1 => Some(Ret::Full),
            2 => Some(Ret::Headers),
            _ => None,
        },
        envid,
    })
}

fn read_meta(bytes: &[u8]) -> Option<Meta> {
    let mut r = Reader { rest: bytes };
    let mut fields = Vec::new();
    while !r.rest.is_empty() {
        let tag = r.u16()?;
        let length = usize::try_from(r.varint()?).ok()?;
        fields.push((tag, Bytes::copy_from_slice(r.take(length)?)));
    }
    Some(Meta { fields })
}

/// A whole message from the body of its record; the content shares `body`'s memory.
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
        // The caller knows, who has the index.
        last_reason: None,
    })
}

fn read_retry(r: &mut Reader<'_>) -> Option<Retry> {
    let attempts = r.u16()?;
    Some(Retry { attempts, next_try: r.varint()?.checked_sub(1).map(Wall) })
}

/// A record without content; `None` when it is malformed or of an unknown kind.
pub(crate) fn read_small(kind: u8, body: &[u8]) -> Option<SmallRecord> {
    let mut r = Reader { rest: body };
    let id = MessageId(r.u64()?);
    Some(match kind {
        kind::ATTEMPT => {
            let (at, next_try, attempts) = (Wall(r.u64()?), Wall(r.u64()?), r.u16()?);
            let reason = r.text()?.into();
            let mut recipients = Vec::new();
            while !r.rest.is_empty() {
                recipients.push(r.index()?);
            }
            SmallRecord::Attempt(Attempt { id, at, recipients, attempts, next_try, reason })
        }
        kind::SETTLE => {
            let at = Wall(r.u64()?);
            let mut recipients = Vec::new();
            while !r.rest.is_empty() {
                recipients.push((r.index()?, read_settle_kind(r.u8()?)?));
            }
            SmallRecord::Settle(Settle { id, at, recipients })
        }
        kind::STATE => SmallRecord::State(read_state(id, &mut r)?),
        kind::RESIDUE => SmallRecord::Residue(read_residue(id, &mut r)?),
        kind::GONE => SmallRecord::Gone(id),
        _ => return None,
    })
}

fn read_settle_kind(byte: u8) -> Option<SettleKind> {
    Some(match byte {
        1 => SettleKind::Delivered,
        2 => SettleKind::Relayed,
        3 => SettleKind::Failed,
        4 => SettleKind::Expired,
        5 => SettleKind::Removed,
        _ => return None,
    })
}

fn read_state(id: MessageId, r: &mut Reader<'_>) -> Option<State> {
    let flags = r.u8()?;
    let hold = if flags & 1 != 0 { Some(r.optional()?.map(Box::from)) } else { None };
    let next_try = if flags & 2 != 0 { Some(Wall(r.u64()?)) } else { None };
    let route_override = if flags & 4 != 0 { Some(r.optional()?.map(Box::from)) } else { None };
    let delay_notice_sent = (flags & 8 != 0).then_some(flags & 16 != 0);
    Some(State { id, hold, next_try, route_override, delay_notice_sent })
}

fn read_residue(id: MessageId, r: &mut Reader<'_>) -> Option<Residue> {
    let delay_notice_sent = r.u8()? != 0;
    let retry = read_retry(r)?;
    let hold = r.optional()?.map(Box::from);
    let route_override = r.optional()?.map(Box::from);
    let reason = r.optional()?.map(Box::from);
    let mut retries = Vec::new();
    for _ in 0..r.varint()? {
        retries.push((r.index()?, read_retry(r)?));
    }
    let mut open = Vec::new();
    let mut next = 0_u32;
    while !r.rest.is_empty() {
        let index = next.checked_add(r.index()?)?;
        open.push(index);
        next = index.checked_add(1)?;
    }
    Some(Residue {
        id: id.0,
        open,
        retry,
        retries,
        hold,
        route_override,
        delay_notice_sent,
        reason,
    })
}

/// Length of envelope and meta of an accept record, given its body.
pub(crate) fn envelope_and_meta_bytes(body: &[u8]) -> usize {
    read_parts(body).map_or(0, |parts| parts.envelope.len() + parts.meta.len())
}
