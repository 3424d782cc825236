//! Parses a peer's replies (RFC 5321 §4.2), however the input is split.
//!
//! A reply that is complete in one input is parsed in place; only an incomplete reply at the end of an input is stored.
//! Text is allocated by [`RawReply::to_reply`] only.

use mail::{EnhancedStatus, Reply};
use std::borrow::Cow;

/// Bytes kept of a reply's text: enough for any diagnosis, and a bound on the memory that a peer can occupy by refusing
/// a thousand recipients.
const TEXT_BYTES_MAX: usize = 1024;

/// Bounds on one reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyLimits {
    /// A line with its line end.
    pub(super) line_bytes_max: usize,
    /// Lines in one reply.
    pub(super) lines_max: usize,
}

/// Errors of reply syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyError {
    LineTooLong,
    TooManyLines,
    /// Not three digits, or not followed by a blank or hyphen.
    Malformed,
    /// The lines of a reply have different codes.
    MixedCodes,
}

impl ReplyError {
    pub(super) fn text(self) -> &'static str {
        match self {
            ReplyError::LineTooLong => "reply line is too long",
            ReplyError::TooManyLines => "reply has too many lines",
            ReplyError::Malformed => "not an SMTP reply",
            ReplyError::MixedCodes => "reply has lines with different codes",
        }
    }
}

/// One reply as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawReply<'a> {
    pub(super) code: u16,
    /// All lines with their line ends; the code at the start of each was checked.
    bytes: &'a [u8],
}

impl<'a> RawReply<'a> {
    pub(super) fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// Returns true for 4yz and 5yz replies.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.code / 100, 4 | 5)
    }

    /// The text of each line, without code and line end.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes);
        bytes.split(|&b| b == b'\n').map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            line.get(4..).unwrap_or_default()
        })
    }

    /// The reply as a value, without the enhanced status of each line (RFC 2034 §4). Control characters become blanks,
    /// and the text is cut at 1 KiB.
    pub(super) fn to_reply(self) -> Reply {
        let mut enhanced: Option<EnhancedStatus> = None;
        let mut text = String::new();
        for (number, line) in self.lines().enumerate() {
            // For the common case quicker than from_utf8_lossy alone.
            let line = match std::str::from_utf8(line) {
                Ok(line) => Cow::Borrowed(line),
                Err(_) => String::from_utf8_lossy(line),
            };
            let mut rest: &str = &line;
            if let Some((status, behind)) = EnhancedStatus::parse_prefix(rest)
                && (number == 0 || enhanced == Some(status))
            {
                enhanced = Some(status);
                rest = behind;
            }
            if number > 0 && !push_bounded(&mut text, '\n') {
                break;
            }
            if !push_text(&mut text, rest) {
                break;
            }
        }
        Reply { code: self.code, enhanced, text: Cow::Owned(text) }
    }
}

/// Returns true if all fitted.
fn push_text(text: &mut String, part: &str) -> bool {
    let is_plain = part.bytes().all(|b| (b' '..=b'~').contains(&b));
    if is_plain && text.len() + part.len() <= TEXT_BYTES_MAX {
        text.reserve_exact(part.len());
        text.push_str(part);
        return true;
    }
    part.chars().all(|c| push_bounded(text, if is_shown(c) { c } else { ' ' }))
}

/// Returns true if a character is visible and does not affect the text around it. Excluded are control characters,
/// format characters of Unicode (Cf), which can reverse or hide text, and the separators of lines and paragraphs.
fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(u32::from(c),
            0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x180e
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff0..=0xfffb
            | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff)
}

/// Returns true if it fitted.
fn push_bounded(text: &mut String, c: char) -> bool {
    let fits = text.len() + c.len_utf8() <= TEXT_BYTES_MAX;
    if fits {
        text.push(c);
    }
    fits
}

