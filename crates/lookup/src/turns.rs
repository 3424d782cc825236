//! Fair turns among requesters: sites (networks that one customer may own) take turns, and client networks take turns
//! within a site. A new requester waits for one round at most, whatever amount the rest requests.

use mail::Turns;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The party that a lookup is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requester {
    /// The server itself.
    #[default]
    Ours,
    /// For a client.
    Client {
        /// The IPv4 /24 or IPv6 /48.
        site: IpAddr,
        /// The IPv4 address or IPv6 /64.
        network: IpAddr,
    },
}

type Site = Option<IpAddr>;
type Network = Option<IpAddr>;

impl Requester {
    fn parts(self) -> (Site, Network) {
        match self {
            Requester::Ours => (None, None),
            Requester::Client { site, network } => (Some(site), Some(network)),
        }
    }
}

/// Waiting lookups, by number.
#[derive(Debug, Default)]
pub struct QuestionQueue(Turns<Site, Network, BTreeSet<u64>>);

impl QuestionQueue {
    /// Adds a lookup with a new number.
    pub fn insert(&mut self, asker: Requester, number: u64) {
        let (site, network) = asker.parts();
        self.0.enter(site, network).insert(number);
    }

    /// It waits no longer in this one's line.
    pub fn remove(&mut self, asker: Requester, number: u64) {
        let (site, network) = asker.parts();
        self.0.change(site, network, |numbers| {
            numbers.remove(&number);
            numbers.is_empty()
        });
    }

    /// The lookup in turn. It stays until removed.
    pub fn take_turn(&mut self) -> Option<u64> {
        let (site, network, numbers) = self.0.first()?;
        let number = numbers.first().copied()?;
        self.0.charge(site, network, 1);
        Some(number)
    }
}

/// Number of lookups per requester, pending ones included.
#[derive(Debug)]
pub struct Holders<T> {
    by_site: BTreeMap<Site, BTreeMap<Network, BTreeSet<T>>>,
    counts: BTreeMap<Site, usize>,
    order: BTreeSet<(usize, Site)>,
}

impl<T> Default for Holders<T> {
    fn default() -> Holders<T> {
        Holders { by_site: BTreeMap::new(), counts: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> Holders<T> {
    /// One more.
    pub fn insert(&mut self, asker: Requester, ticket: T) {
        let (site, network) = asker.parts();
        let networks = self.by_site.entry(site).or_default();
        if networks.entry(network).or_default().insert(ticket) {
            self.count(site, 1);
        }
    }

    /// One less.
    pub fn remove(&mut self, asker: Requester, ticket: T) {
        let (site, network) = asker.parts();
        let Some(networks) = self.by_site.get_mut(&site) else { return };
        let Some(tickets) = networks.get_mut(&network) else { return };
        let was_there = tickets.remove(&ticket);
        if tickets.is_empty() {
            networks.remove(&network);
        }
        if networks.is_empty() {
            self.by_site.remove(&site);
        }
        if was_there {
            self.count(site, -1);
        }
    }

    fn count(&mut self, site: Site, more: isize) {
        let before = self.counts.get(&site).copied().unwrap_or(0);
        let after = before.saturating_add_signed(more);
        self.order.remove(&(before, site));
        if after == 0 {
            self.counts.remove(&site);
        } else {
            self.counts.insert(site, after);
            self.order.insert((after, site));
        }
    }

    /// The site that has most, and how much.
    #[must_use]
    pub fn most(&self) -> Option<(Option<IpAddr>, usize)> {
        self.order.last().map(|(count, site)| (*site, *count))
    }

    /// The lookup to drop for a new one: the last of the busiest network in the busiest site. None if the new one's
    /// requester has as many lookups.
    #[must_use]
    pub fn gives_way_to(&self, asker: Requester) -> Option<T> {
        let (own_site, own_network) = asker.parts();
        let (site, most) = self.most()?;
        let networks = self.by_site.get(&site)?;
        let (network, tickets) = networks.iter().max_by_key(|(_, tickets)| tickets.len())?;
        let own = match site == own_site {
            true => networks.get(&own_network).map_or(0, BTreeSet::len),
            false => self.counts.get(&own_site).copied().unwrap_or(0),
        };
        let most = if site == own_site { tickets.len() } else { most };
        let is_own = site == own_site && *network == own_network;
        (!is_own && most > own + 1).then(|| tickets.last().copied()).flatten()
    }
}
