//! A client that says little and reads every reply.

use crate::stand::{Error, Result};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A reply comes within this time, or not at all; some come when idleness has lasted long enough.
const REPLY_MAX: Duration = Duration::from_secs(180);

/// A connection to the relay.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects from one of this machine's addresses; reads nothing yet.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn connect(to: &str, from: Ipv4Addr) -> Result<Client> {
        let failed = |error| Error::Server(format!("{to}: {error}"));
        let to: SocketAddr = to.parse().map_err(std::io::Error::other).map_err(failed)?;
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.map_err(failed)?;
        socket.bind(&SocketAddr::from((from, 0)).into()).map_err(failed)?;
        socket.connect(&to.into()).map_err(failed)?;
        socket.set_read_timeout(Some(REPLY_MAX)).map_err(failed)?;
        // One reply is short; thousands of clients must not have large buffers.
        Ok(Client { stream: BufReader::with_capacity(512, socket.into()) })
    }

    /// Reads a reply, its lines joined with `\n`; empty at the connection's end.
    ///
    /// # Errors
    /// When none comes in time.
    pub(super) fn reply(&mut self) -> Result<String> {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) => return Ok(reply),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Ok(reply);
                }
                Err(error) => return Err(Error::Server(format!("no reply: {error}"))),
            }
            reply.push_str(line.trim_end());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(reply);
            }
            reply.push('\n');
        }
    }

    /// Says a line and reads the reply.
    ///
    /// # Errors
    /// When it can't be said, or nothing is answered.
    pub(super) fn say(&mut self, line: &str) -> Result<String> {
        let written = self.stream.get_mut().write_all(format!("{line}\r\n").as_bytes());
        written.map_err(|error| Error::Server(format!("{line}: {error}")))?;
        self.reply()
    }
}

/// Hands in one small message of no ledger; the reply that decided its fate. `sender` is the
/// reverse-path, `wish` are parameters of RCPT.
///
/// # Errors
/// When the relay does not answer.
pub(super) fn try_message(to: &str, sender: &str, wish: &str) -> Result<String> {
    let mut client = Client::connect(to, Ipv4Addr::LOCALHOST)?;
    let mut reply = client.reply()?;
    let content = "Subject: probe\r\n\r\nIs there room?\r\n.";
    let mail = format!("MAIL FROM:<{sender}>");
    let rcpt = format!("RCPT TO:<probe@one.test> {wish}");
    for line in ["EHLO probe.test", &mail, rcpt.trim_end(), "DATA", content] {
        if !reply.starts_with(['2', '3']) {
            return Ok(reply);
        }
        reply = client.say(line)?;
    }
    Ok(reply)
}
