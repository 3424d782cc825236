//! A constant database: a file that is written once, and read a piece at a time. To change it, write a new file and
//! replace the old one.
//!
//! ```text
//! header | records, in the order of their source | nothing, up to the next 64 | index
//! ```
//!
//! The index is a hash table of buckets, a cache line each, so that a lookup reads two positions of the file: a bucket
//! and the record that it names. Every bucket and every record has a checksum that includes the file's salt and its
//! position. A lookup therefore returns correct data, or reports that the file is damaged.
//!
//! Nothing here opens a file. The writer is given two writable files ([`DatabaseWriter`]), the reader a readable one
//! ([`Database`], [`DatabaseBytes`]).

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
