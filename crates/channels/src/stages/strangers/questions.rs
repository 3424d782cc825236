//! DNS lookups about senders.

use super::super::lookups::{
    CHECKS_TIME_MAX, CheckLimits, LOOKUPS_MAX, LookupQueueSettings, Lookups, Turns,
};
use mail::{Mono, Recent};
use mta::line::SemaphoreLimits;
use mta::seams::World;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Maximum number of concurrent lookups about senders on one shard.
pub(super) const PLACES: u64 = 100;
/// Share of these for one zone, and reserve for zones with an answer within the last hour: one part in four.
const PART: u64 = 4;
/// Time after which an unanswered lookup may be cancelled for a waiting one.
const SOON: Duration = Duration::from_millis(250);
/// Maximum number of zones with a remembered state.
const ZONES_MAX: usize = 16_384;

/// Limits of lookups about one sender. The turns limit their concurrency.
const LIMITS: CheckLimits = CheckLimits {
    time_max: CHECKS_TIME_MAX,
    lookups_max: LOOKUPS_MAX,
    at_once_max: LOOKUPS_MAX as usize,
};

/// The queue of a shard.
pub(super) fn line() -> Turns {
    let part = PLACES / PART;
    let parts = SemaphoreLimits {
        owner_max: part,
        unproven_max: PLACES - part,
        doubtful_max: part,
        ..SemaphoreLimits::equal(PLACES)
    };
    Turns::new(LookupQueueSettings {
        parts,
        zones_max: ZONES_MAX,
        silence: SOON,
        prefers_answered: true,
    })
}

/// DNS lookups about the sender of a message of this client.
pub(super) fn of_sender<'a, W: World>(
    line: &'a Turns,
    world: &'a W,
    client: IpAddr,
) -> Lookups<'a, W> {
    Lookups::within(world, line.by_zone(client), LIMITS)
}

/// Time for which a result is reused. (DNS records are cached by the resolver for their TTL.)
const LASTS: Duration = Duration::from_secs(60);

/// Maximum number of keys.
const KEYS_MAX: usize = 10_000;

/// Expiry and cell of a result.
type MemoEntry<V> = (Mono, Rc<OnceCell<V>>);

/// Cached results by key.
#[derive(Debug)]
pub(super) struct Memo<K, V>(RefCell<Recent<K, MemoEntry<V>>>);

impl<K: Ord, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo(RefCell::new(Recent::new(KEYS_MAX)))
    }
}

impl<K: Ord, V> Memo<K, V> {
    /// The cell for the result of a key: empty, or filled less than a minute ago.
    pub(super) fn place(&self, key: K, now: Mono) -> Rc<OnceCell<V>> {
        let mut known = self.0.borrow_mut();
        if let Some((_, place)) = known.get(&key).filter(|(until, _)| now < *until) {
            return place;
        }
        let place = Rc::<OnceCell<V>>::default();
        known.insert(key, (now + LASTS, Rc::clone(&place)));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_long_nothing_is_found_out_again() {
        let memo = Memo::default();
        let begin = Mono(0);
        memo.place("a", begin).set(1).expect("it is empty");
        assert_eq!(memo.place("a", begin + LASTS - Duration::from_micros(1)).get(), Some(&1));
        assert_eq!(memo.place("a", begin + LASTS).get(), None);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let memo = Memo::default();
        memo.place(0, Mono(0)).set(0).expect("it is empty");
        for key in 1..3 * KEYS_MAX {
            memo.place(key, Mono(0)).set(key).expect("it is empty");
            // What is asked for stays, however many others come.
            assert_eq!(memo.place(0, Mono(0)).get(), Some(&0));
            assert!(memo.0.borrow().len() <= KEYS_MAX);
        }
        assert_eq!(memo.place(1, Mono(0)).get(), None);
    }
}
