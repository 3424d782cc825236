//! The certificates of this server: read, chosen for each client, and read anew when their files
//! change.

mod choice;
mod clients;
mod expiry;

use crate::acme::store;
use crate::console::ConsoleLog;
use crate::crypto;
use crate::file_stamp::{LOOK_EVERY, Looks, Seen, Stamp};
use crate::mutex::lock;
use crate::pem;
use crate::under_way::UnderWay;
use crate::world::clock::wall_now;
use choice::{Choice, Shown};
use clients::Asked;
pub(crate) use clients::Judge;
use config::{Certificate, ClientCertificates, Config};
use expiry::Expiry;
use mta::console::{Console, Level};
use mta::problems::{Found, Moment, ProblemKind};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
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
    configured: Configured,
    stamps: Vec<Stamp>,
    expiries: Vec<Expiry>,
    /// Files with ordered certificates that are of no use or not there yet, each with a sentence.
    left_out: BTreeMap<PathBuf, String>,
    /// So long before its end a certificate is told of.
    warning: Duration,
    is_watched: bool,
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
pub(crate) struct Read {
    servers: Servers,
    stamps: Vec<Stamp>,
    expiries: Vec<Expiry>,
    left_out: BTreeMap<PathBuf, String>,
}

impl Certificates {
    /// Reads those of the configuration.
    ///
    /// # Errors
    /// What is wrong with one of them, in a sentence.
    pub(crate) fn open(
        config: &Config,
        console: &Arc<ConsoleLog>,
    ) -> Result<Arc<Certificates>, String> {
        let certificates = Arc::new(Certificates {
            state: Mutex::default(),
            is_any: AtomicBool::new(false),
            console: Arc::clone(console),
            under_way: UnderWay::default(),
        });
        let configured = Configured::of(config);
        let read = read_configured(&configured, &mut |why| {
            // Another one is ordered in its place.
            certificates.console.line(Level::Warn, "tls", format_args!("left out: {why}"));
            Ok(())
        })?;
        certificates.adopt(config, read)?;
        Ok(certificates)
    }

    /// Takes those of another configuration; connections that are open go on as they are.
    ///
    /// # Errors
    /// When the system gives no thread to watch their files.
    pub(crate) fn adopt(
        self: &Arc<Certificates>,
        config: &Config,
        read: Read,
    ) -> Result<(), String> {
        let mut state = lock(&self.state);
        self.is_any.store(read.servers.plain.is_some(), Ordering::Relaxed);
        state.take(read);
        state.warning = config.tls.expiry_warning;
        state.configured = Configured::of(config);
        if !state.is_watched && !state.configured.certificates.is_empty() {
            self.watch().map_err(|error| format!("cannot start a thread: {error}"))?;
            state.is_watched = true;
        }
        Ok(())
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
        let console = Arc::new(ConsoleLog::stderr(mta::console::Level::Error));
        let (state, under_way) = Default::default();
        Arc::new(Certificates { state, is_any: AtomicBool::new(false), console, under_way })
    }

    fn watch(self: &Arc<Certificates>) -> std::io::Result<()> {
        let this = Arc::downgrade(self);
        thread::Builder::new().name("certificates".to_owned()).spawn(move || look_on(&this))?;
        Ok(())
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
        let configured = lock(&self.state).configured.clone();
        let console: &dyn Console = &*self.console;
        match read_configured(&configured, &mut Err) {
            Ok(read) => {
                let mut state = lock(&self.state);
                // A reload may have come in between.
                if state.configured == configured {
                    self.is_any.store(read.servers.plain.is_some(), Ordering::Relaxed);
                    state.take(read);
                    state.unread = None;
                    console.info("tls", format_args!("certificates read anew"));
                }
            }
            Err(why) => {
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

/// Looks at the files for as long as the certificates live.
fn look_on(certificates: &Weak<Certificates>) {
    let mut looks = Looks::default();
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(certificates) = certificates.upgrade() else { return };
        let stamps = lock(&certificates.state).stamps.clone();
        let work = certificates.under_way.begin("a file of certificates");
        if looks.find_change(&stamps) {
            certificates.read_anew();
        } else if looks.is_same() {
            // What could not be used is gone, and what is in use is there again.
            lock(&certificates.state).unread = None;
        }
        drop(work);
        certificates.tell_expiries();
    }
}

/// Reads certificates and keys.
///
/// # Errors
/// What is wrong with one of them, in a sentence.
pub(crate) fn read(config: &Config) -> Result<Read, String> {
    read_configured(&Configured::of(config), &mut Err)
}

/// Of those that are ordered some may not have come yet. One that can't be used may be left out: `unusable`
/// says so.
fn read_configured(
    configured: &Configured,
    unusable: &mut dyn FnMut(String) -> Result<(), String>,
) -> Result<Read, String> {
    let Configured { certificates, asked } = configured;
    let mut stamps = Vec::with_capacity(2 * certificates.len());
    let mut shown = Vec::with_capacity(certificates.len());
    let mut expiries = Vec::with_capacity(certificates.len());
    let mut left_out = BTreeMap::new();
    for certificate in certificates {
        let sentence = |why| format!("certificate of line {}: {why}", certificate.line);
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
        match read.map_err(sentence) {
            Ok((key, expiry)) => {
                expiries.push(expiry);
                shown.push(Shown::new(certificate.clone(), key));
            }
            Err(why) if is_ordered => {
                left_out.insert(certificate.chain.clone(), format!("left out: {why}"));
                unusable(why)?;
            }
            Err(why) => return Err(why),
        }
    }
    for path in asked.iter().filter_map(Asked::file) {
        stamps.extend(Seen::at(path).map(|seen| Stamp::new(path, seen)));
    }
    let mut servers = Servers::default();
    if !shown.is_empty() {
        let choice = Arc::new(Choice::new(shown));
        servers.plain = Some(door(&choice, None)?);
        for asked in asked {
            servers.asking.insert(asked.clone(), door(&choice, Some(asked))?);
        }
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
