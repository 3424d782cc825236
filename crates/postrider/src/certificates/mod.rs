//! The certificates of this server: read, chosen for each client, and read anew when their files
//! change.

mod choice;
mod expiry;

use crate::console::ConsoleLog;
use crate::file_stamp::{LOOK_EVERY, Looks, Seen, Stamp};
use crate::mutex::lock;
use crate::pem;
use crate::world::wall_now;
use choice::{Choice, Shown};
use config::{Certificate, Config};
use expiry::Expiry;
use mta::console::Console;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// Those in force, for all shards.
#[derive(Debug)]
pub(crate) struct Certificates {
    state: Mutex<State>,
    console: Arc<ConsoleLog>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: there are none.
    server: Option<Arc<ServerConfig>>,
    configured: Vec<Certificate>,
    stamps: Vec<Stamp>,
    expiries: Vec<Expiry>,
    /// So long before its end a certificate is told of.
    warning: Duration,
    is_watched: bool,
}

impl State {
    fn take(&mut self, read: Read) {
        let Read { server, stamps, mut expiries } = read;
        for expiry in &mut expiries {
            self.expiries.iter().for_each(|before| expiry.remember(before));
        }
        (self.server, self.stamps, self.expiries) = (server, stamps, expiries);
    }
}

/// Certificates as they were read, with the files that they come from.
pub(crate) struct Read {
    server: Option<Arc<ServerConfig>>,
    stamps: Vec<Stamp>,
    expiries: Vec<Expiry>,
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
        let state = Mutex::default();
        let certificates = Arc::new(Certificates { state, console: Arc::clone(console) });
        certificates.adopt(config, read(&config.certificates)?)?;
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
        state.take(read);
        state.warning = config.tls.expiry_warning;
        state.configured.clone_from(&config.certificates);
        if !state.is_watched && !state.configured.is_empty() {
            self.watch().map_err(|error| format!("cannot start a thread: {error}"))?;
            state.is_watched = true;
        }
        Ok(())
    }

    /// What a client's handshake begins with. `None`: there is no certificate.
    pub(crate) fn server(&self) -> Option<Arc<ServerConfig>> {
        lock(&self.state).server.clone()
    }

    /// None at all.
    #[cfg(test)]
    pub(crate) fn none() -> Arc<Certificates> {
        let console = Arc::new(ConsoleLog::stderr(mta::console::Level::Error));
        Arc::new(Certificates { state: Mutex::default(), console })
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
    fn read_anew(&self) {
        let configured = lock(&self.state).configured.clone();
        let console: &dyn Console = &*self.console;
        match read(&configured) {
            Ok(read) => {
                let mut state = lock(&self.state);
                // A reload may have come in between.
                if state.configured == configured {
                    state.take(read);
                    console.info("tls", format_args!("certificates read anew"));
                }
            }
            Err(why) => {
                let text = format_args!("certificates stay as they were: {why}");
                console.error("tls", text);
            }
        }
    }
}

/// Looks at the files for as long as the certificates live.
fn look_on(certificates: &Weak<Certificates>) {
    let mut looks = Looks::default();
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(certificates) = certificates.upgrade() else { return };
        let stamps = lock(&certificates.state).stamps.clone();
        if looks.find_change(&stamps) {
            certificates.read_anew();
        }
        certificates.tell_expiries();
    }
}

/// Reads certificates and keys.
///
/// # Errors
/// What is wrong with one of them, in a sentence.
pub(crate) fn read(configured: &[Certificate]) -> Result<Read, String> {
    let mut stamps = Vec::with_capacity(2 * configured.len());
    let mut shown = Vec::with_capacity(configured.len());
    let mut expiries = Vec::with_capacity(configured.len());
    for certificate in configured {
        let sentence = |why| format!("certificate of line {}: {why}", certificate.line);
        for path in [&certificate.chain, &certificate.key] {
            // Before it is read: what is written in between is noticed then.
            stamps.extend(Seen::at(path).map(|seen| Stamp::new(path, seen)));
        }
        let key = certified(&certificate.chain, &certificate.key).map_err(sentence)?;
        let first = key.cert.first().map_or(&[][..], |first| first.as_ref());
        expiries.push(Expiry::of(&certificate.chain, first).map_err(sentence)?);
        shown.push(Shown::new(certificate.clone(), key));
    }
    let server = match shown.is_empty() {
        true => None,
        false => Some(Arc::new(server(Choice::new(shown))?)),
    };
    Ok(Read { server, stamps, expiries })
}

/// A chain with its key, which is the one that the certificate has.
fn certified(chain: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let certificates = pem::certificates(chain)?;
    let secret = pem::key(key)?;
    let provider = aws_lc_rs::default_provider();
    CertifiedKey::from_der(certificates, secret, &provider)
        .map_err(|error| format!("{} with {}: {error}", chain.display(), key.display()))
}

fn server(choice: Choice) -> Result<ServerConfig, String> {
    let unusable = |error: rustls::Error| format!("TLS: {error}");
    let mut server = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(choice));
    // All suites are good; that the server chooses is what those who audit it look for.
    server.ignore_client_order = true;
    // Sessions are resumed by tickets, whose keys change every six hours: nothing is kept here.
    server.ticketer = Ticketer::new().map_err(unusable)?;
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(server)
}
