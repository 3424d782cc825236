//! The driver's answers to the needs of a session.

use super::ServerConfig;
use super::content::ContentReader;
use super::open_recipients::RecipientAnswer;
use super::replies;
use super::replies::About;
use super::session::{Greeting, PendingNeed, Phase, ServerSession};
use mail::{Mono, Recipient, Reply};
use std::sync::Arc;

impl ServerSession {
    /// `Err` is the reply that refuses.
    pub fn answer_mail(&mut self, now: Mono, answer: Result<(), Reply>) {
        if self.take_awaited(now, |awaited| awaited == PendingNeed::Mail).is_none() {
            return;
        }
        match answer {
            Ok(()) => self.output.extend_from_slice(replies::MAIL_OK),
            Err(reply) => {
                self.refuse(About::step("MAIL"), &reply);
                self.end_transaction();
            }
        }
    }

    /// Answers for the open recipient with that number; `Err` is the reply that refuses it. Answers may come in any
    /// order: replies and envelope keep the order of the commands. After the end of the session (too many errors, a
    /// timeout, shutdown) or after a 421, outstanding answers have no effect.
    ///
    /// An answer for a number that is not open is an error of the driver; outside debug builds it is ignored.
    pub fn answer_rcpt(&mut self, now: Mono, number: u32, answer: Result<(), Reply>) {
        if matches!(self.phase, Phase::Closing) {
            return;
        }
        let Ok(mut next) = self.open.answer(number, answer) else {
            debug_assert!(false, "an answer for {number}, which is not open");
            return;
        };
        while let Some((recipient, answer)) = next {
            self.finish_recipient(recipient, answer);
            if matches!(self.phase, Phase::Closing) {
                return;
            }
            next = self.open.take_answered();
        }
        if self.open.is_empty() {
            self.wait_for_command(now);
        }
    }

    /// Writes the reply for the first open recipient.
    fn finish_recipient(&mut self, given: Recipient, answer: RecipientAnswer) {
        if let Err(reply) = answer {
            let recipient = Some(given.mailbox.as_str());
            return self.refuse_recipient(About { recipient, ..About::step("RCPT") }, &reply);
        }
        self.output.extend_from_slice(replies::RCPT_OK);
        self.errors = self.errors.saturating_sub(std::mem::take(&mut self.recipient_errors));
        self.accepted = self.accepted.saturating_add(1);
        if let Some(transaction) = &mut self.transaction {
            transaction.envelope.recipients.push(given);
        }
    }

    /// `Err` is the reply that refuses DATA; for BDAT the chunk is read and dropped first. After
    /// a refused DATA the transaction stays open: the client may send DATA again. After a refused
    /// BDAT it has failed (RFC 3030 §2), and `Abandon` follows.
    pub fn answer_data(&mut self, now: Mono, answer: Result<(), Reply>) {
        let is_data = |awaited| matches!(awaited, PendingNeed::Data | PendingNeed::Chunk(_));
        match (self.take_awaited(now, is_data), answer) {
            (Some(PendingNeed::Data), Ok(())) => {
                self.output.extend_from_slice(replies::DATA_GO);
                let ends_with_lf = self.lines.ended_with_lf();
                self.reader = Some(ContentReader::data(&self.config, ends_with_lf));
                self.phase = Phase::Data;
                self.start_transfer(now);
            }
            (Some(PendingNeed::Chunk(chunk)), Ok(())) => {
                self.reader = Some(ContentReader::bdat(&self.config));
                self.phase = Phase::Chunk { chunk, left: chunk.octets };
                self.start_transfer(now);
            }
            (Some(PendingNeed::Chunk(chunk)), Err(reply)) => self.start_drop(now, chunk, reply),
            (Some(_), Err(reply)) => self.refuse(About::step("DATA"), &reply),
            _ => {}
        }
    }

