//! Steady state: one source more every interval; sources stop while too much is queued.

use super::measurement::{Figures, conclude, mark_gave_up, percentiles};
use super::report::Measurement;
use super::trial::Trial;
use crate::stand::{Load, Result};
use load::proc;
use std::time::{Duration, Instant};

/// Sources stop when more than this is accepted and not delivered.
const HIGH_WATER: u64 = 5000;
/// And go on below this.
const LOW_WATER: u64 = 500;

/// Measures one contender. The load's `sources` is the number to go up to.
///
/// # Errors
/// What kept it from being measured.
pub(super) fn measure(
    trial: &mut Trial<'_>,
    load: &Load,
    interval: Duration,
    limit: Instant,
) -> Result<Measurement> {
    let first = Load { sources: 1, messages: 50, ..load.clone() };
    trial.warm_up(&first, limit)?;
    let before = trial.snapshot();
    trial.begin_recording();
    let mut flow = Flow::default();
    let by_sources = step_up(trial, load, interval, limit, &mut flow)?;
    let after = trial.snapshot();
    let seconds = trial.recorder.seconds();
    let proportional = proc::proportional_bytes(&trial.members());
    let reports = trial.finish_sources()?;
    trial.recorder.moment("sources stopped");
    let waited = trial.wait_for_deliveries(limit)?;
    let deliver_seconds = trial.recorder.seconds();
    let (accepted, delivered) =
        (after.accepted - before.accepted, after.delivered - before.delivered);
    let latency = percentiles(&reports);

    let mut figures = Figures::default();
    add_best(&mut figures, &by_sources, load);
    figures.higher(
        "delivered_per_second",
        "delivered, all intervals",
        "1/s",
        delivered as f64 / seconds,
    );
    figures.higher(
        "accepted_per_second",
        "accepted, all intervals",
        "1/s",
        accepted as f64 / seconds,
    );
    if let (Some(first), Some(last)) = (by_sources.first(), by_sources.last()) {
        figures.higher("delivered_first_interval", "delivered with one source", "1/s", *first);
        figures.higher("delivered_last_interval", "delivered with all sources", "1/s", *last);
    }
    figures.neither("pauses", "times that sources were stopped", "", f64::from(flow.pauses));
    figures.add_usage(&before, &after, delivered);
    figures.add_memory(trial.recorder.rss_peak_bytes, proportional);
    let measurement = Measurement {
        contender: trial.name().to_owned(),
        accepted: trial.accepted() - before.accepted,
        delivered: trial.delivered() - before.delivered,
        accept_seconds: seconds,
        deliver_seconds,
        latency,
        marks: mark_gave_up(&reports),
        figures: figures.done(),
        ..Measurement::default()
    };
    conclude(trial, measurement, waited)
}

/// What the best interval came to, and how many sources it took.
fn add_best(figures: &mut Figures, by_sources: &[f64], load: &Load) {
    let best = by_sources.iter().copied().max_by(f64::total_cmp).unwrap_or(0.0);
    figures.higher("best_delivered_per_second", "delivered in the best interval", "1/s", best);
    let bytes = best * load.body_bytes.max as f64;
    figures.higher(
        "best_delivered_bytes_per_second",
        "the best interval in bytes",
        "bytes/s",
        bytes,
    );
    let sources = by_sources.iter().position(|rate| *rate == best).map_or(0, |index| index + 1);
    figures.neither("best_sources", "sources in the best interval", "", sources as f64);
    figures.higher(
        "best_mbit_per_second",
        "the best interval, bodies",
        "Mbit/s",
        bytes * 8.0 / 1e6,
    );
}

/// One source more every interval. Gives the deliveries per second in each.
fn step_up(
    trial: &mut Trial<'_>,
    load: &Load,
    interval: Duration,
    limit: Instant,
    flow: &mut Flow,
) -> Result<Vec<f64>> {
    let mut by_sources = Vec::new();
    for number in 1..=load.sources {
        trial.start_source("load", load, number)?;
        let (begun, delivered) = (Instant::now(), trial.delivered());
        while begun.elapsed() < interval && Instant::now() < limit {
            trial.step()?;
            flow.regulate(trial);
        }
        let rate = (trial.delivered() - delivered) as f64 / begun.elapsed().as_secs_f64();
        by_sources.push(rate);
    }
    Ok(by_sources)
}

/// Stops the sources and lets them go on.
#[derive(Debug, Default)]
struct Flow {
    paused: bool,
    pauses: u32,
}

impl Flow {
    fn regulate(&mut self, trial: &mut Trial<'_>) {
        let queued = trial.accepted().saturating_sub(trial.delivered());
        if let Some(word) = self.handle_queued(queued) {
            trial.tell_sources(word);
        } else if self.paused {
            // A source that was started meanwhile must learn of it, too.
            trial.tell_sources("pause");
        }
    }

    /// What to tell the sources, if anything changes.
    fn handle_queued(&mut self, queued: u64) -> Option<&'static str> {
        if !self.paused && queued > HIGH_WATER {
            self.paused = true;
            self.pauses += 1;
            return Some("pause");
        }
        if self.paused && queued < LOW_WATER {
            self.paused = false;
            return Some("resume");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Flow;

    #[test]
    fn sources_stop_at_the_high_water_mark_and_go_on_at_the_low_one() {
        let mut flow = Flow::default();
        let words: Vec<Option<&str>> = [0, 5000, 5001, 9000, 500, 499, 600, 5001]
            .map(|queued| flow.handle_queued(queued))
            .to_vec();
        let expected = [None, None, Some("pause"), None, None, Some("resume"), None, Some("pause")];
        assert_eq!(words, expected);
        assert_eq!(flow.pauses, 2);
    }
}
