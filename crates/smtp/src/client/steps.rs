//! The steps of a transaction: MAIL to the final reply (RFC 5321 §3.3), pipelined as far as the peer allows (RFC 2920).
//! Content is sent with DATA or BDAT (RFC 3030); LMTP has a final reply per recipient (RFC 2033).
//!
//! Replies arrive in the order of the commands, pipelined or not, so one state identifies the next reply. The two modes
//! differ only in the time at which the next command is sent.

use super::command::{
    MailNeeds, content_bytes, is_free_of_line_ends, message_needs_smtputf8, needs_smtputf8,
    push_bdat_last, push_mail, push_rcpt,
};
use super::reply::RawReply;
use super::session::ClientSession;
use super::transaction::{Ending, PeerDecision, RunningTransaction, State};
use super::{
    CONTENT_TIME_MAX, ClientEvent, HostQuirk, Outgoing, Output, RequireTls,
    SLOWEST_BYTES_PER_SECOND,
};
use mail::{Class, EnhancedStatus, Failure, Mono, Reply};
use std::time::Duration;

/// A longer content is not sent before the peer has accepted a recipient, even if the configuration allows it. The
/// saved round trip would not be noticeable, the bytes sent in vain would.
const UNASKED_CONTENT_BYTES_MAX: u64 = 1 << 20;

/// RFC 5321 §4.5.3.1.10: one recipient too many in a transaction; old servers reply 552. The reply has no status, or
/// one of RFC 3463 §3.6.
fn is_too_many(failure: &Failure) -> bool {
    failure.reply.as_ref().is_some_and(|reply| {
        let status = reply.enhanced.map(|e| (e.subject, e.detail));
        match status {
            None => matches!(reply.code, 452 | 552),
            Some((5, 3)) => matches!(reply.code, 450..=452 | 552),
            Some(_) => false,
        }
    })
}

/// Returns true if one recipient was deferred beside recipients of other domains. Large providers accept one domain per
/// transaction and have no status of their own for this (RFC 9422 §4.3 names the limit).
fn is_of_other_domain(failure: &Failure) -> bool {
    const WORDS: [&str; 6] = [
        "destination domain",
        "multiple domains",
        "recipient domains",
        "per transaction",
        "same transaction",
        "one domain",
    ];
    failure.reply.as_ref().is_some_and(|reply| {
        let text = reply.text.to_ascii_lowercase();
        reply.code / 100 == 4 && WORDS.iter().any(|words| text.contains(words))
    })
}

/// The same for a reply to all recipients after the content: only the status of RFC 3463 §3.6 is unambiguous there.
fn is_too_many_together(failure: &Failure) -> bool {
    (failure.status.subject, failure.status.detail) == (5, 3)
}

/// RFC 5321 §4.2.4, §4.3.2: the command is unknown or out of sequence although it was offered.
fn is_unknown_command(code: u16) -> bool {
    matches!(code, 500 | 502 | 503)
}

/// State that the peer may keep from the last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftover {
    Nothing,
    /// The envelope: RSET before the next MAIL.
    Envelope,
    /// RFC 3030 §2: "indeterminate", after a refused BDAT. The peer may read data as commands that it does not discard,
    /// so only QUIT is sent.
    Anything,
}

impl RunningTransaction {
    /// The limit learnt from a recipient refused beside accepted ones, if the refusal is not about the recipient
    /// itself.
    fn lesson_of(&self, index: usize, failure: &Failure) -> Option<HostQuirk> {
        if self.accepted_count == 0 {
            return None;
        }
        // A recipient of the same domain as the first accepted one may really be one too many.
        let domain = |at: usize| Some(self.outgoing.recipients.get(at)?.mailbox.domain());
        let first = (0..index).find(|at| self.outcomes.get(*at).is_some_and(Option::is_none))?;
        if domain(first) != domain(index) && is_of_other_domain(failure) {
            return Some(HostQuirk::DomainsMax(1));
        }
        is_too_many(failure).then_some(HostQuirk::RecipientsMax(self.accepted_count))
    }

