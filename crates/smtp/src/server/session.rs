//! The session's state and its ways in and out; what each command does is in [`super::dispatch`].

use super::bdat::Chunk;
use super::content::ContentReader;
use super::line::{Line, LineReader};
use super::open_recipients::{Answer, OpenRecipients};
use super::recipients::RecipientIndex;
use super::refusal::{About, Refused};
use super::replies;
use super::{Accepted, ContentSink, Need, Progress, ServerConfig, Transaction};
use mail::{Mailbox, Mono, Recipient, Reply};
use std::sync::Arc;

/// Output that grew beyond this with pipelined replies is given back once it is written.
const OUTPUT_KEPT_BYTES_MAX: usize = 4_096;
/// So many lines that are no commands before EHLO or HELO end the session: who speaks another
/// protocol shall not get to where its text holds commands.
const UNKNOWN_BEFORE_HELLO_MAX: u8 = 3;

/// One session, from greeting to close.
///
/// It holds no buffer but the output and, while a command line is incomplete, that line.
#[derive(Debug)]
pub struct ServerSession {
    pub(super) config: Arc<ServerConfig>,
    pub(super) output: Vec<u8>,
    lines: LineReader,
    pub(super) phase: Phase,
    pub(super) greeting: Greeting,
    pub(super) helo: Option<Arc<str>>,
    pub(super) tls: bool,
    /// From MAIL on.
    pub(super) transaction: Option<Box<Transaction>>,
    /// A RCPT was given, whatever became of it.
    pub(super) rcpt_given: bool,
    /// Those whose replies are not written yet.
    pub(super) open: OpenRecipients,
    /// RCPTs that were accepted, but for those that named a recipient once more.
    pub(super) accepted: usize,
    /// What is in the envelope.
    pub(super) known: RecipientIndex,
    /// From 354 or the first chunk on.
    pub(super) reader: Option<ContentReader>,
    /// A chunk was refused that was not the last: more may be on their way (RFC 3030 §2).
    pub(super) chunks_failed: bool,
    pub(super) commands: u32,
    errors: u32,
    /// Those of `errors` that are recipients of this transaction: forgiven when one is accepted.
    recipient_errors: u32,
    refused_recipients: u32,
    /// Lines before EHLO that were no commands.
    unknown: u8,
    /// See [`ServerSession::was_cut`].
    cut: bool,
    /// Not yet taken.
    refusals: Vec<Refused>,
    pub(super) messages: u32,
    /// The end of the wait for a command or for content.
    wait_deadline: Mono,
    /// The end of the time that one message's content may take.
    transfer_deadline: Mono,
    session_deadline: Mono,
}

/// What the next input is, or what is awaited instead.
#[derive(Debug)]
pub(super) enum Phase {
    /// A command line.
    Command,
    /// The driver's answer to a need.
    Answer(Awaited),
    /// Content up to the final dot.
    Data,
    /// Content by count; `left` octets of the chunk are to come.
    Chunk { chunk: Chunk, left: u64 },
    /// A chunk that is refused with `reply` once its last octet was dropped (RFC 3030 §2).
    Drop { left: u64, last: bool, reply: Reply },
    /// Nothing in clear is read any more.
    StartTls,
    /// Nothing is read any more.
    Closing,
}

/// The need that was not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Mail,
    Data,
    Chunk(Chunk),
    Message { replies: usize },
}

/// How the client introduced itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    None,
    Helo,
    Ehlo,
    Lhlo,
    /// The server greeted with 554.
    Refused,
}

impl ServerSession {
    /// Starts with the greeting in the output. A session that may not proceed is started with
    /// [`ServerSession::refused`] instead.
    #[must_use]
    pub fn new(config: Arc<ServerConfig>, now: Mono) -> ServerSession {
        let mut session = ServerSession::silent(config, now);
        replies::write_greeting(&mut session.output, &session.config);
        session
    }

