//! Failures of entries. An entry keeps a ticket of four bytes; the failure itself is remembered while the ring has
//! capacity.

use mail::Failure;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of stored failures; the oldest are dropped first. At about 200 bytes each that is 3 MB.
const FAILURES_MAX: u32 = 16_384;

/// The last failures of this shard.
#[derive(Default)]
pub(crate) struct Failures {
    ring: Vec<(u32, Arc<Failure>)>,
    last: u32,
}

impl Failures {
    /// Stores one and returns its ticket, which is never 0.
    pub(crate) fn remember(&mut self, failure: Arc<Failure>) -> u32 {
        self.last = self.last.checked_add(1).unwrap_or(1);
        let place = (self.last % FAILURES_MAX) as usize;
        // Tickets start at 1: place 0 is first used by number FAILURES_MAX.
        while self.ring.len() <= place {
            self.ring.push((0, Arc::clone(&failure)));
        }
        self.ring[place] = (self.last, failure);
        self.last
    }

    /// The failure, if it is still remembered.
    pub(crate) fn get(&self, ticket: u32) -> Option<&Arc<Failure>> {
        let (found, failure) = self.ring.get((ticket % FAILURES_MAX) as usize)?;
        (ticket != 0 && *found == ticket).then_some(failure)
    }
}

/// The reasons of all holds; equal texts are stored once.
#[derive(Default)]
pub(crate) struct HoldReasons {
    numbers: BTreeMap<Arc<str>, u32>,
    /// By number: the text, and the number of entries that use it.
    rows: Vec<Option<(Arc<str>, u32)>>,
    free: Vec<u32>,
}

impl HoldReasons {
    /// Returns the number of the text and counts one more use.
    pub(crate) fn take(&mut self, words: &Arc<str>) -> u32 {
        if let Some(&number) = self.numbers.get(words) {
            if let Some(Some((_, count))) = self.rows.get_mut(number as usize) {
                *count += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() as u32 - 1
        });
        if let Some(row) = self.rows.get_mut(number as usize) {
            *row = Some((Arc::clone(words), 1));
        }
        self.numbers.insert(Arc::clone(words), number);
        number
    }

    pub(crate) fn give_back(&mut self, number: u32) {
        let Some(row) = self.rows.get_mut(number as usize) else { return };
        let Some((words, count)) = row else { return };
        *count -= 1;
        if *count == 0 {
            self.numbers.remove(words);
            *row = None;
            self.free.push(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.rows.get(number as usize)?.as_ref().map(|(words, _)| words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::{Class, EnhancedStatus};

    #[test]
    fn the_oldest_are_forgotten() {
        let mut failures = Failures::default();
        let failure =
            |n: u32| Failure::local(Class::Transient, EnhancedStatus::new(4, 0, 0), n.to_string());
        for n in 1..=FAILURES_MAX + 2 {
            assert_eq!(failures.remember(Arc::new(failure(n))), n);
        }
        assert_eq!(failures.get(0), None);
        assert_eq!(failures.get(1), None);
        assert_eq!(failures.get(3).map(|f| (**f).clone()), Some(failure(3)));
        assert_eq!(failures.get(FAILURES_MAX + 2).map(|f| &*f.text), Some("16386"));
    }
}
