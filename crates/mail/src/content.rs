//! Facts about a message's content, found in one scan at intake.
//!
//! A line ends at LF, with or without a CR before it. Content with a bare CR or LF is refused or normalised before. If
//! it is not, each position that some server may read as the start of a line counts as one.

/// Facts recorded with each content, so that egress need not scan it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentFacts {
    /// Length as stored: un-stuffed, CRLF line ends.
    pub body_bytes: u64,
    /// The body contains bytes of 0x80 or more.
    pub has_8bit: bool,
    /// Some byte is NUL.
    pub has_nul: bool,
    /// The longest line in bytes, without its CRLF (a CR inside the line is counted).
    pub longest_line: u32,
    /// The last two bytes are CRLF (or the content is empty).
    pub ends_with_crlf: bool,
    /// Number of lines that begin with a dot: each needs stuffing for DATA (RFC 5321 §4.5.2).
    pub dot_lines: u64,
}

/// Finds [`ContentFacts`] over content that arrives in pieces, split anywhere.
#[derive(Clone, Debug, Default)]
pub struct ContentScanner {
    facts: ContentFacts,
    /// Bytes of the current line, including CR.
    line_bytes: u64,
    last: u8,
}

impl ContentScanner {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(&last) = piece.last() else { return };
        self.facts.body_bytes += piece.len() as u64;
        self.facts.has_8bit = self.facts.has_8bit || !piece.is_ascii();
        self.facts.has_nul = self.facts.has_nul || memchr::memchr(0, piece).is_some();
        let mut start = 0;
        for lf in memchr::memchr_iter(b'\n', piece) {
            self.line(&piece[start..lf]);
            let before = if lf == 0 { self.last } else { piece[lf - 1] };
            let length = self.line_bytes - u64::from(before == b'\r' && self.line_bytes > 0);
            self.longest(length);
            self.line_bytes = 0;
            start = lf + 1;
        }
        self.line(&piece[start..]);
        let before_last = if piece.len() > 1 { piece[piece.len() - 2] } else { self.last };
        self.facts.ends_with_crlf = last == b'\n' && before_last == b'\r';
        self.last = last;
    }

    fn line(&mut self, part: &[u8]) {
        if self.line_bytes == 0 && part.first() == Some(&b'.') {
            self.facts.dot_lines += 1;
        }
        self.line_bytes += part.len() as u64;
    }

    fn longest(&mut self, length: u64) {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.facts.longest_line = self.facts.longest_line.max(length);
    }

    /// The facts of the scanned content.
    #[must_use]
    pub fn finish(mut self) -> ContentFacts {
        self.longest(self.line_bytes);
        if self.facts.body_bytes == 0 {
            self.facts.ends_with_crlf = true;
        }
        self.facts
    }
}

/// Looks for an 8-bit octet before the empty line.
#[derive(Debug, Default)]
pub struct HeaderScan {
    /// Octets of the current line, without CR.
    line_bytes: usize,
}

impl HeaderScan {
    /// Returns true if the header has an 8-bit octet, false if not; `None`: not known yet.
    pub fn push(&mut self, piece: &[u8]) -> Option<bool> {
        for &octet in piece {
            match octet {
                b'\n' if self.line_bytes == 0 => return Some(false),
                b'\n' => self.line_bytes = 0,
                b'\r' => {}
                0x80.. => return Some(true),
                _ => self.line_bytes += 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same facts from the whole content at once, the slow and obvious way.
    fn oracle(content: &[u8]) -> ContentFacts {
        let mut lines: Vec<&[u8]> = content.split(|&b| b == b'\n').collect();
        let open = lines.pop().unwrap_or_default();
        let closed = lines.iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line).len());
        ContentFacts {
            body_bytes: content.len() as u64,
            has_8bit: content.iter().any(|&b| b >= 0x80),
            has_nul: content.contains(&0),
            longest_line: closed.chain([open.len()]).max().unwrap_or(0) as u32,
            ends_with_crlf: content.is_empty() || content.ends_with(b"\r\n"),
            dot_lines: lines.iter().chain([&open]).filter(|l| l.starts_with(b".")).count() as u64,
        }
    }

    fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ContentFacts {
        let mut scanner = ContentScanner::default();
        for piece in pieces {
            scanner.push(piece);
        }
        scanner.finish()
    }

    #[test]
    fn facts_of_small_contents() {
        let facts = scan([&b"A: b\r\n\r\n.x\r"[..], b"\n", b".", b"\r", b"\n"]);
        assert_eq!(
            facts,
            ContentFacts {
                body_bytes: 15,
                has_8bit: false,
                has_nul: false,
                longest_line: 4,
                ends_with_crlf: true,
                dot_lines: 2,
            }
        );
        assert!(scan([]).ends_with_crlf);
        assert!(!scan([&b"\n"[..]]).ends_with_crlf);
        assert!(!scan([&b"a\r"[..]]).ends_with_crlf);
        assert_eq!(scan([&b"a\r"[..], b"b\r\n"]).longest_line, 3);
        assert!(scan([&b"\0"[..]]).has_nul);
        assert!(scan([&b"\x80"[..], b"a"]).has_8bit);
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            content in proptest::collection::vec(
                prop_oneof![
                    4 => Just(b'\r'), 4 => Just(b'\n'), 4 => Just(b'.'), 8 => Just(b'a'),
                    1 => any::<u8>(),
                ],
                0..60,
            ),
            mut cuts in proptest::collection::vec(0..60usize, 0..12),
        ) {
            cuts.extend([0, content.len()]);
            cuts.iter_mut().for_each(|cut| *cut = (*cut).min(content.len()));
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|w| &content[w[0]..w[1]]);
            prop_assert_eq!(scan(pieces), oracle(&content));
            prop_assert_eq!(scan(content.chunks(1)), oracle(&content));
        }
    }
}
