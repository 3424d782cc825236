//! Conditions (`when`): the mail that a section concerns.

pub(crate) mod scope;

use super::patterns::AddressPatterns;
use super::table::TableEntry;
use super::tenant::names_login;
use ipnet::IpNet;
use mail::Mailbox;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Facts about one recipient of a message, as far as known.
#[derive(Clone, Copy, Debug, Default)]
pub struct MailFacts<'a> {
    /// Envelope sender; `None` is `<>`.
    pub sender: Option<&'a Mailbox>,
    /// `None` if not known yet: then no condition about recipients holds.
    pub recipient: Option<&'a Mailbox>,
    /// `None` without a login.
    pub login: Option<&'a str>,
    /// `None` for this server's own mail.
    pub client: Option<IpAddr>,
    /// `None` for this server's own mail.
    pub listener: Option<&'a str>,
    /// `None` if it belongs to no tenant.
    pub tenant: Option<&'a str>,
}

/// Conditions that must all hold; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    each: Vec<Condition>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The fact that it is about.
    pub about: ConditionSubject,
    /// The values with which it holds.
    pub values: ConditionValues,
}

/// The fact that a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionSubject {
    /// `senders`.
    Sender,
    /// `recipients`.
    Recipient,
    /// `logins`.
    Login,
    /// `clients`.
    Client,
    /// `listeners`.
    Listener,
    /// `tenants`.
    Tenant,
}

/// The values with which a condition holds.
#[derive(Clone, Debug)]
pub enum ConditionValues {
    /// Addresses; `null`: also the null sender.
    Addresses {
        /// `<>` is in the list.
        null: bool,
        /// The other entries.
        patterns: AddressPatterns,
    },
    /// Networks of clients.
    Networks(Vec<IpNet>),
    /// Names.
    Names(Vec<Box<str>>),
    /// Keys of a table.
    Table(Arc<TableEntry>),
}

/// Tables are equal by name.
impl PartialEq for ConditionValues {
    fn eq(&self, other: &ConditionValues) -> bool {
        use ConditionValues::{Addresses, Names, Networks, Table};
        match (self, other) {
            (
                Addresses { null, patterns },
                Addresses { null: other_null, patterns: other_patterns },
            ) => (null, patterns) == (other_null, other_patterns),
            (Networks(one), Networks(other)) => one == other,
            (Names(one), Names(other)) => one == other,
            (Table(one), Table(other)) => one.name == other.name,
            _ => false,
        }
    }
}

impl Eq for ConditionValues {}

impl ConditionSubject {
    /// The key of the condition in the file.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            ConditionSubject::Sender => "senders",
            ConditionSubject::Recipient => "recipients",
            ConditionSubject::Login => "logins",
            ConditionSubject::Client => "clients",
            ConditionSubject::Listener => "listeners",
            ConditionSubject::Tenant => "tenants",
        }
    }
}

impl MailFacts<'_> {
    /// The fact, for people.
    #[must_use]
    pub fn text(&self, subject: ConditionSubject) -> String {
        let or_none = |text: Option<&str>, none: &str| text.unwrap_or(none).to_owned();
        match subject {
            ConditionSubject::Sender => or_none(self.sender.map(Mailbox::as_str), "<>"),
            ConditionSubject::Recipient => {
                or_none(self.recipient.map(Mailbox::as_str), "no recipient")
            }
            ConditionSubject::Login => or_none(self.login, "no login"),
            ConditionSubject::Client => {
                self.client.map_or("no client".to_owned(), |ip| ip.to_string())
            }
            ConditionSubject::Listener => or_none(self.listener, "no listener"),
            ConditionSubject::Tenant => or_none(self.tenant, "no tenant"),
        }
    }
}

impl Condition {
    /// Returns true if it holds; `None` if its table has to be asked.
    #[must_use]
    pub fn holds(&self, facts: &MailFacts<'_>) -> Option<bool> {
        Some(match &self.values {
            ConditionValues::Table(_) => return None,
            ConditionValues::Addresses { null, patterns } => {
                let covers = |address| patterns.covers(address);
                match (self.about, facts.sender, facts.recipient) {
                    (ConditionSubject::Recipient, _, recipient) => recipient.is_some_and(covers),
                    (_, sender, _) => sender.map_or(*null, covers),
                }
            }
            ConditionValues::Networks(networks) => facts.client.is_some_and(|client| {
                let client = client.to_canonical();
                networks.iter().any(|network| network.contains(&client))
            }),
            ConditionValues::Names(names) => {
                let is_named = |of: &str| names.iter().any(|name| **name == *of);
                match self.about {
                    ConditionSubject::Login => {
                        facts.login.is_some_and(|login| names_login(names, login))
                    }
                    ConditionSubject::Tenant => facts.tenant.is_some_and(is_named),
                    _ => facts.listener.is_some_and(is_named),
                }
            }
        })
    }

