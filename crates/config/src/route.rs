//! Routes: domains and destinations.

use super::channel::{Destination, Settings};
use super::conditions::Conditions;
use super::next_hop::next_hop;
use super::patterns::{DomainPattern, a_labels};
use super::settings::{Reports, Retry};
use super::source::Pool;
use super::table::TableEntry;
use mail::map::FixedMap;
use mail::{Domain, Mailbox, OrAddress};
use std::path::PathBuf;
use std::sync::Arc;

/// Name of the built-in route that keeps mail for the postmaster when no other route takes it.
pub const POSTMASTER_ROUTE: &str = "postmaster";
/// Octets that the mailbox of that route may have; Postfix gives a mailbox as much.
pub const OWN_MAILBOX_BYTES_MAX: u64 = 50 << 20;

/// `[[route]]`.
#[derive(Clone, Debug)]
pub struct Route {
    /// Position among the routes, from 0. People count from 1.
    pub index: usize,
    /// Unique; `route-1` by default. An operator's override refers to it.
    pub name: Arc<str>,
    /// Accepted domains; empty: all not accepted by an earlier route.
    pub domains: Vec<DomainPattern>,
    /// It takes the domains that this table has.
    pub domains_table: Option<Arc<TableEntry>>,
    /// Accepted O/R addresses.
    pub or_addresses: Vec<OrAddress>,
    /// The route that is used while no host of this one can be reached, by its index.
    pub fallback: Option<usize>,
    /// It takes no mail but as a fallback.
    pub is_only_fallback: bool,
    /// It takes only mail for which all of these hold; `None`: all mail for its domains.
    pub when: Option<Arc<Conditions>>,
    /// Existing recipients; `None`: all.
    pub recipients: Option<Arc<TableEntry>>,
    /// Aliases.
    pub aliases: Option<Arc<TableEntry>>,
    /// Domain of alias members without one; `None`: see [`Route::origin_of`].
    pub origin: Option<Domain>,
    /// Directories of files that aliases may name.
    pub include: Vec<PathBuf>,
    /// True if expanded mail gets a rewritten sender; `None`: if the sender's domain is not local.
    pub srs: Option<bool>,
    /// Names of the classes of replies that are never final.
    pub defer_classes: Arc<[Box<str>]>,
    /// Pool of sources; `None`: the system's default address.
    pub pool: Option<Arc<Pool>>,
    /// Destination of its mail.
    pub channel: Arc<dyn Settings>,
    /// Retry policy.
    pub retry: Retry,
    /// Reports to senders.
    pub reports: Arc<Reports>,
    /// Line of the file, from 1; 0 for the built-in postmaster route.
    pub line: u32,
}

impl Route {
    /// Its number, name and mail, for people.
    pub(crate) fn description(&self) -> String {
        let of_domains = match self.domains.as_slice() {
            [] if self.line == 0 => "the postmaster's mail".to_owned(),
            [] if let Some(table) = &self.domains_table => {
                format!("domains in table \"{}\"", table.name)
            }
            [] if let Some(first) = self.or_addresses.first() => {
                match self.or_addresses.len() - 1 {
                    0 => first.to_string(),
                    more => format!("{first} and {more} more"),
                }
            }
            [] if self.is_only_fallback => "a fallback only".to_owned(),
            [] if self.when.is_some() => "all domains".to_owned(),
            [] => "everything else".to_owned(),
            domains => {
                let shown: Vec<String> =
                    domains.iter().take(3).map(DomainPattern::to_string).collect();
                let more = domains.len() - shown.len();
                let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{rest}", shown.join(", "))
            }
        };
        let takes = match &self.when {
            Some(when) => format!("{of_domains}, when {when}"),
            None => of_domains,
        };
        format!("route {} \"{}\" ({takes})", self.index + 1, self.name)
    }

    /// The domain of members without one in the entry of an alias: `origin`, or the alias's own domain if it is local.
    /// `None` for the server's name.
    #[must_use]
    pub fn origin_of(&self, alias: &Mailbox) -> Option<Domain> {
        let is_ours = || self.channel.is_local() || self.names_local_domains();
        self.origin.clone().or_else(|| is_ours().then(|| alias.domain()))
    }

    /// Returns true if the route's domains are local. Mail routed by MX may belong to anyone.
    #[must_use]
    pub fn names_local_domains(&self) -> bool {
        !self.is_catch_all() && !matches!(self.channel.destination(), Destination::Mx { .. })
    }

    /// It takes everything that no route before it took.
    #[must_use]
    pub fn is_catch_all(&self) -> bool {
        self.when.is_none()
            && !self.names_domains()
            && !self.is_only_fallback
            && self.or_addresses.is_empty()
    }

    /// It names domains, so it takes mail for them from all clients.
    #[must_use]
    pub fn names_domains(&self) -> bool {
        !self.domains.is_empty() || self.domains_table.is_some()
    }

