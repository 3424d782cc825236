//! Sources, relay and sink, and the files they leave.

use super::CrashOptions;
use super::report::Verified;
use crate::ledger::{Audit, Followed, audit};
use crate::listener::free_port;
use crate::process::Process;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program that was asked to end has so long.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Delivery of what is queued may go on for so long without a delivery.
const STILL_MAX: Duration = Duration::from_secs(6);
/// So long without a delivery means that nothing is left: longer than any wait for a retry.
const QUIET: Duration = Duration::from_millis(2500);
/// Bodies of the second source; they go to blobs.
const BLOB_BODY_BYTES: usize = 150_000;
/// As many findings of each kind are listed.
const LIST_MAX: usize = 20;

const RELAY_LOG: &str = "relay.log";
const SINK_LEDGER: &str = "sink.ledger";

/// What runs.
#[derive(Debug)]
pub(super) struct Rig {
    directory: PathBuf,
    postrider: PathBuf,
    relay: Option<Process>,
    /// Length of the relay's log when it was last started.
    log_bytes: u64,
    sources: Vec<(Process, Followed)>,
    /// Ledgers of sources that were stopped.
    sent: Vec<PathBuf>,
    sink: Process,
}

impl Rig {
    /// Starts sink and sources. The relay is started by [`Rig::start_relay`].
    ///
    /// # Errors
    /// What could not be started or written.
    pub(super) fn start(options: &CrashOptions) -> Result<Rig, String> {
        let directory = prepare(&options.directory)?;
        let lab = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let (sink, sink_address) = start_sink(&lab, &directory, options.seed)?;
        let address = format!("127.0.0.1:{}", free_port()?);
        write(&directory.join("postrider.toml"), &config(options, &address, &sink_address))?;
        let mut rig = Rig {
            postrider: std::path::absolute(&options.postrider)
                .map_err(|error| format!("{}: {error}", options.postrider.display()))?,
            directory,
            relay: None,
            log_bytes: 0,
            sources: Vec::new(),
            sent: Vec::new(),
            sink,
        };
        let (small, rate) = (options.sessions.to_string(), options.rate.to_string());
        let large = BLOB_BODY_BYTES.to_string();
        rig.start_source(
            &lab,
            "small",
            &address,
            &["--sessions", &small, "--per-session", "20", "--rate", &rate],
        )?;
        rig.start_source(
            &lab,
            "large",
            &address,
            &["--sessions", "2", "--per-session", "5", "--body-bytes", &large, "--rate", "40"],
        )?;
        Ok(rig)
    }

    fn start_source(
        &mut self,
        lab: &Path,
        name: &str,
        to: &str,
        more: &[&str],
    ) -> Result<(), String> {
        let ledger = self.directory.join(format!("source-{name}.ledger"));
        // It is there before anybody looks.
        write(&ledger, "")?;
        let mut command = Command::new(lab);
        // More than will ever be sent: they are stopped.
        command.args(["source", "--messages", "1000000000", "--to", to, "--reconnect", "60"]);
        command.args(["--domains", "one.test,two.test,three.test", "--distinct-recipients"]);
        command.arg("--ledger").arg(&ledger).args(more);
        command.stdout(Stdio::null()).stderr(self.append(&format!("source-{name}.log"))?);
        self.sources.push((Process::start("source", &mut command)?, Followed::source(ledger)));
        Ok(())
    }

    fn append(&self, name: &str) -> Result<File, String> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The spool's directory.
    pub(super) fn spool(&self) -> PathBuf {
        self.directory.join("spool")
    }

