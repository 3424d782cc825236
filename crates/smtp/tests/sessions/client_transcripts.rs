//! Dialogues with peers, one file each in `client_transcripts/`, replayed with the peer's bytes
//! whole, one by one, and split at random. README.md there describes the form.

use mail::dsn::xtext::Envid;
use mail::{BodyType, Class, ContentFacts, EnhancedStatus, Failure, Mailbox, Mono, Notify, Ret};
use smtp::client::{
    ClientConfig, ClientEvent, ClientSession, LoginTerms, Outgoing, OutgoingRecipient, Output,
    RequireTls, StartTls,
};
use smtp::testing::client;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How the peer's bytes are cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    Bytes,
    Random(u64),
}

impl Cut {
    /// The length of the next piece.
    fn next(&mut self) -> usize {
        match self {
            Cut::Whole => usize::MAX,
            Cut::Bytes => 1,
            Cut::Random(seed) => {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                1 + usize::try_from(*seed >> 33).unwrap() % 24
            }
        }
    }
}

struct Replay {
    session: ClientSession,
    now: Mono,
    cut: Cut,
    /// What the peer says next, not yet given to the session.
    said: Vec<u8>,
    holds_writes: bool,
    log: String,
}

fn config(options: &str) -> Arc<ClientConfig> {
    let mut config = ClientConfig {
        reply_lines_max: 20,
        command_timeout: Duration::from_secs(310),
        ..client::config()
    };
    for option in options.split_whitespace() {
        match option {
            "lmtp" => config.lmtp = true,
            "starttls=opportunistic" => config.starttls = StartTls::Opportunistic,
            "starttls=required" => config.starttls = StartTls::Required,
            "encrypted" => config.is_encrypted = true,
            "login" => config.login = LoginTerms::Encrypted,
            "login=anyway" => config.login = LoginTerms::Anyway,
            "unasked-content" => config.unasked_content = true,
            "no-chunking" => config.chunking = false,
            "no-pipelining" => config.pipelining = false,
            "eight-bit-as-is" => config.eight_bit_as_is = true,
            _ => panic!("unknown option {option}"),
        }
    }
    Arc::new(config)
}

fn mailbox(text: &str) -> Mailbox {
    Mailbox::parse(text, true).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// `from=a@b to=c@d to=e@f,notify=never,orcpt=rfc822;x@y bytes=100 …`
fn outgoing(line: &str) -> Outgoing {
    let facts = ContentFacts { body_bytes: 100, ends_with_crlf: true, ..ContentFacts::default() };
    let mut outgoing = Outgoing { prefix_bytes: 0, ..client::outgoing(0, facts) };
    for word in line.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "from" => outgoing.reverse_path = Some(mailbox(value)),
            "to" => outgoing.recipients.push(recipient(value)),
            "bytes" => outgoing.facts.body_bytes = value.parse().unwrap(),
            "prefix" => outgoing.prefix_bytes = value.parse().unwrap(),
            "body" => outgoing.body = BodyType::EightBit,
            "header-8bit" => outgoing.header_is_8bit = true,
            "expires" => {
                outgoing.expires = Mono(1_000_000 + value.parse::<u64>().unwrap() * 1_000_000)
            }
            "has-8bit" => outgoing.facts.has_8bit = true,
            "no-final-crlf" => outgoing.facts.ends_with_crlf = false,
            "dot-lines" => outgoing.facts.dot_lines = value.parse().unwrap(),
            "smtputf8" => outgoing.smtputf8 = true,
            "require-tls" if value == "where-offered" => {
                outgoing.require_tls = RequireTls::WhereOffered;
            }
            "require-tls" => outgoing.require_tls = RequireTls::Always,
            "ret" if value == "full" => outgoing.ret = Some(Ret::Full),
            "ret" => outgoing.ret = Some(Ret::Headers),
            "envid" => outgoing.envid = Some(Envid::parse(value).unwrap()),
            _ => panic!("unknown word {word}"),
        }
    }
    outgoing
}

