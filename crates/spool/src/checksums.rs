//! Checksums of a body in a separate file, one per piece. A piece is checked before it is handed on, and a wrong one is
//! never handed on.
//!
//! They are stored in the accept record, as the field [`tag::BODY_CHECKSUMS`]: the length of a piece (u32), then the
//! CRC-32C of each piece, the last one shorter. An accept without the field is from an older version, and its body is
//! not checked.

use crate::record::{LoadError, Meta, tag};
use bytes::Bytes;

/// Bytes of a body per checksum: the unit of reading for delivery.
pub const PIECE_BYTES: usize = 256 << 10;

/// Collects the checksums of a body while it is written.
#[derive(Clone, Debug, Default)]
pub struct BodyChecksums {
    /// Of the pieces that are complete.
    field: Vec<u8>,
    crc: u32,
    /// Bytes of the current piece included in `crc`.
    open_bytes: usize,
}

impl BodyChecksums {
    /// Adds the next bytes of the body.
    pub fn push(&mut self, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            let room = PIECE_BYTES - self.open_bytes;
            let (now, later) = rest.split_at(rest.len().min(room));
            self.crc = crc32c::crc32c_append(self.crc, now);
            self.open_bytes += now.len();
            rest = later;
            if self.open_bytes == PIECE_BYTES {
                self.close_piece();
            }
        }
    }

    fn close_piece(&mut self) {
        self.field.extend_from_slice(&self.crc.to_le_bytes());
        (self.crc, self.open_bytes) = (0, 0);
    }

    /// The field for the accept's [`Meta`].
    #[must_use]
    pub fn finish(mut self) -> (u16, Bytes) {
        if self.open_bytes > 0 {
            self.close_piece();
        }
        let mut field = (PIECE_BYTES as u32).to_le_bytes().to_vec();
        field.extend_from_slice(&self.field);
        (tag::BODY_CHECKSUMS, Bytes::from(field))
    }
}

/// A piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its length in bytes.
    pub bytes: usize,
    /// Its CRC-32C, if that is known.
    pub checksum: Option<u32>,
}

/// Returns the piece starting at `offset` of a body of `body_bytes`, by the `meta` of its accept. `offset` is zero or
/// the end of the piece before.
///
/// # Errors
/// Returns an error if the checksums are malformed or too few.
pub fn piece(meta: &Meta, body_bytes: u64, offset: u64) -> Result<Piece, LoadError> {
    let left = usize::try_from(body_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
    let field = meta.fields.iter().find(|(tag, _)| *tag == tag::BODY_CHECKSUMS);
    let Some((_, field)) = field else {
        return Ok(Piece { bytes: left.min(PIECE_BYTES), checksum: None });
    };
    let known = || {
        let (length, checksums) = field.split_first_chunk::<4>()?;
        let piece_bytes = u64::from(u32::from_le_bytes(*length));
        let number = offset.checked_div(piece_bytes)?;
        let at = usize::try_from(number).ok()?.checked_mul(4)?;
        let checksum = checksums.get(at..)?.first_chunk::<4>()?;
        let checksum = Some(u32::from_le_bytes(*checksum));
        let bytes = left.min(usize::try_from(piece_bytes).ok()?);
        offset.is_multiple_of(piece_bytes).then_some(Piece { bytes, checksum })
    };
    known().ok_or_else(|| LoadError::Damaged("invalid checksums of the body".into()))
}

/// Returns true if the length and checksum of a piece match.
pub(crate) fn is_right(data: &[u8], piece: Piece) -> bool {
    data.len() == piece.bytes && piece.checksum.is_none_or(|crc| crc32c::crc32c(data) == crc)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(body: &[u8], step: usize) -> Meta {
        let mut checksums = BodyChecksums::default();
        body.chunks(step).for_each(|part| checksums.push(part));
        Meta { fields: vec![(tag::LISTENER, Bytes::new()), checksums.finish()] }
    }

    #[test]
    fn a_body_has_a_checksum_for_each_piece_however_it_came() {
        for length in [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7] {
            let body: Vec<u8> = (0..length).map(|at| (at * 7 / 3) as u8).collect();
            let whole = meta(&body, length);
            assert_eq!(whole, meta(&body, 65_536));
            assert_eq!(whole, meta(&body, 40_001));
            assert_eq!(whole.fields[1].1.len(), 4 + 4 * length.div_ceil(PIECE_BYTES));
            let mut offset = 0;
            while offset < length {
                let piece = piece(&whole, length as u64, offset as u64).expect("known");
                let mut data = body[offset..offset + piece.bytes].to_vec();
                assert!(piece.checksum.is_some() && is_right(&data, piece));
                assert!(!is_right(&data[1..], piece));
                data[piece.bytes / 2] ^= 0x10;
                assert!(!is_right(&data, piece));
                offset += piece.bytes;
            }
            assert_eq!(offset, length);
        }
    }

    #[test]
    fn a_body_without_checksums_is_read_in_pieces_all_the_same() {
        let meta = Meta::default();
        let bytes = PIECE_BYTES;
        assert_eq!(piece(&meta, 300_000, 0), Ok(Piece { bytes, checksum: None }));
        let bytes = 300_000 - PIECE_BYTES;
        let last = piece(&meta, 300_000, PIECE_BYTES as u64);
        assert_eq!(last, Ok(Piece { bytes, checksum: None }));
    }

    #[test]
    fn checksums_that_make_no_sense_are_told() {
        let good = meta(&[7; 300_000], 300_000);
        let (tag, field) = good.fields[1].clone();
        for field in [&b""[..], &[0; 4], &[0; 12], &field[..7], &[1, 0, 0, 0, 9, 9, 9, 9]] {
            let meta = Meta { fields: vec![(tag, Bytes::copy_from_slice(field))] };
            let second = piece(&meta, 300_000, PIECE_BYTES as u64);
            assert!(matches!(second, Err(LoadError::Damaged(_))), "{field:?}");
        }
        assert!(piece(&good, 300_000, 300_000 * 9).is_err(), "beyond the end");
        assert!(piece(&good, 300_000, 5).is_err(), "within a piece");
    }
}
