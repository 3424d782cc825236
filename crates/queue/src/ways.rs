//! Ready queues over which the entries of a scheduled queue are spread: one per source, and usually one.
//!
//! The choice is a function of the message (weighted rendezvous hashing, Schindelhauer and Schomaker 2005). On average
//! each source gets the share of its weight. A retry uses the same source, even after a restart. If a source is closed,
//! only its entries move.

use crate::ReadyId;
use mail::MessageId;
use mail::random::nth;
use smallvec::SmallVec;

/// Hash of an entry, the same for every attempt and in every process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn new(id: MessageId, recipient: u32) -> Mark {
        Mark(nth(id.0, u64::from(recipient)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    ready: ReadyId,
    weight: u32,
    tier: u8,
    /// The same for a source in every process.
    salt: u64,
}

/// Ready queues of a scheduled queue; at least one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways(SmallVec<[Choice; 1]>);

impl Ways {
    /// `salt` represents the source.
    pub(crate) fn add(&mut self, ready: ReadyId, (weight, tier): (u32, u8), salt: u64) {
        self.0.push(Choice { ready, weight: weight.max(1), tier, salt });
    }

    /// The ready queues of lower tiers.
    pub(crate) fn before(&self, ready: ReadyId) -> impl Iterator<Item = ReadyId> + '_ {
        let tier = self.0.iter().find(|choice| choice.ready == ready).map_or(0, |own| own.tier);
        self.0.iter().filter(move |choice| choice.tier < tier).map(|choice| choice.ready)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ReadyId> + '_ {
        self.0.iter().map(|choice| choice.ready)
    }

    pub(crate) fn contains(&self, ready: ReadyId) -> bool {
        self.iter().any(|own| own == ready)
    }

    /// Returns true if a choice exists.
    pub(crate) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The ready queue of an entry: among the open ones of the lowest tier, or among all if none is open.
    pub(crate) fn choose(&self, mark: Mark, is_open: impl Fn(ReadyId) -> bool) -> Option<ReadyId> {
        if let [only] = &self.0[..] {
            return Some(only.ready);
        }
        let rank = |choice: &&Choice| {
            // In (0, 1): exponentially distributed waits, of which the shortest wins.
            let part = ((nth(mark.0, choice.salt) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            -part.ln() / f64::from(choice.weight)
        };
        let least = |one: &&Choice, other: &&Choice| {
            one.tier.cmp(&other.tier).then_with(|| rank(one).total_cmp(&rank(other)))
        };
        let open = self.0.iter().filter(|choice| is_open(choice.ready)).min_by(least);
        open.or_else(|| self.0.iter().min_by(least)).map(|choice| choice.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(weights: &[(&str, u32)]) -> Ways {
        let mut ways = Ways::default();
        for ((source, weight), number) in weights.iter().zip(0..) {
            let salt = source.bytes().fold(7, |salt, byte| nth(salt, byte.into()));
            ways.add(ReadyId(number), (*weight, 0), salt);
        }
        ways
    }

    fn taken(ways: &Ways, is_open: impl Fn(ReadyId) -> bool) -> Vec<ReadyId> {
        let marks = (0..40_000).map(|id| Mark::new(MessageId(id), 0));
        marks.map(|mark| ways.choose(mark, &is_open).unwrap()).collect()
    }

    fn part(taken: &[ReadyId], way: u32) -> f64 {
        taken.iter().filter(|ready| ready.0 == way).count() as f64 / taken.len() as f64
    }

    #[test]
    fn each_way_gets_its_weight_s_part() {
        let taken = taken(&ways(&[("ip-1", 3), ("ip-2", 1)]), |_| true);
        assert!((part(&taken, 0) - 0.75).abs() < 0.01, "{}", part(&taken, 0));
        assert!((part(&taken, 1) - 0.25).abs() < 0.01);
    }

    #[test]
    fn recipients_of_one_message_are_spread_too() {
        let ways = ways(&[("ip-1", 1), ("ip-2", 1)]);
        let marks = (0..1_000).map(|recipient| Mark::new(MessageId(7), recipient));
        let first = marks.filter(|mark| ways.choose(*mark, |_| true) == Some(ReadyId(0))).count();
        assert!((400..600).contains(&first), "{first}");
    }

    #[test]
    fn only_what_goes_a_way_that_is_out_goes_another() {
        let ways = ways(&[("ip-1", 2), ("ip-2", 1), ("ip-3", 1)]);
        let (before, without) = (taken(&ways, |_| true), taken(&ways, |way| way.0 != 0));
        for (before, after) in before.iter().zip(&without) {
            assert!(after.0 != 0 && (before.0 == 0 || before == after));
        }
        assert!((part(&without, 1) - 0.5).abs() < 0.02, "its part is shared out by weight");
        // Where all are out each waits on its own.
        assert_eq!(taken(&ways, |_| false), before);
    }

    #[test]
    fn higher_tier_serves_while_lower_is_closed() {
        let mut ways = Ways::default();
        for (number, tier) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            ways.add(ReadyId(number), (1, tier), number.into());
        }
        let taken = |closed: &[u32]| {
            let taken = taken(&ways, |way| !closed.contains(&way.0));
            taken.iter().map(|way| way.0).collect::<std::collections::BTreeSet<u32>>()
        };
        assert_eq!(taken(&[]), [0, 1].into());
        assert_eq!(taken(&[1]), [0].into());
        assert_eq!(taken(&[0, 1]), [2].into());
        assert_eq!(taken(&[0, 1, 2]), [3].into());
        assert_eq!(taken(&[0, 1, 2, 3]), [0, 1].into(), "each waits at its first choice");
        let before: Vec<ReadyId> = ways.before(ReadyId(3)).collect();
        assert_eq!(before, [ReadyId(0), ReadyId(1), ReadyId(2)]);
        assert_eq!(ways.before(ReadyId(1)).count(), 0);
    }

    #[test]
    fn the_order_and_the_numbers_of_ways_change_nothing() {
        let (one, other) = (ways(&[("a", 1), ("b", 1)]), ways(&[("b", 1), ("a", 1)]));
        let (one, other) = (taken(&one, |_| true), taken(&other, |_| true));
        assert!(one.iter().zip(&other).all(|(one, other)| one.0 != other.0));
    }
}
