//! The judge of persistence: how often a next hop that defers everything is asked again.
//!
//! Hosts of two that end every transaction without a verdict: whoever was given to such a host goes to the other one
//! next (RFC 5321 §5.1).

use super::executor::TaskGroup;
use super::plan::Hop;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The stretch of time that is counted.
const MINUTE_US: u64 = 60_000_000;

/// Refusals of whole transactions after which a next hop is left alone, in cohorts of as many as
/// it has connections, and by each shard (`queue::limits`).
const COHORTS_MAX: u32 = 3;

/// Tries that the back-off allows within a minute: after 1, 2, 4, 8, 16 seconds and then as often
/// as a message is tried at most, each a fifth sooner, and one that an edge of the minute adds.
const PROBES_MAX: u32 = 9;

/// Mail that has ready queues of its own: of this life of the node, and whether it asks for TLS all the way
/// (RFC 8689). Of both kinds each shard has one, which learns by itself what the hop says.
type QueueKind = (TaskGroup, bool);

/// When a next hop refused MAIL because it defers everything, by kind of mail and host.
#[derive(Debug, Default)]
pub struct Deferred(RefCell<BTreeMap<(QueueKind, IpAddr), Vec<u64>>>);

/// Transactions within a minute to a hop that defers everything, at most, of each kind of mail: on each shard
/// the cohorts that it takes to learn so, those that are under way then, and the probes.
#[must_use]
pub fn attempts_max(hop: &Hop, shards: u16) -> usize {
    let each = COHORTS_MAX * hop.connections_max + hop.connections_max + PROBES_MAX;
    each as usize * usize::from(shards)
}

impl Deferred {
    /// `host` deferred what the node wrote at `at_us`, of mail that asks for TLS all the way or does not.
    pub fn note(&self, host: IpAddr, life: TaskGroup, asks_for_tls: bool, at_us: u64) {
        self.0.borrow_mut().entry(((life, asks_for_tls), host)).or_default().push(at_us);
    }

    /// What is wrong with those at `hop`, for people.
    #[must_use]
    pub fn exceeded(&self, hop: &Hop, shards: u16) -> Vec<String> {
        let noted = self.0.borrow();
        let max = attempts_max(hop, shards);
        let kinds: BTreeSet<QueueKind> = noted.keys().map(|&(kind, _)| kind).collect();
        let mut wrong = Vec::new();
        for kind in kinds {
            let of = |host: &std::net::SocketAddr| noted.get(&(kind, host.ip()));
            let mut times_us: Vec<u64> =
                hop.hosts.iter().filter_map(of).flatten().copied().collect();
            times_us.sort_unstable();
            let most = most_in(&times_us, MINUTE_US);
            if most > max {
                let (life, asks_for_tls) = kind;
                let what = if asks_for_tls { ", of mail that asks for TLS," } else { "" };
                wrong.push(format!(
                    "{most} attempts in a minute by {life:?}{what} at {:?}, which defers everything; at \
                     most {max} allowed",
                    hop.domains[0]
                ));
            }
        }
        wrong
    }
}

/// The most of `times_us`, which are in order, in any stretch of time so long.
fn most_in(times_us: &[u64], stretch_us: u64) -> usize {
    let since = |(at, &from_us): (usize, &u64)| {
        times_us[at..].partition_point(|&at_us| at_us < from_us + stretch_us)
    };
    times_us.iter().enumerate().map(since).max().unwrap_or(0)
}

/// So often a message may be named to the host that fails before it is named to the other one: the attempts of
/// recipients that are taken apart are not told from each other.
const IN_A_ROW_MAX: u32 = 2;

/// How often in a row messages were named to a host that fails, by process and sender.
#[derive(Debug, Default)]
pub struct Stumbles(RefCell<BTreeMap<(TaskGroup, String), u32>>);

impl Stumbles {
    /// MAIL from this sender has come to one of the two. What is wrong with that, for people.
    pub fn note(&self, life: TaskGroup, sender: &str, fails: bool) -> Option<String> {
        if sender.is_empty() {
            return None;
        }
        let mut noted = self.0.borrow_mut();
        let in_a_row = noted.entry((life, sender.to_owned())).or_default();
        *in_a_row = if fails { *in_a_row + 1 } else { 0 };
        (*in_a_row == IN_A_ROW_MAX + 1)
            .then(|| format!("was named {in_a_row} times in a row to a host that fails, of two"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_stretch_is_found() {
        assert_eq!(most_in(&[], 10), 0);
        assert_eq!(most_in(&[0, 5, 9, 10, 11, 19, 40], 10), 4);
    }

    #[test]
    fn in_a_row_is_between_two_of_the_other_host() {
        let stumbles = Stumbles::default();
        let note = |fails| stumbles.note(TaskGroup(1), "m1@back.test", fails).is_some();
        assert!([true, true, false, true, true, true].map(note)[5]);
        let other = |fails| stumbles.note(TaskGroup(1), "m2@back.test", fails).is_some();
        assert_eq!([true, true, false, true, true, false].map(other), [false; 6]);
    }
}
