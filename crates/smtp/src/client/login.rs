//! Authentication (RFC 4954). The driver knows the mechanisms and supplies the responses; this module encodes and sends
//! them, and reads the replies.

use super::reply::RawReply;
use super::session::ClientSession;
use super::transaction::State;
use super::{ClientEvent, LoginTerms};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail::{Class, EnhancedStatus, Failure, Mono};

/// RFC 4954 §4: AUTH with an initial response has the limit of any command line (RFC 5321 §4.5.3.1.4).
const LINE_BYTES_MAX: usize = 512;

/// The line that cancels an exchange (RFC 4954 §4).
const CANCEL: &[u8] = b"*\r\n";

impl ClientSession {
    /// The mechanisms offered by the peer: the arguments of AUTH in its last reply to EHLO.
    pub fn login_mechanisms(&self) -> impl Iterator<Item = &str> {
        self.mechanisms.split_ascii_whitespace()
    }

    /// TLS is decided: a session that must log in does so now.
    pub(super) fn choose_login(&mut self) {
        match self.config.login {
            LoginTerms::Off => self.become_ready(),
            LoginTerms::Encrypted if !self.is_encrypted => {
                // RFC 3463 §3.8, RFC 4954 §6: X.7.11, encryption required.
                let text =
                    "authentication is for encrypted connections only, and this one is in clear";
                let failure = self.own_failure((4, 7, 11), text);
                self.part(failure);
            }
            LoginTerms::Encrypted | LoginTerms::Anyway => {
                self.state = State::Login;
                self.push_event(ClientEvent::Login);
            }
        }
    }

    /// Begins an exchange, after [`ClientEvent::Login`].
    pub fn log_in(&mut self, now: Mono, mechanism: &str, initial: Option<&[u8]>) {
        if self.state != State::Login {
            return;
        }
        self.outbox.commands().extend_from_slice(b"AUTH ");
        self.outbox.commands().extend_from_slice(mechanism.as_bytes());
        if let Some(initial) = initial {
            // RFC 4954 §4: an empty one is written so.
            let text = match initial {
                [] => "=".to_owned(),
                initial => STANDARD.encode(initial),
            };
            if b"AUTH  \r\n".len() + mechanism.len() + text.len() <= LINE_BYTES_MAX {
                self.outbox.commands().push(b' ');
                self.outbox.commands().extend_from_slice(text.as_bytes());
            } else {
                self.initial = Some(text.into());
            }
        }
        self.await_reply(now);
    }

    /// Answers a [`ClientEvent::Challenge`].
    pub fn respond(&mut self, now: Mono, response: &[u8]) {
        if self.state == State::Login {
            let text = STANDARD.encode(response);
            self.outbox.commands().extend_from_slice(text.as_bytes());
            self.await_reply(now);
        }
    }

    fn await_reply(&mut self, now: Mono) {
        self.outbox.commands().extend_from_slice(b"\r\n");
        self.state = State::Auth;
        self.rearm(now);
    }

    /// After [`ClientEvent::LoggedIn`]: the driver believes it.
    pub fn handle_logged_in(&mut self, _now: Mono) {
        if self.state == State::Login {
            self.become_ready();
        }
    }

    /// Gives up after [`ClientEvent::Login`], [`ClientEvent::LoggedIn`] or, `within` the exchange,
    /// [`ClientEvent::Challenge`]: the session ends with `failure`.
    pub fn give_up_login(&mut self, now: Mono, failure: Failure, within: bool) {
        if self.state != State::Login {
            return;
        }
        if within {
            self.outbox.commands().extend_from_slice(CANCEL);
            self.cancelled = Some(failure);
            self.state = State::Cancelled;
        } else {
            self.part(failure);
        }
        self.rearm(now);
    }

    pub(super) fn on_auth(&mut self, raw: &RawReply<'_>) {
        match raw.code {
            334 => self.on_challenge(raw),
            235 => {
                self.state = State::Login;
                self.push_event(ClientEvent::LoggedIn);
            }
            _ if raw.is_refusal() => {
                let failure = self.login_refused(raw);
                self.part(failure);
            }
            _ => self.fail_unexpected(raw),
        }
    }

    fn on_challenge(&mut self, raw: &RawReply<'_>) {
        if let Some(initial) = self.initial.take() {
            self.outbox.commands().extend_from_slice(initial.as_bytes());
            self.outbox.commands().extend_from_slice(b"\r\n");
            return;
        }
        let text = raw.lines().next().unwrap_or_default().trim_ascii();
        match STANDARD.decode(text) {
            Ok(challenge) => {
                self.state = State::Login;
                self.push_event(ClientEvent::Challenge(challenge));
            }
            Err(_) => {
                let text = "authentication challenge is not base64";
                self.cancelled = Some(self.own_failure((4, 5, 2), text));
                self.outbox.commands().extend_from_slice(CANCEL);
                self.state = State::Cancelled;
            }
        }
    }

    /// The session ends, whatever the reply.
    pub(super) fn on_cancelled(&mut self) {
        let failure = self.cancelled.take();
        let failure =
            failure.unwrap_or_else(|| self.own_failure((4, 7, 0), "authentication was cancelled"));
        self.part(failure);
    }

    /// A refused login is no verdict on a recipient, whatever the class of the reply. Mail waits until an operator
    /// corrects the password.
    fn login_refused(&self, raw: &RawReply<'_>) -> Failure {
        let mut failure = self.peer_failure(raw);
        failure.class = Class::Transient;
        // RFC 4954 §6.
        let detail = match raw.code {
            535 => 8,
            534 => 9,
            538 => 11,
            432 => 12,
            _ => 0,
        };
        failure.status = EnhancedStatus::new(4, 7, detail);
        failure
    }
}
