//! What is looked at once a history is over.

use super::Simulation;
use super::rates::RateLimit;
use std::collections::BTreeSet;

impl Simulation {
    /// No next hop got more transactions than its rate allows.
    pub(super) fn check_rates(&self) {
        for hop in &self.plan.widest_hops() {
            let Some(limit) = RateLimit::of(hop, self.plan.shards) else { continue };
            let wrong = self.peers.beginnings.exceeded(hop, limit, &self.environment.ready_queues);
            for text in wrong {
                self.environment.account.violate(None, text);
            }
        }
        let queues = &self.environment.ready_queues;
        let too_fast = self.peers.paces.exceeded(&self.plan, queues).into_iter();
        for text in too_fast.chain(self.environment.effects.exceeded(queues)) {
            self.environment.account.violate(None, text);
        }
    }

    /// Nobody who defers everything was asked again and again, and the resolver not more than it
    /// may be.
    pub(super) fn check_attempts(&self) {
        let (plan, account) = (&self.plan, &self.environment.account);
        for hop in plan.hops.iter().filter(|hop| hop.defers_all_until_us > 0) {
            for text in self.peers.deferred.exceeded(hop, plan.shards) {
                account.violate(None, text);
            }
        }
        let parts_max = plan.parts.map(|parts| parts.lookups_max);
        let max = plan.lookups_max.unwrap_or(u32::MAX).min(parts_max.unwrap_or(u32::MAX));
        let most = self.environment.dns.most_asked();
        if most > max {
            account.violate(None, format!("{most} lookups at once, at most {max} allowed"));
        }
    }

    /// Nothing is wrong on the disks, and nothing is queued there.
    pub(super) fn verify(&self) {
        for (number, disk) in self.environment.disks.iter().enumerate() {
            let text = match spool::verify(&**disk) {
                Ok(report) if report.damaged_count + report.live_count == 0 => continue,
                Ok(report) => format!(
                    "log {number}: {} damaged, {} live: {:?}",
                    report.damaged_count, report.live_count, report.damage
                ),
                Err(error) => format!("log {number}: {error}"),
            };
            self.environment.account.violate(None, text);
        }
    }
}

/// A recipient, and how many hosts have heard MAIL for it. Who got memory is offered to a host, and may wait again for
/// the next.
pub(super) type Wait = (String, u32);

/// Who waited for memory, and since when none of them has got it.
#[derive(Debug, Default)]
pub(super) struct MemoryWaits {
    before: BTreeSet<Wait>,
    since_us: u64,
}

impl MemoryWaits {
    /// These wait now. What is wrong, for people, if none of those who waited got any for longer than `within_us`.
    pub(super) fn look(
        &mut self,
        waiting: BTreeSet<Wait>,
        now_us: u64,
        within_us: u64,
    ) -> Option<String> {
        if self.before.is_empty() || !self.before.is_subset(&waiting) {
            (self.before, self.since_us) = (waiting, now_us);
            return None;
        }
        if now_us <= self.since_us + within_us {
            return None;
        }
        let (count, ms) = (self.before.len(), (now_us - self.since_us) / 1_000);
        self.since_us = now_us;
        Some(format!("memory is stuck: none of {count} waiting sessions got any in {ms} ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(all: &[(&str, u32)]) -> BTreeSet<Wait> {
        all.iter().map(|&(name, mails)| (name.to_owned(), mails)).collect()
    }

    #[test]
    fn where_nobody_gets_any_it_stands_still_though_others_join() {
        let mut judge = MemoryWaits::default();
        assert_eq!(judge.look(waits(&[("a", 1), ("b", 0)]), 1_000, 5_000), None);
        assert_eq!(judge.look(waits(&[("a", 1), ("b", 0), ("c", 0)]), 6_000, 5_000), None);
        let wrong = judge.look(waits(&[("a", 1), ("b", 0), ("d", 0)]), 7_000, 5_000);
        let wrong = wrong.expect("it stands still");
        assert_eq!(wrong, "memory is stuck: none of 2 waiting sessions got any in 6 ms");
    }

    #[test]
    fn who_got_some_and_waits_again_has_waited_for_another_time() {
        let mut judge = MemoryWaits::default();
        for (now_us, mails) in [(1_000, 0), (4_000, 0), (7_000, 1), (10_000, 1)] {
            assert_eq!(judge.look(waits(&[("a", mails), ("b", 0)]), now_us, 5_000), None);
        }
        assert!(judge.look(waits(&[("a", 1), ("b", 0)]), 13_000, 5_000).is_some());
    }
}
