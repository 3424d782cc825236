//! A server under test while it runs.

use super::error::Result;
use super::place::ConfigFile;
use load::process::{Process, ProcessError};
use load::tree;
use serde_json::Value;
use std::io::Read as _;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A running server.
pub(crate) trait Server {
    /// The process that all others descend from.
    fn pid(&self) -> u32;
    /// What it was configured with.
    fn files(&self) -> Vec<ConfigFile> {
        Vec::new()
    }
    /// # Errors
    /// When it has ended.
    fn check_running(&mut self) -> Result<()>;
    /// It listens; waits for what else it needs before mail comes.
    ///
    /// # Errors
    /// When it doesn't get it.
    fn wait_until_ready(&mut self) -> Result<()> {
        Ok(())
    }
    /// Syncs that it has issued, if it counts them.
    fn sync_count(&mut self) -> Option<u64> {
        None
    }
    /// The next hop is back: whatever an operator would do so that queued mail goes at once.
    ///
    /// # Errors
    /// When that fails.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    /// Ends in the orderly way, or else by SIGKILL for all its processes. What it tells at its end.
    ///
    /// # Errors
    /// When it had ended before, or ended badly.
    fn stop(self: Box<Self>) -> Result<ExitReport>;
    /// SIGKILL for all its processes.
    ///
    /// # Errors
    /// When it had ended before.
    fn kill(self: Box<Self>) -> Result<()>;
}

/// What a server tells when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExitReport {
    pub(crate) sync_count: Option<u64>,
}

/// A server's first process, started by us; it may have others below it.
#[derive(Debug)]
pub(crate) struct MainProcess(Process);

impl MainProcess {
    /// Starts it; `name` is for errors.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<MainProcess> {
        Ok(MainProcess(Process::start(name, command)?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// To read what it writes.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.0
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        Ok(self.0.check_running()?)
    }

    /// SIGTERM; how it ended.
    ///
    /// # Errors
    /// When it doesn't end on SIGTERM.
    pub(crate) fn end(self, wait_max: Duration) -> Result<ExitStatus> {
        Ok(self.0.stop(wait_max)?)
    }

    /// SIGTERM; SIGKILL for all when it doesn't end on that.
    ///
    /// # Errors
    /// When it doesn't end on SIGTERM.
    pub(crate) fn stop(self, wait_max: Duration) -> Result<()> {
        let pid = self.pid();
        Ok(tree::stop(self.0, pid, wait_max)?)
    }

    /// SIGKILL for it and all that descend from it.
    ///
    /// # Errors
    /// When it had ended before.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.check_running()?;
        tree::kill(self.pid());
        Ok(())
    }
}

/// A server that is one process of ours, with those below it, and ends on SIGTERM.
pub(crate) struct Daemon {
    pub(crate) process: MainProcess,
    pub(crate) files: Vec<ConfigFile>,
    pub(crate) stop_max: Duration,
}

impl Server for Daemon {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.files.clone()
    }

    fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
    }

    /// What it prints, if that is piped to us, may be counts as JSON.
    fn stop(mut self: Box<Self>) -> Result<ExitReport> {
        let output = self.process.process().child().stdout.take();
        self.process.stop(self.stop_max)?;
        let mut text = String::new();
        if let Some(mut output) = output {
            let read = output.read_to_string(&mut text);
            read.map_err(|error| ProcessError::System("output", error))?;
        }
        let value: Value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
        Ok(ExitReport { sync_count: value["log_syncs"].as_u64() })
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.process.kill()
    }
}
