//! Kills a relay again and again while mail goes through it, and accounts for every message.

mod maildirs;
mod moment;
mod report;

use super::relay::{LIST_MAX, Relay, Verified};
use crate::stand::power::{self, Cut, Disk};
use crate::stand::{Error, Result, system};
use load::ledger::Audit;
use load::random::Random;
use load::stop::{CommandError, Outcome};
use maildirs::{Judgement, Maildirs};
use moment::KillPoint;
use report::{Aftermath, CrashReport, Kill};
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
/// Size of the disk that the spool is on, and of that of mailboxes, where nothing is freed.
const SPOOL_DISK_BYTES: u64 = 512 << 20;
const MAIL_DISK_BYTES: u64 = 2 << 30;
/// Of so many cycles one ends in a lull, where mail goes into mailboxes.
const LULL_EVERY: u64 = 3;

/// Kill a relay with SIGKILL under load, and account for every message.
///
/// Two sources, one with small messages and one with bodies in blobs, send through the relay to a
/// sink that sometimes replies 451. After --acked acknowledgements the relay is killed: at a random
/// time, or when the spool begins, prepares or frees a segment or writes a blob. In every second
/// cycle it is killed once more during recovery. After each kill the spool is verified. At the end
/// the queue drains, and the ledgers are compared.
///
/// With --into maildirs the relay delivers to mailboxes, without a sink. After each kill, each
/// delivery in its event log must have its unchanged file in `new` or `cur`. No file may be damaged
/// or present twice. Each acknowledged message must be in its mailboxes or in the spool. One kill
/// in three comes in a lull, after the last sync.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
SIGKILL keeps the page cache: it tests recovery, not syncing. With --power-cut the spool is on a \
separate ext4 file system, on a disk served by this program. Each kill discards unflushed writes: all, \
or by the seed all except some blocks or sectors, in any order. Mailboxes have a second disk \
of this kind. It needs root, /dev/fuse, loop devices, and the programs mkfs.ext4, losetup, mount and \
unshare.

Duplicates allowed per kill: transactions in flight plus --unsettled-max; none in mailboxes. The \
directory keeps all files of the run.

Exit codes:
  0   all acknowledged messages are intact, without too many duplicates
  1   messages are missing or damaged, or there are too many duplicates
  2   the command line is wrong, or the run failed
  77  this machine cannot do --power-cut")]
