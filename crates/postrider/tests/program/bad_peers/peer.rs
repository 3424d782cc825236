//! A next hop that does what a row says, and otherwise what a good one does, and keeps what it saw.
//!
//! A rule is `WHEN => WHAT`. WHEN is
//! - `connect`;
//! - the verb of a command (`EHLO`, `MAIL` …), or `*`, any of them; BDAT's comes when its chunk is
//!   there;
//! - `content`: the first octets of a content are there; nothing is said at its end then;
//! - `end`: the content of DATA is there to its final dot.
//!
//! `#N` behind it: the N-th time at this peer alone; `#N+`: from then on. WHAT is, one after the
//! other with ` | ` between them:
//! - a reply, as it is with CRLF added (with the escapes of [`smtp::testing::escape`]), or `raw` and octets;
//! - `nothing`; `wait SECONDS`; `drip REPLY`: octet by octet;
//! - `endless OCTETS`: again and again until the client goes;
//! - `silence`: no word more; `stop`: it doesn't even read;
//! - `close`: it sends no more; `close SECONDS`: and doesn't read so long; `reset`: the connection is
//!   reset;
//! - `forget`: what came behind the command is thrown away;
//! - `unread`, first behind `BDAT`: the chunk is not read, it is taken for commands.

use smtp::testing::escape::{escape, unescape};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// So much is sent without end at most: a client that takes it all would take more.
const ENDLESS_BYTES_MAX: usize = 64 << 20;
/// What is longer is shown by its begin.
const SHOWN_BYTES_MAX: usize = 120;

#[derive(Debug)]
struct Rule {
    when: String,
    from: u32,
    to: u32,
    what: Vec<String>,
}

impl Rule {
    fn parse(text: &str) -> Rule {
        let (when, what) = text.split_once(" => ").unwrap_or_else(|| panic!("no rule: {text}"));
        let (when, number) = when.split_once('#').unwrap_or((when, "1+"));
        let from = number.trim_end_matches('+').parse().expect("a number");
        let to = if number.ends_with('+') { u32::MAX } else { from };
        let what = what.split(" | ").map(str::to_owned).collect();
        Rule { when: when.to_owned(), from, to, what }
    }
}

/// What a peer does.
#[derive(Debug, Default)]
pub(crate) struct Script {
    rules: Vec<Rule>,
    /// Lines of the reply to EHLO but the first.
    offers: Vec<String>,
    /// It speaks LMTP.
    is_lmtp: bool,
    /// What a content that came whole ends with.
    body: Vec<u8>,
}

impl Script {
    pub(crate) fn new(rules: &[&str], offers: &[&str], is_lmtp: bool, body: &[u8]) -> Script {
        Script {
            rules: rules.iter().map(|rule| Rule::parse(rule)).collect(),
            offers: offers.iter().map(|&offer| offer.to_owned()).collect(),
            is_lmtp,
            body: body.to_vec(),
        }
    }
}

/// How a peer is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listening {
    Normally,
    /// Connections are refused.
    Refusing,
    /// Connections are not answered: its backlog is full.
    Full,
}

/// What one connection brought.
#[derive(Debug, Default)]
struct Seen {
    lines: Vec<String>,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    counts: Mutex<BTreeMap<String, u32>>,
    seen: Mutex<Vec<Seen>>,
    /// The test is over: who stopped goes on to its end.
    is_ending: AtomicBool,
}

/// A scripted next hop. Its threads end with the test's process.
pub(crate) struct Peer {
    shared: Arc<Shared>,
    /// What keeps the address, or fills its backlog.
    _sockets: Vec<Socket>,
}

