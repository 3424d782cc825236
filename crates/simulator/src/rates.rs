//! The judge of message rates: transactions that begin towards one next hop, over all its
//! connections and all shards of the node.

use super::executor::TaskGroup;
use super::network::HostSet;
use super::plan::Hop;
use super::ready_queues::{NamedSet, ReadyQueues, groups_of, queues_of};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a rate allows each set of hosts.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    /// Transactions per second.
    pub per_second: f64,
    /// Beyond that in any stretch of time: the burst of the schedule, and the transactions that were taken when it
    /// began and had not been begun.
    pub extra: f64,
    /// And, for each ready queue that leads there, the tokens that it held then, on all shards.
    pub held: f64,
}

impl RateLimit {
    /// That of a hop; `None` without one.
    #[must_use]
    pub fn of(hop: &Hop, shards: u16) -> Option<RateLimit> {
        let per_second = f64::from(hop.per_second);
        // A ready queue of a shard is lent a tenth of a second's worth, at least one; twice that where it asks once
        // more while the first grant is on its way. It keeps them as long as mail waits there, be it for one of the
        // connections that others have, and they come back to the others when it has none any more.
        let held = 2.0 * (per_second / 10.0).floor().max(1.0) * f64::from(shards);
        let burst = (per_second / 4.0).floor().max(1.0);
        // What a connection takes may have to be read from the spool before it begins, or to wait
        // for those in flight; until then the connection takes no more.
        let taken = hop.connections_max;
        let extra = burst + f64::from(taken);
        (hop.per_second > 0).then_some(RateLimit { per_second, extra, held })
    }
}

/// When transactions began, by life of the node and host.
#[derive(Debug, Default)]
pub struct Beginnings(RefCell<BTreeMap<(TaskGroup, IpAddr), Vec<u64>>>);

impl Beginnings {
    /// The node began a transaction with `host`: it wrote MAIL at `at_us`.
    pub fn note(&self, host: IpAddr, group: TaskGroup, at_us: u64) {
        self.0.borrow_mut().entry((group, host)).or_default().push(at_us);
    }

    /// What is wrong with those towards `hop`, for people.
    #[must_use]
    pub fn exceeded(&self, hop: &Hop, limit: RateLimit, queues: &ReadyQueues) -> Vec<String> {
        let hosts: Vec<IpAddr> = hop.hosts.iter().map(|host| host.ip()).collect();
        let groups = if hop.by_mx { groups_of(&hosts) } else { vec![hosts] };
        let only = NamedSet { since_us: 0, queues: queues_of(hop.tls.is_some()) };
        let lives: BTreeSet<TaskGroup> = self.0.borrow().keys().map(|&(group, _)| group).collect();
        let mut wrong = Vec::new();
        for life in lives {
            for hosts in &groups {
                let hosts: HostSet = hosts.iter().copied().collect();
                let sets = if hop.by_mx { queues.sets(life, &hosts) } else { vec![only] };
                let times_us = self.times_us(life, &hosts);
                if let Some((count, from_us, to_us)) = worst(&times_us, limit, &sets) {
                    wrong.push(format!(
                        "{count} transactions to {:?} at {hosts:?} by {life:?} from {from_us} to \
                         {to_us} us, at {} per second for each of {} sets of hosts, with {} ready queues",
                        hop.domains[0],
                        limit.per_second,
                        sets.len(),
                        sets.iter().map(|set| set.queues).sum::<u32>()
                    ));
                }
            }
        }
        wrong
    }

    /// When this life of the node began transactions with these hosts, in order.
    fn times_us(&self, life: TaskGroup, hosts: &HostSet) -> Vec<u64> {
        let beginnings = self.0.borrow();
        let of = |&host: &IpAddr| beginnings.get(&(life, host)).into_iter().flatten();
        let mut times_us: Vec<u64> = hosts.iter().flat_map(of).copied().collect();
        times_us.sort_unstable();
        times_us
    }
}

/// A stretch of time with more than is allowed to these sets of hosts: how many, from when, until when.
fn worst(times_us: &[u64], limit: RateLimit, sets: &[NamedSet]) -> Option<(usize, u64, u64)> {
    let allowed_at = |at_us: u64| {
        let lasted_us: u64 = sets.iter().map(|set| at_us.saturating_sub(set.since_us)).sum();
        limit.per_second * lasted_us as f64 / 1e6
    };
    let extra_at = |at_us: u64| {
        let there = sets.iter().filter(|set| set.since_us <= at_us);
        there.map(|set| limit.extra + limit.held * f64::from(set.queues)).sum()
    };
    worst_stretch(times_us, allowed_at, extra_at)
}