    /// A session that greets with `reply` (554 or 421). After 421 it needs `Close` at once, as
    /// [`ServerSession::handle_input`] says even without input; after 554 it answers 503 to all
    /// but QUIT (RFC 5321 §3.1).
    #[must_use]
    pub fn refused(config: Arc<ServerConfig>, reply: Reply, now: Mono) -> ServerSession {
        let mut session = ServerSession::silent(config, now);
        session.greeting = Greeting::Refused;
        session.write(&reply);
        session
    }

    fn silent(config: Arc<ServerConfig>, now: Mono) -> ServerSession {
        ServerSession {
            output: Vec::new(),
            lines: LineReader::default(),
            phase: Phase::Command,
            greeting: Greeting::None,
            helo: None,
            tls: false,
            transaction: None,
            rcpt_given: false,
            open: OpenRecipients::default(),
            accepted: 0,
            known: RecipientIndex::default(),
            reader: None,
            chunks_failed: false,
            commands: 0,
            errors: 0,
            recipient_errors: 0,
            refused_recipients: 0,
            unknown: 0,
            cut: false,
            refusals: Vec::new(),
            messages: 0,
            wait_deadline: now + config.command_timeout,
            transfer_deadline: Mono::NEVER,
            session_deadline: now + config.session_timeout,
            config,
        }
    }

    /// Takes input; stops early at a need. Also call it with empty input after an answer.
    ///
    /// Calling it while a need other than `Rcpt` is not answered is an error of the driver; outside
    /// debug builds the session then closes.
    pub fn handle_input(
        &mut self,
        now: Mono,
        input: &[u8],
        sink: &mut dyn ContentSink,
    ) -> Progress {
        if self.output.is_empty() && self.output.capacity() > OUTPUT_KEPT_BYTES_MAX {
            self.output = Vec::new();
        }
        let mut rest = input;
        loop {
            let need = match self.phase {
                Phase::Command => self.take_line(now, &mut rest),
                Phase::Data => Some(self.take_data(now, &mut rest, sink)),
                Phase::Chunk { chunk, left } => self.take_chunk(now, chunk, left, &mut rest, sink),
                Phase::Drop { left, .. } => self.drop_chunk(now, left, &mut rest),
                Phase::StartTls => {
                    rest = &[];
                    Some(Need::StartTls)
                }
                Phase::Answer(awaited) => {
                    debug_assert!(false, "input before the answer to {awaited:?}");
                    self.phase = Phase::Closing;
                    None
                }
                Phase::Closing => {
                    rest = &[];
                    Some(Need::Close)
                }
            };
            if let Some(need) = need {
                return Progress { consumed: input.len() - rest.len(), need };
            }
        }
    }

    fn take_line(&mut self, now: Mono, rest: &mut &[u8]) -> Option<Need> {
        let line = self.lines.take(rest, self.config.command_line_bytes_max);
        match line {
            Line::Incomplete => Some(Need::Input),
            line if !self.open.is_empty() => Some(self.take_further(now, line)),
            Line::Complete(line) => self.handle_line(now, &line),
            Line::TooLong { is_bdat } => {
                self.lost_line(now, "Line too long", is_bdat);
                None
            }
        }
    }

    /// While recipients are open: a command that cannot be performed yet comes again.
    fn take_further(&mut self, now: Mono, line: Line<'_>) -> Need {
        if let Line::Complete(line) = &line
            && let Some(need) = self.open_further(now, line)
        {
            return need;
        }
        self.lines.put_back(line);
        Need::Answers
    }

    /// A line that is no command. Behind a BDAT that was not understood comes content of unknown
    /// length: rather than taking that for commands, the session ends.
    pub(super) fn lost_line(&mut self, now: Mono, why: &'static str, is_bdat: bool) {
        self.keep_waiting(now, false);
        if !self.count_command() {
            return;
        }
        if is_bdat {
            self.end(About::step("DATA"), (4, 5, 2), why);
        } else if self.may_be_unknown() {
            self.refuse(About::step("command"), &replies::line(why));
        }
    }

    /// A line came. A client that trickles bytes does not get here: `command_timeout` is the time
    /// for a whole line, and in a transaction for one that `advances` it.
    pub(super) fn keep_waiting(&mut self, now: Mono, advances: bool) {
        if advances || self.transaction.is_none() {
            self.wait_deadline = now + self.config.command_timeout;
        }
    }

