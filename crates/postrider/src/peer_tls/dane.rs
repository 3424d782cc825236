//! Verifies certificates by a host's TLSA records (RFC 7672 §3.1, §3.2).
//!
//! Also verifies the proof of the certificate's key. rustls requires X.509 version 3 for that, but a TLSA record may
//! match any certificate (RFC 7672 §3.1.1).

use super::PeerCertPolicy;
use auth::tlsa;
use mta::seams::DaneTrust;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerMisbehaved, RootCertStore,
};
use std::fmt;
use std::sync::Arc;
use webpki::RawPublicKeyEntity;

/// Certificates above the host's that are compared with its records.
const CHAIN_MAX: usize = 16;

/// Takes a certificate that one of a host's records is about, or that comes from an authority that one
/// is about.
#[derive(Debug)]
pub(super) struct Dane(pub(super) Arc<DaneTrust>);

impl Dane {
    /// Trust anchors that the records match: certificates of the chain, and full certificates in records.
    fn anchors(&self, chain: &[CertificateDer<'_>]) -> RootCertStore {
        let records = || self.0.records.iter().filter(|record| record.is_trust_anchor());
        let mut anchors = RootCertStore::empty();
        for certificate in chain.iter().take(CHAIN_MAX) {
            if records().any(|record| record.matches(certificate)) {
                // An unreadable anchor is ignored.
                let _ = anchors.add(certificate.clone().into_owned());
            }
        }
        for whole in records().filter_map(|record| record.anchor()) {
            let _ = anchors.add(CertificateDer::from(whole.to_vec()));
        }
        anchors
    }

    /// RFC 7672 §3.1.2: as usual from the authority on, with one of the host's names in it.
    fn verify_by_anchor(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        let anchors = self.anchors(chain);
        if anchors.is_empty() {
            return Err(unmatched());
        }
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &anchors, chain, now, algorithms)?;
        // Report the first of several names.
        let mut misnamed = None;
        for name in self.0.names.iter().filter_map(|name| ServerName::try_from(&**name).ok()) {
            match verify_server_name(&certificate, &name) {
                Ok(()) => return Ok(()),
                Err(error) => misnamed = misnamed.or(Some(error)),
            }
        }
        Err(misnamed.unwrap_or_else(unmatched))
    }
}

impl PeerCertPolicy for Dane {
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        // RFC 7672 §3.1.1: neither its names nor its times count then.
        let mut records = self.0.records.iter().filter(|record| record.is_end_entity());
        match records.any(|record| record.matches(certificate)) {
            true => Ok(()),
            false => self.verify_by_anchor(certificate, chain, now, provider),
        }
    }
}

/// No certificate is one that the records are about.
#[derive(Debug)]
struct TlsaMismatch;

impl fmt::Display for TlsaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no TLSA record matches the certificate or its issuers")
    }
}

impl std::error::Error for TlsaMismatch {}

fn unmatched() -> Error {
    CertificateError::Other(OtherError(Arc::new(TlsaMismatch))).into()
}

fn key<'a>(certificate: &'a CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    let key = tlsa::public_key(certificate).ok_or(CertificateError::BadEncoding)?;
    Ok(SubjectPublicKeyInfoDer::from(key))
}

/// # Errors
/// Returns an error if the message was signed by a different key, or with a scheme that was not offered.
pub(super) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    verify_tls13_signature_with_raw_key(message, &key(certificate)?, signed, algorithms)
}

/// In TLS 1.2 a scheme does not determine the curve (RFC 8422 §5.1.3), so all of its algorithms are tried.
///
/// # Errors
/// Returns an error if the message was signed by a different key, or with a scheme that was not offered.
pub(super) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let schemes = provider.signature_verification_algorithms.mapping;
    let of_scheme = schemes.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let Some((_, algorithms)) = of_scheme else {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    };
    let key = key(certificate)?;
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
        return Err(CertificateError::BadEncoding.into());
    };
    let is_signed =
        |algorithm| key.verify_signature(algorithm, message, signed.signature()).is_ok();
    match algorithms.iter().any(|algorithm| is_signed(*algorithm)) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::tlsa::Tlsa;
    use rustls::crypto::aws_lc_rs;
    use std::time::Duration;

    /// For `mx.example.org`, issued by the other one; both from November 2026 on for ten years.
    const HOST: &[u8] = include_bytes!("../../tests/certificates/host.der");
    const AUTHORITY: &[u8] = include_bytes!("../../tests/certificates/authority.der");
    const IN_TIME: u64 = 1_800_000_000;
    const TOO_LATE: u64 = 2_200_000_000;

    fn whole(usage: u8, certificate: &[u8]) -> Tlsa {
        Tlsa { usage, selector: 0, matching: 0, data: certificate.into() }
    }

    /// What is said of the host's certificate with these others, at this time, by one record.
    fn verdict(record: Tlsa, names: &[&str], chain: &[&[u8]], at: u64) -> Result<(), String> {
        let names = names.iter().map(|name| Arc::from(*name)).collect();
        let dane = Dane(Arc::new(DaneTrust { names, records: vec![record] }));
        let chain: Vec<_> = chain.iter().map(|der| CertificateDer::from(*der)).collect();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(at));
        let host = CertificateDer::from(HOST);
        let verdict = dane.judge(&host, &chain, now, &aws_lc_rs::default_provider());
        verdict.map_err(|error| error.to_string())
    }

    const NAME: &[&str] = &["mx.example.org"];

    #[test]
    fn of_the_hosts_own_certificate_neither_names_nor_times_nor_issuer_count() {
        for (names, at) in [(NAME, IN_TIME), (NAME, TOO_LATE), (&["other.test"][..], IN_TIME)] {
            assert_eq!(verdict(whole(3, HOST), names, &[], at), Ok(()));
        }
        let error = verdict(whole(3, AUTHORITY), NAME, &[AUTHORITY], IN_TIME).unwrap_err();
        assert!(error.contains("TlsaMismatch"), "{error}");
    }

    #[test]
    fn an_authority_vouches_for_names_and_times() {
        let by_authority = || whole(2, AUTHORITY);
        assert_eq!(verdict(by_authority(), NAME, &[AUTHORITY], IN_TIME), Ok(()));
        // The record has all of it: it need not be sent.
        assert_eq!(verdict(by_authority(), NAME, &[], IN_TIME), Ok(()));
        let names = ["end.of.alias.test", "mx.example.org"];
        assert_eq!(verdict(by_authority(), &names, &[AUTHORITY], IN_TIME), Ok(()));
        let late = verdict(by_authority(), NAME, &[AUTHORITY], TOO_LATE).unwrap_err();
        assert!(late.contains("expired"), "{late}");
        let misnamed = verdict(by_authority(), &["other.test"], &[AUTHORITY], IN_TIME).unwrap_err();
        assert!(misnamed.contains("not valid for name \"other.test\""), "{misnamed}");
        // The host's own certificate is no authority.
        assert!(verdict(whole(2, HOST), NAME, &[AUTHORITY], IN_TIME).is_err());
    }

    #[test]
    fn who_merely_sends_an_authoritys_certificate_is_not_issued_by_it() {
        let other = include_bytes!("../../../auth/tests/mx.der");
        let error = verdict(whole(2, other), NAME, &[other, AUTHORITY], IN_TIME).unwrap_err();
        assert!(error.contains("UnknownIssuer"), "{error}");
    }
}
