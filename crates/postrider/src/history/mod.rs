//! The history of messages in the event log: its files, their lines, and searches over them.
//!
//! An event is a line of JSON, [`EventLine`]. All reading is streamed. Memory depends on neither the size nor the
//! number of the files.

mod files;
mod follow;
mod search;
mod terms;

pub(crate) use files::{EventFiles, UnreadFile};
pub(crate) use follow::Follower;
pub(crate) use search::Search;
pub(crate) use terms::Terms;

use crate::terminal::clean;
use mail::{MessageId, Wall};
use mta::control::QueuedRecipient;
use mta::control::text::parse_wall;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// An event, with the fields that searches and people need (`docs/events.md`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EventLine {
    time: String,
    event: String,
    id: Option<String>,
    sender: Option<String>,
    recipient: Option<String>,
    recipient_index: Option<u32>,
    recipients: Vec<String>,
    size: Option<u64>,
    delay_ms: Option<u64>,
    client: Option<String>,
    client_name: Option<String>,
    helo: Option<String>,
    listener: Option<String>,
    login: Option<String>,
    headers: BTreeMap<String, String>,
    route: Option<String>,
    source: Option<String>,
    next_hop: Option<String>,
    attempts: Option<u16>,
    status: Option<String>,
    reply: Option<String>,
    reason: Option<String>,
    class: Option<String>,
    next_try: Option<String>,
    step: Option<serde_json::Value>,
    dsn: Option<String>,
    action: Option<String>,
    why: Option<String>,
    unlogged: Option<u64>,
    count: Option<u64>,
    rule: Option<String>,
    provider: Option<String>,
    until: Option<String>,
    to_route: Option<String>,
    to_pool: Option<String>,
    to_campaign: Option<String>,
    to_priority: Option<i64>,
}

impl EventLine {
    /// Parses a line; `None` if it is no event, as after a crash.
    pub(crate) fn parse(line: &[u8]) -> Option<EventLine> {
        let line: EventLine = serde_json::from_slice(line).ok()?;
        line.at().is_some().then_some(line)
    }

    pub(crate) fn at(&self) -> Option<Wall> {
        parse_wall(&self.time)
    }

    /// The message.
    pub(crate) fn id(&self) -> Option<MessageId> {
        self.id.as_deref()?.parse().ok()
    }

    /// The recipient that is done with since this event, if one is.
    pub(crate) fn ended(&self) -> Option<QueuedRecipient> {
        let ends = ["delivered", "relayed", "failed", "expired", "removed"];
        let is_end = ends.contains(&self.event.as_str());
        Some(QueuedRecipient { id: self.id().filter(|_| is_end)?, index: self.recipient_index? })
    }

