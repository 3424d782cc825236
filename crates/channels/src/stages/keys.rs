//! Lookup keys for tables of clients, senders and recipients, in the order to try.

use mail::Mailbox;
use mta::tables::{FoundBy, KeyRules, LookupKey, keys_of, keys_of_client};
use std::net::IpAddr;

/// Maximum number of parent domains looked up, those with the fewest labels. The client chooses the number of labels in
/// HELO.
const PARENTS_MAX: usize = 8;

/// Separates the halves of a pair. It does not occur in addresses outside quotes, and keys in files can contain it.
const PAIR_DELIMITER: char = ',';

/// The null sender in Postfix's tables.
const NULL_SENDER: &str = "<>";

/// Subject of a rule's lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    One(KeyPart),
    Pair(KeyPart, KeyPart),
}

/// A property of a recipient's transaction, in the order of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyPart {
    /// The client's address.
    Client,
    /// The client's HELO name.
    Helo,
    Sender,
    Recipient,
}

/// Properties of the client, sender and recipient that rules look up.
pub(super) struct Subject<'a> {
    /// `None` if unknown; then it is not looked up.
    pub(super) client: Option<IpAddr>,
    /// `None` if unknown; then it is not looked up.
    pub(super) helo: Option<&'a str>,
    pub(super) sender: Option<&'a Mailbox>,
    pub(super) recipient: &'a Mailbox,
    /// Additional name of the recipient.
    pub(super) also: Option<&'a Mailbox>,
}

impl<'a> Subject<'a> {
    /// The names of the recipient, beginning with the one in RCPT.
    fn recipients(&self) -> impl Iterator<Item = &'a Mailbox> + use<'a> {
        std::iter::once(self.recipient).chain(self.also)
    }
}

impl By {
    /// Parses `sender`, `sender+recipient` and so on.
    pub(super) fn parse(text: &str) -> Option<By> {
        let Some((first, second)) = text.split_once('+') else {
            return KeyPart::parse(text).map(By::One);
        };
        let (first, second) = (KeyPart::parse(first)?, KeyPart::parse(second)?);
        (first != second).then_some(By::Pair(first, second))
    }

    /// The part that the client sends last.
    pub(super) fn last_part(self) -> KeyPart {
        match self {
            By::One(part) => part,
            By::Pair(first, second) => first.max(second),
        }
    }

    /// Returns true if the recipient is looked up.
    pub(super) fn asks_for_recipients(self) -> bool {
        match self {
            By::One(part) => part == KeyPart::Recipient,
            By::Pair(first, second) => [first, second].contains(&KeyPart::Recipient),
        }
    }

    /// The lookup keys.
    pub(super) fn keys(
        self,
        subject: &Subject<'_>,
        rules: KeyRules<'_>,
        parent_domains: bool,
    ) -> Vec<LookupKey> {
        match self {
            By::One(part) => part.keys(subject, rules, parent_domains),
            By::Pair(first, second) => {
                let seconds = second.halves(subject, rules);
                let pairs = |first: LookupKey| {
                    seconds.iter().map(move |second| first.pair(PAIR_DELIMITER, second))
                };
                first.halves(subject, rules).into_iter().flat_map(pairs).collect()
            }
        }
    }
}

impl By {
    /// Returns true if an entry with this key can only be meant for X.400 messages, at peers with these names.
    /// Addresses of clients, and of internet mail behind a gateway, also occur in internet mail.
    pub(super) fn is_foreign(self, key: &str, peers: &[Box<str>], parent_domains: bool) -> bool {
        let key = key.to_lowercase();
        let is_it = |part, half: &str, is_pair: bool| match part {
            KeyPart::Client => false,
            KeyPart::Helo if is_pair => peers.iter().any(|peer| peer.to_lowercase() == half),
            KeyPart::Helo => peers.iter().any(|peer| {
                domains(&peer.to_lowercase(), parent_domains).iter().any(|name| name == half)
            }),
            KeyPart::Sender | KeyPart::Recipient => half.starts_with('/'),
        };
        match self {
            By::One(part) => is_it(part, &key, false),
            By::Pair(first, second) => {
                let splits = key.match_indices(PAIR_DELIMITER);
                let mut halves = splits.filter_map(|(at, delimiter)| {
                    Some((key.get(..at)?, key.get(at + delimiter.len()..)?))
                });
                halves.any(|(one, other)| is_it(first, one, true) || is_it(second, other, true))
            }
        }
    }
}

impl KeyPart {
    fn parse(text: &str) -> Option<KeyPart> {
        Some(match text {
            "client" => KeyPart::Client,
            "helo" => KeyPart::Helo,
            "sender" => KeyPart::Sender,
            "recipient" => KeyPart::Recipient,
            _ => return None,
        })
    }

