//! Child processes that don't outlive the run.

use crate::on_panic::OnPanic;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};
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
            ProcessError::Stubborn(name) => write!(f, "{name} does not end on SIGTERM"),
            ProcessError::System(name, error) => write!(f, "{name}: {error}"),
            ProcessError::Silent(name, said) => {
                write!(f, "{name}: expected its listening address, got {said:?}")
            }
        }
    }
}

impl std::error::Error for ProcessError {}

/// A running program; killed when it is dropped, or this program panics.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: &'static str,
    _on_panic: OnPanic,
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
        // Not by its number, which is another's once it has ended.
        let own = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let on_panic = OnPanic::new(move || {
            if let Ok(own) = own {
                let _ = pidfd_send_signal(own, Signal::KILL);
            }
        });
        Ok(Process { child, name, _on_panic: on_panic })
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

    const CHILD: &str = "POSTRIDER_TEST_PANICS_WITH_A_CHILD";

    /// How it is with this process, if there is one.
    fn state_of(pid: u32) -> Option<char> {
        Some(procfs::process::Stat::from_file(format!("/proc/{pid}/stat")).ok()?.state)
    }

    fn state(process: &Process) -> char {
        state_of(process.pid()).unwrap()
    }

    /// Does nothing but in a process of its own, which the next test starts.
    #[test]
    fn a_program_that_panics() {
        let Some(path) = std::env::var_os(CHILD) else { return };
        std::panic::set_hook(Box::new(|_| {
            crate::on_panic::do_all();
            std::process::exit(7);
        }));
        let mut sleep = Command::new("sleep");
        let sleep =
            Process::start("sleep", sleep.arg("600").stdout(Stdio::null()).stderr(Stdio::null()))
                .unwrap();
        std::fs::write(path, sleep.pid().to_string()).unwrap();
        panic!("as planned");
    }

    #[test]
    fn what_a_program_has_started_ends_when_it_panics() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "process::tests::a_program_that_panics"]).env(CHILD, &path);
        assert_eq!(program.output().unwrap().status.code(), Some(7));
        let pid = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let begun = Instant::now();
        // Whoever it is left to may not wait for it at once.
        while !matches!(state_of(pid), None | Some('Z')) {
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", state_of(pid));
            std::thread::sleep(Duration::from_millis(5));
        }
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