    /// The route of the postmaster's mail that no other takes.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        // No other may be called so.
        &*self.name == POSTMASTER_ROUTE
    }

    /// The hosts named in the file, in the form of the ready queue's name: groups in the order of attempts. Empty if
    /// hosts have another source, and for local delivery.
    #[must_use]
    pub fn host_groups(&self) -> Vec<Vec<String>> {
        match self.channel.destination() {
            Destination::Hosts(groups) => {
                groups.iter().map(|group| group.iter().map(ToString::to_string).collect()).collect()
            }
            Destination::Here(_)
            | Destination::ByEntry
            | Destination::Mx { .. }
            | Destination::MxOf { .. } => Vec::new(),
        }
    }

    /// Name of the ready queue that it leads to; `None` where the hosts come from DNS (`mx`) or from the
    /// recipient's entry.
    #[must_use]
    pub fn next_hop(&self) -> Option<String> {
        let groups = match self.channel.destination() {
            Destination::Mx { .. } | Destination::MxOf { .. } | Destination::ByEntry => {
                return None;
            }
            Destination::Here("") => Vec::new(),
            Destination::Here(place) => vec![vec![place.to_owned()]],
            Destination::Hosts(_) => self.host_groups(),
        };
        Some(next_hop(self.channel.key(), &self.name, &groups))
    }
}

/// Finds the first route in the file that takes a domain, in time that does not grow with the
/// number of routes or domains.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    exact: FixedMap<Box<str>, u32>,
    below: FixedMap<Box<str>, u32>,
    catch_all: Option<u32>,
}

impl RouteTable {
    /// Adds a route's pattern; the first route to name a domain keeps it. Returns the route that had it already.
    pub fn insert(&mut self, pattern: &DomainPattern, route: u32) -> Option<u32> {
        let (map, domain) = match pattern {
            DomainPattern::Exact(domain) => (&mut self.exact, domain),
            DomainPattern::Below(domain) => (&mut self.below, domain),
        };
        match map.entry(a_labels(domain).into()) {
            std::collections::hash_map::Entry::Occupied(entry) => Some(*entry.get()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(route);
                None
            }
        }
    }

    /// Sets the catch-all route; the first one stays.
    pub fn insert_catch_all(&mut self, route: u32) {
        self.catch_all.get_or_insert(route);
    }

    /// The catch-all route.
    #[must_use]
    pub fn catch_all(&self) -> Option<usize> {
        self.catch_all.map(|index| index as usize)
    }

    /// The first route that takes this domain by name: exactly or as one below.
    #[must_use]
    pub fn named(&self, domain: &Domain) -> Option<usize> {
        self.named_ascii(&a_labels(domain))
    }

    /// The first route with a wildcard that takes everything below this domain.
    #[must_use]
    pub fn below(&self, domain: &Domain) -> Option<usize> {
        self.named(&Domain::parse(&format!("x.{domain}")).ok()?)
    }

    fn named_ascii(&self, domain: &str) -> Option<usize> {
        let mut best = self.exact.get(domain).copied();
        if !self.below.is_empty() && !domain.starts_with('[') {
            let mut rest = domain;
            while let Some((_, parent)) = rest.split_once('.') {
                if let Some(&route) = self.below.get(parent) {
                    best = Some(best.map_or(route, |b| b.min(route)));
                }
                rest = parent;
            }
        }
        best.map(|index| index as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> DomainPattern {
        DomainPattern::parse(text).unwrap()
    }

    fn named(table: &RouteTable, domain: &str) -> Option<usize> {
        table.named(&Domain::parse(domain).unwrap())
    }

    #[test]
    fn the_first_route_in_the_file_wins() {
        let mut table = RouteTable::default();
        for (text, route) in
            [("*.example.org", 0), ("a.example.org", 1), ("example.org", 2), ("*.b.example.org", 3)]
        {
            assert_eq!(table.insert(&pattern(text), route), None);
        }
        assert_eq!(named(&table, "example.org"), Some(2));
        assert_eq!(named(&table, "A.Example.ORG"), Some(0), "the wildcard stands first");
        assert_eq!(named(&table, "x.b.example.org"), Some(0));
        assert_eq!(named(&table, "example.net"), None);
        assert_eq!(named(&table, "xexample.org"), None);
        assert_eq!(table.insert(&pattern("example.org"), 9), Some(2));
    }

    #[test]
    fn u_labels_and_a_labels_are_the_same_name() {
        let mut table = RouteTable::default();
        table.insert(&pattern("bücher.example"), 0);
        assert_eq!(named(&table, "xn--bcher-kva.example"), Some(0));
        assert_eq!(named(&table, "BÜCHER.example"), Some(0));
    }

    #[test]
    fn a_pattern_covers_what_a_table_of_it_finds() {
        for (text, domain, covered) in [
            ("example.org", "Example.ORG", true),
            ("example.org", "x.example.org", false),
            ("*.example.org", "example.org", false),
            (".example.org", "x.y.example.org", true),
            ("*.example.org", "xexample.org", false),
            ("bücher.example", "xn--bcher-kva.example", true),
            ("xn--bcher-kva.example", "BÜCHER.example", true),
            ("*.bücher.example", "x.xn--bcher-kva.example", true),
            ("*.xn--bcher-kva.example", "ä.bücher.example", true),
            ("*.example.org", "[192.0.2.1]", false),
        ] {
            let (pattern, domain) = (pattern(text), Domain::parse(domain).unwrap());
            assert_eq!(pattern.covers(&domain), covered, "{text} {domain}");
            let mut table = RouteTable::default();
            table.insert(&pattern, 0);
            assert_eq!(table.named(&domain).is_some(), covered, "{text} {domain}");
        }
    }

    #[test]
    fn what_the_dns_can_not_be_asked_for_is_no_pattern() {
        for text in ["", "*.", "[192.0.2.1]", "*.[192.0.2.1]", "a@example.org", "xn--ü.example"] {
            assert!(DomainPattern::parse(text).is_err(), "{text}");
        }
    }
}
