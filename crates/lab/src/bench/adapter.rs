//! A server that a script configures, starts and ends: any installation can be measured so.
//! docs/benchmarks.md says what such a script is asked and what it is given.

use super::report::ConfigFile;
use super::server::{Farewell, Place, Server};
use load::process::{Process, create};
use load::tree;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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
    pub(super) name: String,
    script: PathBuf,
}

impl FromStr for Adapter {
    type Err = String;

    fn from_str(text: &str) -> Result<Adapter, String> {
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
    /// What is started; for people.
    pub(super) fn script(&self) -> std::path::Display<'_> {
        self.script.display()
    }

    /// The version of what is installed.
    ///
    /// # Errors
    /// The script's own words when it finds nothing to measure.
    pub(super) fn version(&self) -> Result<String, String> {
        let output = self.run(Command::new(&self.script).arg("version"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().unwrap_or_default().trim();
        if version.is_empty() {
            return Err(format!("{} version: it prints nothing", self.script.display()));
        }
        Ok(version.to_owned())
    }

    /// Runs a command of the script to its end.
    fn run(&self, command: &mut Command) -> Result<Output, String> {
        let name = self.script.display();
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{name}: {error}"))?;
        if output.status.success() {
            return Ok(output);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or_default();
        Err(format!("{name}: {}: {last}", output.status))
    }

    pub(super) fn start(&self, place: &Place) -> Result<Box<dyn Server>, String> {
        let config = place.directory.join(CONFIG);
        let made = std::fs::create_dir_all(&config);
        made.map_err(|error| format!("{}: {error}", config.display()))?;
        let log = create(&place.directory.join("adapter.log"))?;
        let mut command = place.command(&self.script);
        environment(command.arg("start"), place);
        let errors = log.try_clone().map_err(|error| format!("adapter.log: {error}"))?;
        command.stdout(log).stderr(errors);
        let mut process = Process::start("adapter", &mut command)?;
        let pid = process.child().id();
        Ok(Box::new(Running { adapter: self.clone(), place: place.clone(), process, pid }))
    }
}

/// What a script is told.
fn environment(command: &mut Command, place: &Place) {
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

struct Running {
    adapter: Adapter,
    place: Place,
    process: Process,
    pid: u32,
}

impl Server for Running {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn files(&self) -> Vec<ConfigFile> {
        let mut files = config_files(&self.place.directory.join(CONFIG));
        let script = std::fs::read_to_string(&self.adapter.script).unwrap_or_default();
        let name = self.adapter.script.display().to_string();
        files.push(ConfigFile { name, text: script });
        files
    }

    fn flush(&mut self) -> Result<(), String> {
        let mut command = Command::new(&self.adapter.script);
        environment(command.arg("flush"), &self.place);
        self.adapter.run(&mut command).map(drop)
    }

    fn stop(self: Box<Self>) -> Result<Farewell, String> {
        tree::stop(self.process, self.pid, STOP_MAX).map(|()| Farewell::default())
    }

    fn kill(mut self: Box<Self>) -> Result<(), String> {
        self.process.check_running()?;
        tree::kill(self.pid);
        Ok(())
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
            (adapter.name.as_str(), adapter.script().to_string()),
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
        assert!(adapter.version().expect_err("absent").contains("/nonexistent/script"));
        let adapter: Adapter = "x=/bin/false".parse().expect("good");
        assert!(adapter.version().expect_err("refuses").contains("exit status: 1"));
        let adapter: Adapter = "x=/bin/true".parse().expect("good");
        assert!(adapter.version().expect_err("silent").contains("prints nothing"));
    }
}
