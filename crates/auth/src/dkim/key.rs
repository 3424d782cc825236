//! Public keys in the DNS (RFC 6376 §3.6.1).

use super::signature::{Algorithm, decoded};
use crate::der::{BIT_STRING, INTEGER, SEQUENCE, element};
use crate::tags::{Tags, listed};
use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{
    ED25519, ParsedPublicKey, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as RSA,
};

/// RFC 8301 §3.2: verifiers accept keys of 1,024 to 4,096 bits. Larger keys are not worth their cost.
const RSA_BITS: std::ops::RangeInclusive<u32> = 1_024..=4_096;
/// Accepted exponents: each further bit is one more multiplication, chosen by the signer.
const RSA_EXPONENTS: std::ops::RangeInclusive<u64> = 3..=65_537;
/// Cost of a verification with an Ed25519 key, in units of [`crate::together::WorkBudget`].
const ED25519_COST: u32 = 5;

/// A key that signatures are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerificationKey {
    algorithm: Algorithm,
    bytes: Vec<u8>,
    /// `t=s`: the agent's domain must equal the key's domain.
    pub(crate) is_strict: bool,
    /// `t=y`: the domain is testing.
    pub(crate) is_testing: bool,
}

impl VerificationKey {
    /// Finds the key in the TXT records of its name.
    pub(crate) fn find(records: &[Vec<u8>]) -> Result<VerificationKey, &'static str> {
        let mut mistake = "no key record";
        for record in records {
            match VerificationKey::parse(record) {
                Ok(key) => return Ok(key),
                Err(wrong) => mistake = wrong,
            }
        }
        Err(mistake)
    }

    pub(crate) fn is_rsa(&self) -> bool {
        self.algorithm == Algorithm::RsaSha256
    }

    /// The key data in the record.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn parse(record: &[u8]) -> Result<VerificationKey, &'static str> {
        let text = std::str::from_utf8(record).map_err(|_| "the key record is not UTF-8")?;
        let tags = Tags::parse(text).ok_or("the key record is not a tag list")?;
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
            _ => return Err("the key type is unknown"),
        };
        if !listed(tags.get("h").unwrap_or("sha256")).any(|hash| hash == "sha256") {
            return Err("the key is not valid for SHA-256");
        }
        if !listed(tags.get("s").unwrap_or("*")).any(|service| matches!(service, "*" | "email")) {
            return Err("the key is not valid for mail");
        }
        let bytes = match tags.get("p") {
            None => return Err("the key record has no key"),
            Some("") => return Err("the key was revoked"),
            Some(text) => decoded(text).ok_or("the key is not base64")?,
        };
        let has_flag =
            |wanted| listed(tags.get("t").unwrap_or_default()).any(|flag| flag == wanted);
        let (is_strict, is_testing) = (has_flag("s"), has_flag("y"));
        Ok(VerificationKey { algorithm, bytes, is_strict, is_testing })
    }

    /// Cost of a verification, in units of [`crate::together::WorkBudget`]. For RSA it is proportional to the square
    /// of the key's length.
    pub(crate) fn cost(&self) -> u32 {
        match self.algorithm {
            Algorithm::RsaSha256 => {
                let bits = rsa_numbers(&self.bytes).map_or(0, |(bits, _)| bits);
                bits.min(*RSA_BITS.end()).pow(2).div_ceil(1 << 20).max(1)
            }
            Algorithm::Ed25519Sha256 => ED25519_COST,
        }
    }

    /// Returns true if the key made this signature over data with this hash (SHA-256).
    ///
    /// # Errors
    /// Returns an error if the key does not fit the algorithm.
    pub(crate) fn verify(
        &self,
        algorithm: Algorithm,
        hash: &Digest,
        signature: &[u8],
    ) -> Result<bool, &'static str> {
        if self.algorithm != algorithm {
            return Err("key type and signature algorithm differ");
        }
        match algorithm {
            Algorithm::RsaSha256 => {
                let no_key = "not an RSA key of 1,024 to 4,096 bits";
                let (bits, exponent) = rsa_numbers(&self.bytes).ok_or(no_key)?;
                if !RSA_BITS.contains(&bits) {
                    return Err(no_key);
                }
                if exponent.is_none_or(|exponent| !RSA_EXPONENTS.contains(&exponent)) {
                    return Err("the RSA exponent is not between 3 and 65,537");
                }
                let key = ParsedPublicKey::new(&RSA, &self.bytes).map_err(|_| no_key)?;
                Ok(key.verify_digest_sig(hash, signature).is_ok())
            }
            Algorithm::Ed25519Sha256 => {
                // RFC 8463 §3: the hash is signed.
                let key = ParsedPublicKey::new(&ED25519, &self.bytes)
                    .map_err(|_| "not an Ed25519 key")?;
                Ok(key.verify_sig(hash.as_ref(), signature).is_ok())
            }
        }
    }
}

