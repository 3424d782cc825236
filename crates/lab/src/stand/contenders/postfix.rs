//! Postfix, with a configuration and a queue of its own, tuned as the Mailismus comparison has it:
//! process limit 300, concurrency 250, no DNS.

use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::error::{Error, Result};
use crate::stand::place::{ConfigFile, ServerSetup};
use crate::stand::server::{ExitReport, MainProcess, Server};
use crate::stand::system;
use load::file::{self, FileError};
use load::on_panic::OnPanic;
use load::tree;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Services that it needs to encrypt.
const TLS_SERVICES: &str = "tlsmgr unix - - n 1000? 1 tlsmgr\ntlsproxy unix - - n - 0 tlsproxy\n";

const POSTFIX: &str = "/usr/sbin/postfix";

const STOP_MAX: Duration = Duration::from_secs(30);

struct PostfixServer {
    pid: u32,
    /// The process that all descend from, where something runs beside it.
    _wrapper: Option<MainProcess>,
    /// Until it has ended. It is no child of ours: nothing else ends it when a run is broken off.
    running: Option<OnPanic>,
    config: PathBuf,
    files: Vec<ConfigFile>,
    /// Removed last.
    _short: ShortName,
}

/// A short name of a directory: Postfix's sockets are below its queue directory, and a socket's path
/// has 107 bytes at most (unix(7)), fewer than the directory of a run may have.
struct ShortName(PathBuf);

impl ShortName {
    /// The one of a server's directory, which nothing leads to yet.
    fn of(place: &ServerSetup) -> PathBuf {
        std::env::temp_dir().join(format!("postfix-bench-{}", place.port))
    }

    fn make(place: &ServerSetup) -> Result<ShortName> {
        let name = ShortName::of(place);
        // Of a run on the same port that was killed.
        let _ = std::fs::remove_file(&name);
        symlink(&place.directory, &name).map_err(FileError::at(&name))?;
        Ok(ShortName(name))
    }
}

impl Drop for ShortName {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The contender.
#[derive(Debug)]
pub(crate) struct Postfix;

impl Contender for Postfix {
    fn name(&self) -> &str {
        "postfix"
    }

    fn title(&self) -> String {
        "Postfix".to_owned()
    }

    fn durability(&self) -> Durability {
        Durability { word: "sync", sentence: "250 after fsync of the message's own file" }
    }

    fn find(&self, _: &Path) -> Result<String> {
        version()
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let tls_services = match &place.encryption {
            Some(_) => TLS_SERVICES,
            None => "",
        };
        start(place, &(relay_cf(place) + &tls_cf(place)), tls_services, "")
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn rough_rates(&self) -> RoughRates {
        RoughRates { messages: 300.0, bytes: 30e6 }
    }
}

/// Its version, if it is installed and may be started.
fn version() -> Result<String> {
    let output =
        Command::new("postconf").args(["-d", "-h", "mail_version"]).stdin(Stdio::null()).output();
    let output =
        output.map_err(|_| Error::Missing("not installed (Debian: package postfix)".to_owned()))?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing("it must be started as root, and this is not root".to_owned()));
    }
    Ok(format!("Postfix {}", String::from_utf8_lossy(&output.stdout).trim()))
}

/// What a Postfix of ours has in `main.cf`, whatever it does with mail.
fn main_cf(place: &ServerSetup) -> String {
    let directory = place.directory.display();
    let short = ShortName::of(place);
    let short = short.display();
    format!(
        "compatibility_level = 3.6
queue_directory = {short}/queue
data_directory = {directory}/data
daemon_directory = /usr/lib/postfix/sbin
command_directory = /usr/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = relay.bench.grey
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_client_connection_count_limit = 0
default_process_limit = 300
disable_dns_lookups = yes
maillog_file = {directory}/postfix.log
maillog_file_prefixes = {directory}
alias_maps =
alias_database =
"
    )
}

/// What a relay has there besides.
pub(super) fn relay_cf(place: &ServerSetup) -> String {
    let (host, port) = place.next_hop();
    let concurrency = place.egress.in_sum().unwrap_or(250);
    // Its own default is 5.
    let initial = concurrency.min(5);
    format!(
        "default_destination_concurrency_limit = {concurrency}
initial_destination_concurrency = {initial}
relayhost = [{host}]:{port}
"
    )
}

/// What it has there if mail is encrypted. Sessions are resumed by tickets where mail comes in, by a
/// cache where it goes out; a resumed one is what a sink without tickets never grants.
fn tls_cf(place: &ServerSetup) -> String {
    let Some(encryption) = &place.encryption else { return String::new() };
    let (chain, key) =
        (encryption.certificate.chain.display(), encryption.certificate.key.display());
    format!(
        "smtpd_tls_cert_file = {chain}
smtpd_tls_key_file = {key}
smtpd_tls_security_level = may
smtp_tls_security_level = encrypt
smtp_tls_session_cache_database = btree:${{data_directory}}/smtp_scache
"
    )
}

