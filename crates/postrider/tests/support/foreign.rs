//! Other people's servers as next hops: built or started by the test, killed at its end.

use super::{Files, wait_until};
use serde_json::Value;
use skips::Machine;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A server that writes a line of JSON to its standard output for each thing that it does, the
/// first of them `{"event": "listening", "address": "127.0.0.1:PORT"}`.
pub struct Foreign {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

impl Foreign {
    /// Starts it, and waits until it listens.
    pub fn start(mut command: Command) -> Foreign {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let events = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&events);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("a line of JSON");
                kept.lock().expect("no panic").push(event);
            }
        });
        let mut server = Foreign { child, events, address: String::new() };
        wait_until("it listens", || !server.events_of("listening").is_empty());
        let address = server.events_of("listening")[0]["address"].as_str().map(str::to_owned);
        server.address = address.expect("an address");
        server
    }

    /// The port of its address.
    pub fn port(&self) -> u16 {
        let (_, port) = self.address.rsplit_once(':').expect("a port");
        port.parse().expect("a port")
    }

    /// The port at which it refuses everybody, if it told of one.
    pub fn rude_port(&self) -> u16 {
        let port = self.events_of("listening")[0]["rude_port"].as_u64();
        port.and_then(|port| u16::try_from(port).ok()).expect("a port")
    }

    /// What it has told so far of one kind.
    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        let events = self.events.lock().expect("no panic");
        events.iter().filter(|event| event["event"] == kind).cloned().collect()
    }

    /// Waits for as many events of a kind, and returns them.
    pub fn wait_events(&self, kind: &str, count: usize) -> Vec<Value> {
        wait_until(&format!("{count} events {kind}"), || self.events_of(kind).len() >= count);
        self.events_of(kind)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a program can be found. Where it can't, the caller skips its test, but never in
/// continuous integration, which installs all of them.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    is_there || skips::missing(program)
}

/// Whether servers can be started that need root, these Debian packages, and a place where mounts
/// can be made, which not every container is. What the machine doesn't allow is skipped in continuous
/// integration, too; packages that are missing are not.
pub fn is_possible(packages: &[&str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skips::machine(Machine::Root, "the server needs it");
        return false;
    }
    let mut lacks = Command::new(with_packages());
    let lacks = lacks.arg("--lacks").args(packages).output().expect("a script of ours");
    let names = String::from_utf8_lossy(&lacks.stdout).replace('\n', " ");
    if !names.is_empty() {
        return skips::missing(&names);
    }
    let mut trial = Command::new(with_packages());
    let trial = trial.arg(packages.join(",")).arg("true").output().expect("a script of ours");
    if !trial.status.success() {
        skips::machine(Machine::Namespaces, &String::from_utf8_lossy(&trial.stderr));
    }
    trial.status.success()
}

/// Runs a program as if Debian packages were installed: `with-packages NAME,… PROGRAM …`.
pub fn with_packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/with-packages")
}

/// Builds the Go module in `tests/peers/NAME` into the test's directory and returns the program.
/// The modules that it needs are fetched once, at the versions that its go.sum pins. Compiled as
/// scripts/install-test-packages compiles: Go's own library once for all.
pub fn build_go(files: &Files, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(name);
    let program = files.path(name);
    let output = Command::new("go")
        .args(["build", "-mod=readonly", "-gcflags=all=-N -l", "-o"])
        .arg(&program)
        .arg(".")
        .env("CGO_ENABLED", "0")
        .current_dir(&source)
        .output();
    let output = output.unwrap_or_else(|error| panic!("go: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", source.display());
    program
}
