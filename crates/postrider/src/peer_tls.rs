//! How connections to next hops are encrypted.

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

/// What handshakes with next hops begin with, for all shards: sessions are resumed on any of them. Each
/// policy has sessions of its own, so that none begins with what another trusted.
#[derive(Debug, Default)]
pub(crate) struct PeerTls {
    anyone: Mutex<Option<Arc<ClientConfig>>>,
    /// The machine's roots are read when they are needed first.
    verified: Mutex<Option<Arc<ClientConfig>>>,
    promised: Mutex<Option<Arc<ClientConfig>>>,
    /// For certificates that are looked at and let pass.
    examiner: Mutex<Option<Arc<WebPkiServerVerifier>>>,
}

impl PeerTls {
    /// # Errors
    /// When this machine has no roots, and the peer is to be verified by them.
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

    /// What judges certificates by this machine's roots.
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

/// For one connection. Each host's records are another trust, and whoever signs a zone can have as many as
/// he likes: nothing is remembered of them, so handshakes with such hosts are whole ones.
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

/// What takes certificates that are valid by the roots of this machine.
///
/// # Errors
/// There are none, or some can't be read for now ([`lack::is_ours`]).
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

/// What takes certificates that are valid by these.
///
/// # Errors
/// When TLS can't be had.
pub(crate) fn verifying_by(roots: RootCertStore) -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(crypto::provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Whose certificate will do.
trait PeerCertPolicy: fmt::Debug + Send + Sync + 'static {
    /// The peer has to show that it has the key of its certificate.
    const WITH_ITS_KEY: bool = true;

    /// # Errors
    /// What is wrong with it. `chain`: those that came with it.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
        provider: &CryptoProvider,
    ) -> Result<(), Error>;
}

/// Takes whatever certificate there is: encryption alone keeps those out who only listen (RFC 7435). It need
/// not even be one that can be read, nor the peer have its key: whoever is between could show one of his own,
/// and have its key, so asking for that would only send more mail in clear. What is said stays secret by the
/// ephemeral keys, which no certificate has a part in.
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

/// What the judge says of the certificate, and whether the peer has its key.
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