pub struct CrashOptions {
    /// Path of the postrider program
    #[arg(long, value_name = "PATH")]
    pub postrider: PathBuf,
    /// Directory for spool, ledgers and logs; empty, or not yet existing
    #[arg(long, value_name = "PATH")]
    pub directory: PathBuf,
    /// Number of cycles of load and kill
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub cycles: u64,
    /// Minimum number of acknowledged messages per cycle
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub acked: u64,
    /// Number of sessions of the source of small messages
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub sessions: usize,
    /// Small messages per second. At rates that the sink can take, segments get sparse and are
    /// compacted; at higher rates the queue is long at each kill
    #[arg(long, value_name = "R", default_value_t = 2500.0)]
    pub rate: f64,
    /// Maximum number of connections to the sink
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_connections: u64,
    /// The relay's limit of deliveries without a record on disk
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub unsettled_max: u64,
    /// The relay's durability; with "memory", acknowledged mail must be lost
    #[arg(long, value_name = "MODE", default_value = "sync", value_parser = ["sync", "os", "memory"])]
    pub durability: String,
    /// Destination of the mail
    #[arg(long, value_name = "DESTINATION", default_value = "sink")]
    into: Destination,
    /// Plant a fault with strace, which the run must detect
    #[arg(long, value_name = "FAULT", requires = "power_cut")]
    plant: Option<Plant>,
    /// Cut the power of the spool's disk at each kill; with --durability os, acknowledged mail must be
    /// lost
    #[arg(long)]
    pub power_cut: bool,
    /// Seed for the times of kills
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Where mail ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Destination {
    /// A next hop that defers some messages
    Sink,
    /// Mailboxes on this machine
    Maildirs,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Plant {
    /// A delivery is recorded before its directory is synced; needs --into maildirs
    MailboxUnsynced,
}

impl CrashOptions {
    /// How many messages may arrive once more for one kill. In a mailbox a second delivery takes the
    /// place of the first.
    fn duplicates_per_kill_max(&self) -> u64 {
        match self.into {
            Destination::Sink => self.max_connections + self.unsettled_max,
            Destination::Maildirs => 0,
        }
    }
}

/// The command.
pub fn run(options: &CrashOptions) -> Outcome {
    if options.plant == Some(Plant::MailboxUnsynced) && options.into != Destination::Maildirs {
        let text = "--plant mailbox-unsynced is a fault of mailboxes: it needs --into maildirs";
        return Err(CommandError::new(text.to_owned()));
    }
    if options.power_cut
        && let Some(why) =
            power::unable().or_else(|| system::enter().err().map(|error| error.to_string()))
    {
        eprintln!("postrider-lab: skipped: this machine cannot cut the power of a disk: {why}");
        return Ok(ExitCode::from(system::UNABLE_CODE));
    }
    let report = crash(options).map_err(|text| {
        let directory = options.directory.display();
        CommandError::new(format!("{text} (see {directory})"))
    })?;
    report.print(options.json);
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn crash(options: &CrashOptions) -> Result<CrashReport> {
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
    proof.relay.start()?;
    proof.relay.stop_sources()?;
    if let Some(maildirs) = &proof.maildirs {
        proof.relay.stand.put_mailboxes(maildirs.watch()?);
    }
    let left = drain(&mut proof.relay)?;
    let drained = begun.elapsed();
    let (audit, mailboxes) = proof.account(&left)?;
    let duplicates_max = kills.len() as u64 * options.duplicates_per_kill_max();
    Ok(CrashReport { seed: options.seed, kills, drained, left, audit, mailboxes, duplicates_max })
}

/// What runs, and the disks it runs on.
struct Proof {
    // Dropped first: a disk can't go before those who use it.
    relay: Relay,
    /// Where mail goes, unless to a sink.
    maildirs: Option<Maildirs>,
    /// Of the spool, if its power can be cut.
    disk: Option<Disk>,
    /// Of the mailboxes, if its power can be cut.
    mail_disk: Option<Disk>,
}

impl Proof {
    /// Cuts the power if that can be done, kills the relay, and looks at spool and mailboxes.
    fn kill(&mut self, random: &mut Random) -> Result<Aftermath> {
        let (cut, mail_cut) = self.cut(random)?;
        self.relay.kill()?;
        for disk in [&mut self.disk, &mut self.mail_disk].into_iter().flatten() {
            disk.take_down()?;
            disk.power_on()?;
        }
        let verified = self.relay.verify()?;
        let stand = &self.relay.stand;
        let judged = self.maildirs.as_mut().map(|maildirs| maildirs.judge(stand, &verified, 0));
        let mailboxes = judged.transpose()?.map(|(judgement, _)| judgement);
        Ok(Aftermath { cut, mail_cut, verified, mailboxes })
    }

    /// Cuts the power of both disks at once, when one of them has something to lose.
    fn cut(&mut self, random: &mut Random) -> Result<(Option<Cut>, Option<Cut>)> {
        let (Some(disk), Some(mail)) = (&mut self.disk, &mut self.mail_disk) else {
            let cut = self.disk.as_mut().map(|disk| disk.cut(random)).transpose()?;
            return Ok((cut, None));
        };
        if random.permille(500) {
            let cut = mail.cut(random)?;
            return Ok((Some(disk.cut_at_once(random)?), Some(cut)));
        }
        let cut = disk.cut(random)?;
        Ok((Some(cut), Some(mail.cut_at_once(random)?)))
    }

    /// The account at the end, when the relay has stopped and left this in its spool.
    fn account(&mut self, left: &Verified) -> Result<(Audit, Option<Judgement>)> {
        match &mut self.maildirs {
            None => Ok((self.relay.audit()?, None)),
            Some(maildirs) => {
                let (judgement, audit) = maildirs.judge(&self.relay.stand, left, LIST_MAX)?;
                Ok((audit, Some(judgement)))
            }
        }
    }

    /// Waits for the moment to kill; tells what it is, and whether it came.
    fn wait_for_moment(&mut self, random: &mut Random, cycle: u64) -> Result<(&'static str, bool)> {
        match &self.maildirs {
            Some(maildirs) if cycle.is_multiple_of(LULL_EVERY) => {
                self.relay.stand.tell_sources("pause");
                Ok(("lull", maildirs.wait_for_lull()?))
            }
            _ => {
                let moment = KillPoint::of_cycle(cycle, random, EXTRA_MAX_MS);
                Ok((moment.name(), moment.wait(&self.relay.spool)?))
            }
        }
    }
}

/// Starts sources, and a sink if there is to be one; the relay is started for each cycle.
fn start(options: &CrashOptions) -> Result<Proof> {
    let mut relay = Relay::new(&options.directory, &options.postrider)?;
    let (mut disk, mut mail_disk) = (None, None);
    let mut mail = relay.directory().join("mail");
    if options.power_cut {
        let spool = Disk::make(relay.directory(), "disk", SPOOL_DISK_BYTES)?;
        relay.spool = spool.path.join("spool");
        disk = Some(spool);
    }
    if options.power_cut && options.into == Destination::Maildirs {
        let made = Disk::make(relay.directory(), "mail-disk", MAIL_DISK_BYTES)?;
        mail = made.path.join("mail");
        mail_disk = Some(made);
    }
    let maildirs = match options.into {
        Destination::Sink => {
            let seed = options.seed.to_string();
            relay.stand.start_sink(&["--refuse", "150:451", "--seed", &seed])?;
            None
        }
        Destination::Maildirs => {
            relay.whom = Maildirs::whom(relay.directory());
            Some(Maildirs::new(mail, relay.directory())?)
        }
    };
    if let (Some(Plant::MailboxUnsynced), Some(maildirs)) = (options.plant, &maildirs) {
        relay.unsynced = maildirs.new_directories();
    }
    relay.configure(&config(options, &relay, maildirs.as_ref()))?;
    start_sources(options, &mut relay)?;
    Ok(Proof { relay, maildirs, disk, mail_disk })
}

fn start_sources(options: &CrashOptions, relay: &mut Relay) -> Result<()> {
    let (small, rate) = (options.sessions.to_string(), options.rate.to_string());
    let large = BLOB_BODY_BYTES.to_string();
    // Mailboxes keep what they get: two for each message, and not so many large ones.
    let (recipients, large_rate) = match options.into {
        Destination::Sink => ("1", "40"),
        Destination::Maildirs => ("2", "10"),
    };
    let small = ["--sessions", &small, "--per-session", "20", "--rate", &rate];
    relay
        .start_source("small", &[&small[..], &["--recipients-per-message", recipients]].concat())?;
    relay.start_source(
        "large",
        &["--sessions", "2", "--per-session", "5", "--body-bytes", &large, "--rate", large_rate],
    )
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
    let aftermath = proof.kill(random)?;
    let moment = if listened { "just started" } else { "recovery" };
    let acked = proof.relay.stand.accepted_now()? - before;
    Ok(Kill { moment, aim_met: !listened, acked, start_ms: None, aftermath })
}

/// Lets mail flow until enough is acknowledged, waits for a moment, kills.
fn kill_under_load(proof: &mut Proof, random: &mut Random, acked: u64, cycle: u64) -> Result<Kill> {
    let relay = &mut proof.relay;
    let before = relay.stand.accepted_now()?;
    relay.start()?;
    let start_ms = Some(relay.wait_listening()?.as_millis() as u64);
    relay.stand.tell_sources("resume");
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
    let (moment, aim_met) = proof.wait_for_moment(random, cycle)?;
    let aftermath = proof.kill(random)?;
    let acked = proof.relay.stand.accepted_now()? - before;
    Ok(Kill { moment, aim_met, acked, start_ms, aftermath })
}

/// Small segments and blobs, so that much happens between two kills; retries soon.
fn config(options: &CrashOptions, relay: &Relay, maildirs: Option<&Maildirs>) -> String {
    let CrashOptions { max_connections, unsettled_max, durability, .. } = options;
    let (address, sink) = (&relay.address, relay.stand.sink_address());
    let route = maildirs.map_or_else(
        || {
            let hop = format!("hosts = [\"{sink}\"], max_connections = {max_connections}");
            format!("[[route]]\nsmtp = {{ {hop} }}\n")
        },
        Maildirs::config,
    );
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

{route}
[retry]
first = "2s"
longest = "2s"
"#
    )
}
