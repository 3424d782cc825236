//! A client session with its driver.

use crate::client::{
    ClientConfig, ClientEvent, ClientSession, LoginTerms, Outgoing, OutgoingRecipient, Output,
    RequireTls, StartTls,
};
use mail::{BodyType, ContentFacts, Mailbox, Mono, Notify, Reply};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A client that does all it can, in clear.
#[must_use]
pub fn config() -> ClientConfig {
    ClientConfig {
        hostname: "relay.example".into(),
        peer: "mx.test[192.0.2.1]:25".into(),
        lmtp: false,
        starttls: StartTls::Off,
        is_encrypted: false,
        login: LoginTerms::Off,
        chunking: true,
        pipelining: true,
        unasked_content: false,
        eight_bit_as_is: false,
        reply_line_bytes_max: 512,
        reply_lines_max: 32,
        greeting_timeout: Duration::from_secs(300),
        command_timeout: Duration::from_secs(300),
        data_timeout: Duration::from_secs(120),
        content_timeout: Duration::from_secs(180),
        final_timeout: Duration::from_secs(600),
        transaction_timeout: Duration::from_secs(3_000),
    }
}

/// A transaction from nobody with so many recipients.
#[must_use]
pub fn outgoing(recipients: usize, facts: ContentFacts) -> Outgoing {
    let recipient = |n: usize| OutgoingRecipient {
        mailbox: Mailbox::parse(&format!("r{n}@b.example"), false).expect("a good address"),
        notify: Notify::UNSPECIFIED,
        orcpt: None,
    };
    Outgoing {
        reverse_path: None,
        recipients: (0..recipients).map(recipient).collect(),
        body: BodyType::SevenBit,
        smtputf8: false,
        require_tls: RequireTls::Off,
        priority: None,
        deliver_by: None,
        ret: None,
        envid: None,
        facts,
        header_is_8bit: false,
        eight_bit_as_is: false,
        expires: Mono::NEVER,
        prefix_bytes: 10,
    }
}

/// What is known of a transaction under way.
#[derive(Debug)]
struct Running {
    recipients: usize,
    /// Its recipient is only asked for.
    is_probe: bool,
    /// The content was given to the driver.
    sent: bool,
    /// It goes by DATA: 354 comes in between.
    by_data: bool,
    /// Whole replies that the peer sent since, to whichever in flight, and the codes of those that
    /// came after the content was given.
    replies: usize,
    codes_behind: Vec<u16>,
}

/// A session with its driver.
#[derive(Debug)]
pub struct Driver {
    session: ClientSession,
    config: Arc<ClientConfig>,
    now: Mono,
    /// The oldest first.
    running: VecDeque<Running>,
    is_ready: bool,
    is_closed: bool,
    is_writing: bool,
    has_quit: bool,
    /// A content was sent: the session may QUIT by itself when it is refused.
    has_sent: bool,
    tls_wanted: bool,
    /// The line that the peer has begun.
    line: Vec<u8>,
    /// The peer broke the grammar of replies: nothing may be trusted any more.
    is_broken: bool,
    trace: Vec<String>,
}

impl Driver {
    /// A session that waits for its greeting.
    #[must_use]
    pub fn new(config: ClientConfig) -> Driver {
        let config = Arc::new(config);
        Driver {
            session: ClientSession::new(config.clone(), Mono(0)),
            config,
            now: Mono(0),
            running: VecDeque::new(),
            is_ready: false,
            is_closed: false,
            is_writing: false,
            has_quit: false,
            has_sent: false,
            tls_wanted: false,
            line: Vec::new(),
            is_broken: false,
            trace: Vec::new(),
        }
    }

