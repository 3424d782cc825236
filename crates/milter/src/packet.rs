//! Packets: a length of four octets, a command of one, data.

use std::borrow::Cow;
use std::fmt;

/// Maximum data of a packet in bytes, in both directions: libmilter's default (`MILTER_MAX_DATA_SIZE`).
pub const DATA_BYTES_MAX: usize = 65_535;

/// Size of the length field before a packet, which the length does not include.
pub(crate) const LENGTH_BYTES: usize = 4;

/// A protocol error of a filter, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub Cow<'static, str>);

impl Fault {
    pub(crate) const fn new(what: &'static str) -> Fault {
        Fault(Cow::Borrowed(what))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the length of the packet at the start of `bytes`, with its length field, or `None` while it is
/// incomplete.
///
/// # Errors
/// Its length is 0, or above the limit.
pub fn frame(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length == 0 {
        return Err(Fault::new("a packet without a command"));
    }
    if length > DATA_BYTES_MAX + 1 {
        return Err(Fault(format!("a packet of {length} bytes").into()));
    }
    let whole = LENGTH_BYTES + length;
    Ok((bytes.len() >= whole).then_some(whole))
}

/// Writes a packet; `fill` appends its data.
pub(crate) fn put(out: &mut Vec<u8>, command: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.push(command);
    fill(out);
    let length = u32::try_from(out.len() - at - LENGTH_BYTES).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(at..at + LENGTH_BYTES) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends a text and its NUL; NULs within the text are dropped.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().copied().filter(|byte| *byte != 0));
    out.push(0);
}

/// The unread data of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'a>(pub(crate) &'a [u8]);

impl<'a> Data<'a> {
    /// The next number.
    pub(crate) fn number(&mut self) -> Result<u32, Fault> {
        let (number, rest) =
            self.0.split_first_chunk::<4>().ok_or(Fault::new("truncated packet"))?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    /// The next text, which a NUL ends.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Fault> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or(Fault::new("unterminated text"))?;
        let (text, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    /// The next text, or nothing where the data ends.
    pub(crate) fn text_if_any(&mut self) -> Result<&'a [u8], Fault> {
        if self.0.is_empty() { Ok(&[]) } else { self.text() }
    }

    /// Nothing must be left.
    pub(crate) fn end(self) -> Result<(), Fault> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Fault::new("trailing data in a packet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(command: u8, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, command, |out| out.extend_from_slice(data));
        out
    }

    #[test]
    fn lengths_at_their_edges() {
        assert_eq!(packet(b'c', b""), [0, 0, 0, 1, b'c']);
        assert_eq!(frame(&[0, 0, 0, 1, b'c']), Ok(Some(5)));
        for cut in 0..5 {
            assert_eq!(frame(&[0, 0, 0, 1, b'c'][..cut]), Ok(None), "{cut}");
        }
        assert_eq!(frame(&[0, 0, 0, 0]), Err(Fault::new("a packet without a command")));
        let longest = packet(b'b', &vec![b'x'; DATA_BYTES_MAX]);
        assert_eq!(frame(&longest), Ok(Some(DATA_BYTES_MAX + 5)));
        assert_eq!(frame(&longest[..longest.len() - 1]), Ok(None));
        assert_eq!(frame(&[0, 1, 0, 0]), Ok(None), "the longest, of which nothing came");
        for over in [[0, 1, 0, 1], [1, 0, 0, 0], [0xff; 4]] {
            assert!(frame(&over).is_err(), "{over:?}");
        }
    }

    #[test]
    fn a_text_ends_where_it_says() {
        let mut out = Vec::new();
        put_text(&mut out, b"a\0b");
        assert_eq!(out, b"ab\0");
    }

    proptest! {
        #[test]
        fn what_is_put_is_framed(command: u8, data: Vec<u8>, behind: Vec<u8>) {
            let mut bytes = packet(command, &data);
            let length = bytes.len();
            bytes.extend(behind);
            prop_assert_eq!(frame(&bytes), Ok(Some(length)));
        }

        #[test]
        fn any_bytes_are_framed(bytes: Vec<u8>) {
            if let Ok(Some(length)) = frame(&bytes) {
                prop_assert!((5..=bytes.len()).contains(&length));
            }
        }
    }

    #[test]
    fn numbers_and_texts_to_the_end_and_not_beyond() {
        let mut data = Data(b"\0\0\0\x07name\0\0rest");
        assert_eq!(data.number(), Ok(7));
        assert_eq!((data.text(), data.text()), (Ok(&b"name"[..]), Ok(&b""[..])));
        assert!(data.text().is_err() && data.end().is_err());
        assert!(Data(b"\0\0\0").number().is_err());
        assert_eq!(Data(b"").text_if_any(), Ok(&b""[..]));
        assert!(Data(b"").text().is_err() && Data(b"x").text_if_any().is_err());
        assert_eq!(Data(b"").end(), Ok(()));
    }
}