impl Peer {
    pub(crate) fn start(address: SocketAddr, listening: Listening, script: Script) -> Peer {
        let shared = Arc::new(Shared {
            script,
            counts: Mutex::default(),
            seen: Mutex::default(),
            is_ending: AtomicBool::new(false),
        });
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("a socket");
        // Small, so that who doesn't read is noticed.
        socket.set_recv_buffer_size(16 << 10).expect("a socket");
        socket.bind(&address.into()).expect("the address is free");
        let mut sockets = Vec::new();
        match listening {
            Listening::Refusing => sockets.push(socket),
            Listening::Full => {
                socket.listen(0).expect("a socket");
                sockets.push(socket);
                for _ in 0..3 {
                    let filler = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
                    filler.set_nonblocking(true).expect("a socket");
                    let _ = filler.connect(&address.into());
                    sockets.push(filler);
                }
            }
            Listening::Normally => {
                socket.listen(64).expect("a socket");
                let listener = TcpListener::from(socket);
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    for stream in listener.incoming().map_while(Result::ok) {
                        let shared = Arc::clone(&shared);
                        std::thread::spawn(move || serve(&shared, stream));
                    }
                });
            }
        }
        Peer { shared, _sockets: sockets }
    }

    /// Says that the server has ended; whether all connections are over.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.shared.seen.lock().expect("no panic").iter().all(|seen| seen.is_over)
    }

    /// What came on each connection.
    pub(crate) fn seen(&self) -> Vec<Vec<String>> {
        self.shared.seen.lock().expect("no panic").iter().map(|seen| seen.lines.clone()).collect()
    }
}

fn serve(shared: &Shared, stream: TcpStream) {
    let number = {
        let mut seen = shared.seen.lock().expect("no panic");
        seen.push(Seen::default());
        seen.len() - 1
    };
    let mut session = Session {
        shared,
        stream,
        number,
        read: Vec::new(),
        is_silent: false,
        has_mail: false,
        rcpt_count: 0,
    };
    let end = session.run();
    session.keep(match end {
        End::Quit => None,
        End::Gone => Some("(gone)"),
        End::Closed => Some("(peer closes)"),
        End::Reset => Some("(peer resets)"),
        End::Stopped => Some("(peer reads no more)"),
    });
    shared.seen.lock().expect("no panic")[number].is_over = true;
}

/// How a connection ended.
enum End {
    Quit,
    Gone,
    Closed,
    Reset,
    Stopped,
}

struct Session<'a> {
    shared: &'a Shared,
    stream: TcpStream,
    number: usize,
    /// Not yet looked at.
    read: Vec<u8>,
    is_silent: bool,
    /// MAIL was accepted in this transaction.
    has_mail: bool,
    /// Recipients that were accepted in this transaction.
    rcpt_count: usize,
}

