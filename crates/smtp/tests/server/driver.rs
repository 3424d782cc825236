//! Drives a session as the real driver does, and writes down all that comes out.

use crate::escape::escape;
use mail::{
    ContentFacts, ContentScanner, EnhancedStatus, Mailbox, Mono, Notify, Recipient, Reply, Ret,
};
use smtp::server::{Accepted, ContentSink, Need, ServerConfig, ServerSession, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How the driver answers; what is not named here is accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    /// By address; `<>` for the null sender.
    pub(crate) mail: BTreeMap<String, Reply>,
    /// By address.
    pub(crate) rcpt: BTreeMap<String, Reply>,
    /// By address: who is in the envelope instead.
    pub(crate) alias: BTreeMap<String, Vec<String>>,
    /// Addresses that are answered only by [`Driver::answer_open`]; the empty one stands for all.
    pub(crate) late: BTreeSet<String>,
    pub(crate) data: Option<Reply>,
    pub(crate) message: Option<Reply>,
    /// One for each recipient, for LMTP.
    pub(crate) recipients: Vec<Reply>,
    /// The reply that the session greets with.
    pub(crate) refused: Option<Reply>,
}

impl Policy {
    fn decide_rcpt(&self, recipient: &Recipient) -> Result<Accepted, Reply> {
        let address = recipient.mailbox.as_str();
        if let Some(refusal) = self.rcpt.get(address) {
            return Err(refusal.clone());
        }
        let Some(members) = self.alias.get(address) else { return Ok(Accepted::AsGiven) };
        let member = |text: &String| {
            let mailbox = Mailbox::parse(text, true).expect("the address of a member");
            Recipient { mailbox, ..recipient.clone() }
        };
        Ok(Accepted::Instead(members.iter().map(member).collect()))
    }

    fn is_late(&self, recipient: &Recipient) -> bool {
        self.late.contains("") || self.late.contains(recipient.mailbox.as_str())
    }
}

/// A message that was accepted by the session.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) content: Vec<u8>,
    pub(crate) facts: ContentFacts,
    pub(crate) transaction: Transaction,
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
pub(crate) struct Driver {
    pub(crate) session: ServerSession,
    pub(crate) now: Mono,
    policy: Policy,
    content: Pieces,
    /// Recipients that are not answered yet.
    open: Vec<(u32, Recipient)>,
    /// Input behind a command that waits until they are.
    waiting: Option<Vec<u8>>,
    tls_wanted: bool,
    pub(crate) closed: bool,
    /// `S:` replies, `N:` needs, `E:` envelopes, `M:` contents, in their order.
    pub(crate) trace: Vec<String>,
    pub(crate) stored: Vec<Stored>,
    /// Bytes in the sink at the most.
    pub(crate) content_bytes_peak: usize,
}

impl Driver {
    /// Starts a session at an arbitrary moment.
    pub(crate) fn new(config: ServerConfig, policy: Policy) -> Driver {
        let now = Mono(1_000_000_000);
        let config = Arc::new(config);
        let session = match policy.refused.clone() {
            Some(reply) => ServerSession::refused(config, reply, now),
            None => ServerSession::new(config, now),
        };
        let mut driver = Driver {
            session,
            now,
            policy,
            content: Pieces::default(),
            open: Vec::new(),
            waiting: None,
            tls_wanted: false,
            closed: false,
            trace: Vec::new(),
            stored: Vec::new(),
            content_bytes_peak: 0,
        };
        driver.drain();
        driver
    }

    /// A session that said EHLO, its trace emptied.
    pub(crate) fn greeted(config: ServerConfig) -> Driver {
        let mut driver = Driver::new(config, Policy::default());
        driver.feed(b"EHLO client.example\r\n");
        driver.trace.clear();
        driver
    }

    /// Feeds one read's worth of input until it is all taken, or kept until a recipient is answered.
    pub(crate) fn feed(&mut self, input: &[u8]) {
        match &mut self.waiting {
            Some(waiting) => waiting.extend_from_slice(input),
            None => self.take(input),
        }
    }

    fn take(&mut self, input: &[u8]) {
        let mut rest = input;
        while !self.closed {
            let progress = self.session.handle_input(self.now, rest, &mut self.content);
            rest = &rest[progress.consumed..];
            self.content_bytes_peak = self.content_bytes_peak.max(self.content.0.len());
            self.drain();
            match progress.need {
                Need::Input => {
                    assert!(rest.is_empty(), "input left over");
                    return;
                }
                Need::StartTls => {
                    assert!(rest.is_empty(), "input in clear left over");
                    self.tls_wanted = true;
                    return;
                }
                Need::Answers => {
                    assert!(!self.open.is_empty(), "nobody is open");
                    self.trace.push("N: answers".to_owned());
                    self.waiting = Some(rest.to_vec());
                    return;
                }
                need => self.answer(need),
            }
            self.drain();
        }
    }

