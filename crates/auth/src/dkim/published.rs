//! Checks of the DNS records of a signing key.

use super::key::VerificationKey;
use super::private_key::SigningKey;
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt;

/// Errors in the records of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFinding {
    /// No TXT record exists.
    Missing,
    /// Several records exist, and verifiers cannot choose (RFC 6376 §3.6.2.2).
    Several,
    /// The record is not a usable key, with the reason.
    Malformed(&'static str),
    /// It is another key.
    Differs,
    /// `t=y`: signed mail counts as unsigned (RFC 6376 §3.6.1).
    Testing,
    /// An RSA key of less than 2,048 bits, which some verifiers ignore (RFC 8301 §3.2).
    Short,
}

impl fmt::Display for KeyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyFinding::Missing => "no record",
            KeyFinding::Several => "more than one record",
            KeyFinding::Malformed(why) => why,
            KeyFinding::Differs => "the record has another key",
            KeyFinding::Testing => "t=y marks a test: remove it",
            KeyFinding::Short => "the record's RSA key has less than 2048 bits",
        })
    }
}

/// Minimum length of a SubjectPublicKeyInfo with an RSA key of 2,048 bits.
const RSA_2048_BYTES: usize = 290;

/// Errors in the TXT records that publish a key; empty without errors.
#[must_use]
pub fn findings(records: &[Vec<u8>], ours: &SigningKey) -> Vec<KeyFinding> {
    let key = match records {
        [] => return vec![KeyFinding::Missing],
        [_] => VerificationKey::find(records),
        _ => return vec![KeyFinding::Several],
    };
    let key = match key {
        Ok(key) => key,
        Err(why) => return vec![KeyFinding::Malformed(why)],
    };
    let mut findings = Vec::new();
    if key.is_rsa() && key.bytes().len() < RSA_2048_BYTES {
        findings.push(KeyFinding::Short);
    }
    // Tests by a signature, which is independent of the record's form.
    let probe = b"probe";
    let signature = ours.sign(probe).unwrap_or_default();
    match key.verify(ours.algorithm(), &digest(&SHA256, probe), &signature) {
        Ok(true) => {}
        Ok(false) => findings.push(KeyFinding::Differs),
        Err(why) => findings.push(KeyFinding::Malformed(why)),
    }
    findings.extend(key.is_testing.then_some(KeyFinding::Testing));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dkim::Algorithm;

    #[test]
    fn records_are_held_against_the_key() {
        for algorithm in [Algorithm::RsaSha256, Algorithm::Ed25519Sha256] {
            let ours = SigningKey::generate(algorithm).unwrap();
            let record = ours.record().unwrap();
            let found = |records: &[&str]| {
                let records: Vec<Vec<u8>> = records.iter().map(|r| r.as_bytes().to_vec()).collect();
                findings(&records, &ours)
            };
            assert_eq!(found(&[&record]), []);
            assert_eq!(found(&[]), [KeyFinding::Missing]);
            assert_eq!(found(&[&record, "v=spf1 -all"]), [KeyFinding::Several]);
            assert_eq!(found(&[&format!("{record}; t=y")]), [KeyFinding::Testing]);
            assert!(matches!(found(&["v=DKIM1; p="])[..], [KeyFinding::Malformed(_)]));
            let other = SigningKey::generate(algorithm).unwrap().record().unwrap();
            assert_eq!(found(&[&other]), [KeyFinding::Differs]);
        }
        let short = "v=DKIM1; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDwIRP/UC3SBsEmGqZ9ZJW3/DkMoGeLnQg1fWn7/zYtIxN2SnFCjxOCKG9v3b4jYfcTNh5ijSsq631uBItLa7od+v/RtdC2UzJ1lWT947qR+Rcac2gbto/NMqJ0fzfVjH4OuKhitdY9tf6mcwGjaNBcWToIMmPSPDdQPNUYckcQ2QIDAQAB";
        let ours = SigningKey::generate(Algorithm::RsaSha256).unwrap();
        assert_eq!(findings(&[short.into()], &ours), [KeyFinding::Short, KeyFinding::Differs]);
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        use base64::Engine as _;
        for algorithm in [Algorithm::RsaSha256, Algorithm::Ed25519Sha256] {
            let key = SigningKey::generate(algorithm).unwrap();
            let pem = key.pem().unwrap();
            assert!(pem.lines().all(|line| line.len() <= 64), "{algorithm:?}");
            let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
            let der = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
            assert_eq!(SigningKey::from_der(&der).unwrap().record(), key.record());
        }
    }
}
