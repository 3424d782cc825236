//! The bare relay: the limit that the others are held against.

use super::report::ConfigFile;
use super::server::{Farewell, Place, Server};
use load::process::{Process, create, lab_program, read_address};
use load::tree;
use serde_json::Value;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Connections to the next hop, unless the case says otherwise.
const CONNECTIONS_MAX: u32 = 50;
const STOP_MAX: Duration = Duration::from_secs(20);

struct Floor {
    process: Process,
    pid: u32,
    output: std::process::ChildStdout,
    files: Vec<ConfigFile>,
}

/// Processor time that the contender of known cost spends for each message, in microseconds: so much
/// that what the relaying itself takes is a small share of it.
const KNOWN_CPU_US: u32 = 10_000;
/// Bytes that it writes to a file for each message: whole folios, whatever their size.
const KNOWN_WRITE_BYTES: u32 = 256 * 1024;

/// One line for people.
pub(super) fn known_cost_title() -> String {
    format!(
        "bare relay that burns {KNOWN_CPU_US} µs and writes {KNOWN_WRITE_BYTES} bytes a message"
    )
}

pub(super) fn start_known_cost(place: &Place) -> Result<Box<dyn Server>, String> {
    let [cpu, bytes] = [KNOWN_CPU_US, KNOWN_WRITE_BYTES].map(|cost| cost.to_string());
    start_with(place, |command| {
        command.args(["--burn-us", &cpu, "--ballast-bytes", &bytes]);
        command.arg("--ballast").arg(place.directory.join("ballast"));
    })
}

pub(super) fn start(place: &Place, log: bool) -> Result<Box<dyn Server>, String> {
    start_with(place, |command| {
        if log {
            command.arg("--log").arg(place.directory.join("log"));
        }
    })
}

fn start_with(place: &Place, add: impl FnOnce(&mut Command)) -> Result<Box<dyn Server>, String> {
    let mut command = place.command(&lab_program()?);
    let connections = place.egress.in_sum().unwrap_or(CONNECTIONS_MAX).to_string();
    command.args(["floor", "--connections", &connections, "--listen", &place.address()]);
    command.args(["--to", &place.sink]);
    add(&mut command);
    let text = format!("{:?}\n", command);
    command.stdout(Stdio::piped()).stderr(create(&place.directory.join("floor.log"))?);
    let mut process = Process::start("floor", &mut command)?;
    read_address(&mut process)?;
    let output = process.child().stdout.take().ok_or("floor: no output")?;
    let files = vec![ConfigFile { name: "command line".to_owned(), text }];
    Ok(Box::new(Floor { pid: process.child().id(), process, output, files }))
}

impl Server for Floor {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.files.clone()
    }

    fn stop(self: Box<Self>) -> Result<Farewell, String> {
        let Floor { process, mut output, .. } = *self;
        process.stop(STOP_MAX)?;
        let mut text = String::new();
        output.read_to_string(&mut text).map_err(|error| format!("floor: {error}"))?;
        let value: Value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
        Ok(Farewell { sync_count: value["log_syncs"].as_u64() })
    }

    fn kill(mut self: Box<Self>) -> Result<(), String> {
        self.process.check_running()?;
        tree::kill(self.pid);
        Ok(())
    }
}
