//! Requests to the spool, and its answers.

use crate::checksums::Piece;
use crate::record::{BlobId, LoadError, Meta, Record};
use bytes::Bytes;
use mail::{ContentFacts, Domain, Envelope, MessageId, Wall};
use std::fmt;
use std::sync::Arc;

/// Identifies a request; chosen by the caller, returned with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Requests for [`crate::Spool::handle_request`]. Every request with a ticket gets one [`Completion`].
#[derive(Clone, Debug)]
pub enum Request {
    /// Make these records durable together: all or none.
    Submit {
        /// Returned with the completion: `Durable` or `Refused`.
        ticket: Ticket,
        /// In the order in which they take effect.
        records: Vec<Record>,
    },
    /// Fetch a message: `Loaded`, `TooLong` or `LoadFailed`.
    Load {
        /// Returned with the completion.
        ticket: Ticket,
        /// The message, which must have an open recipient.
        id: MessageId,
        /// A longer record is not read.
        bytes_max: u64,
    },
    /// Write the next piece of a body into a separate file: `BlobDone` or `Refused`. Pieces may be sent without waiting
    /// for each other. The first creates the file.
    BlobAppend {
        /// Returned with the completion.
        ticket: Ticket,
        /// An unused number from [`crate::Spool::next_blob`] on.
        blob: BlobId,
        /// The next bytes of the body, at least one.
        data: Bytes,
    },
    /// After the last piece: wait for all pieces, sync the file and its name. After `BlobDone` an accept may name the
    /// blob.
    BlobSeal {
        /// Returned with the completion.
        ticket: Ticket,
        /// The blob with all pieces appended.
        blob: BlobId,
    },
    /// Read a piece: `BlobData` with all bytes, or `LoadFailed` if it differs from the data written.
    BlobRead {
        /// Returned with the completion.
        ticket: Ticket,
        /// The blob to read from.
        blob: BlobId,
        /// Start of the piece, in bytes.
        offset: u64,
        /// Its length and checksum: see [`crate::checksums::piece`].
        piece: Piece,
    },
    /// Drop a blob that no accept names (its transaction was aborted). The blob of a settled message is removed
    /// automatically.
    BlobDrop {
        /// The blob to forget.
        blob: BlobId,
    },
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The records are on stable storage (as defined by [`crate::Durability`]).
    Durable {
        /// Number of the submit's first record in this log; the rest follow. Increases for ever.
        position: u64,
    },
    /// The request had no effect and will have none after a restart (for `Poisoned` this is unknown).
    Refused(Refusal),
    /// The loaded message.
    Loaded(Box<Loaded>),
    /// The message's record has this many octets, more than the request allows.
    TooLong(u64),
    /// The message or blob can't be had.
    LoadFailed(LoadError),
    /// The piece is written, or the blob is sealed.
    BlobDone,
    /// A piece of a blob.
    BlobData(Bytes),
}

/// The files of a log between two batches, for a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSnapshot {
    /// Segments that do not change any more, and the blobs of queued messages.
    pub files: Vec<Box<str>>,
    /// The segment that is written to.
    pub active: Box<str>,
    /// End of its data, in bytes. Later data may be part of a batch.
    pub active_bytes: u64,
    /// Length of the file with the rest, which counts as unused if it is zeros.
    pub active_length: u64,
}

/// Reason of a refusal: the records were not made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The disk is nearly full: 452 4.3.1. Settles are still accepted. Reports (an accept with the settle of failed
    /// recipients), attempts and changes of state need an available segment, or space in the last one beyond the
    /// reserve for settles.
    Full,
    /// The process is out of descriptors or memory at present: 452 4.3.1.
    Scarce,
    /// A write or sync failed: the log accepts nothing more, 451 4.3.0.
    Poisoned,
    /// A write or sync of this blob failed, 451 4.3.0. The log is not affected.
    BlobFailed,
    /// The submit does not fit into a segment: the body should have been a blob.
    TooLarge,
    /// The caller broke a rule, for example an id used twice or an accept of a blob that is not sealed.
    Misuse(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full => f.write_str("the spool's disk is nearly full"),
            Refusal::Scarce => f.write_str("the server is short of open files or memory"),
            Refusal::Poisoned => f.write_str("the spool's disk failed a write or sync"),
            Refusal::BlobFailed => f.write_str("the spool's disk failed to store the content"),
            Refusal::TooLarge => f.write_str("the records do not fit into a segment"),
            Refusal::Misuse(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Refusal {}

/// An accepted message, read back.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub id: MessageId,
    /// Time at which its content was complete.
    pub received_at: Wall,
    /// All recipients, the settled ones too: indices stay.
    pub envelope: Arc<Envelope>,
    /// Facts that are not in the envelope.
    pub meta: Meta,
    /// Added header fields, before the body.
    pub prefix: Bytes,
    /// The content as received.
    pub body: LoadedBody,
    /// Facts about the body found during intake.
    pub facts: ContentFacts,
    /// Reason of the last failed attempt, if remembered: one reason for all recipients.
    pub last_reason: Option<Box<str>>,
    /// Operator overrides of the message's settings.
    pub overrides: Option<Box<str>>,
}

/// Storage of a loaded body.
#[derive(Clone, Debug)]
pub enum LoadedBody {
    /// Completely in memory.
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
    /// Time at which its content was complete.
    pub received_at: Wall,
    /// Facts that are not in the envelope.
    pub meta: Meta,
    /// The sender is `<>`: failures are not reported (RFC 5321 §4.5.5).
    pub reverse_path_is_null: bool,
    /// Unsettled recipients, at least one.
    pub open: Vec<RecoveredRecipient>,
    /// Reason of the hold; `None` if not held.
    pub hold: Option<Box<str>>,
    /// Operator overrides of the message's settings.
    pub overrides: Option<Box<str>>,
    /// The delay notice was sent.
    pub delay_notice_sent: bool,
    /// Reason of the last failed attempt.
    pub last_reason: Option<Box<str>>,
    /// Length of the body in bytes.
    pub body_bytes: u64,
}

/// An open recipient of a [`RecoveredMessage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRecipient {
    /// Its index in the envelope.
    pub index: u32,
    /// Recipient domain; equal domains share one allocation.
    pub domain: Domain,
    /// Attempts made so far.
    pub attempts: u16,
    /// Due time of the next attempt; `None` for at once.
    pub next_try: Option<Wall>,
}
