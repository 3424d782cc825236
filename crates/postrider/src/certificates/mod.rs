//! The certificates of this server: read, chosen for each client, and read anew when their files
//! change.

mod choice;
mod clients;
mod expiry;

use crate::acme::store;
use crate::console::ConsoleLog;
use crate::crypto;
use crate::file_stamp::{Looks, Seen, Stamp};
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::pem;
use crate::services::{Adoption, Next, Service};
use crate::under_way::UnderWay;
use crate::world::clock::wall_now;
use choice::{Choice, Shown};
use clients::Asked;
pub(crate) use clients::Judge;
use config::{Certificate, ClientCertificates, Config, Problem};
use expiry::Expiry;
use mta::console::{Console, Level};
use mta::problems::{Found, Moment, ProblemKind};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Those in force, for all shards.
#[derive(Debug)]
pub(crate) struct Certificates {
    state: Mutex<State>,
    /// Each session asks for it, on all shards.
    is_any: AtomicBool,
    console: Arc<ConsoleLog>,
    /// Looks at their files.
    pub(crate) under_way: UnderWay,
}

#[derive(Debug, Default)]
struct State {
    servers: Servers,
    /// `None`: no configuration has been adopted.
    configured: Option<Configured>,
    stamps: Vec<Stamp>,
    expiries: Vec<Expiry>,
    /// Files with ordered certificates that are of no use or not there yet, each with a sentence.
    left_out: BTreeMap<PathBuf, String>,
    /// So long before its end a certificate is told of.
    warning: Duration,
    /// Why files that have changed are not used.
    unread: Option<String>,
}

/// What the configuration says of certificates.
#[derive(Clone, Debug, Default, PartialEq)]
struct Configured {
    certificates: Vec<Certificate>,
    /// How listeners ask clients for theirs.
    asked: BTreeSet<Asked>,
}

impl Configured {
    fn of(config: &Config) -> Configured {
        let asked = config.listeners.iter().filter_map(|one| one.client_certificates.as_deref());
        Configured {
            certificates: config.certificates.clone(),
            asked: asked.map(Asked::new).collect(),
        }
    }
}

/// What handshakes begin with.
#[derive(Clone, Debug, Default)]
struct Servers {
    /// `None`: there is no certificate.
    plain: Option<Door>,
    asking: BTreeMap<Asked, Door>,
}

/// What a handshake with a client begins with.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) config: Arc<ServerConfig>,
    /// Of the client's certificate, if it is asked for one.
    pub(crate) judge: Option<Arc<Judge>>,
}

impl State {
    fn take(&mut self, read: Read) {
        let Read { servers, stamps, mut expiries, left_out } = read;
        self.left_out = left_out;
        for expiry in &mut expiries {
            self.expiries.iter().for_each(|before| expiry.remember(before));
        }
        (self.servers, self.stamps, self.expiries) = (servers, stamps, expiries);
    }
}

/// Certificates as they were read, with the files that they come from.
struct Read {
    servers: Servers,
    stamps: Vec<Stamp>,
    expiries: Vec<Expiry>,
    left_out: BTreeMap<PathBuf, String>,
}

impl Certificates {
    /// None, before a configuration is adopted.
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> Arc<Certificates> {
        let (state, is_any, under_way) = Default::default();
        let console = Arc::clone(console);
        Arc::new(Certificates { state, is_any, console, under_way })
    }

    /// Looks at their files from now on.
    pub(crate) fn watch(self: &Arc<Certificates>, watch: &FileWatch) {
        let mut looks = Looks::default();
        watch.follow(self, move |these| these.look(&mut looks));
    }

    /// Takes those of another configuration; connections that are open go on as they are.
    fn adopt(&self, config: &Config, read: Read) {
        let mut state = lock(&self.state);
        self.is_any.store(read.servers.plain.is_some(), Ordering::Relaxed);
        state.take(read);
        state.warning = config.tls.expiry_warning;
        state.configured = Some(Configured::of(config));
    }

    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// What a client's handshake begins with, who is asked for a certificate or not. `None`: there is no
    /// certificate of ours.
    pub(crate) fn door(&self, asked: Option<&ClientCertificates>) -> Option<Door> {
        let servers = &lock(&self.state).servers;
        match asked {
            None => servers.plain.clone(),
            Some(asked) => servers.asking.get(&Asked::new(asked)).cloned(),
        }
    }

    /// None at all.
    #[cfg(test)]
    pub(crate) fn none() -> Arc<Certificates> {
        Certificates::new(&Arc::new(ConsoleLog::stderr(mta::console::Level::Error)))
    }

