//! The metrics of all shards and logs, added up and in the text form that Prometheus reads.

use super::live::LiveNumbers;
use crate::node_metrics::NodeMetrics;
use crate::problems::now;
use crate::tables::TableNumbers;
use crate::world::clock::Start;
use mta::metrics::{Description, HistogramSnapshot, MetricSet, Value};
use mta::pressure::Pressures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::sync::Arc;
use std::{fmt, slice};

/// Sources of metrics.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) node: NodeMetrics,
    pub(crate) pools: Arc<Pressures>,
    /// Metrics of remote tables and of copied directories.
    pub(crate) tables: TableNumbers,
    /// Metrics that are made at each request.
    pub(crate) live: LiveNumbers,
    /// Start of the server.
    pub(crate) started: Start,
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let node = &self.node;
        encode(&mut encoder, &sum(&node.shards))?;
        encode(&mut encoder, &sum(slice::from_ref(&node.classes)))?;
        for (label, parties) in node.sending.shown() {
            encode(&mut encoder, &side_by_side(label, &parties))?;
        }
        encode(&mut encoder, &side_by_side("source", &node.sending.warmups()))?;
        encode(&mut encoder, &sum(&node.logs))?;
        encode(&mut encoder, &sum(slice::from_ref(&node.mailboxes)))?;
        encode(&mut encoder, &sum(slice::from_ref(&node.policies)))?;
        for set in &node.services {
            encode(&mut encoder, &sum(slice::from_ref(set)))?;
        }
        encode(&mut encoder, &sum(&node.events))?;
        let pools = self.pools.metrics(now(self.started));
        encode(&mut encoder, &side_by_side("pool", &pools))?;
        let tables = self.tables.get();
        encode(&mut encoder, &side_by_side("table", &tables.remote))?;
        encode(&mut encoder, &side_by_side("table", &tables.snapshots))?;
        encode(&mut encoder, &self.live.read().rows())?;
        encode_process(&mut encoder, self.started)
    }
}

/// One value of a metric, with its labels.
pub(super) struct Row<'a> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: Vec<(&'a str, &'a str)>,
    pub(super) value: Value,
}

impl Row<'_> {
    fn new(description: &Description<'_>, value: Value) -> Row<'static> {
        let Description { name, labels, help } = *description;
        Row { name, help, labels: labels.to_vec(), value }
    }
}

/// The copies of a set added up, in the order of their table.
fn sum<S: MetricSet + ?Sized>(sets: &[Arc<S>]) -> Vec<Row<'static>> {
    let mut sums: Vec<Row<'static>> = Vec::new();
    for set in sets {
        let mut n = 0;
        set.each(&mut |description, value| {
            match sums.get_mut(n) {
                Some(sum) => sum.value.merge(&value),
                None => sums.push(Row::new(description, value)),
            }
            n += 1;
        });
    }
    sums
}

/// Metric sets distinguished by a label, in the order of their table.
fn side_by_side<'a, S: MetricSet>(
    label: &'static str,
    sets: &'a [(Arc<str>, Arc<S>)],
) -> Vec<Row<'a>> {
    let mut by_metric: Vec<Vec<Row<'a>>> = Vec::new();
    for (name, set) in sets {
        let mut n = 0;
        set.each(&mut |description, value| {
            let mut row: Row<'a> = Row::new(description, value);
            row.labels.insert(0, (label, &**name));
            match by_metric.get_mut(n) {
                Some(rows) => rows.push(row),
                None => by_metric.push(vec![row]),
            }
            n += 1;
        });
    }
    by_metric.into_iter().flatten().collect()
}

fn encode(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> fmt::Result {
    for family in rows.chunk_by(|a, b| a.name == b.name) {
        let Some(Row { name, help, value, .. }) = family.first() else { continue };
        let (kind, unit) = match value {
            Value::Counter(_) => (MetricType::Counter, None),
            Value::Gauge(_) => (MetricType::Gauge, None),
            Value::Histogram(_) => (MetricType::Histogram, Some(&Unit::Seconds)),
        };
        let mut metric = encoder.encode_descriptor(name, help, unit, kind)?;
        for Row { labels, value, .. } in family {
            if labels.is_empty() {
                encode_value(&mut metric, value)?;
            } else {
                encode_value(&mut metric.encode_family(&labels.as_slice())?, value)?;
            }
        }
    }
    Ok(())
}

fn encode_value(metric: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Counter(n) => metric.encode_counter::<NoLabelSet, _, u64>(n, None),
        Value::Gauge(n) => metric.encode_gauge(n),
        Value::Histogram(seen) => {
            let sum = seconds(seen.sum_us);
            let count = seen.counts.iter().sum();
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets(seen), None)
        }
    }
}

/// Upper bounds in seconds with their counts; the encoder adds them up.
fn buckets(seen: &HistogramSnapshot) -> Vec<(f64, u64)> {
    let bounds = seen.bounds_us.iter().map(|&us| seconds(us)).chain([f64::INFINITY]);
    bounds.zip(seen.counts.iter().copied()).collect()
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Common metrics of a server process.
fn encode_process(encoder: &mut DescriptorEncoder<'_>, started: Start) -> fmt::Result {
    let uptime = started.elapsed().0 / 1_000_000;
    encoder
        .encode_descriptor(
            "uptime",
            "Time since the start of the server.",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?
        .encode_gauge(&uptime)?;
    if let Some(bytes) = resident_bytes() {
        encoder
            .encode_descriptor(
                "resident_memory",
                "Memory of the process.",
                Some(&Unit::Bytes),
                MetricType::Gauge,
            )?
            .encode_gauge(&bytes)?;
    }
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    encoder
        .encode_descriptor("build", "Version and build of the server.", None, MetricType::Info)?
        .encode_info(&labels)
}

/// From /proc; `None` if it is not available.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1_024))
}
