//! Records as bytes. Numbers are little-endian; lengths inside a record are LEB128.

mod accept;
mod envelope;
mod field;
mod frame;
mod indexed;
mod length;
mod small;

pub(crate) use accept::{envelope_and_meta_bytes, put_accept, read_loaded};
pub(crate) use field::cut;
#[cfg(feature = "planted")]
pub(crate) use frame::read_torn_record;
pub(crate) use frame::{
    FLAG_FIRST, RECORD_HEADER_BYTES, RawRecord, finish_record, kind, read_record,
};
pub(crate) use indexed::{
    AcceptHead, IndexSource, Summary, index_source, put_indexed, read_head, read_summary,
};
pub(crate) use length::{indexed_bytes_max, record_bytes, residue_bytes_max, retried_bytes_max};
pub(crate) use small::{
    Residue, Retry, SmallRecord, put_attempt, put_residue, put_settle, put_state, read_small,
};
