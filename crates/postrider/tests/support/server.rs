//! A running `postrider serve`, and `postrider` commands against it.

use super::{Files, WAIT_MAX};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The program under test.
pub const POSTRIDER: &str = env!("CARGO_BIN_EXE_postrider");

/// No command takes longer, however busy the machine is.
const COMMAND_SECONDS_MAX: u32 = 180;

/// The configuration's name in the test's directory.
pub const CONFIG: &str = "postrider.toml";

#[derive(Default)]
struct ConsoleLines {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

/// A running server; killed when the test ends, however it ends.
pub struct Server {
    child: Child,
    dir: PathBuf,
    console: Arc<ConsoleLines>,
    /// Where it listens, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
}

impl Server {
    /// Writes the configuration and starts a server with it.
    pub fn start(files: &Files, config: &str) -> Server {
        files.write(CONFIG, config);
        Server::start_again(files)
    }

    /// Starts a server with the configuration that is there.
    pub fn start_again(files: &Files) -> Server {
        Server::start_with(files, &[])
    }

    /// The same, that trusts these root certificates and no others.
    pub fn start_trusting(files: &Files, roots: &str) -> Server {
        Server::start_with(files, &[("SSL_CERT_FILE", roots)])
    }

    /// The same, with this in its environment.
    pub fn start_with(files: &Files, environment: &[(&str, &str)]) -> Server {
        let mut command = Command::new(POSTRIDER);
        command.args(["serve", "--config", CONFIG]).envs(environment.iter().copied());
        Server::spawn(command, files.dir())
    }

    /// Runs a command that is to become a server, with its standard error as the console, and
    /// waits until it listens.
    pub fn spawn(mut command: Command, dir: &Path) -> Server {
        let child = command
            .current_dir(dir)
            .env_remove("JOURNAL_STREAM")
            // The built-in configuration where the command line names none, whatever is installed here.
            .env("POSTRIDER_CONFIG", "")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let console = Arc::new(ConsoleLines::default());
        let stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let lines = Arc::clone(&console);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                lines.more.notify_all();
            }
            lines.lines.lock().unwrap_or_else(PoisonError::into_inner).push("(end)".to_owned());
            lines.more.notify_all();
        });
        let mut server = Server { child, dir: dir.to_owned(), console, addresses: Vec::new() };
        // The last line of a start: all sockets are open by then.
        server.wait_console("start", |line| line.contains(" serves hostname="));
        server.addresses = server.console().iter().filter_map(|line| listening_on(line)).collect();
        assert!(!server.addresses.is_empty(), "{:#?}", server.console());
        server
    }

    /// The first listener's address.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The same as text.
    pub fn to(&self) -> String {
        self.address().to_string()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it has said so far.
    pub fn console(&self) -> Vec<String> {
        self.console.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a console line and returns it.
    pub fn wait_console(&self, what: &str, so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        let mut lines = self.console.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(line) = lines.iter().find(|line| so(line)) {
                return line.clone();
            }
            let ended = lines.last().is_some_and(|line| line == "(end)");
            assert!(!ended && begun.elapsed() < WAIT_MAX, "no console line: {what}: {lines:#?}");
            let wait = Duration::from_millis(100);
            lines = self.console.more.wait_timeout(lines, wait).expect("no poison").0;
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(begun.elapsed() < WAIT_MAX, "it doesn't end: {:#?}", self.console());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as a service manager would.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "{status}: {:#?}", self.console());
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Runs `postrider` with these words and `--config`.
    pub fn command(&self, words: &[&str]) -> Answer {
        command(&self.dir, words)
    }

    /// Runs a command with `--json`, which must succeed.
    pub fn json(&self, words: &[&str]) -> Vec<Value> {
        let words: Vec<_> = words.iter().copied().chain(["--json"]).collect();
        let answer = control(&self.dir, &words);
        assert_eq!(answer.code, 0, "{words:?}: {answer:?}");
        answer.json()
    }

    /// What is queued.
    pub fn queue(&self) -> Vec<Value> {
        let mut responses = self.json(&["queue", "list"]);
        responses.retain(|response| response["response"] == "item");
        responses
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said: {:#?}", self.console());
        }
    }
}

fn listening_on(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    rest.split(' ').next()?.parse().ok()
}

/// What a command had to say.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Answer {
    /// Its standard output as JSON lines.
    pub fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.out.lines().map(parse).collect()
    }
}

/// Runs `postrider` in a directory with these words and `--config`.
pub fn command(dir: &Path, words: &[&str]) -> Answer {
    run(dir, words, &["--config", CONFIG])
}

/// Runs `postrider` in a directory with these words and `--control`.
pub fn control(dir: &Path, words: &[&str]) -> Answer {
    run(dir, words, &["--control", "spool/control.sock"])
}

/// Runs `postrider` in a directory with these words alone.
pub fn program(dir: &Path, words: &[&str]) -> Answer {
    run(dir, words, &[])
}

fn run(dir: &Path, words: &[&str], server: &[&str]) -> Answer {
    // One that hangs fails its test, and not the run.
    let output = Command::new("timeout")
        .args([&COMMAND_SECONDS_MAX.to_string(), POSTRIDER])
        .args(words)
        .args(server)
        .current_dir(dir)
        .env("POSTRIDER_CONFIG", "")
        .output()
        .expect("the program runs");
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}
