//! The order of writing if more messages wait than one batch holds. As at next hops, messages of our own clients and of
//! unauthenticated clients alternate. Among the latter, networks of the size that one customer may have take turns, and
//! client networks within them.

use queue::Origin;
use std::collections::VecDeque;

/// Neither side is owed more turns.
const OWED_MAX: i64 = 1_024;

/// Fair turns between waiting clients.
#[derive(Debug, Default)]
pub(super) struct FairTurns {
    strangers: mail::Turns<u16, u16, VecDeque<usize>>,
    /// Lead of unauthenticated clients over our own, counted while both waited.
    ahead: i64,
}

/// Iterates over waiting jobs in turn, by their index in order of arrival.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    turns: &'a mut FairTurns,
    ours: VecDeque<usize>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        turns: &'a mut FairTurns,
        waiting: impl Iterator<Item = (usize, Origin)>,
    ) -> Walk<'a> {
        // Jobs that waited before keep their positions, with new index numbers.
        turns.strangers.change_all(|numbers| {
            numbers.clear();
            false
        });
        let mut walk = Walk { turns, ours: VecDeque::new() };
        for (number, origin) in waiting {
            match origin.parts() {
                None => walk.ours.push_back(number),
                Some((site, network)) => {
                    walk.turns.strangers.enter(site, network).push_back(number);
                }
            }
        }
        walk.turns.strangers.change_all(|numbers| numbers.is_empty());
        walk
    }

    /// Offers the next job to `take`, which returns true if it takes the job now. A job not taken does not use up its
    /// turn. `None` if no job is left.
    pub(super) fn next(&mut self, take: impl FnOnce(usize) -> bool) -> Option<()> {
        let FairTurns { strangers, ahead } = &mut *self.turns;
        let first = strangers.first().filter(|_| *ahead < 0 || self.ours.is_empty());
        let Some((site, network, _)) = first else {
            let is_taken = take(self.ours.pop_front()?);
            let is_alone = strangers.is_empty();
            self.turns.count(is_taken, -1, is_alone);
            return Some(());
        };
        let mut is_taken = false;
        strangers.change(site, network, |numbers| {
            is_taken = numbers.pop_front().is_some_and(take);
            numbers.is_empty()
        });
        if is_taken {
            strangers.charge(site, network, 1);
        }
        self.turns.count(is_taken, 1, self.ours.is_empty());
        Some(())
    }
}

impl FairTurns {
    fn count(&mut self, is_taken: bool, turn: i64, is_alone: bool) {
        match (is_taken, is_alone) {
            (true, true) => self.ahead = 0,
            (true, false) => {
                let ahead = self.ahead.saturating_add(turn);
                self.ahead = ahead.clamp(-OWED_MAX, OWED_MAX);
            }
            (false, _) => {}
        }
    }
}
