//! The durable log: append-only segments, group commit, recovery, compaction. Sans-IO: what is
//! submitted turns into [`Io`] that a driver performs on a [`Disk`] and reports back.
//!
//! `docs/spool.md` states what is promised and why it holds.

mod admission;
mod batch;
mod blob;
mod catalog;
pub mod checksums;
mod codec;
mod compaction;
pub mod config;
pub mod disk;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
pub mod io;
mod live;
pub mod memdisk;
mod memory;
mod opening;
mod prepare;
pub mod record;
mod recovery;
mod register;
pub mod request;
mod scan;
mod segment;
mod space;
mod spool;
mod verify;
mod writer;

pub use checksums::BodyChecksums;
pub use config::{Damage, Durability, RecoveryReport, SpoolConfig, SpoolError, SpoolStatus};
pub use disk::{Disk, DiskError, DiskErrorKind};
pub use io::{Io, IoDone, IoTicket, Lane};
pub use opening::{Opening, count_queued};
pub use record::{Accept, Attempt, BlobId, Body, Meta, Record, Settle, SettleKind, State};
pub use request::{
    Completion, LoadError, Loaded, LoadedBody, RecoveredMessage, RecoveredRecipient, Refusal,
    Request, Ticket,
};
pub use segment::is_spool_name;
pub use spool::Spool;
pub use verify::{VerifyReport, verify};
