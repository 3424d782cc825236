//! TLSA records: DNS associations of certificates with hosts (RFC 6698, for mail RFC 7672).

use crate::der::{SEQUENCE, element};
use aws_lc_rs::digest::{SHA256, SHA512, digest};

/// Maximum number of records used for one name, in order of arrival.
pub const RECORDS_MAX: usize = 32;

/// Octets of a record's data that are looked at: a certificate as it is fits, and is hardly ever
/// published.
pub const DATA_BYTES_MAX: usize = 8_192;

/// DANE-TA: the certificate of an authority, which the host's chain must lead to.
const TRUST_ANCHOR: u8 = 2;
/// DANE-EE: the certificate of the host.
const END_ENTITY: u8 = 3;
const WHOLE_CERTIFICATE: u8 = 0;
const PUBLIC_KEY: u8 = 1;
const AS_IT_IS: u8 = 0;
const SHA_256: u8 = 1;
const SHA_512: u8 = 2;

/// An association with a host (RFC 6698 §2.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tlsa {
    /// Certificate usage.
    pub usage: u8,
    /// Selector.
    pub selector: u8,
    /// Matching type.
    pub matching: u8,
    pub data: Box<[u8]>,
}

impl Tlsa {
    /// It is of a kind that mail is authenticated by, and whole. RFC 7672 §3.1.3: usages 0 and 1 are
    /// not.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let length = self.data.len();
        let is_whole = match self.matching {
            AS_IT_IS => (1..=DATA_BYTES_MAX).contains(&length),
            SHA_256 => length == 32,
            SHA_512 => length == 64,
            _ => false,
        };
        let is_known = matches!(self.usage, TRUST_ANCHOR | END_ENTITY)
            && matches!(self.selector, WHOLE_CERTIFICATE | PUBLIC_KEY);
        is_known && is_whole
    }

    /// It is about the host's own certificate.
    #[must_use]
    pub fn is_end_entity(&self) -> bool {
        self.usage == END_ENTITY
    }

    /// It is about an authority above the host's certificate.
    #[must_use]
    pub fn is_trust_anchor(&self) -> bool {
        self.usage == TRUST_ANCHOR
    }

    /// The authority's whole certificate, if the record has that: hosts need not send it (RFC 7672
    /// §3.1.2).
    #[must_use]
    pub fn anchor(&self) -> Option<&[u8]> {
        let has_it = self.is_trust_anchor()
            && self.selector == WHOLE_CERTIFICATE
            && self.matching == AS_IT_IS;
        has_it.then_some(&*self.data)
    }

    /// Returns true if the record matches this certificate (DER), whatever its position in the chain.
    #[must_use]
    pub fn matches(&self, certificate: &[u8]) -> bool {
        let part = match self.selector {
            WHOLE_CERTIFICATE => Some(certificate),
            PUBLIC_KEY => public_key(certificate),
            _ => None,
        };
        let Some(part) = part else { return false };
        match self.matching {
            AS_IT_IS => part == &*self.data,
            SHA_256 => digest(&SHA256, part).as_ref() == &*self.data,
            SHA_512 => digest(&SHA512, part).as_ref() == &*self.data,
            _ => false,
        }
    }
}

/// Those by which a host can be authenticated, in an order of their own. Of records that differ in the
/// digest only the strongest counts (RFC 7671 §9).
#[must_use]
pub fn usable(mut records: Vec<Tlsa>) -> Vec<Tlsa> {
    records.truncate(RECORDS_MAX);
    records.retain(Tlsa::is_usable);
    records.sort();
    records.dedup();
    let strongest = |of: &Tlsa| {
        let like = |other: &&Tlsa| (other.usage, other.selector) == (of.usage, of.selector);
        records.iter().filter(like).map(|other| other.matching).max()
    };
    let counts =
        |record: &&Tlsa| record.matching == AS_IT_IS || Some(record.matching) == strongest(record);
    records.iter().filter(counts).cloned().collect()
}

