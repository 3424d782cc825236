//! One row: its route, its peers, its messages, and what became of them.
//!
//! What is done:
//! - `as: smtp | lmtp | mx`, `smtp` unless said otherwise;
//! - `hosts: N`: how many peers there are, 1 unless said otherwise; a static route names them in
//!   order (`balance = "failover"`);
//! - `keys:` more keys of the route, `retry:` those of its `[retry]` beside `first = "2s"`;
//! - `listen:` or `listen N:` `refuse` or `full`: how the first, or the N-th, peer is not there;
//! - `offer:` what the peers offer in the reply to EHLO, with `, ` between them;
//! - `peer:` or `peer N:` a rule of the first, or the N-th, peer, see [`super::peer`];
//! - `from:`, `to:` (with ` ` between them; parameters behind `?`), `mail:` parameters of MAIL;
//! - `body:` the content's lines behind its header; `octets: N` more behind it;
//! - `messages: N`: so many, each as soon as the fate of the one before it is known;
//! - `dns:` a record, `NAME TYPE DATA`, or `NAME` and a fault;
//! - `ignore:` events that are not looked at: whether there are any hangs on who is quicker;
//! - `until: EVENT`: what the row ends with; otherwise when each recipient has its fate.
//!
//! `{d}` is the row's domain, `{1}` the first peer's address, `{port}` the port of all. What is
//! observed:
//! - `E:` an event, those about the next hop first, those about a message by its recipients;
//! - `CN:` what a connection brought to the N-th peer, with ` / ` between commands.

use super::peer::{Listening, Peer, Script};
use crate::support::client::Client;
use crate::support::name_server::{Fault, NameServer};
use crate::support::table::Row;
use serde_json::Value;
use smtp::testing::escape::{escape, unescape};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Kinds of lines that say what is done.
const DONE: [&str; 16] = [
    "as", "hosts", "keys", "retry", "listen", "offer", "peer", "from", "to", "mail", "body",
    "octets", "messages", "dns", "until", "ignore",
];
const OFFERS: &str = "PIPELINING, SIZE, 8BITMIME, DSN";

/// Whether a line says what is done, not what was observed.
pub(crate) fn is_done(kind: &str) -> bool {
    DONE.contains(&kind.split(' ').next().unwrap_or_default())
}

/// A row while it is played.
pub(crate) struct Play<'a> {
    pub(crate) row: &'a Row,
    /// The first three octets of its peers' addresses.
    network: [u8; 3],
    port: u16,
    peers: Vec<Peer>,
    /// The ids of the messages so far.
    ids: Vec<String>,
    events: Vec<Value>,
}

