//! OpenSMTPD. Where it keeps its queue and its control socket is compiled in, so it runs in a mount
//! namespace in which those places lie in a directory of its own. It looks names up in `/etc/hosts`
//! alone.

use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::error::{Error, Result};
use crate::stand::place::ServerSetup;
use crate::stand::server::{Daemon, MainProcess, Server};
use load::file;
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

/// The contender.
#[derive(Debug)]
pub(crate) struct OpenSmtpd;

impl Contender for OpenSmtpd {
    fn name(&self) -> &str {
        "opensmtpd"
    }

    fn title(&self) -> String {
        "OpenSMTPD".to_owned()
    }

    fn durability(&self) -> Durability {
        let sentence = "its default; the syncs are not verified";
        Durability { word: "unknown", sentence }
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
    let missing = || {
        let text = "not installed (Debian: package opensmtpd, which replaces postfix)";
        Error::Missing(text.to_owned())
    };
    let output = Command::new("smtpd").arg("-h").stdin(Stdio::null()).output();
    let output = output.map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let version = text.lines().find_map(|line| line.strip_prefix("version: "));
    let version = version.ok_or_else(missing)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing("it must be started as root, and this is not root".to_owned()));
    }
    Ok(version.trim().to_owned())
}

fn config(place: &ServerSetup) -> String {
    let (port, sink) = (place.port, &place.sink);
    format!(
        "listen on 127.0.0.1 port {port} hostname relay.bench.grey
action \"out\" relay host smtp://{sink}
match from any for any action \"out\"
"
    )
}

fn start(place: &ServerSetup) -> Result<Box<dyn Server>> {
    let directory = &place.directory;
    for name in ["spool", "run"] {
        file::create_directory(&directory.join(name))?;
    }
    let files =
        vec![place.write(CONFIG, &config(place))?, place.write("resolv.conf", "lookup file\n")?];
    let mut command = place.command(Path::new("unshare"));
    command.args(["-m", "/bin/sh", "-c", SCRIPT]).arg(directory);
    command.stdout(Stdio::null()).stderr(file::create(&directory.join("smtpd.log"))?);
    let process = MainProcess::start("smtpd", &mut command)?;
    Ok(Box::new(Daemon { process, files, stop_max: STOP_MAX }))
}
