//! Texts in the data of packets, and numbers before them.

use crate::packet::Fault;

/// The data of a packet, as far as it is not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'a>(pub(crate) &'a [u8]);

impl<'a> Data<'a> {
    /// The next number.
    pub(crate) fn number(&mut self) -> Result<u32, Fault> {
        let (number, rest) =
            self.0.split_first_chunk::<4>().ok_or(Fault::new("a packet that is cut off"))?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    /// The next text, which a NUL ends.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Fault> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or(Fault::new("a text without an end"))?;
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
            _ => Err(Fault::new("more in a packet than belongs there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
