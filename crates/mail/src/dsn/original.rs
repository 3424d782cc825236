//! The last part of a report: the original message or its header (RFC 6522).

use super::{FULL_BYTES_MAX, HEADER_BYTES_MAX, LINE_BYTES_MAX};
use crate::{ContentScanner, header};
use memchr::{memchr_iter, memrchr};

/// The returned part of a message (RFC 3461 §4.3, §6.2).
#[derive(Clone, Copy, Debug)]
pub enum Original<'a> {
    /// Its header: the start of the content, of any length.
    Headers(&'a [u8]),
    /// The whole message, in pieces. Some messages cannot be included in a report: NUL, lines over 998 octets, 8-bit
    /// content in an ASCII report, over [`FULL_BYTES_MAX`]. For these only the header is returned.
    Full(&'a [&'a [u8]]),
}

/// The last part, made.
#[derive(Debug)]
pub(super) struct OriginalPart {
    pub(super) content_type: &'static str,
    pub(super) encoding: &'static str,
    pub(super) description: &'static str,
    pub(super) body: Vec<u8>,
}

impl Original<'_> {
    /// The fields of the header, as far as present.
    pub(super) fn header(&self) -> Vec<u8> {
        match self {
            Original::Headers(start) => cut_header(start).to_vec(),
            // The header may be spread over pieces.
            Original::Full(pieces) => {
                let mut start = Vec::new();
                for piece in *pieces {
                    start.extend_from_slice(piece);
                    if header::end(&start).is_some() {
                        break;
                    }
                }
                cut_header(&start).to_vec()
            }
        }
    }

    /// `header` is the result of [`Original::header`]; `global` allows the types of RFC 6532.
    pub(super) fn part(&self, header: &[u8], global: bool) -> OriginalPart {
        if let Original::Full(pieces) = self {
            let mut scanner = ContentScanner::default();
            pieces.iter().for_each(|piece| scanner.push(piece));
            let facts = scanner.finish();
            let fits = facts.body_bytes as usize <= FULL_BYTES_MAX && (global || !facts.has_8bit);
            if fits && !facts.has_nul && facts.longest_line as usize <= LINE_BYTES_MAX {
                // RFC 2046 §5.2.1: no encoding but 7bit and 8bit is allowed for message/rfc822.
                return OriginalPart {
                    content_type: if global && !header.is_ascii() {
                        "message/global"
                    } else {
                        "message/rfc822"
                    },
                    encoding: if facts.has_8bit { "8bit" } else { "7bit" },
                    description: "Your message",
                    body: with_crlf(pieces.concat()),
                };
            }
        }
        header_part(header, global)
    }
}

fn header_part(header: &[u8], global: bool) -> OriginalPart {
    let description = "Header of your message";
    let mut scanner = ContentScanner::default();
    scanner.push(header);
    let facts = scanner.finish();
    let is_plain = !facts.has_nul && facts.longest_line as usize <= LINE_BYTES_MAX;
    if is_plain && !facts.has_8bit {
        let body = with_crlf(header.to_vec());
        OriginalPart { content_type: "text/rfc822-headers", encoding: "7bit", description, body }
    } else if is_plain && global && std::str::from_utf8(header).is_ok() {
        let body = with_crlf(header.to_vec());
        OriginalPart { content_type: "message/global-headers", encoding: "8bit", description, body }
    } else {
        // RFC 6522 §4: broken headers may be encoded with quoted-printable.
        let body = quoted_printable(&with_crlf(header.to_vec()));
        OriginalPart {
            content_type: "text/rfc822-headers",
            encoding: "quoted-printable",
            description,
            body,
        }
    }
}

/// The fields at the start of a content, up to [`HEADER_BYTES_MAX`]. A longer header is cut at a line end.
fn cut_header(start: &[u8]) -> &[u8] {
    let start = &start[..start.len().min(HEADER_BYTES_MAX)];
    let end = match header::end(start) {
        Some(end) => end.fields_end,
        None => memrchr(b'\n', start).map_or(start.len(), |lf| lf + 1),
    };
    // Without the empty line that may end a content without a body.
    &start[..end]
}

/// Replaces each bare CR or LF by CRLF: a report must not contain bare ones (RFC 5321 §2.3.8).
fn with_crlf(content: Vec<u8>) -> Vec<u8> {
    let has_cr = |i: usize| i > 0 && content[i - 1] == b'\r';
    let line_count = memchr_iter(b'\n', &content).count();
    if memchr_iter(b'\n', &content).all(has_cr)
        && memchr_iter(b'\r', &content).count() == line_count
    {
        return content;
    }
    let mut out = Vec::with_capacity(content.len() + content.len() / 16);
    let mut last = 0;
    for &b in &content {
        match b {
            b'\n' if last == b'\r' => {}
            b'\r' | b'\n' => out.extend_from_slice(b"\r\n"),
            _ => out.push(b),
        }
        last = b;
    }
    out
}