    fn answer(&mut self, need: Need) {
        let now = self.now;
        match need {
            Need::Mail(mail) => {
                let path = mail.reverse_path.as_ref().map_or("<>", |path| path.as_str());
                let refusal = self.policy.mail.get(path).cloned();
                self.session.answer_mail(now, refusal.map_or(Ok(()), Err));
            }
            Need::Rcpt { number, recipient } if self.policy.is_late(&recipient) => {
                self.trace.push(format!("N: rcpt {number}"));
                self.open.push((number, recipient));
            }
            Need::Rcpt { number, recipient } => {
                self.session.answer_rcpt(now, number, self.policy.decide_rcpt(&recipient));
            }
            Need::Data { recipients, .. } => {
                self.trace.push(format!("N: data for {recipients}"));
                assert!(self.content.0.is_empty(), "content of another message");
                self.session.answer_data(now, self.policy.data.clone().map_or(Ok(()), Err));
            }
            Need::Message(transaction) => self.store(*transaction),
            Need::Abandon => {
                self.content.0.clear();
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

    /// Answers the recipient of that number, and goes on.
    pub(crate) fn answer_open(&mut self, number: u32) {
        let at = self.open.iter().position(|(open, _)| *open == number).expect("an open number");
        let (_, recipient) = self.open.remove(at);
        let answer = self.policy.decide_rcpt(&recipient);
        self.session.answer_rcpt(self.now, number, answer);
        self.drain();
        self.go_on();
    }

    /// The numbers of the recipients that are not answered yet.
    pub(crate) fn open(&self) -> impl Iterator<Item = u32> {
        self.open.iter().map(|(number, _)| *number)
    }

    /// Takes what was kept, if anything was.
    fn go_on(&mut self) {
        let waiting = self.waiting.take().unwrap_or_default();
        self.take(&waiting);
    }

    fn store(&mut self, transaction: Transaction) {
        assert!(self.session.in_transaction());
        assert_eq!(self.session.deadline(), Mono::NEVER, "no timeout while the disk works");
        let content = std::mem::take(&mut self.content.0);
        let mut scanner = ContentScanner::default();
        scanner.push(&content);
        assert_eq!(transaction.facts, scanner.finish(), "facts of {:?}", escape(&content));
        self.trace.push(format!("E: {}", envelope(&transaction)));
        self.trace.push(format!("M: {}", shortened(&content)));
        let facts = transaction.facts;
        self.stored.push(Stored { content, facts, transaction });
        if self.policy.recipients.is_empty() {
            let queued = Reply::new(250, (2, 0, 0), "Queued");
            let reply = self.policy.message.clone().unwrap_or(queued);
            self.session.answer_message(self.now, reply);
        } else {
            self.session.answer_recipients(self.now, &self.policy.recipients);
        }
    }

    /// Upgrades if STARTTLS was answered. To be called where a flight of input ends.
    pub(crate) fn end_flight(&mut self) {
        if std::mem::take(&mut self.tls_wanted) && !self.closed {
            self.trace.push("N: starttls".to_owned());
            self.session.handle_tls_started(self.now);
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        let due = !self.closed && self.session.deadline() <= self.now;
        let timed_out = !self.closed && self.session.handle_timeout(self.now);
        assert_eq!(due, timed_out);
        self.drain();
        if timed_out {
            self.go_on();
        }
    }

    /// The server stops.
    pub(crate) fn shut_down(&mut self) {
        self.session.handle_shutdown();
        self.drain();
        self.go_on();
    }

    fn drain(&mut self) {
        let output = std::mem::take(self.session.output());
        for line in output.split_inclusive(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r\n").expect("a reply line ends with CRLF");
            assert!(line.iter().all(|b| matches!(b, b' '..=b'~')), "reply {:?}", escape(line));
            assert!(line.len() <= 510, "a reply line of {} bytes", line.len());
            self.trace.push(format!("S: {}", escape(line)));
        }
    }
}

/// `550 5.1.1 Text` as a reply.
pub(crate) fn reply(text: &str) -> Reply {
    let (code, rest) = text.split_once(' ').expect("a blank behind the code");
    let code = code.parse().expect("a code");
    match EnhancedStatus::parse_prefix(rest) {
        Some((status, text)) => {
            Reply { code, enhanced: Some(status), text: text.to_owned().into() }
        }
        None => Reply::bare(code, rest.to_owned()),
    }
}

fn envelope(transaction: &Transaction) -> String {
    let envelope = &transaction.envelope;
    let path = envelope.reverse_path.as_ref().map_or("", |path| path.as_str());
    let mut text = format!("<{path}>");
    if envelope.body != mail::BodyType::SevenBit {
        text.push_str(" 8bit");
    }
    if envelope.smtputf8 {
        text.push_str(" smtputf8");
    }
    match envelope.ret {
        Some(Ret::Full) => text.push_str(" ret=full"),
        Some(Ret::Headers) => text.push_str(" ret=hdrs"),
        None => {}
    }
    if let Some(envid) = &envelope.envid {
        text.push_str(&format!(" envid={envid}"));
    }
    for recipient in &envelope.recipients {
        text.push_str(&format!(" to <{}>", recipient.mailbox));
        if recipient.notify.is_specified() {
            let names = [
                (Notify::SUCCESS, "success"),
                (Notify::FAILURE, "failure"),
                (Notify::DELAY, "delay"),
            ];
            let wanted: Vec<_> = names
                .iter()
                .filter(|(event, _)| recipient.notify.wants(*event))
                .map(|(_, name)| *name)
                .collect();
            text.push_str(&format!(" notify=[{}]", wanted.join(",")));
        }
        if let Some(orcpt) = &recipient.orcpt {
            text.push_str(&format!(" orcpt={orcpt}"));
        }
    }
    format!("{text} with {} from {}", transaction.protocol, transaction.helo)
}

fn shortened(content: &[u8]) -> String {
    if content.len() > 200 {
        return format!("({} bytes)", content.len());
    }
    escape(content)
}
