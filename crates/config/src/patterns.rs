//! Patterns of domains and mail addresses.

use super::host::domain_mistake;
use mail::{Domain, Mailbox, TagDelimiters};
use std::borrow::Cow;
use std::fmt;

/// A pattern of domains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DomainPattern {
    /// `example.org`: this domain only.
    Exact(Domain),
    /// `*.example.org` or `.example.org`: all domains below this one, not itself.
    Below(Domain),
}

impl DomainPattern {
    /// Parses `example.org`, `*.example.org` or `.example.org`.
    ///
    /// # Errors
    /// Returns the error as text. A name unfit for DNS queries (an address literal, a U-label that is not IDNA) would
    /// match no domain.
    pub fn parse(text: &str) -> Result<DomainPattern, String> {
        let below = text.strip_prefix("*.").or_else(|| text.strip_prefix('.'));
        let name = below.unwrap_or(text);
        let domain = Domain::parse(name).map_err(|error| domain_mistake(name, &error))?;
        domain.to_ascii().map_err(|error| error.to_string())?;
        Ok(match below {
            Some(_) => DomainPattern::Below(domain),
            None => DomainPattern::Exact(domain),
        })
    }

    /// Returns true if this domain matches.
    #[must_use]
    pub fn covers(&self, domain: &Domain) -> bool {
        let name = a_labels(domain);
        match self {
            DomainPattern::Exact(own) => name == a_labels(own),
            DomainPattern::Below(own) => {
                let front = name.strip_suffix(&*a_labels(own));
                front.is_some_and(|front| front.len() > 1 && front.ends_with('.'))
            }
        }
    }
}

impl DomainPattern {
    /// Returns true if each domain that matches the other pattern matches this one.
    fn includes(&self, other: &DomainPattern) -> bool {
        match (self, other) {
            (_, DomainPattern::Exact(domain)) => self.covers(domain),
            (DomainPattern::Exact(_), DomainPattern::Below(_)) => false,
            (DomainPattern::Below(own), DomainPattern::Below(theirs)) => {
                a_labels(own) == a_labels(theirs) || self.covers(theirs)
            }
        }
    }

    /// Returns true if a domain matches both patterns.
    fn meets(&self, other: &DomainPattern) -> bool {
        match (self, other) {
            (_, DomainPattern::Exact(domain)) => self.covers(domain),
            (DomainPattern::Exact(domain), _) => other.covers(domain),
            (DomainPattern::Below(own), DomainPattern::Below(theirs)) => {
                a_labels(own) == a_labels(theirs) || self.covers(theirs) || other.covers(own)
            }
        }
    }
}

/// The one form of a name that may be written in A-labels and U-labels (RFC 5890 §2.3.2.1).
pub(crate) fn a_labels(domain: &Domain) -> Cow<'_, str> {
    let text = domain.as_str();
    let converted = if text.is_ascii() { None } else { domain.to_ascii().ok() };
    converted.map_or(Cow::Borrowed(text), Cow::Owned)
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainPattern::Exact(domain) => domain.fmt(f),
            DomainPattern::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

/// An address, a domain, or all subdomains of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressPattern {
    /// `jo@example.org`.
    Address(Mailbox),
    /// `example.org` or `*.example.org`, also with a leading `@`.
    Domain(DomainPattern),
}

impl AddressPattern {
    /// Parses `jo@example.org`, `example.org`, `@example.org`, `*.example.org` or `@*.example.org`; `None` if it is
    /// not a pattern.
    #[must_use]
    pub fn parse(text: &str) -> Option<AddressPattern> {
        let domain = text.strip_prefix('@').unwrap_or(text);
        if !domain.contains('@') {
            return DomainPattern::parse(domain).ok().map(AddressPattern::Domain);
        }
        let address = Mailbox::parse(text, true).ok()?;
        address.has_domain().then_some(AddressPattern::Address(address))
    }

    /// Returns true if an address in the domain pattern may match.
    pub(crate) fn meets(&self, domain: &DomainPattern) -> bool {
        match self {
            AddressPattern::Address(address) => domain.covers(&address.domain()),
            AddressPattern::Domain(own) => own.meets(domain),
        }
    }

    /// Returns true if this address matches, or does without its tag. Case is ignored, as for keys of tables.
    fn covers(&self, mailbox: &Mailbox, tags: &TagDelimiters) -> bool {
        match self {
            AddressPattern::Address(address) => {
                let local = |of: &Mailbox| of.local_unquoted().to_lowercase();
                if address.is_same(mailbox) {
                    return true;
                }
                if address.domain() != mailbox.domain() {
                    return false;
                }
                let (own, other) = (local(address), local(mailbox));
                own == other || tags.split(&other).is_some_and(|(user, ..)| user == own)
            }
            AddressPattern::Domain(pattern) => pattern.covers(&mailbox.domain()),
        }
    }
}

/// A list of address patterns. An address matches with its tag and, as a key of tables, without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPatterns {
    each: Vec<AddressPattern>,
    /// Characters that begin a tag.
    tags: TagDelimiters,
}

impl AddressPatterns {
    pub(crate) fn new(each: Vec<AddressPattern>, tags: TagDelimiters) -> AddressPatterns {
        AddressPatterns { each, tags }
    }

    /// Those of these texts that are patterns; none if one is not.
    #[must_use]
    pub fn known(texts: &[String], tags: TagDelimiters) -> AddressPatterns {
        let each = texts.iter().map(|text| AddressPattern::parse(text)).collect::<Option<_>>();
        AddressPatterns { each: each.unwrap_or_default(), tags }
    }

