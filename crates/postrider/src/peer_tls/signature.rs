//! That a peer has the key of its certificate, whatever else that says: rustls would have a certificate of X.509
//! version 3 for it, but a TLSA record may be about any (RFC 7672 §3.1.1).

use auth::tlsa;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use webpki::RawPublicKeyEntity;

fn key<'a>(certificate: &'a CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    let key = tlsa::public_key(certificate).ok_or(CertificateError::BadEncoding)?;
    Ok(SubjectPublicKeyInfoDer::from(key))
}

/// # Errors
/// The message was signed by another key, or in a way that was not offered.
pub(super) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    verify_tls13_signature_with_raw_key(message, &key(certificate)?, signed, algorithms)
}

/// In TLS 1.2 a scheme says nothing of the curve (RFC 8422 §5.1.3): all of its algorithms are tried.
///
/// # Errors
/// The message was signed by another key, or in a way that was not offered.
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
