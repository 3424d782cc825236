//! Records of the log: the events of a message's life.

use bytes::Bytes;
use mail::{ContentFacts, Envelope, MessageId, Wall};
use std::fmt;
use std::sync::Arc;

/// A record. The records of a submit are made durable together or not at all.
#[derive(Clone, Debug)]
pub enum Record {
    /// A message was accepted.
    Accept(Box<Accept>),
    /// Recipients were tried and stay open.
    Attempt(Attempt),
    /// Recipients are done with.
    Settle(Settle),
    /// An operator or a timer changed the state of open recipients.
    State(State),
}

/// Maximum number of recipients of a message.
pub const RECIPIENTS_MAX: usize = u16::MAX as usize;

/// An accepted message.
#[derive(Clone, Debug)]
pub struct Accept {
    /// Unique, never reused.
    pub id: MessageId,
    /// Time at which the content was complete.
    pub received_at: Wall,
    /// Shared with the shard that accepted it.
    pub envelope: Arc<Envelope>,
    /// Facts about the message that are not in the envelope.
    pub meta: Meta,
    /// Added header fields, before the body.
    pub prefix: Bytes,
    /// The content as received.
    pub body: Body,
    /// Facts about the body found during intake.
    pub facts: ContentFacts,
}

/// Storage of a body.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory, in pieces; stored in the segment.
    Memory(Vec<Bytes>),
    /// A separate file, already synced.
    Blob {
        /// The number in the file's name.
        blob: BlobId,
        /// The length of the file in bytes.
        body_bytes: u64,
    },
}

/// Names a blob file; unique within a log, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub u64);

/// Versioned TLV; tags that this version does not know survive compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// `(tag, value)` in ascending order of tags.
    pub fields: Vec<(u16, Bytes)>,
}

/// Tags of [`Meta`]; the numbers are fixed.
pub mod tag {
    /// The owner of the traffic.
    pub const TENANT: u16 = 1;
    /// A mailing of a tenant's.
    pub const CAMPAIGN: u16 = 2;
    /// The pool of egress sources.
    pub const EGRESS_POOL: u16 = 3;
    /// The priority requested by the sender (RFC 6710, MT-PRIORITY), one octet with a sign.
    pub const PRIORITY: u16 = 4;
    /// Not to be tried before (u64 Unix ms).
    pub const NOT_BEFORE: u16 = 5;
    /// Time of expiry (u64 Unix ms).
    pub const EXPIRES_AT: u16 = 6;
    /// The identity that the client authenticated as.
    pub const AUTHENTICATED: u16 = 7;
    /// The name of the listener that the client connected to.
    pub const LISTENER: u16 = 8;
    /// The client's IP address as text.
    pub const CLIENT_ADDRESS: u16 = 9;
    /// The client's EHLO argument.
    pub const CLIENT_EHLO: u16 = 10;
    /// TLS version and cipher.
    pub const CLIENT_TLS: u16 = 11;
    /// Bytes of trace fields before the content.
    pub const TRACE_PREFIX: u16 = 12;
    /// Archiving as an obligation.
    pub const ARCHIVE: u16 = 13;
    /// Words that a configuration or a client attached to the message.
    pub const LABELS: u16 = 14;
    /// The node that first accepted it.
    pub const ORIGIN_NODE: u16 = 15;
    /// Indexes of recipients that stand for this server's postmaster (u32 each): their route is not derived from their
    /// domain.
    pub const POSTMASTER: u16 = 16;
    /// Checksums of a body in a separate file: see [`crate::checksums`].
    pub const BODY_CHECKSUMS: u16 = 17;
    /// Present (one octet, 1) if the client was not allowed to relay.
    pub const STRANGER: u16 = 18;
    /// Recipients delivered with a rewritten sender: the first index and the length of each run (u32 each), in order.
    pub const FORWARDED: u16 = 19;
    /// Recipients delivered with the owner of a list as sender. For each owner, with lengths (u32) before: its address,
    /// the addresses that its reports go to (a line each), and runs of indexes as in [`FORWARDED`].
    pub const OWNERS: u16 = 20;
    /// Ranges of the body that are stored but not sent (`mail::Omitted`): start and end of each (u64).
    pub const OMITTED: u16 = 21;
    /// Present (one octet, 1) if the message is a TLS report of this server (RFC 8460).
    pub const TLS_REPORT: u16 = 23;
    /// TLS requirement of the message (RFC 8689), one octet: 1, required; 2, not required. Absent: no requirement.
    pub const REQUIRE_TLS: u16 = 22;
    /// The sending window, as written by the sender.
    pub const WINDOW: u16 = 24;
    /// Latest time of delivery (RFC 2852): u64 Unix ms, then two octets. The first is `R` (the message is returned
    /// then) or `N` (its sender is notified). The second is 1 if relaying is traced.
    pub const DELIVER_BY: u16 = 25;
    /// Octets of an X.400 message's transfer envelope as received, after an octet with its type (defined by the
    /// channel). Not in the index: the queue does not need it.
    pub const X400: u16 = 26;
    /// Recipients refused at acceptance that must be reported. Each run of indexes has its first index and its length
    /// (u32 each), then the length of the reason (u32) and the reason. The reason is a status (RFC 3463), a blank, and
    /// text.
    pub const REFUSED: u16 = 27;
    /// Data of a message held by a check: an octet (1: it may be returned to its sender), then three lines. They are
    /// the domain of its sender, that of its author, and the reason.
    pub const HELD: u16 = 28;
    /// Origin of an imported message: the program, its queue id there and the file's inode. A second line has the
    /// reason for which it stays held.
    pub const ORIGIN: u16 = 29;
    /// Present (one octet, 1) if the message is an alert of this server. Its accept may use the space reserved for
    /// reports.
    pub const ALERT: u16 = 30;
}

