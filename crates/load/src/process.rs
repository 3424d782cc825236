//! Child processes that don't outlive the run.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running program; killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: &'static str,
}

impl Process {
    /// Starts it; `name` is for errors.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Process, String> {
        Process::spawn(name, command.stdin(Stdio::null()))
    }

    /// The same with a pipe to its standard input.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start_with_input(name: &'static str, command: &mut Command) -> Result<Process, String> {
        Process::spawn(name, command.stdin(Stdio::piped()))
    }

    fn spawn(name: &'static str, command: &mut Command) -> Result<Process, String> {
        let child = command.spawn();
        let child = child.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        Ok(Process { child, name })
    }

    /// The process itself, to signal it or to read what it writes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// # Errors
    /// When it has ended.
    pub fn check_running(&mut self) -> Result<(), String> {
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
    pub fn kill(mut self) -> Result<(), String> {
        self.check_running()?;
        self.child.kill().map_err(|error| format!("{}: {error}", self.name))?;
        self.child.wait().map_err(|error| format!("{}: {error}", self.name))?;
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it can't be signalled or doesn't end in time.
    pub fn stop(mut self, wait_max: Duration) -> Result<ExitStatus, String> {
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

/// This program, to be started with another command.
///
/// # Errors
/// When the system doesn't know where it is.
pub fn lab_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program: {error}"))
}

/// The address in `listening on ADDRESS`, which our tools print first.
///
/// # Errors
/// When it says something else.
pub fn read_address(process: &mut Process) -> Result<String, String> {
    let mut line = String::new();
    if let Some(output) = &mut process.child().stdout {
        BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
    }
    let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
    address.ok_or_else(|| format!("it should say where it listens and says {line:?}"))
}

/// A new file for what a program writes.
///
/// # Errors
/// When it can't be made; the text names it.
pub fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()))
}
