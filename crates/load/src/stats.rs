//! What was counted, and how it is shown.

use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

/// The longest time that is told apart: ten minutes.
const MICROS_MAX: u64 = 600_000_000;

/// The percentiles that are shown.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// Times, to three digits, in microseconds.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Latency {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 3);
        Latency(histogram.expect("the bounds are constants that fit"))
    }
}

impl Latency {
    /// Counts one; what is longer than ten minutes counts as that.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(MICROS_MAX).max(1));
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that `percentile` percent don't exceed, in microseconds.
    #[must_use]
    pub fn percentile_us(&self, percentile: f64) -> u64 {
        self.0.value_at_percentile(percentile)
    }

    /// The mean, in microseconds.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        self.0.mean()
    }

    /// What was counted, as pairs of a time in microseconds and how often it was counted; for
    /// [`Latency::add`].
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    /// Counts what another one counted.
    pub fn add(&mut self, buckets: &[(u64, u64)]) {
        for &(time_us, count) in buckets {
            self.0.saturating_record_n(time_us.clamp(1, MICROS_MAX), count);
        }
    }

    /// All percentiles and the mean, in microseconds; `null` when nothing was counted.
    #[must_use]
    pub fn to_json(&self) -> Value {
        if self.count() == 0 {
            return Value::Null;
        }
        let mut object = serde_json::Map::new();
        object.insert("count".into(), json!(self.count()));
        object.insert("mean".into(), json!(self.0.mean()));
        for (name, percentile) in PERCENTILES {
            object.insert(name.into(), json!(self.percentile_us(percentile)));
        }
        Value::Object(object)
    }
}

/// The table of several latencies.
#[must_use]
pub fn latency_table(rows: &[(&str, &Latency)]) -> Table {
    let mut table = new_table();
    let mut header = vec!["milliseconds".to_owned(), "count".to_owned(), "mean".to_owned()];
    header.extend(PERCENTILES.iter().map(|(name, _)| (*name).to_owned()));
    table.set_header(header);
    for (name, latency) in rows.iter().filter(|(_, latency)| latency.count() > 0) {
        let mut row = vec![(*name).to_owned(), latency.count().to_string()];
        row.push(format!("{:.2}", latency.0.mean() / 1000.0));
        row.extend(PERCENTILES.iter().map(|(_, percentile)| {
            format!("{:.2}", latency.percentile_us(*percentile) as f64 / 1000.0)
        }));
        table.add_row(row);
    }
    align_right(&mut table);
    table
}

/// A table of names and values.
#[must_use]
pub fn value_table(rows: &[(String, String)]) -> Table {
    let mut table = new_table();
    for (name, value) in rows {
        table.add_row([name, value]);
    }
    align_right(&mut table);
    table
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table
}

fn align_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// `count` per second; 0 for no time.
#[must_use]
pub fn rate(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// When each tenth of a number of messages was through: whether a relay slows down as its queue grows.
#[derive(Clone, Debug)]
pub struct Tenths {
    total: u64,
    /// How far it was, and when, for each tenth.
    reached: Vec<(u64, Duration)>,
}

impl Tenths {
    /// For a run of `total` messages.
    #[must_use]
    pub fn new(total: u64) -> Tenths {
        Tenths { total, reached: Vec::with_capacity(10) }
    }

    /// `count` of the total are through; `elapsed` is asked only when that completes a tenth.
    pub fn handle_count(&mut self, count: u64, elapsed: impl FnOnce() -> Duration) {
        let next = (self.reached.len() as u64 + 1) * self.total / 10;
        // Seen at once with the one before, a tenth would have no time of its own.
        let new = self.reached.last().is_none_or(|(before, _)| count > *before);
        if self.total >= 10 && new && count >= next && self.reached.len() < 10 {
            self.reached.push((count, elapsed()));
        }
    }

    /// Per second, for each tenth that was seen.
    #[must_use]
    pub fn rates(&self) -> Vec<f64> {
        let before = std::iter::once((0, Duration::ZERO)).chain(self.reached.iter().copied());
        let pairs = before.zip(&self.reached);
        pairs.map(|((n, then), (m, now))| rate(m - n, now.saturating_sub(then))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Latency, Tenths, rate};
    use std::time::Duration;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut latency = Latency::default();
        assert!(latency.to_json().is_null());
        (1..=1000).for_each(|ms| latency.record(Duration::from_millis(ms)));
        let p50 = latency.percentile_us(50.0);
        assert!((500_000..=501_000).contains(&p50), "{p50}");
        assert!((1_000_000..=1_001_000).contains(&latency.percentile_us(100.0)));
        latency.record(Duration::from_secs(100_000));
        assert!(latency.percentile_us(100.0) <= 601_000_000);
    }

    #[test]
    fn several_can_be_joined() {
        let (mut all, mut joined) = (Latency::default(), Latency::default());
        for part in [1..=500_u64, 501..=1000] {
            let mut latency = Latency::default();
            for ms in part {
                latency.record(Duration::from_millis(ms));
                all.record(Duration::from_millis(ms));
            }
            joined.add(&latency.buckets());
        }
        assert_eq!(joined.count(), 1000);
        assert_eq!(joined.percentile_us(99.0), all.percentile_us(99.0));
    }

    #[test]
    fn tenths_show_a_run_that_slows_down() {
        let mut tenths = Tenths::new(100);
        let mut now = Duration::ZERO;
        for n in 0..100 {
            now += Duration::from_millis(if n < 50 { 1 } else { 2 });
            tenths.handle_count(n + 1, || now);
        }
        let rates = tenths.rates();
        assert_eq!(rates.len(), 10);
        assert!((rates[0] - 1000.0).abs() < 0.1 && (rates[9] - 500.0).abs() < 0.1, "{rates:?}");
    }

    #[test]
    fn tenths_count_what_came_between() {
        let mut tenths = Tenths::new(100);
        for (ms, count) in [5, 12, 40, 100, 100, 100].into_iter().enumerate() {
            tenths.handle_count(count, || Duration::from_millis(ms as u64 + 1));
        }
        // 12, 40 and 100: a look that finds several tenths done sees one.
        let rates: Vec<u64> = tenths.rates().iter().map(|rate| rate.round() as u64).collect();
        assert_eq!(rates, [6_000, 28_000, 60_000]);
    }

    #[test]
    fn no_time_is_no_rate() {
        assert_eq!(rate(5, Duration::ZERO), 0.0);
    }
}
