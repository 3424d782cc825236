//! MIME fields in the header of an entity (RFC 2045 §5, §6).

use crate::header::{self, Field};

pub(super) const ENCODING: &str = "Content-Transfer-Encoding";

/// Kind of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntityKind {
    /// Lines of text, which remain readable in quoted-printable.
    Text,
    /// Any other leaf.
    Other,
    /// A message (RFC 2046 §5.2.1), which has a header and a body.
    Message,
    Multipart {
        boundary: Box<[u8]>,
        is_signed: bool,
        is_digest: bool,
    },
    /// Unknown, or not allowed to be encoded: it stays unchanged.
    Opaque,
}

/// Value of Content-Transfer-Encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// 7bit, also if the field is missing (RFC 2045 §6.1).
    SevenBit,
    /// 8bit or binary.
    EightBit,
    QuotedPrintable,
    Base64,
    /// Any other encoding: the octets are not the content.
    Encoded,
}

/// A message or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entity {
    pub(super) kind: EntityKind,
    pub(super) label: Label,
    pub(super) has_version: bool,
    pub(super) has_type: bool,
    /// A message, not a part of a multipart.
    pub(super) is_message: bool,
    /// It is inside of a multipart/signed.
    pub(super) is_signed: bool,
}

impl Entity {
    /// Parses the fields of a header. `is_digest` is true for a part of a multipart/digest.
    pub(super) fn read(fields: &[u8], is_digest: bool) -> Entity {
        let (mut content_type, mut encoding) = (None, None);
        let mut entity = Entity {
            kind: EntityKind::Opaque,
            label: Label::SevenBit,
            has_version: false,
            has_type: false,
            is_message: false,
            is_signed: false,
        };
        let (mut end, mut is_doubled) = (0, false);
        let is_other = |one: &Field<'_>, other: &Field<'_>| one.unfolded() != other.unfolded();
        for field in header::fields(fields) {
            end = field.range.end;
            if field.is("Content-Type") {
                is_doubled |= content_type.as_ref().is_some_and(|first| is_other(first, &field));
                content_type = Some(field);
            } else if field.is(ENCODING) {
                // Two equal labels count as one, and so do two that do not change the octets.
                let own = label(&field);
                let first = encoding.replace(own).unwrap_or(own);
                let says_nothing = |label| matches!(label, Label::SevenBit | Label::EightBit);
                is_doubled |= first != own && !(says_nothing(first) && says_nothing(own));
                if first == Label::EightBit && own == Label::SevenBit {
                    encoding = Some(first);
                }
            } else if field.is("MIME-Version") {
                entity.has_version = true;
            }
        }
        entity.has_type = content_type.is_some();
        entity.label = encoding.unwrap_or(Label::SevenBit);
        // Lines that are not fields, or contradicting fields: readers may disagree about the start of the body.
        if end == fields.len() && !is_doubled {
            entity.kind = entity_kind(content_type.as_ref(), is_digest);
        }
        // Forbidden by RFC 2045 §6.4.
        let is_encoded =
            !matches!(entity.label, Label::SevenBit | Label::EightBit) && entity.is_structure();
        // Of a multipart in quoted-printable or base64 the label is wrong wherever a boundary shows, and
        // where none does nothing is touched.
        let is_read = entity.label != Label::Encoded && entity.kind != EntityKind::Message;
        if is_encoded && !is_read {
            entity.kind = EntityKind::Opaque;
        }
        entity
    }

    fn is_structure(&self) -> bool {
        matches!(self.kind, EntityKind::Message | EntityKind::Multipart { .. })
    }

    /// Its label is 8bit, and may be changed.
    pub(super) fn is_relabelled(&self) -> bool {
        self.label == Label::EightBit && !self.is_signed && self.kind != EntityKind::Opaque
    }
}