    fn keys(
        self,
        subject: &Subject<'_>,
        rules: KeyRules<'_>,
        parent_domains: bool,
    ) -> Vec<LookupKey> {
        match self {
            KeyPart::Client => of_client(subject, rules),
            KeyPart::Helo => {
                let Some(helo) = of_helo(subject) else { return Vec::new() };
                plain(if rules.is_whole { vec![helo] } else { domains(&helo, parent_domains) })
            }
            KeyPart::Sender => match subject.sender {
                Some(sender) => of_address(sender, rules, parent_domains),
                None => vec![NULL_SENDER.to_owned().into()],
            },
            KeyPart::Recipient => {
                let of = |name| of_address(name, rules, parent_domains);
                subject.recipients().flat_map(of).collect()
            }
        }
    }

    /// The keys for a pair. An address gives the whole address, the address without its tag, and `@domain`.
    fn halves(self, subject: &Subject<'_>, rules: KeyRules<'_>) -> Vec<LookupKey> {
        let of_address = |address: &Mailbox| {
            keys_of(address, rules).into_iter().map(|(_, key)| key).collect::<Vec<_>>()
        };
        match self {
            KeyPart::Client => of_client(subject, rules),
            KeyPart::Helo => plain(of_helo(subject)),
            KeyPart::Sender => match subject.sender {
                Some(sender) => of_address(sender),
                None => vec![NULL_SENDER.to_owned().into()],
            },
            KeyPart::Recipient => subject.recipients().flat_map(of_address).collect(),
        }
    }
}

/// Keys other than mail addresses.
fn plain(keys: impl IntoIterator<Item = String>) -> Vec<LookupKey> {
    keys.into_iter().map(LookupKey::from).collect()
}

fn of_helo(subject: &Subject<'_>) -> Option<String> {
    subject.helo.map(str::to_lowercase)
}

fn of_client(subject: &Subject<'_>, rules: KeyRules<'_>) -> Vec<LookupKey> {
    subject.client.map(|client| keys_of_client(client, rules)).unwrap_or_default()
}

/// `user+tag@domain`, `user@domain`, the domain and its parents, `user+tag@`, `user@`.
fn of_address(address: &Mailbox, rules: KeyRules<'_>, parent_domains: bool) -> Vec<LookupKey> {
    let (mut keys, mut locals) = (Vec::new(), Vec::new());
    for (by, key) in keys_of(address, rules) {
        if by == FoundBy::Domain {
            keys.extend(plain(domains(key.text.trim_start_matches('@'), parent_domains)));
        } else {
            let local = key.text.rfind('@').and_then(|at| key.text.get(..=at));
            locals.extend(local.map(|local| key.with(local)));
            keys.push(key);
        }
    }
    if !rules.is_whole {
        keys.extend(locals);
    }
    keys
}

