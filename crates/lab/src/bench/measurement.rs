//! From what was seen on the stand to a measurement.

use super::report::{Better, Ending, Figure, Mark, Measurement, Percentiles, Severity};
use super::trial::{Snapshot, Trial, WaitResult};
use crate::stand::{Result, SourceReport, join_latencies};

/// Collects figures.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    pub(super) fn add(&mut self, better: Better, name: &str, title: &str, unit: &str, value: f64) {
        let [name, title, unit] = [name, title, unit].map(str::to_owned);
        if value.is_finite() {
            self.0.push(Figure { name, title, unit, value, better });
        }
    }

    pub(super) fn higher(&mut self, name: &str, title: &str, unit: &str, value: f64) {
        self.add(Better::Higher, name, title, unit, value);
    }

    pub(super) fn lower(&mut self, name: &str, title: &str, unit: &str, value: f64) {
        self.add(Better::Lower, name, title, unit, value);
    }

    pub(super) fn neither(&mut self, name: &str, title: &str, unit: &str, value: f64) {
        self.add(Better::Neither, name, title, unit, value);
    }

    /// What was used between two moments, for so many messages.
    pub(super) fn add_usage(&mut self, before: &Snapshot, after: &Snapshot, messages: u64) {
        let each = |value: f64| value / messages.max(1) as f64;
        // A process that ended and that nobody waited for takes its time with it.
        let used = |after: f64, before: f64| (after - before).max(0.0);
        let user = used(after.usage.user_seconds, before.usage.user_seconds);
        let system = used(after.usage.system_seconds, before.usage.system_seconds);
        let written = after.usage.written_bytes.saturating_sub(before.usage.written_bytes) as f64;
        self.lower("cpu_us_per_message", "CPU per message", "µs", each((user + system) * 1e6));
        self.neither("cpu_user_seconds", "CPU in user space", "s", user);
        self.neither("cpu_system_seconds", "CPU in the kernel", "s", system);
        let title = "written to the page cache for the disk";
        self.neither("written_bytes", title, "bytes", written);
        let device = after.device_written_bytes.zip(before.device_written_bytes);
        if let Some(device) = device.map(|(after, before)| after.saturating_sub(before) as f64) {
            self.neither("device_written_bytes", "written to the device by all", "bytes", device);
            let title = "written to the device per message";
            self.lower("device_written_bytes_per_message", title, "bytes", each(device));
        } else {
            self.lower("written_bytes_per_message", "written per message", "bytes", each(written));
        }
        let syncs = after.sync_count.zip(before.sync_count);
        if let Some(syncs) = syncs.map(|(after, before)| after.saturating_sub(before)) {
            self.neither("sync_count", "syncs", "", syncs as f64);
            self.lower("syncs_per_message", "syncs per message", "", each(syncs as f64));
        }
        let busy = after.busy.percent_since(before.busy);
        self.neither("machine_cpu_percent", "whole machine busy", "%", busy);
        let directory = after.directory_cpu_seconds.zip(before.directory_cpu_seconds);
        if let Some((after, before)) = directory {
            let title = "CPU of slapd per message";
            let value = each(used(after, before) * 1e6);
            self.neither("directory_cpu_us_per_message", title, "µs", value);
        }
        let sink = used(after.sink_cpu_seconds, before.sink_cpu_seconds);
        self.neither(
            "sink_cpu_us_per_message",
            "CPU of the sink per message",
            "µs",
            each(sink * 1e6),
        );
    }

    pub(super) fn add_memory(&mut self, peak_bytes: u64, proportional_bytes: Option<u64>) {
        let title = "resident memory, peak of samples";
        self.lower("memory_peak_bytes", title, "bytes", peak_bytes as f64);
        if let Some(bytes) = proportional_bytes {
            let title = "memory, shared pages counted once, at the end of intake";
            self.lower("memory_shared_once_bytes", title, "bytes", bytes as f64);
        }
    }

    pub(super) fn done(self) -> Vec<Figure> {
        self.0
    }
}

/// Latencies of sources as percentiles; `None` without any.
pub(super) fn percentiles(reports: &[SourceReport]) -> Option<Percentiles> {
    let latency = join_latencies(reports);
    let at = |percentile| latency.percentile_us(percentile) as f64;
    (latency.count() > 0).then(|| Percentiles {
        count: latency.count(),
        mean_us: latency.mean_us(),
        p50_us: at(50.0),
        p90_us: at(90.0),
        p99_us: at(99.0),
        p999_us: at(99.9),
        max_us: at(100.0),
    })
}

/// The longest that a source took.
pub(super) fn accept_seconds(reports: &[SourceReport]) -> f64 {
    reports.iter().map(|report| report.seconds).fold(0.0, f64::max)
}

