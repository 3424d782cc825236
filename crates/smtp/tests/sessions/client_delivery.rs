//! A client session against a model of a server that keeps the rules and refuses at random:
//! what it took is what was sent, and each outcome is what it said.

use mail::{ContentScanner, Mailbox, Mono};
use proptest::prelude::*;
use smtp::client::{ClientConfig, ClientEvent, ClientSession, DotStuffer, Outgoing, Output};
use smtp::testing::client;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Commands,
    Data,
    Bdat(usize),
}

/// The server, with what it decided in the transaction that is under way.
#[derive(Debug)]
struct Server {
    lmtp: bool,
    pipelining: bool,
    chunking: bool,
    /// The client may send content unasked.
    unasked: bool,
    /// Random numbers, each used for one decision.
    decisions: std::vec::IntoIter<u8>,
    received: Vec<u8>,
    says: Vec<u8>,
    phase: Phase,
    is_mail_open: bool,
    is_over: bool,
    /// All of the last content, by BDAT.
    has_refused_chunk: bool,
    log: Log,
}

/// What was decided in a transaction, as reply codes.
#[derive(Clone, Debug, Default)]
struct Log {
    mail: Option<u16>,
    rcpts: Vec<u16>,
    data: Option<u16>,
    finals: Vec<u16>,
    content: Vec<u8>,
}

impl Server {
    fn decide(&mut self, good: u16) -> u16 {
        match self.decisions.next().unwrap_or(0) {
            0..=200 => good,
            201..=230 => 450,
            _ => 550,
        }
    }

    fn say(&mut self, code: u16) {
        self.says.extend_from_slice(format!("{code} said\r\n").as_bytes());
    }

