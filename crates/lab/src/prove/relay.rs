//! A relay of ours on the stand, with the configuration and the spool that a proof wants.

use crate::stand::{ENDLESS, Error, ExitReport, Result, Server, Stand, system};
use load::file::{self, FileError};
use load::ledger::Audit;
use load::listener::free_port;
use load::process::{Process, ProcessError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A relay that was started or asked to end has so long.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// As many findings of each kind are listed.
pub(super) const LIST_MAX: usize = 20;

const LOG: &str = "relay.log";
const CONFIG: &str = "postrider.toml";

/// The relay, and the stand that it is put up on.
pub(super) struct Relay {
    pub(super) stand: Stand,
    postrider: PathBuf,
    /// Where it listens.
    pub(super) address: String,
    /// The spool's directory.
    pub(super) spool: PathBuf,
    /// Its limit of open files, if it is to have one.
    pub(super) files_max: Option<u64>,
    /// Where its sources send to, in their own arguments.
    pub(super) whom: Vec<String>,
    /// Directories that it shall not sync, and not notice.
    pub(super) unsynced: Vec<PathBuf>,
    /// Length of its log when it was last started.
    log_bytes: u64,
    sent: u32,
}

impl Relay {
    /// Takes an empty directory, and ports for relay and sink. Nothing is started yet.
    ///
    /// # Errors
    /// What could not be found or made.
    pub(super) fn new(directory: &Path, postrider: &Path) -> Result<Relay> {
        file::empty_directory(directory)?;
        let directory = std::path::absolute(directory).map_err(FileError::at(directory))?;
        let port = || free_port().map_err(|error| Error::Missing(error.to_string()));
        let own = port()?;
        let sink = loop {
            let other = port()?;
            if other != own {
                break other;
            }
        };
        Ok(Relay {
            postrider: std::path::absolute(postrider).map_err(FileError::at(postrider))?,
            spool: directory.join("spool"),
            stand: Stand::new(directory, format!("127.0.0.1:{sink}"), None),
            address: format!("127.0.0.1:{own}"),
            files_max: None,
            whom: ["--domains", "one.test,two.test,three.test"].map(str::to_owned).to_vec(),
            unsynced: Vec::new(),
            log_bytes: 0,
            sent: 0,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        self.stand.directory()
    }

    /// Writes the configuration.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn configure(&self, text: &str) -> Result<()> {
        Ok(file::write(&self.directory().join(CONFIG), text)?)
    }

    /// Starts it; does not wait until it listens.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(&mut self) -> Result<()> {
        let (path, log) = self.append_log()?;
        self.log_bytes = log.metadata().map_err(FileError::at(&path))?.len();
        let mut command = self.program();
        command.args(["serve", "--shards", "2", "--config", CONFIG]);
        command.current_dir(self.directory()).stdout(Stdio::null()).stderr(log);
        let process = Process::start("postrider", &mut command)?;
        self.stand.put_server(Box::new(Serving(process)));
        Ok(())
    }

    /// Its program, by way of others that bound it or lie to it.
    fn program(&self) -> Command {
        if !self.unsynced.is_empty() {
            return self.lied_to();
        }
        let Some(files) = self.files_max else { return Command::new(&self.postrider) };
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}")).arg(&self.postrider);
        command
    }

    /// A tracer keeps the syncs of these directories from being done, and says that they are; of those
    /// of the file system that go by way of them the second ones, which are for the names: each thread
    /// has one for contents and one for names in turn. With `-D` it is the child of nobody here: the
    /// process that is killed is the relay.
    fn lied_to(&self) -> Command {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
        command.args(["-e", "trace=fsync,syncfs", "-e", "inject=fsync:retval=0"]);
        command.args(["-e", "inject=syncfs:retval=0:when=2+2"]);
        for directory in &self.unsynced {
            command.arg("-P").arg(directory);
        }
        command.arg(&self.postrider);
        command
    }

    fn append_log(&self) -> Result<(PathBuf, File)> {
        let path = self.directory().join(LOG);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(FileError::at(&path))?;
        Ok((path, file))
    }

    /// Whether it got as far as listening since it was last started.
    ///
    /// # Errors
    /// When its log can't be read.
    pub(super) fn listens(&self) -> Result<bool> {
        let text = file::read(&self.directory().join(LOG))?;
        let new = text.get(self.log_bytes as usize..).unwrap_or("");
        Ok(new.contains("listening on"))
    }

    /// Waits until it listens; gives the time since the call, which is to follow its start.
    ///
    /// # Errors
    /// When it ends, or takes too long.
    pub(super) fn wait_listening(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        while !self.listens()? {
            self.stand.check_running()?;
            if begun.elapsed() > WAIT_MAX {
                return Err(Error::Server("the relay does not listen".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(begun.elapsed())
    }

    /// Its process.
    ///
    /// # Errors
    /// When none runs.
    pub(super) fn pid(&mut self) -> Result<u32> {
        Ok(self.stand.server_mut()?.pid())
    }

    /// Kills it.
    ///
    /// # Errors
    /// When something else had ended it.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.stand.check_running()?;
        self.stand.kill_server()
    }

    /// Stops it in the orderly way and verifies the spool.
    ///
    /// # Errors
    /// When it does not end well, or the spool is damaged.
    pub(super) fn stop(&mut self) -> Result<Verified> {
        self.stand.stop_server()?;
        self.verify()
    }

    /// Starts a source that sends until it is stopped.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_source(&mut self, name: &str, more: &[&str]) -> Result<()> {
        let mut arguments = self.source_arguments(ENDLESS, more);
        arguments.extend(["--reconnect", "60"].map(str::to_owned));
        self.stand.start_source(&format!("source-{name}"), &self.address, &arguments)
    }

    /// Ends the sources; transactions that run are finished, ledgers are complete.
    ///
    /// # Errors
    /// When one does not end, or ended by itself.
    pub(super) fn stop_sources(&mut self) -> Result<()> {
        for report in self.stand.finish_sources()? {
            if report.exit_code != Some(4) {
                let text = format!("a source had ended by itself, with {:?}", report.exit_code);
                return Err(Error::Server(text));
            }
        }
        Ok(())
    }

    /// Sends so many messages; gives the source's report once it has ended.
    ///
    /// # Errors
    /// When it can't be started, gives up, or says nothing that can be read.
    pub(super) fn send(&mut self, messages: u64, more: &[&str]) -> Result<Value> {
        self.sent += 1;
        let arguments = self.source_arguments(messages, more);
        self.stand.send(&format!("sent-{}", self.sent), &self.address, &arguments)
    }

    /// Runs a command of the relay's program in its directory; its standard output.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.postrider);
        command.args(words).args(["--config", CONFIG]).current_dir(self.directory());
        system::run(&mut command)
    }

    /// Looks at the spool, which nobody may have open. What is damaged is counted.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn verify(&self) -> Result<Verified> {
        if !self.spool.exists() {
            // Lost with all that was in it: what that means is for the audit to say.
            return Ok(Verified::default());
        }
        // It ends with an error when something is damaged, and says what all the same.
        let mut command = Command::new(&self.postrider);
        let output = command.args(["spool", "verify", "--json"]).arg(&self.spool).output();
        let output = output.map_err(|error| {
            ProcessError::Start(format!("{} spool verify", self.postrider.display()), error)
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).map_err(|error| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let status = output.status;
            Error::Server(format!("spool verify: {status}: {error}\n{text}{errors}"))
        })
    }

    /// Sets what was sent against what arrived, with findings.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(super) fn audit(&self) -> Result<Audit> {
        self.stand.audit(LIST_MAX)
    }

    fn source_arguments(&self, messages: u64, more: &[&str]) -> Vec<String> {
        let ours = ["--messages".to_owned(), messages.to_string()];
        let more = more.iter().map(|&word| word.to_owned());
        ours.into_iter().chain(self.whom.iter().cloned()).chain(more).collect()
    }
}

/// The relay's process: it has no others below it.
struct Serving(Process);

impl Server for Serving {
    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn check_running(&mut self) -> Result<()> {
        Ok(self.0.check_running()?)
    }

    fn stop(self: Box<Self>) -> Result<ExitReport> {
        let status = self.0.stop(WAIT_MAX)?;
        if !status.success() {
            return Err(ProcessError::Ended("postrider", status).into());
        }
        Ok(ExitReport::default())
    }

    /// At once: what a proof waits for lasts no longer than a sync.
    fn kill(self: Box<Self>) -> Result<()> {
        Ok(self.0.kill()?)
    }
}

/// What `postrider spool verify` said.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Verified {
    pub(super) segments: u64,
    pub(super) live_messages: u64,
    pub(super) copied_messages: u64,
    pub(super) torn_batches: u64,
    pub(super) orphan_blobs: u64,
    pub(super) damaged: u64,
}
