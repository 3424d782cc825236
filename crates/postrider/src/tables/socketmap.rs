//! Tables behind sendmail's socketmap protocol, as Postfix's socketmap_table(5) has it: netstrings
//! there and back.

use super::server::{CONNECT_TIMEOUT, DialogueSettings, QueryProtocol, TableServer};
use super::text::{value, words};
use config::quantity::Period;
use config::{Reader, TableSection, TableSettings};
use lookup::{Backend, Entry, LookupError, LookupErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Maximum length of a reply without its netstring framing (socketmap_table(5), REPLY FORMAT).
const REPLY_BYTES_MAX: usize = 100_000;

/// Digits of a netstring's length at most: more are a length beyond any limit, or no length.
const LENGTH_DIGITS_MAX: usize = 9;

/// A table at a server with sendmail's socketmap protocol, like Postfix's `socketmap:inet:host:port:name`. Replies have
/// at most 100,000 bytes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SocketmapText {
    /// Address of the server: a host and port, or `unix:` and the path of a socket. Required.
    #[schemars(extend("title" = "host:port or unix:path"))]
    server: String,
    /// Name of the map in requests. Required.
    map: String,
    /// Timeout for a connection.
    connect_timeout: Period,
}

impl Default for SocketmapText {
    fn default() -> SocketmapText {
        SocketmapText {
            server: String::new(),
            map: String::new(),
            connect_timeout: CONNECT_TIMEOUT.into(),
        }
    }
}

impl TableSection for SocketmapText {
    const KEY: &'static str = "socketmap";
    const SUMMARY: &'static str = "A server for sendmail's socketmap protocol.";
    const EXAMPLE: &'static str = "[[table]]\nsocketmap = { … }";
    const IS_REMOTE: bool = true;
    type Text = SocketmapText;

    fn read(text: SocketmapText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        reader.check_timeout("connect_timeout", &text.connect_timeout);
        let server = TableServer::read(&text.server, 0, reader);
        if text.map.is_empty() {
            reader.error("", "a socketmap without `map`", "the name of the map on the server");
            return None;
        }
        // A space would end the name.
        if text.map.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let message = format!("\"{}\" is not a map name", text.map.escape_debug());
            reader.error("map", message, "a map name has no spaces");
            return None;
        }
        let connect_timeout = text.connect_timeout.get();
        let dialogue = Map(text.map.into());
        Some(Arc::new(Socketmap(DialogueSettings { server: server?, connect_timeout, dialogue })))
    }
}

/// `socketmap = { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socketmap(DialogueSettings<Map>);

impl TableSettings for Socketmap {
    fn builds_answers(&self) -> bool {
        true
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of() == Some(self)
    }
}

impl Socketmap {
    /// The driver, for the table thread.
    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        self.0.backend()
    }
}

/// The map that questions name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Map(Box<str>);

impl QueryProtocol for Map {
    fn question(&self, key: &str) -> Result<Vec<u8>, LookupError> {
        let Map(map) = self;
        Ok(format!("{}:{map} {key},", map.len() + 1 + key.len()).into_bytes())
    }

    fn content(bytes: &[u8]) -> Result<Option<Range<usize>>, LookupError> {
        netstring(bytes)
    }

    fn answer(reply: &[u8]) -> Result<Option<Entry>, LookupError> {
        answer(reply)
    }
}

/// The place of a netstring's content.
fn netstring(bytes: &[u8]) -> Result<Option<Range<usize>>, LookupError> {
    let wrong = |what: &str| Err(LookupError::new(LookupErrorKind::Wrong, what));
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ends = bytes.get(digits);
    if digits > LENGTH_DIGITS_MAX
        || (digits == 0 && ends.is_some())
        || ends.is_some_and(|b| *b != b':')
    {
        return wrong(&format!("the reply is not a netstring: {}", words(bytes)));
    }
    if ends.is_none() {
        return Ok(None);
    }
    let length =
        bytes.iter().take(digits).fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    if length > REPLY_BYTES_MAX {
        let text = format!("the reply has {length} bytes: at most {REPLY_BYTES_MAX}");
        return Err(LookupError::new(LookupErrorKind::Key, text));
    }
    let start = digits + 1;
    let end = start + length;
    match bytes.get(end..) {
        None | Some([]) => Ok(None),
        Some([b',']) => Ok(Some(start..end)),
        Some([b',', ..]) => wrong("more than one reply"),
        Some(_) => wrong("the reply is not a netstring: no comma at its end"),
    }
}

/// Parses a reply (socketmap_table(5), REPLY FORMAT).
fn answer(reply: &[u8]) -> Result<Option<Entry>, LookupError> {
    let space = reply.iter().position(|byte| *byte == b' ');
    let (status, rest) = reply.split_at(space.unwrap_or(reply.len()));
    let data = rest.get(1..).unwrap_or_default();
    let kind = match status {
        b"OK" if space.is_some() => return Ok(Some(Entry::text(value(data)?))),
        b"NOTFOUND" => return Ok(None),
        b"TIMEOUT" => LookupErrorKind::Timeout,
        _ => LookupErrorKind::Wrong,
    };
    Err(LookupError::new(kind, words(reply)))
}

#[cfg(test)]
mod tests;
