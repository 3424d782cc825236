//! A server session with its driver.

use super::escape::escape;
use super::recipients::Recipients;
use super::script::{Answer, Policy, Script};
use super::stream::Content;
use super::transcript::{envelope, shortened};
use crate::server::{
    BareNewline, ContentSink, LoginAnswer, LoginSaid, Need, Nul, ServerConfig, ServerSession,
    Transaction,
};
use mail::{ContentFacts, ContentScanner, Mono, Reply};
use std::sync::Arc;
use std::time::Duration;

/// A message that was accepted by the session.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What the sink got.
    pub content: Vec<u8>,
    /// What the session found in it.
    pub facts: ContentFacts,
    /// The envelope and whom it came from.
    pub transaction: Transaction,
}

#[derive(Debug, Default)]
struct Pieces(Vec<u8>);

impl ContentSink for Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }
}

/// A session with its driver.
#[derive(Debug)]
pub struct Driver<P = Script> {
    /// The session that is driven.
    pub session: ServerSession,
    /// The time of the next input.
    pub now: Mono,
    /// Who decides.
    pub policy: P,
    config: Arc<ServerConfig>,
    /// All that the session took since the connection or TLS began.
    stream: Vec<u8>,
    sink: Pieces,
    content: Option<Content>,
    recipients: Recipients,
    /// Input behind a command that waits for open recipients.
    waiting: Option<Vec<u8>>,
    tls_wanted: bool,
    is_logged_in: bool,
    /// 421 was said.
    is_ended: bool,
    /// The session wants no more input.
    pub closed: bool,
    /// `S:` replies, `N:` needs, `E:` envelopes, `M:` contents, in their order.
    pub trace: Vec<String>,
    /// The messages, the first one first.
    pub stored: Vec<Stored>,
}

impl Driver {
    /// A session that said EHLO and whose every command is accepted, its trace emptied.
    #[must_use]
    pub fn greeted(config: ServerConfig) -> Driver {
        let mut driver = Driver::new(config, Script::default());
        driver.feed(b"EHLO client.example\r\n");
        driver.trace.clear();
        driver
    }
}

impl<P: Policy> Driver<P> {
    /// Starts a session at an arbitrary moment.
    pub fn new(config: ServerConfig, mut policy: P) -> Driver<P> {
        let now = Mono(1_000_000_000);
        let config = Arc::new(config);
        let session = match policy.greeting() {
            Some(reply) => ServerSession::refused(config.clone(), reply, now),
            None => ServerSession::new(config.clone(), now),
        };
        let mut driver = Driver {
            session,
            now,
            policy,
            config,
            stream: Vec::new(),
            sink: Pieces::default(),
            content: None,
            recipients: Recipients::default(),
            waiting: None,
            tls_wanted: false,
            is_logged_in: false,
            is_ended: false,
            closed: false,
            trace: Vec::new(),
            stored: Vec::new(),
        };
        assert_eq!(driver.drain().len(), 1, "one greeting");
        driver
    }

    /// Feeds one read's worth of input until it is all taken, or kept until a recipient is answered.
    pub fn feed(&mut self, input: &[u8]) {
        match &mut self.waiting {
            Some(waiting) => waiting.extend_from_slice(input),
            None => self.take(input),
        }
    }

    fn take(&mut self, input: &[u8]) {
        let mut rest = input;
        while !self.closed {
            let progress = self.session.handle_input(self.now, rest, &mut self.sink);
            let (taken, behind) = rest.split_at(progress.consumed);
            self.stream.extend_from_slice(taken);
            rest = behind;
            assert!(self.sink.0.len() as u64 <= self.config.message_bytes_max);
            self.drain();
            match progress.need {
                Need::Input => return assert!(rest.is_empty(), "input left over"),
                Need::StartTls => {
                    assert!(rest.is_empty() && self.config.starttls, "input in clear left over");
                    if !std::mem::replace(&mut self.tls_wanted, true) {
                        self.session.answer_starttls(self.now, Ok(()));
                        self.drain();
                    }
                    return;
                }
                Need::Answers => {
                    assert!(self.open().next().is_some(), "nobody is open");
                    self.trace.push("N: answers".to_owned());
                    self.waiting = Some(rest.to_vec());
                    return;
                }
                need => self.obey(need),
            }
        }
    }

