//! The counts of all values of one property, packed: 54 octets a value for the default limits, and at most an eighth more
//! for growth.
//!
//! Keys are hashes. Their first bits choose one of 4,096 parts, each a sorted array, so that no insertion moves more than
//! a few kilobytes. In a full part the value with the least counts is forgotten: a client that wants its own counts
//! forgotten must bring hundreds of other values further than that.

use super::counts::{Layout, ValueCounts, key_of};
use std::collections::BTreeSet;

/// Number of parts, as a number of bits.
const PART_BITS: u32 = 12;
/// Maximum number of values in a part. A million values fill the parts to 245 on average, with a deviation of 16.
const PART_VALUES_MAX: usize = 320;
/// Maximum number of values.
pub const VALUES_MAX: usize = PART_VALUES_MAX << PART_BITS;
/// A part grows by one part in this number.
const GROWTH: usize = 8;

/// The counts, by hashes of the values.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    layout: Layout,
    /// Packed records in the order of keys. Empty before the first value.
    parts: Vec<Vec<u16>>,
    /// Keys with counts that differ from the stored ones.
    changed: BTreeSet<u64>,
    /// Changes are noted, because they are stored.
    is_stored: bool,
}

impl Ledger {
    pub(super) fn new(layout: Layout, is_stored: bool) -> Ledger {
        Ledger { layout, is_stored, ..Ledger::default() }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Begins to note changes.
    pub(super) fn store(&mut self) {
        self.is_stored = true;
    }

    /// The counts of a value at this time.
    pub(super) fn get(&self, key: u64, now_s: u32) -> ValueCounts {
        let mut counts = self.known(key).unwrap_or_else(|| ValueCounts::new(&self.layout, now_s));
        counts.advance(&self.layout, now_s);
        counts
    }

    /// The counts of a value at its last change.
    pub(super) fn known(&self, key: u64) -> Option<ValueCounts> {
        let part = self.parts.get(part_of(key))?;
        let at = place(part, self.layout.words(), key).ok()?;
        Some(ValueCounts::unpack(&self.layout, part.get(at..)?))
    }

    /// Replaces the counts of a value.
    pub(super) fn put(&mut self, key: u64, counts: &ValueCounts) {
        if self.parts.is_empty() {
            self.parts.resize_with(1 << PART_BITS, Vec::new);
        }
        let (words, packed) = (self.layout.words(), counts.pack(&self.layout, key));
        let (is_stored, layout) = (self.is_stored, &self.layout);
        let Some(part) = self.parts.get_mut(part_of(key)) else { return };
        match place(part, words, key) {
            Ok(at) => {
                let old = part.iter_mut().skip(at).take(words);
                old.zip(packed).for_each(|(old, new)| *old = new);
            }
            Err(_) => {
                let gone = make_room(part, layout, counts.at_s);
                self.changed.extend(gone.into_iter().filter(|_| is_stored));
                let (Ok(at) | Err(at)) = place(part, words, key);
                part.splice(at..at, packed);
            }
        }
        if is_stored {
            self.changed.insert(key);
        }
    }

    /// All counts, by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, ValueCounts)> {
        let words = self.layout.words();
        let records = self.parts.iter().flat_map(move |part| part.chunks_exact(words));
        records.map(|record| (key_of(record), ValueCounts::unpack(&self.layout, record)))
    }

    /// Some changes since the last call. A key without counts is removed from the store.
    pub(super) fn take_changes(&mut self, count: usize) -> Vec<(u64, Option<ValueCounts>)> {
        let mut changes = Vec::new();
        while changes.len() < count
            && let Some(key) = self.changed.pop_first()
        {
            changes.push((key, self.known(key).filter(|counts| !counts.is_empty())));
        }
        changes
    }

    /// Removes a value from the store.
    pub(super) fn note_gone(&mut self, key: u64) {
        self.changed.insert(key);
    }

    /// Memory of the parts with values, in octets.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let of = |part: &Vec<u16>| 2 * part.capacity() + size_of::<Vec<u16>>();
        self.parts.iter().filter(|part| !part.is_empty()).map(of).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum::<usize>() / self.layout.words()
    }
}

fn part_of(key: u64) -> usize {
    usize::try_from(key >> (u64::BITS - PART_BITS)).unwrap_or(0)
}

