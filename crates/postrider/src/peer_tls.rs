//! How connections to next hops are encrypted.

mod dane;

use crate::mutex::lock;
use crate::pem;
use dane::DaneVerifier;
use mta::seams::{DaneTrust, Trust};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// TLSA records of so many hosts are remembered with the sessions that began with them; then all are
/// forgotten.
const DANE_MAX: usize = 1_024;

/// Sessions that are remembered of one of those: a TLS 1.3 server may give several tickets at once.
const DANE_SESSIONS_MAX: usize = 4;

/// What handshakes with next hops begin with, for all shards: sessions are resumed on any of them. Each
/// policy has sessions of its own, so that none begins with what another trusted.
#[derive(Debug, Default)]
pub(crate) struct PeerTls {
    anyone: Mutex<Option<Arc<ClientConfig>>>,
    /// The machine's roots are read when they are needed first.
    verified: Mutex<Option<Arc<ClientConfig>>>,
    promised: Mutex<Option<Arc<ClientConfig>>>,
    /// Other records are another trust, and begin anew.
    dane: Mutex<BTreeMap<Arc<DaneTrust>, Arc<ClientConfig>>>,
}

impl PeerTls {
    /// # Errors
    /// When this machine has no roots, and the peer is to be verified by them.
    pub(crate) fn client(&self, trust: &Trust) -> io::Result<Arc<ClientConfig>> {
        let (made, make): (_, fn() -> io::Result<ClientConfig>) = match trust {
            Trust::Anyone => (&self.anyone, taking_anyone),
            Trust::Roots => (&self.verified, verifying),
            Trust::MtaSts => (&self.promised, verifying),
            Trust::Dane(trust) => return self.dane(trust),
        };
        let mut made = lock(made);
        if let Some(config) = &*made {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(make()?);
        *made = Some(Arc::clone(&config));
        Ok(config)
    }

    fn dane(&self, trust: &Arc<DaneTrust>) -> io::Result<Arc<ClientConfig>> {
        let mut dane = lock(&self.dane);
        if let Some(config) = dane.get(trust) {
            return Ok(Arc::clone(config));
        }
        if dane.len() >= DANE_MAX {
            dane.clear();
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = DaneVerifier::new(Arc::clone(trust), Arc::clone(&provider));
        let mut config = verified_by(Arc::new(verifier), provider)?;
        config.resumption = Resumption::in_memory_sessions(DANE_SESSIONS_MAX);
        let config = Arc::new(config);
        dane.insert(Arc::clone(trust), Arc::clone(&config));
        Ok(config)
    }
}

fn taking_anyone() -> io::Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    verified_by(Arc::new(Anyone(Arc::clone(&provider))), provider)
}

fn verified_by(
    verifier: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
) -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// What takes certificates that are valid by the roots of this machine.
///
/// # Errors
/// There are none.
pub(crate) fn verifying() -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // Some that can't be read leave the others.
    roots.add_parsable_certificates(pem::native_roots());
    if roots.is_empty() {
        let text = "this machine has no root certificates to verify with (ca-certificates)";
        return Err(io::Error::other(text));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Takes whatever certificate there is, whose key the peer must have all the same: encryption alone
/// keeps those out who only listen (RFC 7435).
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
