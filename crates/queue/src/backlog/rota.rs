//! Those who take turns, whatever the number of entries that each has: whoever has had least comes first, and equals
//! in the order in which they came.

use std::collections::{BTreeMap, BTreeSet};

/// So many of those who left are remembered; then it begins anew.
const LEFT_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Rota<K> {
    /// Those who have entries: how much they have had, and where they stand among equals.
    places: BTreeMap<K, (u64, u64)>,
    order: BTreeSet<(u64, u64, K)>,
    /// How much those who left have had: whose messages come one by one, each to many recipients, waits like others.
    left: BTreeMap<K, u64>,
    /// How much whoever was served last had had: who comes anew counts as one who has had that.
    level: u64,
    next: u64,
}

impl<K: Ord> Default for Rota<K> {
    fn default() -> Rota<K> {
        let (places, order, left) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Rota { places, order, left, level: 0, next: 0 }
    }
}

impl<K: Ord + Copy> Rota<K> {
    /// Whose turn it is.
    pub(super) fn first(&self) -> Option<K> {
        self.order.first().map(|(_, _, key)| *key)
    }

    /// One has entries.
    pub(super) fn enter(&mut self, key: K) {
        if !self.places.contains_key(&key) {
            let had = self.left.remove(&key).unwrap_or(0).max(self.level);
            self.put(key, had);
        }
    }

    fn put(&mut self, key: K, had: u64) {
        self.places.insert(key, (had, self.next));
        self.order.insert((had, self.next, key));
        self.next += 1;
    }

    /// One has no entries any more.
    pub(super) fn leave(&mut self, key: K) {
        let Some((had, number)) = self.places.remove(&key) else { return };
        self.order.remove(&(had, number, key));
        if self.left.len() >= LEFT_MAX {
            let level = self.level;
            self.left.retain(|_, had| *had > level);
            // Who makes up so many pays for it with a round for each.
            if self.left.len() >= LEFT_MAX / 2 {
                self.left.clear();
            }
        }
        self.left.insert(key, had);
    }

    /// One was served.
    pub(super) fn charge(&mut self, key: K, cost: u64) {
        if let Some((had, number)) = self.places.get(&key).copied() {
            self.level = self.level.max(had);
            self.order.remove(&(had, number, key));
            self.put(key, had.saturating_add(cost));
        } else if let Some(had) = self.left.get_mut(&key) {
            self.level = self.level.max(*had);
            *had = had.saturating_add(cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_waits_for_one_round_of_the_others() {
        let mut rota = Rota::default();
        (0..3).for_each(|key| rota.enter(key));
        let turn = |rota: &mut Rota<u8>, cost| {
            let key = rota.first().unwrap();
            rota.charge(key, cost);
            key
        };
        assert_eq!([(); 4].map(|()| turn(&mut rota, 1)), [0, 1, 2, 0]);
        rota.enter(9);
        assert_eq!([(); 5].map(|()| turn(&mut rota, 1)), [1, 2, 9, 0, 1]);
        // Whoever has much at once waits as long.
        assert_eq!(turn(&mut rota, 3), 2);
        assert_eq!([(); 7].map(|()| turn(&mut rota, 1)), [9, 0, 1, 9, 0, 1, 9]);
        assert_eq!([(); 3].map(|()| turn(&mut rota, 1)), [2, 0, 1]);
    }

    #[test]
    fn who_leaves_and_comes_back_is_no_newcomer() {
        let mut rota = Rota::default();
        rota.enter(1);
        rota.enter(2);
        rota.leave(1);
        rota.charge(1, 5);
        rota.enter(1);
        for _ in 0..5 {
            assert_eq!(rota.first(), Some(2));
            rota.charge(2, 1);
        }
        assert_eq!(rota.first(), Some(1));
        // Those who left are forgotten, however many they are.
        for key in 10..10_000 {
            rota.enter(key);
            rota.leave(key);
            rota.charge(key, 100_000);
            assert!(rota.left.len() <= LEFT_MAX);
        }
    }
}