    /// Handles a transaction that was refused for its number of recipients: half as many are allowed next time.
    fn halve(&mut self, failure: &mut Failure) {
        if self.accepted_count < 2 || !is_too_many_together(failure) {
            return;
        }
        failure.class = Class::Transient;
        failure.status = EnhancedStatus::new(4, 5, 3);
        let outcomes = self.outcomes.iter().enumerate();
        let open = outcomes.filter(|(_, outcome)| outcome.is_none()).map(|(index, _)| index);
        self.untried.extend(open);
        self.untried.sort_unstable();
        self.lesson = Some(HostQuirk::RecipientsMax(self.accepted_count / 2));
    }
}

impl ClientSession {
    /// Begins a transaction, or reports at once the reason why it cannot begin.
    pub(super) fn begin(&mut self, now: Mono, outgoing: Outgoing, is_probe: bool) {
        let count = outgoing.recipients.len();
        if let Some(failure) = self.obstacle(&outgoing) {
            self.refuse(vec![Err(failure); count]);
            return;
        }
        if count == 0 {
            self.refuse(Vec::new());
            return;
        }
        let mut transaction = self.transaction_of(now, outgoing);
        transaction.is_pipelined = self.is_pipelining();
        transaction.is_bdat = self.is_chunking() && !is_probe;
        transaction.is_probe = is_probe;
        if transaction.unsaid.len() == count {
            return self.refuse(transaction.outcomes.into_iter().flatten().collect());
        }
        self.push_envelope(&transaction);
        let RunningTransaction { is_pipelined, is_bdat, .. } = transaction;
        let bytes = content_bytes(&transaction.outgoing);
        transaction.is_content_said =
            self.may_be_unasked(&transaction.outgoing) && is_pipelined && is_bdat;
        if transaction.is_content_said {
            self.say_bdat(bytes);
        } else if transaction.has_said_data() {
            self.outbox.commands().extend_from_slice(b"DATA\r\n");
        }
        self.state = State::Mail;
        self.transaction = Some(transaction);
    }

    fn transaction_of(&self, now: Mono, outgoing: Outgoing) -> RunningTransaction {
        let seconds = content_bytes(&outgoing) / SLOWEST_BYTES_PER_SECOND;
        let content_time = Duration::from_secs(seconds).min(CONTENT_TIME_MAX);
        let until = now + self.config.transaction_timeout + content_time;
        let is_smtputf8 = self.offered.smtputf8 && MailNeeds::of(&outgoing).smtputf8;
        let mut transaction =
            RunningTransaction { is_smtputf8, ..RunningTransaction::new(outgoing, until) };
        if !self.offered.smtputf8 {
            // RFC 6531 §3.2: only recipients that need it are unreachable.
            let is_any = transaction.outgoing.recipients.iter().any(|r| needs_smtputf8(&r.mailbox));
            transaction.leave_out(is_any.then(|| self.lacks_smtputf8()));
        }
        transaction
    }

    fn lacks_smtputf8(&self) -> Failure {
        // Status from RFC 6531 §3.6.
        self.own_failure((5, 6, 7), "SMTPUTF8 is required but not offered")
    }

    /// The failure for a message that requires TLS on all hops and a peer without REQUIRETLS (RFC 8689 §4.2.1).
    #[must_use]
    pub fn lacks_require_tls(&self) -> Failure {
        self.own_failure((5, 7, 30), "REQUIRETLS is required but not offered")
    }

    /// Sends MAIL, and those RCPTs that need not wait for its reply.
    fn push_envelope(&mut self, transaction: &RunningTransaction) {
        let RunningTransaction { outgoing, is_smtputf8, .. } = transaction;
        push_mail(self.outbox.commands(), outgoing, &self.offered, *is_smtputf8);
        if transaction.is_pipelined {
            let mut index = transaction.next_said(0);
            while let Some(recipient) = outgoing.recipients.get(index) {
                push_rcpt(self.outbox.commands(), recipient, &self.offered, *is_smtputf8);
                index = transaction.next_said(index + 1);
            }
        }
    }

