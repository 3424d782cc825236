//! The ready queues that a life of the node may have towards the hop that is found by MX records.
//!
//! Limits belong to a route and a set of hosts, in whatever order: where the DNS names another
//! set than before, what is resolved from then on has limits of its own, while what was resolved
//! before keeps to the old ones for as long as an answer is fresh. So the judge counts the sets
//! that the DNS has named to a life of the node. It can't see which of them a connection is for,
//! only its host: each group of hosts gets as much as the sets with one of these hosts allow.

use super::executor::{Executor, Group};
use super::network::{HostSet, Network};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The sets that the DNS named to each life of the node, and when it first did.
#[derive(Debug)]
pub struct ReadyQueues {
    executor: Executor,
    network: Network,
    /// Each has ready queues of its own.
    sources: u32,
    named: RefCell<BTreeMap<Group, BTreeMap<HostSet, u64>>>,
}

impl ReadyQueues {
    /// None yet, from so many sources; `network` is told of each, because it counts connections.
    #[must_use]
    pub fn new(executor: Executor, network: Network, sources: u32) -> Rc<ReadyQueues> {
        Rc::new(ReadyQueues { executor, network, sources, named: RefCell::default() })
    }

    /// The DNS names these hosts to this life of the node, now.
    pub fn name(&self, group: Group, hosts: HostSet) {
        let mut named = self.named.borrow_mut();
        let sets = named.entry(group).or_default();
        if !hosts.is_empty() && !sets.contains_key(&hosts) {
            self.network.add_queues(&hosts, self.sources);
            sets.insert(hosts, self.executor.now_us());
        }
    }

    /// Since when each ready queue of this life is there that may use one of these hosts.
    #[must_use]
    pub fn since_us(&self, group: Group, hosts: &HostSet) -> Vec<u64> {
        let named = self.named.borrow();
        let sets = named.get(&group).into_iter().flatten();
        let since = sets.filter(|(set, _)| !set.is_disjoint(hosts)).map(|(_, &at_us)| at_us);
        since.flat_map(|at_us| std::iter::repeat_n(at_us, self.sources as usize)).collect()
    }
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
    use std::net::IpAddr;

    #[test]
    fn a_set_is_one_ready_queue_for_each_of_its_hosts() {
        let executor = Executor::default();
        let trace = Trace::new(executor.clone(), false);
        let network = Network::new(executor.clone(), trace, 1);
        let queues = ReadyQueues::new(executor.clone(), network.clone(), 1);
        let hosts = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let (one, both) = (HostSet::from([hosts[0]]), HostSet::from(hosts));
        let life = Group(1);
        for set in [&both, &one, &both, &HostSet::new()] {
            queues.name(life, set.clone());
        }
        let count = |group, hosts: &HostSet| queues.since_us(group, hosts).len();
        assert_eq!(count(life, &one), 2);
        assert_eq!(count(life, &both), 2);
        assert_eq!(count(life, &HostSet::from([hosts[1]])), 1);
        assert_eq!(count(Group(2), &both), 0);
        let queues = ReadyQueues::new(executor, network, 3);
        queues.name(life, both.clone());
        assert_eq!(queues.since_us(life, &one).len(), 3, "each source has its own");
    }

    #[test]
    fn groups_are_all_but_the_empty_one() {
        assert_eq!(groups_of(&[7]), [vec![7]]);
        assert_eq!(groups_of(&[7, 8]), [vec![7], vec![8], vec![7, 8]]);
    }
}
