//! The bare relay: the limit that the others are held against.

use super::contender::{Farewell, Place, Server};
use super::load::{create, read_address};
use super::report::ConfigFile;
use super::tree;
use crate::process::Process;
use serde_json::Value;
use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

const STOP_MAX: Duration = Duration::from_secs(20);

struct Floor {
    process: Process,
    pid: u32,
    output: std::process::ChildStdout,
    files: Vec<ConfigFile>,
}

pub(super) fn start(place: &Place, log: bool) -> Result<Box<dyn Server>, String> {
    let mut command = place.command(&super::lab_program()?);
    command.args(["floor", "--connections", "50", "--listen", &place.address()]);
    command.args(["--to", &place.sink]);
    if log {
        command.arg("--log").arg(place.directory.join("log"));
    }
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
