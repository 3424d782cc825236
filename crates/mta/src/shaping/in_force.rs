//! The rules in force and their effects, for all shards.

use super::book::{EffectKey, News, Origin, ShapingLedger};
use super::rules::{Rules, Words};
use crate::control::{Effect, Lift};
use crate::watched::{Watched, Watcher};
use config::shaping::Rule;
use mail::Wall;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rules in force and their effects.
#[derive(Debug)]
pub struct RulesInForce {
    state: Mutex<State>,
    /// Effects in force.
    in_force: Watched<Arc<[Effect]>>,
}

#[derive(Debug, Default)]
struct State {
    rules: Arc<Rules>,
    book: ShapingLedger,
}

impl Default for RulesInForce {
    fn default() -> RulesInForce {
        let none: Arc<[Effect]> = Arc::new([]);
        RulesInForce { state: Mutex::default(), in_force: Watched::new(none) }
    }
}

impl RulesInForce {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the effects in force to all followers.
    fn publish(&self, state: &State) {
        let in_force = state.book.effects().filter(|effect| effect.is_in_force());
        self.in_force.set(in_force.cloned().collect());
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.lock().rules)
    }

    /// Replaces the rules; effects of removed rules end.
    pub fn set_rules(&self, rules: Rules) {
        let mut state = self.lock();
        state.rules = Arc::new(rules);
        let rules = Arc::clone(&state.rules);
        if state.book.keep_to(&rules) > 0 {
            self.publish(&state);
        }
    }

    /// Restores the effects that an earlier process stored. Call after [`RulesInForce::set_rules`].
    pub fn restore(&self, effects: Vec<Effect>, now: Wall) {
        let mut state = self.lock();
        state.book.restore(effects);
        let rules = Arc::clone(&state.rules);
        state.book.keep_to(&rules);
        let _ = state.book.advance(now);
        self.publish(&state);
    }

    /// All effects, including those that are over and kept: the state to store for the next process.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        self.lock().book.effects().cloned().collect()
    }

    /// Removes effects, with their history. Returns the number that was in force.
    pub fn lift(&self, lift: &Lift) -> usize {
        let mut state = self.lock();
        let count = state.book.lift(lift);
        self.publish(&state);
        count
    }

    /// Follows the effects in force.
    #[must_use]
    pub fn follow(&self) -> Watcher<Arc<[Effect]>> {
        self.in_force.follow()
    }

    /// Handles a match of a rule.
    pub(crate) fn hear(
        &self,
        now: Wall,
        rule: &Rule,
        key: &EffectKey,
        heard: (Origin<'_>, &Words<'_>),
    ) {
        let mut state = self.lock();
        if state.book.hear(now, rule, key, heard) {
            self.publish(&state);
        }
    }

    /// Counts deliveries from a source to a provider, or to a next hop without provider.
    pub(crate) fn deliver(&self, now: Wall, whom: (Option<&str>, &str, &str), count: u32) {
        let mut state = self.lock();
        if state.book.deliver(now, whom, count) {
            self.publish(&state);
        }
    }

    /// Returns limits that are due. Returns the time of the next change.
    pub(crate) fn advance(&self, now: Wall) -> Option<Wall> {
        let mut state = self.lock();
        let (is_changed, next) = state.book.advance(now);
        if is_changed {
            self.publish(&state);
        }
        next
    }

    /// The number of effects, including those that are over and kept, and true if one was dropped at the limit within
    /// the last hour.
    pub(crate) fn level(&self, now: Wall) -> (usize, bool) {
        let state = self.lock();
        (state.book.effects().count(), state.book.lacked_room(now))
    }

    /// Takes the notices that were not logged yet.
    pub(crate) fn take_news(&self) -> Vec<News> {
        self.lock().book.take_news()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::tests::{rules, words_of};
    use super::*;
    use config::shaping::QUARTERS;

    const TEXT: &str = "[[provider.big.rule]]\nname = \"stop\"\nmatch = \"stop\"\nafter = \"2 in 10m\"\n\
                        action = \"suspend\"\nlasts = \"1h\"\n";

    fn ruled() -> RulesInForce {
        let all = RulesInForce::default();
        all.set_rules(rules(TEXT).unwrap());
        all
    }

    fn hear(all: &RulesInForce, now: u64) {
        let rules = all.rules();
        let rule = rules.named(Some("big"), "stop").unwrap();
        let key = EffectKey {
            rule: rule.name.to_string(),
            provider: Some("big".to_owned()),
            next_hop: None,
            source: Some(String::new()),
            tenant: None,
            campaign: None,
        };
        let words = words_of("mx.big.test", "450 stop");
        let from = Origin { next_hop: "mx:big", domain: None };
        all.hear(Wall(now), rule, &key, (from, &words));
    }

    #[test]
    fn shards_count_together_and_all_who_follow_are_told() {
        let all = ruled();
        let mut changes = all.follow();
        // Each shard matches it once.
        (0..2).for_each(|shard| hear(&all, shard));
        assert!(changes.has_changed());
        let in_force = changes.see();
        assert_eq!((in_force.len(), &*in_force[0].rule), (1, "stop"));
        assert!(matches!(&all.take_news()[..], [News::Began(_)]));
        // No change: no follower is notified.
        assert_eq!(all.advance(Wall(1_000)), Some(in_force[0].until));
        assert!(!changes.has_changed());
        assert_eq!((all.lift(&Lift::default()), changes.see().len()), (1, 0));
    }

    #[test]
    fn an_earlier_process_s_effects_are_in_force_for_what_is_left_of_their_time() {
        let first = ruled();
        (0..2).for_each(|now| hear(&first, now));
        let kept = first.effects();
        let until = kept[0].until;
        for (now, in_force, known) in [(2, 1, 1), (until.0, 0, 1), (until.0 + 3_600_000, 0, 0)] {
            let second = ruled();
            second.restore(kept.clone(), Wall(now));
            assert_eq!((second.follow().get().len(), second.effects().len()), (in_force, known));
        }
        let other = RulesInForce::default();
        other.restore(kept.clone(), Wall(2));
        assert!(other.effects().is_empty(), "no such rule any more");
        // Effects that are over are also kept over the restart.
        let second = ruled();
        second.restore(kept, Wall(until.0));
        assert_eq!(second.effects()[0].returned, QUARTERS);
        (0..2).for_each(|_| hear(&second, until.0 + 1));
        assert_eq!(second.effects()[0].step, 2);
    }
}
