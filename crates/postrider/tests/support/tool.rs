//! Programs that the server is tested with: our load tools, Debian's, Python.

use super::{Files, WAIT_MAX, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Our load tools, built beside the program under test.
pub fn lab() -> PathBuf {
    let path = Path::new(super::server::POSTRIDER).with_file_name("postrider-lab");
    assert!(path.exists(), "{} is missing: run `cargo build -p lab` first", path.display());
    path
}

/// Runs a program to its end.
pub fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Output {
    let program = program.as_ref();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| {
        panic!("{}: {error} (see scripts/install-test-packages)", program.display())
    })
}

/// Runs a program that must succeed; its standard output.
pub fn succeed(program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let output = run(program.as_ref(), arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {arguments:?}: {text}{errors}", program.as_ref());
    text
}

/// Runs a Python script with arguments; its standard output.
pub fn python(script: &str, arguments: &[&str]) -> String {
    let words: Vec<_> = ["-c", script].into_iter().chain(arguments.iter().copied()).collect();
    succeed("python3", &words)
}

/// `postrider-lab source` to an end at which every message was acknowledged.
pub fn source(arguments: &[&str]) -> Value {
    let words: Vec<_> = ["source", "--json"].into_iter().chain(arguments.iter().copied()).collect();
    let text = succeed(lab(), &words);
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `postrider-lab ledger`, to which all must be accounted for.
pub fn ledger(source: &Path, sink: &Path) -> Value {
    let (source, sink) = (source.display().to_string(), sink.display().to_string());
    let text = succeed(lab(), &["ledger", "--json", &source, &sink]);
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A port that nobody listens on, nor will while this test lasts, at any address of this machine.
pub fn free_port() -> u16 {
    load::listener::free_port().expect("a free port")
}

/// A running peer; ended when the test ends, however it ends.
pub struct Tool {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Tool {
    fn spawn(mut command: Command) -> Tool {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = child.spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("{command:?}: {error} (see scripts/install-test-packages)")
        });
        Tool { child, address: String::new(), output: Arc::default() }
    }

    fn collect(&mut self, mut from: impl Read + Send + 'static) {
        let output = Arc::clone(&self.output);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                output.lock().expect("no panic").extend_from_slice(&piece[..length]);
            }
        });
    }

    /// `postrider-lab sink` on a free port, with a ledger `sink.ledger`.
    pub fn sink(files: &Files, arguments: &[&str]) -> Tool {
        Tool::sink_at(files, "127.0.0.1:0", arguments)
    }

    /// The same at a given address.
    pub fn sink_at(files: &Files, listen: &str, arguments: &[&str]) -> Tool {
        let ledger = files.path("sink.ledger").display().to_string();
        let first = ["sink", "--json", "--listen", listen, "--ledger", &ledger];
        Tool::lab(&[&first[..], arguments].concat())
    }

    /// One of our load tools that listens.
    pub fn lab(arguments: &[&str]) -> Tool {
        let mut command = Command::new(lab());
        command.args(arguments);
        let mut tool = Tool::spawn(command);
        let mut stdout = BufReader::new(tool.child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ");
        tool.address = address.unwrap_or_else(|| panic!("{arguments:?} says {line:?}")).to_owned();
        tool.collect(stdout);
        tool
    }

    /// Debian's `smtp-sink`, which counts.
    pub fn smtp_sink(arguments: &[&str]) -> Tool {
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new("smtp-sink");
        command.arg("-c").args(arguments);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command.args([&address, "1000"]);
        let mut tool = Tool::spawn(command);
        let stdout = tool.child.stdout.take().expect("stdout is a pipe");
        tool.collect(stdout);
        wait_until("smtp-sink", || TcpStream::connect(&address).is_ok());
        tool.address = address;
        tool
    }

    /// Messages that `smtp-sink -c` has counted.
    pub fn counted(&self) -> u64 {
        let output = self.output.lock().expect("no panic");
        let text = String::from_utf8_lossy(&output);
        let count = text.rsplit_once("mesg=").map_or("0", |(_, count)| count);
        count.trim().parse().unwrap_or(0)
    }

    /// Waits for the end of a `postrider-lab sink`, and returns its totals.
    pub fn finish(mut self) -> Value {
        let begun = Instant::now();
        while self.child.try_wait().expect("a child of ours").is_none() {
            assert!(begun.elapsed() < WAIT_MAX, "the sink doesn't end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut totals = Value::Null;
        wait_until("the sink's totals", || {
            let output = self.output.lock().expect("no panic");
            totals = serde_json::from_slice(&output).unwrap_or(Value::Null);
            !totals.is_null()
        });
        totals
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