/// Sources that could not go on: what they had left was never sent.
pub(super) fn mark_gave_up(reports: &[SourceReport]) -> Vec<Mark> {
    let count: u64 = reports.iter().map(|report| report.sessions_gave_up).sum();
    let text = format!("{count} sessions of the sources ended without a connection");
    (count > 0).then_some(Mark { severity: Severity::Doubtful, text }).into_iter().collect()
}

/// Closes the trial, accounts for every message, and judges.
///
/// # Errors
/// When something doesn't end, or a ledger can't be read.
pub(super) fn conclude(
    trial: &mut Trial<'_>,
    mut measurement: Measurement,
    waited: WaitResult,
) -> Result<Measurement> {
    trial.end_recording();
    measurement.series = trial.recorder.series();
    measurement.moments = trial.recorder.moments.clone();
    measurement.account = trial.close()?;
    (measurement.ending, measurement.ending_note) = match waited {
        WaitResult::Done => (Ending::Finished, String::new()),
        WaitResult::TimedOut => (Ending::TimedOut, "stopped at its time limit".to_owned()),
        WaitResult::Still => (Ending::Failed, "stopped without progress".to_owned()),
    };
    judge(&mut measurement);
    Ok(measurement)
}

/// Marks what the account shows.
pub(super) fn judge(measurement: &mut Measurement) {
    let account = &measurement.account;
    let named = match account.findings.join("; ") {
        none if none.is_empty() => none,
        some => format!(" ({some})"),
    };
    let mut marks = Vec::new();
    let mut mark = |severity, text: String| marks.push(Mark { severity, text });
    match measurement.ending {
        Ending::Finished => {}
        Ending::TimedOut => {
            mark(Severity::Doubtful, format!("did not finish: {}", measurement.ending_note));
            if account.missing > 0 {
                mark(Severity::Note, format!("{} were not delivered yet", account.missing));
            }
        }
        Ending::Failed => mark(Severity::Invalid, format!("failed: {}", measurement.ending_note)),
    }
    if account.missing > 0 && measurement.ending != Ending::TimedOut {
        mark(
            Severity::Invalid,
            format!("LOSS: {} acknowledged and never delivered{named}", account.missing),
        );
    }
    if account.duplicates > account.duplicates_allowed {
        let allowed = account.duplicates_allowed;
        mark(
            Severity::Invalid,
            format!(
                "{} delivered more than once, {allowed} of these explained{named}",
                account.duplicates
            ),
        );
    } else if account.duplicates > 0 {
        mark(Severity::Note, format!("{} delivered twice after SIGKILL", account.duplicates));
    }
    if account.damaged > 0 {
        mark(Severity::Invalid, format!("{} arrived damaged", account.damaged));
    }
    if account.misdelivered > 0 {
        mark(Severity::Invalid, format!("{} arrived at a wrong recipient", account.misdelivered));
    }
    if account.refused + account.unknown > 0 {
        let (refused, unknown) = (account.refused, account.unknown);
        mark(
            Severity::Doubtful,
            format!("{refused} were refused, the fate of {unknown} is unknown to the source"),
        );
    }
    measurement.marks.extend(marks);
}

/// The measurement of a contender that could not be measured.
pub(super) fn failed(contender: &str, why: &str) -> Measurement {
    let mut measurement = Measurement {
        contender: contender.to_owned(),
        ending: Ending::Failed,
        ending_note: why.to_owned(),
        ..Measurement::default()
    };
    judge(&mut measurement);
    measurement
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::bench::report::{Ending, Measurement, MessageBalance, Severity};

    fn judged(ending: Ending, account: MessageBalance) -> Severity {
        let mut measurement = Measurement { ending, account, ..Measurement::default() };
        judge(&mut measurement);
        measurement.severity()
    }

    #[test]
    fn what_the_account_shows_is_judged() {
        let good = MessageBalance { acknowledged: 10, arrived: 10, ..MessageBalance::default() };
        assert_eq!(judged(Ending::Finished, good.clone()), Severity::Note);
        let with = |change: fn(&mut MessageBalance)| {
            let mut account = good.clone();
            change(&mut account);
            account
        };
        assert_eq!(judged(Ending::Finished, with(|a| a.missing = 1)), Severity::Invalid);
        assert_eq!(judged(Ending::Failed, with(|_| {})), Severity::Invalid);
        assert_eq!(judged(Ending::TimedOut, with(|a| a.missing = 1)), Severity::Doubtful);
        assert_eq!(judged(Ending::Finished, with(|a| a.duplicates = 1)), Severity::Invalid);
        let explained = with(|a| (a.duplicates, a.duplicates_allowed) = (3, 3));
        assert_eq!(judged(Ending::Finished, explained), Severity::Note);
        assert_eq!(judged(Ending::Finished, with(|a| a.damaged = 1)), Severity::Invalid);
        assert_eq!(judged(Ending::Finished, with(|a| a.misdelivered = 1)), Severity::Invalid);
        assert_eq!(judged(Ending::Finished, with(|a| a.refused = 1)), Severity::Doubtful);
    }
}
