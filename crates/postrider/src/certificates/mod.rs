//! The server's certificates: loaded, selected for each client, and reloaded when their files change.

mod clients;
mod entry;
mod expiry;

use crate::console::ConsoleLog;
use crate::crypto;
use crate::file_stamp::StampWatch;
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::services::{Adoption, CandidateConfig, Service};
use crate::under_way::WorkRegistry;
use crate::world::clock::wall_now;
pub(crate) use clients::ClientCertCheck;
use clients::ClientCertPolicy;
use config::{ClientCertificates, Config, Problem};
use entry::{CertificateEntry, CertificateSource, Choice, LoadedCertificate, UnusableCertificate};
use mail::Wall;
use mta::console::{Console, Level};
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ResolvesServerCert;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The certificates in force, for all shards.
#[derive(Debug)]
pub(crate) struct Certificates {
    state: Mutex<State>,
    /// Atomic, since each session on every shard reads it.
    is_any: AtomicBool,
    console: Arc<ConsoleLog>,
    /// Looks at their files.
    pub(crate) under_way: WorkRegistry,
}

#[derive(Debug, Default)]
struct State {
    servers: Servers,
    /// The entries behind the configurations; `None` before the first adoption.
    entries: Option<Vec<Arc<CertificateEntry>>>,
    /// Time before the expiry at which warnings begin.
    warning: Duration,
    /// Looks at the files, once there is one.
    watch: Option<Arc<FileWatch>>,
}

/// TLS configurations of the server.
#[derive(Clone, Debug, Default)]
struct Servers {
    /// `None`: there is no certificate.
    plain: Option<TlsAcceptConfig>,
    asking: BTreeMap<ClientCertPolicy, TlsAcceptConfig>,
}

/// The TLS configuration for a handshake with a client.
#[derive(Clone, Debug)]
pub(crate) struct TlsAcceptConfig {
    pub(crate) config: Arc<ServerConfig>,
    /// Verifies the client's certificate, if one is requested.
    pub(crate) judge: Option<Arc<ClientCertCheck>>,
}

impl Servers {
    /// TLS configurations with all usable certificates and the client certificate policies of these entries.
    fn of(entries: &[Arc<CertificateEntry>]) -> Result<Servers, UnusableCertificate> {
        let shown: Vec<_> = entries.iter().filter_map(|entry| entry.shown()).collect();
        let mut servers = Servers::default();
        if shown.is_empty() {
            return Ok(servers);
        }
        let choice = Arc::new(Choice::new(shown));
        let plain = door(&choice, None).map_err(|why| UnusableCertificate::Clients(None, why))?;
        servers.plain = Some(plain);
        for (asked, judge) in entries.iter().filter_map(|entry| entry.judge()) {
            let door = door(&choice, Some(judge));
            let door =
                door.map_err(|why| UnusableCertificate::Clients(Some(asked.clone()), why))?;
            servers.asking.insert(asked.clone(), door);
        }
        Ok(servers)
    }
}

impl State {
    fn entries(&self) -> &[Arc<CertificateEntry>] {
        self.entries.as_deref().unwrap_or_default()
    }
}

impl Certificates {
    /// None, before a configuration is adopted.
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> Arc<Certificates> {
        let (state, is_any, under_way) = Default::default();
        let console = Arc::clone(console);
        Arc::new(Certificates { state, is_any, console, under_way })
    }

    /// Looks at their files from now on.
    pub(crate) fn watch(self: &Arc<Certificates>, watch: &Arc<FileWatch>) {
        watch.follow(self, |these| these.tell_expiries());
        let mut state = lock(&self.state);
        state.watch = Some(Arc::clone(watch));
        self.follow(&state);
    }

    /// Looks at the files of each for as long as it is in force.
    fn follow(self: &Arc<Certificates>, state: &State) {
        let Some(watch) = &state.watch else { return };
        for entry in state.entries() {
            let (these, device) = (Arc::downgrade(self), entry.device());
            let (entry, mut looks) = (Arc::downgrade(entry), StampWatch::default());
            watch.add(device, move || {
                let both = these.upgrade().zip(entry.upgrade());
                both.map(|(these, entry)| these.look(&entry, &mut looks)).is_some()
            });
        }
    }

