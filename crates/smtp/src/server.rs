//! The server's side of one session.
//!
//! The driver feeds bytes with [`ServerSession::handle_input`] and obeys the [`Need`] it returns:
//! the session parses no further until that need is answered, but for recipients: while some are
//! open it goes on with the RCPTs behind them. Replies pile up in an output buffer
//! that the driver takes with [`ServerSession::output`] and writes whenever it is not empty
//! and no more input is at hand, so that pipelined commands are answered with one write.
//!
//! Where a message ends is decided in one place, `server/content.rs`, and nowhere by anything but
//! CRLF . CRLF or an octet count; where a command ends, in `server/line.rs`, by nothing but CRLF.

mod answers;
mod command;
mod config;
mod content;
mod dispatch;
mod line;
mod login;
mod open_recipients;
mod parameters;
mod recipients;
mod refusing;
mod replies;
mod session;
mod transfer;
mod xclient;

pub use config::{BareNewline, LoginRules, Nul, RECIPIENTS_OPEN_MAX, ServerConfig};
pub use login::{LOGIN_LINE_BYTES_MAX, LoginAnswer};
pub use replies::Refused;
pub use session::ServerSession;
pub use xclient::{XCLIENT_VALUE_BYTES_MAX, Xclient, XclientName};

use crate::wishes::DeliveryOptions;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, Recipient};
use std::fmt;
use std::sync::Arc;

/// A MAIL command whose syntax is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailCommand {
    /// The sender; `None` is the null reverse-path `<>`.
    pub reverse_path: Option<Mailbox>,
    /// SIZE=, if given; a number beyond 64 bits counts as [`u64::MAX`].
    pub size: Option<u64>,
    /// What BODY= declares (RFC 6152).
    pub body: BodyType,
    /// SMTPUTF8 was given (RFC 6531 §3.4).
    pub smtputf8: bool,
    /// REQUIRETLS was given (RFC 8689 §2).
    pub require_tls: bool,
}

/// What a client says in an exchange of AUTH, decoded. It is a secret as a rule.
#[derive(PartialEq, Eq)]
pub enum LoginSaid {
    /// An exchange begins. One that was under way is over.
    Begin {
        /// One of [`LoginRules::mechanisms`].
        mechanism: &'static str,
        /// What came with the command.
        initial: Option<Vec<u8>>,
    },
    /// The answer to the last challenge.
    Response(Vec<u8>),
}

/// Nobody is shown what was said.
impl fmt::Debug for LoginSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginSaid::Begin { mechanism, .. } => write!(f, "Begin({mechanism})"),
            LoginSaid::Response(_) => f.write_str("Response"),
        }
    }
}

/// What the session waits for. Exactly one answer per need.
#[derive(Debug)]
pub enum Need {
    /// All input was consumed; feed more. Recipients may be open meanwhile.
    Input,
    /// Answer with [`ServerSession::answer_login`].
    Login(LoginSaid),
    /// Whoever speaks is another client from here on: answer with [`ServerSession::answer_xclient`], or
    /// with another session ([`ServerSession::refused`]) if that one may not proceed. What was received
    /// behind the command is that one's.
    Xclient(Box<Xclient>),
    /// Answer with [`ServerSession::answer_mail`].
    Mail(MailCommand),
    /// Answer with [`ServerSession::answer_rcpt`], at once or later: this recipient is then open,
    /// and `handle_input` goes on with the commands behind it. Domain empty means bare
    /// `<postmaster>`.
    Rcpt {
        /// Names it in the answer. Each transaction counts from 0.
        number: u32,
        /// As RCPT gave it.
        recipient: Recipient,
    },
    /// Nothing more is parsed until an open recipient is answered: the next command is none that
    /// opens a recipient, or no more than [`ServerConfig::recipients_open_max`] may be open. Flush
    /// the output, read no more, and call `handle_input` again behind an answer.
    Answers,
    /// Before 354 or before the first BDAT chunk is read: answer with
    /// [`ServerSession::answer_data`] once room for the message is reserved.
    Data {
        /// Recipients in the envelope.
        recipients: usize,
        /// The command was DATA: no content may come before 354. When some is at hand already,
        /// [`ServerSession::refuse_early_content`] is the answer.
        waits_for_354: bool,
    },
    /// A DATA was refused before anything was asked. When input came with it, [`ServerSession::end_early_content`]
    /// is the answer; else call `handle_input` again.
    DataRefused,
    /// The content is complete and clean; it is all in the sink. Answer with
    /// [`ServerSession::answer_message`] when it is durable.
    Message(Box<Transaction>),
    /// The transaction ended without a message (RSET, EHLO, refused content, size): whatever the
    /// sink holds and whatever was reserved must be dropped. Needs no answer: call
    /// `handle_input` again.
    Abandon,
    /// Answer with [`ServerSession::answer_starttls`]; if it may be done flush the output, upgrade,
    /// then call [`ServerSession::handle_tls_started`]. All input was consumed, and what stood behind STARTTLS is dropped.
    StartTls,
    /// Flush the output and close. A transaction that was open is over, as with `Abandon`.
    Close,
}

/// A message whose content is complete.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Sender, accepted recipients and their parameters.
    pub envelope: Envelope,
    /// Size, line lengths, 8-bit data and the like, measured while the content was read.
    pub facts: ContentFacts,
    /// REQUIRETLS was given (RFC 8689).
    pub require_tls: bool,
    /// When and before what it is to be sent.
    pub wishes: DeliveryOptions,
    /// For Received's `with`: SMTP, ESMTP, ESMTPSA, UTF8SMTP, UTF8SMTPS, LMTP, … (RFC 3848).
    pub protocol: &'static str,
    /// EHLO/HELO/LHLO argument: printable ASCII without blanks, at most 255 bytes.
    pub helo: Arc<str>,
}

/// Where content goes, un-stuffed, with CRLF line ends, in pieces split anywhere.
pub trait ContentSink {
    /// Takes the next piece.
    fn push(&mut self, piece: &[u8]);
}

/// How far [`ServerSession::handle_input`] got.
#[derive(Debug)]
pub struct InputProgress {
    /// How many bytes of the input were taken; less than all only when `need` is not `Input`.
    pub consumed: usize,
    /// What the session needs before it can go on.
    pub need: Need,
}
