//! Large lists that were expanded a moment ago: whoever names one again and again costs that once.

use crate::meta::Owner;
use lookup::Entry;
use mail::{Mailbox, Mono};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// As long as a file of a list may be out of date (`docs/aliases.md`).
const LASTS: Duration = Duration::from_secs(5);
/// A list with fewer members is expanded each time.
const MEMBERS_MIN: usize = 50;
/// Members of all lists that are remembered; the oldest list is forgotten first.
const MEMBERS_MAX: usize = 40_000;

/// A member, and who answers for the list that has it.
pub(crate) type Expanded = (Mailbox, Option<Arc<Owner>>);

/// The route whose `aliases` have the list, and its address.
type Key = (usize, Mailbox);

/// The lists of one shard, while the configuration stays.
#[derive(Debug, Default)]
pub(crate) struct Expansions(RefCell<VecDeque<Known>>);

#[derive(Debug)]
struct Known {
    key: Key,
    /// What the table says of the list.
    entry: Arc<Entry>,
    members: Rc<[Expanded]>,
    until: Mono,
}

impl Expansions {
    /// The members of a list of which its table still says the same.
    pub(crate) fn get(&self, key: &Key, entry: &Entry, now: Mono) -> Option<Rc<[Expanded]>> {
        let known = self.0.borrow();
        let known = known.iter().find(|known| known.key == *key)?;
        let is_same = known.until > now && *known.entry == *entry;
        is_same.then(|| Rc::clone(&known.members))
    }

    /// Remembers a list, if it is large.
    pub(crate) fn keep(&self, key: Key, entry: Arc<Entry>, members: &Rc<[Expanded]>, now: Mono) {
        if !(MEMBERS_MIN..=MEMBERS_MAX).contains(&members.len()) {
            return;
        }
        let mut all = self.0.borrow_mut();
        all.retain(|known| known.key != key && known.until > now);
        let mut count: usize = all.iter().map(|known| known.members.len()).sum();
        while count + members.len() > MEMBERS_MAX
            && let Some(oldest) = all.pop_front()
        {
            count -= oldest.members.len();
        }
        all.push_back(Known { key, entry, members: Rc::clone(members), until: now + LASTS });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> Rc<[Expanded]> {
        let one = |n| (Mailbox::parse(&format!("m{n}@x.test"), false).unwrap(), None);
        (0..count).map(one).collect()
    }

    fn key(name: &str) -> Key {
        (0, Mailbox::parse(name, false).unwrap())
    }

    #[test]
    fn large_lists_are_known_for_a_moment_and_as_their_table_has_them() {
        let known = Expansions::default();
        let (entry, other) = (Arc::new(Entry::text("a")), Arc::new(Entry::text("b")));
        let keep = |name, count, now| known.keep(key(name), Arc::clone(&entry), &list(count), now);
        let len = |name, entry: &Entry, now| known.get(&key(name), entry, now).map(|m| m.len());
        keep("small@x.test", MEMBERS_MIN - 1, Mono(1));
        assert_eq!(len("small@x.test", &entry, Mono(1)), None);
        keep("all@x.test", MEMBERS_MIN, Mono(1));
        assert_eq!(len("all@x.test", &entry, Mono(1)), Some(MEMBERS_MIN));
        assert_eq!(len("all@x.test", &other, Mono(1)), None, "the table says another thing");
        let over = Mono(1) + LASTS;
        assert_eq!(len("all@x.test", &entry, Mono(over.0 - 1)), Some(MEMBERS_MIN));
        assert_eq!(len("all@x.test", &entry, over), None);
        // The oldest goes where there are too many.
        keep("one@x.test", MEMBERS_MAX / 2, Mono(1));
        keep("two@x.test", MEMBERS_MAX / 2, Mono(2));
        assert_eq!(len("all@x.test", &entry, Mono(2)), None);
        keep("three@x.test", MEMBERS_MAX / 2 + 1, Mono(3));
        assert_eq!(
            (len("one@x.test", &entry, Mono(3)), len("two@x.test", &entry, Mono(3))),
            (None, None)
        );
        assert_eq!(len("three@x.test", &entry, Mono(3)), Some(MEMBERS_MAX / 2 + 1));
    }
}