/// The result of a settled recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettleKind {
    /// In a mailbox here (maildir, discard, LMTP).
    Delivered,
    /// The next hop took responsibility.
    Relayed,
    /// Failed permanently; reported if the sender wanted it.
    Failed,
    /// Expired.
    Expired,
    /// An operator removed it.
    Removed,
}

/// Recipients are done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The message with these recipients.
    pub id: MessageId,
    /// Time of the settlement.
    pub at: Wall,
    /// Recipient index and how it ended.
    pub recipients: Vec<(u32, SettleKind)>,
}

/// Recipients were tried without success and stay open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The message with these recipients.
    pub id: MessageId,
    /// End of the attempt.
    pub at: Wall,
    /// Their indices in the envelope.
    pub recipients: Vec<u32>,
    /// Attempts so far, this one counted.
    pub attempts: u16,
    /// Due time of the next one.
    pub next_try: Wall,
    /// Reason of the failure, for `queue why` after a restart; cut at 512 bytes.
    pub reason: Box<str>,
}

/// [`State::overrides`] are cut here.
pub const OVERRIDES_BYTES_MAX: usize = 512;

/// A change made by an operator or a timer; `None` leaves a field as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The message with these recipients.
    pub id: MessageId,
    /// `Some(Some(reason))` holds, `Some(None)` releases.
    pub hold: Option<Option<Box<str>>>,
    /// All open recipients are due then.
    pub next_try: Option<Wall>,
    /// Operator overrides of a message's settings, opaque to the spool: at most [`OVERRIDES_BYTES_MAX`]. `Some(None)`
    /// removes them.
    pub overrides: Option<Option<Box<str>>>,
    /// A delay notice was sent.
    pub delay_notice_sent: Option<bool>,
}

/// Reasons of a failed read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No message with open recipients, or no blob, has this number.
    NotFound,
    /// The body exists, but its checksum or form is wrong.
    Damaged(Box<str>),
    /// The disk failed the read.
    Disk(Box<str>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotFound => f.write_str("not in the spool"),
            LoadError::Damaged(what) => write!(f, "damaged: {what}"),
            LoadError::Disk(what) => write!(f, "cannot be read: {what}"),
        }
    }
}

impl std::error::Error for LoadError {}
