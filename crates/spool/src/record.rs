//! What the log says about messages.

use bytes::Bytes;
use mail::{ContentFacts, Envelope, MessageId, Wall};
use std::fmt;
use std::sync::Arc;

/// One record. The records of one submit become durable together or not at all.
#[derive(Clone, Debug)]
pub enum Record {
    /// A message was accepted.
    Accept(Box<Accept>),
    /// Recipients were tried and will be tried again.
    Attempt(Attempt),
    /// Recipients are done with.
    Settle(Settle),
    /// An operator or a timer changed what waits.
    State(State),
}

/// Recipients of one message, at most.
pub const RECIPIENTS_MAX: usize = u16::MAX as usize;

/// A message as it was accepted.
#[derive(Clone, Debug)]
pub struct Accept {
    /// Unique, never reused.
    pub id: MessageId,
    /// When the content was complete.
    pub received_at: Wall,
    /// Shared with the shard that accepted it.
    pub envelope: Arc<Envelope>,
    /// Facts about the message that are not in the envelope.
    pub meta: Meta,
    /// Added header fields; goes before the body.
    pub prefix: Bytes,
    /// The content as it arrived.
    pub body: Body,
    /// What intake found out about the body while it came in.
    pub facts: ContentFacts,
}

/// Where a body is.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory, in pieces; goes into the segment.
    Memory(Vec<Bytes>),
    /// In a file of its own, already synced.
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

/// Tags of [`Meta`]; reserved from the start.
pub mod tag {
    /// Who owns the traffic.
    pub const TENANT: u16 = 1;
    /// A mailing of a tenant's.
    pub const CAMPAIGN: u16 = 2;
    /// The pool of sources to send from.
    pub const EGRESS_POOL: u16 = 3;
    /// The priority that the sender asked for (RFC 6710, MT-PRIORITY), one octet with a sign.
    pub const PRIORITY: u16 = 4;
    /// Not to be tried before (u64 Unix ms).
    pub const NOT_BEFORE: u16 = 5;
    /// To be given up at (u64 Unix ms).
    pub const EXPIRES_AT: u16 = 6;
    /// The identity as which the client authenticated.
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
    /// Indexes of recipients that stand for this server's postmaster (u32 each): their route does
    /// not follow from their domain.
    pub const POSTMASTER: u16 = 16;
    /// Of a body in a file of its own: see [`crate::checksums`].
    pub const BODY_CHECKSUMS: u16 = 17;
    /// There (one octet, 1) when the client might not send to any domain.
    pub const STRANGER: u16 = 18;
    /// Recipients who get the message from a rewritten sender: the first of a run of indexes and how many
    /// there are (u32 each), in order.
    pub const FORWARDED: u16 = 19;
    /// Recipients who get the message from the owner of a list. For each owner, with lengths (u32)
    /// before: its address, the addresses that its reports go to (a line each), and runs of indexes
    /// as in [`FORWARDED`].
    pub const OWNERS: u16 = 20;
    /// Ranges of the body that are kept and go nowhere (`mail::Omitted`): start and end of each (u64).
    pub const OMITTED: u16 = 21;
    /// There (one octet, 1) when it is a report of this server's own about TLS (RFC 8460).
    pub const TLS_REPORT: u16 = 23;
    /// What the message asks of TLS (RFC 8689), one octet: 1, it is required; 2, it is not. Without it
    /// nothing is asked.
    pub const REQUIRE_TLS: u16 = 22;
    /// The hours in which it may be sent, as the sender wrote them.
    pub const WINDOW: u16 = 24;
    /// When it is to be delivered at the latest (RFC 2852): u64 Unix ms, then an octet, `R` (it is returned
    /// then) or `N` (its sender is told), then an octet, 1 where relaying is traced.
    pub const DELIVER_BY: u16 = 25;
    /// Of a message of X.400: the octets of its transfer envelope as they came, behind an octet that says
    /// what it is (the channel's to know). Not in the index: the queue needs it not.
    pub const X400: u16 = 26;
    /// Recipients that were refused when the message was accepted and are to be reported: for each run of
    /// indexes its first and how many there are (u32 each), then the length of the reason (u32) and the
    /// reason, a status (RFC 3463), a blank, and text.
    pub const REFUSED: u16 = 27;
    /// Of a message that a check held: an octet (1: it may be returned to its sender), then three lines: the
    /// domain of its sender, that of its author, and the reason.
    pub const HELD: u16 = 28;
}

/// How a recipient was done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettleKind {
    /// In a mailbox here (maildir, discard, LMTP).
    Delivered,
    /// The next hop took responsibility.
    Relayed,
    /// Failed for good; reported if the sender wanted it.
    Failed,
    /// Given up because of the age of the message.
    Expired,
    /// An operator removed it.
    Removed,
}

/// Recipients are done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The message whose recipients these are.
    pub id: MessageId,
    /// When they were settled.
    pub at: Wall,
    /// Recipient index and how it ended.
    pub recipients: Vec<(u32, SettleKind)>,
}

/// Recipients were tried without success and stay open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The message whose recipients these are.
    pub id: MessageId,
    /// When the attempt ended.
    pub at: Wall,
    /// Their indices in the envelope.
    pub recipients: Vec<u32>,
    /// Attempts so far, this one counted.
    pub attempts: u16,
    /// When the next is due.
    pub next_try: Wall,
    /// Why it failed, for `queue why` after a restart; cut at 512 bytes.
    pub reason: Box<str>,
}

/// [`State::overrides`] are cut here.
pub const OVERRIDES_BYTES_MAX: usize = 512;

/// What an operator or a timer changed; `None` leaves a field as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The message whose recipients these are.
    pub id: MessageId,
    /// `Some(Some(reason))` holds, `Some(None)` releases.
    pub hold: Option<Option<Box<str>>>,
    /// All open recipients are due then.
    pub next_try: Option<Wall>,
    /// What an operator chose in place of what the message says, in words that mean nothing to the spool:
    /// at most [`OVERRIDES_BYTES_MAX`]; `Some(None)` takes it back.
    pub overrides: Option<Option<Box<str>>>,
    /// A delay notice was sent.
    pub delay_notice_sent: Option<bool>,
}

/// Why something can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No open recipient of such a message, or no such blob.
    NotFound,
    /// It is there, and its checksum or form is wrong.
    Damaged(Box<str>),
    /// The disk failed the read.
    Disk(Box<str>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotFound => f.write_str("not in the spool"),
            LoadError::Damaged(what) => write!(f, "damaged: {what}"),
            LoadError::Disk(what) => write!(f, "can't be read: {what}"),
        }
    }
}

impl std::error::Error for LoadError {}
