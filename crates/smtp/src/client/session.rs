//! The session: input, output and timeouts. Replies are interpreted in `opening` (greeting to `Ready`) and
//! `transaction`.

use super::outbox::{FlushedOutput, Outbox};
use super::reply::{RawReply, ReplyLimits, ReplyReader};
use super::transaction::{Ending, PeerDecision, RunningTransaction, State};
use super::{Capabilities, ClientConfig, ClientEvent, Lesser, Outgoing, Output};
use mail::{Class, EnhancedStatus, Failure, Mailbox, Mono};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// RFC 5321 §4.1.1.10 requires clients to wait for the reply to QUIT. Nothing depends on it, so the wait is short.
const QUIT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// A session with a peer, from greeting to QUIT.
#[derive(Debug)]
pub struct ClientSession {
    pub(super) config: Arc<ClientConfig>,
    pub(super) state: State,
    pub(super) offered: Capabilities,
    /// The peer's name for itself.
    pub(super) peer_name: Box<str>,
    /// Mechanisms offered by the peer.
    pub(super) mechanisms: Box<str>,
    /// An initial response to send after an empty challenge.
    pub(super) initial: Option<Box<str>>,
    /// Reason for cancelling the login.
    pub(super) cancelled: Option<Failure>,
    pub(super) is_encrypted: bool,
    is_starttls_broken: bool,
    /// Reduced service of this session compared with the peer's usual one, if any.
    pub(super) lesser: Option<Lesser>,
    /// The transaction that the next replies belong to.
    pub(super) transaction: Option<RunningTransaction>,
    /// Transactions sent after it before its replies arrived, each after a RSET.
    pub(super) following: VecDeque<RunningTransaction>,
    pub(super) outbox: Outbox,
    /// The begun reply in `reader` began before the last command was sent.
    is_stale: bool,
    reader: ReplyReader,
    /// Number of replies read.
    replies: u32,
    /// The peer offers CHUNKING and has refused BDAT as unknown.
    pub(super) is_bdat_unusable: bool,
    deadline: Mono,
    /// Reason for a QUIT sent without a request by the driver.
    parting: Option<Failure>,
    events: VecDeque<ClientEvent>,
    #[cfg(feature = "planted")]
    forgives: bool,
}

impl ClientSession {
    /// Waits for the greeting.
    #[must_use]
    pub fn new(config: Arc<ClientConfig>, now: Mono) -> ClientSession {
        let mut session = ClientSession {
            is_encrypted: config.is_encrypted,
            config,
            state: State::Greeting,
            offered: Capabilities::default(),
            peer_name: Box::default(),
            mechanisms: Box::default(),
            initial: None,
            cancelled: None,
            is_starttls_broken: false,
            lesser: None,
            transaction: None,
            following: VecDeque::new(),
            outbox: Outbox::default(),
            is_stale: false,
            reader: ReplyReader::default(),
            replies: 0,
            is_bdat_unusable: false,
            deadline: Mono::NEVER,
            parting: None,
            events: VecDeque::new(),
            #[cfg(feature = "planted")]
            forgives: false,
        };
        session.arm(now);
        session
    }

