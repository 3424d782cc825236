//! Counts of queued recipients for metrics: by state, next hop, provider, tenant and source.

use super::SummaryRow;
use super::summary::Count;
use queue::GlanceState;

/// States of queued recipients, in the order of [`Census::states`].
pub const CENSUS_STATES: [&str; 4] = ["scheduled", "ready", "in_flight", "held"];

/// Recipients, and the age of the oldest in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedRecipients {
    pub recipients: u64,
    pub oldest_ms: u64,
}

impl CountedRecipients {
    /// Adds other ones.
    pub(crate) fn add(&mut self, other: CountedRecipients) {
        self.recipients += other.recipients;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
    }
}

/// The census of one shard, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    pub states: [CountedRecipients; 4],
    pub(crate) next_hops: Count,
    pub(crate) providers: Count,
    pub(crate) tenants: Count,
    pub(crate) sources: Count,
}

/// A census with a bounded number of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CensusRows {
    pub states: [CountedRecipients; 4],
    /// The largest first, then one for all smaller ones.
    pub next_hops: Vec<SummaryRow>,
    pub providers: Vec<SummaryRow>,
    pub tenants: Vec<SummaryRow>,
    pub sources: Vec<SummaryRow>,
}

impl Census {
    /// Counts recipients in a state.
    pub(crate) fn count(&mut self, state: GlanceState, counted: CountedRecipients) {
        let state = match state {
            GlanceState::Scheduled => 0,
            GlanceState::Ready => 1,
            GlanceState::InFlight => 2,
            GlanceState::Held => 3,
        };
        self.states[state].add(counted);
    }

    /// Adds the census of another shard.
    pub fn add(&mut self, other: Census) {
        for (mine, theirs) in self.states.iter_mut().zip(other.states) {
            mine.add(theirs);
        }
        let Census { next_hops, providers, tenants, sources, .. } = other;
        self.next_hops.merge(next_hops);
        self.providers.merge(providers);
        self.tenants.merge(tenants);
        self.sources.merge(sources);
    }

    /// The `top` largest rows of each table.
    #[must_use]
    pub fn finish(self, top: usize) -> CensusRows {
        CensusRows {
            states: self.states,
            next_hops: self.next_hops.finish(top),
            providers: self.providers.finish(top),
            tenants: self.tenants.finish(top),
            sources: self.sources.finish(top),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn census_of_shards_adds_up_with_bounded_rows() {
        let shard = |hops: std::ops::Range<u64>| {
            let mut census = Census::default();
            for n in hops {
                let counted = CountedRecipients { recipients: n, oldest_ms: n };
                census.count(GlanceState::Ready, counted);
                census.next_hops.add(&format!("mx:out:{n}"), n, n);
            }
            census
        };
        let mut all = shard(1..6);
        all.add(shard(3..9));
        let rows = all.finish(2);
        assert_eq!(rows.states[1], CountedRecipients { recipients: 15 + 33, oldest_ms: 8 });
        let names: Vec<_> =
            rows.next_hops.iter().map(|row| (row.name.as_str(), row.recipients)).collect();
        assert_eq!(names, [("mx:out:5", 10), ("mx:out:4", 8), ("(others)", 30)]);
        assert_eq!(rows.tenants, []);
    }
}
