//! Command lines: they end at CRLF only (RFC 5321 §2.3.8, §4.1.1), except for lenient clients, which may use LF.

use std::borrow::Cow;

/// Splits input into command lines without copying whole ones.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    /// A line that arrived in part. Freed with its line: an idle session keeps nothing.
    partial: Vec<u8>,
    /// The line is longer than allowed and is read to its end.
    overlong: Option<Overlong>,
    /// The line was taken and put back: it is returned again, before any input.
    is_put_back: bool,
    /// The line that was taken last ended with LF alone.
    ended_with_lf: bool,
}

/// Rules for accepted lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRules {
    /// The longest, its line end counted.
    pub(super) bytes_max: usize,
    /// LF alone ends a line, too.
    pub(super) takes_lf: bool,
}

#[derive(Clone, Copy, Debug)]
struct Overlong {
    last: u8,
    is_bdat: bool,
}

/// A line found by the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineInput<'a> {
    /// All input was consumed, but the line is incomplete.
    Incomplete,
    /// A line without its CRLF.
    Complete(Cow<'a, [u8]>),
    /// A line beyond the limit has ended.
    TooLong {
        /// It started like a BDAT command: an unknown number of octets follows.
        is_bdat: bool,
    },
}

impl LineReader {
    /// Takes a line from the front of `input`.
    pub(super) fn take<'a>(&mut self, input: &mut &'a [u8], rules: LineRules) -> LineInput<'a> {
        let LineRules { bytes_max, takes_lf } = rules;
        let bytes = *input;
        if std::mem::take(&mut self.is_put_back) {
            return match self.overlong.take() {
                Some(Overlong { is_bdat, .. }) => LineInput::TooLong { is_bdat },
                None => LineInput::Complete(Cow::Owned(std::mem::take(&mut self.partial))),
            };
        }
        if let Some(overlong) = self.overlong {
            return self.skip(input, overlong, takes_lf);
        }
        let Some(end) = line_end(self.partial.last().copied(), bytes, takes_lf) else {
            *input = &[];
            self.keep(bytes, bytes_max);
            return LineInput::Incomplete;
        };
        let (line, rest) = bytes.split_at(end);
        *input = rest;
        if self.partial.len() + end > bytes_max {
            let is_bdat = self.begins_as_bdat(line);
            self.partial = Vec::new();
            return LineInput::TooLong { is_bdat };
        }
        if self.partial.is_empty() {
            return LineInput::Complete(Cow::Borrowed(self.without_end(line)));
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(line);
        whole.truncate(self.without_end(&whole).len());
        LineInput::Complete(Cow::Owned(whole))
    }

    /// Returns true if the line that was taken last ended with LF alone.
    pub(super) fn ended_with_lf(&self) -> bool {
        self.ended_with_lf
    }

    fn without_end<'l>(&mut self, line: &'l [u8]) -> &'l [u8] {
        let whole = line.strip_suffix(b"\r\n");
        self.ended_with_lf = whole.is_none();
        whole.or_else(|| line.strip_suffix(b"\n")).unwrap_or(line)
    }

    /// Puts back the last line: the next call returns it again.
    pub(super) fn put_back(&mut self, line: LineInput<'_>) {
        self.is_put_back = true;
        match line {
            LineInput::Incomplete => self.is_put_back = false,
            LineInput::Complete(line) => self.partial = line.into_owned(),
            LineInput::TooLong { is_bdat } => {
                self.overlong = Some(Overlong { last: b'\n', is_bdat });
            }
        }
    }

    /// Returns true if no part of a line was received yet.
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

    fn skip<'a>(
        &mut self,
        input: &mut &'a [u8],
        overlong: Overlong,
        takes_lf: bool,
    ) -> LineInput<'a> {
        let bytes = *input;
        if let Some(end) = line_end(Some(overlong.last), bytes, takes_lf) {
            *input = &bytes[end..];
            self.overlong = None;
            return LineInput::TooLong { is_bdat: overlong.is_bdat };
        }
        if let Some(&last) = bytes.last() {
            self.overlong = Some(Overlong { last, ..overlong });
        }
        *input = &[];
        LineInput::Incomplete
    }

    fn begins_as_bdat(&self, rest: &[u8]) -> bool {
        let start = self.partial.iter().chain(rest).take(4);
        start.map(u8::to_ascii_uppercase).eq(*b"BDAT")
    }
}

