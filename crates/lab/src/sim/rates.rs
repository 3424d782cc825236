//! The judge of message rates: transactions that begin towards one next hop, over all its
//! connections and all shards of the node.

use super::executor::Group;
use super::plan::Hop;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a rate allows.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    /// Transactions per second.
    pub per_second: f64,
    /// Beyond that in any stretch of time: the burst of the schedule, the tokens that shards held
    /// when it began, and the transactions that were taken then and had not been begun.
    pub extra: f64,
}

impl RateLimit {
    /// That of a hop; `None` without one.
    #[must_use]
    pub fn of(hop: &Hop, shards: u16) -> Option<RateLimit> {
        let per_second = f64::from(hop.per_second);
        // A shard is lent a tenth of a second's worth, at least one; twice that where it asks once
        // more while the first grant is on its way.
        let held = 2.0 * (per_second / 10.0).floor().max(1.0) * f64::from(shards);
        let burst = (per_second / 4.0).floor().max(1.0);
        // What a connection takes may have to be read from the spool before it begins.
        let taken = hop.connections_max * hop.in_flight_max;
        let extra = burst + held + f64::from(taken);
        (hop.per_second > 0).then_some(RateLimit { per_second, extra })
    }
}

/// When transactions began, by next hop and life of the node.
#[derive(Debug, Default)]
pub struct Beginnings(RefCell<BTreeMap<(String, Group), Vec<u64>>>);

impl Beginnings {
    /// The node began a transaction towards `hop`: it wrote MAIL at `at_us`.
    pub fn note(&self, hop: &Hop, group: Group, at_us: u64) {
        let key = (hop.domains[0].clone(), group);
        self.0.borrow_mut().entry(key).or_default().push(at_us);
    }

    /// What is wrong with those towards `hop`, for people.
    #[must_use]
    pub fn exceeded(&self, hop: &Hop, limit: RateLimit) -> Vec<String> {
        let mut wrong = Vec::new();
        for ((domain, group), times_us) in self.0.borrow().iter() {
            if *domain != hop.domains[0] {
                continue;
            }
            let mut times_us = times_us.clone();
            times_us.sort_unstable();
            if let Some((count, from_us, to_us)) = worst(&times_us, limit) {
                wrong.push(format!(
                    "{count} transactions to {domain} by {group:?} from {from_us} to {to_us} us, \
                     at {} per second",
                    limit.per_second
                ));
            }
        }
        wrong
    }
}

/// A stretch of time with more than is allowed: how many, from when, until when.
fn worst(times_us: &[u64], limit: RateLimit) -> Option<(usize, u64, u64)> {
    let allowed_at = |at_us: u64| limit.per_second * at_us as f64 / 1e6;
    // The beginning of the stretch that is worst for all that come later.
    let mut start = 0;
    for (number, &at_us) in times_us.iter().enumerate() {
        let ahead = |n: usize| n as f64 - allowed_at(times_us[n]);
        if ahead(number) <= ahead(start) {
            start = number;
        }
        let count = number + 1 - start;
        let allowed = limit.extra + allowed_at(at_us) - allowed_at(times_us[start]);
        if count as f64 > allowed + 1e-3 {
            return Some((count, times_us[start], at_us));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_with_more_than_the_rate_and_its_burst_is_found() {
        let limit = RateLimit { per_second: 2.0, extra: 2.0 };
        let even: Vec<u64> = (0..20).map(|n| n * 500_000).collect();
        assert_eq!(worst(&even, limit), None);
        let mut burst = even.clone();
        burst.insert(10, burst[10]);
        assert_eq!(worst(&burst, limit), None);
        burst.insert(10, burst[10]);
        assert_eq!(worst(&burst, limit), Some((3, 5_000_000, 5_000_000)));
        let fast: Vec<u64> = (0..20).map(|n| n * 400_000).collect();
        assert!(worst(&fast, limit).is_some());
    }
}
