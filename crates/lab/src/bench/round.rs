//! One contender in one case, from an empty directory to its measurement.

use super::machine::probe_disk;
use super::measurement::failed;
use super::report::{ConfigFile, Ending, Measurement, Severity};
use super::scenario::{Case, MeasurementKind};
use super::trial::Trial;
use super::workload::Site;
use super::{large_queue, mailboxes, relay, steady_state};
use crate::stand::contender::Contender;
use crate::stand::{Error, Load, Result};
use load::file::{self, FileError};
use std::time::{Duration, Instant};

/// A measurement may take so long, whatever it measures,
const LIMIT_BASE: Duration = Duration::from_secs(180);
/// and so long for each message
const LIMIT_PER_MESSAGE: Duration = Duration::from_millis(20);
/// and, where time ends the intake, so many times that time,
const LIMIT_PER_SECOND: u32 = 10;
/// and each byte that it takes in.
const LIMIT_PER_BYTE: Duration = Duration::from_nanos(300);

/// Measures; a contender that can't be measured gives a measurement that says so. With it, what it
/// was configured with.
///
/// # Errors
/// When the run was interrupted, or the directory can't be used.
pub(super) fn measure(
    contender: &dyn Contender,
    case: &Case,
    load: &Load,
    scale: f64,
    site: &Site,
) -> Result<(Measurement, Vec<ConfigFile>)> {
    file::create_directory(&site.directory)?;
    let disk = probe_disk(&site.directory).map_err(FileError::at(&site.directory))?;
    let mut files = Vec::new();
    let result = run(contender, case, load, scale, site, &mut files);
    if site.stop.is_set() {
        return Err(Error::Interrupted);
    }
    let mut measurement = result.unwrap_or_else(|why| failed(contender.name(), &why.to_string()));
    measurement.disk = Some(disk);
    // What went wrong is in the logs there.
    if measurement.ending == Ending::Failed || measurement.severity() == Severity::Invalid {
        measurement.ending_note += &format!(" (logs: {})", site.directory.display());
    } else {
        let mailboxes = site.population.as_ref().map(|users| users.mailboxes(&site.mail()));
        let maildirs = mailboxes.into_iter().flatten().map(|mailbox| mailbox.directory);
        // What a contender that didn't start hasn't made can't be removed.
        let maildirs: Vec<_> = maildirs.filter(|directory| directory.exists()).collect();
        file::remove_directory(&site.directory, &maildirs)?;
    }
    Ok((measurement, files))
}

fn run(
    contender: &dyn Contender,
    case: &Case,
    load: &Load,
    scale: f64,
    site: &Site,
    files: &mut Vec<ConfigFile>,
) -> Result<Measurement> {
    let mut trial = Trial::open(contender, site)?;
    *files = trial.files();
    let begun = Instant::now();
    let result = match case.kind {
        MeasurementKind::Relay => relay::measure(&mut trial, load, begun + limit(load)),
        MeasurementKind::Mailboxes { .. } => {
            mailboxes::measure(&mut trial, load, begun + limit(load))
        }
        MeasurementKind::LargeQueue { kill } => {
            large_queue::measure(&mut trial, load, kill, begun + limit(load) * 2)
        }
        MeasurementKind::SteadyState(seconds) => {
            let interval = Case::interval(seconds, scale);
            let limit = interval * load.sources + 2 * LIMIT_BASE;
            steady_state::measure(&mut trial, load, interval, begun + limit)
        }
    };
    result.map(|mut measurement| {
        measurement.marks.extend(trial.path_marks());
        measurement
    })
}

fn limit(load: &Load) -> Duration {
    if let Some(lasts) = load.lasts {
        return LIMIT_BASE + lasts * LIMIT_PER_SECOND;
    }
    let bytes = load.messages.saturating_mul(load.body_bytes.max);
    let each = |one: Duration, count: u64| {
        Duration::try_from_secs_f64(one.as_secs_f64() * count as f64).unwrap_or(Duration::MAX)
    };
    LIMIT_BASE + each(LIMIT_PER_MESSAGE, load.messages) + each(LIMIT_PER_BYTE, bytes)
}
