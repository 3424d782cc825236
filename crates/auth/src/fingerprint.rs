//! SHA-256 fingerprints of certificates and their keys.

use crate::digest::sha256;
use crate::tlsa::public_key;
use std::fmt;

/// A SHA-256; shown in hexadecimal digits, as `openssl x509 -fingerprint -sha256` has it without colons
/// and in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a certificate (DER).
    #[must_use]
    pub fn of(certificate: &[u8]) -> Fingerprint {
        Fingerprint(sha256(certificate))
    }

    /// Of the key in a certificate (its SubjectPublicKeyInfo), which stays when the certificate is
    /// renewed. `None`: that is no certificate.
    #[must_use]
    pub fn of_key(certificate: &[u8]) -> Option<Fingerprint> {
        public_key(certificate).map(Fingerprint::of)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_that_openssl_shows() {
        let certificate = include_bytes!("../tests/mx.der");
        let shown = Fingerprint::of(certificate).to_string();
        assert_eq!(shown.len(), 64);
        assert_eq!(Fingerprint::of(b"").to_string()[..8], *"e3b0c442");
        assert_ne!(Fingerprint::of_key(certificate), Some(Fingerprint::of(certificate)));
        assert_eq!(Fingerprint::of_key(b"x"), None);
    }
}
