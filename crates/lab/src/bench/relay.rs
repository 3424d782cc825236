//! The relay runs: all at once in, all at once out.

use super::machine::disk_used_bytes;
use super::measurement::{Figures, accept_seconds, conclude, mark_gave_up, percentiles};
use super::report::{Mark, Measurement, Severity};
use super::trial::{Trial, WaitResult};
use crate::stand::{Load, Result, SourceReport, Tool};
use load::proc;
use std::time::{Duration, Instant};

/// Measures one contender.
///
/// # Errors
/// What kept it from being measured.
pub(super) fn measure(trial: &mut Trial<'_>, load: &Load, limit: Instant) -> Result<Measurement> {
    trial.warm_up(load, limit)?;
    let before = trial.snapshot();
    trial.begin_recording();
    match load.tool {
        Tool::Source => trial.start_sources("load", load)?,
        Tool::Postal => trial.start_postal(load)?,
    }
    let Intake { waited: sent, by_tenth, is_cut_off } = take_in(trial, load, limit)?;
    let disk_used = disk_used_bytes(trial.server_directory());
    let proportional = proc::proportional_bytes(&trial.members());
    let reports = trial.finish_sources()?;
    let waited = if sent == WaitResult::Done { trial.wait_for_deliveries(limit)? } else { sent };
    let deliver_seconds = trial.recorder.seconds();
    let after = trial.last_snapshot();
    // Sources that were stopped finished what they had begun.
    let (accepted, delivered) =
        (after.accepted - before.accepted, after.delivered - before.delivered);
    let accept_seconds = accept_seconds(&reports);
    let latency = percentiles(&reports);

    let mut figures = Figures::default();
    figures.higher("accepted_per_second", "accepted", "1/s", accepted as f64 / accept_seconds);
    figures.higher("delivered_per_second", "delivered", "1/s", delivered as f64 / deliver_seconds);
    if let Some(rate) = load.rate {
        let share = 100.0 * accepted as f64 / (rate * accept_seconds);
        figures.higher("accepted_of_offered", "share of offered messages accepted", "%", share);
    }
    figures.lower("accept_seconds", "time to accept all", "s", accept_seconds);
    figures.lower("deliver_seconds", "time to deliver all", "s", deliver_seconds);
    if load.tls.is_some() {
        figures.neither("resumed_percent", "handshakes resumed", "%", resumed_percent(&reports));
    }
    if let Some(latency) = &latency {
        figures.lower("latency_p50_ms", "latency, median", "ms", latency.p50_us / 1e3);
        figures.lower("latency_p99_ms", "latency, 99th percentile", "ms", latency.p99_us / 1e3);
    }
    figures.add_usage(&before, &after, delivered);
    figures.add_memory(trial.recorder.rss_peak_bytes.max(after.usage.rss_bytes), proportional);
    figures.lower("disk_used_bytes", "disk used at the end of intake", "bytes", disk_used as f64);
    let mut marks = mark_gave_up(&reports);
    if let Some(cut_off) = load.cut_off.filter(|_| is_cut_off) {
        marks.push(cut_off_mark(cut_off, accepted, load.messages));
    }
    let measurement = Measurement {
        contender: trial.name().to_owned(),
        accepted,
        delivered,
        accept_seconds,
        deliver_seconds,
        latency,
        intake_by_tenth: by_tenth,
        marks,
        ..Measurement::default()
    };
    let mut measurement = conclude(trial, measurement, waited)?;
    if let Some(syncs) = trial.exit_report().sync_count {
        figures.neither("sync_count", "syncs, with those of the warm-up", "", syncs as f64);
    }
    measurement.figures = figures.done();
    Ok(measurement)
}

/// Of the sources' handshakes, those that went on with an earlier session.
fn resumed_percent(reports: &[SourceReport]) -> f64 {
    let all: u64 = reports.iter().map(|report| report.handshakes).sum();
    let resumed: u64 = reports.iter().map(|report| report.handshakes_resumed).sum();
    100.0 * resumed as f64 / all.max(1) as f64
}

/// How the intake ended.
struct Intake {
    waited: WaitResult,
    /// Messages per second in each tenth of it.
    by_tenth: Vec<f64>,
    is_cut_off: bool,
}

/// Waits for the sources, as long as they may send.
fn take_in(trial: &mut Trial<'_>, load: &Load, limit: Instant) -> Result<Intake> {
    if let Some(lasts) = load.lasts {
        let waited = trial.wait_for_time(limit, lasts)?;
        return Ok(Intake { waited, by_tenth: Vec::new(), is_cut_off: false });
    }
    let cut_off = load.cut_off.map(|cut_off| Instant::now() + cut_off);
    let until = cut_off.filter(|cut_off| *cut_off < limit);
    let (waited, by_tenth) = trial.wait_for_sources(until.unwrap_or(limit), load.messages)?;
    if until.is_some() && waited == WaitResult::TimedOut {
        return Ok(Intake { waited: WaitResult::Done, by_tenth: Vec::new(), is_cut_off: true });
    }
    Ok(Intake { waited, by_tenth, is_cut_off: false })
}

fn cut_off_mark(cut_off: Duration, accepted: u64, messages: u64) -> Mark {
    let seconds = cut_off.as_secs();
    let text = format!(
        "it was cut off after {seconds} s, with {accepted} of {messages} messages accepted"
    );
    Mark { severity: Severity::Note, text }
}
