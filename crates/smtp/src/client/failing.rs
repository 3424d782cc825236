//! Failures of a session: their text, the responsible side, and the awaited reply.

use super::reply::{RawReply, ReplyError};
use super::session::ClientSession;
use super::transaction::{PeerDecision, State};
use mail::{Class, Culprit, EnhancedStatus, Failure, Step};
use std::borrow::Cow;

impl ClientSession {
    pub(super) fn fail_network(&mut self, how: &str) {
        let doing: Cow<'_, str> = match self.state {
            _ if self.outbox.is_sending_content() => Cow::Borrowed("sending the content"),
            State::Greeting => Cow::Borrowed("waiting for the greeting"),
            State::Handshake => Cow::Borrowed("starting TLS"),
            State::Login => Cow::Borrowed("logging in"),
            State::Idle => Cow::Borrowed("idle"),
            _ => Cow::Owned(format!("waiting for the reply to {}", self.step())),
        };
        let failure = Failure::network(
            self.config.peer.clone(),
            // RFC 3463 §3.5: bad connection.
            EnhancedStatus::new(4, 4, 2),
            format!("{how} while {doing}"),
        );
        self.fail(failure, PeerDecision::Missing);
    }

    /// The peer broke the protocol.
    pub(super) fn fail_protocol(&mut self, text: &str, verdict: PeerDecision) {
        let failure = self.own_failure((4, 5, 0), text);
        self.fail(failure, verdict);
    }

    pub(super) fn fail_unreadable(&mut self, error: ReplyError) {
        if self.state == State::Quit {
            self.close(None);
            return;
        }
        self.fail_protocol(error.text(), PeerDecision::Missing);
    }

    /// An unsolicited reply, or one of a kind that the command does not allow.
    pub(super) fn fail_unexpected(&mut self, raw: &RawReply<'_>) {
        let text = match self.is_unasked() {
            true => Cow::Borrowed("unsolicited reply"),
            false => Cow::Owned(format!("unexpected reply to {}", self.step())),
        };
        self.fail_reply(raw, &text);
    }

    /// A reply that breaks the protocol; `text` explains the error.
    pub(super) fn fail_reply(&mut self, raw: &RawReply<'_>, text: &str) {
        let mut failure = self.own_failure((4, 5, 0), text);
        failure.reply = Some(raw.to_reply());
        if !self.forgive(&failure) {
            self.fail(failure, PeerDecision::Missing);
        }
    }

    /// A failure caused by the peer without a reply.
    pub(super) fn own_failure(&self, status: (u8, u16, u16), text: &str) -> Failure {
        Failure {
            class: if status.0 == 5 { Class::Permanent } else { Class::Transient },
            culprit: Culprit::Peer(self.config.peer.clone()),
            status: EnhancedStatus::new(status.0, status.1, status.2),
            reply: None,
            heard: None,
            step: None,
            text: text.into(),
        }
    }

    /// The failure for the peer's reply to the current command.
    pub(super) fn peer_failure(&self, raw: &RawReply<'_>) -> Failure {
        let mut failure = Failure::peer(self.config.peer.clone(), raw.to_reply(), self.step());
        match self.state {
            State::Idle => failure.text = "while idle".into(),
            State::Final(_) if !self.is_content_written() => {
                failure.text = "while the content was being sent".into();
            }
            _ => {}
        }
        failure
    }

    /// The step that the awaited reply belongs to.
    pub(super) fn step(&self) -> Step {
        match self.state {
            State::Greeting => Step::Connect,
            State::Ehlo if self.config.lmtp => Step::Lhlo,
            State::Ehlo => Step::Ehlo,
            State::Helo => Step::Helo,
            State::StartTls | State::Handshake => Step::StartTls,
            State::Login | State::Auth | State::Cancelled => Step::Auth,
            State::Mail => Step::MailFrom,
            State::Rcpt(_) => Step::RcptTo,
            State::Data => Step::Data,
            State::Final(_) if self.transaction.as_ref().is_some_and(|t| t.is_bdat) => Step::Bdat,
            State::Final(_) => Step::FinalDot,
            State::LoneDot => Step::LoneDot,
            State::Rset => Step::Rset,
            State::Quit | State::Idle | State::Closed => Step::Quit,
        }
    }
}
