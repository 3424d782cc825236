//! TLS with next hops.

mod dane;

use crate::mutex::lock;
use crate::{crypto, pem};
use dane::Dane;
use mta::lack;
use mta::seams::{DaneTrust, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

/// TLS client configurations for all shards, so that sessions resume on any shard. Each policy has its own sessions, so
/// no session relies on the trust of a different policy.
#[derive(Debug, Default)]
pub(crate) struct PeerTls {
    anyone: Mutex<Option<Arc<ClientConfig>>>,
    /// The machine's roots are read when they are needed first.
    verified: Mutex<Option<Arc<ClientConfig>>>,
    promised: Mutex<Option<Arc<ClientConfig>>>,
    /// Examines certificates that are accepted regardless of the result.
    examiner: Mutex<Option<Arc<WebPkiServerVerifier>>>,
}

impl PeerTls {
    /// # Errors
    /// Returns an error if the peer must be verified by this machine's roots, and there are no roots.
    pub(crate) fn client(&self, trust: &Trust) -> io::Result<Arc<ClientConfig>> {
        let (made, make): (_, fn() -> io::Result<ClientConfig>) = match trust {
            Trust::Anyone => (&self.anyone, taking_anyone),
            Trust::Roots => (&self.verified, verifying),
            Trust::MtaSts => (&self.promised, verifying),
            Trust::Dane(trust) => return by_records(trust),
        };
        let mut made = lock(made);
        if let Some(config) = &*made {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(make()?);
        *made = Some(Arc::clone(&config));
        Ok(config)
    }

    /// A certificate verifier with this machine's roots.
    ///
    /// # Errors
    /// As [`PeerTls::client`].
    pub(crate) fn examiner(&self) -> io::Result<Arc<WebPkiServerVerifier>> {
        let mut made = lock(&self.examiner);
        if let Some(examiner) = &*made {
            return Ok(Arc::clone(examiner));
        }
        let (roots, provider) = (Arc::new(roots()?), crypto::provider());
        let builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let examiner = builder.build().map_err(io::Error::other)?;
        *made = Some(Arc::clone(&examiner));
        Ok(examiner)
    }
}

/// A configuration for one connection. Each host's TLSA records are a separate trust, and the owner of a signed zone
/// can have any number. So no sessions are stored, and handshakes with these hosts are full ones.
fn by_records(trust: &Arc<DaneTrust>) -> io::Result<Arc<ClientConfig>> {
    let mut config = judged_by(Dane(Arc::clone(trust)))?;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn taking_anyone() -> io::Result<ClientConfig> {
    judged_by(AnyPeerCertificate)
}

/// Takes the certificates that a judge lets pass.
fn judged_by(judge: impl PeerCertPolicy) -> io::Result<ClientConfig> {
    let provider = crypto::provider();
    let verifier = Arc::new(PeerCertVerifier { judge, provider: Arc::clone(&provider) });
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// A configuration that accepts certificates valid by this machine's roots.
///
/// # Errors
/// Returns an error if no root exists, or if some are temporarily unreadable ([`lack::is_ours`]).
pub(crate) fn verifying() -> io::Result<ClientConfig> {
    verifying_by(roots()?)
}

fn roots() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(pem::native_roots()?);
    if roots.is_empty() {
        let text = "this machine has no root certificates to verify with (ca-certificates)";
        return Err(lack::error(text));
    }
    Ok(roots)
}

/// A configuration that accepts certificates valid by these roots.
///
/// # Errors
/// Returns an error if TLS is not available.
pub(crate) fn verifying_by(roots: RootCertStore) -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(crypto::provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Decides which peer certificates are acceptable.
trait PeerCertPolicy: fmt::Debug + Send + Sync + 'static {
    /// The peer must prove possession of its certificate's key.
    const WITH_ITS_KEY: bool = true;

    /// # Errors
    /// Returns the error of the certificate. `chain` has the further certificates sent by the peer.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
        provider: &CryptoProvider,
    ) -> Result<(), Error>;
}

/// Accepts any certificate: encryption alone protects against passive listeners (RFC 7435). The certificate need not
/// even be readable, nor the peer have its key. A man in the middle could present its own certificate and key, so this
/// check would only send more mail in clear text. The session is kept secret by ephemeral keys, independent of the
/// certificate.
#[derive(Debug)]
struct AnyPeerCertificate;

impl PeerCertPolicy for AnyPeerCertificate {
    const WITH_ITS_KEY: bool = false;

    fn judge(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
        _: &CryptoProvider,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// Applies a policy to the certificate, and checks the proof of its key.
#[derive(Debug)]
struct PeerCertVerifier<J> {
    judge: J,
    provider: Arc<CryptoProvider>,
}

impl<J: PeerCertPolicy> ServerCertVerifier for PeerCertVerifier<J> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(certificate, chain, now, &self.provider)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match J::WITH_ITS_KEY {
            true => dane::verify_tls12(message, certificate, signed, &self.provider),
            false => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match J::WITH_ITS_KEY {
            true => dane::verify_tls13(message, certificate, signed, &self.provider),
            false => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
