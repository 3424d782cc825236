//! From the greeting to `Ready` (RFC 5321 §3.1, §3.2; STARTTLS: RFC 3207).

use super::reply::RawReply;
use super::session::ClientSession;
use super::transaction::State;
use super::{Capabilities, ClientEvent, Lesser, StartTls};
use mail::{Class, EnhancedStatus};

impl ClientSession {
    pub(super) fn on_greeting(&mut self, raw: &RawReply<'_>) {
        if raw.code == 220 {
            self.say_ehlo();
        } else {
            self.refused(raw);
        }
    }

    fn say_ehlo(&mut self) {
        self.say_hello(if self.config.lmtp { b"LHLO " } else { b"EHLO " });
        self.state = State::Ehlo;
    }

    fn say_hello(&mut self, verb: &[u8]) {
        self.outbox.commands().extend_from_slice(verb);
        self.outbox.commands().extend_from_slice(self.config.hostname.as_bytes());
        self.outbox.commands().extend_from_slice(b"\r\n");
    }

    pub(super) fn on_ehlo(&mut self, raw: &RawReply<'_>) {
        if raw.is_positive() {
            self.offered = Capabilities::parse(raw);
            // RFC 8689 §2: an offer in clear does not count.
            self.offered.require_tls &= self.is_encrypted;
            let name = raw.lines().next().unwrap_or_default();
            let name = name.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            self.peer_name = String::from_utf8_lossy(name).into();
            self.mechanisms = super::capabilities::login_mechanisms(raw);
            self.choose_tls();
        } else if raw.is_refusal()
            && raw.code / 100 == 5
            // RFC 7504: these codes mean that no mail service exists.
            && !matches!(raw.code, 521 | 554)
            && !self.config.lmtp
        {
            // RFC 5321 §3.2: HELO is tried with a server that does not know EHLO.
            self.say_hello(b"HELO ");
            self.state = State::Helo;
        } else {
            self.refused(raw);
        }
    }

    pub(super) fn on_helo(&mut self, raw: &RawReply<'_>) {
        if raw.is_positive() {
            self.offered = Capabilities::default();
            self.mechanisms = Box::default();
            self.lesser = Some(Lesser::WithoutExtensions);
            self.choose_tls();
        } else {
            self.refused(raw);
        }
    }

    fn choose_tls(&mut self) {
        if self.is_encrypted || self.config.starttls == StartTls::Off {
            self.choose_login();
        } else if self.config.starttls == StartTls::Failed {
            self.lesser.get_or_insert(Lesser::InClear);
            self.choose_login();
        } else if self.offered.starttls {
            self.outbox.commands().extend_from_slice(b"STARTTLS\r\n");
            self.state = State::StartTls;
        } else if self.config.starttls == StartTls::Required {
            let failure = self.own_failure((4, 7, 4), "STARTTLS is required but not offered");
            self.part(failure);
        } else {
            self.choose_login();
        }
    }

    pub(super) fn on_starttls(&mut self, raw: &RawReply<'_>) {
        if raw.code == 220 {
            self.state = State::Handshake;
            self.push_event(ClientEvent::StartTls);
        } else if !raw.is_refusal() {
            self.fail_unexpected(raw);
        } else if self.config.starttls == StartTls::Required {
            let mut failure = self.peer_failure(raw);
            // A refusal of TLS does not reject a recipient, whatever the class of the reply.
            failure.class = Class::Transient;
            failure.status = EnhancedStatus::new(4, 7, 4);
            self.part(failure);
        } else {
            // RFC 3207 §4: the client may continue without TLS.
            self.lesser = Some(Lesser::InClear);
            self.choose_login();
        }
    }

    /// RFC 3207 §4.2: information received in clear is discarded.
    pub(super) fn on_tls_started(&mut self) {
        self.is_encrypted = true;
        self.offered = Capabilities::default();
        self.mechanisms = Box::default();
        self.say_ehlo();
    }

    pub(super) fn on_rset(&mut self, raw: &RawReply<'_>) {
        if !raw.is_positive() {
            self.refused(raw);
        } else if self.transaction.is_some() {
            // RSET was sent before the transaction in flight.
            self.state = State::Mail;
        } else {
            self.become_ready();
        }
    }

    pub(super) fn become_ready(&mut self) {
        self.state = State::Idle;
        self.push_event(ClientEvent::Ready);
    }

    /// Handles a peer's refusal of the session.
    fn refused(&mut self, raw: &RawReply<'_>) {
        if raw.is_refusal() {
            let mut failure = self.peer_failure(raw);
            if self.transaction.is_some() {
                // A refusal of RSET does not reject a recipient, whatever the class of the reply.
                failure.class = Class::Transient;
                failure.status = EnhancedStatus::new(4, 5, 0);
            }
            self.part(failure);
        } else {
            self.fail_unexpected(raw);
        }
    }
}
