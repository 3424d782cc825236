//! Connections of a route that goes elsewhere by now. What it has begun to send it sends to the end, however slowly
//! that is read, and the routes that still lead there have all of theirs beside it.

use super::Network;
use super::connection::{Carried, Connection};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// When its last transaction is over a connection ends within this time.
const ENDS_US: u64 = 60_000_000;

/// Whether this was begun by then for one of these domains, and may have its connection still.
fn is_left(carried: &Carried, (since_us, domains): &(u64, Vec<String>), now_us: u64) -> bool {
    carried.begun_us <= *since_us
        && domains.contains(&carried.domain)
        && carried.over_us.is_none_or(|over_us| now_us < over_us + ENDS_US)
}

impl Network {
    /// A transaction began.
    pub fn note_mail(&self, connection: u64, at_us: u64) {
        self.note_carried(connection, |carried| {
            *carried = Carried { begun_us: at_us, ..Carried::default() };
        });
    }

    /// It has a recipient of this domain.
    pub fn note_domain(&self, connection: u64, domain: &str) {
        self.note_carried(connection, |carried| domain.clone_into(&mut carried.domain));
    }

    /// Its content is being answered.
    pub fn note_content(&self, connection: u64) {
        let now_us = self.0.executor.now_us();
        self.note_carried(connection, |carried| carried.over_us = Some(now_us));
    }

    fn note_carried(&self, connection: u64, note: impl FnOnce(&mut Carried)) {
        let mut state = self.0.state.borrow_mut();
        if let Some(connection) = state.connections.get_mut(&connection) {
            note(&mut connection.carried);
        }
    }
}

/// How many of these connections count towards a limit no more.
pub(super) fn count<'a>(
    watch: &ConnectionLimit,
    connections: impl Iterator<Item = &'a Connection>,
    now_us: u64,
) -> u32 {
    if watch.left.is_empty() {
        return 0;
    }
    let left = connections.filter(|connection| {
        let is_left = |left| is_left(&connection.carried, left, now_us);
        connection.is_open_at_client()
            && watch.counts(connection.from, &connection.to)
            && watch.left.iter().any(is_left)
    });
    left.count() as u32
}

/// Hosts that the DNS named together. (Each has one name and one address.)
pub type HostSet = BTreeSet<IpAddr>;

/// A limit on connections towards a set of addresses.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    pub(super) addresses: Vec<SocketAddr>,
    /// Of the connections that come from there only; `None`: of all.
    pub(super) from: Option<IpAddr>,
    /// Of one ready queue.
    pub(super) max: u32,
    /// Until then this limit holds: what was being opened when it was lowered is opened.
    pub(super) before: (u64, u32),
    /// From when on and until when no more than so many are opened, whatever else is allowed.
    pub(super) cap: Option<((u64, u64), u32)>,
    /// Ready queues that use these addresses.
    pub(super) queues: Queues,
    /// Routes that have gone elsewhere: since when, and for which domains they are.
    pub(super) left: Vec<(u64, Vec<String>)>,
    pub(super) open: u32,
    /// The first time that there were too many: how many, and how many were allowed.
    pub(super) exceeded: Option<(u32, u32)>,
}

/// How many ready queues there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// The configuration names the hosts.
    One,
    /// The DNS names them; so many sets until now.
    Named(u32),
}

impl ConnectionLimit {
    /// Whether a connection from `from` to `to` counts.
    pub(super) fn counts(&self, from: IpAddr, to: &SocketAddr) -> bool {
        self.addresses.contains(to) && self.from.is_none_or(|own| own == from)
    }

    /// From now on `max` holds, and until `grace_us` later what was allowed before, and `more` besides.
    pub(super) fn limit(&mut self, now_us: u64, max: u32, more: u32, grace_us: u64) {
        let before = self.allowed_each(now_us);
        self.before = (now_us + grace_us, before.saturating_add(more).max(max));
        self.max = max;
    }

    /// What one ready queue may have.
    pub(super) fn allowed_each(&self, now_us: u64) -> u32 {
        let (until_us, before) = self.before;
        if now_us < until_us { self.max.max(before) } else { self.max }
    }

    /// What all of them together may have.
    pub(super) fn allowed(&self, now_us: u64) -> u32 {
        let queues = match self.queues {
            Queues::One => 1,
            Queues::Named(count) => count,
        };
        let allowed = queues * self.allowed_each(now_us);
        match self.cap {
            Some(((from_us, until_us), max)) if (from_us..until_us).contains(&now_us) => {
                allowed.min(max)
            }
            _ => allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_for_a_route_that_has_left_is_not_counted_until_it_is_over() {
        let left = (5_000, vec!["d3.test".to_owned()]);
        let carried = |begun_us, domain: &str, over_us| Carried {
            begun_us,
            domain: domain.to_owned(),
            over_us,
        };
        let late_us = 10 * ENDS_US;
        assert!(is_left(&carried(4_000, "d3.test", None), &left, late_us));
        assert!(
            !is_left(&carried(4_000, "d1.test", None), &left, late_us),
            "of a route that is there"
        );
        assert!(!is_left(&carried(6_000, "d3.test", None), &left, late_us), "begun too late");
        assert!(!is_left(&carried(4_000, "d3.test", Some(9_000)), &left, late_us), "it has no use");
        assert!(is_left(&carried(4_000, "d3.test", Some(9_000)), &left, ENDS_US), "it is ending");
    }
}