    /// Returns true if it is about the message, or about a DSN with this id.
    pub(crate) fn names(&self, id: MessageId) -> bool {
        let is =
            |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok()) == Some(id);
        is(&self.id) || is(&self.dsn)
    }

    /// Time of the message's acceptance.
    fn received_at(&self) -> Option<Wall> {
        Some(Wall(self.at()?.0.saturating_sub(self.delay_ms.unwrap_or(0))))
    }

    /// The event in one line for people, with its time.
    pub(crate) fn text(&self) -> String {
        format!("{} {}", clean(&self.time), self.untimed_text())
    }

    /// The event in one line for people: its kind, the message and the facts as `key=value`.
    pub(crate) fn untimed_text(&self) -> String {
        let mut text = format!("{:<10}", clean(&self.event));
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let address = |text: &Option<String>| text.as_ref().map(|text| format!("<{text}>"));
        let step = self.step.as_ref().map(|step| match step {
            serde_json::Value::String(step) => step.clone(),
            other => other.to_string(),
        });
        let reason = self.reason.clone().filter(|_| self.reply.is_none());
        let facts = [
            ("id", self.id.clone()),
            ("from", address(&self.sender)),
            ("to", address(&self.recipient).or_else(|| self.shown_recipients())),
            ("client", self.shown_client()),
            ("helo", self.helo.clone()),
            ("login", self.login.clone()),
            ("listener", self.listener.clone()),
            ("size", number(self.size.filter(|_| self.event == "received"))),
            ("step", step),
            ("rule", self.rule.clone()),
            ("provider", self.provider.clone()),
            ("route", self.route.clone()),
            ("source", self.source.clone()),
            ("next_hop", self.next_hop.clone()),
            ("delay", self.delay_ms.map(|ms| format!("{}.{:03}s", ms / 1_000, ms % 1_000))),
            ("attempts", self.attempts.map(|n| n.to_string())),
            ("status", self.status.clone()),
            ("class", self.class.clone()),
            ("reply", self.reply.clone()),
            ("reason", reason),
            ("next_try", self.next_try.clone()),
            ("until", self.until.clone()),
            ("dsn", self.dsn.clone()),
            ("action", self.action.clone()),
            ("why", self.why.clone()),
            ("unlogged", number(self.unlogged)),
            ("count", number(self.count)),
            ("to_route", self.to_route.clone()),
            ("to_pool", self.to_pool.clone()),
            ("to_campaign", self.to_campaign.clone()),
            ("to_priority", self.to_priority.map(|n| n.to_string())),
        ];
        for (key, value) in facts {
            if let Some(value) = value {
                write_fact(&mut text, key, &value);
            }
        }
        for (name, value) in &self.headers {
            write_fact(&mut text, &name.to_lowercase(), value);
        }
        text
    }

    /// The first recipient, with the number of further ones.
    fn shown_recipients(&self) -> Option<String> {
        let first = self.recipients.first()?;
        Some(match self.recipients.len() {
            1 => format!("<{first}>"),
            n => format!("<{first}> and {} more", n - 1),
        })
    }

    fn shown_client(&self) -> Option<String> {
        let client = self.client.as_deref()?;
        Some(match &self.client_name {
            Some(name) => format!("{name}[{client}]"),
            None => client.to_owned(),
        })
    }
}

/// Appends ` key=value`; a value with spaces or quotes is quoted.
fn write_fact(text: &mut String, key: &str, value: &str) {
    let value = clean(value);
    let _ = if value.is_empty() || value.contains([' ', '"']) {
        write!(text, " {key}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        write!(text, " {key}={value}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_text_for_people() {
        let line = r#"{"time":"2026-11-21T10:11:12.389Z","event":"relayed","id":"000100000000002a",
            "sender":"","recipient":"you@example.net","recipient_index":0,"size":400,"delay_ms":1044,
            "route":"example.net","next_hop":"mx.example.net[192.0.2.1]:25","attempts":1,
            "status":"2.0.0","reply":"250 2.0.0 \"Ok\u202e","new_field":[1]}"#;
        let line = EventLine::parse(line.as_bytes()).unwrap();
        assert_eq!(
            line.text(),
            "2026-11-21T10:11:12.389Z relayed    id=000100000000002a from=<> to=<you@example.net> \
             route=example.net next_hop=mx.example.net[192.0.2.1]:25 delay=1.044s attempts=1 \
             status=2.0.0 reply=\"250 2.0.0 \\\"Ok\u{fffd}\""
        );
        assert_eq!(line.received_at().unwrap().to_string(), "2026-11-21T10:11:11.345Z");
        let line = r#"{"time":"2026-11-21T10:11:12.389Z","event":"received","id":"000100000000002a",
            "sender":"a@b.test","recipients":["x@y.test","z@y.test"],"size":400,"client":"192.0.2.1",
            "client_name":"c.test","helo":"c","headers":{"Subject":"two words"}}"#;
        assert_eq!(
            EventLine::parse(line.as_bytes()).unwrap().untimed_text(),
            "received   id=000100000000002a from=<a@b.test> to=\"<x@y.test> and 1 more\" \
             client=c.test[192.0.2.1] helo=c size=400 subject=\"two words\""
        );
    }

    #[test]
    fn other_lines_are_no_events() {
        for bad in ["", "{", "[]", "null", "{}", "{\"time\":\"now\",\"event\":\"received\"}"] {
            assert!(EventLine::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
