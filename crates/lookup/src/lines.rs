//! Logical lines of Postfix's table files: comments and empty lines are left out, a line that begins
//! with white space continues the one above.

use std::borrow::Cow;

/// White space, as in C's `isspace` for ASCII.
#[must_use]
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Without white space at its end.
pub(crate) fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// The logical lines of a file.
#[derive(Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    /// Of the next physical line, from 1.
    number: u32,
}

/// A logical line.
#[derive(Debug)]
pub struct Line<'a> {
    /// All physical lines joined, without line ends. White space at the start of continuations is kept.
    pub text: Cow<'a, [u8]>,
    number: u32,
    /// Start of further physical lines in `text`, and their numbers.
    further: Vec<(usize, u32)>,
}

impl<'a> Lines<'a> {
    #[must_use]
    pub fn new(content: &'a [u8]) -> Lines<'a> {
        // Editors on Windows add a byte order mark; it is not part of a key.
        let rest = content.strip_prefix("\u{feff}".as_bytes()).unwrap_or(content);
        Lines { rest, number: 1 }
    }

    /// The next physical line without its end, and its number.
    fn physical(&mut self) -> Option<(&'a [u8], u32)> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = match memchr::memchr(b'\n', self.rest) {
            Some(end) => (self.rest.get(..end)?, self.rest.get(end + 1..)?),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        let number = self.number;
        self.number = number.saturating_add(1);
        Some((line.strip_suffix(b"\r").unwrap_or(line), number))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let mut gathered: Option<Line<'a>> = None;
        while let Some((text, number)) = self.physical() {
            let first = text.iter().find(|byte| !is_space(**byte));
            let is_left_out = first.is_none_or(|byte| *byte == b'#');
            match (&mut gathered, is_left_out) {
                (_, true) => {}
                (None, false) => {
                    gathered = Some(Line { text: text.into(), number, further: Vec::new() });
                }
                (Some(line), false) => {
                    line.further.push((line.text.len(), number));
                    line.text.to_mut().extend_from_slice(text);
                }
            }
            // A comment may appear between a line and its continuation.
            let goes_on = self.rest.first().is_some_and(|byte| *byte == b'#' || is_space(*byte));
            if gathered.is_some() && !goes_on {
                break;
            }
        }
        gathered
    }
}

impl Line<'_> {
    /// Line and column, both from 1, of a byte of `text`.
    #[must_use]
    pub fn place(&self, offset: usize) -> (u32, u32) {
        let after = self.further.partition_point(|(start, _)| *start <= offset);
        let piece = after.checked_sub(1).and_then(|index| self.further.get(index));
        let (start, number) = piece.copied().unwrap_or((0, self.number));
        let before = self.text.get(start..offset).unwrap_or_default();
        let column = String::from_utf8_lossy(before).chars().count() + 1;
        (number, u32::try_from(column).unwrap_or(u32::MAX))
    }

    /// It begins with white space, but no line precedes it.
    #[must_use]
    pub fn continues_nothing(&self) -> bool {
        self.text.first().is_some_and(|byte| is_space(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<String> {
        Lines::new(content.as_bytes())
            .map(|line| String::from_utf8_lossy(&line.text).into_owned())
            .collect()
    }

    #[test]
    fn comments_stand_between_a_line_and_its_continuation() {
        let content = "\u{feff}a 1\n#c\n  2\r\n\n  3\n\t# d\n  4 # not\nb\n  cont\n\n# e\nc";
        assert_eq!(lines(content), ["a 1  2  3  4 # not", "b  cont", "c"]);
        assert!(lines(" \n#\n").is_empty());
    }

    #[test]
    fn a_place_is_that_of_the_physical_line() {
        let line = Lines::new("# x\né 1\n# c\n\tü 2\n".as_bytes()).next().expect("a line");
        assert_eq!(line.place(0), (2, 1));
        assert_eq!(line.place(2), (2, 2), "é is one column");
        assert_eq!(line.place(4), (4, 1));
        assert_eq!(line.place(7), (4, 3));
        assert_eq!(line.place(99).0, 4, "beyond its end");
    }
}
