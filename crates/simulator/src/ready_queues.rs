//! The ready queues that a life of the node may have towards the hop that is found by MX records.
//!
//! Limits belong to a route and a set of hosts, in whatever order: where the DNS names another
//! set than before, what is resolved from then on has limits of its own, while what was resolved
//! before keeps to the old ones for as long as an answer is fresh. So the judge counts the sets
//! that the DNS has named to a life of the node. It can't see which of them a connection is for,
//! only its host: each group of hosts gets as much as the sets with one of these hosts allow.

use super::executor::{Executor, TaskGroup};
use super::network::{HostSet, Network};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

/// What is said of TLS to hosts that the DNS names, where they have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TlsSays {
    /// `tls` of the route.
    pub word: &'static str,
    /// DNSSEC vouches for the hosts.
    pub is_secure: bool,
    /// The domain's policy is enforced.
    pub is_enforced: bool,
}

/// Hosts in the order in which they are tried, those of equal preference together, and what is said of TLS: where
/// either differs so does the ready queue, though what is shared by the set of hosts is the same.
type HostPath = (Vec<HostSet>, Option<TlsSays>);

/// A set of hosts that the DNS has named.
#[derive(Debug)]
struct Set {
    since_us: u64,
    ways: BTreeSet<HostPath>,
}

/// The same, as judges see it. Limits and rates belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedSet {
    /// When the DNS first named it to this life of the node.
    pub since_us: u64,
    /// Ready queues of each shard that lead there, at most.
    pub queues: u32,
}

/// The sets that the DNS named to each life of the node.
#[derive(Debug)]
pub struct ReadyQueues {
    executor: Executor,
    network: Network,
    /// Each has ready queues of its own.
    sources: u32,
    named: RefCell<BTreeMap<TaskGroup, BTreeMap<HostSet, Set>>>,
}

impl ReadyQueues {
    /// None yet, from so many sources; `network` is told of each, because it counts connections.
    #[must_use]
    pub fn new(executor: Executor, network: Network, sources: u32) -> Rc<ReadyQueues> {
        Rc::new(ReadyQueues { executor, network, sources, named: RefCell::default() })
    }

    /// The DNS names hosts in this order to this life of the node, now, or a domain's policy leaves these of them.
    pub fn name(&self, group: TaskGroup, order: Vec<HostSet>, tls: Option<TlsSays>) {
        let hosts: HostSet = order.iter().flatten().copied().collect();
        if hosts.is_empty() {
            return;
        }
        let mut named = self.named.borrow_mut();
        let set = named.entry(group).or_default().entry(hosts).or_insert_with_key(|hosts| {
            self.network.add_queues(hosts, self.sources);
            Set { since_us: self.executor.now_us(), ways: BTreeSet::new() }
        });
        set.ways.insert((order, tls));
    }

    /// Whether all that this life sends to a host has this way, the next hop of a ready queue.
    #[must_use]
    pub fn has_one_way(&self, group: TaskGroup, host: IpAddr, order: &[HostSet]) -> bool {
        let named = self.named.borrow();
        let mut sets = named.get(&group).into_iter().flatten();
        let is_other = |(known, _): &HostPath| known != order;
        order.iter().any(|hosts| hosts.contains(&host))
            && !sets.any(|(hosts, set)| hosts.contains(&host) && set.ways.iter().any(is_other))
    }

    /// The sets of this life that have one of these hosts, once for each source.
    #[must_use]
    pub fn sets(&self, group: TaskGroup, hosts: &HostSet) -> Vec<NamedSet> {
        let named = self.named.borrow();
        let sets = named.get(&group).into_iter().flatten();
        let with_one = sets.filter(|(set, _)| !set.is_disjoint(hosts));
        let seen = with_one.map(|(_, set)| NamedSet {
            since_us: set.since_us,
            queues: set.ways.iter().map(|(_, tls)| queues_of(tls.is_some())).sum(),
        });
        seen.flat_map(|set| std::iter::repeat_n(set, self.sources as usize)).collect()
    }
}

/// Ready queues of each shard with the same way: mail that asks for TLS all the way (RFC 8689) has its own.
#[must_use]
pub fn queues_of(has_tls: bool) -> u32 {
    1 + u32::from(has_tls)
}

/// Groups of equal preference, the most preferred first.
#[must_use]
pub fn in_order<T: Ord>(preferred: impl IntoIterator<Item = (u16, T)>) -> Vec<BTreeSet<T>> {
    let mut groups: BTreeMap<u16, BTreeSet<T>> = BTreeMap::new();
    for (preference, host) in preferred {
        groups.entry(preference).or_default().insert(host);
    }
    groups.into_values().collect()
}

/// All groups of some of these hosts, the largest last.
#[must_use]
pub fn groups_of<T: Copy>(hosts: &[T]) -> Vec<Vec<T>> {
    let chosen = |mask: u32| {
        let has = move |number: usize| mask & (1 << number) != 0;
        hosts.iter().enumerate().filter(|(n, _)| has(*n)).map(|(_, &host)| host).collect()
    };
    (1..1 << hosts.len()).map(chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::super::trace::Trace;
    use super::*;

    #[test]
    fn a_set_has_a_ready_queue_for_each_order_and_each_policy() {
        let executor = Executor::default();
        let trace = Trace::new(executor.clone(), false);
        let network = Network::new(executor.clone(), trace, 1);
        let queues = ReadyQueues::new(executor.clone(), network.clone(), 1);
        let hosts = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let (one, both) = (HostSet::from([hosts[0]]), HostSet::from(hosts));
        let [first, second] = hosts.map(|host| HostSet::from([host]));
        let life = TaskGroup(1);
        for order in [vec![both.clone()], vec![one.clone()], vec![both.clone()], Vec::new()] {
            queues.name(life, order, None);
        }
        let has_one_way = |host, order: &[HostSet]| queues.has_one_way(life, host, order);
        assert!(
            has_one_way(hosts[1], std::slice::from_ref(&both))
                && !has_one_way(hosts[1], std::slice::from_ref(&one))
        );
        assert!(
            !has_one_way(hosts[0], std::slice::from_ref(&both))
                && !has_one_way(hosts[0], std::slice::from_ref(&one))
        );
        let count = |group, hosts: &HostSet| queues.sets(group, hosts).len();
        assert_eq!(count(life, &one), 2);
        assert_eq!(count(life, &both), 2);
        assert_eq!(count(life, &second), 1);
        assert_eq!(count(TaskGroup(2), &both), 0);
        let queues_there = || queues.sets(life, &second)[0].queues;
        assert_eq!(queues_there(), 1);
        queues.name(life, vec![second.clone(), first.clone()], None);
        assert_eq!(queues_there(), 2, "in another order");
        let says = TlsSays { word: "mta-sts", is_secure: false, is_enforced: true };
        queues.name(life, vec![both.clone()], Some(says));
        assert_eq!(queues_there(), 4, "and for mail that asks for TLS");
        let queues = ReadyQueues::new(executor, network, 3);
        queues.name(life, vec![both.clone()], None);
        assert_eq!(queues.sets(life, &one).len(), 3, "each source has its own");
    }

    #[test]
    fn hosts_of_equal_preference_stand_together() {
        let order = in_order([(20, 'c'), (10, 'b'), (20, 'a')]);
        assert_eq!(order, [BTreeSet::from(['b']), BTreeSet::from(['a', 'c'])]);
    }

    #[test]
    fn groups_are_all_but_the_empty_one() {
        assert_eq!(groups_of(&[7]), [vec![7]]);
        assert_eq!(groups_of(&[7, 8]), [vec![7], vec![8], vec![7, 8]]);
    }
}
