//! Makes the end of a header unambiguous: an empty line is inserted before the first line that is not a field (RFC 5322
//! §2.1). Without it some readers treat that line as body. Different readers treat it as a field or as a continuation
//! of a field added above by a relay, or ignore it.

use crate::header::{Name, name_length};

/// A line without a colon within this length is not a field.
pub const FIELD_NAME_BYTES_MAX: usize = 998;

/// Name given to a line that separates messages in mailbox files (`From jo Mon …`), as in Postfix.
const MAILBOX_LINE: &[u8] = b"X-Mailbox-Line: ";

/// Processes the header of content that comes in pieces.
#[derive(Debug)]
pub struct HeaderEnd {
    at: HeaderEndState,
    /// The start of a line of undecided kind.
    held: Vec<u8>,
    is_first: bool,
    added: Added,
    /// Octets of the first line so far, while its new name makes it longer.
    first_line: Option<u64>,
}

/// Inserted data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    pub bytes: u64,
    /// The length of the first line without its line end, if the new name made it longer.
    pub first_line: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderEndState {
    LineStart,
    /// Within a line of the header.
    Line,
    /// The rest passes unchanged.
    Body,
}

enum LineKind {
    Unknown,
    /// The empty line: the header ends here.
    Empty,
    Field,
    Mailbox,
    Other,
}

impl Default for HeaderEnd {
    fn default() -> HeaderEnd {
        let (added, held) = (Added::default(), Vec::new());
        HeaderEnd { at: HeaderEndState::LineStart, held, is_first: true, added, first_line: None }
    }
}

impl HeaderEnd {
    /// Takes the next piece, and passes decided bytes to `sink`.
    pub fn push(&mut self, piece: &[u8], mut sink: impl FnMut(&[u8])) {
        if self.held.is_empty() {
            return self.read(piece, &mut sink);
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(piece);
        self.read(&whole, &mut sink);
    }

    /// The content is complete.
    pub fn finish(&mut self, mut sink: impl FnMut(&[u8])) -> Added {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() && held != b"\r" {
            self.end_header(&mut sink);
        }
        sink(&held);
        self.at = HeaderEndState::Body;
        if let Some(length) = self.first_line.take() {
            self.added.first_line = length;
        }
        self.added
    }

    /// Returns true if the rest passes unchanged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at == HeaderEndState::Body && self.held.is_empty()
    }

    fn read(&mut self, data: &[u8], sink: &mut impl FnMut(&[u8])) {
        // `data[..from]` is with the sink.
        let (mut from, mut at) = (0, 0);
        while at < data.len() && self.at != HeaderEndState::Body {
            let rest = data.get(at..).unwrap_or_default();
            if self.at == HeaderEndState::Line {
                let Some(lf) = memchr::memchr(b'\n', rest) else {
                    self.count_first(rest.len());
                    break;
                };
                self.count_first(lf);
                if let Some(length) = self.first_line.take() {
                    // Lines end with CRLF here.
                    self.added.first_line = length.saturating_sub(1);
                }
                at += lf + 1;
                self.at = HeaderEndState::LineStart;
                continue;
            }
            match self.kind(rest) {
                LineKind::Unknown => {
                    sink(data.get(from..at).unwrap_or_default());
                    self.held = rest.to_vec();
                    return;
                }
                LineKind::Empty => self.at = HeaderEndState::Body,
                LineKind::Field => self.at = HeaderEndState::Line,
                LineKind::Mailbox => {
                    sink(data.get(from..at).unwrap_or_default());
                    from = at;
                    sink(MAILBOX_LINE);
                    self.added.bytes += MAILBOX_LINE.len() as u64;
                    self.first_line = Some(MAILBOX_LINE.len() as u64);
                    self.at = HeaderEndState::Line;
                }
                LineKind::Other => {
                    sink(data.get(from..at).unwrap_or_default());
                    from = at;
                    self.end_header(sink);
                }
            }
            self.is_first = false;
        }
        sink(data.get(from..).unwrap_or_default());
    }

    fn end_header(&mut self, sink: &mut impl FnMut(&[u8])) {
        sink(b"\r\n");
        self.added.bytes += 2;
        self.at = HeaderEndState::Body;
    }

    fn count_first(&mut self, bytes: usize) {
        if let Some(length) = &mut self.first_line {
            *length += bytes as u64;
        }
    }

