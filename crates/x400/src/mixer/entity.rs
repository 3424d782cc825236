//! MIME entities (RFC 2045, RFC 2046): read as far as a gateway must know them.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mail::header;

/// Parts of a multipart at most, and header fields of an entity.
pub const PARTS_MAX: usize = 1_000;
/// Fields of a header that are read at most. A message with as many or more is not converted, and one within another
/// is carried whole.
pub const FIELDS_MAX: usize = 2_000;

/// An entity: a header and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity<'a> {
    /// Names and values in one line, in their order.
    pub fields: Vec<(String, String)>,
    /// The body after the empty line, still encoded.
    pub body: &'a [u8],
    /// The whole entity.
    pub whole: &'a [u8],
    /// Type of the body.
    pub content_type: ContentType,
}

/// The type of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentType {
    /// In lower case.
    pub kind: String,
    /// In lower case.
    pub subtype: String,
    /// Names in lower case, and values without quotes.
    pub parameters: Vec<(String, String)>,
}

impl ContentType {
    /// `text/plain; charset=us-ascii`: the default type of an entity.
    #[must_use]
    pub fn plain() -> ContentType {
        ContentType { kind: "text".into(), subtype: "plain".into(), parameters: Vec::new() }
    }

    /// Parses the value of a field; `None` if invalid.
    #[must_use]
    pub fn parse(value: &str) -> Option<ContentType> {
        let (full, parameters) = value.split_once(';').unwrap_or((value, ""));
        let (kind, subtype) = full.trim().split_once('/')?;
        let is_token = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
        };
        (is_token(kind) && is_token(subtype)).then(|| ContentType {
            kind: kind.to_ascii_lowercase(),
            subtype: subtype.to_ascii_lowercase(),
            parameters: parse_parameters(parameters),
        })
    }

    /// A parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if it is this type.
    #[must_use]
    pub fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind == kind && self.subtype == subtype
    }
}

/// Parameters after the first semicolon (RFC 2045 §5.1).
#[must_use]
pub fn parse_parameters(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once('=') {
        let behind = behind.trim_start();
        let (value, more) = match behind.strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut chars = quoted.char_indices();
                let mut end = quoted.len();
                while let Some((at, c)) = chars.next() {
                    match c {
                        '\\' => value.extend(chars.next().map(|(_, c)| c)),
                        '"' => {
                            end = at + 1;
                            break;
                        }
                        c => value.push(c),
                    }
                }
                let more = quoted.get(end..).unwrap_or_default();
                (value, more.split_once(';').map_or("", |(_, more)| more))
            }
            None => {
                let (value, more) = behind.split_once(';').unwrap_or((behind, ""));
                (value.trim().to_owned(), more)
            }
        };
        let name = name.rsplit(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if parameters.len() < FIELDS_MAX {
            parameters.push((name, value));
        }
        rest = more;
    }
    parameters
}

impl<'a> Entity<'a> {
    /// Reads an entity; every octet string is one.
    #[must_use]
    pub fn parse(whole: &'a [u8]) -> Entity<'a> {
        let end = header::end(whole);
        let head_end = end.map_or(whole.len(), |end| end.fields_end);
        let fields: Vec<(String, String)> =
            header::fields(whole.get(..head_end).unwrap_or_default())
                .take(FIELDS_MAX)
                .map(|field| {
                    let name = String::from_utf8_lossy(field.name).into_owned();
                    (name, String::from_utf8_lossy(&field.unfolded()).into_owned())
                })
                .collect();
        let body = end.and_then(|end| whole.get(end.body_start..)).unwrap_or_default();
        let mut entity = Entity { fields, body, whole, content_type: ContentType::plain() };
        if let Some(read) = entity.field("Content-Type").and_then(ContentType::parse) {
            entity.content_type = read;
        }
        entity
    }

    /// The value of the first field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
    }

    /// The values of all fields of this name.
    pub fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e str> {
        self.fields
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body, decoded; `None`: its encoding is not known.
    #[must_use]
    pub fn decoded(&self) -> Option<Vec<u8>> {
        let encoding = self.field("Content-Transfer-Encoding").unwrap_or("7bit").trim();
        match encoding.to_ascii_lowercase().as_str() {
            "7bit" | "8bit" | "binary" | "" => Some(self.body.to_vec()),
            "base64" => Some(base64(self.body)),
            "quoted-printable" => Some(quoted_printable(self.body)),
            _ => None,
        }
    }

    /// The parts of a multipart; `None`: it has no boundary, none begins, or there are more than [`PARTS_MAX`].
    #[must_use]
    pub fn parts(&self) -> Option<Vec<Entity<'a>>> {
        let boundary = self.content_type.parameter("boundary")?;
        let mut parts = Vec::new();
        let mut start: Option<usize> = None;
        let mut offset = 0;
        while offset < self.body.len() {
            let rest = self.body.get(offset..)?;
            let length = rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |lf| lf + 1);
            if let Some(is_last) = delimiter(rest.get(..length)?, boundary.as_bytes()) {
                if let Some(start) = start {
                    if parts.len() >= PARTS_MAX {
                        return None;
                    }
                    // The line end before a delimiter belongs to the delimiter (RFC 2046 §5.1.1).
                    let part = self.body.get(start..offset)?;
                    let part = part.strip_suffix(b"\n").unwrap_or(part);
                    parts.push(Entity::parse(part.strip_suffix(b"\r").unwrap_or(part)));
                }
                start = (!is_last).then_some(offset + length);
                if is_last {
                    return Some(parts);
                }
            }
            offset += length;
        }
        // A cut message: the last part extends to the end.
        let start = start?;
        parts.push(Entity::parse(self.body.get(start..).unwrap_or_default()));
        Some(parts)
    }
}

