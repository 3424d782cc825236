//! Content-Type for filters (RFC 2045 §5.1). Anything that some mail program reads as a message or a boundary counts, as in
//! Postfix. A malformed field then hides no header of a part.

/// Octets of a boundary that are compared (Postfix's `mime_boundary_length_limit`).
const BOUNDARY_BYTES_MAX: usize = 2_048;
/// Characters that are lexical items by themselves (RFC 2045 §5.1).
const SPECIALS: &[u8] = b"()<>@,;:\\\"/[]?=";
/// Lexical items that count between semicolons: type, slash and subtype; or name, equals sign and value.
const WORDS: usize = 3;

/// The part of a Content-Type that decides where headers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentType {
    /// `message/rfc822` or `message/global` (RFC 6532 §3.7): a header follows.
    Message,
    /// With all boundaries: a second one is an error, and programs disagree which one counts.
    Multipart { is_digest: bool, boundaries: Vec<Box<[u8]>> },
    /// Text, another kind of message, or an empty value.
    Leaf,
    /// Another type, which changes nothing about the entity.
    Other,
}

/// A lexical item of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    kind: WordKind,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Token,
    Quoted,
    Special,
}

impl Word {
    fn is(&self, text: &str) -> bool {
        self.kind == WordKind::Token && self.text.eq_ignore_ascii_case(text.as_bytes())
    }

    fn is_special(&self, byte: u8) -> bool {
        self.kind == WordKind::Special && self.text == [byte]
    }
}

impl ContentType {
    /// Parses the value of a field, its folds as LF or CRLF.
    pub(super) fn parse(value: &[u8]) -> ContentType {
        let mut items = Items { rest: value };
        let kind = items.next().unwrap_or_default();
        let Some(major) = kind.first() else { return ContentType::Leaf };
        let minor = kind.get(2).filter(|_| kind.get(1).is_some_and(|word| word.is_special(b'/')));
        let is_minor = |name: &str| minor.is_some_and(|word| word.is(name));
        if major.is("text") || major.is("message") {
            let is_message = major.is("message") && (is_minor("rfc822") || is_minor("global"));
            return if is_message { ContentType::Message } else { ContentType::Leaf };
        }
        if !major.is("multipart") {
            return ContentType::Other;
        }
        let is_digest = is_minor("digest");
        let boundaries = items.filter_map(boundary).collect();
        ContentType::Multipart { is_digest, boundaries }
    }
}

/// The value of `boundary = value`.
fn boundary(words: Vec<Word>) -> Option<Box<[u8]>> {
    let [name, equals, value] = <[Word; WORDS]>::try_from(words).ok()?;
    let is_boundary = name.is("boundary") && equals.is_special(b'=');
    let mut text = value.text;
    text.truncate(BOUNDARY_BYTES_MAX);
    is_boundary.then(|| text.into_boxed_slice())
}

/// The parts between semicolons, each as its first lexical items.
struct Items<'a> {
    rest: &'a [u8],
}

impl Iterator for Items<'_> {
    type Item = Vec<Word>;

    fn next(&mut self) -> Option<Vec<Word>> {
        let mut words = Vec::new();
        while let Some((first, rest)) = self.rest.split_first() {
            let begun = self.rest;
            self.rest = rest;
            let word = match *first {
                b';' => return Some(words),
                b' ' | b'\t' | b'\r' | b'\n' => continue,
                b'(' => {
                    self.skip_comment();
                    continue;
                }
                b'"' => Word { kind: WordKind::Quoted, text: self.quoted() },
                special if !is_of_token(special) => {
                    Word { kind: WordKind::Special, text: vec![special] }
                }
                _ => {
                    let end = begun.iter().position(|byte| !is_of_token(*byte));
                    let (token, rest) = begun.split_at(end.unwrap_or(begun.len()));
                    self.rest = rest;
                    Word { kind: WordKind::Token, text: token.to_vec() }
                }
            };
            if words.len() < WORDS {
                words.push(word);
            }
        }
        (!words.is_empty()).then_some(words)
    }
}

impl Items<'_> {
    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Skips a comment, after its parenthesis. Comments nest (RFC 5322 §3.2.2).
    fn skip_comment(&mut self) {
        let mut depth = 1_usize;
        while let Some(byte) = self.take() {
            match byte {
                b'(' => depth = depth.saturating_add(1),
                b')' if depth == 1 => return,
                b')' => depth -= 1,
                b'\\' => drop(self.take()),
                _ => {}
            }
        }
    }

    /// The text of a quoted string, after its first quote, unfolded.
    fn quoted(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        while let Some(byte) = self.take() {
            match byte {
                b'"' => break,
                b'\n' => {
                    let end = text.trim_ascii_end().len();
                    text.truncate(end);
                }
                b'\\' => text.extend(self.take()),
                _ => text.push(byte),
            }
        }
        text
    }
}

fn is_of_token(byte: u8) -> bool {
    byte != b' ' && !byte.is_ascii_control() && !SPECIALS.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multipart(boundaries: &[&str]) -> ContentType {
        let boundaries = boundaries.iter().map(|boundary| boundary.as_bytes().into()).collect();
        ContentType::Multipart { is_digest: false, boundaries }
    }

    #[test]
    fn wrong_fields_hide_no_boundary() {
        for (value, boundaries) in [
            (" multipart/mixed; boundary=b", &["b"][..]),
            ("multipart/mixed;\n boundary=\"b\n c\"", &["b c"]),
            ("multipart (a \\) (b)) / mixed (;);(x) boundary (=) = b ; c=d", &["b"]),
            ("multipart; Boundary=b; boundary=\"\"; boundary=c d", &["b", "", "c"]),
            ("multipart/mixed; x=\"; boundary=a\"; boundary=\"b\\\"c", &["b\"c"]),
            ("multipart/mixed; boundary==; boundary", &["="]),
            ("multipart/mixed; boundary=", &[]),
            ("multipart/mixed; \"boundary\"=b", &[]),
            ("multipart/mixed; boundary*=b", &[]),
        ] {
            assert_eq!(ContentType::parse(value.as_bytes()), multipart(boundaries), "{value}");
        }
        let long = format!("multipart/mixed; boundary={}", "b".repeat(BOUNDARY_BYTES_MAX + 1));
        let cut = "b".repeat(BOUNDARY_BYTES_MAX);
        assert_eq!(ContentType::parse(long.as_bytes()), multipart(&[&cut]));
    }

    #[test]
    fn types_are_read_as_words() {
        for (value, kind) in [
            ("message/rfc822", ContentType::Message),
            ("MESSAGE (x) / RFC822 ;a", ContentType::Message),
            ("message/global", ContentType::Message),
            ("message/global-headers", ContentType::Leaf),
            ("message/partial", ContentType::Leaf),
            ("message\"/\"rfc822", ContentType::Leaf),
            ("message", ContentType::Leaf),
            ("text/plain", ContentType::Leaf),
            ("", ContentType::Leaf),
            ("; boundary=b", ContentType::Leaf),
            ("application/x", ContentType::Other),
            ("\"multipart\"/mixed; boundary=b", ContentType::Other),
            ("/mixed", ContentType::Other),
        ] {
            assert_eq!(ContentType::parse(value.as_bytes()), kind, "{value}");
        }
        let digest = ContentType::parse(b"multipart/digest");
        assert_eq!(digest, ContentType::Multipart { is_digest: true, boundaries: Vec::new() });
    }
}
