//! Recently used values in two generations: a bounded cache that keeps all values in use.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Values by key, bounded in number and total weight. A value is dropped if it is not used while half of that arrives.
/// The store is a tree, so that clients that choose keys cannot slow it down.
#[derive(Debug)]
pub struct Recent<K, V> {
    young: Generation<K, V>,
    /// The previous young generation; values not used again are dropped next.
    old: Generation<K, V>,
    max: usize,
    weight_max: usize,
}

/// Values inserted or used at about the same time.
#[derive(Debug)]
pub struct Generation<K, V> {
    values: BTreeMap<K, (V, usize)>,
    weight: usize,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Generation<K, V> {
        Generation { values: BTreeMap::new(), weight: 0 }
    }
}

impl<K: Ord, V> Generation<K, V> {
    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, (V, usize))>
    where
        K: Borrow<Q>,
    {
        let removed = self.values.remove_entry(key);
        self.weight -= removed.as_ref().map_or(0, |(_, (_, weight))| *weight);
        removed
    }
}

impl<K: Ord, V> Recent<K, V> {
    /// An empty cache of at most `max` values.
    #[must_use]
    pub fn new(max: usize) -> Recent<K, V> {
        Recent::weighing(max, 0)
    }

    /// The same, with a total weight of at most `weight_max`.
    #[must_use]
    pub fn weighing(max: usize, weight_max: usize) -> Recent<K, V> {
        Recent { young: Generation::default(), old: Generation::default(), max, weight_max }
    }

    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        drop(self.touch(key));
        self.peek(key).cloned()
    }

    /// As `get`, but does not mark the entry as used.
    #[must_use]
    pub fn peek<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let found = self.young.values.get(key).or_else(|| self.old.values.get(key));
        found.map(|(value, _)| value)
    }

    /// Extends the life of a key. Returns dropped values, possibly many.
    pub fn touch<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<Generation<K, V>>
    where
        K: Borrow<Q>,
    {
        let (key, (value, weight)) = self.old.remove(key)?;
        self.insert_weighing(key, value, weight)
    }

    /// Remembers a value.
    pub fn insert(&mut self, key: K, value: V) {
        drop(self.insert_weighing(key, value, 0));
    }

    /// Inserts a value of this weight. Returns dropped values.
    pub fn insert_weighing(&mut self, key: K, value: V, weight: usize) -> Option<Generation<K, V>> {
        drop(self.remove(&key));
        let is_full = self.young.values.len() >= self.max / 2
            || self.young.weight + weight > self.weight_max / 2;
        let gone =
            is_full.then(|| std::mem::replace(&mut self.old, std::mem::take(&mut self.young)));
        self.young.weight += weight;
        self.young.values.insert(key, (value, weight));
        gone
    }

    /// Forgets a key.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let removed = self.young.remove(key).or_else(|| self.old.remove(key));
        removed.map(|(_, (value, _))| value)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.values.len() + self.old.values.len()
    }

    /// Their weight.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.young.weight + self.old.weight
    }

    /// Returns true if empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_no_more_than_may_be() {
        let mut recent = Recent::<u32, u32>::new(100);
        for n in 0..1_000 {
            recent.insert(n, n + 1);
            assert_eq!(recent.get(&0), Some(1), "{n}");
            assert!(recent.len() <= 100 && !recent.is_empty(), "{n}");
        }
        assert_eq!(recent.get(&1), None);
        assert_eq!(recent.get(&999), Some(1_000));
    }

    #[test]
    fn no_more_weight_is_remembered_than_may_be() {
        let mut recent = Recent::<u32, u32>::weighing(100, 1_000);
        for n in 0..1_000 {
            recent.insert_weighing(n, n, 90);
            assert_eq!(recent.get(&0), Some(0), "{n}");
            assert!(recent.weight() <= 1_000 && recent.weight() == 90 * recent.len(), "{n}");
        }
        // A value that comes again counts once, in whichever generation it was.
        let before = (recent.len(), recent.weight());
        recent.insert_weighing(0, 1, 90);
        recent.insert_weighing(999, 1, 80);
        assert_eq!((recent.len(), recent.weight()), (before.0, before.1 - 10));
        assert_eq!(recent.remove(&0), Some(1));
        assert_eq!((recent.peek(&0), recent.weight()), (None, before.1 - 100));
    }
}