    /// Returns true if all mail for which `other` holds is mail for which this one holds.
    fn covers(&self, other: &Condition) -> bool {
        self.about == other.about
            && match (&self.values, &other.values) {
                (
                    ConditionValues::Addresses { null, patterns },
                    ConditionValues::Addresses { null: other_null, patterns: others },
                ) => (*null || !other_null) && others.each().iter().all(|it| patterns.includes(it)),
                (ConditionValues::Networks(own), ConditionValues::Networks(others)) => {
                    others.iter().all(|it| own.iter().any(|network| network.contains(it)))
                }
                (ConditionValues::Names(own), ConditionValues::Names(others)) => {
                    others.iter().all(|name| match self.about {
                        ConditionSubject::Login => names_login(own, name),
                        _ => own.contains(name),
                    })
                }
                (ConditionValues::Table(own), ConditionValues::Table(other)) => {
                    own.name == other.name
                }
                _ => false,
            }
    }
}

impl Condition {
    /// Returns true if both conditions, about the same fact, may hold for one message. Tables may have any entry.
    pub(crate) fn meets(&self, other: &Condition) -> bool {
        match (&self.values, &other.values) {
            (
                ConditionValues::Addresses { null, patterns },
                ConditionValues::Addresses { null: other_null, patterns: others },
            ) => *null && *other_null || patterns.meets(others),
            (ConditionValues::Networks(own), ConditionValues::Networks(others)) => {
                overlap(own, others)
            }
            (ConditionValues::Names(own), ConditionValues::Names(others)) => {
                others.iter().any(|name| match self.about {
                    ConditionSubject::Login => names_login(own, name),
                    _ => own.contains(name),
                })
            }
            _ => true,
        }
    }
}

/// Returns true if an address is in networks of both lists.
pub(crate) fn overlap(own: &[IpNet], others: &[IpNet]) -> bool {
    let meets = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
    own.iter().any(|one| others.iter().any(|other| meets(one, other)))
}

impl Conditions {
    /// `None` without any.
    pub(crate) fn of(each: Vec<Condition>) -> Option<Conditions> {
        (!each.is_empty()).then_some(Conditions { each })
    }

    /// Each condition, in the order of the reference page.
    #[must_use]
    pub fn each(&self) -> &[Condition] {
        &self.each
    }

    /// The condition about this fact.
    #[must_use]
    pub fn about(&self, subject: ConditionSubject) -> Option<&Condition> {
        self.each.iter().find(|one| one.about == subject)
    }

    /// Returns true if all mail for which `other` holds is mail for which these hold, as far as the file shows.
    #[must_use]
    pub fn covers(&self, other: &Conditions) -> bool {
        self.each.iter().all(|own| other.about(own.about).is_some_and(|other| own.covers(other)))
    }

    /// Returns true if a condition looks up a table.
    #[must_use]
    pub fn have_tables(&self) -> bool {
        self.each.iter().any(|one| matches!(one.values, ConditionValues::Table(_)))
    }
}

