//! The client's side of one session: greeting, EHLO, (STARTTLS), any number of transactions, QUIT.
//!
//! The driver loops: write what [`ClientSession::poll_output`] gives, act on what
//! [`ClientSession::poll_event`] gives, feed what it reads with [`ClientSession::handle_input`].
//! The session never sees the content: it says where in the stream the driver must put it.

use mail::{BodyType, ContentFacts, Failure, Mailbox, Mono, Notify, Reply, Ret};
use std::sync::Arc;
use std::time::Duration;

/// How to speak to a peer.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// EHLO argument.
    pub hostname: String,
    /// For failures: `mx.example.com[192.0.2.1]:25`.
    pub peer: Box<str>,
    /// LHLO and a reply per recipient.
    pub lmtp: bool,
    /// Use STARTTLS: off, when offered, or not without.
    pub starttls: StartTls,
    /// Use CHUNKING when offered.
    pub chunking: bool,
    /// Use PIPELINING when offered.
    pub pipelining: bool,
    /// 8-bit content towards a peer without 8BITMIME goes as it is, instead of failing with 5.6.3.
    pub eight_bit_as_is: bool,
    /// A reply line with its CRLF; more is a protocol error. RFC 5321 §4.5.3.1.5 says 512.
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
}

/// TLS policy towards a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTls {
    /// Never.
    Off,
    /// If offered.
    Opportunistic,
    /// Fail with 4.7.4 if not offered.
    Required,
}

/// A transaction to perform.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// `None` is `<>`.
    pub reverse_path: Option<Mailbox>,
    /// Recipients with the DSN wishes that are passed on if the peer offers DSN.
    pub recipients: Vec<OutgoingRecipient>,
    /// BODY=.
    pub body: BodyType,
    /// SMTPUTF8 was given to us.
    pub smtputf8: bool,
    /// RET=.
    pub ret: Option<Ret>,
    /// ENVID=.
    pub envid: Option<Box<str>>,
    /// Facts of the stored body.
    pub facts: ContentFacts,
    /// Length of what the driver puts before the body (Received, signatures): 7-bit, CRLF lines,
    /// no line that begins with a dot.
    pub prefix_bytes: u64,
}

/// One recipient of an [`Outgoing`].
#[derive(Clone, Debug)]
pub struct OutgoingRecipient {
    /// The forward-path.
    pub mailbox: Mailbox,
    /// NOTIFY=.
    pub notify: Notify,
    /// ORCPT=.
    pub orcpt: Option<Box<str>>,
}

/// A piece of the outgoing stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Protocol bytes: `ClientSession::bytes(start..end)`.
    Bytes {
        /// Offset into [`ClientSession::buffer`].
        start: usize,
        /// End offset.
        end: usize,
    },
    /// The prefix and the body as they are (BDAT; or DATA with no line that begins with a dot).
    Content,
    /// The prefix as it is and the body with a dot before each line that begins with one.
    ContentStuffed,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// The session can take a transaction.
    Ready,
    /// Upgrade, then [`ClientSession::handle_tls_started`].
    StartTls,
    /// The transaction is over; one outcome per recipient in order. `reusable`: another may
    /// follow (a `Ready` comes when it can start).
    Done {
        /// Per recipient: accepted by the peer with this reply, or failed.
        outcomes: Vec<Result<Reply, Failure>>,
    },
    /// The session is over and must be closed. Inside a transaction, `outcomes` come first as
    /// `Done`. `None`: after QUIT.
    Closed(Option<Failure>),
}

/// One session.
#[derive(Debug)]
pub struct ClientSession {
    _todo: (),
}

impl ClientSession {
    /// Waits for the greeting.
    #[must_use]
    pub fn new(_config: Arc<ClientConfig>, _now: Mono) -> ClientSession {
        todo!()
    }

    /// Begins a transaction; only after `Ready`.
    pub fn start(&mut self, _now: Mono, _outgoing: Outgoing) {
        todo!()
    }

    /// Sends QUIT; only when idle (Ready was given and nothing started).
    pub fn quit(&mut self, _now: Mono) {
        todo!()
    }

    /// Takes what the peer sent.
    pub fn handle_input(&mut self, _now: Mono, _input: &[u8]) {
        todo!()
    }

    /// The peer closed its side, or reading or writing failed; `text` says how.
    pub fn handle_broken(&mut self, _now: Mono, _text: &str) {
        todo!()
    }

    /// The connection is encrypted now: EHLO follows again.
    pub fn handle_tls_started(&mut self, _now: Mono) {
        todo!()
    }

    /// The next pieces to write, in order, to the end of what may be sent now; empty when there is
    /// nothing. The pieces refer to [`ClientSession::buffer`] and stay valid until
    /// [`ClientSession::handle_written`].
    pub fn poll_output(&mut self, _out: &mut Vec<Output>) {
        todo!()
    }

    /// The bytes that `Output::Bytes` refers to.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        todo!()
    }

    /// All that the last `poll_output` gave was written: timers go on from here.
    pub fn handle_written(&mut self, _now: Mono) {
        todo!()
    }

    /// Progress while a long content is written: pushes the deadline out.
    pub fn handle_progress(&mut self, _now: Mono) {
        todo!()
    }

    /// What happened, in order.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        todo!()
    }

    /// When [`ClientSession::handle_timeout`] must be called.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        todo!()
    }

    /// Gives `Done`/`Closed` events if the deadline has passed.
    pub fn handle_timeout(&mut self, _now: Mono) {
        todo!()
    }
}