/// A domain and its parents. Without `parent_domains` a parent is written `.example.org`.
fn domains(domain: &str, parent_domains: bool) -> Vec<String> {
    if domain.is_empty() {
        return Vec::new();
    }
    let mut keys = vec![domain.to_owned()];
    // The parts of an O/R address are separate keys already.
    // Neither is an address, which has no parents.
    if domain.starts_with(['[', '/']) || domain.parse::<IpAddr>().is_ok() {
        return keys;
    }
    let dots = domain.match_indices('.').map(|(at, _)| at + usize::from(parent_domains));
    let parents: Vec<&str> = dots.filter_map(|from| domain.get(from..)).collect();
    let nearest = parents.len().saturating_sub(PARENTS_MAX);
    keys.extend(parents.iter().skip(nearest).map(|parent| (*parent).to_owned()));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::TagDelimiters;

    fn rules(is_whole: bool) -> KeyRules<'static> {
        static TAGS: std::sync::LazyLock<TagDelimiters> =
            std::sync::LazyLock::new(Default::default);
        KeyRules { is_whole, tags: &TAGS }
    }

    fn texts(keys: Vec<LookupKey>) -> String {
        keys.into_iter().map(|key| key.text).collect::<Vec<_>>().join(" ")
    }

    fn address(text: &str, parent_domains: bool) -> String {
        let mailbox = Mailbox::parse(text, true).expect("an address");
        texts(of_address(&mailbox, rules(false), parent_domains))
    }

    #[test]
    fn addresses_are_looked_up_as_postfix_does() {
        assert_eq!(
            address("Jo+News@Mail.Example.ORG", true),
            "jo+news@mail.example.org jo@mail.example.org mail.example.org example.org org \
             jo+news@ jo@"
        );
        assert_eq!(
            address("jo@mail.example.org", false),
            "jo@mail.example.org mail.example.org .example.org .org jo@"
        );
        assert_eq!(address("jo@[192.0.2.1]", true), "jo@[192.0.2.1] [192.0.2.1] jo@");
        assert_eq!(address("Postmaster", true), "postmaster@ postmaster@");
        let mailbox = Mailbox::parse_any("/S=Jo/O=x.y/PRMD=p/C=gb/").expect("an address");
        let keys = texts(of_address(&mailbox, rules(false), true));
        let expected = "/S=jo/O=x.y/PRMD=p/ADMD= /C=gb/ /O=x.y/PRMD=p/ADMD= /C=gb/ /PRMD=p/ADMD= /C=gb/ \
                        /ADMD= /C=gb/ /C=gb/";
        assert_eq!(keys, expected);
        let mailbox = Mailbox::parse("jo+x@example.org", true).expect("an address");
        assert_eq!(texts(of_address(&mailbox, rules(true), true)), "jo+x@example.org");
    }

    #[test]
    fn a_pair_is_bare_where_one_of_it_is() {
        let address = |text: &str| Mailbox::parse(text, true).expect("an address");
        let (jo, list) = (address("jo@x.test"), address("list@y.test"));
        let quoted = address("\"jo@x.test,y\"@evil.test");
        let bare = |by: &str, sender, recipient| {
            let client = Some("192.0.2.1".parse().expect("an address"));
            let subject = Subject {
                client,
                helo: Some("Mx.test"),
                sender: Some(sender),
                recipient,
                also: None,
            };
            let keys = By::parse(by).expect("a pair").keys(&subject, rules(true), true);
            let shown = |key: LookupKey| format!("{}{:?}", key.text, key.form);
            keys.into_iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        let both = bare("sender+recipient", &jo, &list);
        assert_eq!(both, "jo@x.test,list@y.testAsWritten");
        let client = bare("client+recipient", &jo, &list);
        assert_eq!(client, "192.0.2.1,list@y.testAsWritten");
        assert_eq!(
            bare("sender+recipient", &quoted, &list),
            "\"jo@x.test,y\"@evil.test,list@y.testAsWritten jo@x.test,y@evil.test,list@y.testBare"
        );
        let helo = bare("helo+sender", &quoted, &list);
        assert!(helo.ends_with(" mx.test,jo@x.test,y@evil.testBare"), "{helo}");
    }

    #[test]
    fn only_so_many_domains_above_one_are_looked_up() {
        let name = format!("{}example.org", "x.".repeat(100));
        let keys = domains(&name, true);
        assert_eq!(keys.len(), 1 + PARENTS_MAX);
        assert_eq!(
            (&*keys[1], keys.last().map(String::as_str)),
            ("x.x.x.x.x.x.example.org", Some("org"))
        );
        assert_eq!(domains("[192.0.2.1]", true), ["[192.0.2.1]"]);
        assert!(domains("", true).is_empty());
    }

    #[test]
    fn keys_of_x400_are_known_by_their_form_and_by_its_peers() {
        let peers = ["Hub".into(), "mta.far.test".into()];
        for (by, key, is_foreign) in [
            ("sender", "/O=x/PRMD=p/ADMD= /C=gb/", true),
            ("sender", "jo@x.test", false),
            ("recipient", "/C=gb/", true),
            ("recipient", "y.test", false),
            ("helo", "hub", true),
            ("helo", "mail.test", false),
            ("helo", ".far.test", true),
            ("client", "192.0.2.1", false),
            ("client", "/C=gb/", false),
            ("sender+recipient", "/S=a,b/C=gb/,jo@x.test", true),
            ("sender+recipient", "<>,/C=gb/", true),
            ("sender+recipient", "jo@x.test,y.test", false),
            ("client+recipient", "192.0.2.1,/C=gb/", true),
            ("helo+client", "HUB,192.0.2.1", true),
            ("helo+client", "far.test,192.0.2.1", false),
            ("helo+sender", "hub", false),
        ] {
            let known = By::parse(by).expect("right").is_foreign(key, &peers, false);
            assert_eq!(known, is_foreign, "{by} {key}");
        }
    }

    #[test]
    fn a_rule_looks_up_one_or_a_pair() {
        assert_eq!(By::parse("helo"), Some(By::One(KeyPart::Helo)));
        assert_eq!(
            By::parse("sender+recipient"),
            Some(By::Pair(KeyPart::Sender, KeyPart::Recipient))
        );
        for bad in ["", "Sender", "sender+", "sender+sender", "client+helo+sender", "user"] {
            assert_eq!(By::parse(bad), None, "{bad}");
        }
    }
}
