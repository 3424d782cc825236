//! What was found out lately, once for all who want to know at the same time.

use mail::{Mono, Recent};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// So long nothing is found out again. (What the DNS says is kept by the resolver for as long as it
/// says itself.)
const LASTS: Duration = Duration::from_secs(60);

/// Keys at once.
const KEYS_MAX: usize = 10_000;

/// Until when a finding lasts, and its place.
type Finding<V> = (Mono, Rc<OnceCell<V>>);

/// Findings by keys.
#[derive(Debug)]
pub(super) struct Memo<K, V>(RefCell<Recent<K, Finding<V>>>);

impl<K: Ord, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo(RefCell::new(Recent::new(KEYS_MAX)))
    }
}

impl<K: Ord, V> Memo<K, V> {
    /// The place for what is found out of a key: empty, or filled less than a minute ago.
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
