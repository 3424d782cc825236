//! The client side of one session: greeting, EHLO, (STARTTLS), (AUTH), any number of transactions, QUIT.
//!
//! The driver loops: it writes the output of [`ClientSession::poll_output`], handles the events of
//! [`ClientSession::poll_event`], and passes input to [`ClientSession::handle_input`]. The session never sees the
//! content; it marks the position in the stream at which the driver must insert it. The driver should continue reading
//! while it writes: a peer may refuse a content before its end, and two sides that only write deadlock.

mod capabilities;
mod command;
mod failing;
mod login;
mod opening;
mod outbox;
mod reply;
mod session;
mod steps;
mod transaction;

pub use capabilities::Capabilities;
pub use outbox::{DotSlices, DotStuffer};
pub use session::ClientSession;

use crate::wishes::ByParameter;
use mail::dsn::xtext::Envid;
use mail::{BodyType, ContentFacts, Failure, Mailbox, Mono, Notify, Priority, Reply, Ret};
use std::time::Duration;

/// The settings of sessions with a peer.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Our name in EHLO or LHLO (RFC 5321 §4.1.1.1).
    pub hostname: String,
    /// The peer as named in failures: `mx.example.com[192.0.2.1]:25`.
    pub peer: Box<str>,
    /// Speak LMTP: LHLO, and a final reply for each recipient (RFC 2033).
    pub lmtp: bool,
    /// Use STARTTLS: off, when offered, or not without.
    pub starttls: StartTls,
    /// The connection uses TLS from its start (RFC 8314 §3.3).
    pub is_encrypted: bool,
    /// Terms for logging in before the first transaction.
    pub login: LoginTerms,
    /// Use CHUNKING when offered.
    pub chunking: bool,
    /// Use PIPELINING when offered.
    pub pipelining: bool,
    /// With a peer that offers PIPELINING and CHUNKING, send content of up to 1 MiB with BDAT before a recipient is
    /// accepted. RFC 3030 §2 forbids this: use it only with a peer known to discard refused chunks.
    /// [`ClientSession::start`] may then be called before `Ready`.
    pub unasked_content: bool,
    /// 8-bit content is sent unchanged to a peer without 8BITMIME, instead of failing with 5.6.3.
    pub eight_bit_as_is: bool,
    /// A reply line with its CRLF; a longer one is a protocol error. The limit of RFC 5321 §4.5.3.1.5 is 512.
    pub reply_line_bytes_max: usize,
    /// Lines in one reply.
    pub reply_lines_max: usize,
    /// RFC 5321 §4.5.3.2.1: greeting, 5 minutes.
    pub greeting_timeout: Duration,
    /// EHLO, MAIL, RCPT, RSET, STARTTLS: 5 minutes.
    pub command_timeout: Duration,
    /// The 354 after DATA: 2 minutes.
    pub data_timeout: Duration,
    /// Progress while content is written: 3 minutes between pieces.
    pub content_timeout: Duration,
    /// The reply after the final dot: 10 minutes.
    pub final_timeout: Duration,
    /// Time for a whole transaction, from MAIL to the last reply, whatever progress it makes. Large contents get more
    /// time, by [`SLOWEST_BYTES_PER_SECOND`].
    pub transaction_timeout: Duration,
}

/// Content transferred more slowly than this on average times out.
pub const SLOWEST_BYTES_PER_SECOND: u64 = 500;
/// Maximum time for a transaction's content beyond the transaction's own time.
pub const CONTENT_TIME_MAX: Duration = Duration::from_secs(6 * 3600);

/// TLS policy towards a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTls {
    /// Not used, even if offered.
    Off,
    /// Used if the peer offers STARTTLS.
    Opportunistic,
    /// Not used: it failed recently with this peer. The session has reduced service ([`Lesser`]).
    Failed,
    /// Fail with 4.7.4 if not offered.
    Required,
}

/// Reduced service of a session. A permanent refusal in this session may not apply to another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lesser {
    /// In clear, because TLS failed.
    InClear,
    /// Without extensions: EHLO was refused, and HELO was not.
    WithoutExtensions,
}

/// Login policy of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginTerms {
    /// It does not.
    Off,
    /// Log in once the connection is encrypted; without encryption the session fails with 4.7.11.
    Encrypted,
    /// In clear too.
    Anyway,
}

/// REQUIRETLS of a transaction (RFC 8689 §2). The driver may set it only for an authenticated peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequireTls {
    /// It has not.
    #[default]
    Off,
    /// If the peer offers it in an encrypted session (§5: for reports).
    WhereOffered,
    /// A peer without it is sent no command: 5.7.30.
    Always,
}