impl fmt::Display for ConditionValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = match self {
            ConditionValues::Table(table) => return write!(f, "in table \"{}\"", table.name),
            ConditionValues::Addresses { null, patterns } => {
                let null = null.then(|| "<>".to_owned());
                null.into_iter().chain(patterns.each().iter().map(ToString::to_string)).collect()
            }
            ConditionValues::Networks(networks) => {
                networks.iter().map(ToString::to_string).collect()
            }
            ConditionValues::Names(names) => names.iter().map(ToString::to_string).collect(),
        };
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.about.key(), self.values)
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.each.iter().map(ToString::to_string).collect();
        f.write_str(&all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::AddressPattern;

    fn condition(about: ConditionSubject, list: &[&str]) -> Condition {
        let pattern = |text: &&str| AddressPattern::parse(text);
        let patterns = |list: &[&str]| {
            let each = list.iter().filter_map(pattern).collect();
            AddressPatterns::new(each, mail::TagDelimiters::default())
        };
        let values = match about {
            ConditionSubject::Sender | ConditionSubject::Recipient => {
                ConditionValues::Addresses { null: list.contains(&"<>"), patterns: patterns(list) }
            }
            ConditionSubject::Client => {
                ConditionValues::Networks(list.iter().map(|text| text.parse().unwrap()).collect())
            }
            _ => ConditionValues::Names(list.iter().map(|name| Box::from(*name)).collect()),
        };
        Condition { about, values }
    }

    fn mailbox(text: &str) -> Mailbox {
        Mailbox::parse(text, true).unwrap()
    }

    #[test]
    fn condition_needs_its_fact() {
        let (news, other) = (mailbox("a@news.example.org"), mailbox("a@example.net"));
        let senders = condition(ConditionSubject::Sender, &["@news.example.org"]);
        let null = condition(ConditionSubject::Sender, &["<>"]);
        let from = |sender| MailFacts { sender, ..MailFacts::default() };
        assert_eq!(senders.holds(&from(Some(&news))), Some(true));
        assert_eq!(senders.holds(&from(Some(&other))), Some(false));
        assert_eq!(senders.holds(&from(None)), Some(false), "the null sender is no address");
        assert_eq!(null.holds(&from(None)), Some(true));
        assert_eq!(null.holds(&from(Some(&news))), Some(false));
        let to = |recipient| MailFacts { recipient, ..MailFacts::default() };
        let recipients = condition(ConditionSubject::Recipient, &["@news.example.org"]);
        assert_eq!(recipients.holds(&to(Some(&news))), Some(true));
        assert_eq!(recipients.holds(&to(None)), Some(false));
        let by = |login| MailFacts { login, ..MailFacts::default() };
        let logins = condition(ConditionSubject::Login, &["shop"]);
        assert_eq!(logins.holds(&by(Some("Shop"))), Some(true));
        assert_eq!(logins.holds(&by(Some("shop2"))), Some(false));
        assert_eq!(logins.holds(&by(None)), Some(false));
        let at = |client: Option<&str>| MailFacts {
            client: client.map(|ip| ip.parse().unwrap()),
            ..MailFacts::default()
        };
        let clients = condition(ConditionSubject::Client, &["192.0.2.0/24"]);
        assert_eq!(clients.holds(&at(Some("::ffff:192.0.2.9"))), Some(true));
        assert_eq!(clients.holds(&at(Some("192.0.3.0"))), Some(false));
        assert_eq!(clients.holds(&at(None)), Some(false));
        let on = |listener, tenant| MailFacts { listener, tenant, ..MailFacts::default() };
        let listeners = condition(ConditionSubject::Listener, &["users"]);
        let tenants = condition(ConditionSubject::Tenant, &["users"]);
        assert_eq!(listeners.holds(&on(Some("users"), None)), Some(true));
        assert_eq!(listeners.holds(&on(None, Some("users"))), Some(false));
        assert_eq!(tenants.holds(&on(None, Some("users"))), Some(true));
        assert_eq!(tenants.holds(&on(Some("users"), None)), Some(false));
    }

    #[test]
    fn conditions_about_one_fact_meet() {
        use ConditionSubject::{Client, Listener, Login, Sender};
        for (about, one, other, meet) in [
            (Sender, &["@a.example", "<>"][..], &["jo@a.example"][..], true),
            (Sender, &["@a.example", "<>"], &["<>", "@b.example"], true),
            (Sender, &["@a.example", "<>"], &["@b.example"], false),
            (Client, &["192.0.2.0/24"], &["192.0.2.7/32", "10.0.0.0/8"], true),
            (Client, &["192.0.2.0/24"], &["192.0.3.0/24"], false),
            (Login, &["Jo"], &["al", "jo"], true),
            (Listener, &["In"], &["in"], false),
        ] {
            let (one, other) = (condition(about, one), condition(about, other));
            assert_eq!(one.meets(&other), meet, "{one} / {other}");
            assert_eq!(other.meets(&one), meet, "{other} / {one}");
        }
    }

    #[test]
    fn fewer_or_wider_conditions_cover() {
        use ConditionSubject::{Client, Login, Sender};
        let of = |each: &[(ConditionSubject, &[&str])]| {
            let each = each.iter().map(|(about, list)| condition(*about, list)).collect();
            Conditions::of(each).unwrap()
        };
        let news = of(&[(Sender, &["@a.example", "<>"])]);
        for (wide, narrow, is_covered) in [
            (&news, of(&[(Sender, &["@a.example"])]), true),
            (&news, of(&[(Sender, &["<>"])]), true),
            (&news, of(&[(Sender, &["@b.example"])]), false),
            (&news, of(&[(Sender, &["jo@a.example"])]), true),
            (&of(&[(Sender, &["jo@a.example"])]), of(&[(Sender, &["jo+x@a.example"])]), true),
            (&of(&[(Sender, &["jo+x@a.example"])]), of(&[(Sender, &["jo@a.example"])]), false),
            (&news, of(&[(Sender, &["@a.example"]), (Login, &["shop"])]), true),
            (&of(&[(Login, &["shop"]), (Sender, &["<>"])]), of(&[(Sender, &["<>"])]), false),
            (&of(&[(Login, &["Shop"])]), of(&[(Login, &["shop"])]), true),
            (&of(&[(Client, &["192.0.2.0/24"])]), of(&[(Client, &["192.0.2.7/32"])]), true),
            (&of(&[(Client, &["192.0.2.7/32"])]), of(&[(Client, &["192.0.2.0/24"])]), false),
        ] {
            assert_eq!(wide.covers(&narrow), is_covered, "{wide} / {narrow}");
        }
    }
}