    /// The kind of the line that begins here.
    fn kind(&self, line: &[u8]) -> LineKind {
        match line {
            [b'\n', ..] | [b'\r', b'\n', ..] => return LineKind::Empty,
            [b'\r'] => return LineKind::Unknown,
            // A continuation line, if a field precedes it.
            [b' ' | b'\t', ..] if !self.is_first => return LineKind::Field,
            _ => {}
        }
        match name_length(line) {
            Name::Ends { colon, .. } if colon <= FIELD_NAME_BYTES_MAX => LineKind::Field,
            Name::Cut if line.len() <= FIELD_NAME_BYTES_MAX => LineKind::Unknown,
            _ if self.is_first && is_mailbox_line(line) => LineKind::Mailbox,
            _ => LineKind::Other,
        }
    }
}

/// Returns true if a line separates messages in mailbox files, or is a quoted separator.
fn is_mailbox_line(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    line.get(quotes..).is_some_and(|line| line.starts_with(b"From "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;
    use proptest::prelude::*;

    fn mended(content: &[u8], piece_bytes: usize) -> (Vec<u8>, Added) {
        let (mut end, mut out) = (HeaderEnd::default(), Vec::new());
        for piece in content.chunks(piece_bytes.max(1)) {
            end.push(piece, |piece| out.extend_from_slice(piece));
        }
        let added = end.finish(|piece| out.extend_from_slice(piece));
        assert!(end.is_done());
        (out, added)
    }

    #[test]
    fn an_empty_line_stands_before_the_first_line_that_is_no_field() {
        let long = "x".repeat(FIELD_NAME_BYTES_MAX);
        let (name, longer) = (format!("{long}: y\r\n\r\n"), format!("{long}x: y\r\n"));
        let ended = format!("\r\n{longer}");
        for (content, expected) in [
            ("", ""),
            ("\r\nbody\r\n", "\r\nbody\r\n"),
            ("A: b\r\n", "A: b\r\n"),
            (
                "A: b\r\n c\r\n\td\r\nE : f\r\n\r\n g\r\n",
                "A: b\r\n c\r\n\td\r\nE : f\r\n\r\n g\r\n",
            ),
            ("A: b\r\n \r\nC: d\r\n\r\n", "A: b\r\n \r\nC: d\r\n\r\n"),
            ("just text\r\nmore\r\n", "\r\njust text\r\nmore\r\n"),
            ("just", "\r\njust"),
            (" by mx.test with ESMTP\r\nFrom: a\r\n", "\r\n by mx.test with ESMTP\r\nFrom: a\r\n"),
            ("\t\r\nFrom: a\r\n", "\r\n\t\r\nFrom: a\r\n"),
            ("A: b\r\nno field\r\nFrom: c\r\n\r\n", "A: b\r\n\r\nno field\r\nFrom: c\r\n\r\n"),
            ("A: b\r\n: c\r\n", "A: b\r\n\r\n: c\r\n"),
            ("A: b\r\nFrom jo Mon\r\n", "A: b\r\n\r\nFrom jo Mon\r\n"),
            ("From jo Mon\r\nA: b\r\n\r\n", "X-Mailbox-Line: From jo Mon\r\nA: b\r\n\r\n"),
            (">>From jo\r\n\r\n", "X-Mailbox-Line: >>From jo\r\n\r\n"),
            ("From : a\r\n\r\n", "From : a\r\n\r\n"),
            ("From\r\n : a\r\n\r\n", "\r\nFrom\r\n : a\r\n\r\n"),
            ("B\u{e9}: a\r\n", "\r\nB\u{e9}: a\r\n"),
            ("A: b\n\nc", "A: b\n\nc"),
            (&name, &name),
            (&longer, &ended),
        ] {
            for piece_bytes in [1, 2, 3, 7, 4_096] {
                let (out, added) = mended(content.as_bytes(), piece_bytes);
                assert_eq!(String::from_utf8_lossy(&out), *expected, "{content:?}");
                assert_eq!(added.bytes as usize, expected.len() - content.len(), "{content:?}");
                let first = if expected.starts_with("X-M") { expected.find('\r') } else { None };
                assert_eq!(added.first_line as usize, first.unwrap_or(0), "{content:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_comes_out_has_one_header_and_is_mended_once(
            content in proptest::collection::vec(
                proptest::sample::select(vec![
                    &b"\r\n"[..], b" ", b":", b"a", b"From ", b"\t", b"\xe9", b"A: b\r\n", b".",
                ]),
                0..30,
            ),
            piece_bytes in 1_usize..9,
        ) {
            let content = content.concat();
            let (out, _) = mended(&content, piece_bytes);
            prop_assert_eq!(mended(&out, 4_096).0, out.clone());
            // The header ends with an empty line, or with the content.
            let end = header::fields(&out).map(|field| field.range.end).last().unwrap_or(0);
            let rest = &out[end..];
            prop_assert!(rest.is_empty() || rest == b"\r" || rest.starts_with(b"\r\n"), "{:?}", out);
        }
    }
}
