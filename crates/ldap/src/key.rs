//! Keys, and templates with places for their parts.

use std::fmt;

/// A lookup key and its parts.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    whole: &'a str,
    /// Local part and domain, of an address.
    parts: Option<(&'a str, &'a str)>,
}

impl<'a> Key<'a> {
    /// A key; the last `@` ends the local part.
    #[must_use]
    pub fn new(whole: &'a str) -> Key<'a> {
        Key { whole, parts: whole.rsplit_once('@') }
    }

    /// The domain of an address that has a local part.
    #[must_use]
    pub fn domain(&self) -> Option<&'a str> {
        self.parts.filter(|(local, _)| !local.is_empty()).map(|(_, domain)| domain)
    }

    /// This part; `None`: the key has none, and no table has it then.
    #[must_use]
    pub fn part(&self, part: KeyComponent) -> Option<&'a str> {
        match (part, self.parts) {
            (KeyComponent::Whole, _) | (KeyComponent::Local, None) => Some(self.whole),
            (KeyComponent::Local, Some((local, _))) => Some(local),
            (KeyComponent::Domain, parts) => parts.map(|(_, domain)| domain),
            (KeyComponent::Label(n), parts) => parts?.1.rsplit('.').nth(usize::from(n) - 1),
        }
        .filter(|text| !text.is_empty())
    }
}

/// A part of a key, as Postfix's tables name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyComponent {
    /// `%s`: the whole key.
    Whole,
    /// `%u`: the local part of an address, or all of a key that is none.
    Local,
    /// `%d`: the domain of an address.
    Domain,
    /// `%1` to `%9`: a label of the domain, the last is the first.
    Label(u8),
}

impl KeyComponent {
    /// By the letter after `%`.
    #[must_use]
    pub fn of_letter(letter: char) -> Option<KeyComponent> {
        match letter {
            's' => Some(KeyComponent::Whole),
            'u' => Some(KeyComponent::Local),
            'd' => Some(KeyComponent::Domain),
            '1'..='9' => {
                letter.to_digit(10).and_then(|n| u8::try_from(n).ok()).map(KeyComponent::Label)
            }
            _ => None,
        }
    }
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplateFragment {
    /// As it is sent.
    Bytes(Vec<u8>),
    /// Of the key.
    Part(KeyComponent),
}

/// A value with places for parts of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pub(crate) pieces: Vec<TemplateFragment>,
}

impl Template {
    /// Reads a text in which nothing but places has a meaning.
    ///
    /// # Errors
    /// An unknown placeholder after a percent sign.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut cursor = Cursor::new(text);
        let mut out = Template::default();
        while let Some(c) = cursor.next() {
            match c {
                '%' => cursor.placeholder(&mut out)?,
                c => out.push_char(c),
            }
        }
        Ok(out)
    }

    /// The value for this key; `None`: the key lacks a part that is wanted.
    #[must_use]
    pub fn fill(&self, key: &Key<'_>) -> Option<Vec<u8>> {
        self.fits(key).then(|| self.value(key))
    }

    pub(crate) fn push_byte(&mut self, byte: u8) {
        match self.pieces.last_mut() {
            Some(TemplateFragment::Bytes(bytes)) => bytes.push(byte),
            _ => self.pieces.push(TemplateFragment::Bytes(vec![byte])),
        }
    }

    pub(crate) fn push_char(&mut self, c: char) {
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            self.push_byte(byte);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns true if it has placeholders for parts of a key.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, TemplateFragment::Part(_)))
    }

    /// Returns true if the key has all required parts.
    pub(crate) fn fits(&self, key: &Key<'_>) -> bool {
        self.pieces.iter().all(|piece| match piece {
            TemplateFragment::Bytes(_) => true,
            TemplateFragment::Part(part) => key.part(*part).is_some(),
        })
    }

    /// The value for this key.
    pub(crate) fn value(&self, key: &Key<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                TemplateFragment::Bytes(bytes) => out.extend_from_slice(bytes),
                TemplateFragment::Part(part) => {
                    out.extend_from_slice(key.part(*part).unwrap_or_default().as_bytes());
                }
            }
        }
        out
    }
}

