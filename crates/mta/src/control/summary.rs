//! Counts of queued mail.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Upper bounds of age in milliseconds, with their labels; the last has no end.
pub const AGE_BUCKETS: [(u64, &str); 8] = [
    (60_000, "under 1m"),
    (300_000, "1m to 5m"),
    (1_800_000, "5m to 30m"),
    (7_200_000, "30m to 2h"),
    (28_800_000, "2h to 8h"),
    (86_400_000, "8h to 1d"),
    (259_200_000, "1d to 3d"),
    (u64::MAX, "3d and more"),
];

/// Maximum number of names counted separately; further ones are counted together.
const NAMES_MAX: usize = 10_000;
/// Maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 200;
/// The row for the names that are not counted separately or not shown.
const OTHERS: &str = "(others)";

/// Counts of queued mail, by recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Messages with a matching recipient.
    pub messages: u64,
    /// Matching recipients.
    pub recipients: u64,
    /// By domain, the largest first.
    pub domains: Vec<SummaryRow>,
    /// By next hop, if known.
    pub next_hops: Vec<SummaryRow>,
    /// By tenant, without mail that has none.
    #[serde(default)]
    pub tenants: Vec<SummaryRow>,
    /// By campaign, without mail that has none.
    #[serde(default)]
    pub campaigns: Vec<SummaryRow>,
    /// By provider, if known.
    #[serde(default)]
    pub providers: Vec<SummaryRow>,
    /// By source, if chosen.
    #[serde(default)]
    pub sources: Vec<SummaryRow>,
    /// By the last failure.
    pub reasons: Vec<SummaryRow>,
    /// By the class of the last failure, without mail that has none.
    #[serde(default)]
    pub classes: Vec<SummaryRow>,
    pub ages: Vec<AgeGroup>,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// The common property.
    pub name: String,
    pub recipients: u64,
    /// Age of the oldest.
    pub oldest_ms: u64,
}

/// A row of the table of ages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeGroup {
    pub name: String,
    /// Recipients of messages younger than this; absent in the last row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_ms: Option<u64>,
    pub recipients: u64,
}

/// A table during counting, with bounded size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Count {
    rows: BTreeMap<Box<str>, (u64, u64)>,
    others: (u64, u64),
}

impl Count {
    pub(crate) fn add(&mut self, name: &str, recipients: u64, oldest_ms: u64) {
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        let row = if let Some(row) = self.rows.get_mut(name) {
            row
        } else if name != OTHERS && self.rows.len() < NAMES_MAX {
            self.rows.entry(name.into()).or_default()
        } else {
            &mut self.others
        };
        row.0 = row.0.saturating_add(recipients);
        row.1 = row.1.max(oldest_ms);
    }

    /// Adds the rows of another table.
    pub(crate) fn merge(&mut self, other: Count) {
        for (name, (recipients, oldest_ms)) in other.rows {
            self.add(&name, recipients, oldest_ms);
        }
        let (recipients, oldest_ms) = other.others;
        self.others = (self.others.0 + recipients, self.others.1.max(oldest_ms));
    }

    /// All rows, the largest first.
    pub(crate) fn finish(self, top: usize) -> Vec<SummaryRow> {
        let mut others = self.others;
        let group = |(name, (recipients, oldest_ms)): (Box<str>, (u64, u64))| SummaryRow {
            name: name.into(),
            recipients,
            oldest_ms,
        };
        let mut groups: Vec<SummaryRow> = self.rows.into_iter().map(group).collect();
        groups.sort_by(|a, b| b.recipients.cmp(&a.recipients).then_with(|| a.name.cmp(&b.name)));
        for left in groups.drain(top.min(groups.len())..) {
            others = (others.0 + left.recipients, others.1.max(left.oldest_ms));
        }
        if others.0 > 0 {
            let (recipients, oldest_ms) = others;
            groups.push(SummaryRow { name: OTHERS.to_owned(), recipients, oldest_ms });
        }
        groups
    }
}

