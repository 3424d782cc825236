//! A constant database: a file that is written once, and read a piece at a time. To change it is to
//! write another and put it in its place.
//!
//! ```text
//! header | records, in the order of their source | nothing, up to the next 64 | index
//! ```
//!
//! The index is a hash table of buckets, a cache line each, so that a lookup touches two places of the
//! file: a bucket and the record that it names. Every bucket and every record has a checksum that knows
//! the file and the place it belongs to: whatever a lookup has read is right, or the lookup says that
//! the file is damaged.
//!
//! Nothing here opens a file. The writer is given two that it may write ([`DatabaseWriter`]), the reader one that it
//! may read ([`Database`], [`DatabaseBytes`]).

mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod reader;
mod record;
mod spill;
mod writer;

pub use format::{
    DatabaseOptions, KEY_BYTES_MAX, Unusable, VALUE_BYTES_MAX, WriteError, is_database,
};
pub use reader::{Database, DatabaseBytes, Unread};
pub use writer::{DatabaseSummary, DatabaseWriter, Duplicate};