/// The bits of the modulus and the exponent of an RSA key, as SubjectPublicKeyInfo (RFC 5280 §4.1) or bare (RFC 8017
/// §A.1.1). The exponent is `None` if it has more than 64 bits.
fn rsa_numbers(der: &[u8]) -> Option<(u32, Option<u64>)> {
    let within = |tag: u8, bytes| element(bytes).filter(|(found, _)| found.tag == tag);
    let (outer, _) = within(SEQUENCE, der)?;
    let numbers = match within(SEQUENCE, outer.content) {
        Some((_, rest)) => {
            let (bits, _) = within(BIT_STRING, rest)?;
            // The first octet counts unused bits.
            within(SEQUENCE, bits.content.get(1..)?)?.0.content
        }
        None => outer.content,
    };
    let (modulus, rest) = within(INTEGER, numbers)?;
    let (exponent, _) = within(INTEGER, rest)?;
    let bits = bits_of(modulus.content)?;
    let exponent = (bits_of(exponent.content)? <= u64::BITS).then(|| {
        exponent.content.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    });
    Some((bits, exponent))
}

/// The number of bits of a positive number.
fn bits_of(integer: &[u8]) -> Option<u32> {
    let start = integer.iter().position(|byte| *byte != 0)?;
    let digits = integer.get(start..)?;
    let bits = u32::try_from(digits.len()).ok()?.checked_mul(8)?;
    Some(bits - digits.first()?.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::digest::{SHA256, digest};

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let head = match (high, low) {
            (0, ..0x80) => vec![tag, low],
            (0, _) => vec![tag, 0x81, low],
            _ => vec![tag, 0x82, high, low],
        };
        [&head, content].concat()
    }

    /// An RSA key with such a modulus and exponent, as it is published; and by itself.
    fn rsa(bits: u32, exponent: &[u8]) -> [Vec<u8>; 2] {
        let mut modulus = vec![0x5b; (bits / 8) as usize];
        modulus[0] = 0x80;
        let modulus = der(INTEGER, &[&[0], &modulus[..]].concat());
        let numbers = der(SEQUENCE, &[modulus, der(INTEGER, exponent)].concat());
        let algorithm = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
        let bits = der(BIT_STRING, &[&[0], &numbers[..]].concat());
        [der(SEQUENCE, &[&algorithm[..], &bits].concat()), numbers]
    }

    #[test]
    fn rsa_keys_have_a_bound_in_bits_and_exponent() {
        let hash = digest(&SHA256, b"");
        let verify = |bits, exponent: &[u8]| {
            rsa(bits, exponent).map(|bytes| {
                let algorithm = Algorithm::RsaSha256;
                let key = VerificationKey { algorithm, bytes, is_strict: false, is_testing: false };
                key.verify(algorithm, &hash, &[1; 128]).map_err(|why| why.contains("exponent"))
            })
        };
        let usual = &[1, 0, 1][..];
        for bits in [1_024, 2_048, 4_096] {
            assert_eq!(verify(bits, usual), [Ok(false); 2], "{bits}");
        }
        for bits in [1_016, 4_104, 8_192] {
            assert_eq!(verify(bits, usual), [Err(false); 2], "{bits}");
        }
        for good in [&[3][..], &[17], &[0, 0x81], usual] {
            assert_eq!(verify(2_048, good), [Ok(false); 2], "{good:?}");
        }
        for bad in
            [&[1][..], &[0], &[2], &[1, 0, 3], &[2, 0, 0, 0, 1], &[1, 0, 0, 0, 0, 0, 0, 0, 1]]
        {
            let found = verify(2_048, bad);
            assert!(found.iter().all(Result::is_err), "{bad:?}: {found:?}");
        }
        let cost = |bits| {
            let [bytes, _] = rsa(bits, usual);
            let algorithm = Algorithm::RsaSha256;
            VerificationKey { algorithm, bytes, is_strict: false, is_testing: false }.cost()
        };
        assert_eq!([1_024, 2_048, 3_072, 4_096, 8_192].map(cost), [1, 4, 9, 16, 16]);
        for cut in 0..rsa(1_024, usual)[0].len() {
            let _ = rsa_numbers(&rsa(1_024, usual)[0][..cut]);
        }
    }

    #[test]
    fn keys_are_told_from_what_is_none() {
        let good = b"v=DKIM1; k=ed25519; p=MCowBQ==; t=y:s".to_vec();
        let key = VerificationKey::find(&[b"something else".to_vec(), good]).unwrap();
        assert!(key.is_strict && key.is_testing && key.algorithm == Algorithm::Ed25519Sha256);
        let hash = digest(&SHA256, b"");
        assert!(key.verify(Algorithm::RsaSha256, &hash, b"").is_err());
        assert!(key.verify(Algorithm::Ed25519Sha256, &hash, b"").is_err());
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
            assert!(VerificationKey::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(VerificationKey::find(&[]), Err("no key record"));
    }
}
