//! Postrider itself.

mod mail;
mod providers;
mod submission;
mod x400;

use super::{DOMAIN, make_key};
use crate::stand::contender::{Contender, Durability};
use crate::stand::directory::{Lookup, slapd};
use crate::stand::egress::{Egress, domain};
use crate::stand::error::{Error, Result};
use crate::stand::place::{ConfigFile, ServerSetup};
use crate::stand::server::{ExitReport, MainProcess, Server};
use crate::stand::system;
use crate::stand::ways::{Protocol, Ways};
use auth::dkim::Algorithm;
use load::file;
use load::process::ProcessError;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use submission::Submission;

/// It may take so long to end.
const STOP_MAX: Duration = Duration::from_secs(30);
/// And so long to tell its metrics.
const METRICS_MAX: Duration = Duration::from_secs(5);

const CONFIG: &str = "postrider.toml";
/// Connections to the next hop.
const CONNECTIONS_MAX: u32 = 50;

struct PostriderServer {
    process: MainProcess,
    admin: String,
    control: [PathBuf; 2],
    counts_syncs: bool,
    /// So many users must be in its copy of a directory, if it keeps one.
    users_to_copy: Option<u64>,
    files: Vec<ConfigFile>,
}

/// The contender, in one of its forms.
#[derive(Debug)]
pub(crate) struct Postrider {
    name: &'static str,
    durability: &'static str,
    /// Transactions in flight on one connection.
    in_flight: u32,
    /// Passwords are guessed at a submission listener meanwhile.
    is_guessed: bool,
    /// All that it relays gets a signature by each of these.
    signs_by: &'static [Algorithm],
    /// It knows providers, sources and tenants.
    is_shaped: bool,
    /// Of one that keeps mail.
    lookup: Option<Lookup>,
    /// Where X.400 is spoken, it speaks this alone.
    protocol: Option<Protocol>,
}

impl Postrider {
    /// With this durability, one transaction at a time.
    pub(crate) fn durable(name: &'static str, durability: &'static str) -> Postrider {
        Postrider {
            name,
            durability,
            in_flight: 1,
            is_guessed: false,
            signs_by: &[],
            is_shaped: false,
            lookup: None,
            protocol: None,
        }
    }

    /// One that speaks this in and out wherever X.400 is spoken: what other ways are held against.
    pub(crate) fn all_by(name: &'static str, protocol: Protocol) -> Postrider {
        Postrider { protocol: Some(protocol), ..Postrider::durable(name, "sync") }
    }

    /// Whether nothing distinguishes it but its durability.
    fn is_plain(&self) -> bool {
        let only_relays = self.lookup.is_none() && !self.is_guessed && !self.is_shaped;
        only_relays && self.signs_by.is_empty() && self.in_flight == 1
    }

    /// With so many transactions in flight on one connection.
    pub(crate) fn in_flight(name: &'static str, in_flight: u32) -> Postrider {
        Postrider { in_flight, ..Postrider::durable(name, "sync") }
    }

    /// One that signs.
    pub(crate) fn signing(name: &'static str, signs_by: &'static [Algorithm]) -> Postrider {
        Postrider { signs_by, ..Postrider::durable(name, "sync") }
    }

    /// One that shapes what it sends to many.
    pub(crate) fn shaping(name: &'static str) -> Postrider {
        Postrider { is_shaped: true, ..Postrider::durable(name, "sync") }
    }

    /// One at which passwords are guessed while it relays.
    pub(crate) fn guessed(name: &'static str) -> Postrider {
        Postrider { is_guessed: true, ..Postrider::durable(name, "sync") }
    }

    /// One that keeps mail for users whom it looks up there.
    pub(crate) fn keeping_mail(name: &'static str, lookup: Lookup) -> Postrider {
        Postrider { lookup: Some(lookup), ..Postrider::durable(name, "sync") }
    }

    fn routes(&self, place: &ServerSetup) -> Result<String> {
        match (self.lookup, place.egress) {
            (Some(lookup), _) => mail::routes(place, lookup),
            (None, Egress::Providers(providers)) => {
                providers::sections(place, providers, self.is_shaped)
            }
            (None, _) if self.protocol.is_some() || !place.ways.is_mail() => {
                Ok(x400::sections(place))
            }
            (None, egress) => {
                Ok(self.signers(place)? + &relay_routes(place, egress, self.in_flight))
            }
        }
    }