    /// Starts the relay; does not wait until it listens.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_relay(&mut self) -> Result<(), String> {
        let log = self.append(RELAY_LOG)?;
        self.log_bytes = log.metadata().map_err(|error| format!("{RELAY_LOG}: {error}"))?.len();
        let mut command = Command::new(&self.postrider);
        command.args(["serve", "--shards", "2", "--config", "postrider.toml"]);
        command.current_dir(&self.directory).stdout(Stdio::null()).stderr(log);
        self.relay = Some(Process::start("postrider", &mut command)?);
        Ok(())
    }

    /// Whether the relay got as far as listening since it was last started.
    ///
    /// # Errors
    /// When its log can't be read.
    pub(super) fn relay_listens(&self) -> Result<bool, String> {
        let text = read(&self.directory.join(RELAY_LOG))?;
        let new = text.get(self.log_bytes as usize..).unwrap_or("");
        Ok(new.contains("listening on"))
    }

    /// # Errors
    /// When a program has ended that should run.
    pub(super) fn check_running(&mut self) -> Result<(), String> {
        self.sink.check_running()?;
        for (source, _) in &mut self.sources {
            source.check_running()?;
        }
        self.relay.as_mut().map_or(Ok(()), Process::check_running)
    }

    /// Messages acknowledged since the beginning.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(super) fn acked(&mut self) -> Result<u64, String> {
        self.sources.iter_mut().map(|(_, ledger)| ledger.count()).sum()
    }

    /// Kills the relay and verifies the spool.
    ///
    /// # Errors
    /// When something else had ended it, or the spool is damaged.
    pub(super) fn kill(&mut self) -> Result<Verified, String> {
        self.check_running()?;
        self.relay.take().ok_or("no relay runs")?.kill()?;
        self.verify()
    }

    fn verify(&self) -> Result<Verified, String> {
        let spool = self.spool();
        let output = Command::new(&self.postrider)
            .args(["spool", "verify", "--json"])
            .arg(&spool)
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.postrider.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("spool verify: {}\n{text}{errors}", output.status));
        }
        serde_json::from_str(&text).map_err(|error| format!("spool verify: {error}: {text}"))
    }

    /// Ends the sources; transactions that run are finished, ledgers are complete.
    ///
    /// # Errors
    /// When one does not end, or not as it should.
    pub(super) fn stop_sources(&mut self) -> Result<(), String> {
        for (source, ledger) in self.sources.drain(..) {
            let status = source.stop(STOP_MAX)?;
            if status.code() != Some(4) {
                return Err(format!("source: {status}"));
            }
            self.sent.push(ledger.path().to_owned());
        }
        Ok(())
    }

    /// Waits until nothing is delivered any more.
    ///
    /// # Errors
    /// When a program ends or nothing moves though something is missing.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        let length = |path: &Path| std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
        let ledger = self.directory.join(SINK_LEDGER);
        let (mut last, mut since) = (length(&ledger), Instant::now());
        loop {
            self.check_running()?;
            std::thread::sleep(Duration::from_millis(50));
            let now = length(&ledger);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > STILL_MAX {
                // What is missing is for the audit to say.
                return Ok(());
            }
            if since.elapsed() > QUIET && self.audit()?.missing.count == 0 {
                return Ok(());
            }
        }
    }

    /// Stops the relay in the orderly way and verifies the spool.
    ///
    /// # Errors
    /// When it does not end well, or the spool is damaged.
    pub(super) fn stop_relay(&mut self) -> Result<Verified, String> {
        let status = self.relay.take().ok_or("no relay runs")?.stop(STOP_MAX)?;
        if !status.success() {
            return Err(format!("postrider: {status}"));
        }
        self.verify()
    }

    /// Sets what was sent against what arrived.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(super) fn audit(&self) -> Result<Audit, String> {
        let sent: Result<Vec<String>, String> = self.sent.iter().map(|path| read(path)).collect();
        let arrived = read(&self.directory.join(SINK_LEDGER))?;
        // While the sink runs its last line may be half written.
        let whole = arrived.rfind('\n').map_or("", |end| &arrived[..=end]);
        audit(&sent?.concat(), whole, LIST_MAX)
    }
}

fn prepare(directory: &Path) -> Result<PathBuf, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    if std::fs::read_dir(directory).map_err(failed)?.next().is_some() {
        return Err(format!("{} is not empty", directory.display()));
    }
    std::path::absolute(directory).map_err(failed)
}

fn start_sink(lab: &Path, directory: &Path, seed: u64) -> Result<(Process, String), String> {
    let mut command = Command::new(lab);
    command.args(["sink", "--listen", "127.0.0.1:0", "--refuse", "150:451"]);
    command.args(["--seed", &seed.to_string()]).arg("--ledger").arg(directory.join(SINK_LEDGER));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut sink = Process::start("sink", &mut command)?;
    let mut line = String::new();
    if let Some(output) = &mut sink.child().stdout {
        BufReader::new(output).read_line(&mut line).map_err(|error| format!("sink: {error}"))?;
    }
    let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
    Ok((sink, address.ok_or_else(|| format!("the sink says {line:?}"))?))
}

/// Small segments and blobs, so that much happens between two kills; retries soon.
fn config(options: &CrashOptions, address: &str, sink: &str) -> String {
    let CrashOptions { max_connections, unsettled_max, durability, .. } = options;
    format!(
        r#"hostname = "relay.test"

[spool]
path = "spool"
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

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