fn recipient(text: &str) -> OutgoingRecipient {
    let mut words = text.split(',');
    let mailbox = mailbox(words.next().unwrap());
    let mut recipient = OutgoingRecipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None };
    for word in words {
        match word.split_once('=').unwrap() {
            ("notify", "never") => recipient.notify = Notify::NEVER,
            ("notify", "success+failure") => recipient.notify = Notify(3),
            ("notify", "delay") => recipient.notify = Notify::DELAY,
            ("orcpt", value) => recipient.orcpt = Some(value.replace("\\n", "\n").into()),
            _ => panic!("unknown word {word}"),
        }
    }
    recipient
}

fn describe(failure: &Failure) -> String {
    let class = match failure.class {
        Class::Transient => "transient",
        Class::Permanent => "permanent",
    };
    format!("{class} {} {failure}", failure.status)
}

impl Replay {
    fn new(options: &str, cut: Cut) -> Replay {
        let now = Mono(1_000_000);
        let session = ClientSession::new(config(options), now);
        Replay { session, now, cut, said: Vec::new(), holds_writes: false, log: String::new() }
    }

    fn run(text: &str, cut: Cut) -> String {
        let mut replay = Replay::new("", cut);
        for line in text.lines() {
            if let Some(reply) = line.strip_prefix("S: ") {
                replay.said.extend_from_slice(reply.as_bytes());
                replay.said.extend_from_slice(b"\r\n");
            } else if let Some(part) = line.strip_prefix("S~ ") {
                let part = part.replace("\\r", "\r").replace("\\n", "\n");
                replay.said.extend_from_slice(part.as_bytes());
            } else if is_result(line) {
                replay.listen();
                continue;
            } else {
                replay.listen();
                writeln!(replay.log, "{line}").unwrap();
                replay.act(line);
                continue;
            }
            writeln!(replay.log, "{line}").unwrap();
        }
        replay.listen();
        replay.log
    }

