//! The metrics of all shards and logs, added up and in the text form that Prometheus reads.

use mta::metrics::{
    Description, EventMetrics, HistogramSnapshot, LogMetrics, MetricSet, Metrics, Value,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Where the numbers come from.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    /// One per shard.
    pub(crate) shards: Vec<Arc<Metrics>>,
    /// One per log.
    pub(crate) logs: Vec<Arc<LogMetrics>>,
    /// The event log's.
    pub(crate) events: Arc<EventMetrics>,
    /// When the server started.
    pub(crate) started: Instant,
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(&mut encoder, &sum(&self.shards))?;
        encode(&mut encoder, &sum(&self.logs))?;
        encode(&mut encoder, &sum(std::slice::from_ref(&self.events)))?;
        encode_process(&mut encoder, self.started)
    }
}

/// The copies of a set added up, in the order of their table.
fn sum<S: MetricSet>(sets: &[Arc<S>]) -> Vec<(Description, Value)> {
    let mut sums: Vec<(Description, Value)> = Vec::new();
    for set in sets {
        let mut n = 0;
        set.each(&mut |description, value| {
            match sums.get_mut(n) {
                Some((_, sum)) => sum.merge(&value),
                None => sums.push((*description, value)),
            }
            n += 1;
        });
    }
    sums
}

fn encode(encoder: &mut DescriptorEncoder<'_>, sums: &[(Description, Value)]) -> fmt::Result {
    for family in sums.chunk_by(|(a, _), (b, _)| a.name == b.name) {
        let Some((description, first)) = family.first() else { continue };
        let (kind, unit) = match first {
            Value::Counter(_) => (MetricType::Counter, None),
            Value::Gauge(_) => (MetricType::Gauge, None),
            Value::Histogram(_) => (MetricType::Histogram, Some(&Unit::Seconds)),
        };
        let mut metric =
            encoder.encode_descriptor(description.name, description.help, unit, kind)?;
        for (description, value) in family {
            if description.labels.is_empty() {
                encode_value(&mut metric, value)?;
            } else {
                encode_value(&mut metric.encode_family(&description.labels)?, value)?;
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

/// What every server says about its own process.
fn encode_process(encoder: &mut DescriptorEncoder<'_>, started: Instant) -> fmt::Result {
    let uptime = started.elapsed().as_secs();
    encoder
        .encode_descriptor(
            "uptime",
            "Since the server started.",
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
        .encode_descriptor("build", "What is running.", None, MetricType::Info)?
        .encode_info(&labels)
}

/// From /proc; `None` where there is none.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1_024))
}
