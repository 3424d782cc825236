//! What became of entries since the file was written.

use super::item::{Id, Item};
use std::collections::{BTreeMap, BTreeSet};

/// Entries that are others than in the file.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// `None`: it is gone.
    items: BTreeMap<Id, Option<Item>>,
    by_key: BTreeMap<Box<str>, BTreeSet<Id>>,
    /// How far the server has told us, if that is further than the file.
    pub(super) cookie: Option<Vec<u8>>,
    /// Neither that nor the file's is of any use to the server.
    pub(super) is_lost: bool,
    /// How many entries more there are than in the file, or fewer.
    pub(super) more: i64,
}

impl Overlay {
    /// An entry has come or has changed, or it is gone.
    pub(super) fn put(&mut self, id: Id, item: Option<Item>) {
        let keys = |item: &Option<Item>| item.as_ref().map(|item| item.keys.clone());
        for key in keys(&item).into_iter().flatten() {
            self.by_key.entry(key).or_default().insert(id);
        }
        let fresh: BTreeSet<Box<str>> = keys(&item).into_iter().flatten().collect();
        let before = self.items.insert(id, item).flatten();
        for key in before.into_iter().flat_map(|before| before.keys) {
            if fresh.contains(&key) {
                continue;
            }
            if let Some(ids) = self.by_key.get_mut(&key) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// Whether the file's word on an entry counts no more.
    pub(super) fn has(&self, id: &Id) -> bool {
        self.items.contains_key(id)
    }

    /// Whether an entry is there; `None`: nothing is known of it but what the file says.
    pub(super) fn knows(&self, id: &Id) -> Option<bool> {
        self.items.get(id).map(Option::is_some)
    }

    /// The entries that are there now, of those that have come or changed.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values().flatten()
    }

    /// Those of them that a key finds.
    pub(super) fn of_key(&self, key: &str) -> impl Iterator<Item = &Item> {
        let ids = self.by_key.get(key).into_iter().flatten();
        ids.filter_map(|id| self.items.get(id)?.as_ref())
    }

    /// Entries that it speaks of.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: u8, keys: &[&str]) -> Item {
        let keys = keys.iter().map(|key| Box::from(*key)).collect();
        Item { id: [id; 16], keys, fields: Box::default() }
    }

    #[test]
    fn the_last_word_counts() {
        let mut overlay = Overlay::default();
        let ids = |overlay: &Overlay, key: &str| {
            overlay.of_key(key).map(|item| item.id[0]).collect::<Vec<_>>()
        };
        overlay.put([1; 16], Some(item(1, &["a", "b"])));
        overlay.put([2; 16], Some(item(2, &["b"])));
        assert_eq!((ids(&overlay, "a"), ids(&overlay, "b")), (vec![1], vec![1, 2]));
        overlay.put([1; 16], Some(item(1, &["b", "c"])));
        assert_eq!((ids(&overlay, "a"), ids(&overlay, "b")), (vec![], vec![1, 2]));
        assert_eq!(ids(&overlay, "c"), [1]);
        overlay.put([1; 16], None);
        assert_eq!((ids(&overlay, "b"), ids(&overlay, "c")), (vec![2], vec![]));
        assert!(overlay.has(&[1; 16]) && !overlay.has(&[3; 16]));
        assert_eq!((overlay.len(), overlay.items().count(), overlay.by_key.len()), (2, 1, 1));
    }
}
