//! The logs of a node at its start. All are read first, so that all used numbers are known, and shards can be built.
//! Shards queue the messages while the logs are read, so only some batches are in memory besides the queue. Delivery
//! and listening start only after all logs are ready.

use crate::commit_thread::{Inbound, Log, LogStateReporter, mib};
use crate::console::ConsoleLog;
use crate::file_disk::{FileDisk, OPENED_WITHIN, no_answer};
use crate::kept_file::StateFiles;
use crate::limited_work::waited_for;
use crate::log_set::LogSet;
use crate::world::clock::{Start, seed_of, wall_now};
use crate::world::listening_socket::AcceptedSocket;
use config::Config;
use mta::console::{Console as _, Level};
use mta::custody::LogPort;
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::LogMetrics;
use mta::problems::DetectedProblem;
use spool::{Durability, Opening, RecoveredMessage, RecoveryReport, SpoolConfig, SpoolStatus};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::time::{Duration, Instant};

/// Messages that go to a shard together.
const BATCH: usize = 256;
/// Batches that wait for a shard at most.
const BATCHES_MAX: usize = 4;

/// Input of a shard before it runs.
pub(crate) enum RecoveryEvent {
    /// Messages that were queued when the server stopped.
    Messages(Vec<RecoveredMessage>),
    /// All logs are ready. Without it the start has failed, and nothing may be sent.
    Ready,
}

/// A shard's receiver of recovered messages.
pub(crate) type RecoveredReceiver = std_mpsc::Receiver<RecoveryEvent>;

/// Passes messages from the logs to the shards that adopt them.
pub(crate) struct Distribution {
    shards: Vec<std_mpsc::SyncSender<RecoveryEvent>>,
    waiting: Vec<Vec<RecoveredMessage>>,
}

impl Distribution {
    /// A distribution to `shards` shards, with their receivers.
    pub(crate) fn new(shards: u16) -> (Distribution, Vec<RecoveredReceiver>) {
        let (shards, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| std_mpsc::sync_channel(BATCHES_MAX)).unzip();
        (Distribution { waiting: shards.iter().map(|_| Vec::new()).collect(), shards }, receivers)
    }

    fn take(&mut self, message: RecoveredMessage) {
        let shard = (message.id.sequence() % self.shards.len() as u64) as usize;
        self.waiting[shard].push(message);
        if self.waiting[shard].len() >= BATCH {
            self.send(shard);
        }
    }

    fn send(&mut self, shard: usize) {
        let messages = std::mem::take(&mut self.waiting[shard]);
        if !messages.is_empty() {
            // A shard that failed to start has dropped its receiver, and reports its error itself.
            let _ = self.shards[shard].send(RecoveryEvent::Messages(messages));
        }
    }

    /// Lets the shards begin.
    pub(crate) fn finish(mut self) {
        for shard in 0..self.shards.len() {
            self.send(shard);
            let _ = self.shards[shard].send(RecoveryEvent::Ready);
        }
    }
}

/// A log that was read. Its messages are still to be distributed.
pub(crate) struct ReadLog {
    path: PathBuf,
    disk: Arc<FileDisk>,
    opening: Opening,
    inbound: Inbound,
    took: Duration,
}

impl ReadLog {
    /// For the shards.
    pub(crate) fn port(&self) -> Arc<LogPort> {
        Arc::clone(&self.inbound.port)
    }