    /// Adopts the certificates of a new configuration; open connections keep the former ones.
    fn adopt(
        self: &Arc<Certificates>,
        config: &Config,
        servers: Servers,
        fresh: Vec<Arc<CertificateEntry>>,
    ) {
        let mut state = lock(&self.state);
        let before = state.entries().iter();
        let before: Vec<_> = before.filter_map(|one| one.with(|s| s.read.expiry.clone())).collect();
        for entry in &fresh {
            entry.with(|state| {
                let expiry = state.read.expiry.iter_mut();
                expiry.for_each(|expiry| before.iter().for_each(|one| expiry.remember(one)));
            });
        }
        self.is_any.store(servers.plain.is_some(), Ordering::Relaxed);
        state.warning = config.tls.expiry_warning;
        (state.servers, state.entries) = (servers, Some(fresh));
        self.follow(&state);
    }

    /// Returns true if the server has a certificate.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// The TLS configuration for clients, with or without a request for a client certificate. `None` if the server has
    /// no certificate.
    pub(crate) fn door(&self, asked: Option<&ClientCertificates>) -> Option<TlsAcceptConfig> {
        let servers = &lock(&self.state).servers;
        match asked {
            None => servers.plain.clone(),
            Some(asked) => servers.asking.get(&ClientCertPolicy::new(asked)).cloned(),
        }
    }

    /// The certificates in force, with the seconds until their end.
    pub(crate) fn seconds_left(&self, now: Wall) -> Vec<(String, i64)> {
        let state = lock(&self.state);
        let left = |entry: &Arc<CertificateEntry>| {
            entry.with(|one| one.read.expiry.as_ref().map(|expiry| expiry.seconds_left(now)))
        };
        state.entries().iter().filter_map(left).collect()
    }

    /// Warnings about those that have ended or end soon, each at its key in `config`, which is in force.
    pub(crate) fn warnings(&self, config: &Config, now: Wall) -> Vec<Problem> {
        let state = lock(&self.state);
        let near_end = |entry: &Arc<CertificateEntry>| {
            let text = entry.with(|one| one.read.expiry.as_ref()?.near_end(now, state.warning))?;
            Some(entry.source.warning(config, text, expiry::RENEW))
        };
        state.entries().iter().filter_map(near_end).collect()
    }

    /// None at all.
    #[cfg(test)]
    pub(crate) fn none() -> Arc<Certificates> {
        Certificates::new(&Arc::new(ConsoleLog::stderr(mta::console::Level::Error)))
    }

    /// Looks at the files of one, and reads them when they have changed.
    fn look(&self, entry: &Arc<CertificateEntry>, looks: &mut StampWatch) {
        let stamps = entry.stamps();
        let mut work = None;
        let mut before =
            |path: &Path| work = Some(self.under_way.begin(path.display().to_string()));
        if looks.find_change(&stamps, &mut before) {
            self.read_entry(entry, &mut before);
        } else if looks.is_same() {
            // The unusable file is gone, and the one in use is back.
            entry.with(|state| state.unread = None);
        }
    }

    /// Warns about certificates that expire soon.
    fn tell_expiries(&self) {
        let now = wall_now();
        let state = lock(&self.state);
        let due = |entry: &Arc<CertificateEntry>| {
            entry.with(|s| s.read.expiry.as_mut().and_then(|one| one.due(now, state.warning)))
        };
        let due: Vec<String> = state.entries().iter().filter_map(due).collect();
        drop(state);
        let console: &dyn Console = &*self.console;
        for text in due {
            console.warn("tls", format_args!("{text}"));
        }
    }

    /// Reloads the certificate in this file.
    pub(crate) fn read_anew(&self, chain: &Path) {
        let is_it = |entry: &&Arc<CertificateEntry>| matches!(&entry.source, CertificateSource::Own(one) if one.chain == chain);
        let entries: Vec<_> = lock(&self.state).entries().iter().filter(is_it).cloned().collect();
        entries.iter().for_each(|entry| self.read_entry(entry, &mut |_| ()));
    }

    fn read_entry(&self, entry: &Arc<CertificateEntry>, before: &mut dyn FnMut(&Path)) {
        let read = entry.source.read(before);
        let mut state = lock(&self.state);
        // A reload may have replaced the entries.
        if !state.entries().iter().any(|known| Arc::ptr_eq(known, entry)) {
            return;
        }
        let taken = read.and_then(|read| self.take(&mut state, entry, read));
        let console: &dyn Console = &*self.console;
        let path = entry.source.path().display();
        match taken {
            Ok(()) => {
                entry.with(|state| state.unread = None);
                drop(state);
                console.info("tls", format_args!("{path} reloaded"));
            }
            Err(why) => {
                let text = format!("the previous certificates stay in force: {why}");
                entry.with(|state| state.unread = Some(text.clone()));
                drop(state);
                console.error("tls", format_args!("{text}"));
            }
        }
    }

