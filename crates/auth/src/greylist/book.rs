//! All greylist records, in memory, and the changes to store.

use super::key::{of_client, of_triplet};
use super::{GreylistPolicy, GreylistResult, Key, Record, State, Triplet};
use mail::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Triplets and clients that are known at once. About a hundred octets each.
pub const ENTRIES_MAX: usize = 500_000;

/// Number of records examined for each new one. Keys are hashes, so the choice is random.
const LOOKED_AT: usize = 8;

/// Minimum interval for counting a client's triplets: a burst proves no more than one.
const COUNTED_EVERY: Duration = Duration::from_secs(3_600);

/// Minimum interval for storing a renewed record.
const RENEWED_EVERY: Duration = Duration::from_secs(86_400);

/// All triplets and clients.
#[derive(Debug)]
pub struct GreylistLedger {
    entries: BTreeMap<Key, Record>,
    entries_max: usize,
    /// Position of the last examination.
    looked_at: Key,
    /// Keys with records that differ from the stored ones.
    changed: BTreeSet<Key>,
}

/// Records to store; a key without one is deleted.
pub type Changes = Vec<(Key, Option<Record>)>;

impl Default for GreylistLedger {
    fn default() -> GreylistLedger {
        GreylistLedger::with_room(ENTRIES_MAX)
    }
}

impl GreylistLedger {
    fn with_room(entries_max: usize) -> GreylistLedger {
        let (entries, changed) = (BTreeMap::new(), BTreeSet::new());
        GreylistLedger { entries, entries_max, looked_at: Key::default(), changed }
    }

    /// Loads stored records that are valid, up to the maximum. The rest is marked for deletion from the file.
    pub fn read(&mut self, records: impl IntoIterator<Item = (Key, Option<Record>)>, now: Wall) {
        for (key, record) in records {
            let record = record.filter(|record| now < record.until);
            match record.filter(|_| self.entries.len() < self.entries_max) {
                Some(record) => _ = self.entries.insert(key, record),
                None => _ = self.changed.insert(key),
            }
        }
    }

    /// Number of known triplets and clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns changes since the last call, at most `count` records.
    pub fn take_changes(&mut self, count: usize) -> Changes {
        let mut changes = Changes::new();
        while let Some(key) = (changes.len() < count).then(|| self.changed.pop_first()).flatten() {
            changes.push((key, self.entries.get(&key).copied()));
        }
        changes
    }

    /// Decides about a recipient.
    pub fn judge(
        &mut self,
        rules: &GreylistPolicy,
        triplet: &Triplet<'_>,
        now: Wall,
    ) -> GreylistResult {
        let until = now.after(rules.remember);
        let client = of_client(triplet.client);
        if let Some(State::Client { passed, counted }) = self.state(&client, now)
            && rules.clients_after > 0
            && passed >= rules.clients_after
        {
            self.renew(client, Record { state: State::Client { passed, counted }, until });
            return GreylistResult::Client;
        }
        let key = of_triplet(triplet);
        match self.state(&key, now) {
            Some(State::Passed) => {
                self.renew(key, Record { state: State::Passed, until });
                GreylistResult::Known
            }
            Some(State::New(first)) => {
                // A clock set back makes no record older.
                let waited = now.since(first);
                if waited < rules.delay {
                    return GreylistResult::Early(rules.delay - waited);
                }
                self.keep(key, Record { state: State::Passed, until }, now);
                self.count(client, until, now);
                GreylistResult::Passed(waited)
            }
            _ => {
                let until = now.after(rules.retry_window);
                self.keep(key, Record { state: State::New(now), until }, now);
                GreylistResult::New(rules.delay)
            }
        }
    }

    /// State of a valid record.
    fn state(&self, key: &Key, now: Wall) -> Option<State> {
        let record = self.entries.get(key).filter(|record| now < record.until)?;
        Some(record.state)
    }

    /// A triplet of a client has passed.
    fn count(&mut self, client: Key, until: Wall, now: Wall) {
        let (passed, counted) = match self.state(&client, now) {
            Some(State::Client { passed, counted }) => (passed, Some(counted)),
            _ => (0, None),
        };
        if counted.is_none_or(|counted| now.since(counted) >= COUNTED_EVERY) {
            let passed = passed.saturating_add(1);
            self.keep(client, Record { state: State::Client { passed, counted: now }, until }, now);
        }
    }

    /// The same, known for longer.
    fn renew(&mut self, key: Key, record: Record) {
        if let Some(known) = self.entries.get_mut(&key)
            && record.until.since(known.until) >= RENEWED_EVERY
        {
            self.changed.insert(key);
            *known = record;
        }
    }

    fn keep(&mut self, key: Key, record: Record, now: Wall) {
        self.changed.insert(key);
        if self.entries.insert(key, record).is_none() {
            self.make_room(&key, now);
        }
    }

    /// Deletes some expired records. If the ledger is full and none was expired, the least proven record is dropped: a
    /// flood of new triplets displaces only new ones.
    fn make_room(&mut self, kept: &Key, now: Wall) {
        let from = (Bound::Excluded(self.looked_at), Bound::Unbounded);
        let some = self.entries.range(from).chain(self.entries.iter()).take(LOOKED_AT);
        let some: Vec<(Key, Record)> = some.map(|(key, record)| (*key, *record)).collect();
        self.looked_at = some.last().map_or(Key::default(), |(key, _)| *key);
        for (key, _) in some.iter().filter(|(_, record)| now >= record.until) {
            self.forget(*key);
        }
        if self.entries.len() > self.entries_max {
            let others = some.iter().filter(|(key, _)| key != kept);
            let least = others.min_by_key(|(_, record)| match record.state {
                State::New(first) => (0, first),
                State::Passed => (1, record.until),
                State::Client { .. } => (2, record.until),
            });
            if let Some((key, _)) = least {
                self.forget(*key);
            }
        }
    }

    fn forget(&mut self, key: Key) {
        if self.entries.remove(&key).is_some() {
            self.changed.insert(key);
        }
    }

    #[cfg(test)]
    pub(super) fn of_room(entries_max: usize) -> GreylistLedger {
        GreylistLedger::with_room(entries_max)
    }
}