/// A slightly wrong label gets its most likely meaning.
fn label(field: &Field<'_>) -> Label {
    let value = field.unfolded();
    let word = token(&value);
    // `8bits`, `8-bit`, `"8bit"`, `8bit"`.
    let letters: Vec<u8> =
        word.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
    let begins = |name: &str| letters.starts_with(name.as_bytes());
    if letters.is_empty() || begins("7bit") {
        Label::SevenBit
    } else if begins("8bit") || begins("binary") {
        Label::EightBit
    } else if begins("quotedprintable") {
        Label::QuotedPrintable
    } else if begins("base64") {
        Label::Base64
    } else if ["x", "uu", "binhex", "mac", "gzip"].into_iter().any(begins) {
        Label::Encoded
    } else {
        // RFC 2045 §6.3: names of other encodings begin with `x-`. A character set, for one: plain octets.
        Label::EightBit
    }
}

/// The kind of an entity with this Content-Type (RFC 2045 §5.1, §5.2). Parts of a digest without one are messages (RFC
/// 2046 §5.1.5).
fn entity_kind(field: Option<&Field<'_>>, is_digest: bool) -> EntityKind {
    let Some(field) = field else {
        return if is_digest { EntityKind::Message } else { EntityKind::Text };
    };
    let value = field.unfolded();
    // RFC 2045 §5.2: a value without a type is text; so is `text` alone, or an empty value.
    let Some(slash) = memchr::memchr(b'/', &value) else {
        let word = token(&value);
        let is_text = word.is_empty() || word.eq_ignore_ascii_case(b"text");
        return if is_text { EntityKind::Text } else { EntityKind::Opaque };
    };
    let (major, minor) = (header::trim(&value[..slash]), token(&value[slash + 1..]));
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if is(major, "text") {
        EntityKind::Text
    } else if is(major, "message") {
        let prefix = minor.get(..6).unwrap_or_default();
        match minor {
            _ if is(minor, "rfc822") || is(minor, "news") => EntityKind::Message,
            // RFC 6532 §3.7, RFC 6533 §4 to §6: these may be encoded.
            _ if is(prefix, "global") => EntityKind::Text,
            _ => EntityKind::Opaque,
        }
    } else if is(major, "multipart") {
        match boundary(&value[slash + 1..]) {
            Some(boundary) => EntityKind::Multipart {
                boundary,
                is_signed: is(minor, "signed"),
                is_digest: is(minor, "digest"),
            },
            None => EntityKind::Opaque,
        }
    } else {
        EntityKind::Other
    }
}

/// The token at the start, up to a blank, a comment or a parameter.
fn token(value: &[u8]) -> &[u8] {
    let value = header::trim(value);
    let end = value.iter().position(|b| matches!(b, b' ' | b'\t' | b';' | b'('));
    &value[..end.unwrap_or(value.len())]
}

/// The parameter of that name (RFC 2045 §5.1), 1 to 70 octets that do not end in a blank (RFC 2046
/// §5.1.1).
fn boundary(parameters: &[u8]) -> Option<Box<[u8]>> {
    let mut rest = &parameters[memchr::memchr(b';', parameters)? + 1..];
    loop {
        let equals = memchr::memchr(b'=', rest)?;
        let name = header::trim(&rest[..equals]);
        let (value, behind) = parameter_value(&rest[equals + 1..])?;
        if name.eq_ignore_ascii_case(b"boundary") {
            let is_valid = (1..=70).contains(&value.len()) && value.last() != Some(&b' ');
            return is_valid.then(|| value.into());
        }
        rest = &behind[memchr::memchr(b';', behind)? + 1..];
    }
}

/// A quoted string or a token, and the text after it.
fn parameter_value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let text = header::trim(text);
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let value = token(text);
        return Some((value.to_vec(), &text[value.len()..]));
    };
    let mut value = Vec::new();
    let mut octets = quoted.iter().enumerate();
    while let Some((at, &octet)) = octets.next() {
        match octet {
            b'"' => return Some((value, &quoted[at + 1..])),
            b'\\' => value.push(*octets.next()?.1),
            _ => value.push(octet),
        }
    }
    None
}
