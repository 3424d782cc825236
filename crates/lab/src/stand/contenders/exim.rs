//! Exim, with a configuration and a spool of its own: no DNS, no callouts, delivery at once.

use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::error::{Error, Result};
use crate::stand::place::{ConfigFile, ServerSetup};
use crate::stand::server::{Daemon, ExitReport, MainProcess, Server};
use crate::stand::system;
use load::file;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const STOP_MAX: Duration = Duration::from_secs(30);

/// Debian's name, then the one that Exim gives itself.
const PROGRAMS: [&str; 2] = ["exim4", "exim"];

const CONFIG: &str = "exim.conf";

struct EximServer {
    daemon: Box<Daemon>,
    program: PathBuf,
    place: ServerSetup,
}

/// The contender.
#[derive(Debug)]
pub(crate) struct Exim;

impl Contender for Exim {
    fn name(&self) -> &str {
        "exim"
    }

    fn title(&self) -> String {
        "Exim".to_owned()
    }

    fn durability(&self) -> Durability {
        Durability { word: "sync", sentence: "250 after fsync of the message's two files" }
    }

    fn find(&self, _: &Path) -> Result<String> {
        version()
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        start(place)
    }

    fn rough_rates(&self) -> RoughRates {
        RoughRates { messages: 300.0, bytes: 30e6 }
    }

    fn limits_connections(&self) -> bool {
        false
    }
}

/// Its version, if it is installed and may be started.
fn version() -> Result<String> {
    let (_, output) = find()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing("it must be started as root, and this is not root".to_owned()));
    }
    let line = output.lines().next().unwrap_or_default();
    Ok(line.split(" #").next().unwrap_or(line).to_owned())
}

/// The program, and what it says of itself.
fn find() -> Result<(PathBuf, String)> {
    for name in PROGRAMS {
        let output = Command::new(name).arg("-bV").stdin(Stdio::null()).output();
        let Ok(output) = output else { continue };
        // It may complain of a configuration that it lacks: it gets one from us.
        let text = String::from_utf8_lossy(&output.stdout);
        if text.starts_with("Exim version") {
            return Ok((PathBuf::from(name), text.into_owned()));
        }
    }
    let missing = "not installed (Debian: package exim4-daemon-light, which replaces postfix)";
    Err(Error::Missing(missing.to_owned()))
}

fn config(place: &ServerSetup) -> String {
    let directory = place.directory.display();
    let (host, sink_port) = place.next_hop();
    let port = place.port;
    format!(
        "primary_hostname = relay.bench.grey
spool_directory = {directory}/spool
log_file_path = {directory}/%slog
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port}
disable_ipv6 = true
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
acl_smtp_rcpt = accept
acl_smtp_data = accept
smtp_accept_max = 300
smtp_accept_queue_per_connection = 0
smtp_connect_backlog = 300
queue_run_max = 50
deliver_drop_privilege = true

begin routers
all:
  driver = manualroute
  transport = out
  route_list = * {host} byname
  self = send

begin transports
out:
  driver = smtp
  port = {sink_port}
  hosts_avoid_tls = *
  allow_localhost

begin retry
* * F,5d,10s
"
    )
}

fn start(place: &ServerSetup) -> Result<Box<dyn Server>> {
    let (program, _) = find()?;
    let directory = &place.directory;
    // Its processes run as a user of its own, who must write here.
    system::run(Command::new("chmod").arg("1777").arg(directory))?;
    let files = vec![place.write(CONFIG, &config(place))?];
    let mut command = place.command(&program);
    // In the foreground; looks through the queue every 10 seconds for what is due.
    command.arg("-C").arg(directory.join(CONFIG)).args(["-bdf", "-q10s"]);
    command.stdout(Stdio::null()).stderr(file::create(&directory.join("exim.log"))?);
    let process = MainProcess::start("exim", &mut command)?;
    let daemon = Box::new(Daemon { process, files, stop_max: STOP_MAX });
    Ok(Box::new(EximServer { daemon, program, place: place.clone() }))
}

impl Server for EximServer {
    fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.daemon.files()
    }

    fn check_running(&mut self) -> Result<()> {
        self.daemon.check_running()
    }

    /// A queue run that tries everything, due or not.
    fn flush(&mut self) -> Result<()> {
        // It goes on for as long as the queue lasts: nobody waits for it.
        let mut command = self.place.command(Path::new("/bin/sh"));
        command.args(["-c", "\"$0\" -C \"$1\" -qff > /dev/null 2>&1 &"]).arg(&self.program);
        command.arg(self.place.directory.join(CONFIG));
        system::run(&mut command).map(drop)
    }

    fn stop(self: Box<Self>) -> Result<ExitReport> {
        self.daemon.stop()
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.daemon.kill()
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerSetup, config};
    use std::path::PathBuf;

    #[test]
    fn the_configuration_has_the_ports_and_the_next_hop() {
        let place = ServerSetup {
            encryption: None,
            directory: PathBuf::from("/x"),
            sink: "198.18.0.1:4025".to_owned(),
            more_sinks: Vec::new(),
            ways: crate::stand::ways::Ways::SMTP,
            port: 2525,
            admin_port: 0,
            postrider: PathBuf::new(),
            egress: crate::stand::egress::Egress::Usual,
            dns: None,
            mail: None,
            group: None,
        };
        let text = config(&place);
        assert!(text.contains("daemon_smtp_ports = 2525\n") && text.contains("  port = 4025\n"));
        assert!(text.contains("route_list = * 198.18.0.1 byname\n"));
    }
}
