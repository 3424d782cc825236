//! State, input and output of the session; the effects of commands are in [`super::dispatch`].

use super::content::ContentReader;
use super::counts::CommandCounts;
use super::line::{LineInput, LineReader, LineRules};
use super::open_recipients::OpenRecipients;
use super::parameters::Chunk;
use super::recipients::RecipientIndex;
use super::replies;
use super::replies::Refused;
use super::{ContentSink, InputProgress, Need, ServerConfig, Transaction};
use mail::{Mono, Reply};
use std::sync::Arc;

/// Room for the greeting and the reply to EHLO, which most sessions begin with.
const OUTPUT_BYTES: usize = 256;
/// Output memory beyond this, from pipelined replies, is freed once written.
const OUTPUT_KEPT_BYTES_MAX: usize = 4_096;

/// A session, from greeting to close.
///
/// The only buffers are the output and an incomplete command line.
#[derive(Debug)]
pub struct ServerSession {
    pub(super) config: Arc<ServerConfig>,
    pub(super) output: Vec<u8>,
    pub(super) lines: LineReader,
    pub(super) phase: Phase,
    pub(super) greeting: Greeting,
    pub(super) helo: Option<Arc<str>>,
    pub(super) tls: bool,
    /// See [`ServerSession::believe`].
    pub(super) is_believed: bool,
    /// The client is authenticated.
    pub(super) is_logged_in: bool,
    /// Mechanisms offered on this connection; `None`: all those of the rules.
    pub(super) mechanisms: Option<Box<[&'static str]>>,
    /// Since it did, or since the start.
    pub(super) login_failures: u32,
    /// The open transaction: from MAIL to the end of its content.
    pub(super) transaction: Option<Box<Transaction>>,
    /// A RCPT was received, whatever its reply.
    pub(super) rcpt_given: bool,
    /// Recipients with unwritten replies.
    pub(super) open: OpenRecipients,
    /// Accepted RCPTs, without repetitions of a recipient.
    pub(super) accepted: usize,
    /// RCPTs that repeated an accepted recipient.
    pub(super) repeated: usize,
    /// Finds duplicates in the envelope.
    pub(super) known: RecipientIndex,
    /// From 354 or the first chunk on.
    pub(super) reader: Option<ContentReader>,
    /// A chunk other than the last was refused: more may be in transit (RFC 3030 §2).
    pub(super) chunks_failed: bool,
    pub(super) commands: u32,
    /// Counts by name; `None` unless a log has them.
    pub(super) counts: Option<Box<CommandCounts>>,
    pub(super) errors: u32,
    /// The part of `errors` from recipients of this transaction; no longer counted once a recipient is accepted.
    pub(super) recipient_errors: u32,
    pub(super) refused_recipients: u32,
    /// Lines before EHLO that were no commands.
    pub(super) unknown: u8,
    /// See [`ServerSession::was_cut`].
    pub(super) cut: bool,
    /// The next result of [`ServerSession::take_refusals`].
    pub(super) refusals: Vec<Refused>,
    pub(super) messages: u32,
    /// The end of the wait for a command or for content.
    pub(super) wait_deadline: Mono,
    /// Deadline for the content of the current message.
    pub(super) transfer_deadline: Mono,
    session_deadline: Mono,
    /// Start of this client's session; a proxy may have served other clients before.
    pub(super) client_since: Mono,
}

/// The kind of the next input, or the answer awaited in place of input.
#[derive(Debug)]
pub(super) enum Phase {
    /// The next input is a command line.
    Command,
    /// The driver's answer to a need.
    Answer(PendingNeed),
    /// The next input is a line of an exchange that AUTH has begun.
    Response,
    /// Content up to the final dot.
    Data,
    /// Content by count; `left` octets of the chunk are outstanding.
    Chunk { chunk: Chunk, left: u64 },
    /// A chunk that is refused with `reply` once its last octet was dropped (RFC 3030 §2).
    Drop { left: u64, last: bool, reply: Reply },
    /// No more input is read in clear.
    StartTls,
    /// No more input is read.
    Closing,
}

/// The need that was not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingNeed {
    Login,
    Xclient,
    Mail,
    Data,
    Chunk(Chunk),
    Message { replies: usize },
}

