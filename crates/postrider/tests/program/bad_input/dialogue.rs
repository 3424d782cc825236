//! Plays a row that is a dialogue over a connection, and writes down what came back.

use super::table::{Row, is_writing, step};
use smtp::testing::escape::{escape, unescape};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

/// How long an answer that the table names may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// While the tables are written: how long nothing comes when there is nothing to come.
const SILENCE: Duration = Duration::from_millis(300);

/// A connection over TCP or a Unix socket.
pub(crate) struct Line {
    socket: Socket,
    read: Vec<u8>,
    closed: bool,
}

impl Line {
    /// Connects.
    pub(crate) fn connect(domain: Domain, address: &SockAddr) -> Line {
        let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
        socket.connect(address).expect("the server takes connections");
        Line { socket, read: Vec::new(), closed: false }
    }

    /// Sends; a connection that the server has closed takes nothing.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = (&self.socket).write_all(bytes);
    }

    /// The next line as `S: …`, or `X: closed`; `None` when nothing comes.
    pub(crate) fn next(&mut self, wait: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(wait)).expect("a socket");
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(format!("S: {}", shown(&line)));
            }
            if self.closed {
                return None;
            }
            let mut piece = [0; 4096];
            match (&self.socket).read(&mut piece) {
                Ok(0) => self.closed = true,
                Ok(length) => self.read.extend_from_slice(&piece[..length]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return None;
                }
                Err(_) => self.closed = true,
            }
            if self.closed {
                if !self.read.is_empty() {
                    // A line without an end; the next look finds the close.
                    self.closed = false;
                    self.read.push(b'\n');
                    continue;
                }
                return Some("X: closed".to_owned());
            }
        }
    }

    /// Says something that must be answered so.
    pub(crate) fn say(&mut self, command: &str, answer: &str) {
        self.send(format!("{command}\r\n").as_bytes());
        self.expect(answer);
    }

    /// Reads a reply of one or more lines, which must begin so.
    pub(crate) fn expect(&mut self, answer: &str) {
        loop {
            let line = self.next(ANSWER_MAX).unwrap_or_default();
            assert!(line.starts_with(&format!("S: {answer}")), "{line} instead of {answer}");
            if line.as_bytes().get(6) != Some(&b'-') {
                return;
            }
        }
    }

    fn act(&mut self, what: &str) {
        match what {
            "half-close" => self.socket.shutdown(Shutdown::Write).expect("a socket"),
            "reset" | "close" => {
                if what == "reset" {
                    let _ = self.socket.set_linger(Some(Duration::ZERO));
                }
                // Replaced by one that is not connected, which closes the first.
                self.socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
                self.closed = true;
            }
            other => panic!("what is X: {other}?"),
        }
    }

    /// Sends what a row says, and reads until the server closes.
    pub(crate) fn play_to_end(&mut self, row: &Row) -> Vec<String> {
        let given = |(kind, _): &(&str, &str)| matches!(*kind, "C" | "c");
        let mut seen = Vec::new();
        for (kind, rest) in row.steps().filter(given) {
            let end: &[u8] = if kind == "C" { b"\r\n" } else { b"" };
            self.send(&[&unescape(rest)[..], end].concat());
            seen.push(format!("{kind}: {rest}"));
        }
        while let Some(line) = self.next(ANSWER_MAX) {
            seen.push(line);
        }
        seen
    }

    /// Plays the lines of a row from here on. Returned is what they should have been, followed by
    /// whatever else `probe` (a command and its answer) brings to light.
    pub(crate) fn play(&mut self, row: &Row, probe: Option<(&str, &str)>) -> Vec<String> {
        let mut seen = Vec::new();
        let lines: Vec<String> = row.lines.iter().flat_map(|line| expand(line)).collect();
        for (n, line) in lines.iter().enumerate() {
            let (kind, rest) = step(line);
            match kind {
                "C" => self.send(&[&unescape(rest)[..], b"\r\n"].concat()),
                "c" => self.send(&unescape(rest)),
                "S" if is_writing() => continue,
                "X" if rest == "closed" && is_writing() => continue,
                "S" => {
                    seen.extend(self.next(ANSWER_MAX));
                    continue;
                }
                "X" if rest == "closed" => {
                    seen.extend(self.next(ANSWER_MAX));
                    continue;
                }
                "X" => self.act(rest),
                "M" | "A" | "H" | "O" => continue,
                _ => {}
            }
            seen.push(line.clone());
            let sends_on = lines.get(n + 1).is_some_and(|next| matches!(step(next).0, "C" | "c"));
            if is_writing() && matches!(kind, "C" | "c" | "X" | "T") && !sends_on {
                let seconds = || Duration::from_secs(rest.parse().expect("seconds"));
                let wait = if kind == "T" { seconds() } else { SILENCE };
                while let Some(line) = self.next(wait) {
                    seen.push(line);
                }
            }
        }
        if let (Some((command, answer)), false) = (probe, self.closed) {
            self.send(format!("{command}\r\n").as_bytes());
            let answer = format!("S: {answer}");
            loop {
                match self.next(ANSWER_MAX) {
                    Some(line) if line == answer => break,
                    Some(line) => seen.push(line),
                    None => break,
                }
            }
        }
        shorten(seen)
    }
}

/// Text without what differs from run to run.
fn shown(line: &[u8]) -> String {
    let text = escape(line.strip_suffix(b"\r\n").unwrap_or(&line[..line.len() - 1]));
    match text.split_once("queued as ") {
        Some((before, id)) if id.len() == 16 => format!("{before}queued as {{id}}"),
        _ => text,
    }
}

/// `S: *3 TEXT` stands for three times the same line.
fn expand(line: &str) -> Vec<String> {
    let repeated = line.strip_prefix("S: *").and_then(|rest| rest.split_once(' '));
    match repeated {
        Some((count, text)) => vec![format!("S: {text}"); count.parse().expect("a count")],
        None => vec![line.to_owned()],
    }
}

fn shorten(lines: Vec<String>) -> Vec<String> {
    let mut short = Vec::new();
    for same in lines.chunk_by(|a, b| a == b && a.starts_with("S: ")) {
        match same {
            [_, _, ..] => short.push(format!("S: *{} {}", same.len(), &same[0][3..])),
            _ => short.push(same[0].clone()),
        }
    }
    short
}