    /// Adopts the material of an entry.
    fn take(
        &self,
        state: &mut State,
        entry: &CertificateEntry,
        mut read: LoadedCertificate,
    ) -> Result<(), UnusableCertificate> {
        let told = entry.with(|state| state.read.expiry.clone());
        if let (Some(expiry), Some(told)) = (&mut read.expiry, &told) {
            expiry.remember(told);
        }
        let before = entry.replace(read);
        match Servers::of(state.entries()) {
            Ok(servers) => {
                self.is_any.store(servers.plain.is_some(), Ordering::Relaxed);
                state.servers = servers;
                Ok(())
            }
            Err(why) => {
                entry.replace(before);
                Err(why)
            }
        }
    }
}

/// Certificates that expire soon, have expired, or are unreadable.
impl ProblemKind for Certificates {
    fn name(&self) -> &'static str {
        "certificate"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        // The lock is not held while a file is read.
        let state = lock(&self.state);
        for entry in state.entries() {
            let path = || entry.source.path().display().to_string();
            entry.with(|one| {
                let expiry = one.read.expiry.as_ref();
                expiry.and_then(|expiry| expiry.problem(now.wall, state.warning)).map(&mut *found);
                if let Some(why) = &one.read.left_out {
                    let step =
                        "an order is in progress; `acme` lines on the console show its state";
                    found(DetectedProblem::warning(path(), why.clone()).next_step(step));
                }
                if let Some(why) = &one.unread {
                    found(
                        DetectedProblem::warning(path(), why.clone()).next_step("correct the file"),
                    );
                }
            });
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

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        // A bad ACME certificate must not prevent a start: a new one is ordered.
        let is_first = lock(&self.state).entries.is_none();
        let (mut entries, mut mistakes) = (Vec::new(), Vec::new());
        for source in sources(next.config) {
            let mut before = |path: &Path| (next.progress)(&path.display().to_string());
            match source.read(&mut before) {
                Ok(read) => entries.push(CertificateEntry::new(source, read)),
                Err(why) if is_first && source.is_ordered() => {
                    self.console.line(Level::Warn, "tls", format_args!("skipped: {why}"));
                    let read = source.left_out(&why);
                    entries.push(CertificateEntry::new(source, read));
                }
                Err(why) => mistakes.push(why),
            }
        }
        let servers = Servers::of(&entries);
        match servers {
            Ok(servers) if mistakes.is_empty() => {
                let (this, config) = (Arc::clone(self), Arc::clone(next.config));
                return Ok(Box::new(move || this.adopt(&config, servers, entries)));
            }
            Ok(_) => {}
            Err(why) => mistakes.push(why),
        }
        Err(mistakes.iter().flat_map(|one| one.placed(next.config)).collect())
    }
}

/// The certificate settings of a configuration: server certificates, and policies for client certificates.
fn sources(config: &Config) -> impl Iterator<Item = CertificateSource> {
    let asked = config.listeners.iter().filter_map(|one| one.client_certificates.as_deref());
    let asked: BTreeSet<ClientCertPolicy> = asked.map(ClientCertPolicy::new).collect();
    let own = config.certificates.iter().cloned().map(CertificateSource::Own);
    own.chain(asked.into_iter().map(CertificateSource::Clients))
}

fn door(
    choice: &Arc<Choice>,
    judge: Option<Arc<ClientCertCheck>>,
) -> Result<TlsAcceptConfig, String> {
    let config = Arc::new(server(choice, judge.clone(), crypto::provider())?);
    Ok(TlsAcceptConfig { config, judge })
}

fn server(
    choice: &Arc<Choice>,
    judge: Option<Arc<ClientCertCheck>>,
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
    // All suites are strong; audits expect the server's preference.
    server.ignore_client_order = true;
    // Sessions are resumed by tickets, with keys that change every six hours, so no state is stored here. The keys
    // belong to one TLS configuration, so a ticket's client certificate is used only under the policy that verified it.
    server.ticketer = Ticketer::new().map_err(unusable)?;
    // One for the next connection: each costs about as much as deriving the keys of a session.
    server.send_tls13_tickets = 1;
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(server)
}
