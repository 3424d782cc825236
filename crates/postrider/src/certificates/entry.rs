//! TLS material from one certificate's files, or from one CA file. Each entry is loaded independently, because one file
//! may hang or be invalid.

use super::clients::{ClientCertCheck, ClientCertPolicy};
use super::expiry::{self, Expiry};
use crate::acme::store;
use crate::file_stamp::{Device, FileIdentity, Stamp};
use crate::mutex::lock;
use crate::{crypto, pem};
use config::{Certificate, Config, Problem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The files of an entry.
#[derive(Clone, Debug)]
pub(super) enum CertificateSource {
    /// A certificate with its key.
    Own(Certificate),
    /// The policy for client certificates.
    Clients(ClientCertPolicy),
}

/// A source of the configuration in force, with its material.
#[derive(Debug)]
pub(super) struct CertificateEntry {
    pub(super) source: CertificateSource,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) read: LoadedCertificate,
    /// The reason why changed files are not used.
    pub(super) unread: Option<String>,
}

/// Loaded material, with the state of the files at the time.
#[derive(Debug, Default)]
pub(super) struct LoadedCertificate {
    stamps: Vec<Stamp>,
    pub(super) made: Option<TlsMaterial>,
    pub(super) expiry: Option<Expiry>,
    /// The reason why an ACME certificate is unusable or missing.
    pub(super) left_out: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum TlsMaterial {
    Own(Arc<CertifiedKey>),
    Clients(Arc<ClientCertCheck>),
}

/// An unusable entry, with the reason.
#[derive(Debug)]
pub(super) enum UnusableCertificate {
    /// The certificate of this line, and why, for each key that names a file of no use.
    Certificate(u32, Vec<UnusableKey>),
    /// The policy for client certificates.
    Clients(Option<ClientCertPolicy>, String),
}

/// A key of `[[certificate]]`, and the error of its file.
pub(super) type UnusableKey = (&'static str, String);

impl CertificateEntry {
    pub(super) fn new(source: CertificateSource, read: LoadedCertificate) -> Arc<CertificateEntry> {
        Arc::new(CertificateEntry { source, state: Mutex::new(State { read, unread: None }) })
    }

    /// The lock is not held while a file is read.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        ask(&mut lock(&self.state))
    }

    /// The state of the files when they were read.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.with(|state| state.read.stamps.clone())
    }

    /// The file system of its first file.
    pub(super) fn device(&self) -> Option<Device> {
        self.with(|state| state.read.stamps.first().map(Stamp::device))
    }

    /// The certificate, if it can be shown.
    pub(super) fn shown(&self) -> Option<ServerCertificate> {
        let CertificateSource::Own(certificate) = &self.source else { return None };
        match self.with(|state| state.read.made.clone()) {
            Some(TlsMaterial::Own(key)) => Some(ServerCertificate::new(certificate.clone(), key)),
            _ => None,
        }
    }

    /// The verifier of client certificates, with its policy.
    pub(super) fn judge(&self) -> Option<(&ClientCertPolicy, Arc<ClientCertCheck>)> {
        let CertificateSource::Clients(asked) = &self.source else { return None };
        match self.with(|state| state.read.made.clone()) {
            Some(TlsMaterial::Clients(judge)) => Some((asked, judge)),
            _ => None,
        }
    }

    /// Replaces the loaded material. Returns the former one.
    pub(super) fn replace(&self, read: LoadedCertificate) -> LoadedCertificate {
        self.with(|state| std::mem::replace(&mut state.read, read))
    }
}

