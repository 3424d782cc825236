//! Kills a relay again and again while mail goes through it, and accounts for every message.

mod moment;
mod report;

use super::relay::Relay;
use super::verified::Verified;
use crate::stand::power::{self, Cut, Disk};
use crate::stand::{Error, Result, mount_namespace};
use load::outcome::{CommandError, Outcome};
use load::random::Random;
use moment::Moment;
use report::{Kill, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A cycle in which so little was acknowledged for so long is stuck.
const CYCLE_MAX: Duration = Duration::from_secs(120);
/// A kill during recovery comes at most so long after the start.
const RECOVERY_MAX_MS: u64 = 40;
/// What is not delivered when nothing moved for so many times stays undelivered.
const DRAIN_ROUNDS_MAX: usize = 5;
/// And after its acknowledgements a cycle goes on for at most so long.
const EXTRA_MAX_MS: u64 = 400;
/// Bodies of the second source; they go to blobs.
const BLOB_BODY_BYTES: usize = 150_000;

/// Kills a relay with SIGKILL while mail goes through it, and accounts for every message.
///
/// Two sources (small messages and bodies that go to blobs) send through the relay to a sink that
/// now and then answers 451. Each time enough was acknowledged, the relay is killed: at any moment,
/// or when its spool shows that a segment was just begun, is being prepared, was just freed, or
/// that a blob is being written; and in every second cycle once more while it recovers. After each
/// kill the spool is verified. At the end the queue drains, and the ledgers are set against each
/// other.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
SIGKILL keeps the page cache: that shows that recovery works, not that anything was synced. With \
--power-cut the spool is on an ext4 file system of its own whose disk is served by this program; at \
each kill what was not flushed to that disk is lost: all of it, or (by seed) all but some blocks or \
sectors, in any order. This needs root, /dev/fuse, loop devices, and the programs mkfs.ext4, losetup, \
mount and unshare.

Exit code: 0 nothing acknowledged is missing or damaged and duplicates are at most (transactions in \
flight + unsettled_max) for each kill; 1 otherwise; 2 something else went wrong; 77 this machine can't do \
--power-cut. What the programs wrote stays in the directory.")]
pub struct CrashOptions {
    /// The relay's program
    #[arg(long, value_name = "PATH")]
    pub postrider: PathBuf,
    /// For the spool, ledgers and logs; must be empty or not there
    #[arg(long, value_name = "PATH")]
    pub directory: PathBuf,
    /// How many times to let mail flow and kill
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub cycles: u64,
    /// Messages acknowledged in a cycle before it ends, at least
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub acked: u64,
    /// Sessions of the source of small messages
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub sessions: usize,
    /// Small messages per second: if the sink keeps up, segments get sparse and are compacted; if
    /// not, much is queued at each kill
    #[arg(long, value_name = "R", default_value_t = 2500.0)]
    pub rate: f64,
    /// Connections to the sink
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_connections: u64,
    /// The relay's limit of deliveries that are not yet recorded
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub unsettled_max: u64,
    /// The relay's durability; with "memory" acknowledged mail must turn out to be missing
    #[arg(long, value_name = "MODE", default_value = "sync", value_parser = ["sync", "os", "memory"])]
    pub durability: String,
    /// Cut the power of the spool's disk at each kill; with --durability os acknowledged mail must
    /// turn out to be missing
    #[arg(long)]
    pub power_cut: bool,
    /// Decides when to kill
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl CrashOptions {
    /// How many messages may arrive once more for one kill.
    fn duplicates_per_kill_max(&self) -> u64 {
        self.max_connections + self.unsettled_max
    }
}

/// The command.
pub fn run(options: &CrashOptions) -> Outcome {
    if options.power_cut
        && let Some(why) = power::unable()
            .or_else(|| mount_namespace::enter().err().map(|error| error.to_string()))
    {
        eprintln!("postrider-lab: skipped: this machine can't cut the power of a disk: {why}");
        return Ok(ExitCode::from(mount_namespace::UNABLE_CODE));
    }
    let report = crash(options).map_err(|text| {
        let directory = options.directory.display();
        CommandError::new(format!("{text} (see {directory})"))
    })?;
    report.print(options.json);
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn crash(options: &CrashOptions) -> Result<Report> {
    let mut random = Random::new(options.seed);
    let mut proof = start(options)?;
    let mut kills = Vec::new();
    for cycle in 0..options.cycles {
        if cycle % 2 == 1 {
            kills.push(kill_in_recovery(&mut proof, &mut random)?);
        }
        kills.push(kill_under_load(&mut proof, &mut random, options.acked, cycle)?);
        if !options.json {
            for kill in kills.iter().rev().take(1 + (cycle % 2) as usize).rev() {
                eprintln!("{kill}");
            }
        }
    }
    let begun = Instant::now();
    let relay = &mut proof.relay;
    relay.start()?;
    relay.stop_sources()?;
    let left = drain(relay)?;
    let drained = begun.elapsed();
    let audit = relay.audit()?;
    let duplicates_max = kills.len() as u64 * options.duplicates_per_kill_max();
    Ok(Report { seed: options.seed, kills, drained, left, audit, duplicates_max })
}

/// What runs, and the disk it runs on.
struct Proof {
    // Dropped first: the disk can't go before those who use it.
    relay: Relay,
    /// If its power can be cut.
    disk: Option<Disk>,
}

impl Proof {
    /// Cuts the power if that can be done, kills the relay, and looks at the spool.
    fn kill(&mut self, random: &mut Random) -> Result<(Option<Cut>, Verified)> {
        let cut = self.disk.as_mut().map(|disk| disk.cut(random)).transpose()?;
        self.relay.kill()?;
        if let Some(disk) = &mut self.disk {
            disk.take_down()?;
            disk.power_on()?;
        }
        Ok((cut, self.relay.verify()?))
    }
}

/// Starts sink and sources; the relay is started for each cycle.
fn start(options: &CrashOptions) -> Result<Proof> {
    let mut relay = Relay::new(&options.directory, &options.postrider)?;
    let disk = options.power_cut.then(|| Disk::make(relay.directory())).transpose()?;
    if let Some(disk) = &disk {
        relay.spool = disk.path.join("spool");
    }
    relay.stand.start_sink(&["--refuse", "150:451", "--seed", &options.seed.to_string()])?;
    relay.configure(&config(options, &relay))?;
    let (small, rate) = (options.sessions.to_string(), options.rate.to_string());
    let large = BLOB_BODY_BYTES.to_string();
    relay.start_source("small", &["--sessions", &small, "--per-session", "20", "--rate", &rate])?;
    relay.start_source(
        "large",
        &["--sessions", "2", "--per-session", "5", "--body-bytes", &large, "--rate", "40"],
    )?;
    Ok(Proof { relay, disk })
}

/// Lets the queue drain and stops the relay; tells what is left in the spool.
fn drain(relay: &mut Relay) -> Result<Verified> {
    let mut left = Verified::default();
    for round in 0..DRAIN_ROUNDS_MAX {
        if round > 0 {
            // The sink refused the last messages several times running: unlikely, not wrong.
            relay.start()?;
        }
        relay.stand.drain()?;
        left = relay.stop()?;
        if left.live_messages == 0 {
            break;
        }
    }
    Ok(left)
}

/// Starts the relay and kills it before, while or shortly after it recovers.
fn kill_in_recovery(proof: &mut Proof, random: &mut Random) -> Result<Kill> {
    let relay = &mut proof.relay;
    relay.start()?;
    let before = relay.stand.accepted_now()?;
    let wait = Duration::from_millis(random.below(RECOVERY_MAX_MS + 1));
    std::thread::sleep(wait);
    let listened = relay.listens()?;
    let (cut, verified) = proof.kill(random)?;
    let moment = if listened { "just started" } else { "recovery" };
    let acked = proof.relay.stand.accepted_now()? - before;
    Ok(Kill { moment, aim_met: !listened, acked, start_ms: None, cut, verified })
}

/// Lets mail flow until enough is acknowledged, waits for a moment, kills.
fn kill_under_load(proof: &mut Proof, random: &mut Random, acked: u64, cycle: u64) -> Result<Kill> {
    let relay = &mut proof.relay;
    let before = relay.stand.accepted_now()?;
    relay.start()?;
    let start_ms = Some(relay.wait_listening()?.as_millis() as u64);
    let begun = Instant::now();
    while relay.stand.accepted_now()? - before < acked {
        relay.stand.check_running()?;
        if begun.elapsed() > CYCLE_MAX {
            let count = relay.stand.accepted_now()? - before;
            let text = format!("only {count} messages were acknowledged in {CYCLE_MAX:?}");
            return Err(Error::Server(text));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let moment = Moment::of_cycle(cycle, random, EXTRA_MAX_MS);
    let aim_met = moment.wait(&relay.spool)?;
    let (cut, verified) = proof.kill(random)?;
    let acked = proof.relay.stand.accepted_now()? - before;
    Ok(Kill { moment: moment.name(), aim_met, acked, start_ms, cut, verified })
}

/// Small segments and blobs, so that much happens between two kills; retries soon.
fn config(options: &CrashOptions, relay: &Relay) -> String {
    let CrashOptions { max_connections, unsettled_max, durability, .. } = options;
    let (address, sink) = (&relay.address, relay.stand.sink_address());
    let spool = relay.spool.display();
    format!(
        r#"hostname = "relay.test"

[spool]
path = "{spool}"
durability = "{durability}"
segment_bytes = "2MiB"
blob_bytes = "64KiB"
min_free_bytes = "64MiB"
unsettled_max = {unsettled_max}

[[listener]]
name = "in"
address = "{address}"
relay_from = ["127.0.0.0/8"]

[[route]]
smtp = {{ hosts = ["{sink}"], max_connections = {max_connections} }}

[retry]
first = "2s"
longest = "2s"
"#
    )
}