    /// Each pattern, in the order of the file.
    #[must_use]
    pub fn each(&self) -> &[AddressPattern] {
        &self.each
    }

    /// Returns true if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Returns true if a pattern covers this address.
    #[must_use]
    pub fn covers(&self, mailbox: &Mailbox) -> bool {
        self.each.iter().any(|pattern| pattern.covers(mailbox, &self.tags))
    }

    /// Returns true if each address that matches the other pattern matches this list.
    pub(crate) fn includes(&self, other: &AddressPattern) -> bool {
        self.each.iter().any(|own| match (own, other) {
            (own, AddressPattern::Address(address)) => own.covers(address, &self.tags),
            (AddressPattern::Domain(own), AddressPattern::Domain(other)) => own.includes(other),
            (AddressPattern::Address(_), AddressPattern::Domain(_)) => false,
        })
    }

    /// Returns true if an address may match both lists.
    pub(crate) fn meets(&self, other: &AddressPatterns) -> bool {
        let meets = |own: &AddressPattern, theirs: &AddressPattern| match (own, theirs) {
            (AddressPattern::Domain(domain), pattern)
            | (pattern, AddressPattern::Domain(domain)) => pattern.meets(domain),
            (AddressPattern::Address(one), AddressPattern::Address(two)) => {
                own.covers(two, &self.tags) || theirs.covers(one, &self.tags)
            }
        };
        self.each.iter().any(|own| other.each.iter().any(|theirs| meets(own, theirs)))
    }
}

impl fmt::Display for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressPattern::Address(address) => address.fmt(f),
            AddressPattern::Domain(pattern) => write!(f, "@{pattern}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_covers_addresses() {
        for (text, address, covered) in [
            ("jo@example.org", "jo@Example.ORG", true),
            ("Jo@example.org", "jO@example.org", true),
            ("jo@example.org", "Jo+tag@example.org", true),
            ("jo+tag@example.org", "jo@example.org", false),
            ("jo+tag@example.org", "jo+other@example.org", false),
            ("jo@example.org", "jo-tag@example.org", false),
            ("jo@example.org", "jo@example.net", false),
            ("@example.org", "jo@example.org", true),
            ("example.org", "jo@example.org", true),
            ("@example.org", "jo@a.example.org", false),
            ("@*.example.org", "jo@a.b.example.org", true),
            ("*.example.org", "jo@example.org", false),
        ] {
            let mailbox = Mailbox::parse(address, true).unwrap();
            assert_eq!(list("+", &[text]).covers(&mailbox), covered, "{text} {address}");
        }
        for wrong in ["", "@", "*", "<>", "jo@", "@@example.org", "@[192.0.2.1]"] {
            assert_eq!(AddressPattern::parse(wrong), None, "{wrong}");
        }
    }

    fn list(delimiters: &str, texts: &[&str]) -> AddressPatterns {
        let each = texts.iter().map(|text| AddressPattern::parse(text).unwrap()).collect();
        AddressPatterns::new(each, TagDelimiters::parse(delimiters).unwrap())
    }

    #[test]
    fn list_has_the_tags_of_the_configuration() {
        for (delimiters, address, covered) in [
            ("+", "jo+a@x.test", true),
            ("+", "jo-a@x.test", false),
            ("-", "jo-a@x.test", true),
            ("-", "jo+a@x.test", false),
            ("", "jo+a@x.test", false),
        ] {
            let mailbox = Mailbox::parse(address, true).unwrap();
            let covers = list(delimiters, &["jo@x.test"]).covers(&mailbox);
            assert_eq!(covers, covered, "{delimiters} {address}");
        }
    }

    #[test]
    fn lists_include_patterns_and_meet() {
        for (text, other, includes, meets) in [
            ("jo@a.test", "jo+x@a.test", true, true),
            ("jo+x@a.test", "jo@a.test", false, true),
            ("jo@a.test", "al@a.test", false, false),
            ("@a.test", "jo@a.test", true, true),
            ("jo@a.test", "@a.test", false, true),
            ("@*.a.test", "@x.a.test", true, true),
            ("@*.a.test", "@*.x.a.test", true, true),
            ("@*.x.a.test", "@*.a.test", false, true),
            ("@*.a.test", "@a.test", false, false),
            ("@a.test", "@*.a.test", false, false),
        ] {
            let (own, theirs) = (list("+", &[text]), list("+", &[other]));
            assert_eq!(own.includes(&theirs.each()[0]), includes, "{text} {other}");
            assert_eq!(own.meets(&theirs), meets, "{text} {other}");
            assert_eq!(theirs.meets(&own), meets, "{other} {text}");
        }
    }

    #[test]
    fn pattern_meets_domains() {
        for (text, domain, meets) in [
            ("jo@a.example", "a.example", true),
            ("jo@a.example", "b.example", false),
            ("jo@a.example", "*.example", true),
            ("@a.example", "a.example", true),
            ("@a.example", "b.example", false),
            ("@a.example", "*.a.example", false),
            ("@x.a.example", "*.a.example", true),
            ("@*.a.example", "x.a.example", true),
            ("@*.a.example", "a.example", false),
            ("@*.a.example", "*.a.example", true),
            ("@*.a.example", "*.example", true),
            ("@*.example", "*.a.example", true),
            ("@*.a.example", "*.b.example", false),
        ] {
            let domain = DomainPattern::parse(domain).unwrap();
            let pattern = AddressPattern::parse(text).unwrap();
            assert_eq!(pattern.meets(&domain), meets, "{text} {domain}");
        }
    }
}
