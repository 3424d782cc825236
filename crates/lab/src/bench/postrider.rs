//! Postrider itself.

use super::report::ConfigFile;
use super::scenario::{Egress, domain};
use super::server::{Farewell, Place, Server};
use load::process::{Process, create};
use load::tree;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// It may take so long to end.
const STOP_MAX: Duration = Duration::from_secs(30);
/// And so long to tell its metrics.
const METRICS_MAX: Duration = Duration::from_secs(5);

const CONFIG: &str = "postrider.toml";
/// Connections to the next hop.
pub(super) const CONNECTIONS_MAX: u32 = 50;

struct Postrider {
    process: Process,
    pid: u32,
    admin: String,
    control: [PathBuf; 2],
    counts_syncs: bool,
    files: Vec<ConfigFile>,
}

/// What the program says of itself.
pub(super) fn version(program: &Path) -> Result<String, String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            format!("{}: {error}; build it, or name it with --postrider", program.display())
        })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(super) fn start(
    place: &Place,
    durability: &str,
    in_flight: u32,
) -> Result<Box<dyn Server>, String> {
    let file = place.write(CONFIG, &config(place, durability, in_flight))?;
    let mut command = place.command(&place.postrider);
    command.args(["serve", "--config", CONFIG]).current_dir(&place.directory);
    command.stdout(Stdio::null()).stderr(create(&place.directory.join("postrider.log"))?);
    let mut process = Process::start("postrider", &mut command)?;
    Ok(Box::new(Postrider {
        pid: process.child().id(),
        process,
        admin: format!("127.0.0.1:{}", place.admin_port),
        control: [place.postrider.clone(), place.directory.join(CONFIG)],
        counts_syncs: durability == "sync",
        files: vec![file],
    }))
}

fn config(place: &Place, durability: &str, in_flight: u32) -> String {
    let (directory, sink) = (place.directory.display(), &place.sink);
    let (address, admin) = (place.address(), place.admin_port);
    // The directory's path may be too long for a socket: whoever runs this chooses it.
    let control = std::env::temp_dir().join(format!("postrider-bench-{}.sock", place.port));
    let control = control.display();
    let in_flight = match in_flight {
        1 => String::new(),
        more => format!(", unasked_content = true, transactions_in_flight = {more}"),
    };
    let route = |domains: &str, connections: u32| {
        format!(
            "[[route]]\n{domains}smtp = {{ hosts = [\"{sink}\"], tls = \"off\", \
             max_connections = {connections}{in_flight} }}\n\n"
        )
    };
    let routes: String = match place.egress {
        Egress::Usual => route("", CONNECTIONS_MAX),
        Egress::Limited(connections) => route("", connections),
        Egress::Routes { domains, connections } => (1..=domains)
            .map(|number| route(&format!("domains = [\"{}\"]\n", domain(number)), connections))
            .collect(),
    };
    format!(
        r#"hostname = "relay.bench.grey"

[spool]
path = "{directory}/spool"
durability = "{durability}"

[[listener]]
name = "bench"
address = "{address}"
relay_from = ["127.0.0.0/8"]

{routes}[admin]
address = "127.0.0.1:{admin}"
control = "{control}"
"#
    )
}

impl Server for Postrider {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.files.clone()
    }

    fn sync_count(&mut self) -> Option<u64> {
        if !self.counts_syncs {
            return Some(0);
        }
        // One fdatasync for each batch (docs/metrics.md).
        metric(&self.admin, "postrider_spool_commits_total")
    }

    fn flush(&mut self) -> Result<(), String> {
        let [program, config] = &self.control;
        let mut command = Command::new(program);
        command.args(["queue", "retry", "--all", "--config"]).arg(config);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("postrider queue retry: {}: {}", output.status, errors.trim()))
    }

    fn stop(self: Box<Self>) -> Result<Farewell, String> {
        let status = self.process.stop(STOP_MAX)?;
        if !status.success() {
            return Err(format!("postrider: {status}"));
        }
        Ok(Farewell::default())
    }

    fn kill(mut self: Box<Self>) -> Result<(), String> {
        self.process.check_running()?;
        tree::kill(self.pid);
        Ok(())
    }
}

/// The value of a metric without labels.
fn metric(admin: &str, name: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(METRICS_MAX)).ok()?;
    // By the server's own name: it answers no other.
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {admin}\r\n\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    value_of(&text, name)
}

fn value_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::value_of;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP x_total y\nx_total_more 3\nx_total 17\r\n";
        assert_eq!(value_of(text, "x_total"), Some(17));
        assert_eq!(value_of(text, "x"), None);
    }
}
