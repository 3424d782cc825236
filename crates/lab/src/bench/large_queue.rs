//! A large queue: the next hop is down, much comes in, the next hop is back.

use super::machine::disk_used_bytes;
use super::measurement::{Figures, accept_seconds, conclude, mark_gave_up, percentiles};
use super::report::Measurement;
use super::trial::{Trial, WaitResult};
use crate::stand::{Error, Load, Result, SourceReport};
use load::stats::Tenths;
use std::time::{Duration, Instant};

/// Between the last message in and the next hop's return.
const PAUSE: Duration = Duration::from_secs(2);
/// The reference load has this share of the messages, at least [`REFERENCE_MIN`].
const REFERENCE_SHARE: u64 = 10;
const REFERENCE_MIN: u64 = 500;
/// With fewer queued, what caches and processes take hides what a message takes.
const SLOPE_QUEUED_MIN: u64 = 50_000;

/// Measures one contender; with `kill` it gets SIGKILL when all is queued.
///
/// # Errors
/// What kept it from being measured.
pub(super) fn measure(
    trial: &mut Trial<'_>,
    load: &Load,
    kill: bool,
    limit: Instant,
) -> Result<Measurement> {
    trial.warm_up(load, limit)?;
    let mut figures = Figures::default();
    trial.begin_recording();
    let reference = reference(trial, load, limit, &mut figures)?;
    let intake = intake(trial, load, limit, &mut figures, reference)?;
    if intake.waited != WaitResult::Done {
        return conclude(trial, intake.measurement, intake.waited);
    }
    std::thread::sleep(PAUSE);
    trial.step()?;
    let (queued, rss) = (trial.accepted() - trial.delivered(), trial.usage().rss_bytes);
    figures.lower("memory_full_bytes", "resident memory with all queued", "bytes", rss as f64);
    // The slope, so that what a server has at rest doesn't count.
    if let Some((some, bytes)) = trial.recorder.memory_at(queued as f64 * 0.3)
        && queued >= SLOPE_QUEUED_MIN
        && some < queued as f64 * 0.8
    {
        let slope = (rss as f64 - bytes) / (queued as f64 - some);
        figures.lower("memory_bytes_per_queued", "memory per queued message", "bytes", slope);
    }
    let waited = if kill {
        recover(trial, limit, &mut figures)?
    } else {
        resume(trial, limit, &mut figures)?
    };
    let waited = match waited {
        WaitResult::Done => drain(trial, limit, &mut figures)?,
        other => other,
    };
    let mut measurement = intake.measurement;
    measurement.deliver_seconds = trial.recorder.seconds();
    measurement.delivered = trial.delivered() - intake.delivered_before;
    measurement.accepted = trial.accepted() - intake.accepted_before;
    figures.add_memory(trial.recorder.rss_peak_bytes, None);
    measurement.figures = figures.done();
    conclude(trial, measurement, waited)
}

/// With an empty queue and the next hop up: messages accepted per second.
fn reference(
    trial: &mut Trial<'_>,
    load: &Load,
    limit: Instant,
    figures: &mut Figures,
) -> Result<f64> {
    let load =
        Load { messages: (load.messages / REFERENCE_SHARE).max(REFERENCE_MIN), ..load.clone() };
    let (before, begun) = (trial.delivered(), Instant::now());
    trial.start_sources("reference", &load)?;
    let sent = trial.wait_until(limit, Trial::sources_ended)?;
    let reports = trial.finish_sources()?;
    let delivered = trial.wait_for_deliveries(limit)?;
    if (sent, delivered) != (WaitResult::Done, WaitResult::Done) {
        return Err(Error::Server("it does not complete the reference load".to_owned()));
    }
    let acked: u64 = reports.iter().map(|report| report.acked).sum();
    let rate = acked as f64 / accept_seconds(&reports);
    let out = (trial.delivered() - before) as f64 / begun.elapsed().as_secs_f64();
    figures.higher("reference_accepted_per_second", "accepted with an empty queue", "1/s", rate);
    figures.higher("reference_delivered_per_second", "delivered with an empty queue", "1/s", out);
    Ok(rate)
}

struct Intake {
    measurement: Measurement,
    waited: WaitResult,
    accepted_before: u64,
    delivered_before: u64,
}

