//! The terms of a search: `to:ann@example.org since:2d`.

use super::EventLine;
use mail::{MessageId, Wall};
use mta::control::{Filter, QueueItem, QueueRecipient};
use std::time::Duration;

/// The names of terms, for errors.
const NAMES: &str = "to, from, id, message-id, subject, client, login, status, route, next-hop, \
                     since and until";
/// The values of `status:`, each with the events that it stands for.
static STATUSES: [(&str, &[&str]); 10] = [
    ("queued", &["received", "deferred", "delayed", "released", "moved"]),
    ("deferred", &["deferred", "delayed"]),
    ("delivered", &["delivered", "relayed"]),
    ("relayed", &["relayed"]),
    ("failed", &["failed", "expired"]),
    ("expired", &["expired"]),
    ("held", &["held"]),
    ("removed", &["removed"]),
    ("discarded", &["discarded"]),
    ("refused", &["refused"]),
];

/// The terms of a search, which must all hold.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    to: Vec<Address>,
    from: Vec<Address>,
    /// A sender or a recipient.
    either: Vec<Address>,
    id: Option<MessageId>,
    message_id: Option<String>,
    subject: Option<String>,
    client: Option<String>,
    login: Option<String>,
    status: Option<&'static (&'static str, &'static [&'static str])>,
    route: Option<String>,
    next_hop: Option<String>,
    since: Option<Wall>,
    until: Option<Wall>,
}

/// An address, or all of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    /// Lower case; empty for `<>`.
    Mailbox(String),
    Domain(String),
}

impl Address {
    fn parse(text: &str) -> Address {
        let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
        let bare = bare.to_lowercase();
        match bare.strip_prefix('@') {
            Some(domain) => Address::Domain(domain.to_owned()),
            None if bare.is_empty() || bare.contains(['@', '/']) || bare == "postmaster" => {
                Address::Mailbox(bare)
            }
            None => Address::Domain(bare),
        }
    }

    fn is(&self, address: &str) -> bool {
        let address = address.to_lowercase();
        match self {
            Address::Mailbox(mailbox) => *mailbox == address,
            Address::Domain(domain) => {
                address.rsplit_once('@').is_some_and(|(_, other)| other == domain)
            }
        }
    }
}

impl Terms {
    /// Parses the arguments of a command line. Terms are separated by spaces; values with spaces are in quotes.
    ///
    /// # Errors
    /// Returns a sentence that names the wrong term.
    pub(crate) fn parse(words: &[String], now: Wall) -> Result<Terms, String> {
        let mut terms = Terms::default();
        for word in words.iter().flat_map(|words| split(words)) {
            match word.split_once(':').filter(|(name, _)| is_name(name)) {
                Some((name, value)) => terms.add(name, value, now)?,
                None if word.contains('@') => terms.either.push(Address::parse(&word)),
                None => {
                    terms.id = Some(word.parse().map_err(|_| {
                        format!("{word}: neither a term, an address nor an ID; terms are {NAMES}")
                    })?);
                }
            }
        }
        Ok(terms)
    }

