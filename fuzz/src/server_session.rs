//! A server session under a client that says anything, a policy that answers anything, and a
//! spool that is late or fails.

use crate::escape::escape;
use crate::model;
use crate::stream::{Cut, Item, in_pieces, items};
use mail::{ContentScanner, Mono, Reply};
use smtp::server::{
    Accepted, BareNewline, ContentSink, Need, Nul, ServerConfig, ServerSession, Transaction,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The first two bytes are the listener, the rest is what happens: see [`Driver::order`].
pub fn run(data: &[u8]) {
    let Some((&[flags, limits], rest)) = data.split_first_chunk::<2>() else { return };
    let config = Arc::new(listener(flags, limits));
    let play = |cut| {
        let mut driver = Driver::new(config.clone(), flags & 32 != 0);
        for item in items(rest) {
            match item {
                Item::Bytes(bytes) => {
                    in_pieces(bytes, cut, |piece| driver.feed(piece));
                    driver.end_flight();
                }
                Item::Order(what, argument) => driver.order(what, argument),
            }
        }
        (driver.trace, driver.closed)
    };
    let whole = play(Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(limits)] {
        let other = play(cut);
        assert_eq!(whole, other, "{cut:?} makes a difference");
    }
}

fn listener(flags: u8, limits: u8) -> ServerConfig {
    let mode = if flags & 1 == 0 { BareNewline::Reject } else { BareNewline::Normalize };
    let mut config = ServerConfig {
        bare_newline: mode,
        nul: match flags >> 5 & 3 {
            0 => Nul::Keep,
            1 => Nul::Strip,
            _ => Nul::Reject,
        },
        lmtp: flags & 2 != 0,
        starttls: flags & 4 != 0,
        chunking: flags & 8 == 0,
        ..ServerConfig::default()
    };
    if flags & 16 != 0 {
        config.message_bytes_max = 20 + u64::from(limits % 32);
        config.content_line_bytes_max = 10;
        config.command_line_bytes_max = 80;
        config.recipients_max = 2;
        config.messages_max = 3;
        config.commands_max = 40;
        config.errors_max = 1 + u32::from(limits % 8);
    }
    config
}

#[derive(Debug, Default)]
struct Pieces(Vec<u8>);

impl ContentSink for Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }
}

/// Where in the stream the content of the open transaction began.
#[derive(Clone, Copy, Debug)]
enum Content {
    Data(usize),
    /// Behind the BDAT command whose chunk has so many octets.
    Bdat(usize),
}

struct Driver {
    config: Arc<ServerConfig>,
    session: ServerSession,
    now: Mono,
    /// All that the session took since the connection or TLS began.
    stream: Vec<u8>,
    sink: Pieces,
    content: Option<Content>,
    recipients: usize,
    answers: VecDeque<u8>,
    tls_wanted: bool,
    closed: bool,
    trace: Vec<String>,
}

impl Driver {
    fn new(config: Arc<ServerConfig>, refused: bool) -> Driver {
        let now = Mono(1_000_000_000);
        let session = if refused {
            ServerSession::refused(config.clone(), Reply::new(554, (5, 7, 1), "No"), now)
        } else {
            ServerSession::new(config.clone(), now)
        };
        let mut driver = Driver {
            config,
            session,
            now,
            stream: Vec::new(),
            sink: Pieces::default(),
            content: None,
            recipients: 0,
            answers: VecDeque::new(),
            tls_wanted: false,
            closed: false,
            trace: Vec::new(),
        };
        assert_eq!(driver.drain().len(), 1, "one greeting");
        driver
    }

    /// 0: time passes; 1: the server stops; 2 and on: how a later need is answered.
    fn order(&mut self, what: u8, argument: u8) {
        match what {
            0 if !self.closed => {
                self.now = self.now + Duration::from_secs(u64::from(argument) * 4);
                let deadline = self.session.deadline();
                let ended = self.session.handle_timeout(self.now);
                assert_eq!(ended, deadline <= self.now && deadline != Mono::NEVER);
                if ended {
                    let said = self.drain();
                    assert!(said.len() == 1 && said[0].starts_with("421 "), "{said:?}");
                    self.feed(b"");
                    assert!(self.closed);
                }
            }
            1 if !self.closed => {
                self.session.handle_shutdown();
                let said = self.drain();
                assert!(said.len() == 1 && said[0].starts_with("421 "), "{said:?}");
                self.feed(b"");
                assert!(self.closed);
            }
            _ => self.answers.push_back(argument),
        }
    }

