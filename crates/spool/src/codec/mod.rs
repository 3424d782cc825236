//! Records as bytes. Numbers are little-endian; lengths inside a record are LEB128.

mod accept;
mod envelope;
mod field;
mod frame;
mod indexed;
mod small;

use crate::record::{Attempt, Body, Record};
use accept::{ACCEPT_FIXED_BYTES, BLOB_BYTES};
pub(crate) use accept::{envelope_and_meta_bytes, put_accept, read_loaded};
use bytes::Bytes;
use envelope::{envelope_bytes, meta_bytes};
use field::TEXT_BYTES_MAX;
pub(crate) use field::cut;
#[cfg(feature = "planted")]
pub(crate) use frame::read_torn_record;
pub(crate) use frame::{
    FLAG_FIRST, RECORD_HEADER_BYTES, RawRecord, finish_record, kind, read_record,
};
use indexed::INDEXED_FIXED_BYTES;
pub(crate) use indexed::{
    AcceptHead, AcceptSummary, IndexSource, index_source, put_indexed, read_head, read_summary,
};
pub(crate) use small::{
    Residue, Retry, SmallRecord, put_attempt, put_residue, put_settle, put_state, read_small,
};

/// The length of a record on disk, exact for an accept and an upper bound for other kinds.
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
                let texts = u8::from(state.hold.is_some()) + u8::from(state.overrides.is_some());
                32 + usize::from(texts) * (TEXT_BYTES_MAX + 4)
            }
        }
}

/// Upper bound of the bytes that a record adds to the index.
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

/// Upper bound of the bytes written by [`super::put_residue`], with the record header.
pub(crate) fn residue_bytes_max(residue: &Residue) -> usize {
    RECORD_HEADER_BYTES
        + 64
        + residue.open.len() * 5
        + residue.retries.len() * 17
        + [&residue.hold, &residue.overrides, &residue.reason]
            .into_iter()
            .flatten()
            .map(|text| text.len() + 4)
            .sum::<usize>()
}

/// Upper bound of the growth of a message's state by an attempt.
pub(crate) fn retried_bytes_max(attempt: &Attempt) -> usize {
    attempt.reason.len().min(TEXT_BYTES_MAX) + 4 + attempt.recipients.len() * 17
}