    /// The session is over: an unfinished write may be aborted.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The extensions in the peer's last reply to EHLO; none before that.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.offered
    }

    /// The peer's name in its reply to EHLO (RFC 5321 §4.1.1.1); empty before that. It is not verified.
    #[must_use]
    pub fn peer_name(&self) -> &str {
        &self.peer_name
    }

    /// The session is over because STARTTLS, offered by the peer, failed: no reply, an invalid one, or data in clear
    /// after it. A session in clear may work.
    #[must_use]
    pub fn is_starttls_broken(&self) -> bool {
        self.is_starttls_broken
    }

    /// Returns true if the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Reduced service of the session; known at `Ready`.
    #[must_use]
    pub fn lesser(&self) -> Option<Lesser> {
        self.lesser
    }

    /// Returns true if [`ClientSession::start`] may be called with this transaction now: after `Ready`, or behind
    /// transactions in flight. The latter needs a peer with PIPELINING and CHUNKING, and all output written. The
    /// transaction must also be free of errors that would be reported before the outcomes of those in flight.
    #[must_use]
    pub fn can_start(&self, outgoing: &Outgoing) -> bool {
        matches!(self.state, State::Idle | State::Closed) || self.can_follow(outgoing)
    }

    /// Begins a transaction, if [`ClientSession::can_start`] allows it. On a closed session all recipients fail with a
    /// transient failure.
    pub fn start(&mut self, now: Mono, outgoing: Outgoing) {
        debug_assert!(self.can_start(&outgoing), "start() before Ready");
        if self.state == State::Idle {
            return self.begin_now(now, outgoing, false);
        }
        if self.can_follow(&outgoing) {
            // The deadline stays that of the transaction with the next replies.
            return self.follow(now, outgoing);
        }
        self.refuse_closed(&outgoing);
    }

    /// Probes if the peer would accept mail for this recipient, without sending any: MAIL, RCPT, RSET. The outcome in
    /// `Done` is the reply to RCPT, or the failure. Only after `Ready`, with no transaction in flight.
    pub fn probe(&mut self, now: Mono, reverse_path: Option<Mailbox>, recipient: Mailbox) {
        let outgoing = Outgoing::without_content(reverse_path, recipient);
        debug_assert!(matches!(self.state, State::Idle | State::Closed), "probe() before Ready");
        match self.state {
            State::Idle => self.begin_now(now, outgoing, true),
            _ => self.refuse_closed(&outgoing),
        }
    }

    fn begin_now(&mut self, now: Mono, outgoing: Outgoing, is_probe: bool) {
        self.is_stale = self.reader.is_within_reply();
        self.begin(now, outgoing, is_probe);
        self.arm(now);
    }

    /// A closed session starts no transaction.
    fn refuse_closed(&mut self, outgoing: &Outgoing) {
        let failure = Failure::network(
            self.config.peer.clone(),
            EnhancedStatus::new(4, 4, 2),
            "the session is over",
        );
        let outcomes = outgoing.recipients.iter().map(|_| Err(failure.clone())).collect();
        self.push_done(outcomes, Ending::default());
    }

    /// Sends QUIT; only when idle (after `Ready`, without a transaction). In other states it ends the session without
    /// QUIT.
    pub fn quit(&mut self, now: Mono) {
        match self.state {
            State::Quit | State::Closed => {}
            State::Idle => {
                self.is_stale = false;
                self.say_quit();
                self.arm(now);
            }
            _ => {
                let status = EnhancedStatus::new(4, 3, 2);
                let failure = Failure::local(Class::Transient, status, "the session was ended");
                self.settle_all(&failure, PeerDecision::Missing);
                self.close(None);
            }
        }
    }

    pub(super) fn say_quit(&mut self) {
        self.outbox.commands().extend_from_slice(b"QUIT\r\n");
        self.state = State::Quit;
    }

    /// Handles input from the peer.
    pub fn handle_input(&mut self, now: Mono, input: &[u8]) {
        if self.state == State::Closed || input.is_empty() {
            return;
        }
        // Taken out of the session because the reply borrows from it.
        let mut reader = std::mem::take(&mut self.reader);
        let limits = ReplyLimits {
            line_bytes_max: self.config.reply_line_bytes_max,
            lines_max: self.config.reply_lines_max,
        };
        let mut rest = input;
        while self.state != State::Closed {
            if self.state == State::Handshake && !rest.is_empty() {
                // RFC 3207 §6: data injected in clear must not count as sent under TLS.
                self.fail_protocol(
                    "unencrypted data after the reply to STARTTLS",
                    PeerDecision::Missing,
                );
                break;
            }
            match reader.next(&mut rest, limits) {
                Ok(None) => break,
                Ok(Some(raw)) => {
                    self.handle_reply(&raw);
                    self.arm(now);
                }
                Err(error) => self.fail_unreadable(error),
            }
        }
        if reader.is_within_reply() && self.is_unsaid() {
            self.is_stale = true;
        }
        if self.state == State::Idle {
            reader.shrink();
        }
        self.reader = reader;
    }

    fn handle_reply(&mut self, raw: &RawReply<'_>) {
        self.replies = self.replies.wrapping_add(1);
        if self.state == State::Quit {
            return self.close(None);
        }
        // RFC 5321 §3.8: a server that must shut down may send 421 at any time.
        if raw.code == 421 {
            let failure = self.peer_failure(raw);
            return self.fail(failure, PeerDecision::Refused);
        }
        if self.is_unasked() && !self.is_refusal_of_content(raw) {
            return self.fail_unexpected(raw);
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.is_answered = true;
        }
        match self.state {
            State::Greeting => self.on_greeting(raw),
            State::Ehlo => self.on_ehlo(raw),
            State::Helo => self.on_helo(raw),
            State::StartTls => self.on_starttls(raw),
            State::Auth => self.on_auth(raw),
            State::Cancelled => self.on_cancelled(),
            State::Mail => self.on_mail(raw),
            State::Rcpt(index) => self.on_rcpt(index, raw),
            State::Data => self.on_data(raw),
            State::Final(index) => self.on_final(index, raw),
            State::LoneDot => self.on_lone_dot(raw),
            State::Rset => self.on_rset(raw),
            State::Handshake | State::Login | State::Idle | State::Quit | State::Closed => {
                self.fail_unexpected(raw);
            }
        }
    }

    /// The peer closed its side, or reading or writing failed; `text` is the error.
    pub fn handle_broken(&mut self, _now: Mono, text: &str) {
        match self.state {
            State::Closed => {}
            State::Quit => self.close(None),
            _ => {
                let how = match text {
                    "" => Cow::Borrowed("connection lost"),
                    text => Cow::Owned(format!("connection lost ({text})")),
                };
                self.fail_network(&how);
            }
        }
    }

    /// Emits `Done` and `Closed` events if the deadline has passed.
    pub fn handle_timeout(&mut self, now: Mono) {
        if now < self.deadline() {
            return;
        }
        match self.state {
            // Also if the deadline is NEVER, for any `now`.
            State::Closed | State::Idle => {}
            State::Quit => self.close(None),
            _ if now < self.deadline => self.fail_network("transaction timed out"),
            _ => self.fail_network("timed out"),
        }
    }

    /// The connection is now encrypted: EHLO is sent again.
    pub fn handle_tls_started(&mut self, now: Mono) {
        debug_assert!(matches!(self.state, State::Handshake | State::Closed));
        if self.state == State::Handshake {
            self.on_tls_started();
            self.arm(now);
        }
    }

    /// The next pieces to write, in order, up to the end of the sendable output. `out` is cleared first. It stays empty
    /// without new output, or while earlier pieces are unwritten. The pieces refer to [`ClientSession::buffer`] and
    /// stay valid until [`ClientSession::handle_written`].
    pub fn poll_output(&mut self, out: &mut Vec<Output>) {
        out.clear();
        if self.state != State::Closed {
            self.outbox.poll(out);
        }
    }

    /// The bytes that `Output::Bytes` refers to.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        self.outbox.buffer()
    }

    /// The driver has written the output of the last `poll_output`; timeouts count from `now`.
    pub fn handle_written(&mut self, now: Mono) {
        if self.state == State::Closed {
            return;
        }
        if self.state == State::Auth {
            self.outbox.forget();
        }
        match self.outbox.handle_written() {
            FlushedOutput::Nothing => return,
            FlushedOutput::Commands => {}
            FlushedOutput::Content => {
                let latest = self.following.back_mut().or(self.transaction.as_mut());
                latest.into_iter().for_each(|transaction| transaction.is_content_written = true);
            }
        }
        self.arm(now);
    }

    /// Handles progress in writing a long content: the timeout starts again at `now`.
    pub fn handle_progress(&mut self, now: Mono) {
        if self.outbox.is_writing() {
            self.arm(now);
        }
    }

    /// Returns the next event, in order.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Number of replies read so far.
    #[must_use]
    pub fn replies(&self) -> u32 {
        self.replies
    }

    /// Time at which [`ClientSession::handle_timeout`] must be called.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        match &self.transaction {
            Some(transaction) => self.deadline.min(transaction.deadline()),
            None => self.deadline,
        }
    }

    /// A command is queued; input received so far cannot answer it.
    pub(super) fn rearm(&mut self, now: Mono) {
        self.is_stale = self.reader.is_within_reply();
        self.arm(now);
    }

    /// The deadline counts from `now`, RFC 5321 §4.5.3.2.
    fn arm(&mut self, now: Mono) {
        self.deadline = self.timeout().map_or(Mono::NEVER, |timeout| now + timeout);
    }

    fn timeout(&self) -> Option<Duration> {
        match self.state {
            // A write pending at the close of the session is abandoned.
            State::Idle | State::Closed => None,
            _ if self.outbox.is_sending_content() => Some(self.config.content_timeout),
            State::Greeting => Some(self.config.greeting_timeout),
            State::Ehlo
            | State::Helo
            | State::StartTls
            | State::Handshake
            | State::Login
            | State::Auth
            | State::Cancelled
            | State::Mail
            | State::Rcpt(_)
            | State::Rset => Some(self.config.command_timeout),
            State::Quit => Some(self.config.command_timeout.min(QUIT_TIMEOUT_MAX)),
            State::Data => Some(self.config.data_timeout),
            State::Final(_) | State::LoneDot => Some(self.config.final_timeout),
        }
    }

    /// The driver was not yet handed the commands that the next replies belong to, so no reply can have arrived.
    /// Unpolled output belongs to the transaction started last.
    fn is_unsaid(&self) -> bool {
        self.outbox.has_unpolled() && self.following.is_empty()
    }

    /// Returns true if a reply now would be unsolicited.
    pub(super) fn is_unasked(&self) -> bool {
        self.is_stale || self.is_unsaid() || matches!(self.state, State::Idle | State::Login)
    }

    pub(super) fn push_event(&mut self, event: ClientEvent) {
        self.events.push_back(event);
    }

    pub(super) fn push_done(
        &mut self,
        outcomes: Vec<Result<mail::Reply, Failure>>,
        ending: Ending,
    ) {
        let Ending { doubtful, answered, untried, lesson } = ending;
        let done = ClientEvent::Done { outcomes, doubtful, answered, untried, lesson };
        let behind_closed = matches!(self.events.back(), Some(ClientEvent::Closed(_)));
        let at = self.events.len() - usize::from(behind_closed);
        self.events.insert(at, done);
    }

    /// Only `Closed` follows.
    pub(super) fn close(&mut self, failure: Option<Failure>) {
        self.state = State::Closed;
        self.deadline = Mono::NEVER;
        self.outbox.drop_content();
        self.drop_offers();
        let failure = failure.or(self.parting.take());
        self.push_event(ClientEvent::Closed(failure));
    }

    /// Takes back the offers to start that the driver hasn't polled.
    fn drop_offers(&mut self) {
        self.events.retain(|event| {
            let is_offer = matches!(
                event,
                ClientEvent::Ready
                    | ClientEvent::StartTls
                    | ClientEvent::Login
                    | ClientEvent::Challenge(_)
                    | ClientEvent::LoggedIn
            );
            !is_offer
        });
    }

    /// The recipients that are open get `failure`, and the session is over.
    pub(super) fn fail(&mut self, failure: Failure, verdict: PeerDecision) {
        let is_of_tls = matches!(self.state, State::StartTls | State::Handshake);
        self.is_starttls_broken |= is_of_tls && verdict == PeerDecision::Missing;
        self.settle_all(&failure, verdict);
        self.close(Some(failure));
    }

    /// Ends the session after a reply that leaves both sides in step. RFC 5321 §4.1.1.10 requires QUIT even then, and
    /// §3.1 has a server that greets with 554 wait for it.
    pub(super) fn part(&mut self, failure: Failure) {
        if self.outbox.is_sending_content() {
            return self.fail(failure, PeerDecision::Refused);
        }
        self.settle_all(&failure, PeerDecision::Refused);
        self.parting = Some(failure);
        self.drop_offers();
        self.say_quit();
    }

    /// Ends all transactions with the failure that ends the session.
    pub(super) fn settle_all(&mut self, failure: &Failure, verdict: PeerDecision) {
        while self.transaction.is_some() {
            self.settle_open(Err(failure.clone()), verdict);
            self.transaction = self.following.pop_front();
        }
    }

    pub(super) fn is_content_written(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.is_content_written)
    }
}

/// A planted fault: the session continues after a reply that violates the protocol.
#[cfg(feature = "planted")]
impl ClientSession {
    /// Plants it.
    pub fn plant_forgiveness(&mut self) {
        self.forgives = true;
    }

    /// Returns true if the fault is planted; the session then continues.
    pub(super) fn forgive(&mut self, failure: &Failure) -> bool {
        if self.forgives && self.transaction.is_some() {
            self.settle_all(failure, PeerDecision::Missing);
            self.state = State::Idle;
            self.deadline = Mono::NEVER;
            self.push_event(ClientEvent::Ready);
        }
        if self.forgives {
            self.is_stale = false;
            self.outbox.drop_unpolled();
        }
        self.forgives
    }
}

#[cfg(not(feature = "planted"))]
impl ClientSession {
    /// No fault is planted.
    pub(super) fn forgive(&self, _failure: &Failure) -> bool {
        false
    }
}
