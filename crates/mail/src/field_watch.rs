//! Finds header fields while the content arrives, however it is split.

use std::borrow::Cow;
use std::ops::{Deref, Range};

/// Maximum length kept of a field's value: longer values are not meaningful.
pub const VALUE_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of fields noted. [`FieldWatch::has_more`] is set beyond it.
pub const FIELDS_MAX: usize = 100;

/// A field that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedField {
    /// Index of its name.
    pub name: usize,
    /// Position of the field, its last line end included.
    pub range: Range<u64>,
    value: Vec<u8>,
    /// The value is longer than the part kept.
    pub is_cut: bool,
}

impl WatchedField {
    /// The unfolded value without blanks around it.
    #[must_use]
    pub fn value(&self) -> Cow<'_, [u8]> {
        crate::header::unfold(&self.value)
    }
}

/// Finds fields by their names, up to the end of the header as defined in [`crate::header`].
#[derive(Clone, Debug)]
pub struct FieldWatch<N> {
    names: N,
    at: FieldWatchState,
    /// Number of octets so far.
    offset: u64,
    /// Start of the open field.
    begun: u64,
    /// Its name, as far as it matches a watched one.
    name: Vec<u8>,
    /// The next line is preceded by a field.
    has_field: bool,
    /// True if the open field is the last of `found`.
    is_noted: bool,
    found: Vec<WatchedField>,
    has_more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldWatchState {
    LineStart,
    Name,
    /// Blanks before the colon (RFC 5322 §4.5).
    Colon,
    Value,
    End,
}

impl<N: Deref<Target = [S]>, S: AsRef<str>> FieldWatch<N> {
    /// Finds fields with these names, in any case.
    #[must_use]
    pub fn new(names: N) -> FieldWatch<N> {
        FieldWatch {
            names,
            at: FieldWatchState::LineStart,
            offset: 0,
            begun: 0,
            name: Vec::new(),
            has_field: false,
            is_noted: false,
            found: Vec::new(),
            has_more: false,
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let (Some(first), true) = (rest.first(), self.at != FieldWatchState::End) {
            let count = match self.at {
                FieldWatchState::Value => {
                    memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1)
                }
                _ => 1,
            };
            let (now, later) = rest.split_at(count);
            match self.at {
                FieldWatchState::Value => self.take_value(now),
                _ => self.take(*first),
            }
            self.offset += count as u64;
            rest = later;
        }
    }

    /// The content is complete, or its rest is irrelevant.
    #[must_use]
    pub fn finish(mut self) -> Vec<WatchedField> {
        self.close();
        self.found
    }

    /// Returns the fields found, or `too_many` if more exist.
    ///
    /// # Errors
    /// More fields exist than are noted: the missing ones could not be removed from the message.
    pub fn all_or<E>(self, too_many: E) -> Result<Vec<WatchedField>, E> {
        if self.has_more { Err(too_many) } else { Ok(self.finish()) }
    }

    /// Returns true if more fields exist than are noted.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    fn take_value(&mut self, piece: &[u8]) {
        if let (true, Some(open)) = (self.is_noted, self.found.last_mut()) {
            let room = VALUE_BYTES_MAX - open.value.len();
            open.is_cut |= piece.len() > room;
            open.value.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        if piece.ends_with(b"\n") {
            self.at = FieldWatchState::LineStart;
        }
    }

    fn take(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            // A continuation line.
            (FieldWatchState::LineStart, b' ' | b'\t') if self.has_field => {
                self.take_value(&[byte]);
                FieldWatchState::Value
            }
            (FieldWatchState::LineStart, b'!'..=b'9' | b';'..=b'~') => {
                self.close();
                self.begun = self.offset;
                self.name.clear();
                self.note(byte)
            }
            (FieldWatchState::Name, b'!'..=b'9' | b';'..=b'~') => self.note(byte),
            (FieldWatchState::Name | FieldWatchState::Colon, b' ' | b'\t') => {
                FieldWatchState::Colon
            }
            (FieldWatchState::Name | FieldWatchState::Colon, b':') => {
                self.open();
                FieldWatchState::Value
            }
            // The empty line, or a line that is not a field.
            _ => {
                if self.at == FieldWatchState::LineStart {
                    self.close();
                }
                FieldWatchState::End
            }
        }
    }

