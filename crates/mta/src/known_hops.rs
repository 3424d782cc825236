//! What the shards know of next hops together: a hop that one of them finds well is well for all,
//! and waits in one place of a [line](crate::line).
//!
//! Otherwise a shard that has not met a next hop yet would wait among the unknown ones, with slots
//! in its hand that another shard, which knows the hop, could use at once.

use crate::line::Who;
use queue::ReadyKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Next hops that any shard has a ready queue for.
#[derive(Debug, Default)]
pub(crate) struct KnownHops(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_key: BTreeMap<ReadyKey, Known>,
    next_number: u32,
}

impl State {
    /// Whether the same hosts, from the same source, are known to greet.
    fn is_good_otherwise(&self, key: &ReadyKey) -> bool {
        let nothing: Arc<str> = Arc::from("");
        let first = ReadyKey { tls: Arc::clone(&nothing), shaping: nothing, ..key.clone() };
        let mut same = self.by_key.range(first..).take_while(|(other, _)| {
            (&other.source, &other.next_hop) == (&key.source, &key.next_hop)
        });
        same.any(|(_, known)| known.last_opening == Some(true))
    }
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
    /// the first. Before that it is enough that one did to the same hosts from the same source, for mail that
    /// asks for other TLS or has other limits: that they greet hangs on neither. That one did not says nothing:
    /// it may have been for want of TLS.
    pub(crate) fn last_opening(&self, key: &ReadyKey) -> Option<bool> {
        let state = self.lock();
        let own = state.by_key.get(key).and_then(|known| known.last_opening);
        own.or_else(|| state.is_good_otherwise(key).then_some(true))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_greet_are_good_for_mail_that_asks_for_other_tls_too() {
        let hops = KnownHops::default();
        let key = |source: &str, tls: &str| ReadyKey {
            source: source.into(),
            next_hop: "mx:out:a:25".into(),
            tls: tls.into(),
            shaping: "".into(),
        };
        let (plain, strict, other) = (key("", ""), key("", "requiretls"), key("ip-1", ""));
        for known in [&plain, &strict, &other] {
            hops.enter(known);
        }
        hops.note(&strict, false);
        assert_eq!(hops.last_opening(&plain), None, "TLS may be what was missing");
        hops.note(&plain, true);
        assert_eq!(hops.last_opening(&strict), Some(false), "it knows better");
        assert_eq!(hops.last_opening(&other), None, "they may have something against the other");
        hops.leave(&strict);
        hops.enter(&strict);
        assert_eq!(hops.last_opening(&strict), Some(true));
        let far = ReadyKey { next_hop: "mx:out:b:25".into(), ..plain };
        hops.enter(&far);
        assert_eq!(hops.last_opening(&far), None);
    }

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