/// A syntax error in a filter, a name or another template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Its column in characters, from 1.
    pub at: usize,
    /// The error.
    pub text: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at character {}", self.text, self.at)
    }
}

impl std::error::Error for TemplateError {}

/// Reads a template character by character.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    rest: std::str::Chars<'a>,
    /// Characters read.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { rest: text.chars(), at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.at += usize::from(next.is_some());
        next
    }

    /// Goes on if the next one is `c`.
    pub(crate) fn take(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        if is {
            self.next();
        }
        is
    }

    /// A mistake in the next character.
    pub(crate) fn error(&self, text: impl Into<String>) -> TemplateError {
        TemplateError { at: self.at + 1, text: text.into() }
    }

    /// Parses a placeholder after its `%`.
    pub(crate) fn placeholder(&mut self, into: &mut Template) -> Result<(), TemplateError> {
        let error = self.error("after % use s, u, d, a digit from 1 to 9, or %");
        match self.next() {
            Some('%') => into.push_byte(b'%'),
            letter => {
                let part = letter.and_then(KeyComponent::of_letter).ok_or(error)?;
                into.pieces.push(TemplateFragment::Part(part));
            }
        }
        Ok(())
    }

    /// Two hexadecimal digits.
    pub(crate) fn hex(&mut self) -> Result<u8, TemplateError> {
        let error = self.error("after \\ write two hexadecimal digits");
        let mut digit = || self.next().and_then(|c| c.to_digit(16));
        let byte = match (digit(), digit()) {
            (Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        byte.ok_or(error)
    }
}

/// Reads the name of an attribute with its options, or of a matching rule (RFC 4512 §1.4, §2.5).
pub(crate) fn attribute(cursor: &mut Cursor<'_>) -> Result<String, TemplateError> {
    let error = cursor.error("expected an attribute name");
    let mut name = String::new();
    while let Some(c) = cursor.peek().filter(|c| c.is_ascii_alphanumeric() || "-.;".contains(*c)) {
        name.push(c);
        cursor.next();
    }
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) { Ok(name) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys() {
        for (key, local, domain, first) in [
            ("you@mail.far.test", Some("you"), Some("mail.far.test"), Some("test")),
            ("\"a@b\"@far.test", Some("\"a@b\""), Some("far.test"), Some("test")),
            ("far.test", Some("far.test"), None, None),
            ("@far.test", None, Some("far.test"), Some("test")),
            ("you@", Some("you"), None, None),
        ] {
            let part = |part| Key::new(key).part(part);
            assert_eq!(part(KeyComponent::Whole), Some(key));
            assert_eq!(
                (part(KeyComponent::Local), part(KeyComponent::Domain)),
                (local, domain),
                "{key}"
            );
            assert_eq!(part(KeyComponent::Label(1)), first, "{key}");
        }
        assert_eq!(Key::new("").part(KeyComponent::Whole), None);
        assert_eq!(Key::new("a@mail.far.test").part(KeyComponent::Label(3)), Some("mail"));
        assert_eq!(Key::new("a@mail.far.test").part(KeyComponent::Label(4)), None);
    }

    #[test]
    fn places_are_filled_once() {
        let fill = |text: &str, key: &str| {
            let filled = Template::parse(text).unwrap().fill(&Key::new(key));
            filled.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(fill("user:%d:%u", "%s@far.test").as_deref(), Some("user:far.test:%s"));
        assert_eq!(fill("100%%s", "x").as_deref(), Some("100%s"));
        assert_eq!(fill("é%2", "you@far.test").as_deref(), Some("éfar"));
        assert_eq!(fill("%d", "far.test"), None);
        assert!(!Template::parse("a%%s").unwrap().has_parts());
        assert!(Template::parse("%s").unwrap().has_parts());
        for (bad, at) in [("%", 2), ("%x", 2), ("%S", 2), ("a%0", 3)] {
            assert_eq!(Template::parse(bad).map_err(|error| error.at), Err(at), "{bad}");
        }
    }
}