    /// Looks at the files, and reads them when they have changed.
    fn look(&self, looks: &mut Looks) {
        let stamps = lock(&self.state).stamps.clone();
        let work = self.under_way.begin("a file of certificates");
        if looks.find_change(&stamps) {
            self.read_anew();
        } else if looks.is_same() {
            // What could not be used is gone, and what is in use is there again.
            lock(&self.state).unread = None;
        }
        drop(work);
        self.tell_expiries();
    }

    /// Warns of what ends soon.
    fn tell_expiries(&self) {
        let now = wall_now();
        let mut state = lock(&self.state);
        let warning = state.warning;
        let due: Vec<String> =
            state.expiries.iter_mut().filter_map(|expiry| expiry.due(now, warning)).collect();
        drop(state);
        let console: &dyn Console = &*self.console;
        for text in due {
            console.warn("tls", format_args!("{text}"));
        }
    }

    /// Reads all anew, as the files are now.
    pub(crate) fn read_anew(&self) {
        let Some(configured) = lock(&self.state).configured.clone() else { return };
        let console: &dyn Console = &*self.console;
        match read_configured(&configured, &mut Err) {
            Ok(read) => {
                let mut state = lock(&self.state);
                // A reload may have come in between.
                if state.configured.as_ref() == Some(&configured) {
                    self.is_any.store(read.servers.plain.is_some(), Ordering::Relaxed);
                    state.take(read);
                    state.unread = None;
                    console.info("tls", format_args!("certificates read anew"));
                }
            }
            Err(all) => {
                let why: Vec<_> = all.iter().map(ToString::to_string).collect();
                let why = why.join("; ");
                let text = format!("certificates stay as they were: {why}");
                console.error("tls", format_args!("{text}"));
                lock(&self.state).unread = Some(text);
            }
        }
    }
}

/// Those that end soon, have ended, or can't be read.
impl ProblemKind for Certificates {
    fn name(&self) -> &'static str {
        "certificate"
    }

    fn find(&self, now: Moment, found: &mut dyn FnMut(Found)) {
        // Nobody holds it while a file is read.
        let state = lock(&self.state);
        let ends = state.expiries.iter().filter_map(|one| one.problem(now.wall, state.warning));
        ends.for_each(&mut *found);
        for (path, why) in &state.left_out {
            let one = Found::warning(path.display().to_string(), why.clone());
            found(
                one.next_step("one is ordered; lines of `acme` on the console say how that goes"),
            );
        }
        if let Some(why) = &state.unread {
            found(Found::warning("", why.clone()).next_step("mend the file"));
        }
    }

    fn has_own_lines(&self) -> bool {
        true
    }
}

impl Service for Arc<Certificates> {
    fn name(&self) -> &'static str {
        "certificates"
    }

    fn prepare(&self, next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        // What is ordered keeps no server from starting: another one is ordered in its place.
        let mut leave_out = |why| {
            self.console.line(Level::Warn, "tls", format_args!("left out: {why}"));
            Ok(())
        };
        let is_first = lock(&self.state).configured.is_none();
        let unusable: &mut Unusable<'_> = if is_first { &mut leave_out } else { &mut Err };
        let read = read_configured(&Configured::of(next.config), unusable);
        let read =
            read.map_err(|all| all.iter().map(|one| one.placed(next.config)).collect::<Vec<_>>())?;
        let (this, config) = (Arc::clone(self), Arc::clone(next.config));
        Ok(Box::new(move || this.adopt(&config, read)))
    }
}

/// Whether an ordered certificate that can't be used is a mistake, or left out.
type Unusable<'a> = dyn FnMut(Wrong) -> Result<(), Wrong> + 'a;

/// What can't be used, and why.
#[derive(Debug)]
enum Wrong {
    /// The certificate of this line.
    Certificate(u32, String),
    /// What clients' certificates are judged by.
    Clients(Option<Asked>, String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Certificate(line, why) => write!(f, "certificate of line {line}: {why}"),
            Wrong::Clients(_, why) => f.write_str(why),
        }
    }
}

impl Wrong {
    /// With its place in the file.
    fn placed(&self, config: &Config) -> Problem {
        match self {
            Wrong::Certificate(line, why) => {
                // Behind the semicolon stands what to do about it.
                let (what, help) = why.split_once("; ").unzip();
                let what = what.unwrap_or(why);
                let mistake = config.mistake_in("certificate", *line, "chain", what);
                Problem { help: help.map(str::to_owned), ..mistake }
            }
            Wrong::Clients(asked, why) => {
                let asks = |one: &Arc<config::Listener>| {
                    one.client_certificates.as_deref().map(Asked::new) == *asked
                };
                let index = config.listeners.iter().position(asks).unwrap_or(0);
                let key = format!("listener[{index}].client_certificates");
                config.mistake_at(&key, why.as_str())
            }
        }
    }
}

