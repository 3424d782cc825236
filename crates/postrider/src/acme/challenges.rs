//! What an authority is answered, for as long as it asks.

use crate::crypto;
use crate::mutex::lock;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Characters of a token: RFC 8555 §8.1 asks for 22 at least, and names no most.
const TOKEN_MAX: usize = 256;

/// What is begun with for a session of this protocol (RFC 8737 §3).
pub(super) const ALPN: &[u8] = b"acme-tls/1";

/// The answers that stand now.
#[derive(Clone, Debug, Default)]
pub(super) struct Challenges(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    /// By token.
    pages: BTreeMap<String, String>,
    /// By the name that is asked for.
    certificates: BTreeMap<String, Arc<CertifiedKey>>,
}

/// An answer, which stands until this is dropped.
#[must_use]
#[derive(Debug)]
pub(super) struct PublishedChallenge {
    challenges: Challenges,
    key: String,
}

impl Challenges {
    /// Answers who asks for this token over HTTP (RFC 8555 §8.3).
    ///
    /// # Errors
    /// It is none.
    pub(super) fn page(&self, token: &str, text: &str) -> Result<PublishedChallenge, String> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || token.len() > TOKEN_MAX || !token.bytes().all(is_known) {
            return Err("the authority sent an invalid token".to_owned());
        }
        lock(&self.0).pages.insert(token.to_owned(), text.to_owned());
        Ok(PublishedChallenge { challenges: self.clone(), key: token.to_owned() })
    }

    /// Answers who asks for this name by [`ALPN`], with the digest of what is to be shown.
    ///
    /// # Errors
    /// No certificate can be made of it.
    pub(super) fn certificate(
        &self,
        name: &str,
        digest: &[u8],
    ) -> Result<PublishedChallenge, String> {
        let key = certificate(name, digest)?;
        lock(&self.0).certificates.insert(name.to_owned(), Arc::new(key));
        Ok(PublishedChallenge { challenges: self.clone(), key: name.to_owned() })
    }

    /// The page of a token.
    pub(super) fn page_of(&self, token: &str) -> Option<String> {
        lock(&self.0).pages.get(token).cloned()
    }
}

impl Drop for PublishedChallenge {
    fn drop(&mut self) {
        let mut answers = lock(&self.challenges.0);
        answers.pages.remove(&self.key);
        answers.certificates.remove(&self.key);
    }
}

/// Nobody is shown anything who doesn't ask by that protocol alone, for a name that is asked about.
impl ResolvesServerCert for Challenges {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn()?;
        if protocols.next() != Some(ALPN) || protocols.next().is_some() {
            return None;
        }
        let name = hello.server_name()?.to_ascii_lowercase();
        lock(&self.0).certificates.get(&name).cloned()
    }
}

/// RFC 8737 §3: signed by itself, for the name alone, with the digest in a critical extension.
fn certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    if digest.len() != 32 {
        return Err("no SHA-256 digest".to_owned());
    }
    let made = || {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der())))
    };
    let (certificate, key) = made().map_err(|error: rcgen::Error| error.to_string())?;
    // The check that key and certificate belong together knows no such critical extension.
    let key = crypto::provider().key_provider.load_private_key(PrivateKeyDer::Pkcs8(key));
    let key = key.map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(vec![certificate], key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_cert::Certificate;
    use x509_cert::der::Decode as _;
    use x509_cert::der::oid::ObjectIdentifier;

    #[test]
    fn an_answer_stands_until_it_is_dropped() {
        let challenges = Challenges::default();
        let standing = challenges.page("abc-_1", "abc-_1.thumb").unwrap();
        assert_eq!(challenges.page_of("abc-_1").as_deref(), Some("abc-_1.thumb"));
        assert_eq!(challenges.page_of("abc"), None);
        drop(standing);
        assert_eq!(challenges.page_of("abc-_1"), None);
        for token in ["", "../x", "a/b", "a b", "ä", "a\r\nb", &"x".repeat(TOKEN_MAX + 1)] {
            assert!(challenges.page(token, "x").is_err(), "{token}");
        }
        assert!(challenges.page(&"x".repeat(TOKEN_MAX), "x").is_ok());
    }

    #[test]
    fn the_certificate_of_a_challenge_is_as_rfc_8737_asks() {
        let key = certificate("mx.test", &[7; 32]).unwrap();
        let parsed = Certificate::from_der(&key.cert[0]).unwrap();
        let extensions = parsed.tbs_certificate().extensions().unwrap();
        // §6.1: id-pe-acmeIdentifier.
        let oid = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.31");
        let found = extensions.iter().find(|extension| extension.extn_id == oid).unwrap();
        assert!(found.critical);
        assert_eq!(found.extn_value.as_bytes(), [&[4, 32][..], &[7; 32]].concat());
        assert!(certificate("mx.test", &[7; 31]).is_err());
    }
}
