//! The text that a database is built from.

use crate::cli::Format;
use lookup::database::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use lookup::is_space;
use std::io::{self, BufRead, Read};

/// Maximum length of a line with its continuation lines in octets.
const LINE_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Number of its first line, from 1.
    pub(super) line: u64,
    pub(super) key: String,
    pub(super) value: String,
}

/// A malformed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MalformedLine {
    /// From 1.
    pub(super) line: u64,
    /// A sentence without its end.
    pub(super) text: String,
}

/// Reads keys and values. After a line that is too long or can't be read there is nothing more.
pub(super) struct PairReader<R> {
    reader: R,
    format: Format,
    /// Lines that were read.
    lines_count: u64,
    /// The next line, where it had to be seen to know that the one before does not go on.
    next: Option<Vec<u8>>,
    ended: bool,
}

impl<R: BufRead> PairReader<R> {
    pub(super) fn new(reader: R, format: Format) -> PairReader<R> {
        PairReader { reader, format, lines_count: 0, next: None, ended: false }
    }

    /// The next line without its end.
    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(line) = self.next.take() {
            return Ok(Some(line));
        }
        let mut line = Vec::new();
        let max = LINE_BYTES_MAX as u64 + 1;
        if self.reader.by_ref().take(max).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        self.lines_count += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > LINE_BYTES_MAX {
            return Err(too_long());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        // Editors on Windows put one before the first line; it is no part of a key.
        if self.lines_count == 1 && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(.."\u{feff}".len());
        }
        Ok(Some(line))
    }

    /// The next line that is neither empty nor a comment, with its continuation lines, and its number.
    fn read_logical(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let mut logical: Option<(u64, Vec<u8>)> = None;
        while let Some(line) = self.read_line()? {
            let first = line.iter().position(|byte| !is_space(*byte));
            let Some(first) = first else { continue };
            if line.get(first) == Some(&b'#') && self.format == Format::Postfix {
                continue;
            }
            match &mut logical {
                None => {
                    logical = Some((self.lines_count, line));
                    if self.format == Format::Tsv {
                        break;
                    }
                }
                Some((_, before)) if first > 0 => {
                    if before.len() + line.len() > LINE_BYTES_MAX {
                        return Err(too_long());
                    }
                    before.extend_from_slice(&line);
                }
                Some(_) => {
                    self.next = Some(line);
                    break;
                }
            }
        }
        Ok(logical)
    }
}

fn too_long() -> io::Error {
    io::Error::other(format!("a line has more than {LINE_BYTES_MAX} bytes"))
}

impl<R: BufRead> Iterator for PairReader<R> {
    type Item = Result<Pair, MalformedLine>;

    fn next(&mut self) -> Option<Result<Pair, MalformedLine>> {
        if self.ended {
            return None;
        }
        match self.read_logical() {
            Ok(logical) => {
                let (line, bytes) = logical?;
                let pair = match self.format {
                    // Postfix's syntax has a single parser, so a key is the same here and in a file table.
                    Format::Postfix => lookup::pair(&bytes).map_err(|(_, text)| text),
                    Format::Tsv => tab_separated(&bytes),
                };
                Some(match pair {
                    Ok((key, value)) => {
                        Ok(Pair { line, key: key.to_owned(), value: value.to_owned() })
                    }
                    Err(text) => Err(MalformedLine { line, text }),
                })
            }
            Err(error) => {
                self.ended = true;
                Some(Err(MalformedLine { line: self.lines_count.max(1), text: error.to_string() }))
            }
        }
    }
}

fn tab_separated(line: &[u8]) -> Result<(&str, &str), String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    text.split_once('\t').ok_or_else(|| format!("tab and value missing after \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], format: Format) -> Vec<Result<(u64, String, String), MalformedLine>> {
        let source = PairReader::new(text, format);
        source.map(|pair| pair.map(|pair| (pair.line, pair.key, pair.value))).collect()
    }

    fn pair(line: u64, key: &str, value: &str) -> Result<(u64, String, String), MalformedLine> {
        Ok((line, key.to_owned(), value.to_owned()))
    }

    fn mistake(line: u64, text: &str) -> Result<(u64, String, String), MalformedLine> {
        Err(MalformedLine { line, text: text.to_owned() })
    }

    #[test]
    fn keys_values_comments_and_lines_that_go_on() {
        let text = b"\xef\xbb\xbf# users\n\na@x.test one\r\nb@x.test\ttwo,\n  # not the end\n\n\tthree  \n \
                     \n\"a b\"@x.test  x y z\r\nd@x.test 4";
        let expected = [
            pair(3, "a@x.test", "one"),
            pair(4, "b@x.test", "two,\tthree"),
            pair(9, "\"a b\"@x.test", "x y z"),
            pair(10, "d@x.test", "4"),
        ];
        assert_eq!(read(text, Format::Postfix), expected);
    }

    #[test]
    fn what_says_nothing_is_told_and_the_rest_is_read() {
        let text = b"  x y\na\nb \nc\xff d\ne f\n";
        let expected = [
            mistake(1, "it begins with white space, but continues no line"),
            mistake(2, "\"a\" has no value"),
            mistake(3, "\"b\" has no value"),
            mistake(4, "not UTF-8"),
            pair(5, "e", "f"),
        ];
        assert_eq!(read(text, Format::Postfix), expected);
    }

    #[test]
    fn tabs_divide_and_nothing_else_does() {
        let text = b"a b\tc d\n#x\ty\tz\n\nno tab\n\tempty key\nempty value\t\r\n";
        let expected = [
            pair(1, "a b", "c d"),
            pair(2, "#x", "y\tz"),
            mistake(4, "tab and value missing after \"no tab\""),
            pair(5, "", "empty key"),
            pair(6, "empty value", ""),
        ];
        assert_eq!(read(text, Format::Tsv), expected);
    }

    #[test]
    fn a_line_has_its_longest() {
        let mut text = b"k ".to_vec();
        text.resize(LINE_BYTES_MAX, b'v');
        assert!(read(&text, Format::Postfix)[0].is_ok());
        text.push(b'v');
        text.extend_from_slice(b"\nk v\n");
        let all = read(&text, Format::Postfix);
        assert_eq!(all, [mistake(1, "a line has more than 16842751 bytes")]);
    }
}
