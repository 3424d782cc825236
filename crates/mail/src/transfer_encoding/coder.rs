//! The encodings of RFC 2045 §6.7 and §6.8.

/// Maximum columns of a line of encoded text.
const COLUMNS_MAX: usize = 76;
const HEX: &[u8; 16] = b"0123456789ABCDEF";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes a body line by line.
#[derive(Debug)]
pub(super) enum Coder {
    /// As it is.
    Plain,
    /// Already quoted-printable: only lines are shortened.
    WrapQuotedPrintable,
    /// Already base64: only lines are shortened.
    WrapBase64,
    QuotedPrintable,
    Base64 {
        /// Octets of an incomplete group of three.
        group: Vec<u8>,
        column: usize,
        /// A line end that belongs to a following boundary, if present (RFC 2046 §5.1.1).
        line_end: &'static [u8],
    },
}

impl Coder {
    pub(super) fn base64() -> Coder {
        Coder::Base64 { group: Vec::with_capacity(3), column: 0, line_end: b"" }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Coder::Plain => "7bit",
            Coder::QuotedPrintable | Coder::WrapQuotedPrintable => "quoted-printable",
            Coder::Base64 { .. } | Coder::WrapBase64 => "base64",
        }
    }

    /// Encodes a line with its line end, if any.
    pub(super) fn push(&mut self, line: &[u8], out: &mut Vec<u8>) {
        match self {
            Coder::Plain => out.extend_from_slice(line),
            Coder::QuotedPrintable => push_quoted_printable(line, out),
            Coder::WrapQuotedPrintable => wrap_quoted_printable(line, out),
            Coder::WrapBase64 => wrap_base64(line, out),
            Coder::Base64 { group, column, line_end } => {
                let (text, end) = split_end(line);
                let before = std::mem::replace(line_end, end);
                for &octet in before.iter().chain(text) {
                    group.push(octet);
                    if group.len() == 3 {
                        push_group(group, column, out);
                    }
                }
            }
        }
    }

    /// Ends the body, at a boundary or at the end of the content.
    pub(super) fn finish(&mut self, at_boundary: bool, out: &mut Vec<u8>) {
        if let Coder::Base64 { group, column, line_end } = self {
            let rest: &[u8] = if at_boundary { b"" } else { line_end };
            for &octet in rest {
                group.push(octet);
                if group.len() == 3 {
                    push_group(group, column, out);
                }
            }
            if !group.is_empty() {
                push_group(group, column, out);
            }
            if *column > 0 {
                out.extend_from_slice(b"\r\n");
                *column = 0;
            }
        }
    }
}

/// RFC 2045 §6.7. A line end remains a line end.
fn push_quoted_printable(line: &[u8], out: &mut Vec<u8>) {
    let (text, end) = match line {
        [text @ .., b'\r', b'\n'] => (text, &b"\r\n"[..]),
        text => (text, &b""[..]),
    };
    let mut column = 0;
    for (at, &octet) in text.iter().enumerate() {
        let is_last = at + 1 == text.len();
        let is_plain = match octet {
            // Blanks at the end of a line can get lost in transit.
            b' ' | b'\t' => !is_last,
            b'=' => false,
            _ => octet.is_ascii_graphic(),
        };
        let width = if is_plain { 1 } else { 3 };
        // The last octet of a line can use the whole width; otherwise a column is reserved for `=`.
        let room = COLUMNS_MAX - usize::from(!is_last || end.is_empty());
        if column + width > room {
            out.extend_from_slice(b"=\r\n");
            column = 0;
        }
        column += width;
        if is_plain {
            out.push(octet);
        } else {
            let (high, low) = (usize::from(octet >> 4), usize::from(octet & 15));
            out.extend_from_slice(&[b'=', HEX[high], HEX[low]]);
        }
    }
    match (end, text.last()) {
        // Without CRLF: the body ends here, or the LF was bare and is encoded.
        (b"", Some(b'\n')) => out.extend_from_slice(b"=\r\n"),
        _ => out.extend_from_slice(end),
    }
}

fn is_fit(text: &[u8]) -> bool {
    text.len() <= super::LINE_BYTES_MAX as usize && text.is_ascii()
}

fn split_end(line: &[u8]) -> (&[u8], &'static [u8]) {
    match line {
        [text @ .., b'\r', b'\n'] => (text, b"\r\n"),
        [text @ .., b'\n'] => (text, b"\n"),
        text => (text, b""),
    }
}

/// RFC 2045 §6.7 (5): soft line breaks within a line that is encoded already, and octets that should have been.
fn wrap_quoted_printable(line: &[u8], out: &mut Vec<u8>) {
    let (text, end) = split_end(line);
    if is_fit(text) {
        return out.extend_from_slice(line);
    }
    let (mut rest, mut column) = (text, 0);
    while let Some((&octet, behind)) = rest.split_first() {
        let is_escape = |pair: &[u8]| pair.iter().all(u8::is_ascii_hexdigit);
        let width = match (octet, behind.get(..2)) {
            (b'=', Some(pair)) if is_escape(pair) => 3,
            _ => 1,
        };
        let (token, behind) = rest.split_at(width);
        let columns = if octet.is_ascii() { width } else { 3 };
        // A column is reserved for the `=` of a soft break. An `=` at the very end is the line's own soft break.
        if column + columns > COLUMNS_MAX - 1 && !(behind.is_empty() && octet == b'=') {
            out.extend_from_slice(b"=\r\n");
            column = 0;
        }
        column += columns;
        match octet.is_ascii() {
            true => out.extend_from_slice(token),
            false => {
                let (high, low) = (usize::from(octet >> 4), usize::from(octet & 15));
                out.extend_from_slice(&[b'=', HEX[high], HEX[low]]);
            }
        }
        rest = behind;
    }
    out.extend_from_slice(end);
}

/// RFC 2045 §6.8: line ends are insignificant.
fn wrap_base64(line: &[u8], out: &mut Vec<u8>) {
    let (text, end) = split_end(line);
    if is_fit(text) {
        return out.extend_from_slice(line);
    }
    for (at, piece) in text.chunks(COLUMNS_MAX).enumerate() {
        if at > 0 {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(end);
}

/// Writes up to three octets as four characters (RFC 2045 §6.8), and a line end after a full line.
fn push_group(group: &mut Vec<u8>, column: &mut usize, out: &mut Vec<u8>) {
    let octet = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
    let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
    for at in 0..4 {
        let index = (bits >> (18 - 6 * at)) & 63;
        out.push(if at > group.len() { b'=' } else { BASE64[index as usize] });
    }
    group.clear();
    *column += 4;
    if *column == COLUMNS_MAX {
        out.extend_from_slice(b"\r\n");
        *column = 0;
    }
}
