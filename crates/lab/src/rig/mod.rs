//! Sources, relay and sink, and the files they leave.

mod verified;

use load::ledger::{Audit, Followed, audit};
use load::listener::free_port;
use load::process::Process;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
pub(crate) use verified::Verified;

/// A program that was asked to end has so long.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Delivery of what is queued may go on for so long without a delivery.
const STILL_MAX: Duration = Duration::from_secs(6);
/// So long without a delivery means that nothing is left: longer than any wait for a retry.
const QUIET: Duration = Duration::from_millis(2500);
/// As many findings of each kind are listed.
const LIST_MAX: usize = 20;

const RELAY_LOG: &str = "relay.log";
const CONFIG: &str = "postrider.toml";

/// What runs.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) directory: PathBuf,
    lab: PathBuf,
    postrider: PathBuf,
    /// Where the relay listens.
    pub(crate) address: String,
    /// The spool's directory.
    pub(crate) spool: PathBuf,
    /// The relay's limit of open files, if it is to have one.
    pub(crate) files_max: Option<u64>,
    relay: Option<Process>,
    /// Length of the relay's log when it was last started.
    log_bytes: u64,
    sources: Vec<(Process, Followed)>,
    /// Ledgers of sources that were stopped.
    sent: Vec<PathBuf>,
    sink: Option<Process>,
    /// Where the sink listens, or is to listen.
    pub(crate) sink_address: String,
    /// Ledgers of all sinks.
    arrived: Vec<PathBuf>,
}

impl Rig {
    /// Takes an empty directory, and ports for relay and sink. Nothing is started yet.
    ///
    /// # Errors
    /// What could not be found or made.
    pub(crate) fn new(directory: &Path, postrider: &Path) -> Result<Rig, String> {
        let directory = prepare(directory)?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let sink_address = loop {
            let other = format!("127.0.0.1:{}", free_port()?);
            if other != address {
                break other;
            }
        };
        Ok(Rig {
            lab: std::env::current_exe().map_err(|error| format!("this program: {error}"))?,
            postrider: std::path::absolute(postrider)
                .map_err(|error| format!("{}: {error}", postrider.display()))?,
            spool: directory.join("spool"),
            directory,
            address,
            files_max: None,
            relay: None,
            log_bytes: 0,
            sources: Vec::new(),
            sent: Vec::new(),
            sink: None,
            sink_address,
            arrived: Vec::new(),
        })
    }

