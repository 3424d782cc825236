//! The relay runs: all at once in, all at once out.

use super::load::Load;
use super::machine::disk_used_bytes;
use super::measurement::{Figures, accept_seconds, conclude, mark_gave_up, percentiles};
use super::report::Measurement;
use super::stand::{Stand, Waited};
use super::tree;
use std::time::Instant;

/// Measures one contender.
///
/// # Errors
/// What kept it from being measured.
pub(super) fn measure(
    stand: &mut Stand<'_>,
    load: &Load,
    limit: Instant,
) -> Result<Measurement, String> {
    stand.warm_up(load, limit)?;
    let before = stand.snapshot();
    stand.begin_recording();
    stand.start_sources("load", load)?;
    let (sent, intake_by_tenth) = match load.lasts {
        None => stand.wait_for_sources(limit, load.messages)?,
        Some(lasts) => (stand.wait_for_time(limit, lasts)?, Vec::new()),
    };
    let disk_used = disk_used_bytes(stand.server_directory());
    let proportional = tree::proportional_bytes(&stand.members());
    let reports = stand.finish_sources()?;
    let waited = if sent == Waited::Done { stand.wait_for_deliveries(limit)? } else { sent };
    let deliver_seconds = stand.recorder.seconds();
    let after = stand.last_snapshot();
    // Sources that were stopped finished what they had begun.
    let (accepted, delivered) =
        (after.accepted - before.accepted, after.delivered - before.delivered);
    let accept_seconds = accept_seconds(&reports);
    let latency = percentiles(&reports);

    let mut figures = Figures::default();
    figures.higher("accepted_per_second", "accepted", "1/s", accepted as f64 / accept_seconds);
    figures.higher("delivered_per_second", "delivered", "1/s", delivered as f64 / deliver_seconds);
    figures.lower("accept_seconds", "time to accept all", "s", accept_seconds);
    figures.lower("deliver_seconds", "time to deliver all", "s", deliver_seconds);
    if let Some(latency) = &latency {
        figures.lower("latency_p50_ms", "latency, half of them", "ms", latency.p50_us / 1e3);
        figures.lower("latency_p99_ms", "latency, 99 % of them", "ms", latency.p99_us / 1e3);
    }
    figures.add_usage(&before, &after, delivered);
    figures.add_memory(stand.recorder.rss_peak_bytes.max(after.usage.rss_bytes), proportional);
    figures.lower("disk_used_bytes", "disk used at the end of intake", "bytes", disk_used as f64);
    let measurement = Measurement {
        contender: stand.contender.name().to_owned(),
        accepted,
        delivered,
        accept_seconds,
        deliver_seconds,
        latency,
        intake_by_tenth,
        marks: mark_gave_up(&reports),
        ..Measurement::default()
    };
    let mut measurement = conclude(stand, measurement, waited)?;
    if let Some(syncs) = stand.farewell().sync_count {
        figures.neither("sync_count", "syncs, with those of the warm-up", "", syncs as f64);
    }
    measurement.figures = figures.done();
    Ok(measurement)
}
