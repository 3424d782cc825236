//! The status of a remote table, for `postrider table list`.

use super::metrics::RemoteMetrics;
use lookup::{CacheCounts, LookupError};
use mail::Wall;
use mta::metrics::{Bounds as _, CommitBounds, HistogramSnapshot, Label as _};
use mta::pressure::Level;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The worker's observations of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemoteServerState {
    /// The error of the last request, and the start of the failure.
    pub(super) trouble: Option<(Wall, LookupError)>,
    /// It is left alone, but for a probe now and then.
    pub(super) is_silent: bool,
    /// The one that answers.
    pub(super) server: Option<String>,
    /// Requests in flight, and lookups that wait for a turn.
    pub(super) level: Level,
    /// The site that has most questions, and how many.
    pub(super) most: Option<(IpAddr, u64)>,
}

/// The status of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RemoteStatus {
    /// The health of its server.
    pub(crate) health: Health,
    /// The server that answers now.
    pub(crate) server: Option<String>,
    /// Answers in the cache, old ones included.
    pub(crate) cached: usize,
    /// About how much memory they take.
    pub(crate) cached_bytes: usize,
    /// Questions that were answered from the cache.
    pub(crate) hits: u64,
    /// Questions that only the server could answer.
    pub(crate) misses: u64,
    /// The number of these answered with a stale answer, because the server did not answer.
    pub(crate) stale_hits: u64,
    /// Requests made.
    pub(crate) requests: u64,
    /// Lookups that the server did not answer, by kind of error; kinds without any are left out.
    pub(crate) troubles: BTreeMap<&'static str, u64>,
    /// Questions that wait for an answer.
    pub(crate) waiting: u64,
    /// Requests in progress.
    pub(crate) under_way: u64,
    /// Latency of requests; `None` before the first.
    pub(crate) latency: Option<Latency>,
}

/// The health of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Health {
    /// The last request was answered, or no request was made.
    Well,
    /// The last request was not.
    Troubled {
        /// Time of the first failure since the last answer (RFC 3339).
        since: String,
        /// `unreachable`, `timeout` or `wrong`.
        kind: &'static str,
        /// The server's text.
        why: Box<str>,
        /// True if the server failed so often that it gets only occasional probes.
        is_silent: bool,
    },
}

/// Latency of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Latency {
    /// On the average.
    pub(crate) mean_us: u64,
    /// Median, at the precision of the histogram.
    pub(crate) median_us: u64,
    /// 99th percentile, at the precision of the histogram.
    pub(crate) p99_us: u64,
}

impl RemoteStatus {
    pub(super) fn new(
        metrics: &RemoteMetrics,
        cache: CacheCounts,
        seen: &RemoteServerState,
    ) -> RemoteStatus {
        let health = match &seen.trouble {
            None => Health::Well,
            Some((since, trouble)) => Health::Troubled {
                since: since.to_string(),
                kind: trouble.kind.value(),
                why: trouble.text.clone(),
                is_silent: seen.is_silent,
            },
        };
        let now = |gauge: i64| u64::try_from(gauge).unwrap_or(0);
        let troubles = metrics.troubles.iter().map(|(kind, counter)| (kind, counter.get()));
        RemoteStatus {
            health,
            server: seen.server.clone(),
            cached: cache.entries,
            cached_bytes: cache.bytes,
            hits: metrics.hits.get(),
            misses: metrics.misses.get(),
            stale_hits: metrics.stale.get(),
            requests: metrics.requests.get(),
            troubles: troubles.filter(|(_, count)| *count > 0).collect(),
            waiting: now(metrics.waiting.get()),
            under_way: now(metrics.under_way.get()),
            latency: Latency::of(&metrics.request_time.snapshot()),
        }
    }
}

impl Latency {
    fn of(seen: &HistogramSnapshot) -> Option<Latency> {
        let count: u64 = seen.counts.iter().sum();
        let mean_us = seen.sum_us.checked_div(count)?;
        Some(Latency {
            mean_us,
            median_us: quantile(seen, count.div_ceil(2)),
            p99_us: quantile(seen, (count - count / 100).max(1)),
        })
    }
}

/// The upper bound of the `rank`-th duration; the last bound for one above all bounds.
fn quantile(seen: &HistogramSnapshot, rank: u64) -> u64 {
    let mut sum = 0;
    let below = seen.counts.iter().zip(seen.bounds_us).find(|(count, _)| {
        sum += **count;
        sum >= rank
    });
    below.map_or(CommitBounds::BOUNDS_US[CommitBounds::BOUNDS_US.len() - 1], |(_, bound)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookup::LookupErrorKind;
    use std::time::Duration;

    #[test]
    fn latency_is_read_from_the_histogram() {
        let metrics = RemoteMetrics::default();
        let latency = || Latency::of(&metrics.request_time.snapshot());
        assert_eq!(latency(), None);
        for _ in 0..98 {
            metrics.request_time.observe(Duration::from_micros(150));
        }
        metrics.request_time.observe(Duration::from_millis(3));
        metrics.request_time.observe(Duration::from_secs(20));
        let expected = Latency { mean_us: 200_177, median_us: 200, p99_us: 5_000 };
        assert_eq!(latency(), Some(expected));
        for _ in 0..2 {
            metrics.request_time.observe(Duration::from_secs(20));
        }
        assert_eq!(latency().map(|latency| latency.p99_us), Some(5_000_000));
    }

    #[test]
    fn a_table_in_trouble_says_since_when_and_why() {
        let metrics = RemoteMetrics::default();
        metrics.troubles[LookupErrorKind::Timeout].add(3);
        let trouble = LookupError::new(LookupErrorKind::Unreachable, "connection refused");
        let seen = RemoteServerState {
            trouble: Some((Wall(0), trouble)),
            is_silent: true,
            ..RemoteServerState::default()
        };
        let status = RemoteStatus::new(&metrics, CacheCounts { entries: 2, bytes: 9 }, &seen);
        let json = serde_json::to_value(&status).unwrap();
        let expected = serde_json::json!({
            "health": {
                "state": "troubled",
                "since": "1970-01-01T00:00:00.000Z",
                "kind": "unreachable",
                "why": "connection refused",
                "is_silent": true,
            },
            "server": null, "cached": 2, "cached_bytes": 9, "hits": 0, "misses": 0,
            "stale_hits": 0, "requests": 0, "troubles": { "timeout": 3 }, "waiting": 0,
            "under_way": 0, "latency": null,
        });
        assert_eq!(json, expected);
    }
}
