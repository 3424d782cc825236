//! The durable log: append-only segments, group commit, recovery, compaction. Sans-IO: what is
//! submitted turns into [`Io`] that a driver performs on a [`Disk`] and reports back.

pub mod disk;
pub mod record;

pub use disk::{Disk, Io, IoDone, IoTicket};
pub use record::{Accept, Attempt, BlobId, Body, Meta, Record, Settle, SettleKind, State};
