//! Values inside a record: numbers, texts, texts that may be absent.

use crate::block::{u16_at, u32_at, u64_at};

/// Reasons, hold reasons and overrides are cut here.
pub(super) const TEXT_BYTES_MAX: usize = 512;

const _: () = assert!(TEXT_BYTES_MAX == crate::record::OVERRIDES_BYTES_MAX);

pub(super) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(super) fn varint_bytes(n: usize) -> usize {
    (64 - (n as u64 | 1).leading_zeros() as usize).div_ceil(7)
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn text_bytes(text: &str) -> usize {
    varint_bytes(text.len()) + text.len()
}

/// Appends length + 1 and the text, or 0 for none.
pub(super) fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    put_varint(out, text.map_or(0, |text| text.len() as u64 + 1));
    out.extend_from_slice(text.unwrap_or("").as_bytes());
}

pub(super) fn optional_bytes(text: Option<&str>) -> usize {
    text.map_or(1, |text| varint_bytes(text.len() + 1) + text.len())
}

/// The text, cut at a character boundary to the maximum length in a record.
pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or("")
}

/// Decodes values from the front; `None` if there are too few bytes or a value is invalid.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldReader<'a> {
    pub rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(front)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        u16_at(self.take(2)?, 0)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        u32_at(self.take(4)?, 0)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        u64_at(self.take(8)?, 0)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    pub(super) fn index(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// The outer `None` is an error, the inner one an absent text.
    pub(super) fn optional(&mut self) -> Option<Option<&'a str>> {
        match self.varint()?.checked_sub(1) {
            None => Some(None),
            Some(length) => {
                let bytes = self.take(usize::try_from(length).ok()?)?;
                std::str::from_utf8(bytes).ok().map(Some)
            }
        }
    }
}