/// Of those that are ordered some may not have come yet. One that can't be used may be left out: `unusable`
/// decides.
fn read_configured(
    configured: &Configured,
    unusable: &mut Unusable<'_>,
) -> Result<Read, Vec<Wrong>> {
    let Configured { certificates, asked } = configured;
    let mut stamps = Vec::with_capacity(2 * certificates.len());
    let mut shown = Vec::with_capacity(certificates.len());
    let mut expiries = Vec::with_capacity(certificates.len());
    let (mut left_out, mut mistakes) = (BTreeMap::new(), Vec::new());
    for certificate in certificates {
        let is_ordered = certificate.ordered.is_some();
        if is_ordered && !certificate.chain.exists() {
            let names = certificate.names.iter().map(ToString::to_string).collect::<Vec<_>>();
            let text = format!("no certificate for {} has come yet", names.join(", "));
            left_out.insert(certificate.chain.clone(), text);
            continue;
        }
        for path in [&certificate.chain, &certificate.key] {
            // Before it is read: what is written in between is noticed then.
            stamps.extend(Seen::at(path).map(|seen| Stamp::new(path, seen)));
        }
        let is_written = match is_ordered {
            true => store::check(&certificate.chain)
                .map_err(|why| format!("{}: {why}", certificate.chain.display())),
            false => Ok(()),
        };
        let read = is_written.and_then(|()| certified(&certificate.chain, &certificate.key));
        let read = read.and_then(|key| {
            let first = key.cert.first().map_or(&[][..], |first| first.as_ref());
            let expiry = Expiry::of(&certificate.chain, first, is_ordered)?;
            Ok((key, expiry))
        });
        match read.map_err(|why| Wrong::Certificate(certificate.line, why)) {
            Ok((key, expiry)) => {
                expiries.push(expiry);
                shown.push(Shown::new(certificate.clone(), key));
            }
            Err(why) if is_ordered => {
                left_out.insert(certificate.chain.clone(), format!("left out: {why}"));
                mistakes.extend(unusable(why).err());
            }
            Err(why) => mistakes.push(why),
        }
    }
    for path in asked.iter().filter_map(Asked::file) {
        stamps.extend(Seen::at(path).map(|seen| Stamp::new(path, seen)));
    }
    let mut servers = Servers::default();
    if !shown.is_empty() {
        let choice = Arc::new(Choice::new(shown));
        let of_clients = |asked: Option<&Asked>| {
            door(&choice, asked).map_err(|why| Wrong::Clients(asked.cloned(), why))
        };
        match of_clients(None) {
            Ok(plain) => servers.plain = Some(plain),
            Err(why) => mistakes.push(why),
        }
        for asked in asked {
            match of_clients(Some(asked)) {
                Ok(door) => _ = servers.asking.insert(asked.clone(), door),
                Err(why) => mistakes.push(why),
            }
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    Ok(Read { servers, stamps, expiries, left_out })
}

/// A chain with its key, which is the one that the certificate has.
fn certified(chain: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let certificates = pem::certificates(chain)?;
    let secret = pem::key(key)?;
    if let Some(first) = certificates.first() {
        expiry::check_version(first.as_ref())
            .map_err(|why| format!("{}: {why}", chain.display()))?;
    }
    let provider = crypto::provider();
    CertifiedKey::from_der(certificates, secret, &provider)
        .map_err(|error| format!("{} with {}: {error}", chain.display(), key.display()))
}

fn door(choice: &Arc<Choice>, asked: Option<&Asked>) -> Result<Door, String> {
    let provider = crypto::provider();
    let judge = asked.map(|asked| asked.judge(&provider)).transpose()?;
    let config = Arc::new(server(choice, judge.clone(), provider)?);
    Ok(Door { config, judge })
}

fn server(
    choice: &Arc<Choice>,
    judge: Option<Arc<Judge>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, String> {
    let unusable = |error: rustls::Error| format!("TLS: {error}");
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match judge {
        Some(judge) => builder.with_client_cert_verifier(judge),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_cert_resolver(Arc::clone(choice) as Arc<dyn ResolvesServerCert>);
    // All suites are good; that the server chooses is what those who audit it look for.
    server.ignore_client_order = true;
    // Sessions are resumed by tickets, whose keys change every six hours: nothing is kept here. Keys are of
    // one door: what a ticket says of a client's certificate is said of those who judge there.
    server.ticketer = Ticketer::new().map_err(unusable)?;
    // One for the next connection: each costs about as much as deriving the keys of a session.
    server.send_tls13_tickets = 1;
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(server)
}