fn master_cf(place: &ServerSetup) -> String {
    let port = place.port;
    format!(
        "{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"
    )
}

/// Starts one with more in its `main.cf` and `master.cf` than all have, and with kinds of tables that
/// it loads.
pub(super) fn start(
    place: &ServerSetup,
    main: &str,
    master: &str,
    dynamic_maps: &str,
) -> Result<Box<dyn Server>> {
    let (short, files) = prepare(place, main, master, dynamic_maps)?;
    let config = place.directory.join("config");
    run(place.command(Path::new(POSTFIX)), &config, &["start"])?;
    let pid = wait_for_pid(&place.directory.join("queue/pid/master.pid"))?;
    Ok(PostfixServer::new(pid, None, config, (short, files)))
}

/// Starts one with a program beside it whose time counts as its own: both descend from a shell, which ends the
/// program when Postfix has ended.
pub(super) fn start_beside(
    place: &ServerSetup,
    main: &str,
    program: [&str; 4],
) -> Result<Box<dyn Server>> {
    let (short, files) = prepare(place, main, "", "")?;
    let config = place.directory.join("config");
    let script =
        "config=$1; shift; \"$@\" & beside=$!; \"$0\" -c \"$config\" start-fg; kill $beside; wait";
    let mut command = place.command(Path::new("/bin/sh"));
    command.args(["-c", script, POSTFIX]).arg(&config).args(program).stdin(Stdio::null());
    let log = file::create(&place.directory.join("beside.log"))?;
    let output = log.try_clone().map_err(FileError::at(&config))?;
    let wrapper = MainProcess::start("postfix", command.stdout(output).stderr(log))?;
    wait_for_pid(&place.directory.join("queue/pid/master.pid"))?;
    Ok(PostfixServer::new(wrapper.pid(), Some(wrapper), config, (short, files)))
}

/// Its directories and files.
fn prepare(
    place: &ServerSetup,
    main: &str,
    master: &str,
    dynamic_maps: &str,
) -> Result<(ShortName, Vec<ConfigFile>)> {
    let directory = &place.directory;
    let short = ShortName::make(place)?;
    for name in ["queue", "data", "config"] {
        file::create_directory(&directory.join(name))?;
    }
    system::run(Command::new("chown").arg("postfix").arg(directory.join("data")))?;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory, open).map_err(FileError::at(directory))?;
    let files = vec![
        place.write("config/main.cf", &(main_cf(place) + main))?,
        place.write("config/master.cf", &(master_cf(place) + master))?,
    ];
    place.write("config/dynamicmaps.cf", dynamic_maps)?;
    Ok((short, files))
}

/// One of Postfix's own commands.
fn run(mut command: Command, config: &Path, arguments: &[&str]) -> Result<()> {
    system::run(command.arg("-c").arg(config).args(arguments)).map(drop)
}

fn wait_for_pid(file: &Path) -> Result<u32> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Ok(pid) = text.trim().parse()
            && !tree::members(pid).is_empty()
        {
            return Ok(pid);
        }
        if begun.elapsed() > STOP_MAX {
            return Err(Error::Server(format!("{}: no process", file.display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl PostfixServer {
    fn new(
        pid: u32,
        wrapper: Option<MainProcess>,
        config: PathBuf,
        (short, files): (ShortName, Vec<ConfigFile>),
    ) -> Box<PostfixServer> {
        let running = Some(OnPanic::new(move || tree::kill(pid)));
        Box::new(PostfixServer { pid, _wrapper: wrapper, running, config, files, _short: short })
    }
}

impl Server for PostfixServer {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.files.clone()
    }

    fn check_running(&mut self) -> Result<()> {
        if tree::members(self.pid).is_empty() {
            return Err(Error::Server("postfix: it has ended".to_owned()));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        run(Command::new("postqueue"), &self.config, &["-f"])
    }

    fn stop(mut self: Box<Self>) -> Result<ExitReport> {
        run(Command::new("postfix"), &self.config, &["stop"])?;
        self.running = None;
        // What ran beside it.
        tree::kill(self.pid);
        Ok(ExitReport::default())
    }

    fn kill(mut self: Box<Self>) -> Result<()> {
        self.running = None;
        self.check_running()?;
        tree::kill(self.pid);
        Ok(())
    }
}

impl Drop for PostfixServer {
    fn drop(&mut self) {
        if self.running.is_some() {
            tree::kill(self.pid);
        }
    }
}