/// The client's greeting command.
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

    /// As [`ServerSession::new`], on a connection encrypted from the start (RFC 8314 §3): STARTTLS is not offered.
    #[must_use]
    pub fn encrypted(config: Arc<ServerConfig>, now: Mono) -> ServerSession {
        ServerSession { tls: true, ..ServerSession::new(config, now) }
    }

    /// A session that greets with `reply` (554 or 421). After 421 it needs `Close` at once, which
    /// [`ServerSession::handle_input`] returns even without input. After 554 it answers 503 to all but QUIT (RFC 5321
    /// §3.1).
    #[must_use]
    pub fn refused(config: Arc<ServerConfig>, reply: Reply, now: Mono) -> ServerSession {
        let mut session = ServerSession::silent(config, now);
        session.greeting = Greeting::Refused;
        session.write(&reply);
        session
    }

    fn silent(config: Arc<ServerConfig>, now: Mono) -> ServerSession {
        ServerSession {
            output: Vec::with_capacity(OUTPUT_BYTES),
            lines: LineReader::default(),
            phase: Phase::Command,
            greeting: Greeting::None,
            helo: None,
            tls: false,
            is_believed: false,
            is_logged_in: false,
            mechanisms: None,
            login_failures: 0,
            transaction: None,
            rcpt_given: false,
            open: OpenRecipients::default(),
            accepted: 0,
            repeated: 0,
            known: RecipientIndex::default(),
            reader: None,
            chunks_failed: false,
            commands: 0,
            counts: None,
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
            client_since: now,
            config,
        }
    }

    /// Takes input, and returns early if it needs an answer. Also call it with empty input after an answer.
    ///
    /// Calling it while a need other than `Rcpt` is unanswered is an error of the driver. Release builds close the
    /// session then.
    pub fn handle_input(
        &mut self,
        now: Mono,
        input: &[u8],
        sink: &mut dyn ContentSink,
    ) -> InputProgress {
        if self.output.is_empty() && self.output.capacity() > OUTPUT_KEPT_BYTES_MAX {
            self.output = Vec::new();
        }
        let mut rest = input;
        loop {
            let need = match self.phase {
                Phase::Command => self.take_line(now, &mut rest),
                Phase::Response => self.take_response(now, &mut rest),
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
                return InputProgress { consumed: input.len() - rest.len(), need };
            }
        }
    }

    fn take_line(&mut self, now: Mono, rest: &mut &[u8]) -> Option<Need> {
        let rules = LineRules {
            bytes_max: self.config.command_line_bytes_max,
            takes_lf: self.config.takes_lf(),
        };
        let line = self.lines.take(rest, rules);
        match line {
            LineInput::Incomplete => Some(Need::Input),
            line if !self.open.is_empty() => Some(self.take_further(now, line)),
            LineInput::Complete(line) => self.handle_line(now, &line),
            LineInput::TooLong { is_bdat } => {
                self.lost_line(now, "Line too long", is_bdat);
                None
            }
        }
    }

    /// While recipients are open: a command that cannot be performed yet is put back.
    fn take_further(&mut self, now: Mono, line: LineInput<'_>) -> Need {
        if let LineInput::Complete(line) = &line
            && let Some(need) = self.open_further(now, line)
        {
            return need;
        }
        self.lines.put_back(line);
        Need::Answers
    }

    /// Restarts the wait after a complete line. A client that sends a line byte by byte does not restart it:
    /// `command_timeout` limits a whole line, and within a transaction the time to a line that `advances` it.
    pub(super) fn keep_waiting(&mut self, now: Mono, advances: bool) {
        if advances || self.transaction.is_none() {
            self.wait_deadline = now + self.config.command_timeout;
        }
    }

    /// The next time at which [`ServerSession::handle_timeout`] must be called: the earliest of
    /// - `session_timeout` since the start,
    /// - the time for a login since the start, if one is needed,
    /// - while a command is awaited, `command_timeout` since the last one was answered, however many bytes of the next
    ///   have arrived; in a transaction since the last one that advanced it,
    /// - while content is awaited, `content_timeout` since the last piece,
    /// - from 354 or the first BDAT to the end of the content, `transfer_timeout`.
    ///
    /// No timeout runs while the driver owes an answer, except that `session_timeout` runs while recipients are open,
    /// so that a client with permanently open recipients is ended. After the end of the session they bound the time for
    /// writing the last replies.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        match self.phase {
            Phase::Answer(_) => Mono::NEVER,
            Phase::Command if !self.open.is_empty() => self.session_deadline,
            _ => {
                let of_message = self.wait_deadline.min(self.transfer_deadline);
                of_message.min(self.session_deadline).min(self.login_deadline())
            }
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
            "Session time limit exceeded"
        } else if deadline == self.transfer_deadline {
            "Message transfer time limit exceeded"
        } else if deadline == self.login_deadline() {
            "Authentication time limit exceeded"
        } else {
            "Timeout"
        };
        self.count(CommandCounts::note_timeout);
        self.close((4, 4, 2), why);
        true
    }

    /// The server stops: 421 4.3.2 in the output; flush and close. An outstanding answer has no effect. A message that
    /// is being made durable should be answered first, or its client will send it again.
    pub fn handle_shutdown(&mut self) {
        if !matches!(self.phase, Phase::Closing) {
            self.close((4, 3, 2), "Server shutting down");
        }
    }

    /// Ends the session to free its place for other clients.
    pub fn handle_displaced(&mut self) {
        if !matches!(self.phase, Phase::Closing) {
            self.close((4, 3, 2), "Too many sessions; try again later");
        }
    }

    /// Ends the session, because its client lost the right to it.
    pub fn handle_revoked(&mut self) {
        if !matches!(self.phase, Phase::Closing) {
            self.close((4, 7, 0), "Access rights changed; reconnect");
        }
    }

    /// The next input is content, which is not answered until it ends.
    #[must_use]
    pub fn reads_content(&self) -> bool {
        matches!(self.phase, Phase::Data | Phase::Chunk { .. } | Phase::Drop { .. })
    }

    /// True within a transaction (from accepted MAIL to the final reply): these get some time at shutdown.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        match self.phase {
            Phase::Answer(PendingNeed::Mail) | Phase::Closing => false,
            Phase::Answer(PendingNeed::Message { .. }) => true,
            _ => self.transaction.is_some(),
        }
    }

    /// Counts commands by name from now on.
    pub fn count_commands(&mut self) {
        self.counts.get_or_insert_default();
    }

    /// The client closed the connection: a message without its end counts as rejected.
    pub fn handle_lost(&mut self) {
        if self.reads_content() {
            self.count(CommandCounts::note_lost_content);
        }
    }

    /// Counts of commands, if there are any.
    #[must_use]
    pub fn command_counts(&self) -> Option<&CommandCounts> {
        self.counts.as_deref()
    }

    pub(super) fn count(&mut self, note: impl FnOnce(&mut CommandCounts)) {
        if let Some(counts) = &mut self.counts {
            note(counts);
        }
    }

    /// Unwritten replies. The buffer is reused: append to it, write it, then clear it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The value for `with` in Received, of the transaction if there is one; empty before EHLO.
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

    /// Accepted RCPTs of this transaction that named a recipient again.
    #[must_use]
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// The client's name in HELO, EHLO or LHLO; empty before.
    #[must_use]
    pub fn helo(&self) -> &str {
        self.helo.as_deref().unwrap_or("")
    }

    /// Puts a reply into the output; 421 ends the session, whatever its source (RFC 5321 §3.8).
    pub(super) fn write(&mut self, reply: &Reply) {
        replies::write(&mut self.output, reply);
        if reply.code == 421 {
            self.cut = true;
            self.phase = Phase::Closing;
        }
    }

    pub(super) fn wait_for_command(&mut self, now: Mono) {
        self.phase = Phase::Command;
        self.wait_deadline = now + self.config.command_timeout;
    }

    /// Drops the transaction; the driver must drop its state too, if there was one.
    pub(super) fn end_transaction(&mut self) -> Option<Need> {
        self.reader = None;
        self.forget_recipients();
        self.chunks_failed = false;
        self.transfer_deadline = Mono::NEVER;
        self.transaction.take().map(|_| Need::Abandon)
    }

    pub(super) fn forget_recipients(&mut self) {
        self.rcpt_given = false;
        self.accepted = 0;
        self.repeated = 0;
        self.open = OpenRecipients::default();
        self.known = RecipientIndex::default();
        self.recipient_errors = 0;
    }
}
