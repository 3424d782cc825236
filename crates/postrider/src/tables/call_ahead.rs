//! Tables answered by a next hop, by recipient verification (call-ahead, callout): a transaction is begun, and no
//! message is sent.

mod conversation;
mod hop;

pub(super) use hop::AskedHop;

use super::connections::{Connections, in_turn};
use config::quantity::Period;
use config::{Reader, TableSection, TableSettings};
use conversation::Conversation;
use lookup::{Backend, Entry, Fetch, LookupError};
use mail::Mailbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::Arc;

/// The null sender in the configuration (RFC 5321 §4.5.5).
const NOBODY: &str = "<>";

/// Recipient verification at a next hop (call-ahead): the table contains the addresses that the hosts of a route
/// accept. The check is a transaction without a message (MAIL, RCPT, RSET). RCPT replies decide: 2yz means that the
/// address exists, 5yz concerning the address that it does not; other replies and earlier failures are no answer. Only
/// whole addresses in lower case are looked up.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CallAheadText {
    /// Name of the route with the hosts to use. Its `tls`, `port` and timeouts apply. It must have `smtp` or `lmtp` and
    /// fixed hosts. Required.
    #[schemars(extend("title" = "name of a route"))]
    route: String,
    /// Sender in MAIL; `"<>"` for the null sender, as in bounces. A next hop that rejects it gives no answers.
    #[schemars(extend("title" = "address or <>"))]
    sender: String,
    /// Timeout for a connection to a host, including greeting and EHLO. The next host is tried then.
    connect_timeout: Period,
}

impl Default for CallAheadText {
    fn default() -> CallAheadText {
        CallAheadText {
            route: String::new(),
            sender: NOBODY.to_owned(),
            // Postfix's postscreen has clients wait for 6 seconds.
            connect_timeout: "10s".into(),
        }
    }
}

impl TableSection for CallAheadText {
    const KEY: &'static str = "call_ahead";
    const SUMMARY: &'static str = "A next hop, queried by RCPT TO whether it accepts a recipient.";
    const EXAMPLE: &'static str = "[[table]]\ncall_ahead = { … }";
    const IS_REMOTE: bool = true;
    type Text = CallAheadText;

    fn read(text: CallAheadText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        reader.check_timeout("connect_timeout", &text.connect_timeout);
        if text.route.is_empty() {
            let help = "name the route with the hosts: route = \"mailboxes\"";
            reader.error("", "a call-ahead without `route`", help);
            return None;
        }
        let sender = match &*text.sender {
            NOBODY | "" => None,
            address => match Mailbox::parse(address, true) {
                Ok(sender) => Some(sender),
                Err(why) => {
                    let help = format!("{why}; \"{NOBODY}\" is the null sender");
                    reader.error("sender", format!("\"{address}\" is not an address"), &help);
                    return None;
                }
            },
        };
        let (route, connect_timeout) = (text.route.into(), text.connect_timeout);
        Some(Arc::new(CallAhead { route, sender, connect_timeout }))
    }
}

/// `call_ahead = { … }`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallAhead {
    route: Box<str>,
    sender: Option<Mailbox>,
    connect_timeout: Period,
}

impl TableSettings for CallAhead {
    fn asked_route(&self) -> Option<&str> {
        Some(&self.route)
    }

    /// The next hop defines the meaning of tags and domains.
    fn has_patterns(&self) -> bool {
        true
    }

    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of() == Some(self)
    }
}

impl CallAhead {
    /// The driver, for the table thread.
    pub(super) fn backend(&self, hop: AskedHop) -> Box<dyn Backend> {
        let (ahead, answering) = (self.clone(), Cell::default());
        Box::new(CallAheadDriver { ahead, hop, answering, connections: Connections::new() })
    }
}

struct CallAheadDriver {
    ahead: CallAhead,
    hop: AskedHop,
    /// The number of the host that has greeted us last.
    answering: Cell<usize>,
    connections: Connections<Conversation>,
}

impl Backend for CallAheadDriver {
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(in_turn(keys, async |key| self.find(key).await))
    }

    fn server(&self) -> Option<String> {
        self.connections.is_answering().then(|| self.hop.server(self.answering.get())).flatten()
    }
}

impl CallAheadDriver {
    /// The entry of an existing address is the address itself. A key that is no address is not looked up.
    async fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let Ok(recipient) = Mailbox::parse(key, true) else { return Ok(None) };
        let wait = self.ahead.connect_timeout.get();
        let open = async || {
            let (host, conversation) = self.hop.open(wait, self.answering.get()).await?;
            self.answering.set(host);
            Ok(conversation)
        };
        let ask = async |conversation: &mut Conversation| {
            conversation.ask(self.ahead.sender.clone(), recipient.clone()).await
        };
        let is_there = self.connections.ask(open, ask).await?;
        Ok(is_there.then(|| Entry::text(key)))
    }
}

#[cfg(test)]
mod tests;