impl Session<'_> {
    fn keep(&self, line: Option<&str>) {
        let mut seen = self.shared.seen.lock().expect("no panic");
        seen[self.number].lines.extend(line.map(str::to_owned));
    }

    fn run(&mut self) -> End {
        match self.dialogue() {
            Ok(()) => End::Quit,
            Err(end) => end,
        }
    }

    fn dialogue(&mut self) -> Result<(), End> {
        self.answer("connect", "220 peer.test ESMTP")?;
        loop {
            let line = self.line()?;
            self.keep(Some(&shown(&line)));
            let text = String::from_utf8_lossy(&line).into_owned();
            let verb = text.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match verb.as_str() {
                "BDAT" => self.chunk(&text)?,
                "QUIT" => {
                    self.answer("QUIT", "221 2.0.0 Bye")?;
                    if self.is_silent {
                        continue;
                    }
                    return Ok(());
                }
                "DATA" => self.data()?,
                _ => {
                    let usual = self.usual(&verb);
                    let reply = self.answer(&verb, &usual)?;
                    match verb.as_str() {
                        "MAIL" | "RSET" => {
                            self.has_mail = verb == "MAIL" && reply.starts_with('2');
                            self.rcpt_count = 0;
                        }
                        "RCPT" if reply.starts_with('2') => self.rcpt_count += 1,
                        _ => {}
                    }
                }
            }
        }
    }

    fn usual(&self, verb: &str) -> String {
        match verb {
            "EHLO" | "LHLO" => {
                let lines: Vec<_> = std::iter::once("peer.test")
                    .chain(self.shared.script.offers.iter().map(String::as_str))
                    .collect();
                let last = lines.len() - 1;
                let line = |(n, text)| format!("250{}{text}", if n == last { ' ' } else { '-' });
                lines.into_iter().enumerate().map(line).collect::<Vec<_>>().join("\\r\\n")
            }
            "HELO" => "250 peer.test".to_owned(),
            "MAIL" => "250 2.1.0 Sender ok".to_owned(),
            "RCPT" if !self.has_mail => "503 5.5.1 MAIL first".to_owned(),
            "RCPT" => "250 2.1.5 Recipient ok".to_owned(),
            "RSET" | "NOOP" => "250 2.0.0 Ok".to_owned(),
            _ => "500 5.5.2 What?".to_owned(),
        }
    }

    fn data(&mut self) -> Result<(), End> {
        let usual = match self.rcpt_count {
            0 => "554 5.5.1 No valid recipients",
            _ => "354 Go on",
        };
        let reply = self.answer("DATA", usual)?;
        if !reply.starts_with('3') {
            return Ok(());
        }
        let mut told = false;
        let mut looked_at = 0;
        let end = loop {
            // The dot on the first line counts, too.
            if self.read.starts_with(b".\r\n") {
                break 3;
            }
            let from = looked_at;
            if let Some(at) = memchr::memmem::find(&self.read[from..], b"\r\n.\r\n") {
                break from + at + 5;
            }
            // The mark may be there but for its last octet.
            looked_at = self.read.len().saturating_sub(4);
            told |= !self.read.is_empty() && self.content_begins(told)?;
            self.more()?;
        };
        let content: Vec<u8> = self.read.drain(..end).collect();
        told |= self.content_begins(told)?;
        self.keep(Some(&self.shown_content(&content[..content.len() - 3], true)));
        let usual = vec!["250 2.0.0 Taken"; if self.is_lmtp() { self.rcpt_count } else { 1 }];
        let usual = if told { "nothing".to_owned() } else { usual.join("\\r\\n") };
        self.answer("end", &usual)?;
        Ok(())
    }

    fn is_lmtp(&self) -> bool {
        self.shared.script.is_lmtp
    }

    /// Fires the rule for it, once; whether there is one.
    fn content_begins(&mut self, told: bool) -> Result<bool, End> {
        if told {
            return Ok(false);
        }
        let reply = self.answer("content", "");
        Ok(!reply?.is_empty())
    }

    fn chunk(&mut self, command: &str) -> Result<(), End> {
        let bytes = command.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a size");
        let is_unread = |rule: &Rule| rule.when == "BDAT" && rule.what[0] == "unread";
        if !self.shared.script.rules.iter().any(is_unread) {
            let mut told = false;
            while self.read.len() < bytes {
                told |= !self.read.is_empty() && self.content_begins(told)?;
                self.more()?;
            }
            let chunk: Vec<u8> = self.read.drain(..bytes).collect();
            self.keep(Some(&self.shown_content(&chunk, false)));
            told |= self.content_begins(told)?;
            if told {
                return Ok(());
            }
        }
        let count = if self.is_lmtp() { self.rcpt_count } else { 1 };
        self.answer("BDAT", &vec!["250 2.0.0 Taken"; count].join("\\r\\n"))?;
        Ok(())
    }

    /// What came of the content, dots un-stuffed.
    fn shown_content(&self, content: &[u8], is_stuffed: bool) -> String {
        let body = &self.shared.script.body;
        let plain = match is_stuffed {
            true => String::from_utf8_lossy(content).replace("\r\n..", "\r\n.").into_bytes(),
            false => content.to_vec(),
        };
        let text = String::from_utf8_lossy(&plain).to_ascii_lowercase();
        let encoding = text.split("content-transfer-encoding: ").nth(1);
        let encoding = encoding.and_then(|rest| rest.split("\r\n").next());
        match encoding {
            _ if content.is_empty() => "(a dot alone)".to_owned(),
            _ if plain.ends_with(body) => "(content)".to_owned(),
            Some(encoding) => format!("(content, encoded: {encoding})"),
            None => format!("(another content: {})", shown(&plain)),
        }
    }

    fn more(&mut self) -> Result<(), End> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) | Err(_) => Err(End::Gone),
            Ok(length) => {
                self.read.extend_from_slice(&piece[..length]);
                Ok(())
            }
        }
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<Vec<u8>, End> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.read) {
                let mut line: Vec<u8> = self.read.drain(..=at).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            self.more()?;
        }
    }

    /// Does what the rule for it says, or else gives the usual reply; returns the first reply.
    fn answer(&mut self, when: &str, usual: &str) -> Result<String, End> {
        let shared = self.shared;
        let number = {
            let mut counts = shared.counts.lock().expect("no panic");
            let count = counts.entry(when.to_owned()).or_default();
            *count += 1;
            *count
        };
        let is_command = !matches!(when, "connect" | "content" | "end");
        let rule = shared.script.rules.iter().find(|rule| {
            let is_so = rule.when == when || rule.when == "*" && is_command;
            is_so && (rule.from..=rule.to).contains(&number)
        });
        let usual = [usual.to_owned()];
        let what = rule.map_or(&usual[..], |rule| &rule.what);
        let mut first = String::new();
        for what in what {
            if first.is_empty() {
                first = what.trim_start_matches("raw ").to_owned();
            }
            self.act(what)?;
        }
        Ok(first)
    }

    fn act(&mut self, what: &str) -> Result<(), End> {
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        match word {
            "" | "nothing" | "unread" => {}
            "wait" => std::thread::sleep(Duration::from_secs_f64(rest.parse().expect("seconds"))),
            "drip" => {
                for byte in [unescape(rest), b"\r\n".to_vec()].concat() {
                    self.say(&[byte]);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            "endless" => {
                let piece = unescape(rest).repeat(1 + 4096 / rest.len());
                for _ in 0..ENDLESS_BYTES_MAX / piece.len() {
                    if self.stream.write_all(&piece).is_err() {
                        return Err(End::Gone);
                    }
                }
            }
            "silence" => self.is_silent = true,
            "stop" => {
                while !self.shared.is_ending.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return Err(End::Stopped);
            }
            "close" => {
                let _ = self.stream.shutdown(Shutdown::Write);
                let seconds = if rest.is_empty() { 0.0 } else { rest.parse().expect("seconds") };
                std::thread::sleep(Duration::from_secs_f64(seconds));
                // What is on its way is read: a reset would overtake what was said.
                while self.more().is_ok() {
                    self.read.clear();
                }
                return Err(End::Closed);
            }
            "reset" => {
                let socket = socket2::SockRef::from(&self.stream);
                socket.set_linger(Some(Duration::ZERO)).expect("a socket");
                return Err(End::Reset);
            }
            "forget" => {
                // What was written in one go is there by then.
                std::thread::sleep(Duration::from_millis(100));
                self.stream.set_nonblocking(true).expect("a socket");
                while self.more().is_ok() {}
                self.stream.set_nonblocking(false).expect("a socket");
                self.read.clear();
            }
            "raw" => self.say(&unescape(rest)),
            _ => self.say(&[&unescape(what)[..], b"\r\n"].concat()),
        }
        Ok(())
    }

    fn say(&mut self, bytes: &[u8]) {
        if !self.is_silent {
            // Who is gone is noticed by reading.
            let _ = self.stream.write_all(bytes);
        }
    }
}

/// A line of the client, without what differs from run to run.
fn shown(line: &[u8]) -> String {
    let mut text = escape(line);
    if line.starts_with(b"Received: ") || line.starts_with(b"\t") {
        return "(a line of the header)".to_owned();
    }
    for name in ["SIZE=", "BDAT "] {
        if let Some((before, rest)) = text.split_once(name) {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            text = format!("{before}{name}N{rest}");
        }
    }
    if text.len() > SHOWN_BYTES_MAX {
        text = format!("{}… ({} octets)", &text[..SHOWN_BYTES_MAX], line.len());
    }
    text
}