    fn note(&mut self, byte: u8) -> FieldWatchState {
        let longest = self.names.iter().map(|name| name.as_ref().len()).max();
        if self.name.len() <= longest.unwrap_or(0) {
            self.name.push(byte);
        }
        FieldWatchState::Name
    }

    fn open(&mut self) {
        self.has_field = true;
        let is = |name: &S| self.name.eq_ignore_ascii_case(name.as_ref().as_bytes());
        let Some(name) = self.names.iter().position(is) else { return };
        if self.found.len() == FIELDS_MAX {
            self.has_more = true;
            return;
        }
        let range = self.begun..self.begun;
        self.found.push(WatchedField { name, range, value: Vec::new(), is_cut: false });
        self.is_noted = true;
    }

    /// The open field ended before the next line.
    fn close(&mut self) {
        if let (true, Some(open)) = (self.is_noted, self.found.last_mut()) {
            open.range.end = self.offset;
        }
        self.is_noted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 3] = ["Date", "Message-ID", "Bcc"];

    /// Name, value and place of each field, in pieces of so many octets.
    fn found(content: &[u8], step: usize) -> Vec<(usize, Vec<u8>, Range<u64>)> {
        let mut watch = FieldWatch::new(&NAMES[..]);
        content.chunks(step).for_each(|piece| watch.push(piece));
        let found = watch.finish().into_iter();
        found.map(|field| (field.name, field.value().into_owned(), field.range)).collect()
    }

    #[test]
    fn fields_are_found_however_they_arrive() {
        let text = b"Subject: x\r\nBCC : a@b,\r\n\tc@d\r\nDate:y\r\nX-Date: z\r\n\r\nBcc: body\r\n";
        for step in 1..text.len() {
            let expected = [(2, b"a@b,\tc@d".to_vec(), 12..30), (0, b"y".to_vec(), 30..38)];
            assert_eq!(found(text, step), expected, "{step}");
        }
        assert_eq!(found(b"Bcc: open", 4), [(2, b"open".to_vec(), 0..9)]);
        assert_eq!(found(b"Bcc: x\n y\nDate", 4), [(2, b"x y".to_vec(), 0..10)]);
        for none in
            ["", "\r\nDate: x\r\n", "no field\r\nDate: x\r\n", "D\u{e4}te: x\r\nDate: x\r\n"]
        {
            assert_eq!(found(none.as_bytes(), 3), [], "{none:?}");
        }
    }

    #[test]
    fn what_is_kept_has_its_limits() {
        for (length, is_cut) in [(VALUE_BYTES_MAX, false), (VALUE_BYTES_MAX + 1, true)] {
            let text = format!("Bcc:{}\n\n", "x".repeat(length - 1));
            let mut watch = FieldWatch::new(&NAMES[..]);
            text.as_bytes().chunks(1000).for_each(|piece| watch.push(piece));
            let field = watch.finish().remove(0);
            assert_eq!((field.is_cut, field.range), (is_cut, 0..length as u64 + 4));
            assert_eq!(field.value.len(), VALUE_BYTES_MAX);
        }
        for (count, has_more) in [(FIELDS_MAX, false), (FIELDS_MAX + 1, true)] {
            let mut watch = FieldWatch::new(&NAMES[..]);
            watch.push("Bcc: x\r\n".repeat(count).as_bytes());
            assert_eq!(watch.has_more(), has_more);
            assert_eq!(watch.finish().len(), FIELDS_MAX);
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_walk_over_the_header_finds(
            content in r"((Date|Bcc|X|bCC)[ \t]{0,2}:?[ a-z]{0,4}(\r\n|\n)[ \t]?){0,6}",
            step in 1usize..9,
        ) {
            let walk = crate::header::fields(content.as_bytes());
            let expected: Vec<_> = walk
                .filter_map(|field| {
                    let name = NAMES.iter().position(|name| field.is(name))?;
                    let range = field.range.start as u64..field.range.end as u64;
                    Some((name, field.unfolded().into_owned(), range))
                })
                .collect();
            prop_assert_eq!(found(content.as_bytes(), step), expected);
        }
    }
}