    /// Counts a line that is no command; `false`: one too many before EHLO, the session ends.
    pub(super) fn may_be_unknown(&mut self) -> bool {
        if self.greeting != Greeting::None {
            return true;
        }
        self.unknown = self.unknown.saturating_add(1);
        let within = self.unknown < UNKNOWN_BEFORE_HELLO_MAX;
        if !within {
            self.end(About::step("command"), (4, 7, 0), "Too many unknown commands");
        }
        within
    }

    fn take_data(&mut self, now: Mono, rest: &mut &[u8], sink: &mut dyn ContentSink) -> Need {
        if !rest.is_empty() {
            self.wait_deadline = now + self.config.content_timeout;
        }
        let end = self.reader.as_mut().and_then(|reader| reader.push(rest, sink));
        *rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
        if end.is_some() { self.finish_content(now) } else { Need::Input }
    }

    fn take_chunk(
        &mut self,
        now: Mono,
        chunk: Chunk,
        left: u64,
        rest: &mut &[u8],
        sink: &mut dyn ContentSink,
    ) -> Option<Need> {
        let (octets, left) = self.cut(now, left, rest);
        if let Some(reader) = &mut self.reader {
            reader.push(octets, sink);
        }
        if left > 0 {
            self.phase = Phase::Chunk { chunk, left };
            return Some(Need::Input);
        }
        if chunk.last {
            if let Some(reader) = &mut self.reader {
                reader.end_chunks(sink);
            }
            return Some(self.finish_content(now));
        }
        self.wait_for_command(now);
        match self.reader.as_ref().and_then(ContentReader::refusal) {
            None => {
                replies::write_chunk_ok(&mut self.output, chunk.octets);
                None
            }
            Some(reply) => {
                self.note(About::step("content"), &reply);
                self.write(&reply);
                let need = self.end_transaction();
                self.chunks_failed = true;
                need
            }
        }
    }

    fn drop_chunk(&mut self, now: Mono, left: u64, rest: &mut &[u8]) -> Option<Need> {
        let (_, still_left) = self.cut(now, left, rest);
        if still_left > 0 {
            if let Phase::Drop { left, .. } = &mut self.phase {
                *left = still_left;
            }
            return Some(Need::Input);
        }
        let Phase::Drop { last, reply, .. } = std::mem::replace(&mut self.phase, Phase::Command)
        else {
            return None;
        };
        self.wait_for_command(now);
        if self.chunks_failed {
            // The client could not know when it sent this: no further error.
            self.write(&reply);
        } else {
            self.refuse(About::step("DATA"), &reply);
        }
        if last {
            // RFC 2033 §4.2: as many replies as recipients, also to what is refused.
            for _ in 1..self.final_replies() {
                self.write(&reply);
            }
        }
        let need = self.end_transaction();
        self.chunks_failed = !last;
        need
    }

