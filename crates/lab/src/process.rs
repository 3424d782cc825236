//! Child processes that don't outlive the run.

use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running program; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: &'static str,
}

impl Process {
    /// Starts it; `name` is for errors.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<Process, String> {
        Process::spawn(name, command.stdin(Stdio::null()))
    }

    /// The same with a pipe to its standard input.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start_with_input(
        name: &'static str,
        command: &mut Command,
    ) -> Result<Process, String> {
        Process::spawn(name, command.stdin(Stdio::piped()))
    }

    fn spawn(name: &'static str, command: &mut Command) -> Result<Process, String> {
        let child = command.spawn();
        let child = child.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        Ok(Process { child, name })
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn check_running(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended: {status}", self.name)),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it had ended already: then it was not this that ended it.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        self.check_running()?;
        self.child.kill().map_err(|error| format!("{}: {error}", self.name))?;
        self.child.wait().map_err(|error| format!("{}: {error}", self.name))?;
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it can't be signalled or doesn't end in time.
    pub(crate) fn stop(mut self, wait_max: Duration) -> Result<ExitStatus, String> {
        let name = self.name;
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|error| format!("{name}: {error}"))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|e| format!("{name}: {e}"))? {
                return Ok(status);
            }
            if begun.elapsed() > wait_max {
                return Err(format!("{name} doesn't end on SIGTERM"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended, which is just as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
