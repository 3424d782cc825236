//! The session: what comes in, what goes out, when it gives up. What the replies mean is in
//! `opening` (greeting to `Ready`) and `transaction`.

use super::reply::{RawReply, ReplyError, ReplyLimits, ReplyReader};
use super::transaction::Transaction;
use super::{Capabilities, ClientConfig, ClientEvent, Lesson, Outgoing, Output};
use mail::{Class, Culprit, EnhancedStatus, Failure, Mono, Step};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Nothing hangs on the reply to QUIT: RFC 5321 §4.1.1.10 has a client wait for it, but not for ever.
const QUIT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

/// A buffer that grew beyond this for many recipients doesn't keep its memory.
const BUFFER_BYTES_KEPT: usize = 16_384;

/// Whose reply is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    /// The driver is at it.
    Handshake,
    /// Nobody's: a transaction can start.
    Idle,
    Mail,
    /// The recipient's index.
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

/// What the driver is writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Nothing,
    Commands,
    /// The content to its end is in it.
    Content,
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
    /// There is no answer.
    Missing,
}

/// One session.
#[derive(Debug)]
pub struct ClientSession {
    pub(super) config: Arc<ClientConfig>,
    pub(super) state: State,
    pub(super) offered: Capabilities,
    /// What the peer called itself.
    pub(super) peer_name: Box<str>,
    pub(super) is_encrypted: bool,
    /// The one whose replies come next.
    pub(super) transaction: Option<Transaction>,
    /// Said behind it before its replies were there, each with a RSET before it.
    pub(super) following: VecDeque<Transaction>,
    pub(super) writing: Writing,
    /// The begun reply in `reader` began before the last command was sent.
    is_stale: bool,
    reader: ReplyReader,
    /// The peer has shown that it doesn't know what it offers.
    pub(super) is_bdat_unusable: bool,
    /// Commands; cleared when all of it is written.
    pub(super) buffer: Vec<u8>,
    /// So much of `buffer` was given to the driver.
    polled: usize,
    /// Content not yet given to the driver, and where in `buffer` it stands.
    content: Option<(usize, Output)>,
    deadline: Mono,
    /// Why QUIT was said, if not at our wish.
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
            config,
            state: State::Greeting,
            offered: Capabilities::default(),
            peer_name: Box::default(),
            is_encrypted: false,
            transaction: None,
            following: VecDeque::new(),
            writing: Writing::Nothing,
            is_stale: false,
            reader: ReplyReader::default(),
            is_bdat_unusable: false,
            buffer: Vec::new(),
            polled: 0,
            content: None,
            deadline: Mono::NEVER,
            parting: None,
            events: VecDeque::new(),
            #[cfg(feature = "planted")]
            forgives: false,
        };
        session.arm(now);
        session
    }

    /// The session is over: what is being written need not go on.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// What the peer offered in its last reply to EHLO; nothing before that.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.offered
    }

    /// What the peer called itself in its reply to EHLO (RFC 5321 §4.1.1.1); empty before that.
    /// Anybody can say anything.
    #[must_use]
    pub fn peer_name(&self) -> &str {
        &self.peer_name
    }

    /// Whether [`ClientSession::start`] may be called with this now: after `Ready`, or, without
    /// waiting for it, behind transactions in flight if the peer offers PIPELINING and CHUNKING,
    /// all that was given to the driver is written, and nothing speaks against this one that
    /// would have to be told before the outcomes of those in flight.
    #[must_use]
    pub fn can_start(&self, outgoing: &Outgoing) -> bool {
        matches!(self.state, State::Idle | State::Closed) || self.can_follow(outgoing)
    }

    /// Begins a transaction; only where [`ClientSession::can_start`] says so. On a session that
    /// has closed meanwhile, all recipients fail with a transient failure.
    pub fn start(&mut self, now: Mono, outgoing: Outgoing) {
        debug_assert!(self.can_start(&outgoing), "start() before Ready");
        if self.state == State::Idle {
            self.is_stale = self.reader.is_within_reply();
            self.begin(now, outgoing);
            self.arm(now);
            return;
        }
        if self.can_follow(&outgoing) {
            // The deadline goes on for the one whose replies come next.
            return self.follow(now, outgoing);
        }
        let failure = Failure::network(
            self.config.peer.clone(),
            EnhancedStatus::new(4, 4, 2),
            "the session is over",
        );
        let outcomes = outgoing.recipients.iter().map(|_| Err(failure.clone())).collect();
        self.push_done(outcomes, Ending::default());
    }

    /// Sends QUIT; only when idle (Ready was given and nothing started). Elsewhere it ends the
    /// session without.
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
                self.settle_all(&failure, Verdict::Missing);
                self.close(None);
            }
        }
    }

    pub(super) fn say_quit(&mut self) {
        self.buffer.extend_from_slice(b"QUIT\r\n");
        self.state = State::Quit;
    }

    /// Takes what the peer sent.
    pub fn handle_input(&mut self, now: Mono, input: &[u8]) {
        if self.state == State::Closed || input.is_empty() {
            return;
        }
        // The reader is out of the session while a reply that it lends is looked at.
        let mut reader = std::mem::take(&mut self.reader);
        let limits = ReplyLimits {
            line_bytes_max: self.config.reply_line_bytes_max,
            lines_max: self.config.reply_lines_max,
        };
        let mut rest = input;
        while self.state != State::Closed {
            if self.state == State::Handshake && !rest.is_empty() {
                // RFC 3207 §6: what was injected in clear must not count as said under TLS.
                self.fail_protocol("bytes in clear after the reply to STARTTLS", Verdict::Missing);
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
        if self.state == State::Quit {
            return self.close(None);
        }
        // RFC 5321 §3.8: a server that must shut down says 421 at any moment.
        if raw.code == 421 {
            let failure = self.peer_failure(raw);
            return self.fail(failure, Verdict::Refused);
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
            State::Mail => self.on_mail(raw),
            State::Rcpt(index) => self.on_rcpt(index, raw),
            State::Data => self.on_data(raw),
            State::Final(index) => self.on_final(index, raw),
            State::LoneDot => self.on_lone_dot(raw),
            State::Rset => self.on_rset(raw),
            State::Handshake | State::Idle | State::Quit | State::Closed => {
                self.fail_unexpected(raw);
            }
        }
    }

    /// The peer closed its side, or reading or writing failed; `text` says how.
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

    /// Gives `Done`/`Closed` events if the deadline has passed.
    pub fn handle_timeout(&mut self, now: Mono) {
        if now < self.deadline() {
            return;
        }
        match self.state {
            // Also where the deadline is NEVER and `now` is no moment at all.
            State::Closed | State::Idle => {}
            State::Quit => self.close(None),
            _ if now < self.deadline => self.fail_network("the transaction took too long"),
            _ => self.fail_network("timed out"),
        }
    }

    /// The connection is encrypted now: EHLO follows again.
    pub fn handle_tls_started(&mut self, now: Mono) {
        debug_assert!(matches!(self.state, State::Handshake | State::Closed));
        if self.state == State::Handshake {
            self.on_tls_started();
            self.arm(now);
        }
    }

    /// The next pieces to write, in order, to the end of what may be sent now; `out` is cleared
    /// first and stays empty when there is nothing, or when what was given before isn't written
    /// yet. The pieces refer to [`ClientSession::buffer`] and stay valid until
    /// [`ClientSession::handle_written`].
    pub fn poll_output(&mut self, out: &mut Vec<Output>) {
        out.clear();
        if self.state == State::Closed || self.writing != Writing::Nothing || !self.has_unpolled() {
            return;
        }
        let (start, end) = (self.polled, self.buffer.len());
        self.polled = end;
        self.writing = Writing::Commands;
        let mut rest = start;
        if let Some((at, content)) = self.content.take() {
            if at > start {
                out.push(Output::Bytes { start, end: at });
            }
            out.push(content);
            rest = at;
            self.writing = Writing::Content;
        }
        if end > rest {
            out.push(Output::Bytes { start: rest, end });
        }
    }

    /// The bytes that `Output::Bytes` refers to.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// All that the last `poll_output` gave was written: timers go on from here.
    pub fn handle_written(&mut self, now: Mono) {
        if self.writing == Writing::Nothing || self.state == State::Closed {
            return;
        }
        if self.writing == Writing::Content
            && let Some(transaction) = self.following.back_mut().or(self.transaction.as_mut())
        {
            transaction.is_content_written = true;
        }
        self.writing = Writing::Nothing;
        if !self.has_unpolled() {
            self.buffer.clear();
            self.buffer.shrink_to(BUFFER_BYTES_KEPT);
            self.polled = 0;
        }
        self.arm(now);
    }

    /// Progress while a long content is written: pushes the deadline out.
    pub fn handle_progress(&mut self, now: Mono) {
        if self.writing != Writing::Nothing {
            self.arm(now);
        }
    }

    /// What happened, in order.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// When [`ClientSession::handle_timeout`] must be called.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        match &self.transaction {
            Some(transaction) => self.deadline.min(transaction.deadline()),
            None => self.deadline,
        }
    }

    /// The deadline counts from `now`, RFC 5321 §4.5.3.2.
    fn arm(&mut self, now: Mono) {
        self.deadline = self.timeout().map_or(Mono::NEVER, |timeout| now + timeout);
    }

    fn timeout(&self) -> Option<Duration> {
        match self.state {
            // A write that is under way when the session closes is nobody's any more.
            State::Idle | State::Closed => None,
            _ if self.is_sending_content() => Some(self.config.content_timeout),
            State::Greeting => Some(self.config.greeting_timeout),
            State::Ehlo
            | State::Helo
            | State::StartTls
            | State::Handshake
            | State::Mail
            | State::Rcpt(_)
            | State::Rset => Some(self.config.command_timeout),
            State::Quit => Some(self.config.command_timeout.min(QUIT_TIMEOUT_MAX)),
            State::Data => Some(self.config.data_timeout),
            State::Final(_) | State::LoneDot => Some(self.config.final_timeout),
        }
    }

    fn is_sending_content(&self) -> bool {
        self.writing == Writing::Content || self.content.is_some()
    }

    /// Something was said that the driver hasn't been given: no reply to it can be there yet.
    pub(super) fn has_unpolled(&self) -> bool {
        self.polled < self.buffer.len() || self.content.is_some()
    }

    /// So it is with the commands whose replies come next. What is unpolled belongs to the
    /// transaction that was started last.
    fn is_unsaid(&self) -> bool {
        self.has_unpolled() && self.following.is_empty()
    }

    /// Whether a reply that comes now is a reply to nothing.
    fn is_unasked(&self) -> bool {
        self.is_stale || self.is_unsaid() || self.state == State::Idle
    }

    /// The content goes out behind the commands said so far.
    pub(super) fn push_content(&mut self, content: Output) {
        debug_assert!(self.content.is_none());
        self.content = Some((self.buffer.len(), content));
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

    /// No more than `Closed` comes after this.
    pub(super) fn close(&mut self, failure: Option<Failure>) {
        self.state = State::Closed;
        self.deadline = Mono::NEVER;
        self.content = None;
        self.drop_offers();
        let failure = failure.or(self.parting.take());
        self.push_event(ClientEvent::Closed(failure));
    }

    /// What the driver has not yet heard that it may do, it may not do any more.
    fn drop_offers(&mut self) {
        self.events.retain(|e| !matches!(e, ClientEvent::Ready | ClientEvent::StartTls));
    }

    /// The recipients that are open get `failure`, and the session is over.
    pub(super) fn fail(&mut self, failure: Failure, verdict: Verdict) {
        self.settle_all(&failure, verdict);
        self.close(Some(failure));
    }

    /// The session is over by a reply that leaves both sides in step: RFC 5321 §4.1.1.10 has the
    /// client say QUIT even then, and §3.1 has a server that greets with 554 wait for it.
    pub(super) fn part(&mut self, failure: Failure) {
        if self.is_sending_content() {
            return self.fail(failure, Verdict::Refused);
        }
        self.settle_all(&failure, Verdict::Refused);
        self.parting = Some(failure);
        self.drop_offers();
        self.say_quit();
    }

    /// What all transactions end with when the session does.
    pub(super) fn settle_all(&mut self, failure: &Failure, verdict: Verdict) {
        while self.transaction.is_some() {
            self.settle_open(Err(failure.clone()), verdict);
            self.transaction = self.following.pop_front();
        }
    }

    pub(super) fn is_content_written(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.is_content_written)
    }

    fn fail_network(&mut self, how: &str) {
        let doing: Cow<'_, str> = match self.state {
            _ if self.is_sending_content() => Cow::Borrowed("sending the content"),
            State::Greeting => Cow::Borrowed("waiting for the greeting"),
            State::Handshake => Cow::Borrowed("starting TLS"),
            State::Idle => Cow::Borrowed("idle"),
            _ => Cow::Owned(format!("waiting for the reply to {}", self.step())),
        };
        let failure = Failure::network(
            self.config.peer.clone(),
            // RFC 3463 §3.5: bad connection.
            EnhancedStatus::new(4, 4, 2),
            format!("{how} while {doing}"),
        );
        self.fail(failure, Verdict::Missing);
    }

    /// The peer broke the protocol.
    pub(super) fn fail_protocol(&mut self, text: &str, verdict: Verdict) {
        let failure = self.own_failure((4, 5, 0), text);
        self.fail(failure, verdict);
    }

    fn fail_unreadable(&mut self, error: ReplyError) {
        if self.state == State::Quit {
            self.close(None);
            return;
        }
        self.fail_protocol(error.text(), Verdict::Missing);
    }

    /// A reply that nothing asked for, or of a kind that the command can't have.
    pub(super) fn fail_unexpected(&mut self, raw: &RawReply<'_>) {
        let text = match self.is_unasked() {
            true => Cow::Borrowed("a reply that nothing asked for"),
            false => Cow::Owned(format!("an unexpected reply to {}", self.step())),
        };
        self.fail_reply(raw, &text);
    }

    /// A reply that breaks the protocol as `text` says.
    pub(super) fn fail_reply(&mut self, raw: &RawReply<'_>, text: &str) {
        let mut failure = self.own_failure((4, 5, 0), text);
        failure.reply = Some(raw.to_reply());
        #[cfg(feature = "planted")]
        if self.forgives {
            return self.forgive(failure);
        }
        self.fail(failure, Verdict::Missing);
    }

    /// A planted fault: the session goes on after a reply that breaks the protocol.
    #[cfg(feature = "planted")]
    pub fn plant_forgiveness(&mut self) {
        self.forgives = true;
    }

    #[cfg(feature = "planted")]
    fn forgive(&mut self, failure: Failure) {
        if self.transaction.is_some() {
            self.settle_all(&failure, Verdict::Missing);
            self.state = State::Idle;
            self.deadline = Mono::NEVER;
            self.push_event(ClientEvent::Ready);
        }
        self.is_stale = false;
        self.content = None;
        self.polled = self.buffer.len();
    }

    /// A failure that the peer has caused without saying so.
    pub(super) fn own_failure(&self, status: (u8, u16, u16), text: &str) -> Failure {
        Failure {
            class: if status.0 == 5 { Class::Permanent } else { Class::Transient },
            culprit: Culprit::Peer(self.config.peer.clone()),
            status: EnhancedStatus::new(status.0, status.1, status.2),
            reply: None,
            step: None,
            text: text.into(),
        }
    }

    /// What the peer answered to the command whose reply is awaited.
    pub(super) fn peer_failure(&self, raw: &RawReply<'_>) -> Failure {
        let mut failure = Failure::peer(self.config.peer.clone(), raw.to_reply(), self.step());
        match self.state {
            State::Idle => failure.text = "while idle".into(),
            State::Final(_) if !self.is_content_written() => {
                failure.text = "while the content was sent".into();
            }
            _ => {}
        }
        failure
    }

    /// What the awaited reply answers.
    pub(super) fn step(&self) -> Step {
        match self.state {
            State::Greeting => Step::Connect,
            State::Ehlo if self.config.lmtp => Step::Lhlo,
            State::Ehlo => Step::Ehlo,
            State::Helo => Step::Helo,
            State::StartTls | State::Handshake => Step::StartTls,
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