/// State of the search for a reply's end.
#[derive(Clone, Copy, Debug, Default)]
struct Scan {
    /// Start of the open line.
    line_start: usize,
    /// No line end before this.
    searched: usize,
    line_count: usize,
    code: u16,
}

impl Scan {
    /// Returns the end of the reply that starts at `bytes[0]`, if it is complete.
    fn run(&mut self, bytes: &[u8], limits: ReplyLimits) -> Result<Option<usize>, ReplyError> {
        while let Some(found) = memchr::memchr(b'\n', &bytes[self.searched..]) {
            let end = self.searched + found + 1;
            let line = &bytes[self.line_start..end];
            if line.len() > limits.line_bytes_max {
                return Err(ReplyError::LineTooLong);
            }
            self.line_count += 1;
            if self.line_count > limits.lines_max {
                return Err(ReplyError::TooManyLines);
            }
            let (code, is_last) = parse_line(line)?;
            if self.line_count > 1 && code != self.code {
                return Err(ReplyError::MixedCodes);
            }
            self.code = code;
            self.line_start = end;
            self.searched = end;
            if is_last {
                return Ok(Some(end));
            }
        }
        self.searched = bytes.len();
        if bytes.len() - self.line_start >= limits.line_bytes_max {
            return Err(ReplyError::LineTooLong);
        }
        Ok(None)
    }
}

/// Returns the code, and true for the reply's last line. A bare LF also ends a line: it is harmless here, and some
/// servers send it.
fn parse_line(line: &[u8]) -> Result<(u16, bool), ReplyError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (&[a, b, c], rest) = line.split_first_chunk::<3>().ok_or(ReplyError::Malformed)?;
    // RFC 5321 §4.2.1: the first digit is 2 to 5.
    if !(b'2'..=b'5').contains(&a) || !b.is_ascii_digit() || !c.is_ascii_digit() {
        return Err(ReplyError::Malformed);
    }
    let digit = |d: u8| u16::from(d - b'0');
    let code = digit(a) * 100 + digit(b) * 10 + digit(c);
    match rest.first() {
        // RFC 5321 §4.2: a client should take a code alone on its line.
        None | Some(b' ') => Ok((code, true)),
        Some(b'-') => Ok((code, false)),
        Some(_) => Err(ReplyError::Malformed),
    }
}

/// Cuts the peer's stream into replies.
#[derive(Debug, Default)]
pub(super) struct ReplyReader {
    /// The incomplete reply; empty between replies.
    held: Vec<u8>,
    scan: Scan,
    /// `held` was returned as a whole and must be dropped.
    is_given: bool,
}