    fn feed(&mut self, input: &[u8]) {
        let mut rest = input;
        while !self.closed {
            let progress = self.session.handle_input(self.now, rest, &mut self.sink);
            let (taken, behind) = rest.split_at(progress.consumed);
            self.stream.extend_from_slice(taken);
            rest = behind;
            assert!(self.sink.0.len() as u64 <= self.config.message_bytes_max);
            self.drain();
            match progress.need {
                Need::Input => {
                    assert!(rest.is_empty(), "input left over");
                    return;
                }
                Need::StartTls => {
                    assert!(rest.is_empty() && self.config.starttls);
                    self.tls_wanted = true;
                    return;
                }
                Need::Close => self.closed = true,
                Need::Abandon => {
                    self.trace.push(format!("abandon {}", self.sink.0.is_empty()));
                    self.sink.0.clear();
                    self.content = None;
                    self.recipients = 0;
                }
                need => self.answer(need),
            }
        }
    }

    fn end_flight(&mut self) {
        if std::mem::take(&mut self.tls_wanted) && !self.closed {
            self.session.handle_tls_started(self.now);
            self.stream.clear();
            self.trace.push("tls".into());
        }
    }

    /// What the policy or the spool says, and whether it takes its time.
    fn verdict(&mut self) -> Result<(), Reply> {
        let answer = self.answers.pop_front().unwrap_or(0);
        if answer & 8 != 0 {
            // Nothing times out while an answer is owed.
            self.now = self.now + Duration::from_secs(500);
            if self.session.handle_timeout(self.now) {
                // Only recipients may be open at the end of the session's time.
                assert!(self.drain()[0].starts_with("421 "));
            }
        }
        if answer & 16 != 0 {
            self.session.handle_shutdown();
            let said = self.drain();
            assert!(said.len() == 1 && said[0].starts_with("421 "), "{said:?}");
        }
        match answer & 7 {
            1 => Err(Reply::new(450, (4, 2, 1), "Later")),
            2 => Err(Reply::new(550, (5, 1, 1), "Never")),
            3 => Err(Reply::new(421, (4, 3, 2), "Going")),
            4 => Err(Reply::new(452, (4, 3, 1), "Full")),
            5 => Err(Reply::new(451, (4, 3, 0), "Two\nlines")),
            _ => Ok(()),
        }
    }

    fn answer(&mut self, need: Need) {
        let verdict = self.verdict();
        let stopped = self.trace.last().is_some_and(|line| line.starts_with("421 "));
        let positive = verdict.is_ok();
        let code = verdict.as_ref().err().map(|reply| reply.code);
        let mut count = 1;
        let mut waits = false;
        match need {
            Need::Mail(_) => {
                assert!(self.sink.0.is_empty() && self.content.is_none());
                self.recipients = 0;
                self.session.answer_mail(self.now, verdict);
            }
            Need::Rcpt { number, .. } => {
                self.recipients += usize::from(positive);
                let answer = verdict.map(|()| Accepted::AsGiven);
                self.session.answer_rcpt(self.now, number, answer);
            }
            Need::Data { recipients, .. } => {
                assert_eq!(recipients, self.recipients);
                assert!(self.sink.0.is_empty() && recipients > 0);
                let at = self.stream.len();
                let is_bdat = is_bdat(last_line(&self.stream));
                self.content = match (positive, is_bdat) {
                    (false, _) => None,
                    (true, true) => Some(Content::Bdat(at)),
                    (true, false) => Some(Content::Data(at)),
                };
                self.session.answer_data(self.now, verdict);
                // The reply to a chunk comes behind it.
                waits = is_bdat;
            }
            Need::Message(transaction) => {
                self.check_content(&transaction);
                count = if self.config.lmtp { self.recipients } else { 1 };
                let replies = verdict.err().unwrap_or(Reply::new(250, (2, 0, 0), "Queued"));
                self.session.answer_message(self.now, replies);
                self.recipients = 0;
            }
            other => unreachable!("{other:?}"),
        }
        let said = self.drain();
        if stopped {
            assert!(said.is_empty(), "{said:?} after 421");
        } else if !waits {
            // Too many errors end the session instead, and a 421 always does.
            let ends = said.iter().position(|line| line.starts_with("421 "));
            assert!(said.len() == count || ends.is_some(), "{said:?}");
            let fits = |line: &String| match code {
                Some(code) => line.starts_with(&code.to_string()),
                None => line.starts_with("250 ") || line.starts_with("354 "),
            };
            assert!(said.iter().all(|line| fits(line) || line.starts_with("421 ")), "{said:?}");
        }
    }

