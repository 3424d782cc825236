//! A client that says little and reads every reply.

use crate::stand::{Error, Result};
use load::tls;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A reply comes within this time, or not at all; some come when idleness has lasted long enough.
const REPLY_MAX: Duration = Duration::from_secs(180);

/// What may be encrypted.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection to the relay.
pub(super) struct Client {
    stream: BufReader<Box<dyn Stream>>,
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
        Ok(Client::over(Box::new(TcpStream::from(socket))))
    }

    /// One reply is short; thousands of clients must not have large buffers.
    fn over(stream: Box<dyn Stream>) -> Client {
        Client { stream: BufReader::with_capacity(512, stream) }
    }

    /// The same connection, encrypted, after the greeting was read.
    ///
    /// # Errors
    /// When the relay doesn't offer STARTTLS, or the handshake fails.
    pub(super) fn encrypted(mut self, client: &tls::TlsClient) -> Result<Client> {
        self.say("EHLO probe.test")?;
        let reply = self.say("STARTTLS")?;
        if !reply.starts_with("220") {
            return Err(Error::Server(format!("STARTTLS: {reply}")));
        }
        let failed = |error: io::Error| Error::Server(format!("TLS: {error}"));
        let stream = client.encrypt_blocking(self.stream.into_inner()).map_err(failed)?;
        Ok(Client::over(Box::new(stream)))
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
        let stream = self.stream.get_mut();
        let written =
            stream.write_all(format!("{line}\r\n").as_bytes()).and_then(|()| stream.flush());
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
    let content = "Subject: probe\r\n\r\nA probe.\r\n.";
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
