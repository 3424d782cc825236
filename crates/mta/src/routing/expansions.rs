//! Cache of large list expansions, finished or running. Each list is expanded once, regardless of the number of
//! recipients that name it.

use crate::facts::Owner;
use crate::watched::{Watched, Watcher};
use lookup::Entry;
use mail::{Mailbox, Mono, Refusal};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Lifetime of an entry: the time that a list file may be out of date (`docs/aliases.md`).
const LASTS: Duration = Duration::from_secs(5);
/// A list with fewer members is expanded each time.
const MEMBERS_MIN: usize = 50;
/// Members in all cached lists. The oldest list is evicted first.
const MEMBERS_MAX: usize = 40_000;

/// A member, with the owner of the list that contains it.
pub(crate) type Expanded = (Mailbox, Option<Arc<Owner>>);

/// The route with the `aliases` table, and the list's address.
type AliasListKey = (usize, Mailbox);

/// The members of a list, or the refusal.
pub(crate) type ExpansionResult = Result<Rc<[Expanded]>, Refusal>;

/// The pending result of a running expansion.
pub(crate) type Awaited = Watcher<Option<ExpansionResult>>;

/// The lists of one shard, for the lifetime of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Expansions {
    known: RefCell<VecDeque<CachedExpansion>>,
    /// Running expansions, each with the list's table entry.
    under_way: RefCell<BTreeMap<AliasListKey, (Arc<Entry>, Awaited)>>,
}

#[derive(Debug)]
struct CachedExpansion {
    key: AliasListKey,
    /// The list's table entry.
    entry: Arc<Entry>,
    outcome: ExpansionResult,
    until: Mono,
}

impl Expansions {
    /// The cached result, if the table entry is unchanged.
    pub(crate) fn get(
        &self,
        key: &AliasListKey,
        entry: &Entry,
        now: Mono,
    ) -> Option<ExpansionResult> {
        let known = self.known.borrow();
        let known = known.iter().find(|known| known.key == *key)?;
        let is_same = known.until > now && *known.entry == *entry;
        is_same.then(|| known.outcome.clone())
    }

    /// Caches a list, if it is large.
    pub(crate) fn keep(
        &self,
        key: AliasListKey,
        entry: Arc<Entry>,
        members: &Rc<[Expanded]>,
        now: Mono,
    ) {
        if (MEMBERS_MIN..=MEMBERS_MAX).contains(&members.len()) {
            self.remember(key, entry, Ok(Rc::clone(members)), now);
        }
    }

    /// Caches the refusal of a list.
    pub(crate) fn keep_refused(
        &self,
        key: AliasListKey,
        entry: Arc<Entry>,
        refusal: Refusal,
        now: Mono,
    ) {
        self.remember(key, entry, Err(refusal), now);
    }

    fn remember(&self, key: AliasListKey, entry: Arc<Entry>, outcome: ExpansionResult, now: Mono) {
        let size = |outcome: &ExpansionResult| outcome.as_ref().map_or(1, |members| members.len());
        let mut all = self.known.borrow_mut();
        all.retain(|known| known.key != key && known.until > now);
        let mut count: usize = all.iter().map(|known| size(&known.outcome)).sum();
        while count + size(&outcome) > MEMBERS_MAX
            && let Some(oldest) = all.pop_front()
        {
            count -= size(&oldest.outcome);
        }
        all.push_back(CachedExpansion { key, entry, outcome, until: now + LASTS });
    }

    /// The running expansion of a list with the same table entry.
    pub(crate) fn under_way(&self, key: &AliasListKey, entry: &Entry) -> Option<Awaited> {
        let all = self.under_way.borrow();
        let (of, awaited) = all.get(key)?;
        (**of == *entry).then(|| awaited.clone())
    }

    /// Begins an expansion, which lasts until [`Expansions::end`].
    pub(crate) fn begin(
        &self,
        key: &AliasListKey,
        entry: &Arc<Entry>,
    ) -> Watched<Option<ExpansionResult>> {
        let begun = Watched::new(None);
        let awaited = begun.follow();
        self.under_way.borrow_mut().insert(key.clone(), (Arc::clone(entry), awaited));
        begun
    }

    /// Ends an expansion.
    pub(crate) fn end(&self, key: &AliasListKey, entry: &Arc<Entry>) {
        let mut all = self.under_way.borrow_mut();
        // An expansion of a newer table entry may run already and stays.
        if all.get(key).is_some_and(|(of, _)| Arc::ptr_eq(of, entry)) {
            all.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> Rc<[Expanded]> {
        let one = |n| (Mailbox::parse(&format!("m{n}@x.test"), false).unwrap(), None);
        (0..count).map(one).collect()
    }

    fn key(name: &str) -> AliasListKey {
        (0, Mailbox::parse(name, false).unwrap())
    }

    #[test]
    fn large_lists_are_known_for_a_moment_and_as_their_table_has_them() {
        let known = Expansions::default();
        let (entry, other) = (Arc::new(Entry::text("a")), Arc::new(Entry::text("b")));
        let keep = |name, count, now| known.keep(key(name), Arc::clone(&entry), &list(count), now);
        let len = |name, entry: &Entry, now| {
            known.get(&key(name), entry, now).map(|outcome| outcome.expect("members").len())
        };
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
        let refusal = Refusal::transient((3, 5), "No");
        known.keep_refused(key("bad@x.test"), Arc::clone(&entry), refusal.clone(), Mono(3));
        assert_eq!(known.get(&key("bad@x.test"), &entry, Mono(3)), Some(Err(refusal)));
    }

    #[test]
    fn lists_are_expanded_once_as_their_tables_have_them() {
        let lists = Expansions::default();
        let (list, entry, other) =
            (key("all@x.test"), Arc::new(Entry::text("a")), Arc::new(Entry::text("b")));
        assert!(lists.under_way(&list, &entry).is_none());
        let begun = lists.begin(&list, &entry);
        let awaited = lists.under_way(&list, &entry).expect("it is under way");
        assert!(lists.under_way(&list, &other).is_none());
        let next = lists.begin(&list, &other);
        lists.end(&list, &entry);
        begun.set(Some(Ok(super::tests::list(3))));
        let outcome = awaited.get();
        assert_eq!(outcome.expect("it is over").expect("members").len(), 3);
        assert!(lists.under_way(&list, &other).is_some(), "the other is under way still");
        lists.end(&list, &other);
        assert!(lists.under_way(&list, &other).is_none() && lists.under_way.borrow().is_empty());
        drop(next);
    }
}