/// RFC 2045 §6.7, for a text with CRLF line ends.
fn quoted_printable(text: &[u8]) -> Vec<u8> {
    /// Octets per line, without the `=` of a soft line break.
    const ENCODED_LINE_MAX: usize = 75;
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut column = 0;
    let mut bytes = text.iter().copied().peekable();
    while let Some(b) = bytes.next() {
        if b == b'\r' && bytes.next_if_eq(&b'\n').is_some() {
            out.extend_from_slice(b"\r\n");
            column = 0;
            continue;
        }
        let is_last = matches!(bytes.peek(), None | Some(b'\r'));
        let literal = matches!(b, b'!'..=b'~' if b != b'=') || (b == b' ' && !is_last);
        let length = if literal { 1 } else { 3 };
        if column + length > ENCODED_LINE_MAX {
            out.extend_from_slice(b"=\r\n");
            column = 0;
        }
        if literal {
            out.push(b);
        } else {
            let digits = b"0123456789ABCDEF";
            out.extend([b'=', digits[usize::from(b >> 4)], digits[usize::from(b & 0xf)]]);
        }
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_cut_where_they_end() {
        let header = |text: &'static [u8]| Original::Headers(text).header();
        assert_eq!(header(b"A: b\r\n\r\nbody"), b"A: b\r\n");
        assert_eq!(header(b"A: b\r\nC: cu"), b"A: b\r\n");
        assert_eq!(header(b"A: b\r\nbody\r\n"), b"A: b\r\n");
        let pieces: [&[u8]; 3] = [b"A: b\r", b"\n\r", b"\nbody"];
        assert_eq!(Original::Full(&pieces).header(), b"A: b\r\n");
    }

    #[test]
    fn what_is_returned_is_bounded() {
        let header = |lines: usize| "A: 345678\r\n".repeat(lines);
        let bytes = |lines| Original::Headers(header(lines).as_bytes()).header().len();
        let lines = HEADER_BYTES_MAX / 11;
        assert_eq!(bytes(lines), lines * 11);
        assert_eq!(bytes(lines + 1), lines * 11, "whole lines only");
        let full = |length: usize| {
            let content = format!("A: b\r\n\r\n{}", "x\r\n".repeat(length));
            let pieces = [&content.as_bytes()[..length]];
            let original = Original::Full(&pieces);
            original.part(&original.header(), false).content_type
        };
        assert_eq!(full(FULL_BYTES_MAX), "message/rfc822");
        assert_eq!(full(FULL_BYTES_MAX + 1), "text/rfc822-headers");
    }

    #[test]
    fn types_and_encodings() {
        let part = |content: &[u8], global| {
            let pieces = [content];
            let original = Original::Full(&pieces);
            let part = original.part(&original.header(), global);
            (part.content_type, part.encoding)
        };
        assert_eq!(part(b"A: b\r\n\r\nx", false), ("message/rfc822", "7bit"));
        assert_eq!(part(b"A: b\r\n\r\n\xff", true), ("message/rfc822", "8bit"));
        assert_eq!(part("A: ü\r\n\r\nx".as_bytes(), true), ("message/global", "8bit"));
        let encoded = ("text/rfc822-headers", "quoted-printable");
        assert_eq!(part("A: ü\r\n\r\nx".as_bytes(), false), encoded, "the report stays ASCII");
        assert_eq!(part("A: b\r\n\r\nü".as_bytes(), false), ("text/rfc822-headers", "7bit"));
        assert_eq!(part(b"A: b\r\n\r\n\0", false), ("text/rfc822-headers", "7bit"));
        let long_line = format!("A: b\r\n\r\n{}", "x".repeat(999));
        assert_eq!(part(long_line.as_bytes(), false), ("text/rfc822-headers", "7bit"));
        let headers = |content: &[u8], global| {
            let original = Original::Headers(content);
            let part = original.part(&original.header(), global);
            (part.content_type, part.encoding)
        };
        assert_eq!(headers("A: ü\r\n".as_bytes(), true), ("message/global-headers", "8bit"));
        assert_eq!(headers("A: ü\r\n".as_bytes(), false), encoded);
        assert_eq!(headers(b"A: \xff\r\n", true), encoded);
        assert_eq!(headers(b"A: \0\r\n", false), encoded);
    }

    #[test]
    fn quoted_printable_lines() {
        assert_eq!(
            quoted_printable("ü = a \r\nb\t\r\n".as_bytes()),
            b"=C3=BC =3D a=20\r\nb=09\r\n"
        );
    }

    proptest! {
        #[test]
        fn line_ends_are_made_whole(
            content in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'a'), any::<u8>()], 0..60,
            ),
        ) {
            let out = with_crlf(content.clone());
            let bare = |bytes: &[u8]| bytes.iter().filter(|b| !matches!(b, b'\r' | b'\n')).count();
            prop_assert_eq!(bare(&out), bare(&content));
            for (i, &b) in out.iter().enumerate() {
                prop_assert!(b != b'\n' || (i > 0 && out[i - 1] == b'\r'));
                prop_assert!(b != b'\r' || out.get(i + 1) == Some(&b'\n'));
            }
            let encoded = quoted_printable(&out);
            prop_assert!(encoded.is_ascii());
            for line in encoded.split(|&b| b == b'\n') {
                prop_assert!(line.len() <= 77);
            }
            prop_assert_eq!(decode(&encoded), out);
        }
    }

    fn decode(encoded: &[u8]) -> Vec<u8> {
        let text = String::from_utf8(encoded.to_vec()).unwrap().replace("=\r\n", "");
        let mut parts = text.split('=');
        let mut out = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            out.push(u8::from_str_radix(&part[..2], 16).unwrap());
            out.extend_from_slice(&part.as_bytes()[2..]);
        }
        out
    }
}
