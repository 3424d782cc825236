//! Writing internet mail: fields that are folded and can't break a header, bodies in encodings that pass everywhere.

use super::entity::Entity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Preferred and maximum length of lines (RFC 5322 §2.1.1).
const FOLD_AT: usize = 76;
const LINE_BYTES_MAX: usize = 998;

/// A header that is written.
#[derive(Clone, Debug, Default)]
pub(super) struct MimeHeader(pub Vec<u8>);

impl MimeHeader {
    /// Writes a field: one line folded at blanks. No blank is lost, since addresses may contain them. Characters other
    /// than printable ASCII become question marks, so that no value can end its field.
    pub(super) fn field(&mut self, name: &str, value: &str) {
        let mut line = format!("{name}:");
        for word in value.trim().split([' ', '\t']) {
            let word: String =
                word.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
            // Many readers would end the header at a line of blanks. Checked only before text, so that blanks are
            // scanned once.
            let has_text =
                |line: &str| line.trim_end().len() > name.len() + 1 || line.starts_with(' ');
            if !word.is_empty() && line.len() + 1 + word.len() > FOLD_AT && has_text(&line) {
                self.line(&line);
                line.clear();
            }
            line.push(' ');
            line.push_str(&word);
        }
        self.line(&line);
    }

    /// Writes `Name: value` if it is a field.
    pub(super) fn raw(&mut self, field: &str) {
        if let Some((name, value)) = field.split_once(':')
            && is_name(name)
        {
            self.field(name, value);
        }
    }

    /// A too long line, without a blank to fold at, is cut into pieces that begin with a tab.
    fn line(&mut self, line: &str) {
        let mut rest = line;
        while let Some((front, behind)) = rest.split_at_checked(LINE_BYTES_MAX - 1)
            && !behind.is_empty()
        {
            self.0.extend_from_slice(front.as_bytes());
            self.0.extend_from_slice(b"\r\n\t");
            rest = behind;
        }
        self.0.extend_from_slice(rest.as_bytes());
        self.0.extend_from_slice(b"\r\n");
    }
}

/// Returns true for a valid field name (RFC 5322 §2.2).
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 77 && name.bytes().all(|b| b.is_ascii_graphic() && b != b':')
}

/// A part of a MIME message: its Content fields, and its body as it is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct MimePart {
    pub fields: MimeHeader,
    pub body: Vec<u8>,
    /// It is a message; a multipart of these alone is a digest.
    pub is_message: bool,
}

impl MimePart {
    /// A text; `charset` is that of the octets. Line ends become CRLF.
    pub(super) fn text(content_type: &str, octets: &[u8]) -> MimePart {
        let mut part = MimePart::default();
        part.fields.field("Content-Type", content_type);
        let body = crlf(octets);
        if is_seven_bit(&body) {
            part.body = body;
        } else {
            part.fields.field("Content-Transfer-Encoding", "quoted-printable");
            part.body = quoted_printable(&body);
        }
        part
    }

    /// Octets.
    pub(super) fn octets(content_type: &str, octets: &[u8]) -> MimePart {
        let mut part = MimePart::default();
        part.fields.field("Content-Type", content_type);
        part.base64(octets);
        part
    }

    /// The fields that describe a part, each once. No other fields, because in a single-part message these are in its
    /// header.
    pub(super) fn content_fields<'f>(&mut self, fields: impl IntoIterator<Item = &'f str>) {
        let mut seen: Vec<String> = Vec::new();
        for field in fields {
            let name = field.split(':').next().unwrap_or_default().to_ascii_lowercase();
            let is_right = name.starts_with("content-") && name != "content-transfer-encoding";
            if is_right && !seen.contains(&name) {
                self.fields.raw(field);
                seen.push(name);
            }
        }
    }

    /// The body of a part with written fields. A multipart or a message is sent unchanged, because it cannot be encoded
    /// (RFC 2045 §6.4); if mail cannot carry it, it becomes a file.
    pub(super) fn carry(&mut self, octets: &[u8]) {
        let is_composite = matches!(
            Entity::parse(&self.fields.0).content_type.kind.as_str(),
            "multipart" | "message"
        );
        if !is_composite {
            return self.base64(octets);
        }
        let body = crlf(octets);
        if is_fit(&body) {
            if !body.is_ascii() {
                self.fields.field("Content-Transfer-Encoding", "8bit");
            }
            self.body = body;
            return;
        }
        let mut fields = MimeHeader::default();
        fields.field("Content-Type", "application/octet-stream");
        for field in mail::header::fields(&self.fields.0) {
            if !field.name.eq_ignore_ascii_case(b"Content-Type") {
                let name = String::from_utf8_lossy(field.name);
                fields.field(&name, &String::from_utf8_lossy(&field.unfolded()));
            }
        }
        self.fields = fields;
        self.base64(octets);
    }

    /// The body in base64.
    fn base64(&mut self, octets: &[u8]) {
        self.fields.field("Content-Transfer-Encoding", "base64");
        // 57 octets make a line of 76.
        for line in octets.chunks(57) {
            self.body.extend_from_slice(STANDARD.encode(line).as_bytes());
            self.body.extend_from_slice(b"\r\n");
        }
    }

    /// A multipart of these parts.
    pub(super) fn multipart(
        subtype: &str,
        parameters: &str,
        parts: &[MimePart],
        seed: &str,
    ) -> MimePart {
        let boundary = boundary(parts, seed);
        let mut whole = MimePart::default();
        whole.fields.field(
            "Content-Type",
            &format!("multipart/{subtype};{parameters} boundary=\"{boundary}\""),
        );
        for part in parts {
            whole.body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
            whole.body.extend_from_slice(&part.fields.0);
            whole.body.extend_from_slice(b"\r\n");
            whole.body.extend_from_slice(&part.body);
            whole.body.extend_from_slice(b"\r\n");
        }
        whole.body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        whole
    }
}