impl CertificateSource {
    /// Returns true for an ACME certificate, which may not exist yet.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self, CertificateSource::Own(certificate) if certificate.ordered.is_some())
    }

    /// The path that identifies it in messages.
    pub(super) fn path(&self) -> &Path {
        match self {
            CertificateSource::Own(certificate) => &certificate.chain,
            CertificateSource::Clients(asked) => asked.file().map_or(Path::new(""), |path| path),
        }
    }

    /// A warning about its first file, at the key that names it.
    pub(super) fn warning(&self, config: &Config, text: String, remedy: &str) -> Problem {
        let placed = match self {
            CertificateSource::Own(certificate) => {
                config.mistake_in("certificate", certificate.line, "chain", text)
            }
            CertificateSource::Clients(asked) => {
                config.mistake_at(&place_of_clients(Some(asked), config), text)
            }
        };
        Problem { fatal: false, help: Some(remedy.to_owned()), ..placed }
    }

    /// Reads it, as the files are now. `before` is called with each.
    pub(super) fn read(
        &self,
        before: &mut dyn FnMut(&Path),
    ) -> Result<LoadedCertificate, UnusableCertificate> {
        match self {
            CertificateSource::Own(certificate) => read_own(certificate, before)
                .map_err(|why| UnusableCertificate::Certificate(certificate.line, why)),
            CertificateSource::Clients(asked) => read_clients(asked, before)
                .map_err(|why| UnusableCertificate::Clients(Some(asked.clone()), why)),
        }
    }

    /// A placeholder for an unusable ACME certificate.
    pub(super) fn left_out(&self, why: &UnusableCertificate) -> LoadedCertificate {
        let stamps = stamps(&[self.path()], &mut |_| ());
        LoadedCertificate {
            stamps,
            left_out: Some(format!("skipped: {why}")),
            ..LoadedCertificate::default()
        }
    }
}

/// Stamps of files before they are read, so that a change in between is noticed.
fn stamps(paths: &[&Path], before: &mut dyn FnMut(&Path)) -> Vec<Stamp> {
    let see = |path: &&Path| {
        before(path);
        FileIdentity::at(path).map(|seen| Stamp::new(path, seen))
    };
    paths.iter().filter_map(see).collect()
}

/// One that is ordered may not have come yet.
fn read_own(
    certificate: &Certificate,
    before: &mut dyn FnMut(&Path),
) -> Result<LoadedCertificate, Vec<UnusableKey>> {
    let of_chain = |why: String| vec![("chain", why)];
    let Certificate { chain, key, ordered, names, .. } = certificate;
    before(chain);
    if ordered.is_some() && !chain.exists() {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let text = format!("no certificate for {} yet", names.join(", "));
        return Ok(LoadedCertificate { left_out: Some(text), ..LoadedCertificate::default() });
    }
    let stamps = stamps(&[chain, key], before);
    before(chain);
    if ordered.is_some() {
        store::check(chain).map_err(|why| of_chain(format!("{}: {why}", chain.display())))?;
    }
    let certified = certified(chain, key, before)?;
    let first = certified.cert.first().map_or(&[][..], |first| first.as_ref());
    let expiry = Some(Expiry::of(chain, first, ordered.is_some()).map_err(of_chain)?);
    let made = Some(TlsMaterial::Own(Arc::new(certified)));
    Ok(LoadedCertificate { stamps, made, expiry, left_out: None })
}

/// A chain with its key, which is the one that the certificate has.
fn certified(
    chain: &Path,
    key: &Path,
    before: &mut dyn FnMut(&Path),
) -> Result<CertifiedKey, Vec<UnusableKey>> {
    let certificates = pem::certificates(chain);
    before(key);
    let (certificates, secret) = match (certificates, pem::key(key)) {
        (Ok(certificates), Ok(secret)) => (certificates, secret),
        (certificates, secret) => {
            let of_chain = certificates.err().map(|why| ("chain", why));
            return Err(of_chain.into_iter().chain(secret.err().map(|why| ("key", why))).collect());
        }
    };
    if let Some(first) = certificates.first() {
        expiry::check_version(first.as_ref())
            .map_err(|why| vec![("chain", format!("{}: {why}", chain.display()))])?;
    }
    let provider = crypto::provider();
    CertifiedKey::from_der(certificates, secret, &provider).map_err(|error| {
        vec![("chain", format!("{} with {}: {error}", chain.display(), key.display()))]
    })
}

