//! Dovecot's authentication protocol, client side (its documentation: "Authentication Protocol", version 1): lines of
//! tab-separated parts. One connection serves many logins at once, each with its own number.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Major versions must agree; other minor versions only add features.
const MAJOR: &str = "1";
const MINOR: &str = "1";

/// Bytes of a line to the server, without its end. Longer ones make it close the connection, on all
/// logins that share it.
pub const REQUEST_BYTES_MAX: usize = 8_191;

/// Bytes of a line of the server, without its end.
pub const ANSWER_BYTES_MAX: usize = 65_536;

/// Mechanisms that a server may offer.
pub const MECHANISMS_MAX: usize = 64;

/// An invalid message in this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// A login is too long for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DovecotEvent {
    /// The handshake is done; these mechanisms are offered.
    Ready(Vec<Box<str>>),
    /// The answer to the last message with this number.
    Answer(u32, Answer),
}

/// The answer to a step of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Send this to the client, which answers.
    Continue(Vec<u8>),
    /// The client is this user.
    Accepted(String),
    /// Refused; with the claimed user, if known.
    Refused(Option<String>),
    /// The server has a temporary failure.
    Unavailable,
}

/// A login to be checked by the server.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Unique among the open logins of the connection.
    pub id: u32,
    pub mechanism: &'a str,
    pub initial: Option<&'a [u8]>,
    /// Address of the client, and the local address.
    pub remote: SocketAddr,
    pub local: Option<SocketAddr>,
}

/// The first message; `process` distinguishes this connection.
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
        // No later query about the user follows (`nologin`), and the connection is encrypted (`secured`).
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

/// The client aborted the login.
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

/// Parser of the server's messages.
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
    /// Handles input.
    ///
    /// # Errors
    /// Returns an error if it is invalid: the connection is then unusable.
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

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<DovecotEvent> {
        self.events.pop_front()
    }

    fn gather(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        if self.partial.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(Malformed("a line from the server is too long"));
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
                return Err(Malformed("not version 1 of Dovecot's protocol"));
            }
            self.has_version = true;
            return Ok(());
        }
        match command {
            "OK" | "FAIL" | "CONT" if !self.is_ready => {
                Err(Malformed("answer before the end of the handshake"))
            }
            "MECH" if !self.is_ready => self.handle_mechanism(rest),
            "DONE" if !self.is_ready => {
                self.is_ready = true;
                self.events.push_back(DovecotEvent::Ready(std::mem::take(&mut self.mechanisms)));
                Ok(())
            }
            "OK" | "FAIL" | "CONT" => self.handle_answer(command, rest),
            // SPID, CUID, COOKIE, and additions of later versions.
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
        let id = id.parse().map_err(|_| Malformed("answer without an id"))?;
        let answer = match command {
            "OK" => Answer::Accepted(
                user_in(rest).ok_or(Malformed("authentication without a user name"))?,
            ),
            "FAIL" => refused(rest),
            _ => {
                let challenge = STANDARD.decode(rest);
                Answer::Continue(challenge.map_err(|_| Malformed("challenge is not base64"))?)
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

/// Characters not allowed in a line are written as 0x01 and a letter.
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
