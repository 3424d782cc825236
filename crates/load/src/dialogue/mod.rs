//! The server's side of SMTP, as small as it can be: what the sink and the bare relay speak.
//!
//! It is kind to the client where that costs nothing (no limits but a command line's length, no
//! grammar beyond the brackets of a path), for it judges throughput and arrival, not manners. In
//! one thing it is strict: content ends with CRLF . CRLF and with nothing else.

use memchr::{memchr, memmem};

/// A longer command line ends the session.
const LINE_BYTES_MAX: usize = 4096;

/// What to offer after EHLO.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// RFC 3030.
    pub chunking: bool,
    /// RFC 2920.
    pub pipelining: bool,
    /// RFC 3461.
    pub dsn: bool,
    /// A refused chunk is read and dropped, as RFC 3030 §2 wants it. If not, what follows a refused
    /// BDAT is read as commands.
    pub discards: bool,
    /// RFC 3207.
    pub starttls: bool,
    /// RFC 8689, in encrypted sessions only.
    pub requiretls: bool,
}

/// Where content goes, without the dots that DATA added, in pieces split anywhere.
pub trait ContentReceiver {
    /// Takes the next piece.
    fn push(&mut self, piece: &[u8]);
}

impl ContentReceiver for Vec<u8> {
    fn push(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

/// What happened. All but `Input` and `Quit` wait for [`Dialogue::accept`] or
/// [`Dialogue::refuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialogueEvent {
    /// All input is used up.
    Input,
    /// EHLO or HELO.
    Hello,
    /// MAIL.
    Mail,
    /// RCPT; the address is [`Dialogue::candidate`].
    Rcpt,
    /// DATA, or the first BDAT of a message: content follows, and what came before is void.
    Data,
    /// The content is complete.
    Message,
    /// STARTTLS: once 220 is written the handshake follows, then [`Dialogue::encrypted`].
    StartTls,
    /// 221 is in the output (or 500, after a line beyond all bounds): write it and close.
    Quit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Command,
    /// Inside DATA.
    Data(TerminatorState),
    /// Inside a BDAT chunk. `refused`: read it, drop it, then say this code.
    Chunk {
        left: u64,
        last: bool,
        refused: Option<u16>,
    },
    /// An event waits for its answer.
    Answer(DialogueEvent),
}

/// Where a reader of DATA stands in the sequence CRLF . CRLF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminatorState {
    /// Inside a line.
    Middle,
    /// Behind CR.
    Cr,
    /// At the beginning of a line.
    Start,
    /// Behind a dot at the beginning of a line.
    Dot,
    /// Behind that dot and CR.
    DotCr,
}

/// One session.
#[derive(Debug)]
pub struct Dialogue {
    offer: Offer,
    is_encrypted: bool,
    state: State,
    /// The beginning of a command line whose end has not come yet.
    partial: Vec<u8>,
    output: Vec<u8>,
    /// MAIL was accepted.
    mail: bool,
    reverse_path: Vec<u8>,
    /// Accepted recipients, one space between two.
    recipients: Vec<u8>,
    candidate: Vec<u8>,
    /// The command that waits for its answer was BDAT, with this size and LAST.
    chunk: Option<(u64, bool)>,
    /// At least one chunk of the present message was accepted.
    chunked: bool,
    /// Chunks that came though no recipient was accepted.
    unasked_count: u64,
    /// Lines that are no commands.
    unknown_count: u64,
    /// What the next refusal is put in; empty: our own words.
    words: Vec<u8>,
}

impl Dialogue {
    /// The greeting is in the output.
    #[must_use]
    pub fn new(offer: Offer) -> Dialogue {
        Dialogue {
            offer,
            is_encrypted: false,
            state: State::Command,
            partial: Vec::new(),
            output: b"220 postrider-lab ESMTP\r\n".to_vec(),
            mail: false,
            reverse_path: Vec::new(),
            recipients: Vec::new(),
            candidate: Vec::new(),
            chunk: None,
            chunked: false,
            unasked_count: 0,
            unknown_count: 0,
            words: Vec::new(),
        }
    }

    /// Chunks that came though no recipient of their transaction was accepted.
    #[must_use]
    pub fn unasked_count(&self) -> u64 {
        self.unasked_count
    }

    /// Lines that were no commands: content, most likely, that nobody had asked for.
    #[must_use]
    pub fn unknown_count(&self) -> u64 {
        self.unknown_count
    }

