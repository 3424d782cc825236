//! A server that a script configures, starts and ends: any installation can be measured so.
//! docs/benchmarks.md says what such a script is asked and what it is given.

use crate::stand::contender::{Contender, Durability};
use crate::stand::error::{Error, Result};
use crate::stand::place::{ConfigFile, ServerSetup};
use crate::stand::server::{ExitReport, MainProcess, Server};
use crate::stand::system;
use load::file::{self, FileError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

/// What a script started may take so long to end.
const STOP_MAX: Duration = Duration::from_secs(60);
/// Connections to the sink where the case leaves it to the contender.
const CONNECTIONS_MAX: u32 = 50;
/// The directory below the server's own in which a script leaves the configuration files it wrote:
/// they are shown in the report.
const CONFIG: &str = "config";

/// `NAME=SCRIPT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    name: String,
    script: PathBuf,
}

impl FromStr for Adapter {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Adapter, String> {
        let wrong = || format!("{text:?} is not NAME=SCRIPT");
        let (name, script) = text.split_once('=').ok_or_else(wrong)?;
        if name.is_empty() || name.contains(char::is_whitespace) || script.is_empty() {
            return Err(wrong());
        }
        let absolute = std::path::absolute(script);
        let script = absolute.map_err(|error| format!("{script}: {error}"))?;
        Ok(Adapter { name: name.to_owned(), script })
    }
}

impl Adapter {
    /// The version of what is installed.
    ///
    /// # Errors
    /// The script's own words when it finds nothing to measure.
    fn version(&self) -> Result<String> {
        let text = system::run(Command::new(&self.script).arg("version"))?;
        let version = text.lines().next().unwrap_or_default().trim();
        if version.is_empty() {
            let script = self.script.display();
            return Err(Error::Missing(format!("{script} version: it prints nothing")));
        }
        Ok(version.to_owned())
    }
}

impl Contender for Adapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> String {
        format!("what {} starts", self.script.display())
    }

    fn durability(&self) -> Durability {
        Durability { word: "unknown", sentence: "its adapter configures it" }
    }

    fn find(&self, _: &Path) -> Result<String> {
        self.version()
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let config = place.directory.join(CONFIG);
        file::create_directory(&config)?;
        let path = place.directory.join("adapter.log");
        let log = file::create(&path)?;
        let mut command = place.command(&self.script);
        environment(command.arg("start"), place);
        let errors = log.try_clone().map_err(FileError::at(&path))?;
        command.stdout(log).stderr(errors);
        let process = MainProcess::start("adapter", &mut command)?;
        Ok(Box::new(AdapterServer { adapter: self.clone(), place: place.clone(), process }))
    }
}

/// What a script is told.
fn environment(command: &mut Command, place: &ServerSetup) {
    let (sink_host, sink_port) = place.next_hop();
    let connections = place.egress.in_sum().unwrap_or(CONNECTIONS_MAX);
    command
        .current_dir(&place.directory)
        .env("BENCH_DIRECTORY", &place.directory)
        .env("BENCH_CONFIG", place.directory.join(CONFIG))
        .env("BENCH_HOST", "127.0.0.1")
        .env("BENCH_PORT", place.port.to_string())
        .env("BENCH_ADMIN_PORT", place.admin_port.to_string())
        .env("BENCH_SINK_HOST", sink_host)
        .env("BENCH_SINK_PORT", sink_port)
        .env("BENCH_CONNECTIONS", connections.to_string())
        .env("BENCH_ROUTES", place.egress.domains().to_string());
}

struct AdapterServer {
    adapter: Adapter,
    place: ServerSetup,
    process: MainProcess,
}

impl Server for AdapterServer {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn files(&self) -> Vec<ConfigFile> {
        let mut files = config_files(&self.place.directory.join(CONFIG));
        let script = std::fs::read_to_string(&self.adapter.script).unwrap_or_default();
        let name = self.adapter.script.display().to_string();
        files.push(ConfigFile { name, text: script });
        files
    }

    fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
    }

    fn flush(&mut self) -> Result<()> {
        let mut command = Command::new(&self.adapter.script);
        environment(command.arg("flush"), &self.place);
        system::run(&mut command).map(drop)
    }

    fn stop(self: Box<Self>) -> Result<ExitReport> {
        self.process.stop(STOP_MAX).map(|()| ExitReport::default())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.process.kill()
    }
}

/// The text files of a directory, in the order of their names.
fn config_files(directory: &Path) -> Vec<ConfigFile> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<ConfigFile> = entries
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path()).ok()?;
            Some(ConfigFile { name: entry.file_name().to_string_lossy().into_owned(), text })
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

#[cfg(test)]
mod tests {
    use super::Adapter;

    #[test]
    fn an_adapter_is_read_or_refused() {
        let adapter: Adapter = "kumomta=/opt/a b".parse().expect("good");
        assert_eq!(
            (adapter.name.as_str(), adapter.script.display().to_string()),
            ("kumomta", "/opt/a b".to_owned())
        );
        for bad in ["", "x", "=y", "x=", "a b=c"] {
            let error = bad.parse::<Adapter>().expect_err("wrong");
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_script_that_is_not_there_or_finds_nothing_says_so() {
        let adapter: Adapter = "x=/nonexistent/script".parse().expect("good");
        assert!(adapter.version().expect_err("absent").to_string().contains("/nonexistent/script"));
        let adapter: Adapter = "x=/bin/false".parse().expect("good");
        assert!(adapter.version().expect_err("refuses").to_string().contains("exit status: 1"));
        let adapter: Adapter = "x=/bin/true".parse().expect("good");
        assert!(adapter.version().expect_err("silent").to_string().contains("prints nothing"));
    }
}
