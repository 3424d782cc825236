//! The sink: a child process, at the far end of a long path if there is one.

use super::error::Result;
use super::long_path::LongPath;
use super::ways::{PASSWORD, Protocol, Ways, sink_name};
use load::file;
use load::ledger::Followed;
use load::process::{Process, this_program};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A sink that was asked to end has so long.
const STOP_MAX: Duration = Duration::from_secs(20);

/// The running sink.
#[derive(Debug)]
pub(crate) struct SinkProcess {
    process: Process,
    pub(crate) ledger: Followed,
}

/// The command of this sink, from 1, and what it is told beside other arguments.
pub(super) fn arguments(ways: Ways, number: u32) -> Vec<String> {
    let [_, command] = ways.outbound.tools();
    match ways.outbound {
        Protocol::Smtp => vec![command.to_owned()],
        Protocol::P1 => {
            let (name, tpdu) = (sink_name(number), ways.tpdu_bytes.to_string());
            let words = ["--name", &name, "--password", PASSWORD, "--tpdu", &tpdu];
            std::iter::once(command).chain(words).map(str::to_owned).collect()
        }
    }
}

impl SinkProcess {
    /// Starts it, with its command and arguments, and waits until it listens. `name` is that of its files.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start(
        directory: &Path,
        name: &str,
        listen: &str,
        path: Option<&LongPath>,
        more: &[&str],
    ) -> Result<SinkProcess> {
        let ledger = directory.join(format!("{name}.ledger"));
        file::create(&ledger)?;
        let lab = this_program()?;
        let mut command = match path {
            Some(path) => path.command(&lab),
            None => Command::new(lab),
        };
        command.args(more).args(["--json", "--listen", listen]);
        command.arg("--ledger").arg(&ledger).stdout(Stdio::piped());
        command.stderr(file::create(&directory.join(format!("{name}.log")))?);
        let mut process = Process::start("sink", &mut command)?;
        process.read_address()?;
        Ok(SinkProcess { process, ledger: Followed::sink(ledger) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        Ok(self.process.check_running()?)
    }

    /// Ends it; its ledger is complete then.
    ///
    /// # Errors
    /// When it doesn't end, or had ended.
    pub(crate) fn stop(mut self) -> Result<Followed> {
        self.check_running()?;
        self.process.stop(STOP_MAX)?;
        Ok(self.ledger)
    }
}