    /// What is in front of the routes: of the listener, whose section ends there, and those who sign.
    fn signers(&self, place: &ServerSetup) -> Result<String> {
        // What nobody signs is refused: a run that relays mail bare shows it.
        let mut text =
            if self.signs_by.is_empty() { "" } else { "unsigned = \"refuse\"\n\n" }.to_owned();
        for (number, algorithm) in self.signs_by.iter().enumerate() {
            let key = make_key(place, &format!("s{number}.pem"), *algorithm)?;
            text += &format!(
                "[[signer]]\ndomains = [\"*\"]\nsign_as = \"{DOMAIN}\"\nselector = \"s{number}\"\nkey = \"{key}\"\n\n"
            );
        }
        Ok(text)
    }
}

impl Contender for Postrider {
    fn name(&self) -> &str {
        self.name
    }

    fn title(&self) -> String {
        let title = format!("Postrider, durability \"{}\"", self.durability);
        if let Some(lookup) = self.lookup {
            return format!("{title}, Maildirs, users in {}", mail::shown(lookup));
        }
        match self.protocol {
            Some(Protocol::Smtp) => return format!("{title}, SMTP in and out"),
            Some(Protocol::P1) => return format!("{title}, P1 in and out"),
            None => {}
        }
        if self.is_guessed {
            return format!("{title}, {} wrong logins a second", submission::GUESSES);
        }
        if !self.signs_by.is_empty() {
            let names: Vec<&str> =
                self.signs_by.iter().map(|algorithm| algorithm.as_str()).collect();
            return format!("{title}, signed by {}", names.join(" and "));
        }
        if self.is_shaped {
            return format!("{title}, with shaping, four sources and tenants");
        }
        match self.in_flight {
            1 => title,
            in_flight => format!("{title}, transactions_in_flight = {in_flight}"),
        }
    }

    fn durability(&self) -> Durability {
        let sentence = match self.durability {
            "sync" => "250 after fdatasync, one for all waiting messages",
            "os" => "written before 250, never synced",
            _ => "250 with the message in memory only",
        };
        Durability { word: self.durability, sentence }
    }

    fn find(&self, postrider: &Path) -> Result<String> {
        if self.lookup.is_some_and(Lookup::is_by_ldap) {
            slapd::find()?;
        }
        version(postrider)
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let users_to_copy = match self.lookup {
            Some(Lookup::Snapshot) => Some(place.mail()?.population.count()),
            _ => None,
        };
        if !self.is_guessed {
            let head = if self.is_shaped { providers::HEAD } else { "" };
            return start(place, self.durability, (head, &self.routes(place)?), users_to_copy);
        }
        let submission = Submission::at_free_port(place)?;
        let sections = submission.sections() + &self.routes(place)?;
        let server = start(place, self.durability, ("", &sections), None)?;
        submission.guess_at(server)
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn ways(&self, wanted: Ways) -> Option<Ways> {
        match self.protocol {
            // Where no X.400 is spoken it is the same as the one without.
            Some(protocol) => (!wanted.is_mail()).then(|| wanted.all_by(protocol)),
            None => (wanted.is_mail() || self.is_plain()).then_some(wanted),
        }
    }

    fn resolves(&self) -> bool {
        self.lookup.is_none()
    }

    fn is_shaped(&self) -> bool {
        self.is_shaped
    }

    fn survives_a_kill(&self) -> bool {
        self.durability != "memory"
    }

    fn duplicates_per_kill(&self) -> u64 {
        1024 + u64::from(CONNECTIONS_MAX * self.in_flight)
    }

    fn lookup(&self) -> Option<Lookup> {
        self.lookup
    }

    fn is_postrider(&self) -> bool {
        true
    }
}

/// What the program says of itself.
fn version(program: &Path) -> Result<String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            let program = program.display();
            let help = "build it, or name it with --postrider";
            Error::Missing(format!("{program}: {error}; {help}"))
        })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn start(
    place: &ServerSetup,
    durability: &str,
    sections: (&str, &str),
    users_to_copy: Option<u64>,
) -> Result<Box<dyn Server>> {
    let file = place.write(CONFIG, &config(place, durability, sections))?;
    let mut command = place.command(&place.postrider);
    command.args(["serve", "--config", CONFIG]).current_dir(&place.directory);
    command.stdout(Stdio::null()).stderr(file::create(&place.directory.join("postrider.log"))?);
    let process = MainProcess::start("postrider", &mut command)?;
    Ok(Box::new(PostriderServer {
        process,
        admin: format!("127.0.0.1:{}", place.admin_port),
        control: [place.postrider.clone(), place.directory.join(CONFIG)],
        counts_syncs: durability == "sync",
        users_to_copy,
        files: vec![file],
    }))
}