    /// What is accepted is what was sent, by a reading of the whole stream.
    fn check_content(&mut self, transaction: &Transaction) {
        let content = std::mem::take(&mut self.sink.0);
        let mut verdict = match self.content.take() {
            Some(Content::Data(at)) => {
                let verdict = model::data(&self.stream[at..]).expect("an end");
                assert_eq!(at + verdict.taken, self.stream.len(), "another end");
                verdict
            }
            Some(Content::Bdat(at)) => model::bdat(&chunks(&self.stream, at)),
            None => panic!("a message without content"),
        };
        assert!(!verdict.bare || self.config.bare_newline == BareNewline::Normalize);
        match self.config.nul {
            Nul::Strip => verdict.stored.retain(|&byte| byte != 0),
            Nul::Reject => assert!(!verdict.stored.contains(&0)),
            Nul::Keep => {}
        }
        assert_eq!(escape(&content), escape(&verdict.stored));
        let mut scanner = ContentScanner::default();
        scanner.push(&content);
        assert_eq!(transaction.facts, scanner.finish());
        assert_eq!(transaction.envelope.recipients.len(), self.recipients);
        assert!(content.len() as u64 <= self.config.message_bytes_max);
        self.trace.push(format!("{:?} {}", transaction.envelope, escape(&content)));
    }

    /// Takes the output; returns the last line of each reply in it.
    fn drain(&mut self) -> Vec<String> {
        let output = std::mem::take(self.session.output());
        let mut replies = Vec::new();
        let mut code = None;
        for line in output.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").expect("a reply line ends with CRLF");
            assert!(line.iter().all(|b| matches!(b, b' '..=b'~')), "reply {:?}", escape(line));
            assert!(line.len() <= 510 && line.len() >= 4, "a line of {} bytes", line.len());
            assert!(matches!(line[0], b'2'..=b'5') && line[1..3].iter().all(u8::is_ascii_digit));
            assert!(code.is_none_or(|code| code == line[..3]), "codes are mixed");
            code = (line[3] == b'-').then(|| line[..3].to_vec());
            if code.is_none() {
                assert_eq!(line[3], b' ');
                replies.push(escape(line));
            }
            self.trace.push(escape(line));
        }
        assert!(code.is_none(), "a reply without its last line");
        replies
    }
}

fn is_bdat(command: &[u8]) -> bool {
    let word = command.split(|b| matches!(b, b' ' | b'\t')).next();
    word.is_some_and(|word| word.eq_ignore_ascii_case(b"BDAT"))
}

/// The command line that ends where the stream ends.
fn last_line(stream: &[u8]) -> &[u8] {
    let line = stream.strip_suffix(b"\r\n").expect("a whole line");
    let start = line.windows(2).rposition(|pair| pair == b"\r\n").map_or(0, |at| at + 2);
    &line[start..]
}

/// The octets of all chunks from the one whose command ends at `at` to the end of the stream.
fn chunks(stream: &[u8], at: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut command = last_line(&stream[..at]);
    let mut rest = &stream[at..];
    loop {
        if is_bdat(command) {
            let text = std::str::from_utf8(&command[4..]).expect("ASCII");
            let mut words = text.split_ascii_whitespace();
            let octets: usize = words.next().expect("octets").parse().expect("a number");
            content.extend_from_slice(&rest[..octets]);
            rest = &rest[octets..];
            if words.next().is_some() {
                assert!(rest.is_empty(), "the message ends before its last chunk");
                return content;
            }
        }
        // Commands between chunks: NOOP and the like.
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line");
        command = &rest[..end];
        rest = &rest[end + 2..];
    }
}
