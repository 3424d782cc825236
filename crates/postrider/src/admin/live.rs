//! Metrics that are made at each request: problems, counts of the queue, certificates, the last reload.

use super::census::QueueCounts;
use super::numbers::Row;
use crate::problems::ProblemFinder;
use crate::reload::ReloadState;
use mta::control::{CENSUS_STATES, CensusRows, CountedRecipients, Problem, SummaryRow};
use mta::metrics::Value;
use mta::problems::{PROBLEM_KINDS, Severity};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Finds the files of certificates, with the seconds until their end.
pub(crate) type CertificateEnds = Arc<dyn Fn() -> Vec<(String, i64)> + Send + Sync>;

/// Their sources.
#[derive(Clone)]
pub(crate) struct LiveNumbers {
    pub(crate) problems: ProblemFinder,
    pub(crate) counts: QueueCounts,
    pub(crate) certificates: CertificateEnds,
    pub(crate) reloads: Arc<ReloadState>,
}

impl fmt::Debug for LiveNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveNumbers").finish_non_exhaustive()
    }
}

/// Their values at one time.
pub(super) struct LiveReading {
    problems: Vec<Problem>,
    census: Arc<CensusRows>,
    census_age: i64,
    certificates: Vec<(String, i64)>,
    reload: (bool, i64),
}

impl LiveNumbers {
    pub(super) fn read(&self) -> LiveReading {
        let (age, census) = self.counts.last().unwrap_or_default();
        let (is_good, at) = self.reloads.last();
        LiveReading {
            problems: (self.problems)(),
            census,
            census_age: age as i64,
            certificates: (self.certificates)(),
            reload: (is_good, seconds(at.0)),
        }
    }
}

impl LiveReading {
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = self.of_problems();
        rows.extend(self.of_queue());
        let left = "Time until the end of a certificate, negative after it.";
        rows.extend(self.certificates.iter().map(|(file, left_s)| Row {
            name: "certificate_left_seconds",
            help: left,
            labels: vec![("file", file.as_str())],
            value: Value::Gauge(*left_s),
        }));
        let (is_good, at) = self.reload;
        rows.push(Row {
            name: "config_last_reload_successful",
            help: "1 unless the last reload was refused.",
            labels: Vec::new(),
            value: Value::Gauge(i64::from(is_good)),
        });
        rows.push(Row {
            name: "config_last_reload_timestamp_seconds",
            help: "Time of the last reload, refused or not, or of the start.",
            labels: Vec::new(),
            value: Value::Gauge(at),
        });
        rows
    }

    /// Each kind has a value, so that alerts need not care for absent ones.
    fn of_problems(&self) -> Vec<Row<'_>> {
        let listed = PROBLEM_KINDS.iter().flat_map(|entry| {
            entry.severities.iter().map(move |severity| ((entry.name, *severity), 0))
        });
        let mut counts: BTreeMap<(&str, Severity), u64> = listed.collect();
        for Problem { kind, severity, .. } in &self.problems {
            *counts.entry((kind.as_str(), *severity)).or_default() += 1;
        }
        let row = |((kind, severity), count)| Row {
            name: "problem",
            help: "Current problems by kind and severity.",
            labels: vec![("kind", kind), ("severity", Severity::as_str(severity))],
            value: gauge(count),
        };
        counts.into_iter().map(row).collect()
    }

    fn of_queue(&self) -> Vec<Row<'_>> {
        let census = &*self.census;
        let states = CENSUS_STATES.iter().zip(&census.states);
        let oldest = states.map(|(state, CountedRecipients { oldest_ms, .. })| Row {
            name: "queue_oldest_recipient_seconds",
            help: "Age of the oldest queued recipient.",
            labels: vec![("state", *state)],
            value: gauge(oldest_ms / 1_000),
        });
        let mut rows: Vec<Row<'_>> = oldest.collect();
        let tables = [
            ("queue_next_hop_recipients", "next_hop", &census.next_hops),
            ("queue_provider_recipients", "provider", &census.providers),
            ("queue_tenant_recipients", "tenant", &census.tenants),
            ("queue_source_recipients", "source", &census.sources),
        ];
        for (name, label, table) in tables {
            rows.extend(table.iter().map(|SummaryRow { name: value, recipients, .. }| Row {
                name,
                help: "Queued recipients; those beyond the 50 largest rows together.",
                labels: vec![(label, value.as_str())],
                value: gauge(*recipients),
            }));
        }
        rows.extend(census.next_hops.iter().map(|SummaryRow { name, oldest_ms, .. }| Row {
            name: "queue_next_hop_oldest_seconds",
            help: "Age of the oldest recipient of a next hop.",
            labels: vec![("next_hop", name.as_str())],
            value: gauge(oldest_ms / 1_000),
        }));
        rows.push(Row {
            name: "queue_census_age_seconds",
            help: "Age of the counts by next hop, provider, tenant and source.",
            labels: Vec::new(),
            value: Value::Gauge(self.census_age),
        });
        rows
    }
}

fn gauge(n: u64) -> Value {
    Value::Gauge(i64::try_from(n).unwrap_or(i64::MAX))
}

fn seconds(ms: u64) -> i64 {
    i64::try_from(ms / 1_000).unwrap_or(i64::MAX)
}
