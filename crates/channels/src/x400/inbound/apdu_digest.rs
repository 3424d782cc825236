//! By what an APDU is known that is sent again.

use auth::digest::{DIGEST_BYTES, Sha256};

/// So many octets of its front are hashed so that nobody finds another with the same hash: the envelope's beginning
/// is there, and its identifier.
const FRONT_BYTES: usize = 8 * 1024;

/// Gathers the digest of an APDU: SHA-256 over its front, the CRC-32C of what follows, and its length. Two messages
/// of one MTA differ in their identifiers, so a whole hash over ten megabytes would tell nothing more.
#[derive(Debug, Default)]
pub(super) struct ApduDigest {
    front: Sha256,
    rest: u32,
    bytes: u64,
}

impl ApduDigest {
    /// The next piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let before = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let at = FRONT_BYTES.saturating_sub(before).min(piece.len());
        let (front, rest) = piece.split_at(at);
        if !front.is_empty() {
            self.front.push(front);
        }
        if !rest.is_empty() {
            self.rest = crc32c::crc32c_append(self.rest, rest);
        }
        self.bytes += piece.len() as u64;
    }

    /// The digest of all pieces.
    pub(super) fn finish(mut self) -> [u8; DIGEST_BYTES] {
        self.front.push(&self.rest.to_be_bytes());
        self.front.push(&self.bytes.to_be_bytes());
        self.front.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(octets: &[u8], step: usize) -> [u8; DIGEST_BYTES] {
        let mut digest = ApduDigest::default();
        octets.chunks(step).for_each(|piece| digest.push(piece));
        digest.finish()
    }

    #[test]
    fn every_octet_and_the_length_count_however_it_comes() {
        let octets: Vec<u8> = (0..FRONT_BYTES + 1_000).map(|n| (n % 251) as u8).collect();
        let whole = digest(&octets, octets.len());
        for step in [1, 1_000, FRONT_BYTES - 1, FRONT_BYTES, FRONT_BYTES + 1] {
            assert_eq!(digest(&octets, step), whole, "{step}");
        }
        for at in [0, FRONT_BYTES - 1, FRONT_BYTES, octets.len() - 1] {
            let mut other = octets.clone();
            other[at] ^= 1;
            assert_ne!(digest(&other, 4_096), whole, "{at}");
        }
        for length in [FRONT_BYTES, FRONT_BYTES + 999] {
            assert_ne!(digest(&octets[..length], 4_096), whole, "{length}");
        }
        // A front alone is not the same as with what is hashed behind it.
        assert_ne!(digest(&[], 1), digest(&[0; 12], 12));
    }
}
