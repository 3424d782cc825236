//! Child processes that don't outlive the run.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Why a program doesn't do as it should.
#[derive(Debug)]
pub enum ProcessError {
    /// It can't be started: what should have been run.
    Start(String, io::Error),
    /// It has ended, and should run.
    Ended(&'static str, ExitStatus),
    /// It was asked to end, and runs.
    Stubborn(&'static str),
    /// It can't be signalled, waited for, or read from.
    System(&'static str, io::Error),
    /// It should have said where it listens, and said this.
    Silent(&'static str, String),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Start(command, error) => write!(f, "cannot start {command}: {error}"),
            ProcessError::Ended(name, status) => write!(f, "{name} ended: {status}"),
            ProcessError::Stubborn(name) => write!(f, "{name} doesn't end on SIGTERM"),
            ProcessError::System(name, error) => write!(f, "{name}: {error}"),
            ProcessError::Silent(name, said) => {
                write!(f, "{name} should say where it listens and says {said:?}")
            }
        }
    }
}

impl std::error::Error for ProcessError {}

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
    pub fn start(name: &'static str, command: &mut Command) -> Result<Process, ProcessError> {
        Process::spawn(name, command.stdin(Stdio::null()))
    }

    /// The same with a pipe to its standard input.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start_with_input(
        name: &'static str,
        command: &mut Command,
    ) -> Result<Process, ProcessError> {
        Process::spawn(name, command.stdin(Stdio::piped()))
    }

    fn spawn(name: &'static str, command: &mut Command) -> Result<Process, ProcessError> {
        let child = command.spawn();
        let child = child.map_err(|error| ProcessError::Start(format!("{command:?}"), error))?;
        Ok(Process { child, name })
    }

    /// The process itself, to signal it or to read what it writes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When it can't be looked at.
    pub fn status(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        self.child.try_wait().map_err(|error| ProcessError::System(self.name, error))
    }

    /// # Errors
    /// When it has ended.
    pub fn check_running(&mut self) -> Result<(), ProcessError> {
        match self.status()? {
            None => Ok(()),
            Some(status) => Err(ProcessError::Ended(self.name, status)),
        }
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it had ended already: then it was not this that ended it.
    pub fn kill(mut self) -> Result<(), ProcessError> {
        self.check_running()?;
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| ProcessError::System(self.name, error))
    }

    /// SIGSTOP, or SIGCONT after it. What is paused does nothing from then on.
    ///
    /// # Errors
    /// When it can't be signalled.
    pub fn pause(&self, is_paused: bool) -> Result<(), ProcessError> {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        let pid = Pid::from_child(&self.child);
        let system = |error: Errno| ProcessError::System(self.name, error.into());
        kill_process(pid, signal).map_err(system)?;
        if is_paused {
            // Its threads stop one by one. Whoever waits for its end later finds that as well.
            let ends = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(error) = waitid(WaitId::Pid(pid), ends) {
                if error != Errno::INTR {
                    return Err(system(error));
                }
            }
        }
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it can't be signalled or doesn't end in time.
    pub fn stop(mut self, wait_max: Duration) -> Result<ExitStatus, ProcessError> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|error| ProcessError::System(self.name, error.into()))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            if begun.elapsed() > wait_max {
                return Err(ProcessError::Stubborn(self.name));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The address in `listening on ADDRESS`, which our tools print first.
    ///
    /// # Errors
    /// When it says something else.
    pub fn read_address(&mut self) -> Result<String, ProcessError> {
        let mut line = String::new();
        if let Some(output) = &mut self.child.stdout {
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(|error| ProcessError::System(self.name, error))?;
        }
        let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
        address.ok_or(ProcessError::Silent(self.name, line))
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
pub fn this_program() -> Result<PathBuf, ProcessError> {
    std::env::current_exe().map_err(|error| ProcessError::System("this program", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead as _;

    fn state(process: &Process) -> char {
        let stat = format!("/proc/{}/stat", process.pid());
        procfs::process::Stat::from_file(stat).unwrap().state
    }

    #[test]
    fn what_is_paused_has_stopped_and_goes_on() {
        let mut sleep = Command::new("sleep");
        let mut process = Process::start("sleep", sleep.arg("60")).unwrap();
        for _ in 0..50 {
            process.pause(true).unwrap();
            assert_eq!(state(&process), 'T');
            process.pause(false).unwrap();
            assert_ne!(state(&process), 'T');
        }
        process.check_running().unwrap();
        process.stop(Duration::from_secs(5)).unwrap();
    }
}
