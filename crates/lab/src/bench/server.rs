//! A server under test: where it works, and what can be done with it while it runs.

use super::group::Group;
use super::report;
use super::scenario::Egress;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// Where a server works and what it talks to. The same for a restart.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its own, for configuration, spool and logs.
    pub(super) directory: PathBuf,
    /// The next hop, `HOST:PORT`.
    pub(super) sink: String,
    /// Where it is to listen.
    pub(super) port: u16,
    /// For its metrics, if it has such.
    pub(super) admin_port: u16,
    /// The postrider program.
    pub(super) postrider: PathBuf,
    pub(super) egress: Egress,
    /// For all its processes, where there is such a thing.
    pub(super) group: Option<Rc<Group>>,
}

impl Place {
    /// A command whose processes are counted with the server.
    pub(super) fn command(&self, program: &Path) -> Command {
        self.group.as_ref().map_or_else(|| Command::new(program), |group| group.command(program))
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Host and port of the next hop.
    pub(super) fn next_hop(&self) -> (&str, &str) {
        self.sink.rsplit_once(':').unwrap_or((&self.sink, "25"))
    }

    /// Writes a configuration file into the directory.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<report::ConfigFile, String> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(report::ConfigFile { name: name.to_owned(), text: text.to_owned() })
    }
}

/// A running server.
pub(super) trait Server {
    /// The process that all others descend from.
    fn pid(&self) -> u32;
    /// What it was configured with.
    fn files(&self) -> Vec<report::ConfigFile>;
    /// Syncs that it has issued, if it counts them.
    fn sync_count(&mut self) -> Option<u64> {
        None
    }
    /// The next hop is back: whatever an operator would do so that queued mail goes at once.
    ///
    /// # Errors
    /// When that fails.
    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Ends in the orderly way, or else by SIGKILL for all its processes. What it tells at its end.
    ///
    /// # Errors
    /// When it had ended before.
    fn stop(self: Box<Self>) -> Result<Farewell, String>;
    /// SIGKILL for all its processes.
    ///
    /// # Errors
    /// When it had ended before.
    fn kill(self: Box<Self>) -> Result<(), String>;
}

/// What a server tells when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farewell {
    pub(super) sync_count: Option<u64>,
}
