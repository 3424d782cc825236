//! A transaction in progress: commands sent, and the replies for its recipients.

use super::command::needs_smtputf8;
use super::{HostQuirk, Outgoing};
use mail::{Failure, Mono, Reply};

/// The transaction that is running.
#[derive(Debug)]
pub(super) struct RunningTransaction {
    pub(super) outgoing: Outgoing,
    /// `None`: open, that is not answered yet or accepted.
    pub(super) outcomes: Vec<Option<Result<Reply, Failure>>>,
    /// Positive replies to RCPT.
    pub(super) accepted_count: usize,
    pub(super) is_mail_refused: bool,
    /// RCPT, and DATA without BDAT, were sent without waiting. BDAT waits for the replies (RFC 3030 §2): a peer that
    /// refuses a chunk and does not discard it reads it as commands.
    pub(super) is_pipelined: bool,
    /// The content is sent with BDAT.
    pub(super) is_bdat: bool,
    /// Only a probe of its recipient, without content.
    pub(super) is_probe: bool,
    /// The content is in the output.
    pub(super) is_content_said: bool,
    /// The driver has written the content to its end.
    pub(super) is_content_written: bool,
    /// The peer replied to one of its commands.
    pub(super) is_answered: bool,
    /// MAIL has the parameter SMTPUTF8.
    pub(super) is_smtputf8: bool,
    /// Recipients, in order, without a RCPT: they failed before.
    pub(super) unsaid: Vec<usize>,
    /// As in `ClientEvent::Done`.
    pub(super) untried: Vec<usize>,
    pub(super) lesson: Option<HostQuirk>,
    /// End of the allowed time.
    pub(super) until: Mono,
}

impl RunningTransaction {
    pub(super) fn new(outgoing: Outgoing, until: Mono) -> RunningTransaction {
        RunningTransaction {
            outcomes: vec![None; outgoing.recipients.len()],
            outgoing,
            is_smtputf8: false,
            unsaid: Vec::new(),
            untried: Vec::new(),
            lesson: None,
            until,
            accepted_count: 0,
            is_mail_refused: false,
            is_pipelined: false,
            is_bdat: false,
            is_probe: false,
            is_content_said: false,
            is_content_written: false,
            is_answered: false,
        }
    }

    /// End of the allowed time. Once all is written the peer may have the message, whatever its age, so only the
    /// transaction's own limit counts.
    pub(super) fn deadline(&self) -> Mono {
        match self.is_content_written {
            true => self.until,
            false => self.until.min(self.outgoing.expires),
        }
    }

    /// DATA is sent with the recipients.
    pub(super) fn has_said_data(&self) -> bool {
        self.is_pipelined && !self.is_bdat && !self.is_probe
    }

    /// The first recipient from `index` on that gets a RCPT.
    pub(super) fn next_said(&self, index: usize) -> usize {
        (index..).find(|at| self.unsaid.binary_search(at).is_err()).unwrap_or(index)
    }

    /// Sets the failures of recipients that cannot be sent to this peer.
    pub(super) fn leave_out(&mut self, failure: Option<Failure>) {
        let Some(failure) = failure else { return };
        let recipients = self.outgoing.recipients.iter().zip(&mut self.outcomes).enumerate();
        for (index, (recipient, outcome)) in recipients {
            if needs_smtputf8(&recipient.mailbox) {
                *outcome = Some(Err(failure.clone()));
                self.unsaid.push(index);
            }
        }
    }
}

/// The command that the next reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    /// None: the driver performs the TLS handshake.
    Handshake,
    /// None: the driver chooses the login, or checks its result.
    Login,
    /// A response of a login.
    Auth,
    /// The end of a cancelled login.
    Cancelled,
    /// None: a transaction can start.
    Idle,
    Mail,
    /// RCPT for the recipient of this index.
    Rcpt(usize),
    Data,
    /// After the content, with the index of the first recipient that the reply can be for (LMTP).
    Final(usize),
    /// DATA was accepted without an accepted recipient, RFC 2920 §3.1.
    LoneDot,
    Rset,
    Quit,
    Closed,
}

/// The parts of [`ClientEvent::Done`](super::ClientEvent::Done) besides the outcomes.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) doubtful: bool,
    pub(super) answered: bool,
    pub(super) untried: Vec<usize>,
    pub(super) lesson: Option<HostQuirk>,
}

/// The peer's decision at a failure; without one the fate of the content is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerDecision {
    /// The peer refused.
    Refused,
    /// The peer did not answer.
    Missing,
}