/// Returns `Some` if a line is a delimiter of this boundary; true for the last one.
fn delimiter(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    let (rest, is_last) = match rest.strip_prefix(b"--") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    rest.iter().all(|b| b.is_ascii_whitespace()).then_some(is_last)
}

/// Decodes base64 leniently: other characters are skipped, padding may be missing, the end may be cut.
fn base64(body: &[u8]) -> Vec<u8> {
    const TOLERANT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let mut digits: Vec<u8> = body
        .iter()
        .copied()
        .filter(|b| b.is_ascii_alphanumeric() || *b == b'+' || *b == b'/')
        .collect();
    // A single digit is not an octet.
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    TOLERANT.decode(&digits).unwrap_or_default()
}

/// Quoted-printable (RFC 2045 §6.7); malformed parts stay unchanged.
fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((&first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'=', [b'\r', b'\n', more @ ..] | [b'\n', more @ ..]) => more,
            (b'=', [high, low, more @ ..]) => {
                match (char::from(*high).to_digit(16), char::from(*low).to_digit(16)) {
                    (Some(high), Some(low)) => {
                        out.push((high << 4 | low) as u8);
                        more
                    }
                    _ => {
                        out.push(b'=');
                        behind
                    }
                }
            }
            (octet, more) => {
                out.push(octet);
                more
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_multipart() {
        let text = b"Content-Type: multipart/mixed;\r\n boundary=\"a b\"\r\n\r\npre\r\n--a b\r\n\r\none\r\n\r\n--a b \r\nX: y\r\n\r\ntwo\r\n--a bc\r\n--a b--\r\nepilogue";
        let entity = Entity::parse(text);
        let parts = entity.parts().expect("parts");
        assert_eq!(
            parts.iter().map(|p| p.body).collect::<Vec<_>>(),
            [&b"one\r\n"[..], b"two\r\n--a bc"]
        );
        assert_eq!(parts[1].field("x"), Some("y"));
        let cut = Entity::parse(&text[..text.len() - 27]);
        assert_eq!(cut.parts().expect("parts").len(), 2);
        assert_eq!(
            Entity::parse(b"Content-Type: multipart/mixed; boundary=x\r\n\r\nnone").parts(),
            None
        );
        let many = [
            &b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n"[..],
            &b"\r\n--x\r\n".repeat(PARTS_MAX - 1),
            b"--x--",
        ]
        .concat();
        assert_eq!(Entity::parse(&many).parts().map(|parts| parts.len()), Some(PARTS_MAX));
        let more = [&many[..many.len() - 5], b"\r\n--x\r\n--x--"].concat();
        assert_eq!(Entity::parse(&more).parts(), None);
    }

    #[test]
    fn encodings() {
        let decoded = |encoding: &str, body: &str| {
            Entity::parse(format!("Content-Transfer-Encoding: {encoding}\n\n{body}").as_bytes())
                .decoded()
        };
        assert_eq!(decoded("Base64", "aG\r\nk=\r\n!").as_deref(), Some(&b"hi"[..]));
        assert_eq!(decoded("base64", "aGkaG").as_deref(), Some(&b"hi\x1a"[..]));
        assert_eq!(
            decoded("quoted-printable", "a=3D=\r\nb=\nc=zz").as_deref(),
            Some(&b"a=bc=zz"[..])
        );
        assert_eq!(decoded("x-uu", "a"), None);
    }

    #[test]
    fn types() {
        let read = ContentType::parse("Text/Plain; charset=\"utf-8\"; x=\"a\\\"b\"; y = z ")
            .expect("a type");
        assert!(read.is("text", "plain"));
        assert_eq!(
            (read.parameter("charset"), read.parameter("x"), read.parameter("y")),
            (Some("utf-8"), Some("a\"b"), Some("z"))
        );
        for bad in ["text", "/x", "te xt/plain", ""] {
            assert_eq!(ContentType::parse(bad), None, "{bad}");
        }
    }
}
