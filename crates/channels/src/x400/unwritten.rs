//! What is to be written on a connection.

use bytes::{Buf as _, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Pieces of one write; the kernel takes 1,024 (IOV_MAX).
const PIECES_MAX: usize = 256;

/// Pieces that wait to be written, in their order.
#[derive(Debug, Default)]
pub(super) struct Unwritten(VecDeque<Bytes>);

impl Unwritten {
    pub(super) fn extend(&mut self, pieces: impl IntoIterator<Item = Bytes>) {
        self.0.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What one write may take.
    pub(super) fn slices(&self) -> Vec<IoSlice<'_>> {
        self.0.iter().take(PIECES_MAX).map(|piece| IoSlice::new(piece)).collect()
    }

    /// So many octets are written.
    pub(super) fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.0.front_mut() {
            if count < first.len() {
                return first.advance(count);
            }
            count -= first.len();
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_forgotten_wherever_a_write_ended() {
        for step in 1..8 {
            let mut unwritten = Unwritten::default();
            unwritten.extend([&b"ab"[..], b"", b"cde", b"f"].map(Bytes::from_static));
            let mut seen = Vec::new();
            while !unwritten.is_empty() {
                let next: Vec<u8> =
                    unwritten.slices().iter().flat_map(|slice| slice.to_vec()).take(step).collect();
                unwritten.advance(next.len());
                seen.extend(next);
            }
            assert_eq!(seen, b"abcdef", "{step}");
        }
    }
}