impl ReplyReader {
    /// Returns the next reply, taken from `held` and then from the front of `rest`. Returns `None` if `rest` is used up
    /// and no reply is complete.
    pub(super) fn next<'a, 'i: 'a>(
        &'a mut self,
        rest: &mut &'i [u8],
        limits: ReplyLimits,
    ) -> Result<Option<RawReply<'a>>, ReplyError> {
        if self.is_given {
            self.is_given = false;
            self.held.clear();
            self.scan = Scan::default();
        }
        if self.held.is_empty() {
            return self.next_in_place(rest, limits);
        }
        while !rest.is_empty() {
            let taken = memchr::memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            let (line, behind) = rest.split_at(taken);
            self.held.extend_from_slice(line);
            *rest = behind;
            if self.scan.run(&self.held, limits)?.is_some() {
                self.is_given = true;
                return Ok(Some(RawReply { code: self.scan.code, bytes: &self.held }));
            }
        }
        Ok(None)
    }

    fn next_in_place<'a, 'i: 'a>(
        &'a mut self,
        rest: &mut &'i [u8],
        limits: ReplyLimits,
    ) -> Result<Option<RawReply<'a>>, ReplyError> {
        let input: &'i [u8] = rest;
        let mut scan = Scan::default();
        if let Some(end) = scan.run(input, limits)? {
            let (bytes, behind) = input.split_at(end);
            *rest = behind;
            return Ok(Some(RawReply { code: scan.code, bytes }));
        }
        self.held.extend_from_slice(input);
        self.scan = scan;
        *rest = &[];
        Ok(None)
    }

    /// Returns true within a reply.
    pub(super) fn is_within_reply(&self) -> bool {
        !self.is_given && !self.held.is_empty()
    }

    /// Frees memory while the session is idle.
    pub(super) fn shrink(&mut self) {
        if !self.is_within_reply() {
            *self = ReplyReader::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReplyLimits = ReplyLimits { line_bytes_max: 60, lines_max: 3 };

    fn read(input: &[u8], step: usize) -> Result<Vec<Reply>, ReplyError> {
        let mut reader = ReplyReader::default();
        let mut replies = Vec::new();
        for mut piece in input.chunks(step) {
            while let Some(raw) = reader.next(&mut piece, LIMITS)? {
                replies.push(raw.to_reply());
            }
        }
        Ok(replies)
    }

    #[test]
    fn replies_are_the_same_however_they_are_split() {
        let input = b"220 hi\r\n250-2.1.0 one\r\n250 2.1.0 two\r\n354\r\n550 5.1.1\r\n452 x\n25";
        let expected = vec![
            Reply::bare(220, "hi"),
            Reply::new(250, (2, 1, 0), "one\ntwo"),
            Reply::bare(354, ""),
            Reply::new(550, (5, 1, 1), ""),
            Reply::bare(452, "x"),
        ];
        for step in 1..input.len() + 1 {
            assert_eq!(read(input, step).as_ref(), Ok(&expected), "pieces of {step}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_however_it_is_split() {
        let long_edge = [b"250 ".as_slice(), &[b'x'; 54], b"\r\n"].concat();
        let too_long = [b"250 ".as_slice(), &[b'x'; 55], b"\r\n"].concat();
        let endless = [b'x'; 60];
        for step in 1..70 {
            assert_eq!(read(&long_edge, step).map(|r| r.len()), Ok(1));
            for (input, error) in [
                (too_long.as_slice(), ReplyError::LineTooLong),
                (endless.as_slice(), ReplyError::LineTooLong),
                (b"250-a\r\n250-b\r\n250-c\r\n250 d\r\n", ReplyError::TooManyLines),
                (b"250-a\r\n251 b\r\n", ReplyError::MixedCodes),
                (b"\r\n", ReplyError::Malformed),
                (b"25\r\n", ReplyError::Malformed),
                (b"2500 x\r\n", ReplyError::Malformed),
                (b"150 x\r\n", ReplyError::Malformed),
                (b"650 x\r\n", ReplyError::Malformed),
                (b"2x0 x\r\n", ReplyError::Malformed),
                (b"HTTP/1.1 200 OK\r\n", ReplyError::Malformed),
            ] {
                assert_eq!(read(input, step), Err(error), "{:?}", input.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn text_is_cleaned_and_bounded() {
        let replies = read(b"550 5.1.1 a\tb\x07c\xff\r\n", 64).unwrap();
        assert_eq!(replies, [Reply::new(550, (5, 1, 1), "a b c\u{fffd}")]);
        let bidi = "450 4.2.0 \u{202e}gpj.exe\u{2066}\u{200b}\u{feff}\u{e0041}\u{ad}é\r\n";
        let replies = read(bidi.as_bytes(), 64).unwrap();
        assert_eq!(replies, [Reply::new(450, (4, 2, 0), " gpj.exe     é")]);

        let mut wire = b"550-".to_vec();
        wire.extend_from_slice("é".repeat(600).as_bytes());
        wire.extend_from_slice(b"\r\n550 end\r\n");
        let limits = ReplyLimits { line_bytes_max: 2000, lines_max: 3 };
        let mut reader = ReplyReader::default();
        let reply = reader.next(&mut wire.as_slice(), limits).unwrap().unwrap().to_reply();
        assert_eq!(reply.text, "é".repeat(512));
    }
}