    fn add(&mut self, name: &str, value: &str, now: Wall) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("{name}: the value is missing, as in {name}:VALUE"));
        }
        let text = || Some(value.to_lowercase());
        match name {
            "to" => self.to.push(Address::parse(value)),
            "from" => self.from.push(Address::parse(value)),
            "id" => {
                let id = value.parse().map_err(|_| "id: an ID has 16 hexadecimal digits")?;
                self.id = Some(id);
            }
            "message-id" => {
                self.message_id = Some(value.trim_matches(['<', '>']).to_lowercase());
            }
            "subject" => self.subject = text(),
            "client" => self.client = text(),
            "login" => self.login = text(),
            "route" => self.route = text(),
            "next-hop" => self.next_hop = text(),
            "since" => {
                self.since = Some(parse_time(value, now).ok_or_else(|| bad_time(name, value))?)
            }
            "until" => {
                self.until = Some(parse_time(value, now).ok_or_else(|| bad_time(name, value))?)
            }
            "status" => {
                self.status = STATUSES.iter().find(|(status, _)| *status == value);
                if self.status.is_none() {
                    let names: Vec<_> = STATUSES.iter().map(|(status, _)| *status).collect();
                    return Err(format!("status:{value}: one of {}", names.join(", ")));
                }
            }
            _ => return Err(format!("{name}: unknown term; terms are {NAMES}")),
        }
        Ok(())
    }

    /// Earliest time of acceptance.
    pub(crate) fn since(&self) -> Option<Wall> {
        self.since
    }

    /// The header field that must be among `[events] headers`, if a term needs one.
    pub(crate) fn header(&self) -> Option<&'static str> {
        let message_id = self.message_id.as_ref().map(|_| "Message-ID");
        message_id.or_else(|| self.subject.as_ref().map(|_| "Subject"))
    }

    /// The ID, if a term names one.
    pub(crate) fn id(&self) -> Option<MessageId> {
        self.id
    }

    /// Returns true if a term is about the client or the header: of all events, only `received` has these.
    pub(super) fn need_reception(&self) -> bool {
        let of_client = self.client.is_some() || self.login.is_some();
        of_client || self.header().is_some()
    }

    fn are_in_time(&self, at: Wall) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
    }

    /// Terms about the client.
    fn suit_client(&self, line: &EventLine) -> bool {
        let is = |wanted: &Option<String>, fields: &[&Option<String>]| {
            wanted.as_deref().is_none_or(|wanted| {
                let mut fields = fields.iter().filter_map(|field| field.as_deref());
                fields.any(|field| field.eq_ignore_ascii_case(wanted))
            })
        };
        is(&self.client, &[&line.client, &line.client_name, &line.helo])
            && self.suits_login(line.login.as_deref())
    }

    fn suits_login(&self, login: Option<&str>) -> bool {
        self.login.as_deref().is_none_or(|wanted| {
            // Without case, as revocations and the queue's filter compare.
            login.is_some_and(|login| login.to_lowercase() == wanted)
        })
    }

    fn suit_headers(&self, line: &EventLine) -> bool {
        let field = |name: &str| {
            let found = line.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_lowercase())
        };
        let is_id = |wanted: &String| {
            field("Message-ID").is_some_and(|id| id.trim_matches(['<', '>', ' ']) == wanted)
        };
        let has = |wanted: &String| field("Subject").is_some_and(|text| text.contains(wanted));
        self.message_id.as_ref().is_none_or(is_id) && self.subject.as_ref().is_none_or(has)
    }

    /// Terms about the message, as far as every event has their fields.
    pub(super) fn suit_message(
        &self,
        id: MessageId,
        sender: Option<&str>,
        received_at: Wall,
    ) -> bool {
        let suits = |wanted: &Address| sender.is_some_and(|sender| wanted.is(sender));
        self.id.is_none_or(|wanted| wanted == id)
            && self.are_in_time(received_at)
            && self.from.iter().all(suits)
    }

    /// Terms about the message that only its `received` event has.
    pub(super) fn suit_reception(&self, line: &EventLine) -> bool {
        self.suit_client(line) && self.suit_headers(line)
    }

    /// Terms about addresses.
    pub(super) fn suit_addresses(&self, sender: Option<&str>, recipient: Option<&str>) -> bool {
        let is = |wanted: &Address, address: Option<&str>| {
            address.is_some_and(|address| wanted.is(address))
        };
        self.to.iter().all(|wanted| is(wanted, recipient))
            && self.from.iter().all(|wanted| is(wanted, sender))
            && self.either.iter().all(|wanted| is(wanted, recipient) || is(wanted, sender))
    }

    /// The terms about a delivery attempt: route and next hop.
    pub(super) fn suit_hop(&self, route: Option<&str>, next_hop: Option<&str>) -> bool {
        let is_route =
            |wanted: &String| route.is_some_and(|route| route.eq_ignore_ascii_case(wanted));
        let is_hop = |wanted: &String| next_hop.is_some_and(|hop| is_next_hop(hop, wanted));
        self.route.as_ref().is_none_or(is_route) && self.next_hop.as_ref().is_none_or(is_hop)
    }

    /// Returns true if a term is about route or next hop.
    pub(super) fn need_hop(&self) -> bool {
        self.route.is_some() || self.next_hop.is_some()
    }

    /// The term about the result. `status` is the kind of the last event, or a state in the queue.
    pub(super) fn suit_status(&self, status: &str, is_queued: bool) -> bool {
        self.status.is_none_or(|(wanted, events)| {
            events.contains(&status) || (is_queued && *wanted == "queued")
        })
    }

    /// Returns true for a rejection at intake that suits all terms.
    pub(super) fn suit_refusal(&self, line: &EventLine) -> bool {
        self.id.is_none()
            && self.header().is_none()
            && !self.need_hop()
            && line.at().is_some_and(|at| self.are_in_time(at))
            && self.suit_addresses(line.sender.as_deref(), line.recipient.as_deref())
            && self.suit_client(line)
            && self.suit_status("refused", false)
    }

    /// Returns true if all terms suit this one event. Here `since` and `until` are about the event's own time.
    pub(crate) fn suit_event(&self, line: &EventLine) -> bool {
        let sender = line.sender.as_deref();
        let recipients = line.recipient.iter().chain(&line.recipients).map(|to| Some(to.as_str()));
        let mut recipients = recipients.chain(line.recipient.is_none().then_some(None));
        self.id.is_none_or(|id| line.names(id))
            && line.at().is_some_and(|at| self.are_in_time(at))
            && recipients.any(|recipient| self.suit_addresses(sender, recipient))
            && self.suit_reception(line)
            && self.suit_hop(line.route.as_deref(), line.next_hop.as_deref())
            && self.suit_status(&line.event, false)
    }

    /// The part of the search that a running server can make over its queue; `None` if it knows too little.
    pub(crate) fn filter(&self, now: Wall) -> Option<Filter> {
        let may_be_queued =
            self.status.is_none_or(|(status, _)| matches!(*status, "queued" | "deferred" | "held"));
        if self.id.is_some() || !may_be_queued {
            return None;
        }
        let mut filter = Filter::default();
        match self.to.first() {
            Some(Address::Mailbox(mailbox)) => filter.recipient = Some(mailbox.clone()),
            Some(Address::Domain(domain)) => filter.domain = Some(domain.clone()),
            None => {}
        }
        let age = |at: Wall| u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        filter.younger_than_ms = self.since.map(age);
        filter.older_than_ms = self.until.map(age);
        Some(filter)
    }

    /// Returns true if the terms suit a queued message, as far as the queue knows.
    pub(super) fn suit_item(&self, item: &QueueItem) -> bool {
        let client = item.client.as_deref().unwrap_or_default();
        let is_client =
            |wanted: &String| client.split(' ').any(|word| word.eq_ignore_ascii_case(wanted));
        self.suit_message(item.id, Some(&item.sender), item.received_at)
            && self.client.as_ref().is_none_or(is_client)
            && self.suits_login(item.login.as_deref())
            && self.header().is_none()
    }

    /// Returns true if the terms suit a queued recipient.
    pub(super) fn suit_queued(&self, sender: &str, recipient: &QueueRecipient) -> bool {
        let (route, hop) = (recipient.route.as_deref(), recipient.next_hop.as_deref());
        self.suit_addresses(Some(sender), Some(&recipient.address)) && self.suit_hop(route, hop)
    }
}

