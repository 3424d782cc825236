//! What is worth knowing about a message's content, found in one scan at intake.

/// Facts recorded with each content, so that egress need not look at it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentFacts {
    /// Length as stored: un-stuffed, CRLF line ends.
    pub body_bytes: u64,
    /// Some byte is 0x80 or more.
    pub has_8bit: bool,
    /// Some byte is NUL.
    pub has_nul: bool,
    /// The longest line in bytes, its CRLF not counted.
    pub longest_line: u32,
    /// The last two bytes are CRLF (or the content is empty).
    pub ends_with_crlf: bool,
    /// How many lines begin with a dot: each needs stuffing for DATA.
    pub dot_lines: u64,
}

/// Finds [`ContentFacts`] over content that arrives in pieces, split anywhere.
#[derive(Clone, Debug, Default)]
pub struct ContentScanner {
    facts: ContentFacts,
    /// Bytes of the line that is open, CR included.
    line_bytes: u64,
    last: u8,
}

impl ContentScanner {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(&last) = piece.last() else { return };
        self.facts.body_bytes += piece.len() as u64;
        self.facts.has_8bit |= !piece.is_ascii();
        self.facts.has_nul |= memchr::memchr(0, piece).is_some();
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

    /// The facts of all that was pushed.
    #[must_use]
    pub fn finish(mut self) -> ContentFacts {
        self.longest(self.line_bytes);
        if self.facts.body_bytes == 0 {
            self.facts.ends_with_crlf = true;
        }
        self.facts
    }
}
