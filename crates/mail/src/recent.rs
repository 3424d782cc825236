//! What was asked for lately, in two generations: a bounded memory that forgets nothing in use.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Values by key, at most so many; what is not asked for while half as many others come is forgotten. In a
/// tree: a stranger who chooses the keys can't make it slow.
#[derive(Debug)]
pub struct Recent<K, V> {
    young: BTreeMap<K, V>,
    /// What was young before; what is not asked for again goes next.
    old: BTreeMap<K, V>,
    max: usize,
}

impl<K: Ord, V: Clone> Recent<K, V> {
    /// Remembers nothing yet, and never more than `max`.
    #[must_use]
    pub fn new(max: usize) -> Recent<K, V> {
        Recent { young: BTreeMap::new(), old: BTreeMap::new(), max }
    }

    /// What is remembered of a key.
    pub fn get<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    /// Remembers a value.
    pub fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.max / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// How many are remembered now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether none is.
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
}