    /// Cuts at most `left` octets from the front of `rest`; also returns what is left then.
    fn cut<'a>(&mut self, now: Mono, left: u64, rest: &mut &'a [u8]) -> (&'a [u8], u64) {
        if !rest.is_empty() {
            self.wait_deadline = now + self.config.content_timeout;
        }
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let (octets, behind) = rest.split_at(length);
        *rest = behind;
        (octets, left - length as u64)
    }

    fn finish_content(&mut self, now: Mono) -> Need {
        self.transfer_deadline = Mono::NEVER;
        let replies = self.final_replies();
        let reader = self.reader.take();
        let refusal = reader.as_ref().and_then(ContentReader::refusal);
        if let Some(reply) = &refusal {
            self.note(About::step("content"), reply);
        }
        if let (None, Some(reader), Some(mut transaction)) =
            (&refusal, &reader, self.transaction.take())
        {
            transaction.facts = reader.facts();
            self.messages = self.messages.saturating_add(1);
            self.forget_recipients();
            self.phase = Phase::Answer(Awaited::Message { replies });
            return Need::Message(transaction);
        }
        self.wait_for_command(now);
        if let Some(reply) = &refusal {
            (0..replies).for_each(|_| self.write(reply));
        }
        self.end_transaction();
        Need::Abandon
    }

    /// How many replies follow the content: in LMTP one per accepted RCPT (RFC 2033 §4.2).
    fn final_replies(&self) -> usize {
        if self.config.lmtp { self.accepted.max(1) } else { 1 }
    }

    /// `Err` is the reply that refuses.
    pub fn answer_mail(&mut self, now: Mono, answer: Result<(), Reply>) {
        if self.take_awaited(now, |awaited| awaited == Awaited::Mail).is_none() {
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

    /// Answers for the open recipient of that number; `Err` is the reply that refuses it. Answers
    /// may come in any order: replies and envelope keep that of the commands. When the session is
    /// over by itself (too many errors, a timeout, shutdown), answers that are still owed have no
    /// effect; nor have they after a 421 before them.
    ///
    /// An answer for a number that is not open is an error of the driver; outside debug builds it
    /// is ignored.
    pub fn answer_rcpt(&mut self, now: Mono, number: u32, answer: Result<Accepted, Reply>) {
        if matches!(self.phase, Phase::Closing) {
            return;
        }
        if !self.open.owes(number) {
            debug_assert!(false, "an answer for {number}, which is not open");
            return;
        }
        let mut next = self.open.answer(number, answer);
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

    /// The first of the open recipients has its reply.
    fn finish_recipient(&mut self, given: Recipient, answer: Answer) {
        let accepted = match answer {
            Ok(accepted) => accepted,
            Err(reply) => {
                let recipient = Some(given.mailbox.as_str());
                return self.refuse_recipient(About { recipient, ..About::step("RCPT") }, &reply);
            }
        };
        self.output.extend_from_slice(replies::RCPT_OK);
        self.errors = self.errors.saturating_sub(std::mem::take(&mut self.recipient_errors));
        self.accepted = self.accepted.saturating_add(1);
        let Some(transaction) = &mut self.transaction else { return };
        let recipients = &mut transaction.envelope.recipients;
        match accepted {
            Accepted::AsGiven if self.config.lmtp => recipients.push(given),
            Accepted::AsGiven => self.known.add_given(recipients, given),
            Accepted::Instead(instead) if self.config.lmtp => recipients.extend(instead),
            Accepted::Instead(instead) => {
                instead.into_iter().for_each(|member| self.known.add_member(recipients, member));
            }
        }
    }

    /// `Err` is the reply that refuses DATA; for BDAT the chunk is read and dropped first. After
    /// a refused DATA the transaction stays open: the client may send DATA again. After a refused
    /// BDAT it has failed (RFC 3030 §2), and `Abandon` follows.
    pub fn answer_data(&mut self, now: Mono, answer: Result<(), Reply>) {
        let is_data = |awaited| matches!(awaited, Awaited::Data | Awaited::Chunk(_));
        match (self.take_awaited(now, is_data), answer) {
            (Some(Awaited::Data), Ok(())) => {
                self.output.extend_from_slice(replies::DATA_GO);
                self.reader = Some(ContentReader::data(&self.config));
                self.phase = Phase::Data;
                self.start_transfer(now);
            }
            (Some(Awaited::Chunk(chunk)), Ok(())) => {
                self.reader = Some(ContentReader::bdat(&self.config));
                self.phase = Phase::Chunk { chunk, left: chunk.octets };
                self.start_transfer(now);
            }
            (Some(Awaited::Chunk(chunk)), Err(reply)) => self.start_drop(now, chunk, reply),
            (Some(_), Err(reply)) => self.refuse(About::step("DATA"), &reply),
            _ => {}
        }
    }

    /// Instead of [`ServerSession::answer_data`], when content came with DATA and before 354: who
    /// does not wait for the answer may be sending somebody else's text, and after a refusal its
    /// lines would be commands (RFC 2920 §3.1: DATA is the last of a group). 503, and the end.
    pub fn refuse_early_content(&mut self, now: Mono) {
        if self.take_awaited(now, |awaited| awaited == Awaited::Data).is_some() {
            self.refuse(About::step("DATA"), &replies::sequence("Content came before 354"));
            self.cut = true;
            self.phase = Phase::Closing;
        }
    }

    /// The final reply of the transaction (for LMTP the session writes it once per recipient).
    pub fn answer_message(&mut self, now: Mono, reply: Reply) {
        self.answer_recipients(now, std::slice::from_ref(&reply));
    }

    /// As [`ServerSession::answer_message`], but for LMTP, with a reply for each RCPT that was
    /// accepted, in their order; the last one serves all that lack one. SMTP takes the first.
    pub fn answer_recipients(&mut self, now: Mono, replies: &[Reply]) {
        let is_message = |awaited| matches!(awaited, Awaited::Message { .. });
        let Some(Awaited::Message { replies: count }) = self.take_awaited(now, is_message) else {
            return;
        };
        debug_assert!(!replies.is_empty(), "a message needs a reply");
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

    /// Takes the answer's place; `None` when nobody waits for it any more.
    fn take_awaited(&mut self, now: Mono, fits: impl Fn(Awaited) -> bool) -> Option<Awaited> {
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

    /// The connection is encrypted now; the session starts afresh without greeting, and whatever
    /// was received in clear behind STARTTLS has been dropped (RFC 3207 §4.2, §6).
    pub fn handle_tls_started(&mut self, now: Mono) {
        if !matches!(self.phase, Phase::StartTls) {
            debug_assert!(matches!(self.phase, Phase::Closing), "TLS without STARTTLS");
            return;
        }
        self.tls = true;
        self.greeting = Greeting::None;
        self.helo = None;
        self.wait_for_command(now);
    }

    /// The next moment at which [`ServerSession::handle_timeout`] must be called: the earliest of
    /// - `session_timeout` since the start,
    /// - while a command is awaited, `command_timeout` since the last one was answered, however
    ///   many bytes of the next came meanwhile; in a transaction since the last one that took it
    ///   further,
    /// - while content is awaited, `content_timeout` since the last piece,
    /// - from 354 or the first BDAT to the end of the content, `transfer_timeout`.
    ///
    /// None of them runs while the driver owes an answer; while recipients are open only
    /// `session_timeout` does, so that a client that always has one open comes to an end. When the
    /// session is over, they bound the time that the last replies may take to be written.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        match self.phase {
            Phase::Answer(_) => Mono::NEVER,
            Phase::Command if !self.open.is_empty() => self.session_deadline,
            _ => self.wait_deadline.min(self.transfer_deadline).min(self.session_deadline),
        }
    }

    /// `true`: a 421 4.4.2 is in the output (unless the session was over already), flush and
    /// close. `false`: not yet.
    pub fn handle_timeout(&mut self, now: Mono) -> bool {
        let deadline = self.deadline();
        if now < deadline || deadline == Mono::NEVER {
            return false;
        }
        if matches!(self.phase, Phase::Closing) {
            return true;
        }
        let why = if deadline == self.session_deadline {
            "Session took too long"
        } else if deadline == self.transfer_deadline {
            "Message took too long"
        } else {
            "Timeout"
        };
        self.close((4, 4, 2), why);
        true
    }

    /// The server stops: 421 4.3.2 in the output; flush and close. An answer that is still owed
    /// may be given or not, it has no effect: a message that is being made durable should be
    /// answered first, or its client will send it again.
    pub fn handle_shutdown(&mut self) {
        if !matches!(self.phase, Phase::Closing) {
            self.close((4, 3, 2), "Service is stopping");
        }
    }

    /// What comes next is content, which is not answered until it ends.
    #[must_use]
    pub fn reads_content(&self) -> bool {
        matches!(self.phase, Phase::Data | Phase::Chunk { .. } | Phase::Drop { .. })
    }

    /// Inside a transaction (after MAIL was accepted, up to the final reply): shutdown lets these
    /// finish for a while.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        match self.phase {
            Phase::Answer(Awaited::Mail) | Phase::Closing => false,
            Phase::Answer(Awaited::Message { .. }) => true,
            _ => self.transaction.is_some(),
        }
    }

    /// Replies not yet written. Keeps its allocation: append to it, write it, clear it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Counts a command. `false`: it was one too many, and the session ends.
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
            self.end(about, (4, 7, 0), "Too many errors");
        } else {
            self.note(about, reply);
            self.write(reply);
        }
    }

    /// Refuses a recipient: an error only as long as the transaction has none that was accepted.
    pub(super) fn refuse_recipient(&mut self, about: About<'_>, reply: &Reply) {
        self.refused_recipients = self.refused_recipients.saturating_add(1);
        let max = self.config.refused_recipients_max;
        if max != 0 && self.refused_recipients > max {
            self.end(about, (4, 7, 0), "Too many refused recipients");
        } else if self.accepted > 0 {
            self.note(about, reply);
            self.write(reply);
        } else {
            self.recipient_errors = self.recipient_errors.saturating_add(1);
            self.refuse(about, reply);
        }
    }

    /// Keeps what is refused until it is taken. There are at most as many as lines in one input.
    pub(super) fn note(&mut self, about: About<'_>, reply: &Reply) {
        let envelope = self.transaction.as_ref().map(|transaction| &transaction.envelope);
        let known = envelope.map(|e| e.reverse_path.as_ref().map_or("", Mailbox::as_str));
        // What concerns the message concerns its recipient, when there is one.
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

    /// What was refused since the last call; replies given with
    /// [`ServerSession::answer_message`] and [`ServerSession::refused`] are not among it, nor is
    /// the end of a session by timeout or shutdown.
    pub fn take_refusals(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refusals)
    }

    /// For Received's `with`, of the transaction if there is one; empty before EHLO.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        let smtputf8 = self.transaction.as_ref().is_some_and(|t| t.envelope.smtputf8);
        if self.helo.is_some() { self.protocol_with(smtputf8) } else { "" }
    }

    /// The server ended the session, by a refusal: the client may still be sending.
    #[must_use]
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// What the client called itself; empty before EHLO.
    #[must_use]
    pub fn helo(&self) -> &str {
        self.helo.as_deref().unwrap_or("")
    }

    /// Puts a reply into the output; 421 ends the session, whoever says it (RFC 5321 §3.8).
    pub(super) fn write(&mut self, reply: &Reply) {
        replies::write(&mut self.output, reply);
        if reply.code == 421 {
            self.cut = true;
            self.phase = Phase::Closing;
        }
    }

    /// Refuses with 421, which ends the session.
    pub(super) fn end(&mut self, about: About<'_>, status: (u8, u16, u16), why: &str) {
        let reply = replies::closing(&self.config, status, why);
        self.note(about, &reply);
        self.write(&reply);
    }

    /// 421 in the output, nothing more is read.
    pub(super) fn close(&mut self, status: (u8, u16, u16), why: &str) {
        let reply = replies::closing(&self.config, status, why);
        self.write(&reply);
    }

    /// Reads a chunk away and then refuses it.
    pub(super) fn start_drop(&mut self, now: Mono, chunk: Chunk, reply: Reply) {
        self.phase = Phase::Drop { left: chunk.octets, last: chunk.last, reply };
        self.start_transfer(now);
    }

    /// Content follows. The time for a message runs from its first chunk on.
    pub(super) fn start_transfer(&mut self, now: Mono) {
        self.wait_deadline = now + self.config.content_timeout;
        if self.transfer_deadline == Mono::NEVER {
            self.transfer_deadline = now + self.config.transfer_timeout;
        }
    }

    fn wait_for_command(&mut self, now: Mono) {
        self.phase = Phase::Command;
        self.wait_deadline = now + self.config.command_timeout;
    }

    /// Forgets the transaction; the driver must do so, too, if there was one.
    pub(super) fn end_transaction(&mut self) -> Option<Need> {
        self.reader = None;
        self.forget_recipients();
        self.chunks_failed = false;
        self.transfer_deadline = Mono::NEVER;
        self.transaction.take().map(|_| Need::Abandon)
    }

    fn forget_recipients(&mut self) {
        self.rcpt_given = false;
        self.accepted = 0;
        self.open = OpenRecipients::default();
        self.known = RecipientIndex::default();
        self.recipient_errors = 0;
    }
}
