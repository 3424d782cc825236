//! APDUs that nobody can read, which are held for an operator: each peer may leave some.

use mail::Mono;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// So many of one peer are held within an hour, by each shard; what comes beyond stays with the peer.
pub(super) const UNREADABLE_PER_HOUR: u32 = 100;
const HOUR: Duration = Duration::from_secs(3_600);

/// How many were taken of each peer of the configuration, since when.
#[derive(Debug, Default)]
pub(super) struct Unreadable(RefCell<BTreeMap<Arc<str>, (Mono, u32)>>);

impl Unreadable {
    /// Whether one more may be held.
    pub(super) fn admit(&self, peer: &Arc<str>, now: Mono) -> bool {
        let mut known = self.0.borrow_mut();
        let (since, count) = known.entry(Arc::clone(peer)).or_insert((now, 0));
        if now >= *since + HOUR {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= UNREADABLE_PER_HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_its_own_and_an_hour_later_more() {
        let (unreadable, [one, other]) = (Unreadable::default(), ["a", "b"].map(Arc::from));
        let start = Mono(1);
        for _ in 0..UNREADABLE_PER_HOUR {
            assert!(unreadable.admit(&one, start));
        }
        assert!(!unreadable.admit(&one, start) && unreadable.admit(&other, start));
        assert!(!unreadable.admit(&one, start + HOUR - Duration::from_micros(1)));
        assert!(unreadable.admit(&one, start + HOUR));
    }
}