    /// Returns true if the content may be sent before the peer has accepted a recipient.
    fn may_be_unasked(&self, outgoing: &Outgoing) -> bool {
        self.config.unasked_content && content_bytes(outgoing) <= UNASKED_CONTENT_BYTES_MAX
    }

    /// Returns true if a whole transaction may be sent behind those in flight. RFC 2920 §3.1 allows MAIL, RCPT and RSET
    /// anywhere in a group of commands.
    pub(super) fn can_follow(&self, outgoing: &Outgoing) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.is_content_said && t.is_pipelined)
            && !self.outbox.is_writing()
            && !self.outbox.has_unpolled()
            && self.is_pipelining()
            && self.is_chunking()
            && !outgoing.recipients.is_empty()
            && self.may_be_unasked(outgoing)
            && self.obstacle(outgoing).is_none()
            && (self.offered.smtputf8
                || outgoing.recipients.iter().all(|r| !needs_smtputf8(&r.mailbox)))
    }

    /// Sends a whole transaction after those in flight.
    pub(super) fn follow(&mut self, now: Mono, outgoing: Outgoing) {
        // If the previous transaction fails, its envelope still exists (RFC 3030 §2).
        self.outbox.commands().extend_from_slice(b"RSET\r\n");
        let transaction = RunningTransaction {
            is_pipelined: true,
            is_bdat: true,
            is_content_said: true,
            ..self.transaction_of(now, outgoing)
        };
        self.push_envelope(&transaction);
        self.say_bdat(content_bytes(&transaction.outgoing));
        self.following.push_back(transaction);
    }

    fn is_pipelining(&self) -> bool {
        self.offered.pipelining && self.config.pipelining
    }

    fn is_chunking(&self) -> bool {
        self.offered.chunking && self.config.chunking && !self.is_bdat_unusable
    }

    /// Ends a transaction without a command sent.
    fn refuse(&mut self, outcomes: Vec<Result<Reply, Failure>>) {
        self.push_done(outcomes, Ending::default());
        self.become_ready();
    }

    /// The reason why the peer cannot be sent this message, judging by its extensions.
    fn obstacle(&self, outgoing: &Outgoing) -> Option<Failure> {
        let bytes = content_bytes(outgoing);
        if !self.offered.smtputf8 && message_needs_smtputf8(outgoing) {
            // RFC 6531 §3.2.
            return Some(self.lacks_smtputf8());
        }
        if outgoing.require_tls == RequireTls::Always && !self.offered.require_tls {
            return Some(self.lacks_require_tls());
        }
        let is_as_is = self.config.eight_bit_as_is || outgoing.eight_bit_as_is;
        if outgoing.facts.has_8bit && !self.offered.eight_bit_mime && !is_as_is {
            // RFC 6152 §3.
            let text = "the content is 8-bit, but 8BITMIME is not offered";
            return Some(self.own_failure((5, 6, 3), text));
        }
        if let Some(limit) = self.offered.size
            && limit != 0
            && bytes > limit
        {
            // RFC 1870 §6.
            let text = format!("the message has {bytes} bytes, the peer accepts at most {limit}");
            return Some(self.own_failure((5, 3, 4), &text));
        }
        if !is_free_of_line_ends(outgoing) {
            return Some(Failure::local(
                Class::Permanent,
                EnhancedStatus::new(5, 5, 4),
                "an address or parameter contains a line break",
            ));
        }
        None
    }

    fn say_bdat(&mut self, bytes: u64) {
        push_bdat_last(self.outbox.commands(), bytes);
        self.outbox.push_content(Output::Content);
    }

    pub(super) fn on_mail(&mut self, raw: &RawReply<'_>) {
        if !raw.is_positive() && !raw.is_refusal() {
            self.fail_unexpected(raw);
            return;
        }
        let failure = raw.is_refusal().then(|| self.peer_failure(raw));
        let Some(transaction) = &mut self.transaction else { return };
        if let Some(failure) = failure {
            transaction.is_mail_refused = true;
            transaction.outcomes.fill(Some(Err(failure)));
            if !transaction.is_pipelined {
                self.finish(Leftover::Nothing);
                return;
            }
        }
        let first = transaction.next_said(0);
        self.await_rcpt(first);
    }

    /// Continues with recipient `index`, or with the content after the last one.
    fn await_rcpt(&mut self, index: usize) {
        let Some(transaction) = &self.transaction else { return };
        match transaction.outgoing.recipients.get(index) {
            Some(recipient) => {
                if !transaction.is_pipelined {
                    let is_smtputf8 = transaction.is_smtputf8;
                    push_rcpt(self.outbox.commands(), recipient, &self.offered, is_smtputf8);
                }
                self.state = State::Rcpt(index);
            }
            None => self.await_content(),
        }
    }

    pub(super) fn on_rcpt(&mut self, index: usize, raw: &RawReply<'_>) {
        if !raw.is_positive() && !raw.is_refusal() {
            self.fail_unexpected(raw);
            return;
        }
        let failure = raw.is_refusal().then(|| self.peer_failure(raw));
        let Some(transaction) = &mut self.transaction else { return };
        if !transaction.is_mail_refused {
            match failure {
                None => {
                    transaction.accepted_count += 1;
                    if transaction.is_probe
                        && let Some(outcome) = transaction.outcomes.get_mut(index)
                    {
                        *outcome = Some(Ok(raw.to_reply()));
                    }
                }
                Some(mut failure) => {
                    if let Some(lesson) = transaction.lesson_of(index, &failure) {
                        failure.class = Class::Transient;
                        failure.status = EnhancedStatus::new(4, 5, 3);
                        transaction.untried.push(index);
                        transaction.lesson.get_or_insert(lesson);
                    }
                    if let Some(outcome) = transaction.outcomes.get_mut(index) {
                        *outcome = Some(Err(failure));
                    }
                }
            }
        }
        let next = transaction.next_said(index + 1);
        self.await_rcpt(next);
    }

    /// All recipients are answered.
    fn await_content(&mut self) {
        let Some(transaction) = &mut self.transaction else { return };
        if transaction.is_content_said {
            self.state = State::Final(0);
        } else if transaction.has_said_data() {
            self.state = State::Data;
        } else if transaction.accepted_count == 0 || transaction.is_probe {
            let leftover = match transaction.is_mail_refused {
                true => Leftover::Nothing,
                false => Leftover::Envelope,
            };
            self.finish(leftover);
        } else if transaction.is_bdat {
            transaction.is_content_said = true;
            let bytes = content_bytes(&transaction.outgoing);
            self.say_bdat(bytes);
            self.state = State::Final(0);
        } else {
            self.outbox.commands().extend_from_slice(b"DATA\r\n");
            self.state = State::Data;
        }
    }

    pub(super) fn on_data(&mut self, raw: &RawReply<'_>) {
        let Some(transaction) = &mut self.transaction else { return };
        let is_wanted = transaction.accepted_count > 0;
        if raw.is_refusal() {
            let leftover = match transaction.is_mail_refused {
                true => Leftover::Nothing,
                false => Leftover::Envelope,
            };
            if is_wanted {
                let failure = self.too_many_or(raw);
                self.settle_open(Err(failure), PeerDecision::Refused);
                self.end(leftover);
            } else {
                self.finish(leftover);
            }
        } else if raw.code / 100 != 3 {
            self.fail_unexpected(raw);
        } else if is_wanted {
            transaction.is_content_said = true;
            let facts = &transaction.outgoing.facts;
            let content =
                if facts.dot_lines == 0 { Output::Content } else { Output::ContentStuffed };
            // RFC 5321 §4.1.1.4: the CRLF of the last line is also the start of the end mark. The prefix ends with a
            // CRLF.
            let ends_with_crlf = facts.ends_with_crlf || facts.body_bytes == 0;
            self.outbox.push_content(content);
            self.outbox.commands().extend_from_slice(if ends_with_crlf {
                b".\r\n"
            } else {
                b"\r\n.\r\n"
            });
            self.state = State::Final(0);
        } else if self.config.lmtp {
            // RFC 2033 §4.2: the peer had to refuse DATA, because it cannot reply to the dot.
            self.fail_unexpected(raw);
        } else {
            // RFC 2920 §3.1: no recipient was accepted, but the peer requests content.
            self.outbox.commands().extend_from_slice(b".\r\n");
            self.state = State::LoneDot;
        }
    }

    /// The recipients' replies were the answer already.
    pub(super) fn on_lone_dot(&mut self, _raw: &RawReply<'_>) {
        self.finish(Leftover::Envelope);
    }

    /// A refusal after 354 and before the end of the content.
    pub(super) fn is_refusal_of_content(&self, raw: &RawReply<'_>) -> bool {
        matches!(self.state, State::Final(_))
            && raw.is_refusal()
            && self.transaction.as_ref().is_some_and(|t| !t.is_bdat)
    }

    pub(super) fn on_final(&mut self, index: usize, raw: &RawReply<'_>) {
        if !raw.is_positive() && !raw.is_refusal() {
            return self.fail_unexpected(raw);
        }
        let is_written = self.is_content_written();
        if !is_written && raw.is_positive() {
            // The peer cannot have received the content yet.
            return self.fail_reply(raw, "the content was accepted before its end");
        }
        let is_wanted = self.transaction.as_ref().is_some_and(|t| t.accepted_count > 0);
        if is_wanted && self.is_bdat_unknown(raw) {
            return self.give_up_bdat(raw);
        }
        if !is_written {
            // The rest of the content cannot be recalled, so no command can follow it.
            let failure = self.peer_failure(raw);
            return self.fail(failure, PeerDecision::Refused);
        }
        if !is_wanted {
            return self.finish(Leftover::Envelope);
        }
        let outcome = match raw.is_positive() {
            true => Ok(raw.to_reply()),
            false if self.config.lmtp => Err(self.peer_failure(raw)),
            false => Err(self.too_many_or(raw)),
        };
        if self.config.lmtp {
            self.settle_next(index, outcome);
        } else {
            let leftover = self.leftover_after_final(outcome.is_ok());
            self.settle_open(outcome, PeerDecision::Refused);
            self.end(leftover);
        }
    }

    /// The failure for a reply to the whole transaction, which may only have had too many recipients.
    fn too_many_or(&mut self, raw: &RawReply<'_>) -> Failure {
        let mut failure = self.peer_failure(raw);
        if let Some(transaction) = &mut self.transaction {
            transaction.halve(&mut failure);
        }
        failure
    }

    /// True if the peer offered CHUNKING and accepted a recipient, but does not know BDAT.
    fn is_bdat_unknown(&self, raw: &RawReply<'_>) -> bool {
        is_unknown_command(raw.code)
            && self.transaction.as_ref().is_some_and(|transaction| {
                transaction.is_bdat && !transaction.outcomes.iter().flatten().any(Result::is_ok)
            })
    }

    /// Falls back from BDAT to DATA, on another connection: here the chunk may be parsed as commands.
    fn give_up_bdat(&mut self, raw: &RawReply<'_>) {
        self.is_bdat_unusable = true;
        let is_written = self.is_content_written();
        let failure = self.peer_failure(raw);
        if let Some(transaction) = &mut self.transaction {
            let outcomes = transaction.outcomes.iter().enumerate();
            let open = outcomes.filter(|(_, outcome)| outcome.is_none()).map(|(index, _)| index);
            transaction.untried.extend(open);
            transaction.untried.sort_unstable();
            transaction.lesson = Some(HostQuirk::BdatUnusable);
        }
        if is_written {
            self.settle_open(Err(failure), PeerDecision::Refused);
            self.end(if self.config.unasked_content {
                Leftover::Envelope
            } else {
                Leftover::Anything
            });
        } else {
            // The rest of the content is not written.
            self.settle_all(&failure, PeerDecision::Refused);
            self.close(None);
        }
    }

    /// RFC 5321 §4.1.1.4: the end of the content clears the envelope, whatever the reply. Postfix 3.7 however keeps it
    /// after a refusal by `smtpd_end_of_data_restrictions`, and would answer the next MAIL with 503. After BDAT (RFC
    /// 3030 §2) it is cleared only if the content was accepted.
    fn leftover_after_final(&self, is_accepted: bool) -> Leftover {
        let Some(transaction) = &self.transaction else { return Leftover::Nothing };
        // In LMTP one accepting recipient proves that the content was read as content.
        let is_taken = || transaction.outcomes.iter().flatten().any(Result::is_ok);
        if is_accepted || !transaction.is_bdat && is_taken() {
            Leftover::Nothing
        } else if !transaction.is_bdat || self.config.unasked_content || is_taken() {
            Leftover::Envelope
        } else {
            Leftover::Anything
        }
    }

    /// RFC 2033 §4.2: one reply per accepted recipient, in order.
    fn settle_next(&mut self, index: usize, outcome: Result<Reply, Failure>) {
        let leftover = self.leftover_after_final(outcome.is_ok());
        let Some(transaction) = &mut self.transaction else { return };
        let mut open = transaction.outcomes.iter_mut().enumerate().skip(index);
        if let Some((at, slot)) = open.find(|(_, slot)| slot.is_none()) {
            *slot = Some(outcome);
            if open.any(|(_, slot)| slot.is_none()) {
                self.state = State::Final(at + 1);
                return;
            }
        }
        self.finish(leftover);
    }

    /// Ends a transaction with an outcome for every recipient.
    fn finish(&mut self, leftover: Leftover) {
        self.settle(None, PeerDecision::Refused);
        self.end(leftover);
    }

    /// Emits `Done`; `outcome` is for recipients without one.
    pub(super) fn settle_open(&mut self, outcome: Result<Reply, Failure>, verdict: PeerDecision) {
        self.settle(Some(outcome), verdict);
    }

    fn settle(&mut self, mut outcome: Option<Result<Reply, Failure>>, verdict: PeerDecision) {
        let may_have_content = self.is_content_written();
        let Some(transaction) = self.transaction.take() else { return };
        let mut open_count = transaction.outcomes.iter().filter(|o| o.is_none()).count();
        debug_assert!(open_count == 0 || outcome.is_some());
        let doubtful = verdict == PeerDecision::Missing && may_have_content && open_count > 0;
        let mut give = || {
            open_count -= 1;
            // The last one is moved instead of cloned.
            if open_count == 0 { outcome.take() } else { outcome.clone() }
        };
        let RunningTransaction { outcomes, is_answered: answered, untried, lesson, .. } =
            transaction;
        let outcomes = outcomes.into_iter().filter_map(|o| o.or_else(&mut give)).collect();
        self.push_done(outcomes, Ending { doubtful, answered, untried, lesson });
    }

    /// After `Done`: continues with the next transaction in flight, or becomes ready, after RSET if needed.
    fn end(&mut self, leftover: Leftover) {
        self.transaction = self.following.pop_front();
        if self.transaction.is_some() {
            self.state = State::Rset;
            self.push_event(ClientEvent::Ready);
            return;
        }
        match leftover {
            Leftover::Nothing => self.become_ready(),
            Leftover::Envelope => {
                self.outbox.commands().extend_from_slice(b"RSET\r\n");
                self.state = State::Rset;
            }
            Leftover::Anything => self.say_quit(),
        }
    }
}
