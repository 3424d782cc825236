//! What is looked at once a history is over.

use super::Simulation;
use super::rates::RateLimit;

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
