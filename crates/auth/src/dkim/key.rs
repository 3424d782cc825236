//! Public keys as the DNS has them (RFC 6376 §3.6.1).

use super::signature::{Algorithm, decoded};
use crate::tags::{Tags, listed};
use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ED25519, ParsedPublicKey, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as RSA,
};

/// A key that signatures are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    algorithm: Algorithm,
    bytes: Vec<u8>,
    /// `t=s`: the agent's domain must be that of the key.
    pub(crate) is_strict: bool,
    /// `t=y`: the domain is testing.
    pub(crate) is_testing: bool,
}

impl Key {
    /// The key among the TXT records of its name.
    pub(crate) fn find(records: &[Vec<u8>]) -> Result<Key, &'static str> {
        let mut mistake = "there is no key";
        for record in records {
            match Key::parse(record) {
                Ok(key) => return Ok(key),
                Err(wrong) => mistake = wrong,
            }
        }
        Err(mistake)
    }

    pub(crate) fn is_rsa(&self) -> bool {
        self.algorithm == Algorithm::RsaSha256
    }

    /// As the record has it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn parse(record: &[u8]) -> Result<Key, &'static str> {
        let text = std::str::from_utf8(record).map_err(|_| "the key record is not UTF-8")?;
        let tags = Tags::parse(text).ok_or("the key record is not a list of tags")?;
        let is_version = match tags.get("v") {
            Some(version) => version == "DKIM1" && tags.first().is_some_and(|(tag, _)| tag == "v"),
            None => true,
        };
        if !is_version {
            return Err("the key record is not version DKIM1");
        }
        let algorithm = match tags.get("k").unwrap_or("rsa") {
            "rsa" => Algorithm::RsaSha256,
            "ed25519" => Algorithm::Ed25519Sha256,
            _ => return Err("the key is of a kind that is not known"),
        };
        if !listed(tags.get("h").unwrap_or("sha256")).any(|hash| hash == "sha256") {
            return Err("the key is not for SHA-256");
        }
        if !listed(tags.get("s").unwrap_or("*")).any(|service| matches!(service, "*" | "email")) {
            return Err("the key is not for mail");
        }
        let bytes = match tags.get("p") {
            None => return Err("the key record has no key"),
            Some("") => return Err("the key was revoked"),
            Some(text) => decoded(text).ok_or("the key is not base64")?,
        };
        let has_flag =
            |wanted| listed(tags.get("t").unwrap_or_default()).any(|flag| flag == wanted);
        let (is_strict, is_testing) = (has_flag("s"), has_flag("y"));
        Ok(Key { algorithm, bytes, is_strict, is_testing })
    }

    /// Whether it made this signature of `signed`.
    ///
    /// # Errors
    /// When it is no key for the algorithm.
    pub(crate) fn verify(
        &self,
        algorithm: Algorithm,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<bool, &'static str> {
        if self.algorithm != algorithm {
            return Err("the key is of another kind than the signature");
        }
        match algorithm {
            Algorithm::RsaSha256 => {
                // RFC 8301 §3.2: from 1,024 bits on.
                let key = ParsedPublicKey::new(&RSA, &self.bytes)
                    .map_err(|_| "the key is no RSA key of 1,024 to 8,192 bits")?;
                Ok(key.verify_sig(signed, signature).is_ok())
            }
            Algorithm::Ed25519Sha256 => {
                // RFC 8463 §3: what is signed is the hash.
                let hash = digest::digest(&digest::SHA256, signed);
                let key = ParsedPublicKey::new(&ED25519, &self.bytes)
                    .map_err(|_| "the key is no Ed25519 key")?;
                Ok(key.verify_sig(hash.as_ref(), signature).is_ok())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_what_is_none() {
        let good = b"v=DKIM1; k=ed25519; p=MCowBQ==; t=y:s".to_vec();
        let key = Key::find(&[b"something else".to_vec(), good]).unwrap();
        assert!(key.is_strict && key.is_testing && key.algorithm == Algorithm::Ed25519Sha256);
        assert!(key.verify(Algorithm::RsaSha256, b"", b"").is_err());
        assert!(key.verify(Algorithm::Ed25519Sha256, b"", b"").is_err());
        for bad in [
            "v=DKIM2; p=YQ==",
            "p=YQ==; v=DKIM1",
            "k=dsa; p=YQ==",
            "h=sha1; p=YQ==",
            "s=chat; p=YQ==",
            "v=DKIM1",
            "p=",
            "p=!",
        ] {
            assert!(Key::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(Key::find(&[]), Err("there is no key"));
    }
}
