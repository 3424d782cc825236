//! SHA-256 in one or more pieces, and keyed hashes.

use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::hmac;

/// Its octets.
pub const DIGEST_BYTES: usize = 32;

/// Gathers a digest.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Sha256 {
        Sha256(Context::new(&SHA256))
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

impl Sha256 {
    /// The next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces.
    #[must_use]
    pub fn finish(self) -> [u8; DIGEST_BYTES] {
        array(self.0.finish().as_ref())
    }
}

/// The digest of octets.
#[must_use]
pub fn sha256(octets: &[u8]) -> [u8; DIGEST_BYTES] {
    array(digest(&SHA256, octets).as_ref())
}

/// The beginning of a hash.
fn array<const N: usize>(hash: &[u8]) -> [u8; N] {
    let mut octets = [0; N];
    octets.iter_mut().zip(hash).for_each(|(octet, found)| *octet = *found);
    octets
}

/// HMAC-SHA-256 of the concatenated parts (RFC 2104 §3: keys have any length).
pub(crate) fn hmac_sha256(key: &[u8], parts: &[impl AsRef<[u8]>]) -> [u8; DIGEST_BYTES] {
    hmac_of(hmac::HMAC_SHA256, key, parts)
}

/// HMAC-SHA-1 of the concatenated parts.
pub(crate) fn hmac_sha1(key: &[u8], parts: &[impl AsRef<[u8]>]) -> [u8; 20] {
    hmac_of(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key, parts)
}

fn hmac_of<const N: usize>(
    algorithm: hmac::Algorithm,
    key: &[u8],
    parts: &[impl AsRef<[u8]>],
) -> [u8; N] {
    let mut hash = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    parts.iter().for_each(|part| hash.update(part.as_ref()));
    array(hash.sign().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_same_digest_as_the_whole() {
        let digest = |pieces: &[&[u8]]| {
            let mut digest = Sha256::default();
            pieces.iter().for_each(|piece| digest.push(piece));
            digest.finish()
        };
        assert_eq!(digest(&[b"ab", b"", b"c"]), digest(&[b"abc"]));
        // FIPS 180-4, example of one block.
        assert_eq!(digest(&[b"abc"])[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(sha256(b"abc"), digest(&[b"abc"]));
    }

    #[test]
    fn hashes_with_a_key_are_those_of_the_rfcs() {
        // RFC 4231 §4.3 and §4.7, RFC 2202 §3 (2 and 6); the last has a key longer than a block.
        let (question, whole) = ([&b"what do ya want "[..], b"for nothing?"], [[0xdd; 50]]);
        assert_eq!(hmac_sha256(b"Jefe", &question)[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(hmac_sha256(&[0xaa; 20], &whole)[..4], [0x77, 0x3e, 0xa9, 0x1e]);
        assert_eq!(hmac_sha1(b"Jefe", &question)[..4], [0xef, 0xfc, 0xdf, 0x6a]);
        let long = [&b"Test Using Larger Than Block-Size Key - Hash Key First"[..]];
        assert_eq!(hmac_sha256(&[0xaa; 131], &long)[..4], [0x60, 0xe4, 0x31, 0x59]);
        assert_eq!(hmac_sha1(&[0xaa; 80], &long)[..4], [0xaa, 0x4a, 0xe5, 0xe1]);
        // A key may be empty.
        assert_eq!(hmac_sha256(b"", &[b""])[..4], [0xb6, 0x13, 0x67, 0x9a]);
    }
}
