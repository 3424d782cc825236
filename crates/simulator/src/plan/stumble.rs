//! Next hops of two hosts, one of which ends each session or transaction at one step without a verdict on the message,
//! while the other is well.

use super::{ActKind, CrashKind, Plan};
use load::random::Random;
use std::net::SocketAddr;

/// Where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialoguePhase {
    /// The connection.
    Connect,
    /// The greeting.
    Greeting,
    /// The reply to EHLO, and to HELO.
    Hello,
    /// That to MAIL.
    Mail,
    /// That to the first RCPT.
    Rcpt,
    /// That to DATA.
    Data,
    /// That to the whole content.
    Content,
}

const STEPS: [DialoguePhase; 7] = [
    DialoguePhase::Connect,
    DialoguePhase::Greeting,
    DialoguePhase::Hello,
    DialoguePhase::Mail,
    DialoguePhase::Rcpt,
    DialoguePhase::Data,
    DialoguePhase::Content,
];

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It hangs up.
    HangsUp,
    /// It says nothing.
    Silent,
    /// It says 421, and hangs up.
    ShutsDown,
    /// It says what is no reply.
    Nonsense,
    /// It says 5yz, where that is no verdict; elsewhere as [`Manner::ShutsDown`].
    Refuses,
}

const MANNERS: [Manner; 5] =
    [Manner::HangsUp, Manner::Silent, Manner::ShutsDown, Manner::Nonsense, Manner::Refuses];

/// What the first host of a hop does until all heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stumble {
    /// Where.
    pub step: DialoguePhase,
    /// How.
    pub manner: Manner,
}

impl Plan {
    /// Draws it for one of four worlds in which nothing else keeps such a hop's mail waiting.
    pub(super) fn stumble(&mut self, random: &mut Random) {
        let (draw, number) = (random.below(4), random.below(2) as usize);
        let (step, manner) = (random.below(7) as usize, random.below(5) as usize);
        let is_stubborn = self.hops[number].defers_all_until_us > 0;
        if draw > 0 || self.crowd.is_some() || self.pace.is_some() || is_stubborn {
            return;
        }
        self.changes.clear();
        self.parts = None;
        self.acts.retain(|act| {
            matches!(
                act.kind,
                ActKind::Ask | ActKind::Reload | ActKind::Zones(_) | ActKind::Resolver(_)
            )
        });
        for crash in &mut self.crashes {
            if matches!(crash.kind, CrashKind::Poison(_)) {
                crash.kind = CrashKind::Kill;
            }
        }
        let stumble = Stumble { step: STEPS[step], manner: MANNERS[manner] };
        let hop = &mut self.hops[number];
        let first = hop.hosts[0];
        let second = SocketAddr::new([10, 1, number as u8 + 1, 2].into(), first.port());
        hop.hosts = vec![first, second];
        hop.connections_max = hop.connections_max.max(2);
        hop.tarpits = usize::from(step == 0 && stumble.manner == Manner::Silent);
        (hop.defers_until_us, hop.down_us, hop.per_second) = (0, (0, 0), 0);
        (hop.is_well, hop.tls, hop.stumble) = (true, None, Some(stumble));
    }
}

impl Plan {
    /// The domains of such a hop.
    #[must_use]
    pub fn stumbling_domains(&self) -> Vec<String> {
        let hops = self.hops.iter().filter(|hop| hop.stumble.is_some());
        hops.flat_map(|hop| hop.domains.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_step_fails_in_every_manner_in_some_world() {
        let plans = (0..4_000).map(Plan::new);
        let stumbles = plans.filter_map(|plan| {
            let hop = plan.hops.iter().find(|hop| hop.stumble.is_some())?;
            assert_eq!(hop.hosts.len(), 2);
            let Stumble { step, manner } = hop.stumble?;
            Some((step as u8, manner as u8))
        });
        let seen: BTreeSet<(u8, u8)> = stumbles.collect();
        assert_eq!(seen.len(), STEPS.len() * MANNERS.len());
    }
}