    fn obey(&mut self, need: Need) {
        match need {
            Need::Login(said) => self.answer_login(&said),
            Need::Xclient(_) => unreachable!("nobody is believed here"),
            Need::Mail(mail) => {
                assert!(self.config.logins.is_none() || self.is_logged_in, "mail before login");
                assert!(self.sink.0.is_empty() && self.content.is_none());
                self.recipients = Recipients::default();
                let answer = self.policy.mail(&mail);
                let result = self.delay(answer, Mono::NEVER);
                let code = code_of(&result, 250);
                self.session.answer_mail(self.now, result);
                self.check_replies(&[code]);
            }
            Need::Rcpt { number, recipient } => {
                let is_late = self.policy.is_late(&recipient);
                self.recipients.ask(number, recipient);
                if is_late {
                    self.trace.push(format!("N: rcpt {number}"));
                } else {
                    self.answer_rcpt(number);
                }
            }
            Need::Data { recipients, waits_for_354 } => self.answer_data(recipients, waits_for_354),
            Need::Message(transaction) => self.store(*transaction),
            Need::DataRefused => {}
            Need::Abandon => {
                self.sink.0.clear();
                self.content = None;
                self.trace.push("N: abandon".to_owned());
            }
            Need::Close => {
                self.trace.push("N: close".to_owned());
                self.closed = true;
            }
            Need::Input | Need::Answers | Need::StartTls => {
                unreachable!("handled where input is fed")
            }
        }
    }

    fn answer_login(&mut self, said: &LoginSaid) {
        let text = match said {
            LoginSaid::Begin { mechanism, initial: None } => (*mechanism).to_owned(),
            LoginSaid::Begin { mechanism, initial: Some(text) } => {
                format!("{mechanism} {:?}", escape(text))
            }
            LoginSaid::Response(text) => format!("{:?}", escape(text)),
        };
        self.trace.push(format!("N: login {text}"));
        assert!(!self.is_logged_in && self.config.logins.is_some());
        let answer = self.policy.login(said);
        let (code, answer) = match self.delay(answer, Mono::NEVER) {
            Ok(Some(challenge)) => (334, LoginAnswer::Challenge(challenge)),
            Ok(None) => (235, LoginAnswer::Accepted),
            Err(reply) => (reply.code, LoginAnswer::Refused(reply)),
        };
        self.is_logged_in = code == 235 && !self.is_ended;
        self.session.answer_login(self.now, answer);
        self.check_replies(&[code]);
    }

    /// The numbers of the recipients that are not answered yet.
    pub fn open(&self) -> impl Iterator<Item = u32> {
        self.recipients.open()
    }

    /// Answers the recipient of that number, and goes on.
    pub fn answer_open(&mut self, number: u32) {
        self.answer_rcpt(number);
        self.go_on();
    }

    fn answer_rcpt(&mut self, number: u32) {
        let answer = self.policy.rcpt(self.recipients.get(number));
        let session_deadline = self.session.deadline();
        let result = self.delay(answer, session_deadline);
        let codes = self.recipients.answer(number, &result);
        self.session.answer_rcpt(self.now, number, result);
        self.check_replies(&codes);
    }

    fn answer_data(&mut self, recipients: usize, waits_for_354: bool) {
        self.trace.push(format!("N: data for {recipients}"));
        assert_eq!(recipients, self.recipients.envelope.len());
        assert!(self.sink.0.is_empty() && self.recipients.accepted > 0);
        let answer = self.policy.data();
        let result = self.delay(answer, Mono::NEVER);
        let at = self.stream.len();
        self.content = match (&result, waits_for_354) {
            (Err(_), _) => None,
            (Ok(()), true) => Some(Content::Data(at)),
            (Ok(()), false) => Some(Content::Bdat(at)),
        };
        let code = code_of(&result, 354);
        self.session.answer_data(self.now, result);
        // The reply to a chunk comes behind it.
        self.check_replies([code].get(..usize::from(waits_for_354)).unwrap_or_default());
    }

    fn store(&mut self, transaction: Transaction) {
        assert!(self.session.in_transaction());
        let content = std::mem::take(&mut self.sink.0);
        self.check_content(&content, &transaction);
        self.trace.push(format!("E: {}", envelope(&transaction)));
        self.trace.push(format!("M: {}", shortened(&content)));
        let facts = transaction.facts;
        self.stored.push(Stored { content, facts, transaction });
        let answer = self.policy.message();
        let replies = self.delay(answer, Mono::NEVER).unwrap_or_else(|reply| vec![reply]);
        let count = if self.config.lmtp { self.recipients.accepted } else { 1 };
        let code = |at: usize| replies.get(at).or(replies.last()).map_or(0, |reply| reply.code);
        let codes: Vec<u16> = (0..count).map(code).collect();
        match replies.as_slice() {
            [reply] => self.session.answer_message(self.now, reply.clone()),
            replies => self.session.answer_recipients(self.now, replies),
        }
        self.check_replies(&codes);
    }

