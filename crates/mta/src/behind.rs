//! What waits behind workers that are all busy. A ready queue has its part of them: what waits there waits in no line.

use mail::Mono;
use queue::ReadyId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A message that waited for so long waits for want of workers.
pub(crate) const BEHIND_AFTER: Duration = Duration::from_secs(1);
/// Each worker notes it so often, so that no lock is taken for each message.
pub(crate) const NOTED_EVERY: Duration = Duration::from_millis(500);
/// What was not noted again for so long is over.
const LASTS: Duration = Duration::from_secs(5);

/// By shard and ready queue.
type Key = (u16, ReadyId);

#[derive(Debug, Default)]
pub(crate) struct Behind(Mutex<BTreeMap<Key, (u32, Mono)>>);

impl Behind {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (u32, Mono)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many wait there now.
    pub(crate) fn note(&self, shard: u16, ready: ReadyId, count: u32, now: Mono) {
        let mut all = self.lock();
        all.retain(|_, (_, at)| now.since(*at) < LASTS);
        all.insert((shard, ready), (count, now));
    }

    /// How many wait now.
    pub(crate) fn waiting(&self, now: Mono) -> u64 {
        let all = self.lock();
        let fresh = all.values().filter(|(_, at)| now.since(*at) < LASTS);
        fresh.map(|(count, _)| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_counted_while_it_is_noted() {
        let behind = Behind::default();
        let second = |n: u64| Mono(n * 1_000_000);
        let waiting = |n| behind.waiting(second(n));
        behind.note(0, ReadyId(1), 7, second(0));
        behind.note(1, ReadyId(1), 5, second(2));
        behind.note(0, ReadyId(1), 3, second(2));
        assert_eq!((waiting(2), waiting(6), waiting(7)), (8, 8, 0));
        behind.note(0, ReadyId(9), 1, second(8));
        assert_eq!((waiting(8), behind.lock().len()), (1, 1));
    }
}
