//! A set of sectors, kept as runs: writes are usually long and in order.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of sectors of a file, in order.
#[derive(Debug, Default)]
pub(super) struct Sectors {
    /// Start and end of each run; runs never touch.
    runs: BTreeMap<usize, usize>,
}

impl Sectors {
    pub(super) fn insert(&mut self, sectors: Range<usize>) {
        let Range { mut start, mut end } = sectors;
        if start >= end {
            return;
        }
        // Adjacent and overlapping runs are merged.
        while let Some((&from, &to)) = self.runs.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.runs.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.runs.insert(start, end);
    }

    /// Removes the sectors from `end` on.
    pub(super) fn truncate(&mut self, end: usize) {
        self.runs.split_off(&end);
        if let Some(mut last) = self.runs.last_entry() {
            let to = *last.get();
            last.insert(to.min(end));
        }
    }

    pub(super) fn into_runs(self) -> impl Iterator<Item = Range<usize>> {
        self.runs.into_iter().map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::Sectors;
    use mail::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_holds_what_a_set_of_numbers_would_in_the_fewest_runs() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut sectors, mut wanted) = (Sectors::default(), BTreeSet::new());
            for _ in 0..random.below(30) {
                let start = random.below(60) as usize;
                if random.below(6) == 0 {
                    sectors.truncate(start);
                    wanted.retain(|&sector| sector < start);
                } else {
                    let end = start + random.below(9) as usize;
                    sectors.insert(start..end);
                    wanted.extend(start..end);
                }
            }
            let runs: Vec<_> = sectors.into_runs().collect();
            assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "{runs:?}");
            assert!(runs.into_iter().flatten().eq(wanted), "seed {seed}");
        }
    }
}
