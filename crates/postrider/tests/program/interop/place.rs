//! Where another server runs: a directory and ports of its own, as other packages would have it.

pub(crate) use crate::support::foreign::is_possible;
use crate::support::foreign::with_packages;
use crate::support::tool::free_port;
use crate::support::wait_until;
use rustix::process::{Pid, Signal, kill_process_group};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server's directory, removed at the end, and what runs in it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    processes: Vec<Child>,
    /// Where it takes mail: 127.0.0.1 and this port.
    pub(crate) port: u16,
    /// Where it refuses whoever says EHLO.
    pub(crate) rude_port: u16,
    /// Where it sends all mail on, at 127.0.0.1.
    pub(crate) next_port: u16,
}

impl Place {
    /// A directory that its unprivileged users can reach, too.
    pub(crate) fn new(next_port: u16) -> Place {
        let dir = tempfile::Builder::new().prefix("postrider-interop-").tempdir();
        let dir = dir.expect("a directory");
        succeed(Command::new("chmod").arg("1777").arg(dir.path()));
        let processes = Vec::new();
        Place { dir, processes, port: free_port(), rude_port: free_port(), next_port }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory as text.
    pub(crate) fn dir(&self) -> String {
        self.dir.path().display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    pub(crate) fn make_dir(&self, name: &str) {
        std::fs::create_dir_all(self.path(name)).expect("a directory");
    }

    /// A command that sees these packages.
    pub(crate) fn command(&self, packages: &str, words: &[&str]) -> Command {
        let mut command = Command::new(with_packages());
        command.arg(packages).args(words).current_dir(self.dir.path());
        command
    }

    /// Starts a server; what it says goes into a file. It ends with this place.
    pub(crate) fn start(&mut self, mut command: Command, log: &str) -> u32 {
        let log = std::fs::File::create(self.path(log)).expect("a file");
        let copy = log.try_clone().expect("a file");
        command.stdin(Stdio::null()).stdout(log).stderr(copy).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let id = child.id();
        self.processes.push(child);
        id
    }

    /// Sends a signal to a server that was started here, and to what it started.
    pub(crate) fn signal(&self, id: u32, signal: Signal) {
        let child = self.processes.iter().find(|child| child.id() == id).expect("started here");
        kill_process_group(Pid::from_child(child), signal).expect("it runs");
    }

    /// Ends a server that was started here.
    pub(crate) fn end(&mut self, id: u32) {
        self.signal(id, Signal::KILL);
        for mut child in self.processes.extract_if(.., |child| child.id() == id) {
            child.wait().expect("a child of ours");
        }
    }

    /// Waits until something listens at a port.
    pub(crate) fn wait_listening(&mut self, port: u16) {
        wait_until(&format!("something listens at {port}"), || {
            for child in &mut self.processes {
                let ended = child.try_wait().expect("a child of ours");
                assert!(ended.is_none(), "{ended:?}: it ended");
            }
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.processes {
            // It may have ended by itself. The group has the processes that it started.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let logs = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten();
            for path in logs.map(|entry| entry.path()).filter(|path| path.is_file()) {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let from = text.len().saturating_sub(20_000);
                eprintln!("{}:\n{}", path.display(), text.get(from..).unwrap_or(&text));
            }
        }
    }
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}", output.status);
}
