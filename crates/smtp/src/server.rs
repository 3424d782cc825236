//! The server's side of one session.
//!
//! The driver feeds bytes with [`ServerSession::handle_input`] and obeys the [`Need`] it returns:
//! the session parses no further until that need is answered. Replies pile up in an output buffer
//! that the driver takes with [`ServerSession::take_output`] and writes whenever it is not empty
//! and no more input is at hand, so that pipelined commands are answered with one write.

use mail::{BodyType, ContentFacts, Envelope, Mailbox, Mono, Recipient, Reply};
use std::sync::Arc;
use std::time::Duration;

/// Limits and identity of a listener. Every limit is tested at its edge.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Named in the greeting and in EHLO's reply.
    pub hostname: String,
    /// SIZE, 552 5.3.4 beyond it. RFC 5321 §4.5.3.1.7.
    pub message_bytes_max: u64,
    /// Recipients per transaction, 452 4.5.3 beyond it. RFC 5321 §4.5.3.1.8: at least 100.
    pub recipients_max: usize,
    /// A command line with its CRLF, 500 5.5.2 beyond it (RFC 5321 §4.5.3.1.4, extensions added).
    pub command_line_bytes_max: usize,
    /// A line of content without its CRLF; 550 5.6.0 after its true end. 0: no limit
    pub content_line_bytes_max: u64,
    /// Commands per session, 421 4.7.0 beyond it.
    pub commands_max: u32,
    /// 4yz/5yz replies to commands per session, 421 4.7.0 beyond it.
    pub errors_max: u32,
    /// Messages per session, 421 4.7.0 at the MAIL beyond it. 0: no limit.
    pub messages_max: u32,
    /// Waiting for the next command. RFC 5321 §4.5.3.2.7: at least 5 minutes.
    pub command_timeout: Duration,
    /// Between two pieces of content. RFC 5321 §4.5.3.2.5.
    pub content_timeout: Duration,
    /// From 354 (or the first BDAT) to the end of the content: slow senders.
    pub transfer_timeout: Duration,
    /// The whole session.
    pub session_timeout: Duration,
    /// Offer STARTTLS; the driver must then know how to upgrade.
    pub starttls: bool,
    /// Offer CHUNKING, PIPELINING, SMTPUTF8, DSN (all true but in tests of peers).
    pub chunking: bool,
    /// See `chunking`.
    pub pipelining: bool,
    /// See `chunking`.
    pub smtputf8: bool,
    /// See `chunking`.
    pub dsn: bool,
    /// What happens to content with a bare CR or LF.
    pub bare_newline: BareNewline,
    /// Speak LMTP: LHLO, and one reply per recipient after the content (RFC 2033 §4).
    pub lmtp: bool,
}

/// What happens to content with a CR without LF or an LF without CR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareNewline {
    /// Read to the true end (CRLF . CRLF, or BDAT LAST), then 550 5.6.0.
    #[default]
    Reject,
    /// Each becomes CRLF in what is stored; the end is still only CRLF . CRLF.
    Normalize,
}

/// MAIL as it was accepted by the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailCommand {
    /// `None` is `<>`.
    pub reverse_path: Option<Mailbox>,
    /// SIZE=, if given.
    pub size: Option<u64>,
    /// BODY=.
    pub body: BodyType,
    /// SMTPUTF8.
    pub smtputf8: bool,
}

/// What the session waits for. Exactly one answer per need.
#[derive(Debug)]
pub enum Need {
    /// All input was consumed; feed more.
    Input,
    /// Answer with [`ServerSession::answer_mail`].
    Mail(MailCommand),
    /// Answer with [`ServerSession::answer_rcpt`]. Domain empty means bare `<postmaster>`.
    Rcpt(Recipient),
    /// Before 354 or before the first BDAT chunk is read: answer with
    /// [`ServerSession::answer_data`] once room for the message is reserved. `recipients` counts
    /// the accepted ones.
    Data {
        /// Accepted recipients.
        recipients: usize,
    },
    /// The content is complete and clean; it is all in the sink. Answer with
    /// [`ServerSession::answer_message`] when it is durable.
    Message(Box<Transaction>),
    /// The transaction ended without a message (RSET, EHLO, refused content, size): whatever the
    /// sink holds and whatever was reserved must be dropped. Needs no answer: call
    /// `handle_input` again.
    Abandon,
    /// 220 is in the output: flush it, upgrade, then call [`ServerSession::handle_tls_started`].
    StartTls,
    /// Flush the output and close.
    Close,
}