/// A summary during counting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    pub(crate) messages: u64,
    pub(crate) recipients: u64,
    pub(crate) domains: Count,
    pub(crate) next_hops: Count,
    pub(crate) tenants: Count,
    pub(crate) campaigns: Count,
    pub(crate) providers: Count,
    pub(crate) sources: Count,
    pub(crate) reasons: Count,
    pub(crate) classes: Count,
    pub(crate) ages: [u64; AGE_BUCKETS.len()],
}

impl Counting {
    /// Counts a recipient's age.
    pub(crate) fn age(&mut self, age_ms: u64) {
        let bucket = AGE_BUCKETS.iter().position(|(below, _)| age_ms < *below);
        if let Some(count) = bucket.and_then(|bucket| self.ages.get_mut(bucket)) {
            *count += 1;
        }
    }

    /// Adds the counts of another shard.
    pub(crate) fn add(&mut self, other: &Summary) {
        self.messages += other.messages;
        self.recipients += other.recipients;
        let tables = [
            (&mut self.domains, &other.domains),
            (&mut self.next_hops, &other.next_hops),
            (&mut self.tenants, &other.tenants),
            (&mut self.campaigns, &other.campaigns),
            (&mut self.providers, &other.providers),
            (&mut self.sources, &other.sources),
            (&mut self.reasons, &other.reasons),
            (&mut self.classes, &other.classes),
        ];
        for (mine, theirs) in tables {
            for group in theirs {
                mine.add(&group.name, group.recipients, group.oldest_ms);
            }
        }
        for (mine, theirs) in self.ages.iter_mut().zip(&other.ages) {
            *mine += theirs.recipients;
        }
    }

    pub(crate) fn finish(self, top: usize) -> Summary {
        let ages = self.ages.into_iter().zip(AGE_BUCKETS).map(|(recipients, (below, name))| {
            let below_ms = (below != u64::MAX).then_some(below);
            AgeGroup { name: name.to_owned(), below_ms, recipients }
        });
        Summary {
            messages: self.messages,
            recipients: self.recipients,
            domains: self.domains.finish(top),
            next_hops: self.next_hops.finish(top),
            tenants: self.tenants.finish(top),
            campaigns: self.campaigns.finish(top),
            providers: self.providers.finish(top),
            sources: self.sources.finish(top),
            reasons: self.reasons.finish(top),
            classes: self.classes.finish(top),
            ages: ages.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_shown_and_the_rest_is_counted() {
        let mut count = Count::default();
        for n in 0..NAMES_MAX + 5 {
            count.add(&format!("d{n}"), 1, n as u64);
        }
        count.add("d7", 10, 1);
        let groups = count.finish(2);
        assert_eq!(groups.len(), 3);
        assert_eq!((&*groups[0].name, groups[0].recipients, groups[0].oldest_ms), ("d7", 11, 7));
        assert_eq!(groups[2].name, OTHERS);
        let all: u64 = groups.iter().map(|group| group.recipients).sum();
        assert_eq!(all, NAMES_MAX as u64 + 15);
    }

    #[test]
    fn shards_add_up_and_ages_fall_into_their_lines() {
        let mut counting = Counting::default();
        for age_ms in [0, 59_999, 60_000, u64::MAX] {
            counting.age(age_ms);
        }
        counting.recipients = 4;
        counting.domains.add("a.test", 4, 9);
        counting.tenants.add("acme", 3, 9);
        let one = counting.finish(10);
        let mut both = Counting::default();
        both.add(&one);
        both.add(&one);
        let both = both.finish(10);
        assert_eq!((both.recipients, both.domains[0].recipients), (8, 8));
        assert_eq!((both.tenants[0].recipients, both.campaigns.len()), (6, 0));
        let ages: Vec<u64> = both.ages.iter().map(|age| age.recipients).collect();
        assert_eq!(ages, [4, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(both.ages[7].below_ms, None);
    }
}