    /// Writes the relay's configuration.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn configure(&self, text: &str) -> Result<(), String> {
        write(&self.directory.join(CONFIG), text)
    }

    /// Starts the sink, with a ledger of its own.
    ///
    /// # Errors
    /// When it can't be started or does not listen.
    pub(crate) fn start_sink(&mut self, more: &[&str]) -> Result<(), String> {
        let ledger = self.directory.join(format!("sink-{}.ledger", self.arrived.len()));
        let mut command = Command::new(&self.lab);
        command.args(["sink", "--listen", &self.sink_address]).args(more);
        command.arg("--ledger").arg(&ledger);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut sink = Process::start("sink", &mut command)?;
        let mut line = String::new();
        if let Some(output) = &mut sink.child().stdout {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(|error| format!("sink: {error}"))?;
        }
        if line.trim().strip_prefix("listening on ") != Some(&self.sink_address) {
            return Err(format!("the sink says {line:?}"));
        }
        self.arrived.push(ledger);
        self.sink = Some(sink);
        Ok(())
    }

    /// Ends the sink amid what it does; its ledger is complete.
    ///
    /// # Errors
    /// When it had ended already, or does not end.
    pub(crate) fn end_sink(&mut self) -> Result<(), String> {
        let mut sink = self.sink.take().ok_or("no sink runs")?;
        sink.check_running()?;
        sink.stop(STOP_MAX).map(drop)
    }

    /// Starts a source that sends until it is stopped.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start_source(&mut self, name: &str, more: &[&str]) -> Result<(), String> {
        let ledger = self.directory.join(format!("source-{name}.ledger"));
        // It is there before anybody looks.
        write(&ledger, "")?;
        // More than will ever be sent: it is stopped.
        let mut command = self.source_command(&ledger, 1_000_000_000);
        command.args(["--reconnect", "60"]).args(more);
        command.stdout(Stdio::null()).stderr(self.append(&format!("source-{name}.log"))?);
        self.sources.push((Process::start("source", &mut command)?, Followed::source(ledger)));
        Ok(())
    }

    fn source_command(&self, ledger: &Path, messages: u64) -> Command {
        let mut command = Command::new(&self.lab);
        command.args(["source", "--messages", &messages.to_string(), "--to", &self.address]);
        command.args(["--domains", "one.test,two.test,three.test", "--distinct-recipients"]);
        command.arg("--ledger").arg(ledger);
        command
    }

    /// Sends so many messages; gives the source's report once it has ended.
    ///
    /// # Errors
    /// When it can't be started, gives up, or says nothing that can be read.
    pub(crate) fn send(&mut self, messages: u64, more: &[&str]) -> Result<Value, String> {
        let ledger = self.directory.join(format!("sent-{}.ledger", self.sent.len()));
        let mut command = self.source_command(&ledger, messages);
        let output = command.arg("--json").args(more).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        self.sent.push(ledger);
        let text = String::from_utf8_lossy(&output.stdout);
        match output.status.code() {
            // Refusals are for the caller to judge.
            Some(0 | 1) => serde_json::from_str(&text).map_err(|error| format!("{error}: {text}")),
            _ => Err(format!("source: {}: {text}", output.status)),
        }
    }

    /// Runs a command of the relay's program in its directory; its standard output.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.postrider)
            .args(words)
            .args(["--config", CONFIG])
            .current_dir(&self.directory)
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.postrider.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{words:?}: {}: {text}{errors}", output.status));
        }
        Ok(text)
    }

    fn append(&self, name: &str) -> Result<File, String> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Starts the relay; does not wait until it listens.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start_relay(&mut self) -> Result<(), String> {
        let log = self.append(RELAY_LOG)?;
        self.log_bytes = log.metadata().map_err(|error| format!("{RELAY_LOG}: {error}"))?.len();
        let mut command = match self.files_max {
            Some(files) => {
                let mut command = Command::new("prlimit");
                command.arg(format!("--nofile={files}:{files}")).arg(&self.postrider);
                command
            }
            None => Command::new(&self.postrider),
        };
        command.args(["serve", "--shards", "2", "--config", CONFIG]);
        command.current_dir(&self.directory).stdout(Stdio::null()).stderr(log);
        self.relay = Some(Process::start("postrider", &mut command)?);
        Ok(())
    }

    /// Whether the relay got as far as listening since it was last started.
    ///
    /// # Errors
    /// When its log can't be read.
    pub(crate) fn relay_listens(&self) -> Result<bool, String> {
        let text = read(&self.directory.join(RELAY_LOG))?;
        let new = text.get(self.log_bytes as usize..).unwrap_or("");
        Ok(new.contains("listening on"))
    }

    /// Waits until the relay listens; gives the time since the call, which is to follow its start.
    ///
    /// # Errors
    /// When it ends, or takes too long.
    pub(crate) fn wait_listening(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        while !self.relay_listens()? {
            self.check_running()?;
            if begun.elapsed() > STOP_MAX {
                return Err("the relay does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(begun.elapsed())
    }

    /// # Errors
    /// When a program has ended that should run.
    pub(crate) fn check_running(&mut self) -> Result<(), String> {
        if let Some(sink) = &mut self.sink {
            sink.check_running()?;
        }
        for (source, _) in &mut self.sources {
            source.check_running()?;
        }
        self.relay.as_mut().map_or(Ok(()), Process::check_running)
    }

    /// Messages acknowledged since the beginning.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn acked(&mut self) -> Result<u64, String> {
        self.sources.iter_mut().map(|(_, ledger)| ledger.count()).sum()
    }

    /// Kills the relay.
    ///
    /// # Errors
    /// When something else had ended it.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        self.check_running()?;
        self.relay.take().ok_or("no relay runs")?.kill()
    }

    /// Looks at the spool, which nobody may have open. What is damaged is counted.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn verify(&self) -> Result<Verified, String> {
        if !self.spool.exists() {
            // Lost with all that was in it: what that means is for the audit to say.
            return Ok(Verified::default());
        }
        let output = Command::new(&self.postrider)
            .args(["spool", "verify", "--json"])
            .arg(&self.spool)
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.postrider.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).map_err(|error| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("spool verify: {}: {error}\n{text}{errors}", output.status)
        })
    }

    /// Ends the sources; transactions that run are finished, ledgers are complete.
    ///
    /// # Errors
    /// When one does not end, or not as it should.
    pub(crate) fn stop_sources(&mut self) -> Result<(), String> {
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
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        let (mut last, mut since) = (self.arrived_bytes(), Instant::now());
        loop {
            self.check_running()?;
            std::thread::sleep(Duration::from_millis(50));
            let now = self.arrived_bytes();
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
    pub(crate) fn stop_relay(&mut self) -> Result<Verified, String> {
        let status = self.relay.take().ok_or("no relay runs")?.stop(STOP_MAX)?;
        if !status.success() {
            return Err(format!("postrider: {status}"));
        }
        self.verify()
    }

    /// The relay's process.
    ///
    /// # Errors
    /// When none runs.
    pub(crate) fn relay_pid(&mut self) -> Result<u32, String> {
        Ok(self.relay.as_mut().ok_or("no relay runs")?.child().id())
    }

    /// Waits until so many messages have arrived, or nothing has for a while; gives how many have.
    ///
    /// # Errors
    /// When a program ends, or a ledger can't be read.
    pub(crate) fn wait_arrived(&mut self, count: u64) -> Result<u64, String> {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            self.check_running()?;
            let now = self.arrived()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if now >= count || since.elapsed() > STOP_MAX {
                return Ok(now);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sets what was sent against what arrived.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn audit(&self) -> Result<Audit, String> {
        let sent: Result<Vec<String>, String> = self.sent.iter().map(|path| read(path)).collect();
        let mut arrived = String::new();
        for ledger in &self.arrived {
            // While a sink runs its last line may be half written.
            let text = read(ledger)?;
            arrived.push_str(text.rfind('\n').map_or("", |end| &text[..=end]));
        }
        audit(&sent?.concat(), &arrived, LIST_MAX)
    }

    /// Messages that have arrived.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn arrived(&self) -> Result<u64, String> {
        Ok(self.audit()?.arrivals)
    }

    fn arrived_bytes(&self) -> u64 {
        let length = |path: &PathBuf| std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
        self.arrived.iter().map(length).sum()
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

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
