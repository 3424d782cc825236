//! Counts of one value, in sliding windows.
//!
//! A period is cut into six buckets. A count belongs to the bucket of its time and ends with it, once the whole bucket
//! has left the period. That is one period later at least, and a sixth more at most. So a maximum holds in any period, wherever
//! that begins, and a value at its maximum waits up to a sixth of the period too long.

use super::settings::Unit;
use smallvec::SmallVec;

/// Buckets of a period.
pub(super) const BUCKETS: u32 = 6;
/// The current bucket and those before it that are not wholly outside the period.
const CELLS: usize = BUCKETS as usize + 1;
/// Words of a packed record before its cells: the key, and the time of the last change.
const HEAD_WORDS: usize = 6;

/// A counted unit in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountWindow {
    pub(super) unit: Unit,
    pub(super) period_s: u32,
    /// Its numbers may exceed 65,535.
    pub(super) is_wide: bool,
}

impl CountWindow {
    fn bucket_s(self) -> u32 {
        (self.period_s / BUCKETS).max(1)
    }

    fn is_like(self, other: CountWindow) -> bool {
        (self.unit, self.period_s) == (other.unit, other.period_s)
    }
}

/// The windows of all counts in a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout(SmallVec<[CountWindow; 4]>);

impl Layout {
    /// Adds a window, or widens it.
    pub(super) fn add(&mut self, window: CountWindow) {
        match self.0.iter_mut().find(|known| known.is_like(window)) {
            Some(known) => known.is_wide |= window.is_wide,
            None => self.0.push(window),
        }
    }

    pub(super) fn windows(&self) -> impl Iterator<Item = CountWindow> {
        self.0.iter().copied()
    }

    pub(super) fn position(&self, unit: Unit, period_s: u32) -> Option<usize> {
        self.0.iter().position(|window| (window.unit, window.period_s) == (unit, period_s))
    }

    /// Size of a packed record, in units of two octets.
    pub(super) fn words(&self) -> usize {
        let of = |window: &CountWindow| if window.is_wide { 2 * CELLS } else { CELLS };
        HEAD_WORDS + self.0.iter().map(of).sum::<usize>()
    }
}

/// The cells of a window, the current bucket first.
pub(super) type Cells = [u32; CELLS];

/// The counts of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueCounts {
    /// Time of the current buckets, in seconds since 1970.
    pub(super) at_s: u32,
    /// In the order of the layout.
    pub(super) windows: SmallVec<[Cells; 4]>,
}

impl ValueCounts {
    pub(super) fn new(layout: &Layout, now_s: u32) -> ValueCounts {
        ValueCounts { at_s: now_s, windows: layout.windows().map(|_| Cells::default()).collect() }
    }

    /// Moves on to this time. With a clock that was set back the counts stay, as if of now.
    pub(super) fn advance(&mut self, layout: &Layout, now_s: u32) {
        for (window, cells) in layout.windows().zip(&mut self.windows) {
            let passed = (now_s / window.bucket_s()).saturating_sub(self.at_s / window.bucket_s());
            let passed = usize::try_from(passed).unwrap_or(CELLS).min(CELLS);
            cells.rotate_right(passed % CELLS);
            cells.iter_mut().take(passed).for_each(|cell| *cell = 0);
        }
        self.at_s = now_s;
    }

    /// The number in the window.
    pub(super) fn total(&self, window: usize) -> u32 {
        let cells = self.windows.get(window).copied().unwrap_or_default();
        cells.into_iter().fold(0, u32::saturating_add)
    }

    /// Adds to the current bucket of each window of this unit.
    pub(super) fn add(&mut self, layout: &Layout, unit: Unit, count: u32) {
        for (window, cells) in layout.windows().zip(&mut self.windows) {
            let max = if window.is_wide { u32::MAX } else { u32::from(u16::MAX) };
            if let (true, Some(cell)) = (window.unit == unit, cells.first_mut()) {
                *cell = cell.saturating_add(count).min(max);
            }
        }
    }

    /// Takes back a count of `then_s`, from that bucket or, if it has less, from later buckets.
    pub(super) fn take_back(&mut self, layout: &Layout, (unit, count): (Unit, u32), then_s: u32) {
        for (window, cells) in layout.windows().zip(&mut self.windows) {
            if window.unit != unit {
                continue;
            }
            let ago = (self.at_s / window.bucket_s()).saturating_sub(then_s / window.bucket_s());
            let ago = usize::try_from(ago).unwrap_or(CELLS).saturating_add(1);
            let mut left = count;
            for cell in cells.iter_mut().take(ago).rev() {
                let part = left.min(*cell);
                *cell -= part;
                left -= part;
            }
        }
    }

    /// Time at which fewer than `max` are left in the window if none are added, in seconds since 1970.
    pub(super) fn free_at_s(&self, layout: &Layout, at: usize, max: u32) -> u32 {
        let (Some(window), Some(cells)) = (layout.windows().nth(at), self.windows.get(at)) else {
            return self.at_s;
        };
        let (mut left, now) = (self.total(at), self.at_s / window.bucket_s());
        for (ago, cell) in cells.iter().enumerate().rev() {
            if left < max {
                break;
            }
            left = left.saturating_sub(*cell);
            if left < max {
                let later = (BUCKETS + 1).saturating_sub(u32::try_from(ago).unwrap_or(0));
                return now.saturating_add(later).saturating_mul(window.bucket_s());
            }
        }
        self.at_s
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.iter().flatten().all(|cell| *cell == 0)
    }

    /// The sum over all windows: the value with the least is forgotten first.
    pub(super) fn weight(&self) -> u64 {
        self.windows.iter().flatten().map(|cell| u64::from(*cell)).sum()
    }