    fn accepted(&self) -> usize {
        if self.is_mail_open { self.log.rcpts.iter().filter(|c| **c == 250).count() } else { 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        loop {
            let received = std::mem::take(&mut self.received);
            let used = match self.phase {
                Phase::Commands => self.take_command(&received),
                Phase::Data => self.take_data(&received),
                Phase::Bdat(length) => self.take_bdat(&received, length),
            };
            self.received = received[used..].to_vec();
            if used == 0 {
                return;
            }
        }
    }

    fn take_command(&mut self, received: &[u8]) -> usize {
        let Some(end) = received.windows(2).position(|w| w == b"\r\n") else { return 0 };
        let line = std::str::from_utf8(&received[..end]).unwrap();
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        assert!(self.pipelining || received.len() == end + 2 || verb == "BDAT", "{line}");
        match verb {
            "EHLO" | "LHLO" => {
                assert_eq!(verb == "LHLO", self.lmtp);
                let pipelining = if self.pipelining { "250-PIPELINING\r\n" } else { "" };
                let chunking = if self.chunking { "250-CHUNKING\r\n" } else { "" };
                let reply = format!("250-here\r\n{pipelining}{chunking}250 DSN\r\n");
                self.says.extend_from_slice(reply.as_bytes());
            }
            "MAIL" => {
                assert!(!self.is_mail_open, "MAIL within a transaction");
                self.log = Log::default();
                let code = self.decide(250);
                self.log.mail = Some(code);
                self.is_mail_open = code == 250;
                self.say(code);
            }
            "RCPT" => {
                let code = if self.is_mail_open { self.decide(250) } else { 503 };
                self.log.rcpts.push(code);
                self.say(code);
            }
            "DATA" => self.take_data_command(),
            "BDAT" => {
                assert!(self.chunking && (self.unasked || self.accepted() > 0));
                let length = rest.strip_suffix(" LAST").unwrap().parse().unwrap();
                self.phase = Phase::Bdat(length);
                // With no content no byte follows.
                if length == 0 {
                    self.take_bdat(&[], 0);
                }
            }
            "RSET" => {
                self.is_mail_open = false;
                self.say(250);
            }
            "QUIT" => {
                self.is_over = true;
                self.say(221);
            }
            _ => panic!("{line}"),
        }
        end + 2
    }

    fn take_data_command(&mut self) {
        // A sloppy server lets DATA in with no recipient; LMTP forbids that.
        let is_sloppy = !self.lmtp && self.decisions.next().unwrap_or(0) > 128;
        let code = if self.accepted() == 0 && !is_sloppy { 503 } else { self.decide(354) };
        self.log.data = Some(code);
        self.say(code);
        if code == 354 {
            self.phase = Phase::Data;
        }
    }

    fn take_data(&mut self, received: &[u8]) -> usize {
        let mut content = Vec::new();
        let mut at = 0;
        while let Some(length) = received[at..].windows(2).position(|w| w == b"\r\n") {
            let line = &received[at..at + length + 2];
            at += line.len();
            if line == b".\r\n" {
                assert_eq!(at, received.len());
                self.end(content, self.accepted().max(1), true);
                return at;
            }
            content.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
        0
    }

    fn take_bdat(&mut self, received: &[u8], length: usize) -> usize {
        if received.len() < length {
            return 0;
        }
        self.end(received[..length].to_vec(), self.accepted().max(1), false);
        length
    }

    fn end(&mut self, content: Vec<u8>, replies: usize, is_data: bool) {
        self.phase = Phase::Commands;
        self.log.content = content;
        let (mut is_all_good, mut is_any_good) = (true, false);
        for _ in 0..if self.lmtp { replies } else { 1 } {
            let code = if self.accepted() == 0 { 503 } else { self.decide(250) };
            is_all_good = code == 250;
            is_any_good |= code == 250;
            self.log.finals.push(code);
            self.say(code);
        }
        self.has_refused_chunk = !is_data && !is_any_good;
        // RFC 3030 §2: a refused BDAT leaves the transaction to be cleared by RSET.
        self.is_mail_open &= !is_data && !is_all_good;
    }
}

impl Log {
    /// The code that each recipient's outcome must bear.
    fn expected(&self, recipients: usize, lmtp: bool) -> Vec<u16> {
        let mail = self.mail.unwrap();
        let mut finals = self.finals.iter();
        (0..recipients)
            .map(|n| {
                let rcpt = self.rcpts.get(n).copied();
                match (mail, rcpt, self.data) {
                    (450 | 550, ..) => mail,
                    (_, Some(450 | 550), _) => rcpt.unwrap(),
                    (.., Some(data @ (450 | 550 | 503))) => data,
                    _ if lmtp => *finals.next().unwrap(),
                    _ => self.finals[0],
                }
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
struct Message {
    recipients: usize,
    prefix: &'static [u8],
    body: Vec<u8>,
}

fn message() -> impl Strategy<Value = Message> {
    let line = prop_oneof!["[.]{0,2}", "[.]{0,1}[a-z]{0,6}"];
    let body = (prop::collection::vec(line, 0..8), any::<bool>()).prop_map(|(lines, ends)| {
        let mut body = lines.join("\r\n").into_bytes();
        body.extend_from_slice(if ends { b"\r\n" } else { b"" });
        body
    });
    let prefix = prop::sample::select(vec![&b""[..], b"Received: by here\r\n"]);
    (1usize..5, prefix, body).prop_map(|(recipients, prefix, body)| Message {
        recipients,
        prefix,
        body,
    })
}

impl Message {
    fn outgoing(&self) -> Outgoing {
        let mut scanner = ContentScanner::default();
        scanner.push(&self.body);
        Outgoing {
            reverse_path: Some(Mailbox::parse("a@a.test", false).unwrap()),
            prefix_bytes: self.prefix.len() as u64,
            ..client::outgoing(self.recipients, scanner.finish())
        }
    }

    fn write(&self, piece: Output, buffer: &[u8], wire: &mut Vec<u8>) {
        match piece {
            Output::Bytes { start, end } => wire.extend_from_slice(&buffer[start..end]),
            Output::Content => wire.extend_from_slice(&[self.prefix, &self.body].concat()),
            Output::ContentStuffed => {
                wire.extend_from_slice(self.prefix);
                let mut stuffer = DotStuffer::new();
                for piece in self.body.chunks(3) {
                    stuffer.slices(piece).for_each(|slice| wire.extend_from_slice(slice));
                }
            }
        }
    }

    fn arrived(&self, is_bdat: bool) -> Vec<u8> {
        let mut content = [self.prefix, &self.body].concat();
        if !is_bdat && !content.is_empty() && !content.ends_with(b"\r\n") {
            content.extend_from_slice(b"\r\n");
        }
        content
    }
}

fn config(lmtp: bool, unasked_content: bool) -> Arc<ClientConfig> {
    Arc::new(ClientConfig { lmtp, unasked_content, ..client::config() })
}

/// Moves bytes to and fro until nothing moves; the events on the way, and the number of writes.
fn converse(
    client: &mut ClientSession,
    server: &mut Server,
    message: &Message,
    step: usize,
) -> (Vec<ClientEvent>, usize) {
    let (mut events, mut writes) = (Vec::new(), 0);
    let mut pieces = Vec::new();
    loop {
        for part in std::mem::take(&mut server.says).chunks(step) {
            client.handle_input(Mono(1), part);
        }
        events.extend(std::iter::from_fn(|| client.poll_event()));
        client.poll_output(&mut pieces);
        if pieces.is_empty() && server.says.is_empty() {
            return (events, writes);
        }
        let mut wire = Vec::new();
        for piece in &pieces {
            message.write(*piece, client.buffer(), &mut wire);
        }
        client.handle_written(Mono(1));
        server.take(&wire);
        writes += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn what_arrived_is_what_the_outcomes_say(
        lmtp: bool,
        pipelining: bool,
        chunking: bool,
        unasked: bool,
        decisions in prop::collection::vec(any::<u8>(), 0..40),
        messages in prop::collection::vec(message(), 1..6),
        step in 1usize..200,
    ) {
        let mut server = Server {
            lmtp, pipelining, chunking, unasked,
            decisions: decisions.into_iter(),
            received: Vec::new(),
            says: Vec::new(),
            phase: Phase::Commands,
            is_mail_open: false,
            is_over: true,
            has_refused_chunk: false,
            log: Log::default(),
        };
        let mut client = ClientSession::new(config(lmtp, unasked), Mono(0));
        for message in &messages {
            if server.is_over {
                server.is_over = false;
                server.is_mail_open = false;
                server.says = b"220 here\r\n".to_vec();
                client = ClientSession::new(config(lmtp, unasked), Mono(0));
                let (events, _) = converse(&mut client, &mut server, message, step);
                prop_assert_eq!(events, [ClientEvent::Ready]);
            }
            server.has_refused_chunk = false;
            client.start(Mono(1), message.outgoing());
            let (events, writes) = converse(&mut client, &mut server, message, step);
            let [ClientEvent::Done { outcomes, doubtful: false, .. }, last] =
                events.as_slice() else { panic!("{events:?}") };
            // RFC 3030 §2: after a refused chunk nobody knows where the peer stands.
            prop_assert_eq!(server.is_over, server.has_refused_chunk && !unasked);
            let is_left = if server.is_over { ClientEvent::Closed(None) } else { ClientEvent::Ready };
            prop_assert_eq!(last, &is_left);
            let codes: Vec<u16> = outcomes.iter().map(|outcome| match outcome {
                Ok(reply) => reply.code,
                Err(failure) => failure.reply.as_ref().unwrap().code,
            }).collect();
            prop_assert_eq!(&codes, &server.log.expected(message.recipients, lmtp));
            prop_assert!(outcomes.iter().zip(&codes).all(|(o, c)| o.is_ok() == (*c == 250)));
            if codes.contains(&250) {
                prop_assert_eq!(&server.log.content, &message.arrived(chunking));
                if pipelining && codes.iter().all(|code| *code == 250) {
                    prop_assert_eq!(writes, if chunking && unasked { 1 } else { 2 });
                }
            }
        }
        if !server.is_over {
            client.quit(Mono(1));
            let (events, _) = converse(&mut client, &mut server, &messages[0], step);
            prop_assert_eq!(events, [ClientEvent::Closed(None)]);
            prop_assert!(server.is_over);
        }
    }
}