/// A message whose content is complete.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// MAIL and RCPT.
    pub envelope: Envelope,
    /// Found while reading.
    pub facts: ContentFacts,
    /// For Received's `with`: SMTP, ESMTP, ESMTPS, UTF8SMTP, UTF8SMTPS, LMTP, … (RFC 3848).
    pub protocol: &'static str,
    /// EHLO/HELO/LHLO argument.
    pub helo: Arc<str>,
}

/// Where content goes, un-stuffed, with CRLF line ends, in pieces split anywhere.
pub trait ContentSink {
    /// Takes the next piece.
    fn push(&mut self, piece: &[u8]);
}

/// What [`ServerSession::handle_input`] did.
#[derive(Debug)]
pub struct Progress {
    /// How many bytes of the input were taken; less than all only when `need` is not `Input`.
    pub consumed: usize,
    /// What comes next.
    pub need: Need,
}

/// One session, from greeting to close.
#[derive(Debug)]
pub struct ServerSession {
    _todo: (),
}

impl ServerSession {
    /// Starts with the greeting in the output. A session that may not proceed is started with
    /// [`ServerSession::refused`] instead.
    #[must_use]
    pub fn new(_config: Arc<ServerConfig>, _now: Mono) -> ServerSession {
        todo!()
    }

    /// A session that greets with `reply` (554 or 421). After 421 it needs `Close` at once; after
    /// 554 it answers 503 to all but QUIT (RFC 5321 §3.1).
    #[must_use]
    pub fn refused(_config: Arc<ServerConfig>, _reply: Reply, _now: Mono) -> ServerSession {
        todo!()
    }

    /// Takes input; stops early at a need. Also call it with empty input after an answer.
    pub fn handle_input(
        &mut self,
        _now: Mono,
        _input: &[u8],
        _sink: &mut dyn ContentSink,
    ) -> Progress {
        todo!()
    }

    /// `Err` is the reply that refuses.
    pub fn answer_mail(&mut self, _now: Mono, _answer: Result<(), Reply>) {
        todo!()
    }

    /// `Err` is the reply that refuses; the recipient is then not in the envelope.
    pub fn answer_rcpt(&mut self, _now: Mono, _answer: Result<(), Reply>) {
        todo!()
    }

    /// `Err` is the reply that refuses DATA; for BDAT the chunk is read and dropped first.
    pub fn answer_data(&mut self, _now: Mono, _answer: Result<(), Reply>) {
        todo!()
    }

    /// The final reply of the transaction (for LMTP it is given once per recipient).
    pub fn answer_message(&mut self, _now: Mono, _reply: Reply) {
        todo!()
    }

    /// The connection is encrypted now; the session starts afresh without greeting, and whatever
    /// was received in clear behind STARTTLS has been dropped (RFC 3207 §4.2, §6).
    pub fn handle_tls_started(&mut self, _now: Mono) {
        todo!()
    }

    /// The next moment at which [`ServerSession::handle_timeout`] must be called.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        todo!()
    }

    /// `true`: a 421 4.4.2 is in the output, flush and close. `false`: not yet.
    pub fn handle_timeout(&mut self, _now: Mono) -> bool {
        todo!()
    }

    /// The server stops: 421 4.3.2 in the output; flush and close.
    pub fn handle_shutdown(&mut self) {
        todo!()
    }

    /// Inside a transaction (after MAIL was accepted): shutdown lets these finish for a while.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        todo!()
    }

    /// Replies not yet written. Keeps its allocation: append to it, write it, clear it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        todo!()
    }
}
