//! BER as far as LDAP has it (RFC 4511 §5.1): tags of one byte, lengths that are given.

use std::fmt;

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Bytes that are no LDAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// Returns the length in bytes of the first message, or `None` while its head is incomplete.
///
/// # Errors
/// No message begins like this, or it has more than `bytes_max`.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, Malformed> {
    if bytes.first().is_some_and(|tag| *tag != SEQUENCE) {
        return Err(Malformed("not LDAP"));
    }
    let Some((_, head, body)) = head(bytes)? else { return Ok(None) };
    let all = head.saturating_add(body);
    if all > bytes_max { Err(Malformed("message too long")) } else { Ok(Some(all)) }
}

/// Tag, bytes of the head, and bytes of the body; `None`: more is to come.
fn head(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, Malformed> {
    let (tag, first) = match bytes {
        [] | [_] => return Ok(None),
        [tag, first, ..] => (*tag, *first),
    };
    if tag & 0x1f == 0x1f {
        return Err(Malformed("multi-byte tag"));
    }
    if first < 0x80 {
        return Ok(Some((tag, 2, usize::from(first))));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > 4 {
        return Err(Malformed("length missing or out of bounds"));
    }
    let Some(digits) = bytes.get(2..2 + count) else { return Ok(None) };
    let body = digits.iter().fold(0usize, |sum, digit| (sum << 8) | usize::from(*digit));
    Ok(Some((tag, 2 + count, body)))
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BerReader<'a> {
    rest: &'a [u8],
}

impl<'a> BerReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> BerReader<'a> {
        BerReader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element: its tag and its body.
    pub(crate) fn element(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        const CUT: Malformed = Malformed("truncated element");
        let (tag, head, body) = head(self.rest)?.ok_or(CUT)?;
        let (whole, rest) = self.rest.split_at_checked(head.saturating_add(body)).ok_or(CUT)?;
        self.rest = rest;
        Ok((tag, whole.get(head..).ok_or(CUT)?))
    }

    /// The body of the next element, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        let (found, body) = self.element()?;
        if found == tag { Ok(body) } else { Err(Malformed("unexpected element")) }
    }

    /// The body of the next element, if it has this tag; otherwise it stays.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Malformed> {
        if self.rest.first() == Some(&tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    /// Reads the next element as a boolean, or returns `default` if it is absent.
    pub(crate) fn flag(&mut self, default: bool) -> Result<bool, Malformed> {
        Ok(self.optional(BOOLEAN)?.map_or(default, |body| body != [0]))
    }

    /// The unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next element as a number.
    pub(crate) fn number(&mut self, tag: u8) -> Result<i32, Malformed> {
        let body = self.expect(tag)?;
        let Some(first) = body.first().filter(|_| body.len() <= 4) else {
            return Err(Malformed("number out of bounds"));
        };
        let sign = if first & 0x80 == 0 { 0 } else { -1 };
        Ok(body.iter().fold(sign, |sum, digit| (sum << 8) | i32::from(*digit)))
    }

    /// Reads the next element as text; invalid UTF-8 is replaced.
    pub(crate) fn text(&mut self, tag: u8) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.expect(tag)?).into_owned())
    }
}

/// Writes elements one after the other.
#[derive(Debug, Default)]
pub(crate) struct BerWriter {
    out: Vec<u8>,
}

impl BerWriter {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn bytes(&mut self, tag: u8, body: &[u8]) {
        self.out.push(tag);
        let (length, count) = length(body.len());
        self.out.extend_from_slice(length.get(..count).unwrap_or_default());
        self.out.extend_from_slice(body);
    }

    pub(crate) fn number(&mut self, tag: u8, number: i32) {
        let bytes = number.to_be_bytes();
        // As few bytes as keep the sign (X.690 §8.3.2).
        let spare = |pair: &[u8]| {
            matches!(pair, [0, next] if next & 0x80 == 0)
                || matches!(pair, [0xff, next] if next & 0x80 != 0)
        };
        let from = bytes.windows(2).take_while(|pair| spare(pair)).count();
        self.bytes(tag, bytes.get(from..).unwrap_or_default());
    }

    pub(crate) fn boolean(&mut self, tag: u8, value: bool) {
        self.bytes(tag, &[if value { 0xff } else { 0 }]);
    }

    /// Writes a constructed element.
    pub(crate) fn nested(&mut self, tag: u8, write: impl FnOnce(&mut BerWriter)) {
        self.out.push(tag);
        let at = self.out.len();
        write(self);
        let (length, count) = length(self.out.len() - at);
        self.out.splice(at..at, length.into_iter().take(count));
    }
}

/// A length, and how many of the bytes it takes (X.690 §8.1.3).
fn length(of: usize) -> ([u8; 5], usize) {
    let [.., a, b, c, d] = of.to_be_bytes();
    match of {
        0..0x80 => ([d, 0, 0, 0, 0], 1),
        0x80..0x100 => ([0x81, d, 0, 0, 0], 2),
        0x100..0x1_0000 => ([0x82, c, d, 0, 0], 3),
        0x1_0000..0x100_0000 => ([0x83, b, c, d, 0], 4),
        _ => ([0x84, a, b, c, d], 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_and_numbers_at_their_edges() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 0x100_0000] {
            let body = vec![7; length];
            let mut writer = BerWriter::default();
            writer.bytes(OCTETS, &body);
            assert_eq!(BerReader::new(&writer.into_bytes()).element(), Ok((OCTETS, &*body)));
        }
        for number in [0, 1, 127, 128, 255, 256, 32_767, 32_768, i32::MAX, -1, -128, -129, i32::MIN]
        {
            let mut writer = BerWriter::default();
            writer.number(INTEGER, number);
            let bytes = writer.into_bytes();
            assert_eq!(BerReader::new(&bytes).number(INTEGER), Ok(number), "{bytes:?}");
        }
    }

    #[test]
    fn a_frame_is_measured_by_its_head() {
        assert_eq!(frame(&[], 9), Ok(None));
        assert_eq!(frame(&[0x30], 9), Ok(None));
        assert_eq!(frame(&[0x30, 0x84, 0, 0], 9), Ok(None));
        assert_eq!(frame(&[0x30, 0x84, 0, 0, 0, 3], 9), Ok(Some(9)));
        assert_eq!(frame(&[0x30, 0x84, 0, 0, 0, 4], 9), Err(Malformed("message too long")));
        assert!(frame(b"HTTP/1.1 400", 9).is_err());
        assert!(frame(&[0x30, 0x80], 9).is_err());
        assert!(frame(&[0x30, 0x85, 0, 0, 0, 0, 1], 9).is_err());
        assert!(frame(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], 1 << 20).is_err());
    }

    proptest! {
        #[test]
        fn nested_elements_come_back(bodies in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..300), 0..5)) {
            let mut writer = BerWriter::default();
            writer.nested(SEQUENCE, |w| bodies.iter().for_each(|body| w.bytes(OCTETS, body)));
            let bytes = writer.into_bytes();
            prop_assert_eq!(frame(&bytes, 1 << 20), Ok(Some(bytes.len())));
            let mut inner = BerReader::new(BerReader::new(&bytes).expect(SEQUENCE).unwrap());
            for body in &bodies {
                prop_assert_eq!(inner.expect(OCTETS).unwrap(), &**body);
            }
            prop_assert!(inner.is_empty());
        }
    }
}