    /// `Ready` came, and nothing was started since.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// `Closed` came.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The content of some transaction was given to the driver.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// The peer sends this.
    pub fn say(&mut self, piece: &[u8]) {
        for &byte in piece {
            self.line.push(byte);
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.note_line(&line);
            }
        }
        self.session.handle_input(self.now, piece);
        self.events();
    }

    /// What the peer sent at once is read. Now the driver upgrades, if it is to.
    pub fn end_flight(&mut self) {
        if std::mem::take(&mut self.tls_wanted) && !self.is_closed {
            self.session.handle_tls_started(self.now);
        }
    }

    /// Counts replies as a naive reader does.
    fn note_line(&mut self, line: &[u8]) {
        let code = line.get(..3).filter(|code| code.iter().all(u8::is_ascii_digit));
        let code = code.and_then(|code| std::str::from_utf8(code).ok()?.parse::<u16>().ok());
        match (code, line.get(3)) {
            (Some(200..=599), Some(b'-')) => {}
            (Some(code @ 200..=599), Some(b' ' | b'\r' | b'\n')) => {
                for running in &mut self.running {
                    running.replies += 1;
                    if running.sent {
                        running.codes_behind.push(code);
                    }
                }
            }
            _ => self.is_broken = true,
        }
    }

    /// Takes what is to be written, and writes all of it if that is wanted.
    pub fn poll(&mut self, writes: bool) {
        self.take_output(writes);
        self.events();
    }

    /// What was taken is written.
    pub fn write(&mut self) {
        self.written();
        self.events();
    }

    /// Some of what was taken is written.
    pub fn progress(&mut self) {
        self.session.handle_progress(self.now);
        self.events();
    }

    /// The connection breaks.
    pub fn break_off(&mut self) {
        self.session.handle_broken(self.now, "gone");
        self.events();
    }

    /// Time passes.
    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.session.handle_timeout(self.now);
        assert!(self.session.deadline() > self.now);
        self.events();
    }

    /// Starts a transaction, if the session can.
    pub fn start(&mut self, outgoing: Outgoing) {
        if self.is_closed || !self.session.can_start(&outgoing) {
            return;
        }
        assert!(self.is_ready || !self.running.is_empty(), "no transaction can start yet");
        self.begin(outgoing.recipients.len(), false);
        self.session.start(self.now, outgoing);
        self.events();
    }

    /// Asks for a recipient, if the session can.
    pub fn probe(&mut self) {
        if self.is_ready && self.running.is_empty() {
            self.begin(1, true);
            let recipient = Mailbox::parse("b@dest.test", false).expect("an address");
            self.session.probe(self.now, None, recipient);
        }
        self.events();
    }

    fn begin(&mut self, recipients: usize, is_probe: bool) {
        self.is_ready = false;
        self.running.push_back(Running {
            recipients,
            is_probe,
            sent: false,
            by_data: false,
            replies: 0,
            codes_behind: Vec::new(),
        });
    }

    /// Quits, if nothing is under way.
    pub fn quit(&mut self) {
        if self.is_ready && self.running.is_empty() {
            (self.is_ready, self.has_quit) = (false, true);
            self.session.quit(self.now);
        }
        self.events();
    }

    fn take_output(&mut self, writes: bool) {
        let mut pieces = vec![Output::Content];
        self.session.poll_output(&mut pieces);
        assert!(pieces.is_empty() || !(self.is_writing || self.is_closed));
        let mut last_end = 0;
        for piece in &pieces {
            if let Output::Bytes { start, end } = *piece {
                assert!(last_end <= start && start < end);
                let bytes = &self.session.buffer()[start..end];
                assert!(bytes.ends_with(b"\r\n"));
                self.trace.push(String::from_utf8_lossy(bytes).into_owned());
                last_end = end;
                let by_data = bytes.ends_with(b"DATA\r\n");
                self.running.back_mut().into_iter().for_each(|running| {
                    assert!(!(by_data && running.is_probe), "DATA for nothing");
                    running.by_data |= by_data;
                });
            } else {
                let running = self.running.back_mut().expect("content of a transaction");
                assert!(!running.sent && !running.is_probe, "content twice, or of nothing");
                running.sent = true;
                self.has_sent = true;
                // MAIL and a RCPT have been answered.
                assert!(self.config.unasked_content || running.replies >= 2, "{running:?}");
                self.trace.push(format!("{piece:?}"));
            }
        }
        self.is_writing |= !pieces.is_empty();
        if writes && self.is_writing {
            self.written();
        }
    }

    fn written(&mut self) {
        self.is_writing = false;
        self.session.handle_written(self.now);
    }

    fn events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            assert!(!self.is_closed, "{event:?} after Closed");
            if matches!(event, ClientEvent::Closed(_)) {
                // Who does not look in between does not hear of what is over already.
                let is_void = |line: &mut String| {
                    matches!(line.as_str(), "Ready" | "StartTls" | "Login" | "LoggedIn")
                };
                self.trace.pop_if(is_void);
            }
            // Nor does he hear, amid others in flight, that one more might have been started.
            if event != ClientEvent::Ready || self.running.is_empty() {
                self.trace.push(format!("{event:?}"));
            }
            match event {
                ClientEvent::Ready => {
                    assert!(!self.has_quit);
                    let is_one_by_one = self.running.is_empty() && !self.is_ready;
                    assert!(self.config.unasked_content || is_one_by_one);
                    assert!(!self.is_broken, "a peer that broke the protocol is used again");
                    self.is_ready = true;
                }
                ClientEvent::StartTls => {
                    assert!(self.running.is_empty() && !self.is_ready);
                    assert!(self.config.starttls != StartTls::Off);
                    self.tls_wanted = true;
                }
                // It has one thing to say, however often it is asked.
                ClientEvent::Login => self.session.log_in(self.now, "PLAIN", Some(b"secret")),
                ClientEvent::Challenge(_) => self.session.respond(self.now, b"secret"),
                ClientEvent::LoggedIn => self.session.handle_logged_in(self.now),
                ClientEvent::Done { outcomes, doubtful, .. } => self.finish(&outcomes, doubtful),
                ClientEvent::Closed(failure) => {
                    assert!(self.running.is_empty(), "Done comes before Closed");
                    assert!(failure.is_some() || self.has_quit || self.has_sent);
                    assert_eq!(self.session.deadline(), Mono::NEVER);
                    (self.is_ready, self.is_closed) = (false, true);
                }
            }
        }
        let pending = self.session.deadline() != Mono::NEVER;
        assert!(self.running.is_empty() || pending, "nothing would end the transaction");
    }

    fn finish(&mut self, outcomes: &[Result<Reply, mail::Failure>], doubtful: bool) {
        let running = self.running.pop_front().expect("a transaction that was started");
        assert_eq!(outcomes.len(), running.recipients);
        assert!(running.sent || !doubtful);
        assert!(!doubtful || outcomes.iter().any(Result::is_err));
        let delivered: Vec<&Reply> = outcomes.iter().flatten().collect();
        if running.is_probe {
            // MAIL and RCPT were answered.
            assert!(delivered.iter().all(|reply| reply.code / 100 == 2 && running.replies >= 2));
            return;
        }
        for reply in &delivered {
            assert!(running.sent, "delivered without content");
            assert_eq!(reply.code / 100, 2, "{reply}");
            // MAIL, each RCPT, 354 and the final reply were all answered.
            let needed = 1 + running.recipients + usize::from(running.by_data) + 1;
            assert!(running.replies >= needed, "{running:?}");
            assert!(running.codes_behind.contains(&reply.code), "{running:?} {reply}");
        }
        let finals = running.codes_behind.iter().filter(|code| *code / 100 == 2).count();
        let needed = if self.config.lmtp { delivered.len() } else { delivered.len().min(1) };
        assert!(finals >= needed, "{running:?}");
    }

    /// The peer goes. Returns all that was sent and all that happened.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        self.session.handle_broken(self.now, "");
        self.events();
        assert!(self.running.is_empty() && self.is_closed);
        self.take_output(true);
        self.session.handle_input(self.now, b"250 ok\r\n");
        assert_eq!(self.session.poll_event(), None);
        self.trace
    }
}
