//! What is wrong with all small domains at once, where the domain that is well must not wait for them.

use super::{Act, ActKind, CrashKind, Hop, Plan, SECOND_US};
use load::random::Random;

/// Connections of a process whose peers are mute: those to all small domains are had, and memory is what they wait for.
const EGRESS_MAX: u64 = 1_000;

/// Clients that write to small domains whose hosts are mute: large messages take their time.
const WRITERS: u32 = 4;

/// While peers are mute, they are for so long at least behind the last message: memory goes round several times.
const MUTE_US: u64 = 60 * SECOND_US;

/// The smallest message to small domains whose hosts are mute, and how much larger others are: more than a connection
/// takes before its peer reads, and less than what is in a file of its own.
const LETTER_BYTES: (u64, u64) = (80_000, 40_000);

/// What all small domains have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mire {
    /// Connects to their hosts are never answered.
    #[default]
    Swallows,
    /// Questions about their zone are not answered in time.
    Hangs,
    /// Their hosts take the envelope, and then read nothing any more; there is little memory.
    Mute,
}

impl Mire {
    /// Memory that is held for mute peers is had by those who wait for it within this time: it is held for five
    /// seconds by each, whoever waits.
    pub(super) const MEMORY_US: u64 = 20 * SECOND_US;
}

impl Plan {
    /// Draws it, where the bound holds for the domain that is well.
    pub(super) fn change_mire(&mut self, random: &mut Random) {
        let (draw, lookups_max) = (random.below(3), 4 + random.below(8) as u32);
        if !self.is_mire() {
            return;
        }
        let Some(crowd) = &mut self.crowd else { return };
        let is_crowd = |hop: &&mut Hop| hop.is_crowd();
        match draw {
            0 => return,
            1 => {
                crowd.mire = Mire::Hangs;
                // The domain that is well is looked up like the others.
                self.lookups_max = Some(lookups_max);
                let well = self.hops.iter_mut().find(|hop| hop.is_well);
                well.into_iter().for_each(|hop| hop.by_mx = true);
            }
            _ => {
                // Who waits for memory has a connection, and holds nothing: each small domain has one.
                crowd.mire = Mire::Mute;
                (crowd.clients, crowd.recipients) = (WRITERS, 1);
                self.hops.iter_mut().filter(is_crowd).for_each(|hop| hop.connections_max = 1);
                self.parts.iter_mut().for_each(|parts| parts.egress_max = EGRESS_MAX);
                self.heal_us = self.heal_us.max(self.traffic_us + MUTE_US);
                self.look_often();
            }
        }
        self.hops.iter_mut().filter(is_crowd).for_each(|hop| hop.tarpits = 0);
    }

    /// What is wrong with the small domains, if anything is that they have in common.
    #[must_use]
    pub fn mire(&self) -> Option<Mire> {
        self.crowd.filter(|_| self.is_mire()).map(|crowd| crowd.mire)
    }

    /// So that it shows when nothing moves.
    fn look_often(&mut self) {
        let looks = (0..self.heal_us).step_by(5 * SECOND_US as usize);
        self.acts.extend(looks.map(|at_us| Act { at_us, kind: ActKind::Ask }));
        self.acts.sort_by_key(|act| act.at_us);
    }

    /// Memory for bodies, and the size above which one is in a file of its own. Of mute peers four or five can have
    /// what is to be read back into; the others wait.
    pub(super) fn body_memory(&self) -> (&'static str, &'static str) {
        if self.mire() == Some(Mire::Mute) { ("3MiB", "128KiB") } else { ("1MiB", "64KiB") }
    }

    /// How long a peer may take to ask for content, or for the next piece of it.
    pub(super) fn content_timeout(&self, hop: &Hop) -> &'static str {
        let is_mute = hop.is_crowd() && self.mire() == Some(Mire::Mute);
        if is_mute { "3m" } else { "15s" }
    }

    /// The size of a message to small domains, if it is not as of any other.
    #[must_use]
    pub fn letter_bytes(&self, random: &mut Random) -> Option<u64> {
        let (least, more) = LETTER_BYTES;
        (self.mire() == Some(Mire::Mute)).then(|| least + random.below(more))
    }
}

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
    fn small_domains_have_all_kinds_of_trouble() {
        let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
        for mire in [Mire::Swallows, Mire::Hangs, Mire::Mute] {
            let with = plans.iter().filter(|plan| plan.mire() == Some(mire));
            assert!(with.count() > 3, "{mire:?}");
        }
    }

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
