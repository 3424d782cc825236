//! Where a session stands, and how its transactions end.

use super::Lesson;

/// The command whose reply comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    /// None: the driver performs the TLS handshake.
    Handshake,
    /// None: the driver says how to log in, or whether it is satisfied.
    Login,
    /// What is said in a login.
    Auth,
    /// The end of a login that was given up.
    Cancelled,
    /// None: a transaction can start.
    Idle,
    Mail,
    /// RCPT for the recipient of this index.
    Rcpt(usize),
    Data,
    /// After the content; the index of the recipient from which on the reply may be for (LMTP).
    Final(usize),
    /// DATA was let in though no recipient was, RFC 2920 §3.1.
    LoneDot,
    Rset,
    Quit,
    Closed,
}

/// What [`ClientEvent::Done`] says besides the outcomes.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) doubtful: bool,
    pub(super) answered: bool,
    pub(super) untried: Vec<usize>,
    pub(super) lesson: Option<Lesson>,
}

/// Whether a failure leaves open what became of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The peer said no.
    Refused,
    /// The peer did not answer.
    Missing,
}