impl<'a> Play<'a> {
    /// The `number`-th row.
    pub(crate) fn new(number: usize, row: &'a Row) -> Play<'a> {
        let octet = |number: usize| u8::try_from(number + 1).expect("not more rows than addresses");
        let network = [127, octet(number / 250), octet(number % 250)];
        Play { row, network, port: 0, peers: Vec::new(), ids: Vec::new(), events: Vec::new() }
    }

    fn domain(&self) -> String {
        format!("{}.test", self.row.id)
    }

    fn host_count(&self) -> u8 {
        self.row.setting("hosts").map_or(1, |count| count.parse().expect("a count"))
    }

    /// The N-th peer's address, from 1.
    fn ip(&self, n: u8) -> IpAddr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, n).into()
    }

    fn is(&self, channel: &str) -> bool {
        self.row.setting("as").unwrap_or("smtp") == channel
    }

    /// All that follows `NAME:` or, for the N-th peer, `NAME N:`.
    fn of_peer(&self, name: &str, n: u8) -> Vec<&str> {
        let own = format!("{name} {n}");
        let is_own = |kind: &str| kind == own || n == 1 && kind == name;
        self.row.steps().filter(|(kind, _)| is_own(kind)).map(|(_, rest)| rest).collect()
    }

    fn filled(&self, text: &str) -> String {
        let mut text =
            text.replace("{d}", &self.domain()).replace("{port}", &self.port.to_string());
        for n in 1..=self.host_count() {
            text = text.replace(&format!("{{{n}}}"), &self.ip(n).to_string());
        }
        text
    }

    fn body(&self) -> Vec<u8> {
        let mut body = unescape(self.row.setting("body").unwrap_or("Hello.\\r\\n"));
        let octets: usize =
            self.row.setting("octets").map_or(0, |text| text.parse().expect("a number"));
        let line = b"0123456789abcdef0123456789abcdef0123456789abcdef\r\n";
        body.extend_from_slice(&line.repeat(octets / line.len()));
        body
    }

    /// Starts the peers, and has the names known.
    pub(crate) fn prepare(&mut self, port: u16, names: &NameServer) {
        self.port = port;
        let offers = self.row.setting("offer").unwrap_or(OFFERS);
        let offers: Vec<_> = offers.split(", ").filter(|offer| !offer.is_empty()).collect();
        for n in 1..=self.host_count() {
            let listening = match self.of_peer("listen", n)[..] {
                [] => Listening::Normally,
                ["refuse"] => Listening::Refusing,
                ["full"] => Listening::Full,
                ref other => panic!("listen: {other:?}?"),
            };
            let rules = self.of_peer("peer", n);
            let script = Script::new(&rules, &offers, self.is("lmtp"), &self.body());
            let peer = Peer::start(SocketAddr::new(self.ip(n), port), listening, script);
            self.peers.push(peer);
        }
        self.prepare_names(names);
    }

    fn prepare_names(&self, names: &NameServer) {
        let mut mx = BTreeMap::<String, Vec<(u16, String)>>::new();
        for (_, record) in self.row.steps().filter(|(kind, _)| *kind == "dns") {
            let record = self.filled(record);
            let words: Vec<_> = record.split(' ').collect();
            match words[..] {
                [name, "MX", preference, host] => {
                    let preference = preference.parse().expect("a preference");
                    let hosts = String::from_utf8(unescape(host)).expect("text");
                    let records =
                        hosts.split_terminator(',').map(|host| (preference, host.to_owned()));
                    mx.entry(name.to_owned()).or_default().extend(records);
                }
                [name, "A", ref addresses @ ..] => names.host(name, addresses),
                [name, "CNAME", target] => names.alias(name, target),
                [name, "SERVFAIL"] => names.fault(name, Fault::Fails),
                [name, "silent"] => names.fault(name, Fault::Silent),
                [name, "cut"] => names.fault(name, Fault::Cut),
                [name, "truncated"] => names.fault(name, Fault::OnlyTruncated),
                [name, "garbage"] => names.fault(name, Fault::Garbage),
                ref other => panic!("dns: {other:?}?"),
            }
        }
        for (name, records) in mx {
            let records: Vec<_> = records.iter().map(|(n, host)| (*n, host.as_str())).collect();
            names.mx(&name, &records);
        }
    }

    /// The row's route.
    pub(crate) fn route(&self) -> String {
        let channel = self.row.setting("as").unwrap_or("smtp");
        let hosts: Vec<_> =
            (1..=self.host_count()).map(|n| format!("\"{}:{}\"", self.ip(n), self.port)).collect();
        let hosts = match channel {
            "mx" => format!("port = {}", self.port),
            _ => format!("hosts = [{}], balance = \"failover\"", hosts.join(", ")),
        };
        let mut keys = self.row.setting("keys").map_or(String::new(), |keys| format!(", {keys}"));
        // A second message takes the same connection, even if the first was relayed long before on a slow machine.
        if self.message_count() > 1 {
            for (key, value) in [("max_connections", "1"), ("idle_timeout", "\"90s\"")] {
                if !keys.contains(key) {
                    keys = format!("{keys}, {key} = {value}");
                }
            }
        }
        let retry = match self.row.setting("retry") {
            Some(retry) => retry.to_owned(),
            None => "first = \"2s\"".to_owned(),
        };
        format!(
            "[[route]]\nname = \"{}\"\ndomains = [\"{}\"]\n{channel} = {{ {hosts}{keys} }}\n\
             retry = {{ jitter = 0.0, {retry} }}\n",
            self.row.id,
            self.domain()
        )
    }

    fn recipients(&self) -> Vec<String> {
        let to = self.filled(self.row.setting("to").unwrap_or("u@{d}"));
        to.split(' ').map(|to| to.replace('?', " ")).collect()
    }

    fn message_count(&self) -> usize {
        self.row.setting("messages").map_or(1, |count| count.parse().expect("a count"))
    }

    /// Hands in the next message.
    fn send(&mut self, server: SocketAddr) {
        let mut client = Client::connect(server);
        let from = self.row.setting("from").unwrap_or("me@source.test");
        let parameters = self.row.setting("mail").unwrap_or_default();
        client.say(format!("MAIL FROM:<{from}> {parameters}").trim_end(), "250");
        for to in self.recipients() {
            let (address, parameters) = to.split_once(' ').unwrap_or((&to, ""));
            client.say(format!("RCPT TO:<{address}> {parameters}").trim_end(), "250");
        }
        let header = format!("Subject: {}\r\n", self.row.id);
        let body = self.body();
        // A body may begin with fields of its own.
        let between: &[u8] = if body.starts_with(b"MIME-") { b"" } else { b"\r\n" };
        client.say("DATA", "354");
        let content = [header.as_bytes(), between, &body].concat();
        client.send(stuffed(&content));
        client.send(".\r\n");
        let reply = client.reply();
        assert!(reply.starts_with("250"), "[{}]: {reply}", self.row.id);
        self.ids.push(crate::support::client::queued_id(&reply));
        client.say("QUIT", "221");
    }

    /// Takes an event, if it is about this row.
    pub(crate) fn take(&mut self, event: &Value) {
        let is_mine = match (event["id"].as_str(), event["next_hop"].as_str()) {
            (Some(id), _) => self.ids.iter().any(|own| own == id),
            (None, Some(hop)) => {
                let [a, b, c] = self.network;
                hop.contains(&format!("{a}.{b}.{c}.")) || hop.contains(&self.domain())
            }
            (None, None) => false,
        };
        let is_over = self.row.setting("until").is_some_and(|event| self.count(&[event]) > 0);
        if is_mine && !is_over && event["event"] != "received" {
            self.events.push(event.clone());
        }
    }

    fn count(&self, kinds: &[&str]) -> usize {
        let is = |event: &&Value| kinds.iter().any(|kind| event["event"] == *kind);
        self.events.iter().filter(is).count()
    }

    /// Hands in what is to be handed in now; whether the row is over.
    pub(crate) fn advance(&mut self, server: SocketAddr) -> bool {
        if let Some(event) = self.row.setting("until") {
            if self.ids.is_empty() {
                self.send(server);
            }
            return self.count(&[event]) > 0;
        }
        let fates = self.count(&["relayed", "delivered", "failed", "expired"]);
        let per_message = self.recipients().len();
        if fates < self.ids.len() * per_message {
            return false;
        }
        if self.ids.len() < self.message_count() {
            self.send(server);
            return false;
        }
        let taken = self.count(&["relayed", "delivered"]) > 0;
        let given_up = self.count(&["failed", "expired"]) > 0;
        (!taken || self.count(&["resumed"]) > 0 || self.count(&["suspended"]) == 0)
            && (!given_up || self.count(&["dsn_queued"]) > 0 || self.tells_nobody())
    }

    fn tells_nobody(&self) -> bool {
        self.row.setting("from") == Some("")
            || self.recipients().iter().all(|to| to.contains("NEVER"))
    }

    /// After the server's end: whether the peers have noticed it.
    pub(crate) fn is_over(&self) -> bool {
        self.peers.iter().all(Peer::is_over)
    }

    /// The row's lines as they should have been.
    pub(crate) fn lines(&self) -> Vec<String> {
        let done = self.row.steps().zip(&self.row.lines).filter(|((kind, _), _)| is_done(kind));
        let mut lines: Vec<String> = done.map(|(_, line)| line.clone()).collect();
        let ignored = self.row.setting("ignore").unwrap_or_default();
        let is_ignored = |event: &Value| ignored.split(' ').any(|kind| event["event"] == kind);
        let of_hop = |event: &&Value| event["id"].is_null() && !is_ignored(event);
        let hop = self.events.iter().filter(of_hop);
        // A report is made when the fates that fall together are known, and so are they told.
        let messages = self.ids.iter().flat_map(|id| {
            let own = self.events.iter().filter(|event| event["id"] == id.as_str());
            let mut own: Vec<_> = own.collect();
            own.sort_by_key(|event| event["recipient_index"].as_u64().unwrap_or(u64::MAX));
            own
        });
        lines.extend(hop.chain(messages).map(|event| format!("E: {}", self.shown(event))));
        for (n, peer) in (1..).zip(&self.peers) {
            for seen in peer.seen() {
                lines.push(format!("C{n}: {}", seen.join(" / ")));
            }
        }
        lines
    }

    /// An event, without what differs from run to run.
    fn shown(&self, event: &Value) -> String {
        let text = |name: &str| event[name].as_str().map(|text| self.without_addresses(text));
        let mut shown = text("event").expect("an event has a name");
        let mut add = |name: &str, value: String| {
            shown.push_str(&format!(" {name}={value}"));
        };
        if self.recipients().len() > 1
            && let Some(recipient) = text("recipient")
        {
            add("to", recipient.split('@').next().expect("a local part").to_owned());
        }
        for name in ["attempts", "step", "recipients"] {
            if let Some(number) = event[name].as_u64() {
                add(name, number.to_string());
            }
        }
        for name in ["action", "next_hop", "status", "culprit", "culprit_name"] {
            if let Some(text) = text(name) {
                add(name, text);
            }
        }
        if let (Some(next), Some(time)) = (seconds(&event["next_try"]), seconds(&event["time"])) {
            add("next_try", format!("+{}s", (next - time).rem_euclid(86_400.0).round()));
        }
        for name in ["reply", "reason"] {
            if let Some(text) = text(name) {
                let length = text.chars().count();
                let text = match length {
                    0..=120 => text,
                    _ => format!("{}… ({length})", text.chars().take(60).collect::<String>()),
                };
                add(name, format!("'{}'", escape(text.as_bytes())));
            }
        }
        shown
    }

    fn without_addresses(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for n in 1..=self.host_count() {
            let ip = self.ip(n).to_string();
            text = text.replace(&format!("{ip}:{}", self.port), &format!("peer{n}"));
            text = text.replace(&ip, &format!("peer{n}"));
        }
        text.replace(&format!(":{}", self.port), ":25")
    }
}

/// RFC 5321 §4.5.2.
fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut stuffed = Vec::with_capacity(content.len());
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(b".") {
            stuffed.push(b'.');
        }
        stuffed.extend_from_slice(line);
    }
    stuffed
}

/// A time of the event log in seconds of its day.
fn seconds(time: &Value) -> Option<f64> {
    let time = time.as_str()?.split_once('T')?.1.trim_end_matches('Z');
    let parts: Vec<f64> = time.split(':').filter_map(|part| part.parse().ok()).collect();
    Some(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}
