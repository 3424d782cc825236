//! Keys that sign (RFC 8301 §3, RFC 8463 §3).

use super::signature::Algorithm;
use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use zeroize::Zeroizing;

/// RFC 7468 §2.
const PEM_LINE_BYTES: usize = 64;

/// A private key.
pub struct SigningKey(Pair);

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

/// The reason why a text is not a usable signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// RFC 8301 §3.2: signing keys should have 2,048 bits.
    TooSmall,
    /// It is neither an RSA nor an Ed25519 key.
    Unknown,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyError::TooSmall => "an RSA key with less than 2048 bits",
            KeyError::Unknown => "neither an RSA nor an Ed25519 private key",
        })
    }
}

/// Signing with the key failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigningError;

/// Nobody is shown it.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm().as_str())
    }
}

impl SigningKey {
    /// Parses PKCS #8, or PKCS #1 as older tools write it for RSA.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn from_der(der: &[u8]) -> Result<SigningKey, KeyError> {
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(SigningKey(Pair::Ed25519(Box::new(pair))));
        }
        let mut error = KeyError::Unknown;
        for read in [RsaKeyPair::from_pkcs8(der), RsaKeyPair::from_der(der)] {
            match read {
                Ok(pair) => return Ok(SigningKey(Pair::Rsa(Box::new(pair)))),
                Err(rejected) if rejected.to_string() == "TooSmall" => error = KeyError::TooSmall,
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// Generates a key; RSA keys have 2,048 bits (RFC 8301 §3.2).
    ///
    /// # Errors
    /// If the library fails.
    pub fn generate(algorithm: Algorithm) -> Result<SigningKey, SigningError> {
        let pair = match algorithm {
            Algorithm::RsaSha256 => Pair::Rsa(Box::new(
                RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| SigningError)?,
            )),
            Algorithm::Ed25519Sha256 => {
                Pair::Ed25519(Box::new(Ed25519KeyPair::generate().map_err(|_| SigningError)?))
            }
        };
        Ok(SigningKey(pair))
    }

    /// PKCS #8 in PEM, for protected storage; `None` if the library does not export the key.
    #[must_use]
    pub fn pem(&self) -> Option<Zeroizing<String>> {
        let der: Pkcs8V1Der<'_> = match &self.0 {
            Pair::Rsa(pair) => pair.as_der().ok()?,
            Pair::Ed25519(pair) => pair.as_der().ok()?,
        };
        let text = Zeroizing::new(STANDARD.encode(der.as_ref()));
        let mut pem = Zeroizing::new("-----BEGIN PRIVATE KEY-----\n".to_owned());
        for line in text.as_bytes().chunks(PEM_LINE_BYTES) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END PRIVATE KEY-----\n");
        Some(pem)
    }

    /// The TXT record for verifiers (RFC 6376 §3.6.1, RFC 8463 §4.2); `None` if the library does not export the public
    /// half.
    #[must_use]
    pub fn record(&self) -> Option<String> {
        let (kind, public) = match &self.0 {
            Pair::Rsa(pair) => {
                let der: PublicKeyX509Der<'_> = pair.public_key().as_der().ok()?;
                ("rsa", STANDARD.encode(der.as_ref()))
            }
            Pair::Ed25519(pair) => ("ed25519", STANDARD.encode(pair.public_key().as_ref())),
        };
        Some(format!("v=DKIM1; k={kind}; p={public}"))
    }

    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match &self.0 {
            Pair::Rsa(_) => Algorithm::RsaSha256,
            Pair::Ed25519(_) => Algorithm::Ed25519Sha256,
        }
    }

    /// Signs data.
    pub(crate) fn sign(&self, signed: &[u8]) -> Result<Vec<u8>, SigningError> {
        match &self.0 {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed, &mut signature)
                    .map_err(|_| SigningError)?;
                Ok(signature)
            }
            Pair::Ed25519(pair) => {
                // RFC 8463 §3: the hash is signed.
                let hash = digest::digest(&digest::SHA256, signed);
                Ok(pair.sign(hash.as_ref()).as_ref().to_vec())
            }
        }
    }
}
