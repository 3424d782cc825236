//! Refusals, and the limits after which they end the session.

use super::command::Verb;
use super::counts::CommandCounts;
use super::replies;
use super::replies::{About, Refused};
use super::session::{Greeting, ServerSession};
use mail::{EnhancedStatus, Mailbox, Mono, Reply};

/// Number of lines before EHLO or HELO that are not commands and end the session. A client of another protocol must not
/// get to the part of its text that contains commands.
const UNKNOWN_BEFORE_HELLO_MAX: u8 = 3;

impl ServerSession {
    /// A line that is not a command. After an invalid BDAT, content of unknown length follows: the session ends, so
    /// that content is not read as commands.
    pub(super) fn lost_line(&mut self, now: Mono, why: &'static str, is_bdat: bool) {
        self.keep_waiting(now, false);
        self.count(|counts| counts.count(if is_bdat { Verb::Bdat } else { Verb::Unknown }));
        if !self.count_command() {
            return;
        }
        if is_bdat {
            self.end(About::step("DATA"), (4, 5, 2), why);
        } else if self.may_be_unknown() {
            self.refuse(About::step("command"), &replies::line(why));
        }
    }

    /// Counts an unknown command; returns `false` and ends the session if there were too many before EHLO.
    pub(super) fn may_be_unknown(&mut self) -> bool {
        if self.greeting != Greeting::None {
            return true;
        }
        self.unknown = self.unknown.saturating_add(1);
        let within = self.unknown < UNKNOWN_BEFORE_HELLO_MAX;
        if !within {
            self.count(CommandCounts::note_errors);
            self.end(About::step("command"), (4, 7, 0), "Too many unknown commands");
        }
        within
    }

    /// Counts a command; returns `false` and ends the session if there were too many.
    pub(super) fn count_command(&mut self) -> bool {
        self.commands = self.commands.saturating_add(1);
        let within = self.commands <= self.config.commands_max;
        if !within {
            self.end(About::step("command"), (4, 7, 0), "Too many commands");
        }
        within
    }

    /// Refuses a command, or ends the session that got too many refusals.
    pub(super) fn refuse(&mut self, about: About<'_>, reply: &Reply) {
        debug_assert!(!reply.is_positive(), "{reply} refuses nothing");
        self.errors = self.errors.saturating_add(1);
        if self.errors > self.config.errors_max {
            self.count(CommandCounts::note_errors);
            self.end(about, (4, 7, 0), "Too many errors");
        } else {
            self.note(about, reply);
            self.write(reply);
        }
    }

    /// Refuses a recipient. This is an error only while the transaction has no accepted recipient. One beyond the
    /// maximum is never counted, see [`ServerConfig::errors_max`](super::ServerConfig::errors_max).
    pub(super) fn refuse_recipient(&mut self, about: About<'_>, reply: &Reply) {
        if self.accepted > 0 && is_one_too_many(reply) {
            self.note(about, reply);
            return self.write(reply);
        }
        self.refused_recipients = self.refused_recipients.saturating_add(1);
        let max = self.config.refused_recipients_max;
        if max != 0 && self.refused_recipients > max {
            self.count(CommandCounts::note_errors);
            self.end(about, (4, 7, 0), "Too many rejected recipients");
        } else if self.accepted > 0 {
            self.note(about, reply);
            self.write(reply);
        } else {
            self.recipient_errors = self.recipient_errors.saturating_add(1);
            self.refuse(about, reply);
        }
    }

    /// Keeps a refusal until it is fetched. Their number is at most that of the lines in one input.
    pub(super) fn note(&mut self, about: About<'_>, reply: &Reply) {
        self.count(|counts| counts.reject(about.step));
        let envelope = self.transaction.as_ref().map(|transaction| &transaction.envelope);
        let known = envelope.map(|e| e.reverse_path.as_ref().map_or("", Mailbox::as_str));
        // A refusal of the message concerns its recipient, if it has only one.
        let only = match envelope.map(|envelope| envelope.recipients.as_slice()) {
            Some([only]) if matches!(about.step, "DATA" | "content") => Some(only.mailbox.as_str()),
            _ => None,
        };
        self.refusals.push(Refused {
            step: about.step,
            sender: about.sender.or(known).map(Box::from),
            recipient: about.recipient.or(only).map(Box::from),
            reply: reply.clone(),
        });
    }

    /// Returns true if there were refusals since [`ServerSession::take_refusals`].
    #[must_use]
    pub fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// Returns the refusals since the last call. Excluded are replies given with [`ServerSession::answer_message`] and
    /// [`ServerSession::refused`], and the end of a session by timeout or shutdown.
    pub fn take_refusals(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refusals)
    }

    /// Refuses with 421, which ends the session.
    pub(super) fn end(&mut self, about: About<'_>, status: (u8, u16, u16), why: &str) {
        let reply = replies::closing(&self.config, status, why);
        self.note(about, &reply);
        self.write(&reply);
    }

    /// Writes 421; no more input is read.
    pub(super) fn close(&mut self, status: (u8, u16, u16), why: &str) {
        let reply = replies::closing(&self.config, status, why);
        self.write(&reply);
    }
}

/// Returns true if a recipient is refused because of those before it (RFC 5321 §4.5.3.1.10).
fn is_one_too_many(reply: &Reply) -> bool {
    reply.code == 452 && reply.enhanced == Some(EnhancedStatus::new(4, 5, 3))
}