/// The SubjectPublicKeyInfo of a certificate (RFC 5280 §4.1), as encoded; `None` if it is not a certificate.
#[must_use]
pub fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    const VERSION: u8 = 0xa0;
    let (outer, _) = element(certificate)?;
    let (tbs, _) = element(outer.content)?;
    let mut rest = tbs.content;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.1;
    }
    // Serial number, signature, issuer, validity, subject.
    for _ in 0..5 {
        rest = element(rest)?.1;
    }
    let (key, _) = element(rest)?;
    (outer.tag == SEQUENCE && tbs.tag == SEQUENCE && key.tag == SEQUENCE).then_some(key.whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of `openssl req -x509 -newkey ed25519 -subj /CN=mx.example.org`.
    const CERTIFICATE: &[u8] = include_bytes!("../tests/mx.der");
    /// The same certificate's key, by `openssl x509 -pubkey | openssl pkey -pubin -outform DER`.
    const KEY: &[u8] = include_bytes!("../tests/mx.spki.der");

    fn record(usage: u8, selector: u8, matching: u8, data: &[u8]) -> Tlsa {
        Tlsa { usage, selector, matching, data: data.into() }
    }

    fn made_of(matching: u8, part: &[u8]) -> Vec<u8> {
        match matching {
            0 => part.to_vec(),
            1 => digest(&SHA256, part).as_ref().to_vec(),
            _ => digest(&SHA512, part).as_ref().to_vec(),
        }
    }

    #[test]
    fn each_selector_and_matching_type_matches_its_own_part_only() {
        assert_eq!(public_key(CERTIFICATE), Some(KEY));
        for usage in [2, 3] {
            for (selector, part, other) in [(0, CERTIFICATE, KEY), (1, KEY, CERTIFICATE)] {
                for matching in 0..=2 {
                    let data = made_of(matching, part);
                    let good = record(usage, selector, matching, &data);
                    assert!(good.is_usable() && good.matches(CERTIFICATE), "{good:?}");
                    let wrong = record(usage, selector, matching, &made_of(matching, other));
                    assert!(!wrong.matches(CERTIFICATE), "{wrong:?}");
                    let mut bytes = data.clone();
                    bytes[0] ^= 1;
                    assert!(!record(usage, selector, matching, &bytes).matches(CERTIFICATE));
                    let short = record(usage, selector, matching, &data[..data.len() - 1]);
                    assert!(!short.matches(CERTIFICATE), "{short:?}");
                }
            }
        }
    }

    #[test]
    fn what_mail_is_not_authenticated_by_is_unusable() {
        let digest = made_of(1, KEY);
        assert!(record(3, 1, 1, &digest).is_usable());
        for (usage, selector, matching) in
            [(0, 1, 1), (1, 1, 1), (4, 1, 1), (255, 1, 1), (3, 2, 1), (3, 255, 1), (3, 1, 3)]
        {
            let odd = record(usage, selector, matching, &digest);
            assert!(!odd.is_usable(), "{odd:?}");
        }
        for (matching, length) in
            [(0, 0), (0, DATA_BYTES_MAX + 1), (1, 31), (1, 33), (1, 0), (2, 32), (2, 65)]
        {
            assert!(!record(3, 1, matching, &vec![7; length]).is_usable(), "{matching} {length}");
        }
        assert!(record(3, 0, 0, &vec![7; DATA_BYTES_MAX]).is_usable());
    }

    #[test]
    fn the_strongest_digest_counts_and_no_more_than_so_many_records() {
        let (weak, strong) = (record(3, 1, 1, &[1; 32]), record(3, 1, 2, &[2; 64]));
        let (whole, other) = (record(3, 1, 0, &[3; 9]), record(2, 1, 1, &[4; 32]));
        let all = vec![weak, strong.clone(), whole.clone(), other.clone(), strong.clone()];
        assert_eq!(usable(all), [other, whole, strong]);
        let many = (0..=RECORDS_MAX as u8).map(|n| record(3, 1, 1, &[n; 32]));
        assert_eq!(usable(many.collect()).len(), RECORDS_MAX);
    }

    #[test]
    fn an_authoritys_certificate_is_had_from_a_record_that_has_all_of_it() {
        assert_eq!(record(2, 0, 0, CERTIFICATE).anchor(), Some(CERTIFICATE));
        for (usage, selector, matching) in [(3, 0, 0), (2, 1, 0), (2, 0, 1)] {
            assert_eq!(record(usage, selector, matching, CERTIFICATE).anchor(), None);
        }
    }

    proptest! {
        #[test]
        fn no_octets_of_a_peer_are_too_odd(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            cut in 0..CERTIFICATE.len(),
            at in 0..CERTIFICATE.len(),
            octet in any::<u8>(),
        ) {
            let any = record(3, 1, 1, &[0; 32]);
            prop_assert!(!any.matches(&bytes));
            prop_assert!(!any.matches(&CERTIFICATE[..cut]));
            let mut changed = CERTIFICATE.to_vec();
            changed[at] = octet;
            prop_assert!(!any.matches(&changed));
        }
    }
}
