//! Takes from a relay what it needs (disk, descriptors, its next hop) or gives it too much (idle
//! sessions), and looks at how it bears that.

mod client;
mod descriptors;
mod directory_away;
mod disk_full;
mod idle_sessions;
mod sink_away;
mod urgent;

use super::relay::Relay;
use crate::stand::{Error, Result, system};
use load::ledger::Audit;
use load::proc;
use load::stats::value_table;
use load::stop::{CommandError, Outcome};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a relay at one of its limits while it has mail in its queue.
///
/// Each run sends mail through the relay to a sink and causes the shortage or failure. It checks
/// replies and deliveries, removes the cause, and compares the ledgers at the end.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
The directory keeps all files of the run.

Exit codes:
  0   the relay behaved as required, and all acknowledged messages arrived
  1   a requirement failed, or a message is missing
  2   the command line is wrong, or the run failed
  77  this machine does not permit the run (disk-full mounts a tmpfs)")]
pub struct LimitsOptions {
    /// The limit
    #[arg(value_name = "LIMIT")]
    limit: Limit,
    /// Path of the postrider program
    #[arg(long, value_name = "PATH")]
    postrider: PathBuf,
    /// Directory for spool, ledgers and logs; empty, or not yet existing
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
    /// Number of messages queued before each failure, and sent after it
    #[arg(long, value_name = "N", default_value_t = 500)]
    messages: u64,
    /// idle-sessions: number of sessions
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    sessions: u32,
    /// idle-sessions: the relay's command_timeout; must exceed the time for opening the sessions and
    /// sending mail beside them
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    idle_timeout: u64,
    /// idle-sessions: encrypt the sessions, with a full handshake each
    #[arg(long)]
    tls: bool,
    /// descriptors: maximum number of open files of the relay
    #[arg(long, value_name = "N", default_value_t = 256)]
    files: u64,
    /// sink-away: number of failures of the sink
    #[arg(long, value_name = "N", default_value_t = 5)]
    times: u64,
    /// directory-away: duration of each failure; urgent: duration of urgent mail
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// directory-away: number of users in the directory
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    users: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Limit {
    /// The spool's disk has no free byte
    DiskFull,
    /// No file descriptors are left for new sessions
    Descriptors,
    /// Thousands of sessions are open and idle
    IdleSessions,
    /// The next hop fails during deliveries, and returns
    SinkAway,
    /// The LDAP directory of recipients stops under load, returns, stops answering, and returns
    DirectoryAway,
    /// Urgent mail arrives while bulk mail for the same next hop is queued
    Urgent,
}

/// What was found.
#[derive(Debug, Default)]
struct Findings {
    measured: Map<String, Value>,
    /// What should not have been.
    wrong: Vec<String>,
}

impl Findings {
    fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.measured.insert(name.to_owned(), value.into());
    }

    /// Notes what is wrong if it is not `so`.
    fn expect(&mut self, so: bool, wrong: impl FnOnce() -> String) {
        if !so {
            self.wrong.push(wrong());
        }
    }

    /// Drains and stops the relay, and sets the ledgers against each other.
    fn account(&mut self, relay: &mut Relay, duplicates_max: u64) -> Result<Audit> {
        relay.stand.drain()?;
        let left = relay.stop()?;
        self.expect(left.live_messages == 0 && left.damaged == 0, || {
            format!("left in the spool: {left:?}")
        });
        let audit = relay.audit()?;
        self.expect(audit.is_clean(duplicates_max), || {
            format!("not accounted for, with {duplicates_max} duplicates allowed: {audit:?}")
        });
        Ok(audit)
    }
}

/// Files that the relay has open.
///
/// # Errors
/// When it has ended.
fn open_files(pid: u32) -> Result<usize> {
    let failed = |error| Error::Server(format!("open files of process {pid}: {error}"));
    proc::open_file_count(pid).map_err(failed)
}

/// The command.
pub fn run(options: &LimitsOptions) -> Outcome {
    if options.limit == Limit::DiskFull
        && let Err(why) = system::enter()
    {
        eprintln!("postrider-lab: skipped: this machine does not permit mounting a tmpfs: {why}");
        return Ok(ExitCode::from(system::UNABLE_CODE));
    }
    let mut findings = Findings::default();
    let audit = examine(options, &mut findings).map_err(|text| {
        let directory = options.directory.display();
        CommandError::new(format!("{text} (see {directory})"))
    })?;
    print(options.json, &findings, &audit);
    Ok(if findings.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn examine(options: &LimitsOptions, findings: &mut Findings) -> Result<Audit> {
    let mut relay = Relay::new(&options.directory, &options.postrider)?;
    match options.limit {
        Limit::DiskFull => disk_full::examine(options, &mut relay, findings),
        Limit::Descriptors => descriptors::examine(options, &mut relay, findings),
        Limit::IdleSessions => idle_sessions::examine(options, &mut relay, findings),
        Limit::SinkAway => sink_away::examine(options, &mut relay, findings),
        Limit::DirectoryAway => directory_away::examine(options, &mut relay, findings),
        Limit::Urgent => urgent::examine(options, &mut relay, findings),
    }
}

fn print(as_json: bool, findings: &Findings, audit: &Audit) {
    if as_json {
        let ok = findings.wrong.is_empty();
        let (measured, wrong) = (&findings.measured, &findings.wrong);
        println!("{}", json!({"ok": ok, "measured": measured, "wrong": wrong, "audit": audit}));
        return;
    }
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let measured = findings.measured.iter().map(|(name, value)| (name.clone(), shown(value)));
    let rows: Vec<_> = measured.chain(audit.rows()).collect();
    println!("{}", value_table(&rows));
    for wrong in &findings.wrong {
        println!("WRONG: {wrong}");
    }
}

/// A relay that tries again soon. `listener` and `spool` are more lines of those sections.
fn config(relay: &Relay, spool: &str, listener: &str) -> String {
    config_of_route(relay, spool, listener, "")
}

/// The same with more lines of the route, too.
fn config_of_route(relay: &Relay, spool: &str, listener: &str, route: &str) -> String {
    let (address, sink) = (&relay.address, relay.stand.sink_address());
    let path = relay.spool.display();
    format!(
        r#"hostname = "relay.test"

[spool]
path = "{path}"
segment_bytes = "2MiB"
blob_bytes = "64KiB"
min_free_bytes = "8MiB"
{spool}

[[listener]]
name = "in"
address = "{address}"
relay_from = ["127.0.0.0/8"]
{listener}

[[route]]
smtp = {{ hosts = ["{sink}"], max_connections = {CONNECTIONS_MAX} }}
{route}

[retry]
first = "1s"
longest = "1s"
"#
    )
}

/// Connections to the sink: so many transactions may be in flight.
const CONNECTIONS_MAX: u64 = 20;
