//! What the shards know of next hops together: a hop that one of them finds well is well for all,
//! and waits in one place of a [line](crate::line).
//!
//! Otherwise a shard that has not met a next hop yet would wait among the unknown ones, with slots
//! in its hand that another shard, which knows the hop, could use at once.

use crate::line::Who;
use queue::ReadyKey;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Next hops that any shard has a ready queue for.
#[derive(Debug, Default)]
pub(crate) struct KnownHops(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_key: BTreeMap<ReadyKey, Known>,
    next_number: u32,
}

#[derive(Debug)]
struct Known {
    who: Who,
    /// Shards that have a ready queue for it.
    shards: u16,
    last_opening: Option<bool>,
}

impl KnownHops {
    /// A shard has a ready queue for this one from now on: what it is called in lines.
    pub(crate) fn enter(&self, key: &ReadyKey) -> Who {
        let mut state = self.lock();
        if let Some(known) = state.by_key.get_mut(key) {
            known.shards = known.shards.saturating_add(1);
            return known.who;
        }
        let who = Who::hop(state.next_number);
        state.next_number = state.next_number.wrapping_add(1);
        state.by_key.insert(key.clone(), Known { who, shards: 1, last_opening: None });
        who
    }

    /// A shard has forgotten its ready queue; after the last, nothing is known any more.
    pub(crate) fn leave(&self, key: &ReadyKey) {
        let mut state = self.lock();
        let Some(known) = state.by_key.get_mut(key) else { return };
        known.shards = known.shards.saturating_sub(1);
        if known.shards == 0 {
            state.by_key.remove(key);
        }
    }

    /// A connection was opened, or could not be.
    pub(crate) fn note(&self, key: &ReadyKey, opened: bool) {
        if let Some(known) = self.lock().by_key.get_mut(key) {
            known.last_opening = Some(opened);
        }
    }

    /// Whether the last connection that any shard opened got as far as a greeting; `None` before
    /// the first.
    pub(crate) fn last_opening(&self, key: &ReadyKey) -> Option<bool> {
        self.lock().by_key.get(key).and_then(|known| known.last_opening)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_shard_learns_all_know_until_the_last_forgets() {
        let hops = KnownHops::default();
        let key = |hop: &str| ReadyKey {
            source: "".into(),
            next_hop: hop.into(),
            tls: "".into(),
            shaping: "".into(),
        };
        let (one, other) = (key("smtp:a"), key("smtp:b"));
        let who = hops.enter(&one);
        assert_eq!(hops.enter(&one), who, "one place for all shards");
        assert_ne!(hops.enter(&other), who);
        assert_eq!(hops.last_opening(&one), None);
        hops.note(&one, true);
        assert_eq!((hops.last_opening(&one), hops.last_opening(&other)), (Some(true), None));
        hops.note(&one, false);
        hops.leave(&one);
        assert_eq!(hops.last_opening(&one), Some(false), "the other shard is still there");
        hops.leave(&one);
        assert_eq!(hops.last_opening(&one), None);
        hops.note(&one, true);
        assert_eq!(hops.last_opening(&one), None, "nobody has a queue for it");
    }
}