    /// Replies to be written; clear it after writing.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// MAIL's address, without brackets; empty for the null reverse-path.
    #[must_use]
    pub fn reverse_path(&self) -> &[u8] {
        &self.reverse_path
    }

    /// The accepted recipients.
    pub fn recipients(&self) -> impl Iterator<Item = &[u8]> {
        self.recipients.split(|&byte| byte == b' ').filter(|address| !address.is_empty())
    }

    /// The accepted recipients, one space between two.
    #[must_use]
    pub fn recipient_list(&self) -> &[u8] {
        &self.recipients
    }

    /// The recipient of the last [`DialogueEvent::Rcpt`].
    #[must_use]
    pub fn candidate(&self) -> &[u8] {
        &self.candidate
    }

    /// Takes input until something happens; says how much it took.
    pub fn advance(
        &mut self,
        input: &[u8],
        content: &mut impl ContentReceiver,
    ) -> (usize, DialogueEvent) {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let (taken, event) = match self.state {
                State::Command => self.command_line(rest),
                State::Data(dot) => self.data(dot, rest, content),
                State::Chunk { left, last, refused } => {
                    self.chunk_bytes(left, last, refused, rest, content)
                }
                State::Answer(event) => (0, Some(event)),
            };
            used += taken;
            if let Some(event) = event {
                return (used, event);
            }
        }
    }

    fn command_line(&mut self, input: &[u8]) -> (usize, Option<DialogueEvent>) {
        let Some(end) = memchr(b'\n', input) else {
            self.partial.extend_from_slice(input);
            if self.partial.len() > LINE_BYTES_MAX {
                self.partial.clear();
                self.say("500 5.5.2 Line too long");
                return (input.len(), Some(DialogueEvent::Quit));
            }
            return (input.len(), Some(DialogueEvent::Input));
        };
        let line = &input[..end];
        let event = if self.partial.is_empty() {
            self.command(line)
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(line);
            let event = self.command(&whole);
            whole.clear();
            self.partial = whole;
            event
        };
        if let Some(event) = event
            && event != DialogueEvent::Quit
        {
            self.state = State::Answer(event);
        }
        (end + 1, event)
    }

    fn command(&mut self, line: &[u8]) -> Option<DialogueEvent> {
        let line = line.trim_ascii_end();
        let verb_end = memchr(b' ', line).unwrap_or(line.len());
        let (verb, argument) = line.split_at(verb_end);
        let mut upper = [0; 4];
        let known = verb.len() == 4;
        if known {
            upper.copy_from_slice(verb);
            upper.make_ascii_uppercase();
        }
        match &upper {
            b"EHLO" | b"HELO" => return Some(self.hello(&upper == b"EHLO")),
            b"MAIL" => return self.mail(argument),
            b"RCPT" => return self.rcpt(argument),
            b"DATA" => return self.start_data(),
            b"BDAT" => return self.start_chunk(argument),
            b"RSET" => {
                self.say("250 2.0.0 Ok");
                self.reset();
            }
            b"NOOP" => self.say("250 2.0.0 Ok"),
            b"VRFY" => self.say("252 2.0.0 Send it and see"),
            b"QUIT" => {
                self.say("221 2.0.0 Bye");
                return Some(DialogueEvent::Quit);
            }
            _ if self.offer.starttls && verb.eq_ignore_ascii_case(b"STARTTLS") => {
                return Some(DialogueEvent::StartTls);
            }
            _ => {
                self.unknown_count += 1;
                self.say("500 5.5.2 Unknown command");
            }
        }
        None
    }

    fn hello(&mut self, extended: bool) -> DialogueEvent {
        self.reset();
        if !extended {
            self.say("250 postrider-lab");
            return DialogueEvent::Hello;
        }
        self.output.extend_from_slice(b"250-postrider-lab\r\n");
        if self.offer.pipelining {
            self.output.extend_from_slice(b"250-PIPELINING\r\n");
        }
        if self.offer.chunking {
            self.output.extend_from_slice(b"250-CHUNKING\r\n");
        }
        if self.offer.dsn {
            self.output.extend_from_slice(b"250-DSN\r\n");
        }
        if self.offer.starttls {
            self.output.extend_from_slice(b"250-STARTTLS\r\n");
        }
        if self.offer.requiretls && self.is_encrypted {
            self.output.extend_from_slice(b"250-REQUIRETLS\r\n");
        }
        self.say("250-8BITMIME\r\n250-SMTPUTF8\r\n250 ENHANCEDSTATUSCODES");
        DialogueEvent::Hello
    }

    fn mail(&mut self, argument: &[u8]) -> Option<DialogueEvent> {
        if self.mail {
            self.say("503 5.5.1 MAIL was given");
            return None;
        }
        let Some(address) = path(argument) else {
            self.say("501 5.5.4 MAIL FROM:<address>");
            return None;
        };
        self.candidate.clear();
        self.candidate.extend_from_slice(address);
        Some(DialogueEvent::Mail)
    }

    fn rcpt(&mut self, argument: &[u8]) -> Option<DialogueEvent> {
        if !self.mail || self.chunked {
            self.say("503 5.5.1 RCPT has no place here");
            return None;
        }
        match path(argument) {
            Some(address) if !address.is_empty() => {
                self.candidate.clear();
                // A quoted local part may hold a space, which separates recipients here.
                let bytes = address.iter().map(|&byte| if byte == b' ' { b'?' } else { byte });
                self.candidate.extend(bytes);
                Some(DialogueEvent::Rcpt)
            }
            _ => {
                self.say("501 5.5.4 RCPT TO:<address>");
                None
            }
        }
    }

    fn start_data(&mut self) -> Option<DialogueEvent> {
        if self.chunked || !self.mail {
            self.say("503 5.5.1 DATA has no place here");
            return None;
        }
        if self.recipients.is_empty() {
            self.say("554 5.5.1 No valid recipients");
            return None;
        }
        self.chunk = None;
        Some(DialogueEvent::Data)
    }

    fn start_chunk(&mut self, argument: &[u8]) -> Option<DialogueEvent> {
        let mut words = argument.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let size = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let last = words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"LAST"));
        let Some(left) = size else {
            // What follows can't be told from commands any more.
            self.say("501 5.5.4 BDAT size [LAST]");
            return Some(DialogueEvent::Quit);
        };
        if self.recipients.is_empty() || !self.offer.chunking {
            self.unasked_count += 1;
            self.refuse_chunk(left, last, 503);
            return None;
        }
        if self.chunked {
            self.state = State::Chunk { left, last, refused: None };
            return None;
        }
        self.chunk = Some((left, last));
        Some(DialogueEvent::Data)
    }

    /// A yes to the last event, with its reply in the output.
    pub fn accept(&mut self) {
        let State::Answer(event) = self.state else { return };
        self.state = State::Command;
        match event {
            // The reply to EHLO is already there: its lines are not the caller's business.
            DialogueEvent::Hello | DialogueEvent::Input | DialogueEvent::Quit => {}
            DialogueEvent::Mail => {
                self.mail = true;
                self.reverse_path.clone_from(&self.candidate);
                self.say("250 2.1.0 Ok");
            }
            DialogueEvent::Rcpt => {
                if !self.recipients.is_empty() {
                    self.recipients.push(b' ');
                }
                self.recipients.extend_from_slice(&self.candidate);
                self.say("250 2.1.5 Ok");
            }
            DialogueEvent::Data => match self.chunk.take() {
                Some((left, last)) => {
                    self.chunked = true;
                    self.state = State::Chunk { left, last, refused: None };
                }
                None => {
                    self.say("354 End with a dot");
                    self.state = State::Data(TerminatorState::Start);
                }
            },
            DialogueEvent::Message => {
                self.say("250 2.0.0 Ok");
                self.reset();
            }
            DialogueEvent::StartTls => self.say("220 2.0.0 Go ahead"),
        }
    }

    /// The handshake is done: the session begins anew (RFC 3207 §4.2).
    pub fn encrypted(&mut self) {
        self.offer.starttls = false;
        self.is_encrypted = true;
        self.partial.clear();
        self.reset();
    }

    /// A no to the last event.
    pub fn refuse(&mut self, code: u16) {
        let State::Answer(event) = self.state else { return };
        self.state = State::Command;
        match (event, self.chunk.take()) {
            (DialogueEvent::Data, Some((left, last))) => {
                return self.refuse_chunk(left, last, code);
            }
            (DialogueEvent::Hello, _) => self.output.clear(),
            (DialogueEvent::Message, _) => self.reset(),
            _ => {}
        }
        self.say_refused(code);
    }

    /// A no in these words: whole lines, each with `code`.
    pub fn refuse_in_words(&mut self, code: u16, words: &[u8]) {
        self.words.clear();
        self.words.extend_from_slice(words);
        self.refuse(code);
    }

    /// Says these lines instead of the greeting.
    pub fn greet_in_words(&mut self, words: &[u8]) {
        self.output.clear();
        self.output.extend_from_slice(words);
    }

    fn refuse_chunk(&mut self, left: u64, last: bool, code: u16) {
        if self.offer.discards {
            self.state = State::Chunk { left, last, refused: Some(code) };
        } else {
            self.say_refused(code);
        }
    }

    fn say(&mut self, reply: &str) {
        self.output.extend_from_slice(reply.as_bytes());
        self.output.extend_from_slice(b"\r\n");
    }

    fn say_refused(&mut self, code: u16) {
        if !self.words.is_empty() {
            self.output.append(&mut self.words);
            return;
        }
        let class = code / 100;
        self.say(&format!("{code} {class}.0.0 Refused on purpose"));
    }

    fn reset(&mut self) {
        self.mail = false;
        self.recipients.clear();
        self.chunk = None;
        self.chunked = false;
    }

    fn chunk_bytes(
        &mut self,
        left: u64,
        last: bool,
        refused: Option<u16>,
        input: &[u8],
        content: &mut impl ContentReceiver,
    ) -> (usize, Option<DialogueEvent>) {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        if refused.is_none() {
            content.push(&input[..taken]);
        }
        let left = left - taken as u64;
        if left > 0 {
            self.state = State::Chunk { left, last, refused };
            return (taken, Some(DialogueEvent::Input));
        }
        self.state = State::Command;
        match refused {
            Some(code) => {
                self.say_refused(code);
                // RFC 3030 §2: after a failed BDAT the transaction is over; what follows is
                // refused until RSET or MAIL.
                if last {
                    self.reset();
                }
                (taken, None)
            }
            None if last => {
                self.state = State::Answer(DialogueEvent::Message);
                (taken, Some(DialogueEvent::Message))
            }
            None => {
                self.say("250 2.0.0 Chunk taken");
                (taken, None)
            }
        }
    }

    /// Reads on in DATA (RFC 5321 §4.5.2).
    fn data(
        &mut self,
        mut dot: TerminatorState,
        input: &[u8],
        content: &mut impl ContentReceiver,
    ) -> (usize, Option<DialogueEvent>) {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            dot = match (dot, byte) {
                (TerminatorState::Middle, _) => {
                    let rest = &input[at..];
                    let (piece, next) = match memmem::find(rest, b"\r\n.") {
                        // The piece ends before the dot.
                        Some(found) => (&rest[..found + 2], TerminatorState::Start),
                        None if rest.ends_with(b"\r\n") => (rest, TerminatorState::Start),
                        None if rest.ends_with(b"\r") => (rest, TerminatorState::Cr),
                        None => (rest, TerminatorState::Middle),
                    };
                    content.push(piece);
                    at += piece.len();
                    dot = next;
                    continue;
                }
                (TerminatorState::Cr, b'\n') => {
                    content.push(b"\n");
                    TerminatorState::Start
                }
                (TerminatorState::Start, b'.') => TerminatorState::Dot,
                // Not a part of the sequence: read this byte again as one of a line.
                (TerminatorState::Cr | TerminatorState::Start, _) => {
                    dot = TerminatorState::Middle;
                    continue;
                }
                (TerminatorState::Dot, b'\r') => TerminatorState::DotCr,
                // The dot was stuffed: it is gone, the line goes on.
                (TerminatorState::Dot, _) => {
                    dot = TerminatorState::Middle;
                    continue;
                }
                (TerminatorState::DotCr, b'\n') => {
                    self.state = State::Answer(DialogueEvent::Message);
                    return (at + 1, Some(DialogueEvent::Message));
                }
                // The CR behind the stuffed dot was content, and this byte may follow it.
                (TerminatorState::DotCr, _) => {
                    content.push(b"\r");
                    dot = TerminatorState::Cr;
                    continue;
                }
            };
            at += 1;
        }
        self.state = State::Data(dot);
        (at, Some(DialogueEvent::Input))
    }
}

/// What stands between the brackets of `FROM:<…>` or `TO:<…>`.
fn path(argument: &[u8]) -> Option<&[u8]> {
    let start = memchr(b'<', argument)? + 1;
    let rest = argument.get(start..)?;
    Some(&rest[..memchr(b'>', rest)?])
}

#[cfg(test)]
mod tests;
