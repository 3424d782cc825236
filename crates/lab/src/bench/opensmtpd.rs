//! OpenSMTPD. Where it keeps its queue and its control socket is compiled in, so it runs in a mount
//! namespace in which those places lie in a directory of its own. It looks names up in `/etc/hosts`
//! alone.

use super::report::ConfigFile;
use super::server::{Farewell, Place, Server};
use load::process::{Process, create};
use load::tree;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const STOP_MAX: Duration = Duration::from_secs(30);

const CONFIG: &str = "smtpd.conf";

/// In the namespace; `$0` is the server's directory.
const SCRIPT: &str = r#"
mount --bind "$0/spool" /var/spool && mount --bind "$0/run" /run &&
mount --bind "$0/resolv.conf" /etc/resolv.conf && exec smtpd -d -f "$0/smtpd.conf"
"#;

struct OpenSmtpd {
    process: Process,
    pid: u32,
    files: Vec<ConfigFile>,
}

/// Its version, if it is installed and may be started.
pub(super) fn version() -> Result<String, String> {
    let missing = || "not installed (Debian: package opensmtpd, which replaces postfix)".to_owned();
    let output = Command::new("smtpd").arg("-h").stdin(Stdio::null()).output();
    let output = output.map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let version = text.lines().find_map(|line| line.strip_prefix("version: "));
    let version = version.ok_or_else(missing)?;
    if !rustix::process::geteuid().is_root() {
        return Err("it must be started as root, and this is not root".to_owned());
    }
    Ok(version.trim().to_owned())
}

fn config(place: &Place) -> String {
    let (port, sink) = (place.port, &place.sink);
    format!(
        "listen on 127.0.0.1 port {port} hostname relay.bench.grey
action \"out\" relay host smtp://{sink}
match from any for any action \"out\"
"
    )
}

pub(super) fn start(place: &Place) -> Result<Box<dyn Server>, String> {
    let directory = &place.directory;
    for name in ["spool", "run"] {
        std::fs::create_dir_all(directory.join(name))
            .map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let files =
        vec![place.write(CONFIG, &config(place))?, place.write("resolv.conf", "lookup file\n")?];
    let mut command = place.command(Path::new("unshare"));
    command.args(["-m", "/bin/sh", "-c", SCRIPT]).arg(directory);
    command.stdout(Stdio::null()).stderr(create(&directory.join("smtpd.log"))?);
    let mut process = Process::start("smtpd", &mut command)?;
    Ok(Box::new(OpenSmtpd { pid: process.child().id(), process, files }))
}

impl Server for OpenSmtpd {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.files.clone()
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
