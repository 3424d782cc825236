//! The durable log: append-only segments, group commit, recovery, compaction. Sans-IO: what is
//! submitted turns into [`Io`] that a driver performs on a [`Disk`] and reports back.
//!
//! `docs/spool.md` states what is promised and why it holds.

pub mod config;
pub mod disk;
pub mod io;
pub mod record;
pub mod request;
mod scan;
mod segment;
mod spool;
mod verify;

pub use config::{Damage, Durability, RecoveryReport, SpoolConfig, SpoolError, SpoolStatus};
pub use disk::{Disk, DiskError, DiskErrorKind};
pub use io::{Io, IoDone, IoTicket, Lane};
pub use record::{Accept, Attempt, BlobId, Body, Meta, Record, Settle, SettleKind, State};
pub use request::{
    Completion, LoadError, Loaded, LoadedBody, RecoveredMessage, RecoveredRecipient, Refusal,
    Request, Ticket,
};
pub use spool::Spool;
pub use verify::{VerifyReport, verify};
