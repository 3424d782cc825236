//! What is written down while a measurement runs: rates, queue, memory, once a second.

use super::report::{Series, TimelineEvent};
use std::time::{Duration, Instant};

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// The last sample is taken though less time has passed, but not less than this.
const LAST_INTERVAL_MIN: Duration = Duration::from_millis(200);

/// What there is at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Since the beginning.
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) rss_bytes: u64,
    pub(super) sources: u32,
}

/// Collects samples.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) begun: Instant,
    last: (Instant, Sample),
    accepted: Vec<(f64, f64)>,
    delivered: Vec<(f64, f64)>,
    queued: Vec<(f64, f64)>,
    memory: Vec<(f64, f64)>,
    sources: Vec<(f64, f64)>,
    pub(super) rss_peak_bytes: u64,
    pub(super) moments: Vec<TimelineEvent>,
}

impl Recorder {
    /// Begins now.
    pub(super) fn new(first: Sample) -> Recorder {
        let now = Instant::now();
        Recorder {
            begun: now,
            last: (now, first),
            accepted: Vec::new(),
            delivered: Vec::new(),
            queued: Vec::new(),
            memory: Vec::new(),
            sources: Vec::new(),
            rss_peak_bytes: first.rss_bytes,
            moments: Vec::new(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.last.0.elapsed() >= INTERVAL
    }

    /// Whether what came since the last sample is worth one more.
    pub(super) fn is_worth_a_last(&self) -> bool {
        self.last.0.elapsed() >= LAST_INTERVAL_MIN
    }

    pub(super) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Notes that something happens now.
    pub(super) fn moment(&mut self, what: impl Into<String>) {
        self.moments.push(TimelineEvent { seconds: self.seconds(), what: what.into() });
    }

    /// Takes a sample.
    pub(super) fn take(&mut self, sample: Sample) {
        let now = Instant::now();
        let (then, before) = self.last;
        self.last = (now, sample);
        let seconds = (now - then).as_secs_f64().max(1e-9);
        let at = (now - self.begun).as_secs_f64();
        let rate = |count: u64, before: u64| count.saturating_sub(before) as f64 / seconds;
        self.accepted.push((at, rate(sample.accepted, before.accepted)));
        self.delivered.push((at, rate(sample.delivered, before.delivered)));
        self.queued.push((at, sample.accepted.saturating_sub(sample.delivered) as f64));
        self.memory.push((at, sample.rss_bytes as f64));
        self.sources.push((at, f64::from(sample.sources)));
        self.rss_peak_bytes = self.rss_peak_bytes.max(sample.rss_bytes);
    }

    /// Memory at the first sample with at least so many queued, and how many those were.
    pub(super) fn memory_at(&self, queued: f64) -> Option<(f64, f64)> {
        let pairs = self.queued.iter().zip(&self.memory);
        let mut enough = pairs.filter(|((_, count), _)| *count >= queued);
        enough.next().map(|((_, count), (_, bytes))| (*count, *bytes))
    }

    /// All series; that of sources only if their number changed.
    pub(super) fn series(&self) -> Vec<Series> {
        let mut all = vec![
            named("accepted_per_second", "accepted", "1/s", &self.accepted),
            named("delivered_per_second", "delivered", "1/s", &self.delivered),
            named("queued", "queued", "messages", &self.queued),
            named("memory_bytes", "resident memory", "bytes", &self.memory),
        ];
        if self.sources.iter().any(|(_, count)| Some(*count) != self.sources.first().map(|s| s.1)) {
            all.push(named("sources", "sources", "sources", &self.sources));
        }
        all
    }
}

fn named(name: &str, title: &str, unit: &str, points: &[(f64, f64)]) -> Series {
    let [name, title, unit] = [name, title, unit].map(str::to_owned);
    Series { name, title, unit, points: points.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::{Recorder, Sample};

    fn sample(accepted: u64, delivered: u64) -> Sample {
        Sample { accepted, delivered, rss_bytes: accepted * 10, sources: 1 }
    }

    #[test]
    fn samples_become_rates_and_a_queue() {
        let mut recorder = Recorder::new(sample(100, 100));
        std::thread::sleep(std::time::Duration::from_millis(2));
        recorder.take(sample(300, 150));
        recorder.take(sample(300, 300));
        let series = recorder.series();
        let values = |name: &str| -> Vec<f64> {
            let found = series.iter().find(|series| series.name == name).expect("a series");
            found.points.iter().map(|(_, value)| *value).collect()
        };
        assert_eq!(values("queued"), [150.0, 0.0]);
        assert!(values("accepted_per_second")[0] > 0.0);
        assert_eq!(values("accepted_per_second")[1], 0.0);
        assert_eq!(recorder.memory_at(100.0), Some((150.0, 3000.0)));
        assert_eq!(recorder.rss_peak_bytes, 3000);
        assert!(!series.iter().any(|series| series.name == "sources"));
    }
}