    /// Gives the session what the peer said, cut to pieces.
    fn listen(&mut self) {
        let said = std::mem::take(&mut self.said);
        let mut rest = said.as_slice();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(self.cut.next().min(rest.len()));
            self.session.handle_input(self.now, piece);
            rest = behind;
        }
        self.drain();
    }

    fn act(&mut self, line: &str) {
        let (word, value) = line.split_once(": ").unwrap_or((line, ""));
        match word {
            "config" => {
                let log = std::mem::take(&mut self.log);
                *self = Replay { log, ..Replay::new(value, self.cut) };
            }
            "start" => self.session.start(self.now, outgoing(value)),
            "probe" => {
                let (from, to) = value.split_once(' ').unwrap();
                let from = (from != "<>").then(|| mailbox(from));
                self.session.probe(self.now, from, mailbox(to));
            }
            "quit" => self.session.quit(self.now),
            "log in" => {
                let (mechanism, initial) = value.split_once(' ').unwrap_or((value, ""));
                let initial = match initial {
                    "" => None,
                    "empty" => Some("".to_owned()),
                    "long" => Some("x".repeat(400)),
                    text => Some(text.to_owned()),
                };
                self.session.log_in(self.now, mechanism, initial.as_deref().map(str::as_bytes));
            }
            "respond" => self.session.respond(self.now, value.as_bytes()),
            "logged in" => self.session.handle_logged_in(self.now),
            "give up" | "give up within" => {
                let status = EnhancedStatus::new(4, 7, 0);
                let failure = Failure::local(Class::Transient, status, "it looks wrong");
                self.session.give_up_login(self.now, failure, word.ends_with("within"));
            }
            "tls started" => self.session.handle_tls_started(self.now),
            "broken" => self.session.handle_broken(self.now, value),
            "writes take time" => self.holds_writes = true,
            "progress" => self.session.handle_progress(self.now),
            "written" => {
                self.holds_writes = false;
                self.session.handle_written(self.now);
            }
            "seconds" => {
                self.now = self.now + Duration::from_secs(value.parse().unwrap());
                if self.now >= self.session.deadline() {
                    self.session.handle_timeout(self.now);
                }
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => panic!("unknown line {line}"),
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.log_event(&event);
        }
        let mut pieces = Vec::new();
        self.session.poll_output(&mut pieces);
        if pieces.is_empty() {
            return;
        }
        let mut wire = String::new();
        for piece in &pieces {
            match *piece {
                Output::Bytes { start, end } => {
                    wire.push_str(std::str::from_utf8(&self.session.buffer()[start..end]).unwrap())
                }
                Output::Content => wire.push_str("{content}\r\n"),
                Output::ContentStuffed => wire.push_str("{content, stuffed}\r\n"),
            }
        }
        let mut mark = "C: ";
        for line in wire.strip_suffix("\r\n").unwrap().split("\r\n") {
            writeln!(self.log, "{}", format!("{mark}{line}").trim_end()).unwrap();
            mark = "C| ";
        }
        if !self.holds_writes {
            self.session.handle_written(self.now);
        }
    }

    fn log_event(&mut self, event: &ClientEvent) {
        let log = &mut self.log;
        match event {
            ClientEvent::Ready => writeln!(log, "event: ready").unwrap(),
            ClientEvent::StartTls => writeln!(log, "event: starttls").unwrap(),
            ClientEvent::Login => {
                let offered: Vec<&str> = self.session.login_mechanisms().collect();
                writeln!(log, "event: login ({})", offered.join(" ")).unwrap();
            }
            ClientEvent::Challenge(challenge) => {
                let text = String::from_utf8_lossy(challenge);
                writeln!(log, "event: challenge {text:?}").unwrap();
            }
            ClientEvent::LoggedIn => writeln!(log, "event: logged in").unwrap(),
            ClientEvent::Done { outcomes, doubtful, untried, lesson, .. } => {
                let doubtful = if *doubtful { ", doubtful" } else { "" };
                writeln!(log, "event: done{doubtful}").unwrap();
                for (index, outcome) in outcomes.iter().enumerate() {
                    if untried.contains(&index) {
                        write!(log, "  untried:").unwrap();
                    }
                    match outcome {
                        Ok(reply) => writeln!(log, "  accepted {reply}").unwrap(),
                        Err(failure) => writeln!(log, "  {}", describe(failure)).unwrap(),
                    }
                }
                if let Some(lesson) = lesson {
                    writeln!(log, "  lesson: {lesson:?}").unwrap();
                }
            }
            ClientEvent::Closed(None) => writeln!(log, "event: closed").unwrap(),
            ClientEvent::Closed(Some(failure)) => {
                writeln!(log, "event: closed, {}", describe(failure)).unwrap();
            }
        }
    }
}

/// Lines that the session's doings must reproduce.
fn is_result(line: &str) -> bool {
    ["C:", "C|", "event: ", "  "].iter().any(|mark| line.starts_with(mark))
}

fn transcripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client_transcripts");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    files.iter().map(|path| (path.display().to_string(), text(path))).collect()
}

fn assert_same(name: &str, cut: Cut, got: &str, expected: &str) {
    assert!(got == expected, "{name}, {cut:?}; the session did:\n{got}\nexpected:\n{expected}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test's own files, rewritten on demand")]
fn dialogues_go_as_written_with_replies_whole() {
    let transcripts = transcripts();
    assert!(transcripts.len() >= 30);
    for (name, expected) in transcripts {
        let got = Replay::run(&expected, Cut::Whole);
        if std::env::var_os("REWRITE_TRANSCRIPTS").is_some() {
            std::fs::write(&name, &got).unwrap();
        } else {
            assert_same(&name, Cut::Whole, &got, &expected);
        }
    }
}

#[test]
fn dialogues_go_as_written_with_replies_byte_by_byte() {
    for (name, expected) in transcripts() {
        assert_same(&name, Cut::Bytes, &Replay::run(&expected, Cut::Bytes), &expected);
    }
}

#[test]
fn dialogues_go_as_written_with_replies_split_at_random() {
    for (name, expected) in transcripts() {
        for seed in 1..=32 {
            let cut = Cut::Random(seed);
            assert_same(&name, cut, &Replay::run(&expected, cut), &expected);
        }
    }
}
