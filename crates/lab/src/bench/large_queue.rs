//! A large queue: the next hop is down, much comes in, the next hop is back.

use super::machine::disk_used_bytes;
use super::measurement::{Figures, accept_seconds, conclude, mark_gave_up, percentiles};
use super::report::Measurement;
use super::series::Tenths;
use super::stand::{Stand, Waited};
use super::traffic::{Load, SourceReport};
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
    stand: &mut Stand<'_>,
    load: &Load,
    kill: bool,
    limit: Instant,
) -> Result<Measurement, String> {
    stand.warm_up(load, limit)?;
    let mut figures = Figures::default();
    stand.begin_recording();
    let reference = reference(stand, load, limit, &mut figures)?;
    let intake = intake(stand, load, limit, &mut figures, reference)?;
    if intake.waited != Waited::Done {
        return conclude(stand, intake.measurement, intake.waited);
    }
    std::thread::sleep(PAUSE);
    stand.step()?;
    let (queued, rss) = (stand.accepted() - stand.delivered(), stand.usage().rss_bytes);
    figures.lower("memory_full_bytes", "resident memory with all queued", "bytes", rss as f64);
    // The slope, so that what a server has at rest doesn't count.
    if let Some((some, bytes)) = stand.recorder.memory_at(queued as f64 * 0.3)
        && queued >= SLOPE_QUEUED_MIN
        && some < queued as f64 * 0.8
    {
        let slope = (rss as f64 - bytes) / (queued as f64 - some);
        figures.lower("memory_bytes_per_queued", "memory per queued message", "bytes", slope);
    }
    let waited = if kill {
        recover(stand, limit, &mut figures)?
    } else {
        resume(stand, limit, &mut figures)?
    };
    let waited = match waited {
        Waited::Done => drain(stand, limit, &mut figures)?,
        other => other,
    };
    let mut measurement = intake.measurement;
    measurement.deliver_seconds = stand.recorder.seconds();
    measurement.delivered = stand.delivered() - intake.delivered_before;
    measurement.accepted = stand.accepted() - intake.accepted_before;
    figures.add_memory(stand.recorder.rss_peak_bytes, None);
    measurement.figures = figures.done();
    conclude(stand, measurement, waited)
}

/// With an empty queue and the next hop up: messages accepted per second.
fn reference(
    stand: &mut Stand<'_>,
    load: &Load,
    limit: Instant,
    figures: &mut Figures,
) -> Result<f64, String> {
    let load =
        Load { messages: (load.messages / REFERENCE_SHARE).max(REFERENCE_MIN), ..load.clone() };
    let (before, begun) = (stand.delivered(), Instant::now());
    stand.start_sources("reference", &load)?;
    let sent = stand.wait_until(limit, Stand::sources_ended)?;
    let reports = stand.finish_sources()?;
    let delivered = stand.wait_for_deliveries(limit)?;
    if (sent, delivered) != (Waited::Done, Waited::Done) {
        return Err("it doesn't get through the reference load".to_owned());
    }
    let acked: u64 = reports.iter().map(|report| report.acked).sum();
    let rate = acked as f64 / accept_seconds(&reports);
    let out = (stand.delivered() - before) as f64 / begun.elapsed().as_secs_f64();
    figures.higher("reference_accepted_per_second", "accepted with an empty queue", "1/s", rate);
    figures.higher("reference_delivered_per_second", "delivered with an empty queue", "1/s", out);
    Ok(rate)
}

struct Intake {
    measurement: Measurement,
    waited: Waited,
    accepted_before: u64,
    delivered_before: u64,
}

/// With the next hop down.
fn intake(
    stand: &mut Stand<'_>,
    load: &Load,
    limit: Instant,
    figures: &mut Figures,
    reference: f64,
) -> Result<Intake, String> {
    stand.stop_sink()?;
    stand.recorder.moment("next hop down");
    let before = stand.snapshot();
    stand.start_sources("load", load)?;
    let (waited, tenths) = stand.wait_for_sources(limit, load.messages)?;
    let reports: Vec<SourceReport> = stand.finish_sources()?;
    stand.recorder.moment("all queued");
    let after = stand.snapshot();
    let accepted = after.accepted - before.accepted;
    let accept_seconds = accept_seconds(&reports);
    let rate = accepted as f64 / accept_seconds;
    figures.higher("accepted_per_second", "accepted while the queue grows", "1/s", rate);
    figures.higher(
        "accepted_of_reference",
        "the same, of that with an empty queue",
        "%",
        rate / reference * 100.0,
    );
    if let (10, Some(first), Some(last)) = (tenths.len(), tenths.first(), tenths.last()) {
        figures.higher(
            "last_tenth_of_first",
            "last tenth of intake, of the first",
            "%",
            last / first * 100.0,
        );
    }
    figures.add_usage(&before, &after, accepted);
    let disk = disk_used_bytes(stand.server_directory()) as f64;
    figures.lower("disk_used_bytes", "disk used with all queued", "bytes", disk);
    let measurement = Measurement {
        contender: stand.contender.name().to_owned(),
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
fn resume(stand: &mut Stand<'_>, limit: Instant, figures: &mut Figures) -> Result<Waited, String> {
    let before = stand.delivered();
    stand.start_sink()?;
    stand.recorder.moment("next hop up");
    let begun = Instant::now();
    stand.flush_server()?;
    let waited = stand.wait_until(limit, |stand| Ok(stand.delivered() > before))?;
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
fn recover(stand: &mut Stand<'_>, limit: Instant, figures: &mut Figures) -> Result<Waited, String> {
    let before = stand.delivered();
    stand.kill_server()?;
    stand.recorder.moment("SIGKILL");
    stand.start_sink()?;
    let begun = Instant::now();
    stand.start_server()?;
    let listening = begun.elapsed().as_secs_f64();
    figures.lower("recovery_listening_seconds", "from the start to listening", "s", listening);
    stand.recorder.moment("listening again");
    stand.flush_server()?;
    let waited = stand.wait_until(limit, |stand| Ok(stand.delivered() > before))?;
    let seconds = begun.elapsed().as_secs_f64();
    figures.lower("recovery_seconds", "from the start to the first delivery", "s", seconds);
    Ok(waited)
}

/// Until the queue is empty.
fn drain(stand: &mut Stand<'_>, limit: Instant, figures: &mut Figures) -> Result<Waited, String> {
    let (before, begun) = (stand.delivered(), Instant::now());
    let total = stand.accepted().saturating_sub(before);
    let mut tenths = Tenths::new(total);
    let cpu = stand.snapshot();
    let waited = stand.wait_until(limit, |stand| {
        tenths.handle_count(stand.delivered() - before);
        Ok(stand.delivered() >= stand.accepted())
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    stand.recorder.moment("queue empty");
    let delivered = stand.delivered() - before;
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
    let used = stand.last_snapshot();
    let seconds = used.usage.user_seconds + used.usage.system_seconds
        - cpu.usage.user_seconds
        - cpu.usage.system_seconds;
    let each = seconds.max(0.0) * 1e6 / delivered.max(1) as f64;
    figures.lower("drain_cpu_us_per_message", "CPU per message while it drains", "µs", each);
    Ok(waited)
}