/// A transaction to perform.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The sender; `None` is the null reverse-path `<>`.
    pub reverse_path: Option<Mailbox>,
    /// Recipients with the DSN wishes that are passed on if the peer offers DSN.
    pub recipients: Vec<OutgoingRecipient>,
    /// The type declared by the sender with BODY= (RFC 6152).
    pub body: BodyType,
    /// The message was received with SMTPUTF8.
    pub smtputf8: bool,
    /// The REQUIRETLS request to the peer (RFC 8689).
    pub require_tls: RequireTls,
    /// Priority, for peers that offer MT-PRIORITY (RFC 6710).
    pub priority: Option<Priority>,
    /// Delivery deadline, for peers that offer DELIVERBY (RFC 2852).
    pub deliver_by: Option<ByParameter>,
    /// The part of the message that a failure DSN returns (RFC 3461 §4.3).
    pub ret: Option<Ret>,
    /// The sender's envelope id, still xtext-encoded (RFC 3461 §4.4).
    pub envid: Option<Envid>,
    /// Facts of the stored body.
    pub facts: ContentFacts,
    /// The header contains octets of 0x80 or more; used only with `smtputf8`.
    pub header_is_8bit: bool,
    /// 8-bit content is sent unchanged even if the peer does not offer 8BITMIME, as with
    /// [`ClientConfig::eight_bit_as_is`].
    pub eight_bit_as_is: bool,
    /// Time at which the message is too old to be delivered; content not sent by then is not sent.
    pub expires: Mono,
    /// Length of the prefix that the driver puts before the body (Received, signatures): 7-bit, CRLF lines, no line
    /// that begins with a dot.
    pub prefix_bytes: u64,
}

impl Outgoing {
    /// A transaction with one recipient and no content.
    fn without_content(reverse_path: Option<Mailbox>, recipient: Mailbox) -> Outgoing {
        let notify = Notify::UNSPECIFIED;
        Outgoing {
            reverse_path,
            recipients: vec![OutgoingRecipient { mailbox: recipient, notify, orcpt: None }],
            body: BodyType::SevenBit,
            smtputf8: false,
            require_tls: RequireTls::Off,
            priority: None,
            deliver_by: None,
            ret: None,
            envid: None,
            facts: ContentFacts::default(),
            header_is_8bit: false,
            eight_bit_as_is: false,
            expires: Mono::NEVER,
            prefix_bytes: 0,
        }
    }
}

/// A recipient of an [`Outgoing`].
#[derive(Clone, Debug)]
pub struct OutgoingRecipient {
    /// The address that RCPT names.
    pub mailbox: Mailbox,
    /// DSNs requested by the sender (RFC 3461 §4.1).
    pub notify: Notify,
    /// The original recipient, still xtext-encoded (RFC 3461 §4.2).
    pub orcpt: Option<Box<str>>,
}

/// A piece of the outgoing stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Commands: the bytes `start..end` of [`ClientSession::buffer`].
    Bytes {
        /// Start offset in [`ClientSession::buffer`].
        start: usize,
        /// The end offset.
        end: usize,
    },
    /// Prefix and body unchanged (BDAT, or DATA with no line that starts with a dot).
    Content,
    /// Prefix unchanged, and body with dot stuffing.
    ContentStuffed,
}

/// A property of the peer learnt from the replies to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostQuirk {
    /// It offers CHUNKING but does not know BDAT.
    BdatUnusable,
    /// Maximum number of recipients in a transaction (RFC 5321 §4.5.3.1.10).
    RecipientsMax(usize),
    /// Maximum number of recipient domains in a transaction (RFC 9422 §4.3).
    DomainsMax(usize),
}

/// An event for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// The session can take a transaction.
    Ready,
    /// Encrypt the connection, then call [`ClientSession::handle_tls_started`].
    StartTls,
    /// The peer can be logged in to: [`ClientSession::log_in`] or [`ClientSession::give_up_login`].
    Login,
    /// A challenge of the peer: [`ClientSession::respond`] or [`ClientSession::give_up_login`].
    Challenge(Vec<u8>),
    /// The peer accepted the login: [`ClientSession::handle_logged_in`] or [`ClientSession::give_up_login`].
    LoggedIn,
    /// The oldest transaction in flight has ended, with one outcome per recipient in order. `Ready` follows if another
    /// can start, otherwise `Closed`.
    Done {
        /// Per recipient: accepted by the peer with this reply, or failed.
        outcomes: Vec<Result<Reply, Failure>>,
        /// The whole content was sent, but no reply arrived: recipients that failed for this reason may have been
        /// accepted (RFC 1047).
        doubtful: bool,
        /// The peer replied to one of the commands. If not, a kept connection was probably dead before, and another one
        /// can be tried at once.
        answered: bool,
        /// The failed recipients, in order, that failed only because of this transaction: they may be sent to the peer
        /// at once in another one.
        untried: Vec<usize>,
        /// A property of the peer to consider in further transactions.
        lesson: Option<HostQuirk>,
    },
    /// The session is over and must be closed, unfinished writes included. Inside a transaction `Done` comes first.
    /// `None`: after QUIT, which the session also sends by itself after a content sent with BDAT was refused.
    Closed(Option<Failure>),
}