/// A next hop of an event (`mx.example.net[192.0.2.1]:25`, a path) or of the queue (`smtp:out:mx1.example:25>…`), or a
/// host in it, by name or address.
fn is_next_hop(next_hop: &str, wanted: &str) -> bool {
    let next_hop = next_hop.to_lowercase();
    let mut parts = next_hop.split(['[', ']', ',', '>']).flat_map(|part| {
        let host = part.rsplit_once(':').map_or(part, |(host, _)| host);
        [part, host, host.rsplit(':').next().unwrap_or(host)]
    });
    next_hop == wanted || parts.any(|part| part == wanted)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Words, with spaces inside of quotes kept.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn bad_time(name: &str, value: &str) -> String {
    format!(
        "{name}:{value}: not a time; write an age as in 2d or 1h30m, or a time in UTC as in \
         2026-11-21 or 2026-11-21T10:11:12Z"
    )
}

/// An age (`2d`), a day (`2026-11-21`), a minute (`2026-11-21T10:11`) or a time by RFC 3339.
fn parse_time(text: &str, now: Wall) -> Option<Wall> {
    if let Ok(age) = config::quantity::parse_duration(text) {
        let age = u64::try_from(Duration::as_millis(&age)).unwrap_or(u64::MAX);
        return Some(Wall(now.0.saturating_sub(age)));
    }
    let end = match text.len() {
        10 => "T00:00:00Z",
        16 => ":00Z",
        19 => "Z",
        _ => "",
    };
    Wall::parse_rfc3339(&format!("{text}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_795_262_469_000);

    fn terms(text: &str) -> Terms {
        Terms::parse(&[text.to_owned()], NOW).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn each_wrong_term_is_named() {
        for (text, why) in [
            ("form:a@b.test", "form: unknown term; terms are to, from"),
            ("to:", "to: the value is missing"),
            ("since:5 days", "since:5: not a time"),
            ("until:2026-02-30", "until:2026-02-30: not a time"),
            ("status:gone", "status:gone: one of queued, deferred, delivered"),
            ("id:1", "id: an ID has 16 hexadecimal digits"),
            ("ann", "ann: neither a term, an address nor an ID"),
        ] {
            let error = Terms::parse(&[text.to_owned()], NOW).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn times_are_ages_or_moments() {
        let since = |text: &str| terms(&format!("since:{text}")).since.map(|at| at.to_string());
        assert_eq!(since("2d").as_deref(), Some("2026-11-19T12:01:09.000Z"));
        for (text, time) in [
            ("2026-11-21", "2026-11-21T00:00:00.000Z"),
            ("2026-11-21T10:11", "2026-11-21T10:11:00.000Z"),
            ("2026-11-21T10:11:12", "2026-11-21T10:11:12.000Z"),
            ("2026-11-21T10:11:12+01:00", "2026-11-21T09:11:12.000Z"),
        ] {
            assert_eq!(since(text).as_deref(), Some(time));
        }
    }

    #[test]
    fn addresses_are_mailboxes_or_domains() {
        for (wanted, address, is) in [
            ("Ann@Example.org", "ann@example.ORG", true),
            ("<ann@example.org>", "ann@example.org", true),
            ("ann@example.org", "joann@example.org", false),
            ("example.org", "ann@example.org", true),
            ("@example.org", "ann@example.org", true),
            ("example.org", "ann@mx.example.org", false),
            ("<>", "", true),
            ("<>", "ann@example.org", false),
        ] {
            assert_eq!(Address::parse(wanted).is(address), is, "{wanted} {address}");
        }
    }

    #[test]
    fn next_hops_are_known_by_name_address_and_whole() {
        for hop in ["mx.example.net[192.0.2.1]:25", "smtp:out:mx0.test:25>mx.example.net:25"] {
            assert!(is_next_hop(hop, "mx.example.net") && is_next_hop(hop, hop), "{hop}");
            assert!(!is_next_hop(hop, "example.net") && !is_next_hop(hop, "mx"), "{hop}");
        }
        assert!(is_next_hop("mx.example.net[192.0.2.1]:25", "192.0.2.1"));
        assert!(is_next_hop("mx.example.net[2001:db8::1]:25", "2001:db8::1"));
        assert!(is_next_hop("smtp:out:mx0.test:25", "mx0.test"));
    }

    #[test]
    fn quoted_values_keep_their_spaces() {
        let terms = terms("subject:\"Two Words\" to:a@b.test");
        assert_eq!(terms.subject.as_deref(), Some("two words"));
        assert_eq!(terms.to, [Address::Mailbox("a@b.test".to_owned())]);
    }
}