    /// Replaces [`ServerSession::answer_data`] if content came with DATA and before 354. A client that does not wait
    /// may be sending a third party's text, and after a refusal its lines would be commands (RFC 2920 §3.1: DATA is the
    /// last of a group). Replies 503 and ends the session.
    pub fn refuse_early_content(&mut self, now: Mono) {
        if self.take_awaited(now, |awaited| awaited == PendingNeed::Data).is_some() {
            self.refuse(
                About::step("DATA"),
                &replies::sequence("Protocol error: message content before 354"),
            );
            self.cut = true;
            self.phase = Phase::Closing;
        }
    }

    /// The answer to [`Need::DataRefused`](super::Need::DataRefused) if input came with that DATA. It may be content
    /// written by a third party, and its lines would be commands (RFC 2920 §3.1: DATA is the last of a group). Replies
    /// 421 and ends the session: RFC 5321 §3.8 allows no close without a reply.
    pub fn end_early_content(&mut self) {
        self.end(About::step("DATA"), (4, 7, 0), "Protocol error: input after a rejected DATA");
    }

    /// Gives the final reply of the transaction; for LMTP, the session writes it once per recipient.
    pub fn answer_message(&mut self, now: Mono, reply: Reply) {
        self.answer_recipients(now, std::slice::from_ref(&reply));
    }

    /// As [`ServerSession::answer_message`], for LMTP, with a reply for each accepted RCPT, in order. The last reply is
    /// used for all that have none. SMTP uses the first.
    pub fn answer_recipients(&mut self, now: Mono, replies: &[Reply]) {
        let is_message = |awaited| matches!(awaited, PendingNeed::Message { .. });
        let Some(PendingNeed::Message { replies: count }) = self.take_awaited(now, is_message)
        else {
            return;
        };
        debug_assert!(!replies.is_empty(), "a message needs a reply");
        self.count(|counts| {
            counts.note_message();
            if !replies.iter().any(Reply::is_positive) {
                counts.reject("content");
            }
        });
        if replies.iter().any(Reply::is_positive) {
            (self.errors, self.refused_recipients) = (0, 0);
        }
        for number in 0..count {
            match replies.get(number).or(replies.last()) {
                Some(reply) => self.write(reply),
                None => self.phase = Phase::Closing,
            }
        }
    }

    /// Starts handling an answer; `None` if it is no longer awaited.
    pub(super) fn take_awaited(
        &mut self,
        now: Mono,
        fits: impl Fn(PendingNeed) -> bool,
    ) -> Option<PendingNeed> {
        match self.phase {
            Phase::Answer(awaited) if fits(awaited) => {
                self.wait_for_command(now);
                Some(awaited)
            }
            // The server may have begun to stop while the driver looked for its answer.
            Phase::Closing => None,
            _ => {
                debug_assert!(false, "an answer to another need");
                None
            }
        }
    }

    /// `Ok` if TLS may start: `220` is in the output then, and no more input is read in clear. Otherwise the reply
    /// gives the reason, and the session continues in clear (RFC 3207 §4).
    pub fn answer_starttls(&mut self, now: Mono, answer: Result<(), Reply>) {
        if !matches!(self.phase, Phase::StartTls) {
            debug_assert!(matches!(self.phase, Phase::Closing), "an answer without STARTTLS");
            return;
        }
        match answer {
            Ok(()) => self.output.extend_from_slice(replies::TLS_GO),
            Err(reply) => {
                self.refuse(About::step("STARTTLS"), &reply);
                self.wait_for_command(now);
            }
        }
    }

    /// Changes the settings: more is known about the client.
    pub fn obey(&mut self, config: Arc<ServerConfig>) {
        self.config = config;
    }

    /// The connection is encrypted now; the session starts afresh without greeting, and whatever
    /// was received in clear behind STARTTLS has been dropped (RFC 3207 §4.2, §6).
    pub fn handle_tls_started(&mut self, now: Mono) {
        if !matches!(self.phase, Phase::StartTls) {
            debug_assert!(matches!(self.phase, Phase::Closing), "TLS without STARTTLS");
            return;
        }
        self.tls = true;
        self.is_logged_in = false;
        self.greeting = Greeting::None;
        self.helo = None;
        self.wait_for_command(now);
    }
}
