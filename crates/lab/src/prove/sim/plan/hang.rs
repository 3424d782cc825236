//! Disks that do nothing for a while, above all while the process is asked to stop.

use super::{Act, ActKind, CrashKind, Plan, SECOND_US};
use load::random::Random;

impl Plan {
    /// Draws it for one of four worlds without bounds on how long mail takes.
    pub(super) fn hang_disks(&mut self, random: &mut Random) {
        let (draw, times) = (random.below(4), 1 + random.below(2));
        if draw > 0 || self.crowd.is_some() || self.hops.iter().any(|hop| hop.stumble.is_some()) {
            return;
        }
        for _ in 0..times {
            let (at_us, for_us) = (random.below(self.heal_us), random.below(60 * SECOND_US));
            let kind = ActKind::Hang { log: random.below(2) as u8, for_us };
            self.acts.push(Act { at_us, kind });
        }
        if let Some(last) = self.crashes.last_mut() {
            last.kind = CrashKind::Stop;
        }
        // Longer than a stop may take.
        let stops = self.crashes.iter().filter(|crash| crash.kind == CrashKind::Stop);
        let kind = ActKind::Hang { log: random.below(2) as u8, for_us: 120 * SECOND_US };
        self.acts.extend(stops.map(|crash| Act { at_us: crash.at_us, kind }));
        self.acts.sort_by_key(|act| act.at_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_hang_in_some_worlds_and_during_stops() {
        let hangs = |plan: &Plan, at_us: Option<u64>| {
            let is_one = |act: &&Act| matches!(act.kind, ActKind::Hang { .. });
            plan.acts.iter().filter(is_one).any(|act| at_us.is_none_or(|at_us| act.at_us == at_us))
        };
        let plans: Vec<Plan> = (0..800).map(Plan::new).collect();
        assert!(plans.iter().filter(|plan| hangs(plan, None)).count() > 60);
        let stops = |plan: &&Plan| {
            let mut stops = plan.crashes.iter().filter(|crash| crash.kind == CrashKind::Stop);
            stops.any(|crash| hangs(plan, Some(crash.at_us)))
        };
        assert!(plans.iter().filter(stops).count() > 10);
    }
}
