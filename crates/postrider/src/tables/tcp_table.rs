//! Tables behind the protocol of Postfix's tcp_table(5): a line there and a line back.

use super::server::{CONNECT_TIMEOUT, DialogueSettings, QueryProtocol, TableServer};
use super::text::{value, words};
use config::quantity::Period;
use config::{Reader, TableSection, TableSettings};
use lookup::{Backend, Entry, LookupError, LookupErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// No line is longer, there or back, with the newline at its end (tcp_table(5), REPLY FORMAT).
const LINE_BYTES_MAX: usize = 4_096;

/// A table at a server with the protocol of Postfix's `tcp:host:port` (tcp_table(5)), for example PostSRSd. Requests
/// and replies have at most 4,096 bytes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct TcpTableText {
    /// Address of the server: a host and port, or `unix:` and the path of a socket. Required.
    #[schemars(extend("title" = "host:port or unix:path"))]
    server: String,
    /// Timeout for a connection.
    connect_timeout: Period,
}

impl Default for TcpTableText {
    fn default() -> TcpTableText {
        TcpTableText { server: String::new(), connect_timeout: CONNECT_TIMEOUT.into() }
    }
}

impl TableSection for TcpTableText {
    const KEY: &'static str = "tcp";
    const SUMMARY: &'static str = "A server for the protocol of Postfix's tcp tables.";
    const EXAMPLE: &'static str = "[[table]]\ntcp = { … }";
    const IS_REMOTE: bool = true;
    type Text = TcpTableText;

    fn read(text: TcpTableText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        reader.check_timeout("connect_timeout", &text.connect_timeout);
        let server = TableServer::read(&text.server, 0, reader)?;
        let connect_timeout = text.connect_timeout.get();
        Some(Arc::new(TcpTable(DialogueSettings {
            server,
            connect_timeout,
            dialogue: TcpTableProtocol,
        })))
    }
}

/// `tcp = { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TcpTable(DialogueSettings<TcpTableProtocol>);

impl TableSettings for TcpTable {
    fn builds_answers(&self) -> bool {
        true
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of() == Some(self)
    }
}

impl TcpTable {
    /// The driver, for the table thread.
    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        self.0.backend()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TcpTableProtocol;

impl QueryProtocol for TcpTableProtocol {
    fn question(&self, key: &str) -> Result<Vec<u8>, LookupError> {
        request(key)
    }

    fn content(bytes: &[u8]) -> Result<Option<Range<usize>>, LookupError> {
        line(bytes)
    }

    fn answer(reply: &[u8]) -> Result<Option<Entry>, LookupError> {
        answer(reply)
    }
}

/// The question for a key (tcp_table(5), ENCODING).
fn request(key: &str) -> Result<Vec<u8>, LookupError> {
    let mut line = b"get ".to_vec();
    for byte in key.bytes() {
        match byte {
            b'%' | ..=b' ' | 0x7f.. => line.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => line.push(byte),
        }
    }
    line.push(b'\n');
    if line.len() > LINE_BYTES_MAX {
        return Err(LookupError::new(LookupErrorKind::Key, "the key is too long for a tcp table"));
    }
    Ok(line)
}

/// The place of a line's text.
fn line(bytes: &[u8]) -> Result<Option<Range<usize>>, LookupError> {
    match bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
        Some(end) if end + 1 == bytes.len() => Ok(Some(0..end)),
        Some(_) => Err(LookupError::new(LookupErrorKind::Wrong, "more than one reply")),
        None if bytes.len() < LINE_BYTES_MAX => Ok(None),
        None => {
            let text = format!("the reply has more than {LINE_BYTES_MAX} bytes");
            Err(LookupError::new(LookupErrorKind::Key, text))
        }
    }
}

/// Parses a reply (tcp_table(5), REPLY FORMAT).
fn answer(reply: &[u8]) -> Result<Option<Entry>, LookupError> {
    let wrong = |text: &[u8]| LookupError::new(LookupErrorKind::Wrong, words(text));
    match reply.split_at_checked(4) {
        Some((b"200 ", text)) => {
            let text = decoded(text).ok_or_else(|| wrong(reply))?;
            Ok(Some(Entry::text(value(&text)?)))
        }
        Some((b"500 ", _)) => Ok(None),
        // Some servers leave the text out, and the space before it.
        None if reply == b"500" => Ok(None),
        _ => Err(wrong(reply)),
    }
}

/// The text without its `%XX`; `None`: a `%` is followed by something else.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = text.iter().copied();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests;
