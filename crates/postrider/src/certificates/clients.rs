//! Client certificates: requested, verified, parsed.

use crate::pem;
use config::ClientCertificates;
use mta::seams::ClientCertificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Maximum number of a certificate's names to check.
const NAMES_MAX: usize = 16;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// A policy for client certificates, shared by listeners with equal settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientCertPolicy {
    authorities: Option<PathBuf>,
    required: bool,
}

impl ClientCertPolicy {
    pub(super) fn new(listener: &ClientCertificates) -> ClientCertPolicy {
        ClientCertPolicy { authorities: listener.authorities.clone(), required: listener.required }
    }

    /// The file that it depends on.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.authorities.as_ref()
    }

    /// The verifier of client certificates.
    ///
    /// # Errors
    /// Returns the problem with the CA file in a sentence.
    pub(super) fn judge(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<ClientCertCheck>, String> {
        let authorities = match &self.authorities {
            None => None,
            Some(path) => {
                let roots = Arc::new(pem::roots(path)?);
                let built =
                    WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
                Some(built.build().map_err(|error| pem::about(path, error))?)
            }
        };
        let provider = Arc::clone(provider);
        Ok(Arc::new(ClientCertCheck { authorities, required: self.required, provider }))
    }
}

/// Verifies client certificates. If none is required, an invalid one does not end the handshake: many servers present a
/// certificate unknown here, and their mail is welcome. The certificate is then ignored.
#[derive(Debug)]
pub(crate) struct ClientCertCheck {
    /// `None` if certificates are identified by their fingerprints only.
    authorities: Option<Arc<dyn ClientCertVerifier>>,
    required: bool,
    provider: Arc<CryptoProvider>,
}

impl ClientCertCheck {
    /// The certificate that a client has shown, if it is one that counts, now: its session may be an old
    /// one.
    pub(crate) fn certificate(&self, chain: &[CertificateDer<'_>]) -> Option<ClientCertificate> {
        let (first, others) = chain.split_first()?;
        self.verify(first, others, UnixTime::now()).ok()?;
        read(first)
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        match &self.authorities {
            Some(authorities) => authorities.verify_client_cert(certificate, others, now).map(drop),
            None => Ok(()),
        }
    }
}

/// Regardless of the verdict, the client must prove possession of its private key.
impl ClientCertVerifier for ClientCertCheck {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authorities.as_ref().map_or(&[], |authorities| authorities.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.required {
            self.verify(certificate, others, now)?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Parses a certificate; `None` if it is unreadable.
fn read(certificate: &CertificateDer<'_>) -> Option<ClientCertificate> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let names = parsed.tbs_certificate().get_extension::<SubjectAltName>().ok().flatten();
    let names = names.map(|(_, names)| names.0).unwrap_or_default();
    let text = |name: &GeneralName| match name {
        GeneralName::Rfc822Name(address) => Some((0, address.as_str().to_owned())),
        GeneralName::DnsName(host) => Some((1, host.as_str().to_lowercase())),
        _ => None,
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(|b| b.is_ascii_graphic())
    };
    // A person's address before a machine's name.
    let mut names: Vec<_> = names.iter().take(NAMES_MAX).filter_map(text).collect();
    names.sort_by_key(|(kind, _)| *kind);
    let name = names.into_iter().map(|(_, name)| name).find(|name| is_name(name));
    ClientCertificate::new(certificate, name.map(Box::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::crypto::aws_lc_rs;
    use std::time::Duration;

    /// For `mx.example.org`, issued by the other one; both from November 2026 on for ten years.
    const HOST: &[u8] = include_bytes!("../../tests/certificates/host.der");
    const AUTHORITY: &[u8] = include_bytes!("../../tests/certificates/authority.der");
    const IN_TIME: u64 = 1_800_000_000;
    const TOO_LATE: u64 = 2_200_000_000;

    fn judge(authority: Option<&'static [u8]>, required: bool) -> ClientCertCheck {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authorities = authority.map(|der| {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(der)).unwrap();
            let provider = Arc::clone(&provider);
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
        });
        ClientCertCheck { authorities, required, provider }
    }

    #[test]
    fn a_certificate_counts_in_its_time_by_its_authority() {
        let verdict = |judge: &ClientCertCheck, at: u64| {
            let now = UnixTime::since_unix_epoch(Duration::from_secs(at));
            let handshake = judge.verify_client_cert(&HOST.into(), &[], now).is_ok();
            [handshake, judge.verify(&HOST.into(), &[], now).is_ok()]
        };
        let other: &[u8] = include_bytes!("../../../auth/tests/mx.der");
        for (authority, at, counts) in [
            (Some(AUTHORITY), IN_TIME, true),
            (Some(AUTHORITY), TOO_LATE, false),
            (Some(other), IN_TIME, false),
            (None, TOO_LATE, true),
        ] {
            assert_eq!(verdict(&judge(authority, false), at), [true, counts]);
            assert_eq!(verdict(&judge(authority, true), at), [counts, counts]);
        }
        assert!(judge(Some(AUTHORITY), true).client_auth_mandatory());
        assert_eq!(judge(Some(AUTHORITY), false).root_hint_subjects().len(), 1);
    }

    #[test]
    fn a_certificate_is_known_by_its_name_or_fingerprints() {
        let shown = judge(None, false).certificate(&[HOST.into()]).unwrap();
        let [name, certificate, key] = [
            config::CertificateIdentity::Name,
            config::CertificateIdentity::Certificate,
            config::CertificateIdentity::Key,
        ]
        .map(|by| shown.identity(by).unwrap());
        assert_eq!(name, "mx.example.org");
        assert!(certificate.len() == 64 && key.len() == 64 && certificate != key);
        assert_eq!(judge(None, false).certificate(&[]), None);
        assert_eq!(judge(None, false).certificate(&[CertificateDer::from(&b"x"[..])]), None);
    }
}
