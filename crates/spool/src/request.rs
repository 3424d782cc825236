//! What the spool is asked, and what it answers.

use crate::checksums::Piece;
use crate::record::{BlobId, LoadError, Meta, Record};
use bytes::Bytes;
use mail::{ContentFacts, Domain, Envelope, MessageId, Wall};
use std::fmt;
use std::sync::Arc;

/// Names a request; chosen by the caller, given back with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Asked of [`crate::Spool::handle_request`]. Every request with a ticket gets one [`Completion`].
#[derive(Clone, Debug)]
pub enum Request {
    /// Make these records durable together: all of them or none.
    Submit {
        /// Comes back with the completion: `Durable` or `Refused`.
        ticket: Ticket,
        /// In the order in which they take effect.
        records: Vec<Record>,
    },
    /// Fetch a message: `Loaded`, `TooLong` or `LoadFailed`.
    Load {
        /// Comes back with the completion.
        ticket: Ticket,
        /// The message, which must have an open recipient.
        id: MessageId,
        /// One whose record is longer is not read.
        bytes_max: u64,
    },
    /// Write the next piece of a body into a file of its own: `BlobDone` or `Refused`. Pieces may
    /// be sent without waiting for each other. The first creates the file.
    BlobAppend {
        /// Comes back with the completion.
        ticket: Ticket,
        /// A number from [`crate::Spool::next_blob`] on that was not used before.
        blob: BlobId,
        /// The next bytes of the body, at least one.
        data: Bytes,
    },
    /// After the last piece: wait for all of them, sync the file and its name. After `BlobDone` an
    /// accept may name the blob.
    BlobSeal {
        /// Comes back with the completion.
        ticket: Ticket,
        /// The blob whose last piece was appended.
        blob: BlobId,
    },
    /// Read a piece: `BlobData`, all of it, or `LoadFailed` when it is not what was written.
    BlobRead {
        /// Comes back with the completion.
        ticket: Ticket,
        /// The blob to read from.
        blob: BlobId,
        /// Where the piece begins, in bytes.
        offset: u64,
        /// How long it is and its checksum: see [`crate::checksums::piece`].
        piece: Piece,
    },
    /// Forget a blob that no accept names (the transaction was given up). The blob of a message
    /// that is settled goes by itself.
    BlobDrop {
        /// The blob to forget.
        blob: BlobId,
    },
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The records are on stable storage (as far as [`crate::Durability`] says).
    Durable {
        /// Number of the submit's first record in this log; the others follow it. Rises for ever.
        position: u64,
    },
    /// Nothing of the request took effect, and nothing of it will be there after a restart (for
    /// `Poisoned`: it may be, nobody knows).
    Refused(Refusal),
    /// The message that was to be loaded.
    Loaded(Box<Loaded>),
    /// The record of the message has so many octets, which are more than were to be loaded.
    TooLong(u64),
    /// The message or blob can't be had.
    LoadFailed(LoadError),
    /// The piece is written, or the blob is sealed.
    BlobDone,
    /// A piece of a blob.
    BlobData(Bytes),
}

/// Why nothing was made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The disk is nearly full: 452 4.3.1. Settles still go through. Reports (an accept with the
    /// settle of recipients that failed), attempts and changes of state do as long as a segment can
    /// be had, or the last one has room beside what settles will need.
    Full,
    /// The process has no descriptor or memory for it now: 452 4.3.1.
    Scarce,
    /// A write or sync failed: no more promises from this log, 451 4.3.0.
    Poisoned,
    /// A write or sync of this blob failed, 451 4.3.0. What the log holds is not concerned.
    BlobFailed,
    /// The submit does not fit into a segment: the body should have been a blob.
    TooLarge,
    /// The caller broke a rule: an id used twice, an accept of a blob that is not sealed.
    Misuse(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full => f.write_str("the spool's disk is nearly full"),
            Refusal::Scarce => f.write_str("the server is short of open files or memory"),
            Refusal::Poisoned => f.write_str("the spool's disk failed a write or sync"),
            Refusal::BlobFailed => f.write_str("the spool's disk failed to take the content"),
            Refusal::TooLarge => f.write_str("the records do not fit into a segment"),
            Refusal::Misuse(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Refusal {}

/// A message as it was accepted, read back.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub id: MessageId,
    /// When its content was complete.
    pub received_at: Wall,
    /// All recipients, the settled ones too: indices stay.
    pub envelope: Arc<Envelope>,
    /// Facts that are not in the envelope.
    pub meta: Meta,
    /// Added header fields; goes before the body.
    pub prefix: Bytes,
    /// The content as it arrived.
    pub body: LoadedBody,
    /// What intake found out about the body while it came in.
    pub facts: ContentFacts,
    /// Why the last attempt failed, if that is remembered: one reason for all recipients.
    pub last_reason: Option<Box<str>>,
    /// What an operator chose in place of what the message says.
    pub overrides: Option<Box<str>>,
}

/// Where a loaded body is.
#[derive(Clone, Debug)]
pub enum LoadedBody {
    /// In memory, all of it.
    Memory(Bytes),
    /// To be read piece by piece with [`Request::BlobRead`].
    Blob {
        /// The number in the file's name.
        blob: BlobId,
        /// The length of the file in bytes.
        body_bytes: u64,
    },
}

/// A message that [`crate::Opening::finish`] found with open recipients.
#[derive(Clone, Debug)]
pub struct RecoveredMessage {
    pub id: MessageId,
    /// When its content was complete.
    pub received_at: Wall,
    /// Facts that are not in the envelope.
    pub meta: Meta,
    /// It was sent from `<>`: nobody is told of failures (RFC 5321, 4.5.5).
    pub reverse_path_is_null: bool,
    /// Recipients that are not settled, at least one.
    pub open: Vec<RecoveredRecipient>,
    /// Why it is held; `None` if it is not.
    pub hold: Option<Box<str>>,
    /// What an operator chose in place of what the message says.
    pub overrides: Option<Box<str>>,
    /// The sender was told of the delay.
    pub delay_notice_sent: bool,
    /// Why the last attempt failed.
    pub last_reason: Option<Box<str>>,
    /// Length of the body in bytes.
    pub body_bytes: u64,
}

/// An open recipient of a [`RecoveredMessage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRecipient {
    /// Its index in the envelope.
    pub index: u32,
    /// Where it goes; equal domains share one allocation.
    pub domain: Domain,
    /// How often it was tried so far.
    pub attempts: u16,
    /// When the next is due, `None` for at once.
    pub next_try: Option<Wall>,
}