/// Header and body, with a header that at least names the recipient.
pub(super) fn finished(mut out: MimeHeader, body: MimePart) -> Vec<u8> {
    out.field("MIME-Version", "1.0");
    [&out.0[..], &body.fields.0, b"\r\n", &body.body].concat()
}

/// A boundary that occurs in no part. If the first choice occurs, because its value was guessed, the next one depends on
/// the contents of the parts. A message cannot contain that, so the number of scans is small.
fn boundary(parts: &[MimePart], seed: &str) -> String {
    let seed: String = seed.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    let mut number = 0_u64;
    loop {
        let boundary = format!("=_{seed}.{number}");
        let is_used = parts.iter().any(|part| {
            memchr_find(&part.body, boundary.as_bytes())
                || memchr_find(&part.fields.0, boundary.as_bytes())
        });
        if !is_used {
            return boundary;
        }
        let mut hasher = DefaultHasher::new();
        number.hash(&mut hasher);
        for part in parts {
            part.fields.0.hash(&mut hasher);
            part.body.hash(&mut hasher);
        }
        number = hasher.finish();
    }
}

fn memchr_find(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Every line ends with CRLF.
pub(super) fn crlf(octets: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(octets.len() + 16);
    let mut last = 0;
    for &octet in octets {
        if octet == b'\n' && last != b'\r' {
            out.push(b'\r');
        }
        out.push(octet);
        last = octet;
    }
    out
}

fn is_seven_bit(octets: &[u8]) -> bool {
    octets.is_ascii() && is_fit(octets)
}

/// Returns true if mail can carry these lines without an encoding (RFC 2045 §2.7, §2.8).
pub(super) fn is_fit(octets: &[u8]) -> bool {
    !octets.contains(&0)
        && octets.split(|&octet| octet == b'\n').all(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            line.len() <= LINE_BYTES_MAX && !line.contains(&b'\r')
        })
}

/// Quoted-printable, in which CRLF is a line end (RFC 2045 §6.7).
fn quoted_printable(octets: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(octets.len() + octets.len() / 4);
    let mut column = 0;
    let mut rest = octets;
    while let Some((&octet, behind)) = rest.split_first() {
        if let [b'\r', b'\n', more @ ..] = rest {
            out.extend_from_slice(b"\r\n");
            column = 0;
            rest = more;
            continue;
        }
        let ends_line = behind.is_empty() || behind.starts_with(b"\r\n");
        let is_plain = (b'!'..=b'~').contains(&octet) && octet != b'=';
        let is_blank = matches!(octet, b' ' | b'\t') && !ends_line;
        let piece =
            if is_plain || is_blank { vec![octet] } else { format!("={octet:02X}").into_bytes() };
        if column + piece.len() > FOLD_AT - 1 {
            out.extend_from_slice(b"=\r\n");
            column = 0;
        }
        column += piece.len();
        out.extend_from_slice(&piece);
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(content_type: &str, octets: &[u8]) -> (String, Vec<u8>) {
        let mut part = MimePart::default();
        part.content_fields([format!("Content-Type: {content_type}").as_str(), "Content-ID: <1>"]);
        part.carry(octets);
        (String::from_utf8(part.fields.0).unwrap(), part.body)
    }

    #[test]
    fn what_is_made_of_parts_leaves_as_it_is_or_as_a_file() {
        let message = b"Subject: x\n\nbody\n";
        for kind in ["message/rfc822", "Message/Partial; id=x", "multipart/mixed; boundary=b"] {
            let (fields, body) = carried(kind, message);
            assert!(
                !fields.contains("Transfer-Encoding") && fields.contains("Content-ID"),
                "{fields}"
            );
            assert_eq!(body, b"Subject: x\r\n\r\nbody\r\n");
            let (fields, _) = carried(kind, b"Subject: \xfc\r\n\r\n");
            assert!(fields.contains("Content-Transfer-Encoding: 8bit"), "{fields}");
            // A line that no mail can have, a NUL, a CR alone.
            for bad in [&[b'x'; 2_000][..], b"a\0b", b"a\rb"] {
                let (fields, _) = carried(kind, bad);
                assert!(
                    fields.starts_with("Content-Type: application/octet-stream\r\n"),
                    "{fields}"
                );
                assert!(fields.contains("base64") && fields.contains("Content-ID"), "{fields}");
                assert!(!fields.to_lowercase().contains("message/"), "{fields}");
            }
        }
        assert!(carried("text/plain", message).0.contains("base64"));
    }
}
