//! Counts as they are stored: a key of property and hash, and a record with a part for each window.
//!
//! Windows are named in the record, so that another configuration finds those that it has as well.

use super::counts::{Cells, Layout, ValueCounts};
use super::settings::{LimitBy, Unit};
use auth::digest::Sha256;

/// Octets of a stored key.
pub const RECORD_KEY_BYTES: usize = 9;

/// A stored key.
pub type RecordKey = [u8; RECORD_KEY_BYTES];

/// Records to be stored. A key without one is removed.
pub type RateChanges = Vec<(RecordKey, Option<Vec<u8>>)>;

/// A part of the hash of a value: clients choose senders, and must find no two with the same.
pub(super) fn key_of(by: LimitBy, value: &str) -> u64 {
    let mut hash = Sha256::default();
    hash.push(by.as_str().as_bytes());
    hash.push(&[0]);
    hash.push(value.as_bytes());
    let digest = hash.finish();
    digest.first_chunk().copied().map_or(0, u64::from_be_bytes)
}

/// Property and hash of a stored key.
pub(super) fn split(key: &RecordKey) -> Option<(LimitBy, u64)> {
    let (by, hash) = key.split_first()?;
    let by = LimitBy::ALL.get(usize::from(*by))?;
    Some((*by, u64::from_be_bytes(*hash.first_chunk()?)))
}

/// The stored forms.
pub(super) mod write {
    use super::*;

    pub(in super::super) fn key(by: LimitBy, hash: u64) -> RecordKey {
        let mut key = [by as u8; RECORD_KEY_BYTES];
        key.iter_mut().skip(1).zip(hash.to_be_bytes()).for_each(|(to, from)| *to = from);
        key
    }

    /// The time, then each window that is not empty: its unit, its period in seconds, its cells.
    pub(in super::super) fn record(counts: &ValueCounts, layout: &Layout) -> Vec<u8> {
        let mut out = counts.at_s.to_be_bytes().to_vec();
        for (window, cells) in layout.windows().zip(&counts.windows) {
            if cells.iter().any(|cell| *cell > 0) {
                out.push(window.unit as u8);
                out.extend(window.period_s.to_be_bytes());
                out.extend(cells.iter().flat_map(|cell| cell.to_be_bytes()));
            }
        }
        out
    }
}

/// The counts of a record, as far as the layout has their windows. `None` if the record is invalid.
pub(super) fn read(record: &[u8], layout: &Layout) -> Option<ValueCounts> {
    let (at_s, mut rest) = record.split_first_chunk()?;
    let mut counts = ValueCounts::new(layout, u32::from_be_bytes(*at_s));
    while let Some((unit, after)) = rest.split_first() {
        let unit = [Unit::Messages, Unit::Recipients].into_iter().find(|it| *it as u8 == *unit)?;
        let (period_s, mut after) = after.split_first_chunk()?;
        let mut cells = Cells::default();
        for cell in &mut cells {
            let (count, behind) = after.split_first_chunk()?;
            (*cell, after) = (u32::from_be_bytes(*count), behind);
        }
        rest = after;
        let at = layout.position(unit, u32::from_be_bytes(*period_s));
        if let Some(window) = at.and_then(|at| counts.windows.get_mut(at)) {
            *window = cells;
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_limits::counts::CountWindow;
    use proptest::prelude::*;

    fn layout(period_s: u32) -> Layout {
        let mut layout = Layout::default();
        layout.add(CountWindow { unit: Unit::Messages, period_s, is_wide: true });
        layout
    }

    proptest! {
        #[test]
        fn any_record_is_read_or_refused(record: Vec<u8>, count in 1_u32.., at_s: u32) {
            let hour = layout(3_600);
            let _ = read(&record, &hour);
            let mut counts = ValueCounts::new(&hour, at_s);
            counts.add(&hour, Unit::Messages, count);
            let written = write::record(&counts, &hour);
            prop_assert_eq!(read(&written, &hour), Some(counts));
            prop_assert!(read(&written, &layout(60)).is_some_and(|counts| counts.is_empty()));
            prop_assert_eq!(read(&written[..written.len() - 1], &hour), None);
        }
    }

    #[test]
    fn properties_have_different_keys() {
        let keys = LimitBy::ALL.map(|by| key_of(by, "jo"));
        assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), keys.len());
        let key = write::key(LimitBy::Sender, 7);
        assert_eq!(split(&key), Some((LimitBy::Sender, 7)));
        assert_eq!(split(&[9; RECORD_KEY_BYTES]), None);
    }
}