/// With the next hop down.
fn intake(
    trial: &mut Trial<'_>,
    load: &Load,
    limit: Instant,
    figures: &mut Figures,
    reference: f64,
) -> Result<Intake> {
    trial.stop_sink()?;
    trial.recorder.moment("next hop down");
    let before = trial.snapshot();
    trial.start_sources("load", load)?;
    let (waited, tenths) = trial.wait_for_sources(limit, load.messages)?;
    let reports: Vec<SourceReport> = trial.finish_sources()?;
    trial.recorder.moment("all queued");
    let after = trial.snapshot();
    let accepted = after.accepted - before.accepted;
    let accept_seconds = accept_seconds(&reports);
    let rate = accepted as f64 / accept_seconds;
    figures.higher("accepted_per_second", "accepted while the queue grows", "1/s", rate);
    figures.higher(
        "accepted_of_reference",
        "the same, relative to an empty queue",
        "%",
        rate / reference * 100.0,
    );
    if let (10, Some(first), Some(last)) = (tenths.len(), tenths.first(), tenths.last()) {
        figures.higher(
            "last_tenth_of_first",
            "last tenth of intake, relative to the first",
            "%",
            last / first * 100.0,
        );
    }
    figures.add_usage(&before, &after, accepted);
    let disk = disk_used_bytes(trial.server_directory()) as f64;
    figures.lower("disk_used_bytes", "disk used with all queued", "bytes", disk);
    let measurement = Measurement {
        contender: trial.name().to_owned(),
        accept_seconds,
        latency: percentiles(&reports),
        intake_by_tenth: tenths,
        marks: mark_gave_up(&reports),
        accepted,
        ..Measurement::default()
    };
    let (accepted_before, delivered_before) = (before.accepted, before.delivered);
    Ok(Intake { measurement, waited, accepted_before, delivered_before })
}

/// The next hop is back.
fn resume(trial: &mut Trial<'_>, limit: Instant, figures: &mut Figures) -> Result<WaitResult> {
    let before = trial.delivered();
    trial.start_sink()?;
    trial.recorder.moment("next hop up");
    let begun = Instant::now();
    trial.flush_server()?;
    let waited = trial.wait_until(limit, |trial| Ok(trial.delivered() > before))?;
    let seconds = begun.elapsed().as_secs_f64();
    figures.lower(
        "resume_seconds",
        "from the next hop's return to the first delivery",
        "s",
        seconds,
    );
    Ok(waited)
}

/// SIGKILL, and a start with the next hop up.
fn recover(trial: &mut Trial<'_>, limit: Instant, figures: &mut Figures) -> Result<WaitResult> {
    let before = trial.delivered();
    trial.kill_server()?;
    trial.recorder.moment("SIGKILL");
    trial.start_sink()?;
    let begun = Instant::now();
    trial.start_server()?;
    let listening = begun.elapsed().as_secs_f64();
    figures.lower("recovery_listening_seconds", "from the start to listening", "s", listening);
    trial.recorder.moment("listening again");
    trial.flush_server()?;
    let waited = trial.wait_until(limit, |trial| Ok(trial.delivered() > before))?;
    let seconds = begun.elapsed().as_secs_f64();
    figures.lower("recovery_seconds", "from the start to the first delivery", "s", seconds);
    Ok(waited)
}

/// Until the queue is empty.
fn drain(trial: &mut Trial<'_>, limit: Instant, figures: &mut Figures) -> Result<WaitResult> {
    let (before, begun) = (trial.delivered(), Instant::now());
    let total = trial.accepted().saturating_sub(before);
    let mut tenths = Tenths::new(total);
    let cpu = trial.snapshot();
    let waited = trial.wait_until(limit, |trial| {
        tenths.handle_count(trial.delivered() - before, || begun.elapsed());
        Ok(trial.delivered() >= trial.accepted())
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    trial.recorder.moment("queue empty");
    let delivered = trial.delivered() - before;
    figures.higher(
        "drained_per_second",
        "delivered while the queue drains",
        "1/s",
        delivered as f64 / seconds,
    );
    let rates = tenths.rates();
    if let (10, Some(first), Some(last)) = (rates.len(), rates.first(), rates.last()) {
        figures.higher("drained_first_tenth", "the same at full depth", "1/s", *first);
        figures.higher("drained_last_tenth", "the same near empty", "1/s", *last);
    }
    let used = trial.last_snapshot();
    let seconds = used.usage.cpu_seconds() - cpu.usage.cpu_seconds();
    let each = seconds.max(0.0) * 1e6 / delivered.max(1) as f64;
    figures.lower("drain_cpu_us_per_message", "CPU per message while it drains", "µs", each);
    Ok(waited)
}