/// The offset of a key's record, or of its place.
fn place(part: &[u16], words: usize, key: u64) -> Result<usize, usize> {
    let (mut low, mut high) = (0, part.len() / words);
    while low < high {
        let middle = low.midpoint(high);
        match key_of(part.get(middle * words..).unwrap_or_default()).cmp(&key) {
            std::cmp::Ordering::Equal => return Ok(middle * words),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low * words)
}

/// Prepares a part for one more record. Returns the keys that it removed: of values without counts, and in a full part of
/// the value with the least.
fn make_room(part: &mut Vec<u16>, layout: &Layout, now_s: u32) -> Vec<u64> {
    let words = layout.words();
    if part.capacity() - part.len() >= words && part.len() < PART_VALUES_MAX * words {
        return Vec::new();
    }
    let mut least: Option<(u64, u64)> = None;
    let mut gone = Vec::new();
    for record in part.chunks_exact(words) {
        let (key, mut counts) = (key_of(record), ValueCounts::unpack(layout, record));
        counts.advance(layout, now_s);
        if counts.is_empty() {
            gone.push(key);
        } else if least.is_none_or(|(weight, _)| counts.weight() < weight) {
            least = Some((counts.weight(), key));
        }
    }
    if gone.is_empty() && part.len() >= PART_VALUES_MAX * words {
        gone.extend(least.map(|(_, key)| key));
    }
    for key in &gone {
        if let Ok(at) = place(part, words, *key) {
            part.drain(at..at + words);
        }
    }
    if part.capacity() - part.len() < words {
        let more = (part.len() / words / GROWTH).max(1);
        part.reserve_exact(more * words);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::super::counts::CountWindow;
    use super::super::settings::Unit;
    use super::*;

    /// That of the default limits.
    fn ledger() -> Ledger {
        let mut layout = Layout::default();
        for (unit, period_s) in
            [(Unit::Messages, 3_600), (Unit::Recipients, 86_400), (Unit::Recipients, 3_600)]
        {
            layout.add(CountWindow { unit, period_s, is_wide: false });
        }
        Ledger::new(layout, false)
    }

    /// The first keys are spread over all parts, as those of hashes are.
    fn key(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn count(ledger: &mut Ledger, key: u64, messages: u32, now_s: u32) {
        let mut counts = ledger.get(key, now_s);
        counts.add(&ledger.layout().clone(), Unit::Messages, messages);
        ledger.put(key, &counts);
    }

    #[test]
    fn a_million_values_take_64_octets_each() {
        let mut ledger = ledger();
        // The part of a million that falls into the first parts: the others are filled alike.
        let values: Vec<u64> = (0..1_000_000).map(key).filter(|key| part_of(*key) < 32).collect();
        for value in &values {
            count(&mut ledger, *value, 1, 1_000);
        }
        assert_eq!(ledger.len(), values.len());
        assert!(values.len() > 7_000, "{}", values.len());
        let each = ledger.bytes() as f64 / values.len() as f64;
        assert!(each <= 64.0, "{each}");
        assert_eq!(ledger.get(values[77], 1_001).total(0), 1);
    }

    #[test]
    fn flood_of_new_values_displaces_no_value_with_more() {
        let mut ledger = ledger();
        count(&mut ledger, 5, 200, 1_000);
        // All in one part: twice as many as it holds.
        for n in 0..2 * PART_VALUES_MAX as u64 {
            count(&mut ledger, 100 + n, 1, 1_000);
        }
        assert_eq!(ledger.len(), PART_VALUES_MAX);
        assert_eq!(ledger.get(5, 1_000).total(0), 200);
        // A day later they make room by themselves.
        count(&mut ledger, 7, 1, 1_000 + 2 * 86_400);
        assert_eq!(ledger.len(), 1);
    }

    #[test]
    fn changes_are_taken_once_and_removals_too() {
        let mut ledger = ledger();
        ledger.store();
        count(&mut ledger, 3, 2, 1_000);
        count(&mut ledger, key(1), 1, 1_000);
        let changes = ledger.take_changes(9);
        assert_eq!(changes.len(), 2);
        assert!(changes.iter().all(|(key, counts)| *counts == Some(ledger.get(*key, 1_000))));
        assert!(ledger.take_changes(9).is_empty());
        let all: Vec<(u64, ValueCounts)> = ledger.iter().collect();
        assert_eq!(all.len(), 2);
        for n in 0..PART_VALUES_MAX as u64 {
            count(&mut ledger, 100 + n, 3, 1_000);
        }
        let changes = ledger.take_changes(usize::MAX);
        assert!(changes.contains(&(3, None)), "displaced");
    }
}
