//! SHA-256 of what comes in pieces.

use aws_lc_rs::digest::{Context, SHA256};

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
        let digest = self.0.finish();
        let mut octets = [0; DIGEST_BYTES];
        for (octet, found) in octets.iter_mut().zip(digest.as_ref()) {
            *octet = *found;
        }
        octets
    }
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
    }
}
