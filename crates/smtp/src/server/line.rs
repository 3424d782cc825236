//! Where a command line ends: at CRLF and nowhere else (RFC 5321 §2.3.8, §4.1.1).

use std::borrow::Cow;

/// Cuts input into command lines without copying those that arrive whole.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    /// A line that arrived in part. Freed with its line: an idle session keeps nothing.
    partial: Vec<u8>,
    /// The line is longer than allowed and is read to its end.
    overlong: Option<Overlong>,
    /// The line was taken before and put back: it comes again, ahead of any input.
    is_put_back: bool,
}

#[derive(Clone, Copy, Debug)]
struct Overlong {
    last: u8,
    is_bdat: bool,
}

/// What the reader found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All input was taken and the line is not complete.
    Incomplete,
    /// A line without its CRLF.
    Complete(Cow<'a, [u8]>),
    /// A line beyond the limit has ended.
    TooLong {
        /// It began as BDAT does: an unknown number of octets follow.
        is_bdat: bool,
    },
}

impl LineReader {
    /// Takes one line from the front of `input`; `bytes_max` counts the CRLF.
    pub(super) fn take<'a>(&mut self, input: &mut &'a [u8], bytes_max: usize) -> Line<'a> {
        let bytes = *input;
        if std::mem::take(&mut self.is_put_back) {
            return match self.overlong.take() {
                Some(Overlong { is_bdat, .. }) => Line::TooLong { is_bdat },
                None => Line::Complete(Cow::Owned(std::mem::take(&mut self.partial))),
            };
        }
        if let Some(overlong) = self.overlong {
            return self.skip(input, overlong);
        }
        let Some(end) = line_end(self.partial.last().copied(), bytes) else {
            *input = &[];
            self.keep(bytes, bytes_max);
            return Line::Incomplete;
        };
        let (line, rest) = bytes.split_at(end);
        *input = rest;
        if self.partial.len() + end > bytes_max {
            let is_bdat = self.begins_as_bdat(line);
            self.partial = Vec::new();
            return Line::TooLong { is_bdat };
        }
        if self.partial.is_empty() {
            return Line::Complete(Cow::Borrowed(&line[..end - 2]));
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(line);
        whole.truncate(whole.len() - 2);
        Line::Complete(Cow::Owned(whole))
    }

    /// Puts back the line that was taken last: the next call takes it again.
    pub(super) fn put_back(&mut self, line: Line<'_>) {
        self.is_put_back = true;
        match line {
            Line::Incomplete => self.is_put_back = false,
            Line::Complete(line) => self.partial = line.into_owned(),
            Line::TooLong { is_bdat } => {
                self.overlong = Some(Overlong { last: b'\n', is_bdat });
            }
        }
    }

    /// Whether nothing of a line was received yet.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.partial.capacity() == 0 && self.overlong.is_none()
    }

    fn keep(&mut self, bytes: &[u8], bytes_max: usize) {
        if self.partial.len() + bytes.len() <= bytes_max {
            self.partial.extend_from_slice(bytes);
        } else if let Some(&last) = bytes.last() {
            self.overlong = Some(Overlong { last, is_bdat: self.begins_as_bdat(bytes) });
            self.partial = Vec::new();
        }
    }

    fn skip<'a>(&mut self, input: &mut &'a [u8], overlong: Overlong) -> Line<'a> {
        let bytes = *input;
        if let Some(end) = line_end(Some(overlong.last), bytes) {
            *input = &bytes[end..];
            self.overlong = None;
            return Line::TooLong { is_bdat: overlong.is_bdat };
        }
        if let Some(&last) = bytes.last() {
            self.overlong = Some(Overlong { last, ..overlong });
        }
        *input = &[];
        Line::Incomplete
    }

    fn begins_as_bdat(&self, rest: &[u8]) -> bool {
        let start = self.partial.iter().chain(rest).take(4);
        start.map(u8::to_ascii_uppercase).eq(*b"BDAT")
    }
}

/// The index behind the first CRLF; `before` is the byte that precedes `bytes`.
fn line_end(before: Option<u8>, bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes)
        .find(|&lf| {
            let previous = if lf == 0 { before } else { bytes.get(lf - 1).copied() };
            previous == Some(b'\r')
        })
        .map(|lf| lf + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &[u8]) -> Line<'_> {
        Line::Complete(Cow::Borrowed(line))
    }

    #[test]
    fn only_crlf_ends_a_line() {
        let mut reader = LineReader::default();
        let mut input: &[u8] = b"a\nb\rc\r\rd\n\r\n\r\nrest";
        assert_eq!(reader.take(&mut input, 100), complete(b"a\nb\rc\r\rd\n"));
        assert_eq!(reader.take(&mut input, 100), complete(b""));
        assert_eq!(reader.take(&mut input, 100), Line::Incomplete);
        assert_eq!(input, b"");
        let mut input: &[u8] = b"\r";
        assert_eq!(reader.take(&mut input, 100), Line::Incomplete);
        let mut input: &[u8] = b"\nx";
        assert_eq!(reader.take(&mut input, 100), complete(b"rest"));
        assert_eq!(input, b"x");
        assert!(reader.is_empty());
    }

    #[test]
    fn the_limit_holds_at_its_edge_however_the_line_arrives() {
        for (length, fits) in [(9, true), (10, true), (11, false), (12, false), (5_000, false)] {
            let mut line = vec![b'x'; length - 2];
            line.extend_from_slice(b"\r\n");
            for piece in [1, 2, 3, 9, 10, 11, 12, line.len()] {
                let mut reader = LineReader::default();
                let mut found = None;
                for mut part in line.chunks(piece) {
                    assert!(found.is_none(), "ended early");
                    match reader.take(&mut part, 10) {
                        Line::Incomplete => assert!(reader.partial.len() <= 10),
                        other => found = Some(matches!(other, Line::Complete(_))),
                    }
                }
                assert_eq!(found, Some(fits), "length {length} in pieces of {piece}");
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn a_line_that_is_put_back_comes_again_before_any_input() {
        let too_long = |is_bdat| Line::TooLong { is_bdat };
        for line in [complete(b"NOOP"), complete(b""), too_long(true), too_long(false)] {
            let mut reader = LineReader::default();
            let mut input: &[u8] = b"rest\r\n";
            for _ in 0..2 {
                match &line {
                    Line::Complete(line) => reader.put_back(complete(line)),
                    Line::TooLong { is_bdat } => reader.put_back(too_long(*is_bdat)),
                    Line::Incomplete => unreachable!("not among the cases"),
                }
                assert_eq!(reader.take(&mut input, 10), line);
            }
            assert!(reader.is_empty());
            assert_eq!(reader.take(&mut input, 10), complete(b"rest"));
        }
    }

    #[test]
    fn an_overlong_bdat_is_known_as_one() {
        for piece in [1, 3, 4, 40] {
            let mut reader = LineReader::default();
            let mut last = Line::Incomplete;
            for mut part in b"bDat 1                  \r\n".chunks(piece) {
                last = reader.take(&mut part, 10);
            }
            assert_eq!(last, Line::TooLong { is_bdat: true });
        }
    }
}