/// Everything goes to the next hop.
fn relay_routes(place: &ServerSetup, egress: Egress, in_flight: u32) -> String {
    let sink = &place.sink;
    let tls = if place.encryption.is_some() { "required" } else { "off" };
    let in_flight = match in_flight {
        1 => String::new(),
        more => format!(", unasked_content = true, transactions_in_flight = {more}"),
    };
    let route = |domains: &str, connections: u32| {
        format!(
            "[[route]]\n{domains}smtp = {{ hosts = [\"{sink}\"], tls = \"{tls}\", \
             max_connections = {connections}{in_flight} }}\n\n"
        )
    };
    match egress {
        Egress::Usual | Egress::Providers(_) => route("", CONNECTIONS_MAX),
        Egress::Limited(connections) => route("", connections),
        Egress::Routes { domains, connections } => (1..=domains)
            .map(|number| route(&format!("domains = [\"{}\"]\n", domain(number)), connections))
            .collect(),
    }
}

/// With more keys before the first section, and what follows the listener's keys.
fn config(place: &ServerSetup, durability: &str, (head, sections): (&str, &str)) -> String {
    let directory = place.directory.display();
    let (address, admin) = (place.address(), place.admin_port);
    // The directory's path may be too long for a socket: whoever runs this chooses it.
    let control = std::env::temp_dir().join(format!("postrider-bench-{}.sock", place.port));
    let control = control.display();
    let (certificate, tls) = match &place.encryption {
        Some(encryption) => (encryption.certificate.section(), "starttls"),
        None => (String::new(), "off"),
    };
    let listener = match place.ways.inbound {
        Protocol::Smtp => format!("relay_from = [\"127.0.0.0/8\"]\ntls = \"{tls}\"\n"),
        Protocol::P1 => x400::LISTENER.to_owned(),
    };
    format!(
        r#"hostname = "relay.bench.grey"
{head}
[spool]
path = "{directory}/spool"
durability = "{durability}"

{certificate}[[listener]]
name = "bench"
address = "{address}"
{listener}{sections}[admin]
address = "127.0.0.1:{admin}"
control = "{control}"
"#
    )
}

impl Server for PostriderServer {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn files(&self) -> Vec<ConfigFile> {
        self.files.clone()
    }

    fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let Some(users) = self.users_to_copy else { return Ok(()) };
        let [program, config] = self.control.clone();
        mail::wait_for_copy(users, || {
            self.process.check_running()?;
            let mut list = Command::new(&program);
            system::run(list.args(["table", "list", "--json", "--config"]).arg(&config))
        })
    }

    fn sync_count(&mut self) -> Option<u64> {
        if !self.counts_syncs {
            return Some(0);
        }
        // One fdatasync for each batch (docs/metrics.md).
        metric(&self.admin, "postrider_spool_commits_total")
    }

    fn flush(&mut self) -> Result<()> {
        let [program, config] = &self.control;
        let mut command = Command::new(program);
        command.args(["queue", "retry", "--all", "--config"]).arg(config);
        system::run(&mut command).map(drop)
    }

    fn stop(self: Box<Self>) -> Result<ExitReport> {
        let status = self.process.end(STOP_MAX)?;
        if !status.success() {
            return Err(ProcessError::Ended("postrider", status).into());
        }
        Ok(ExitReport::default())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.process.kill()
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
