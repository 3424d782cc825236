//! Patterns of domains and mail addresses.

use super::host::domain_mistake;
use mail::{Domain, Mailbox};
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

    /// Returns true if this address matches. Case is ignored, as for keys of tables.
    #[must_use]
    pub fn covers(&self, mailbox: &Mailbox) -> bool {
        match self {
            AddressPattern::Address(address) => {
                let local = |of: &Mailbox| of.local_unquoted().to_lowercase();
                address.is_same(mailbox)
                    || address.domain() == mailbox.domain() && local(address) == local(mailbox)
            }
            AddressPattern::Domain(pattern) => pattern.covers(&mailbox.domain()),
        }
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
            ("jo@example.org", "jo+tag@example.org", false),
            ("jo@example.org", "jo@example.net", false),
            ("@example.org", "jo@example.org", true),
            ("example.org", "jo@example.org", true),
            ("@example.org", "jo@a.example.org", false),
            ("@*.example.org", "jo@a.b.example.org", true),
            ("*.example.org", "jo@example.org", false),
        ] {
            let pattern = AddressPattern::parse(text).unwrap();
            let mailbox = Mailbox::parse(address, true).unwrap();
            assert_eq!(pattern.covers(&mailbox), covered, "{text} {address}");
        }
        for wrong in ["", "@", "*", "<>", "jo@", "@@example.org", "@[192.0.2.1]"] {
            assert_eq!(AddressPattern::parse(wrong), None, "{wrong}");
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