/// A stretch of time with more than is allowed: how many, from when, until when. `allowed_at` says how many may have
/// been begun from the start until then, and `extra_at` how many beyond that in any stretch that ends then.
pub(super) fn worst_stretch(
    times_us: &[u64],
    allowed_at: impl Fn(u64) -> f64,
    extra_at: impl Fn(u64) -> f64,
) -> Option<(usize, u64, u64)> {
    // The beginning of the stretch that is worst for all that come later.
    let mut start = 0;
    for (number, &at_us) in times_us.iter().enumerate() {
        let ahead = |n: usize| n as f64 - allowed_at(times_us[n]);
        if ahead(number) <= ahead(start) {
            start = number;
        }
        let count = number + 1 - start;
        let allowed = extra_at(at_us) + allowed_at(at_us) - allowed_at(times_us[start]);
        if count as f64 > allowed + 1e-3 {
            return Some((count, times_us[start], at_us));
        }
    }
    None
}

/// A rate that is another from time to time.
#[derive(Clone, Debug, Default)]
pub(super) struct RateSteps {
    /// From when on, in order, and how many per second.
    steps: Vec<(u64, f64)>,
}

impl RateSteps {
    /// The highest of those that hold from the first time on and, where there is a second one, until then.
    pub(super) fn of_highest(periods: &[(u64, u64, f64)]) -> RateSteps {
        let mut edges_us: Vec<u64> =
            periods.iter().flat_map(|&(from_us, until_us, _)| [from_us, until_us]).collect();
        edges_us.sort_unstable();
        edges_us.dedup();
        let at = |at_us: u64| {
            let holds = periods.iter().filter(|(from, until, _)| (*from..*until).contains(&at_us));
            holds.map(|&(_, _, per_second)| per_second).fold(0.0, f64::max)
        };
        RateSteps { steps: edges_us.into_iter().map(|at_us| (at_us, at(at_us))).collect() }
    }

    /// How many may have been begun until then.
    pub(super) fn allowed_at(&self, at_us: u64) -> f64 {
        let ends = self.steps.iter().skip(1).map(|&(from_us, _)| from_us).chain([u64::MAX]);
        let steps = self.steps.iter().zip(ends);
        let counts = steps.map(|(&(from_us, per_second), until_us)| {
            per_second * at_us.min(until_us).saturating_sub(from_us) as f64 / 1e6
        });
        counts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(since_us: u64) -> NamedSet {
        NamedSet { since_us, queues: 1 }
    }

    #[test]
    fn a_stretch_with_more_than_the_rate_and_its_burst_is_found() {
        let limit = RateLimit { per_second: 2.0, extra: 1.0, held: 1.0 };
        let worst = |times_us: &[u64]| worst(times_us, limit, &[set(0)]);
        let even: Vec<u64> = (0..20).map(|n| n * 500_000).collect();
        assert_eq!(worst(&even), None);
        let mut burst = even.clone();
        burst.insert(10, burst[10]);
        assert_eq!(worst(&burst), None);
        burst.insert(10, burst[10]);
        assert_eq!(worst(&burst), Some((3, 5_000_000, 5_000_000)));
        let fast: Vec<u64> = (0..20).map(|n| n * 400_000).collect();
        assert!(worst(&fast).is_some());
    }

    #[test]
    fn another_set_adds_its_rate_from_when_it_is_there() {
        let limit = RateLimit { per_second: 2.0, extra: 1.0, held: 0.0 };
        let worst = |times_us: &[u64], limit, since_us: &[u64]| {
            let sets: Vec<NamedSet> = since_us.iter().copied().map(set).collect();
            worst(times_us, limit, &sets)
        };
        // Two a second, and four a second from 5 s on.
        let first: Vec<u64> = (0..10).map(|n| n * 500_000).collect();
        let then = (0..20).map(|n| 5_000_000 + n * 250_000);
        let times_us: Vec<u64> = first.into_iter().chain(then).collect();
        assert_eq!(worst(&times_us, limit, &[0, 5_000_000]), None);
        assert!(worst(&times_us, limit, &[0, 8_000_000]).is_some());
        assert!(worst(&times_us, limit, &[0]).is_some());
        // None may begin where there is none.
        assert_eq!(worst(&times_us, limit, &[]), Some((1, 0, 0)));
    }

    #[test]
    fn of_rates_that_hold_at_once_the_highest_counts() {
        let rate = RateSteps::of_highest(&[(0, 20_000_000, 2.0), (10_000_000, u64::MAX, 1.0)]);
        let allowed = |seconds: u64| rate.allowed_at(seconds * 1_000_000);
        assert_eq!([0, 10, 20, 30].map(allowed), [0.0, 20.0, 40.0, 50.0]);
        assert_eq!(RateSteps::default().allowed_at(7), 0.0);
    }
}