fn read_clients(
    asked: &ClientCertPolicy,
    before: &mut dyn FnMut(&Path),
) -> Result<LoadedCertificate, String> {
    let files: Vec<&Path> = asked.file().map(|path| &**path).into_iter().collect();
    let stamps = stamps(&files, before);
    let made = Some(TlsMaterial::Clients(asked.judge(&crypto::provider())?));
    // Authorities that cannot be read are an error of the verifier.
    let of = |file: &&Path| {
        let all = pem::certificates(file).unwrap_or_default();
        all.into_iter()
            .filter_map(|one| Expiry::of(file, one.as_ref(), false).ok())
            .collect::<Vec<_>>()
    };
    let expiry = Expiry::first(files.iter().flat_map(of));
    Ok(LoadedCertificate { stamps, made, expiry, left_out: None })
}

impl fmt::Display for UnusableCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableCertificate::Certificate(line, all) => {
                let all: Vec<&str> = all.iter().map(|(_, why)| why.as_str()).collect();
                write!(f, "certificate of line {line}: {}", all.join("; "))
            }
            UnusableCertificate::Clients(_, why) => f.write_str(why),
        }
    }
}

impl UnusableCertificate {
    /// With its place in the file.
    pub(super) fn placed(&self, config: &Config) -> Vec<Problem> {
        match self {
            UnusableCertificate::Certificate(line, all) => {
                let placed = |(key, why): &UnusableKey| {
                    // The text after the semicolon is the remedy.
                    let (what, help) = why.split_once("; ").unzip();
                    let what = what.unwrap_or(why);
                    let mistake = config.mistake_in("certificate", *line, key, what);
                    Problem { help: help.map(str::to_owned), ..mistake }
                };
                all.iter().map(placed).collect()
            }
            UnusableCertificate::Clients(asked, why) => {
                vec![config.mistake_at(&place_of_clients(asked.as_ref(), config), why.as_str())]
            }
        }
    }
}

/// The key with the authorities of this policy.
fn place_of_clients(asked: Option<&ClientCertPolicy>, config: &Config) -> String {
    let asks = |one: &Arc<config::Listener>| {
        one.client_certificates.as_deref().map(ClientCertPolicy::new).as_ref() == asked
    };
    let index = config.listeners.iter().position(asks).unwrap_or(0);
    format!("listener[{index}].client_certificates.authorities")
}

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct ServerCertificate {
    configured: Certificate,
    key: Arc<CertifiedKey>,
}

impl ServerCertificate {
    pub(super) fn new(configured: Certificate, key: Arc<CertifiedKey>) -> ServerCertificate {
        ServerCertificate { configured, key }
    }

    fn is_rsa(&self) -> bool {
        self.key.key.algorithm() == SignatureAlgorithm::RSA
    }
}

/// The server's certificates, selected by name and key type.
#[derive(Debug)]
pub(super) struct Choice(Vec<ServerCertificate>);

impl Choice {
    /// The certificates of the configuration, in its order.
    pub(super) fn new(mut all: Vec<ServerCertificate>) -> Choice {
        // Certificates with the names of the first one serve any name: they come first. Among equals RSA, the most
        // expensive, comes last.
        let names = all.first().map(|shown| shown.configured.names.clone());
        all.sort_by_key(|shown| (Some(&shown.configured.names) != names.as_ref(), shown.is_rsa()));
        Choice(all)
    }

    /// The first certificate with a key type that the client supports, among those with the requested name. If none has
    /// the name, among those that serve any name.
    fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<&ServerCertificate> {
        let is_named =
            |shown: &&ServerCertificate| name.is_some_and(|name| shown.configured.is_for(name));
        let has_name = self.0.iter().any(|shown| is_named(&shown));
        let first = self.0.first()?;
        let is_meant = |shown: &&ServerCertificate| match has_name {
            true => is_named(shown),
            false => shown.configured.names == first.configured.names,
        };
        let takes = |shown: &&ServerCertificate| shown.key.key.choose_scheme(schemes).is_some();
        self.0.iter().filter(is_meant).find(takes)
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.choose(hello.server_name(), hello.signature_schemes())?;
        Some(Arc::clone(&shown.key))
    }
}