    /// Distributes its messages to the shards and starts its threads.
    ///
    /// # Errors
    /// Returns a sentence about a failed read or start.
    pub(crate) fn start(
        self,
        config: &Config,
        distribution: &mut Distribution,
        shards: &[ShardSender<AcceptedSocket>],
        (metrics, started): (&Arc<LogMetrics>, Start),
        (files, console): (&StateFiles, &Arc<ConsoleLog>),
    ) -> Result<Log, String> {
        let ReadLog { path, disk, opening, inbound, took } = self;
        let began = Instant::now();
        let (spool, report) = opening
            .finish(&*disk, &mut |message| distribution.take(message))
            .map_err(|error| cannot_recover(&path, &error))?;
        tell_recovered(console, &path, &report, took + began.elapsed());
        if let Some(first) = report.damage.first() {
            let (count, path) = (report.damaged_count, path.display());
            let about = format!("{path} (at the start)");
            let text =
                format!("{count} damages in the spool {path} at the start, the first: {first}");
            let step = "`postrider spool verify` lists them while the server is stopped";
            files
                .conditions()
                .set(DetectedProblem::warning(about, text).next_step(step), wall_now());
        }
        metrics.damaged.add(report.damaged_count);
        let kept = report.kept_blobs_count;
        metrics.orphan_blobs_removed.add(report.orphan_blobs_count.saturating_sub(kept));
        metrics.orphan_blobs_kept.set_u64(kept);
        let shards = shards.to_vec();
        let deliver = Box::new(move |shard: u16, completions| {
            // A shard that has ended waits for nothing.
            if let Some(shard) = shards.get(usize::from(shard)) {
                let _ = shard.send(ShardMessage::Completions(completions));
            }
        });
        let tell = tell_of_log(console, &path, &spool.status(), &config.spool);
        Log::start(inbound, spool, disk, (Arc::clone(metrics), started), tell, deliver)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

fn cannot_recover(path: &Path, error: &spool::SpoolError) -> String {
    format!("cannot recover the spool {}: {error}", path.display())
}

/// Opens every spool directory.
///
/// # Errors
/// A sentence that names one that can't be opened.
pub(crate) fn open_disks(
    config: &Config,
    files_max: usize,
    progress: &dyn Fn(&str),
) -> Result<Vec<Arc<FileDisk>>, String> {
    let open = |path: &PathBuf| {
        progress(&format!("the spool in {}", path.display()));
        let at = path.clone();
        let opened = waited_for(OPENED_WITHIN, move || FileDisk::open(&at));
        let disk = match opened {
            Some(opened) => opened.map_err(|error| error.to_string()),
            None => Err(no_answer()),
        };
        let disk =
            disk.map_err(|why| format!("cannot open the spool {}: {why}", path.display()))?;
        Ok(Arc::new(disk.keep_open(files_max)))
    };
    config.spool.paths.iter().map(open).collect()
}

/// Reads every log.
///
/// # Errors
/// Returns a sentence about an unreadable or missing log.
pub(crate) fn read_logs(
    config: &Config,
    disks: Vec<Arc<FileDisk>>,
    progress: &dyn Fn(&str),
    (files, console): (&StateFiles, &ConsoleLog),
) -> Result<Vec<ReadLog>, String> {
    // A spool in memory belongs to no set.
    let is_kept = config.spool.durability != config::Durability::Memory;
    let set = is_kept
        .then(|| LogSet::look(&config.spool.paths, progress, (files, console)))
        .transpose()?;
    let mut logs = Vec::new();
    for (number, (path, disk)) in config.spool.paths.iter().zip(disks).enumerate() {
        progress(&format!("the spool in {}", path.display()));
        let log = u8::try_from(number).map_err(|_| "more than 256 spool paths".to_owned())?;
        let began = Instant::now();
        let opening = Opening::read(&*disk, spool_config(&config.spool, log))
            .map_err(|error| cannot_recover(path, &error))?;
        let inbound = Inbound::new(config.spool.node, log, &opening);
        let took = began.elapsed();
        logs.push(ReadLog { path: path.clone(), disk, opening, inbound, took });
    }
    if let Some(set) = set {
        set.note(console);
    }
    Ok(logs)
}

/// Logs the result of a log's recovery.
fn tell_recovered(console: &ConsoleLog, path: &Path, report: &RecoveryReport, took: Duration) {
    console.line(
        Level::Info,
        "spool",
        format_args!(
            "spool open path={} queued={} torn={} damaged={} took={took:.1?}",
            path.display(),
            report.live_count,
            report.torn_count,
            report.damaged_count
        ),
    );
    let (orphans, kept) = (report.orphan_blobs_count, report.kept_blobs_count);
    if orphans > 0 {
        let level = if kept > 0 { Level::Warn } else { Level::Info };
        console.line(
            level,
            "spool",
            format_args!(
                "orphan blobs path={} removed={} kept={kept}",
                path.display(),
                orphans - kept
            ),
        );
    }
    for damage in &report.damage {
        console.line(Level::Error, "spool", format_args!("damage: {damage}"));
    }
}

/// Logs low disk space of a log, at the start and later.
fn tell_of_log(
    console: &Arc<ConsoleLog>,
    path: &Path,
    status: &SpoolStatus,
    section: &config::SpoolSection,
) -> LogStateReporter {
    let needed = section.min_free_bytes.max(section.segment_bytes);
    if status.full {
        let (free, needed) = (mib(status.free_bytes.unwrap_or(0)), mib(needed));
        console.line(
            Level::Warn,
            "spool",
            format_args!(
                "disk has {free} free, below min_free_bytes ({needed}): no mail will be accepted \
                 path={}",
                path.display()
            ),
        );
    }
    let (console, path) = (Arc::clone(console), path.to_owned());
    Box::new(move |is_bad, text| {
        let level = if is_bad { Level::Warn } else { Level::Info };
        console.line(level, "spool", format_args!("{text} path={}", path.display()));
    })
}

/// The settings of one log.
pub(crate) fn spool_config(section: &config::SpoolSection, log: u8) -> SpoolConfig {
    let defaults = SpoolConfig::default();
    SpoolConfig {
        node: section.node,
        log,
        salt: seed_of(u16::from(log)),
        durability: match section.durability {
            config::Durability::Sync => Durability::Sync,
            config::Durability::Os => Durability::Os,
            config::Durability::Memory => Durability::Memory,
        },
        segment_bytes: section.segment_bytes,
        first_segment_bytes: defaults.first_segment_bytes.min(section.segment_bytes),
        reserve_bytes: section.min_free_bytes,
        // One more is the reserve that is touched only when the disk is full.
        spare_segments_max: usize::from(section.spare_segments) + 1,
        ..defaults
    }
}