    /// What is accepted is what was sent, by a reading of the whole stream, for those whose RCPT was
    /// accepted.
    fn check_content(&mut self, content: &[u8], transaction: &Transaction) {
        let began = self.content.take().expect("a message without content");
        let mut verdict = began.read(&self.stream);
        assert!(!verdict.bare || self.config.bare_newline == BareNewline::Normalize);
        match self.config.nul {
            Nul::Strip => verdict.stored.retain(|&byte| byte != 0),
            Nul::Reject => assert!(!verdict.stored.contains(&0)),
            Nul::Keep => {}
        }
        assert!(content == verdict.stored, "{:?}, sent {:?}", escape(content), verdict.stored);
        let mut scanner = ContentScanner::default();
        scanner.push(content);
        assert_eq!(transaction.facts, scanner.finish(), "facts of {:?}", escape(content));
        let envelope = transaction.envelope.recipients.iter().map(|recipient| &recipient.mailbox);
        assert!(envelope.eq(&self.recipients.envelope), "{:?}", self.recipients);
    }

    /// Lets pass what comes before an answer. As long as it is owed nothing times out before
    /// `deadline`.
    fn delay<T>(&mut self, answer: Answer<T>, deadline: Mono) -> Result<T, Reply> {
        assert!(self.closed || self.session.deadline() == deadline);
        self.now = self.now + answer.takes;
        if !self.closed && !answer.takes.is_zero() {
            let is_over = deadline <= self.now && deadline != Mono::NEVER;
            assert_eq!(self.session.handle_timeout(self.now), is_over);
            self.check_end(is_over);
        }
        if answer.stops && !self.is_ended {
            self.session.handle_shutdown();
            self.check_end(true);
        }
        answer.result
    }

    /// Upgrades if STARTTLS was answered. To be called where a flight of input ends.
    pub fn end_flight(&mut self) {
        if std::mem::take(&mut self.tls_wanted) && !self.closed {
            self.trace.push("N: starttls".to_owned());
            self.session.handle_tls_started(self.now);
            self.is_logged_in = false;
            self.stream.clear();
        }
    }

    /// Lets time pass.
    pub fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        if self.closed {
            return;
        }
        let deadline = self.session.deadline();
        let is_due = deadline <= self.now && deadline != Mono::NEVER;
        assert_eq!(self.session.handle_timeout(self.now), is_due);
        if is_due {
            self.check_end(true);
            self.go_on();
            assert!(self.closed);
        }
    }

    /// The server stops.
    pub fn shut_down(&mut self) {
        if self.closed {
            return;
        }
        self.session.handle_shutdown();
        self.check_end(true);
        self.go_on();
        assert!(self.closed);
    }

    /// Takes what was kept, if anything was.
    fn go_on(&mut self) {
        let waiting = self.waiting.take().unwrap_or_default();
        self.take(&waiting);
    }

    /// The session was ended by a 421, if it was not before.
    fn check_end(&mut self, is_ended: bool) {
        let was_ended = self.is_ended;
        let said = self.drain();
        assert_eq!(said.len(), usize::from(is_ended && !was_ended), "{said:?}");
        assert_eq!(self.is_ended, is_ended || was_ended);
    }

    /// The replies that are due came, each with its code, unless a 421 ended the session.
    fn check_replies(&mut self, codes: &[u16]) {
        if self.is_ended {
            self.drain();
            return;
        }
        let said = self.drain();
        assert!(said.len() == codes.len() || self.is_ended, "{said:?} for {codes:?}");
        for (line, code) in said.iter().zip(codes) {
            let is_right = line.starts_with(&format!("{code} "));
            assert!(is_right || line.starts_with("421 "), "{line} for {code}");
        }
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
            assert!(!self.is_ended, "{:?} behind 421", escape(line));
            code = (line[3] == b'-').then(|| line[..3].to_vec());
            if code.is_none() {
                assert_eq!(line[3], b' ');
                self.is_ended = line.starts_with(b"421");
                replies.push(escape(line));
            }
            self.trace.push(format!("S: {}", escape(line)));
        }
        assert!(code.is_none(), "a reply without its last line");
        replies
    }
}

fn code_of(result: &Result<(), Reply>, good: u16) -> u16 {
    result.as_ref().err().map_or(good, |reply| reply.code)
}
