//! The durable log: append-only segments, group commit, recovery, compaction. It is sans-IO: requests turn into [`Io`]
//! values that a driver performs on a [`Disk`] and reports back.
//!
//! `docs/spool.md` states the guarantees and their reasons.

mod activate;
mod batch;
mod blob;
mod block;
mod buffer;
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
mod name;
mod opening;
mod perform;
mod reasons;
pub mod record;
mod recovery;
mod register;
mod registrar;
pub mod request;
mod scan;
mod segment;
mod space;
mod spool;
mod table;
mod verify;
mod writer;

pub use checksums::BodyChecksums;
pub use config::{Damage, Durability, RecoveryReport, SpoolConfig, SpoolError, SpoolStatus};
pub use disk::{Disk, DiskError, DiskErrorKind};
pub use io::{Io, IoDone, IoTicket, Lane};
pub use name::is_spool_name;
pub use opening::{Opening, count_queued};
pub use record::{
    Accept, Attempt, BlobId, Body, LoadError, Meta, RECIPIENTS_MAX, Record, Settle, SettleKind,
    State,
};
pub use request::{
    Completion, Loaded, LoadedBody, LogSnapshot, RecoveredMessage, RecoveredRecipient, Refusal,
    Request, Ticket,
};
pub use spool::Spool;
pub use verify::{VerifyReport, verify};