/// The index after the first line end; `before` is the byte that precedes `bytes`.
fn line_end(before: Option<u8>, bytes: &[u8], takes_lf: bool) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes)
        .find(|&lf| {
            let previous = if lf == 0 { before } else { bytes.get(lf - 1).copied() };
            takes_lf || previous == Some(b'\r')
        })
        .map(|lf| lf + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(bytes_max: usize) -> LineRules {
        LineRules { bytes_max, takes_lf: false }
    }

    fn complete(line: &[u8]) -> LineInput<'_> {
        LineInput::Complete(Cow::Borrowed(line))
    }

    #[test]
    fn only_crlf_ends_a_line() {
        let mut reader = LineReader::default();
        let mut input: &[u8] = b"a\nb\rc\r\rd\n\r\n\r\nrest";
        assert_eq!(reader.take(&mut input, rules(100)), complete(b"a\nb\rc\r\rd\n"));
        assert_eq!(reader.take(&mut input, rules(100)), complete(b""));
        assert_eq!(reader.take(&mut input, rules(100)), LineInput::Incomplete);
        assert_eq!(input, b"");
        let mut input: &[u8] = b"\r";
        assert_eq!(reader.take(&mut input, rules(100)), LineInput::Incomplete);
        let mut input: &[u8] = b"\nx";
        assert_eq!(reader.take(&mut input, rules(100)), complete(b"rest"));
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
                    match reader.take(&mut part, rules(10)) {
                        LineInput::Incomplete => assert!(reader.partial.len() <= 10),
                        other => found = Some(matches!(other, LineInput::Complete(_))),
                    }
                }
                assert_eq!(found, Some(fits), "length {length} in pieces of {piece}");
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn a_line_that_is_put_back_comes_again_before_any_input() {
        let too_long = |is_bdat| LineInput::TooLong { is_bdat };
        for line in [complete(b"NOOP"), complete(b""), too_long(true), too_long(false)] {
            let mut reader = LineReader::default();
            let mut input: &[u8] = b"rest\r\n";
            for _ in 0..2 {
                match &line {
                    LineInput::Complete(line) => reader.put_back(complete(line)),
                    LineInput::TooLong { is_bdat } => reader.put_back(too_long(*is_bdat)),
                    LineInput::Incomplete => unreachable!("not among the cases"),
                }
                assert_eq!(reader.take(&mut input, rules(10)), line);
            }
            assert!(reader.is_empty());
            assert_eq!(reader.take(&mut input, rules(10)), complete(b"rest"));
        }
    }

    #[test]
    fn an_overlong_bdat_is_known_as_one() {
        for piece in [1, 3, 4, 40] {
            let mut reader = LineReader::default();
            let mut last = LineInput::Incomplete;
            for mut part in b"bDat 1                  \r\n".chunks(piece) {
                last = reader.take(&mut part, rules(10));
            }
            assert_eq!(last, LineInput::TooLong { is_bdat: true });
        }
    }

    #[test]
    fn where_it_may_lf_ends_a_line() {
        let rules = LineRules { bytes_max: 10, takes_lf: true };
        for pieces in [1, 2, 100] {
            let (mut reader, mut seen) = (LineReader::default(), Vec::new());
            for piece in b"NOOP\nRSET\r\n0123456789x\nA\rB\n".chunks(pieces) {
                let mut rest = piece;
                while !rest.is_empty() {
                    match reader.take(&mut rest, rules) {
                        LineInput::Incomplete => {}
                        LineInput::Complete(line) => {
                            let line = String::from_utf8_lossy(&line).into_owned();
                            seen.push((line, reader.ended_with_lf()));
                        }
                        LineInput::TooLong { .. } => seen.push(("long".to_owned(), true)),
                    }
                }
            }
            let line = |text: &str, lf| (text.to_owned(), lf);
            let expected =
                [line("NOOP", true), line("RSET", false), line("long", true), line("A\rB", true)];
            assert_eq!(seen, expected);
        }
    }
}
