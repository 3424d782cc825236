//! The server side of one session.
//!
//! The driver passes bytes to [`ServerSession::handle_input`] and obeys the returned [`Need`]. The session parses no
//! further until that need is answered, except for recipients: while some are open it continues with the RCPTs after
//! them. Replies collect in an output buffer. The driver fetches it with [`ServerSession::output`] and writes it
//! whenever it is not empty and no more input is available, so that pipelined commands are answered with one write.
//!
//! The end of a message is decided in one place, `server/content.rs`, only by CRLF . CRLF or an octet count. The end of
//! a command is decided in `server/line.rs`, only by CRLF.

mod answers;
mod command;
mod config;
mod content;
mod counts;
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
pub use counts::CommandCounts;
pub use login::{LOGIN_LINE_BYTES_MAX, LoginAnswer};
pub use replies::Refused;
pub use session::ServerSession;
pub use xclient::{XCLIENT_VALUE_BYTES_MAX, Xclient, XclientName};

use crate::wishes::DeliveryOptions;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, Recipient};
use std::fmt;
use std::sync::Arc;

/// A MAIL command with valid syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailCommand {
    /// The sender; `None` is the null reverse-path `<>`.
    pub reverse_path: Option<Mailbox>,
    /// SIZE=, if given; a number beyond 64 bits counts as [`u64::MAX`].
    pub size: Option<u64>,
    /// The type declared with BODY= (RFC 6152).
    pub body: BodyType,
    /// SMTPUTF8 was given (RFC 6531 §3.4).
    pub smtputf8: bool,
    /// REQUIRETLS was given (RFC 8689 §2).
    pub require_tls: bool,
}

/// A client message in an exchange of AUTH, decoded. It is usually a secret.
#[derive(PartialEq, Eq)]
pub enum LoginSaid {
    /// An exchange begins; a pending one is over.
    Begin {
        /// One of [`LoginRules::mechanisms`].
        mechanism: &'static str,
        /// The initial response of the command.
        initial: Option<Vec<u8>>,
    },
    /// The answer to the last challenge.
    Response(Vec<u8>),
}

/// Secrets are not shown.
impl fmt::Debug for LoginSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginSaid::Begin { mechanism, .. } => write!(f, "Begin({mechanism})"),
            LoginSaid::Response(_) => f.write_str("Response"),
        }
    }
}

/// A need of the session. Exactly one answer per need.
#[derive(Debug)]
pub enum Need {
    /// All input was consumed; feed more. Recipients may still be open.
    Input,
    /// Answer with [`ServerSession::answer_login`].
    Login(LoginSaid),
    /// The session continues for another client: answer with [`ServerSession::answer_xclient`], or with a new session
    /// ([`ServerSession::refused`]) to refuse that client. Input after the command is from that client.
    Xclient(Box<Xclient>),
    /// Answer with [`ServerSession::answer_mail`].
    Mail(MailCommand),
    /// Answer with [`ServerSession::answer_rcpt`], at once or later: this recipient is then open, and `handle_input`
    /// continues with the following commands. An empty domain means bare `<postmaster>`.
    Rcpt {
        /// Identifies it in the answer. Counts from 0 in each transaction.
        number: u32,
        /// As RCPT gave it.
        recipient: Recipient,
    },
    /// Parsing waits for the answer to an open recipient: the next command does not open a recipient, or
    /// [`ServerConfig::recipients_open_max`] is reached. Flush the output, read no more, and call `handle_input` again
    /// after an answer.
    Answers,
    /// Before 354 or before the first BDAT chunk is read: answer with [`ServerSession::answer_data`] once space for the
    /// message is reserved.
    Data {
        /// Recipients in the envelope.
        recipients: usize,
        /// The command was DATA: no content may come before 354. If some has arrived already, answer with
        /// [`ServerSession::refuse_early_content`].
        waits_for_354: bool,
    },
    /// A DATA was refused without a need. If input came with it, answer with [`ServerSession::end_early_content`];
    /// otherwise call `handle_input` again.
    DataRefused,
    /// The content is complete, valid and entirely in the sink. Answer with [`ServerSession::answer_message`] once it
    /// is durable.
    Message(Box<Transaction>),
    /// The transaction ended without a message (RSET, EHLO, refused content, size): drop the content of the sink and
    /// any reservation. Needs no answer: call `handle_input` again.
    Abandon,
    /// Answer with [`ServerSession::answer_starttls`]. If TLS may start, flush the output, upgrade, then call
    /// [`ServerSession::handle_tls_started`]. All input was consumed, and input after STARTTLS is dropped.
    StartTls,
    /// Flush the output and close. A transaction that was open is over, as with `Abandon`.
    Close,
}

/// A message with complete content.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Sender, accepted recipients and their parameters.
    pub envelope: Envelope,
    /// Size, line lengths, 8-bit data and the like, measured while the content was read.
    pub facts: ContentFacts,
    /// REQUIRETLS was given (RFC 8689).
    pub require_tls: bool,
    /// Priority and times of delivery.
    pub wishes: DeliveryOptions,
    /// For Received's `with`: SMTP, ESMTP, ESMTPSA, UTF8SMTP, UTF8SMTPS, LMTP, … (RFC 3848).
    pub protocol: &'static str,
    /// EHLO/HELO/LHLO argument: printable ASCII without blanks, at most 255 bytes.
    pub helo: Arc<str>,
}

/// Receives content, un-stuffed, with CRLF line ends, in pieces split anywhere.
pub trait ContentSink {
    /// Takes the next piece.
    fn push(&mut self, piece: &[u8]);
}

/// Progress of [`ServerSession::handle_input`].
#[derive(Debug)]
pub struct InputProgress {
    /// Number of input bytes consumed; less than all only if `need` is not `Input`.
    pub consumed: usize,
    /// The need to answer before the session continues.
    pub need: Need,
}