    /// The counts in another layout; those of other windows are dropped, and new windows begin empty.
    pub(super) fn converted(&self, from: &Layout, to: &Layout) -> ValueCounts {
        let cells = |window: CountWindow| {
            let at = from.position(window.unit, window.period_s);
            at.and_then(|at| self.windows.get(at)).copied().unwrap_or_default()
        };
        ValueCounts { at_s: self.at_s, windows: to.windows().map(cells).collect() }
    }

    /// Packs them under this key.
    pub(super) fn pack(&self, layout: &Layout, key: u64) -> SmallVec<[u16; 32]> {
        let mut words: SmallVec<[u16; 32]> = SmallVec::new();
        words.extend([key >> 48, key >> 32, key >> 16, key].map(|part| part as u16));
        words.extend([self.at_s >> 16, self.at_s].map(|part| part as u16));
        for (window, cells) in layout.windows().zip(&self.windows) {
            for cell in cells {
                words.extend(window.is_wide.then_some((cell >> 16) as u16));
                words.push(*cell as u16);
            }
        }
        words
    }

    /// The reverse of [`ValueCounts::pack`].
    pub(super) fn unpack(layout: &Layout, record: &[u16]) -> ValueCounts {
        let mut words = record.iter().skip(4).map(|word| u32::from(*word));
        let mut word = || words.next().unwrap_or(0);
        let at_s = word() << 16 | word();
        let mut counts = ValueCounts::new(layout, at_s);
        for (window, cells) in layout.windows().zip(&mut counts.windows) {
            for cell in cells {
                let high = if window.is_wide { word() << 16 } else { 0 };
                *cell = high | word();
            }
        }
        counts
    }
}

/// The key of a packed record.
pub(super) fn key_of(record: &[u16]) -> u64 {
    record.iter().take(4).fold(0, |key, word| key << 16 | u64::from(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: u32 = 3_600;

    fn layout(is_wide: bool) -> Layout {
        let mut layout = Layout::default();
        layout.add(CountWindow { unit: Unit::Messages, period_s: HOUR, is_wide });
        layout.add(CountWindow { unit: Unit::Recipients, period_s: 24 * HOUR, is_wide: false });
        layout
    }

    #[test]
    fn count_leaves_after_the_period_and_at_most_a_sixth_more() {
        let layout = layout(false);
        for then in [0, 1, 599, 600, 3_599] {
            let mut counts = ValueCounts::new(&layout, 0);
            counts.advance(&layout, then);
            counts.add(&layout, Unit::Messages, 7);
            counts.advance(&layout, then + HOUR);
            assert_eq!(counts.total(0), 7, "{then}: it counts for a whole period");
            let gone = then + HOUR + HOUR / BUCKETS;
            assert!(counts.free_at_s(&layout, 0, 7) <= gone, "{then}");
            let free = counts.free_at_s(&layout, 0, 7);
            counts.advance(&layout, free - 1);
            assert_eq!(counts.total(0), 7, "{then}: a second before");
            counts.advance(&layout, free);
            assert_eq!((counts.total(0), counts.is_empty()), (0, true), "{then}");
        }
    }

    #[test]
    fn clock_set_back_resets_nothing() {
        let layout = layout(false);
        let mut counts = ValueCounts::new(&layout, 100_000);
        counts.add(&layout, Unit::Messages, 5);
        counts.advance(&layout, 10);
        assert_eq!(counts.total(0), 5);
        counts.advance(&layout, 10 + 2 * HOUR);
        assert_eq!(counts.total(0), 0, "and it ages from there");
    }

    #[test]
    fn taken_back_count_leaves_the_others() {
        let layout = layout(false);
        let mut counts = ValueCounts::new(&layout, 0);
        counts.add(&layout, Unit::Messages, 3);
        counts.advance(&layout, 1_200);
        counts.add(&layout, Unit::Messages, 2);
        counts.take_back(&layout, (Unit::Messages, 1), 0);
        assert_eq!(counts.windows[0], [2, 0, 2, 0, 0, 0, 0]);
        counts.take_back(&layout, (Unit::Messages, 9), 1_200);
        assert_eq!(counts.windows[0], [0, 0, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn narrow_cell_saturates_and_wide_one_does_not() {
        for (is_wide, total) in [(false, 65_535), (true, 140_000)] {
            let layout = layout(is_wide);
            let mut counts = ValueCounts::new(&layout, 0);
            counts.add(&layout, Unit::Messages, 70_000);
            counts.add(&layout, Unit::Messages, 70_000);
            assert_eq!(counts.total(0), total);
            let packed = counts.pack(&layout, 7);
            assert_eq!((packed.len(), key_of(&packed)), (layout.words(), 7));
            assert_eq!(ValueCounts::unpack(&layout, &packed), counts);
        }
    }

    proptest! {
        /// Against a list of all times: never more than the maximum in a period, and no refusal without that number in
        /// a period and a sixth.
        #[test]
        fn maximum_holds_in_any_period(gaps in prop::collection::vec(0_u32..900, 1..200)) {
            const MAX: u32 = 10;
            let layout = layout(false);
            let (mut now, mut counts, mut taken) = (1_000_000, ValueCounts::new(&layout, 0), Vec::new());
            for gap in gaps {
                now += gap;
                counts.advance(&layout, now);
                let within = |s: u32| taken.iter().filter(|at| **at > now - s).count() as u32;
                if counts.total(0) < MAX {
                    taken.push(now);
                    let within = taken.iter().filter(|at| **at > now - HOUR).count() as u32;
                    prop_assert!(within <= MAX);
                    counts.add(&layout, Unit::Messages, 1);
                } else {
                    prop_assert!(within(HOUR + HOUR / BUCKETS) >= MAX);
                    prop_assert!(counts.free_at_s(&layout, 0, MAX) > now);
                }
            }
        }
    }
}
