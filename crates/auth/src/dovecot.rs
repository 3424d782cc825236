//! Dovecot's authentication protocol, the side of a client (its documentation: "Authentication
//! Protocol", version 1): lines with tabs between their parts. One connection serves many logins at once,
//! each with a number of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What must agree; other minor versions only add.
const MAJOR: &str = "1";
const MINOR: &str = "1";

/// Bytes of a line to the server, without its end. Longer ones make it close the connection, on all
/// logins that share it.
pub const REQUEST_BYTES_MAX: usize = 8_191;

/// Bytes of a line of the server, without its end.
pub const ANSWER_BYTES_MAX: usize = 65_536;

/// Mechanisms that a server may offer.
pub const MECHANISMS_MAX: usize = 64;

/// What is no answer in this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// A login is too long for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DovecotEvent {
    /// The handshake is done; these mechanisms are offered.
    Ready(Vec<Box<str>>),
    /// The answer to what was said last under this number.
    Answer(u32, Answer),
}

/// The answer to a step of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client is to be told this, and answers.
    Continue(Vec<u8>),
    /// The client is this user.
    Accepted(String),
    /// It is not; the user that it said to be, if that is known.
    Refused(Option<String>),
    /// The server can't tell now.
    Unavailable,
}

/// A login, as the server is told of it.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Unique among those that are open on the connection.
    pub id: u32,
    pub mechanism: &'a str,
    pub initial: Option<&'a [u8]>,
    /// Where the client is, and where it came to.
    pub remote: SocketAddr,
    pub local: Option<SocketAddr>,
}

/// What is said first; `process` is what tells this connection from others.
#[must_use]
pub fn hello(process: u32) -> String {
    format!("VERSION\t{MAJOR}\t{MINOR}\nCPID\t{process}\n")
}

impl Login<'_> {
    /// Begins it, on an encrypted connection of the client.
    ///
    /// # Errors
    /// Its initial response is too long.
    pub fn line(&self) -> Result<String, TooLong> {
        let Login { id, mechanism, initial, remote, local } = self;
        // Nobody will ask this server about the user later (`nologin`), and nothing was said in clear
        // (`secured`).
        let mut line = format!("AUTH\t{id}\t{mechanism}\tservice=smtp\tnologin\tsecured");
        if let Some(local) = local {
            line += &format!("\tlip={}\tlport={}", local.ip().to_canonical(), local.port());
        }
        line += &format!("\trip={}\trport={}", remote.ip().to_canonical(), remote.port());
        if let Some(initial) = initial {
            // Always the last one.
            line += "\tresp=";
            line += &STANDARD.encode(initial);
        }
        ended(line)
    }
}

/// The client's answer to [`Answer::Continue`].
///
/// # Errors
/// It is too long.
pub fn response(id: u32, response: &[u8]) -> Result<String, TooLong> {
    ended(format!("CONT\t{id}\t{}", STANDARD.encode(response)))
}

/// The client gives the login up.
#[must_use]
pub fn cancel(id: u32) -> String {
    format!("CANCEL\t{id}\n")
}

fn ended(mut line: String) -> Result<String, TooLong> {
    if line.len() > REQUEST_BYTES_MAX {
        return Err(TooLong);
    }
    line.push('\n');
    Ok(line)
}

/// What comes from a server.
#[derive(Debug, Default)]
pub struct Answers {
    /// The beginning of a line.
    partial: Vec<u8>,
    events: VecDeque<DovecotEvent>,
    has_version: bool,
    is_ready: bool,
    mechanisms: Vec<Box<str>>,
}

impl Answers {
    /// Takes what was read.
    ///
    /// # Errors
    /// It is no answer: the connection is of no use any more.
    pub fn handle_input(&mut self, mut input: &[u8]) -> Result<(), Malformed> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (line, rest) = (input.get(..end).unwrap_or_default(), input.get(end + 1..));
            input = rest.unwrap_or_default();
            self.gather(line)?;
            let line = std::mem::take(&mut self.partial);
            self.handle_line(&line)?;
        }
        self.gather(input)
    }

    /// What came of it, one after the other.
    pub fn poll_event(&mut self) -> Option<DovecotEvent> {
        self.events.pop_front()
    }

    fn gather(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        if self.partial.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(Malformed("a line of the server is too long"));
        }
        self.partial.extend_from_slice(piece);
        Ok(())
    }

    fn handle_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let line = std::str::from_utf8(line).map_err(|_| Malformed("a line is not UTF-8"))?;
        let (command, rest) = line.split_once('\t').unwrap_or((line, ""));
        if !self.has_version {
            let major = rest.split('\t').next();
            if command != "VERSION" || major != Some(MAJOR) {
                return Err(Malformed("it does not speak version 1 of Dovecot's protocol"));
            }
            self.has_version = true;
            return Ok(());
        }
        match command {
            "OK" | "FAIL" | "CONT" if !self.is_ready => {
                Err(Malformed("an answer before the end of the handshake"))
            }
            "MECH" if !self.is_ready => self.handle_mechanism(rest),
            "DONE" if !self.is_ready => {
                self.is_ready = true;
                self.events.push_back(DovecotEvent::Ready(std::mem::take(&mut self.mechanisms)));
                Ok(())
            }
            "OK" | "FAIL" | "CONT" => self.handle_answer(command, rest),
            // SPID, CUID, COOKIE, and what later versions add.
            _ => Ok(()),
        }
    }

    fn handle_mechanism(&mut self, rest: &str) -> Result<(), Malformed> {
        let mut parts = rest.split('\t');
        let name = parts.next().filter(|name| !name.is_empty());
        let name = name.ok_or(Malformed("a mechanism without a name"))?;
        if self.mechanisms.len() == MECHANISMS_MAX {
            return Err(Malformed("too many mechanisms"));
        }
        // One that is for Dovecot's own servers only is not offered to clients.
        if !parts.any(|part| part == "private") {
            self.mechanisms.push(name.to_ascii_uppercase().into());
        }
        Ok(())
    }

    fn handle_answer(&mut self, command: &str, rest: &str) -> Result<(), Malformed> {
        let (id, rest) = rest.split_once('\t').unwrap_or((rest, ""));
        let id = id.parse().map_err(|_| Malformed("an answer without a number"))?;
        let answer = match command {
            "OK" => {
                Answer::Accepted(user_in(rest).ok_or(Malformed("a login without a user's name"))?)
            }
            "FAIL" => refused(rest),
            _ => {
                let challenge = STANDARD.decode(rest);
                Answer::Continue(challenge.map_err(|_| Malformed("a challenge is not base64"))?)
            }
        };
        self.events.push_back(DovecotEvent::Answer(id, answer));
        Ok(())
    }
}

fn refused(rest: &str) -> Answer {
    let is_temporary = |part: &str| matches!(part, "temp" | "code=temp_fail");
    match rest.split('\t').any(is_temporary) {
        true => Answer::Unavailable,
        false => Answer::Refused(user_in(rest)),
    }
}

/// A name that may be looked up and logged.
fn user_in(rest: &str) -> Option<String> {
    let user = rest.split('\t').find_map(|part| part.strip_prefix("user="))?;
    crate::sasl::user_of(unescaped(user)?.as_bytes())
}

/// What may not stand in a line is written as 0x01 and a letter.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\u{1}' => match chars.next()? {
                '0' => '\0',
                '1' => '\u{1}',
                't' => '\t',
                'r' => '\r',
                'n' => '\n',
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests;
