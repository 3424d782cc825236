//! How the text of an O/R address is cut into attributes: `/G=John/S=Smith/C=GB/` (RFC 2156 §4.1) and
//! `G=John; S=Smith; C=GB` (F.401 annex B, RFC 1685).
//!
//! In a value `$` quotes the character behind it; a doubled delimiter (`//`, and `;;` in the second form) stands
//! for itself, as in F.401, and so does `/=` for an equals sign.

use super::AddressError;

/// A character of a value, and whether it was quoted.
pub type Char = (char, bool);

/// What one attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Without what quoted its characters.
    pub key: String,
    /// What stands behind the first dot or colon of the key: the type of a domain-defined attribute.
    pub kind: Vec<Char>,
    /// What stands behind the equals sign.
    pub value: Vec<Char>,
    /// Where it begins, in octets.
    pub offset: usize,
}

/// Which characters separate attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `/` or `;`, in any mixture.
    Slashes,
    /// Only `;`: a value may have a `/`.
    Semicolons,
}

/// The attributes of a text in either form, in their order.
///
/// # Errors
/// Where one has no value, or there are more than `attributes_max`.
pub fn split(text: &str, attributes_max: usize) -> Result<Vec<Pair>, AddressError> {
    let trimmed = text.trim_start();
    let form = if !trimmed.starts_with('/') && trimmed.contains(';') {
        Form::Semicolons
    } else {
        Form::Slashes
    };
    let mut pairs = Vec::new();
    let mut rest = Cursor { text, offset: text.len() - trimmed.len(), form };
    loop {
        rest.skip_separators();
        if rest.left().trim().is_empty() {
            return Ok(pairs);
        }
        if pairs.len() >= attributes_max {
            return Err(AddressError { reason: "too many attributes", offset: rest.offset });
        }
        pairs.push(rest.pair()?);
    }
}

struct Cursor<'t> {
    text: &'t str,
    offset: usize,
    form: Form,
}

impl<'t> Cursor<'t> {
    fn left(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn separates(&self, c: char) -> bool {
        c == ';' || (c == '/' && self.form == Form::Slashes)
    }

    fn skip_separators(&mut self) {
        for c in self.left().chars() {
            // Blanks stand before a key only in the form with semicolons.
            if !self.separates(c) && c != ' ' {
                return;
            }
            self.offset += c.len_utf8();
        }
    }

    fn pair(&mut self) -> Result<Pair, AddressError> {
        let offset = self.offset;
        let mut key: Vec<Char> = Vec::new();
        let mut chars = self.left().char_indices().peekable();
        let mut value = None;
        while let Some((at, c)) = chars.next() {
            match c {
                '=' => {
                    value = Some(at + 1);
                    break;
                }
                // The type of a domain-defined attribute may be quoted, too.
                '$' => key.extend(chars.next().map(|(_, quoted)| (quoted, true))),
                c if self.separates(c) => break,
                c => key.push((c, false)),
            }
        }
        let Some(value) = value else {
            return Err(AddressError { reason: "an attribute without a value", offset });
        };
        self.offset += value;
        let mut value = self.value();
        if self.form == Form::Semicolons {
            trim(&mut value);
        }
        trim(&mut key);
        let dot = key.iter().position(|(c, _)| matches!(c, '.' | ':'));
        let kind = dot.map_or(&[][..], |dot| key.get(dot + 1..).unwrap_or_default()).to_vec();
        Ok(Pair { key: key.into_iter().map(|(c, _)| c).collect(), kind, value, offset })
    }

    fn value(&mut self) -> Vec<Char> {
        let mut value = Vec::new();
        let mut chars = self.left().char_indices().peekable();
        let mut end = self.left().len();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|&(_, next)| next);
            match (c, next) {
                ('$', Some(quoted)) => {
                    chars.next();
                    value.push((quoted, true));
                }
                // Doubled, it is itself. At the very end of the text it is an empty attribute, which is none.
                (c, Some(next)) if self.separates(c) && next == c && self.goes_on(at + 2) => {
                    chars.next();
                    value.push((c, true));
                }
                ('/', Some('=')) if self.form == Form::Slashes => {
                    chars.next();
                    value.push(('=', true));
                }
                (c, _) if self.separates(c) => {
                    end = at;
                    break;
                }
                (c, _) => value.push((c, false)),
            }
        }
        self.offset += end;
        value
    }

    fn goes_on(&self, at: usize) -> bool {
        self.left().get(at..).is_some_and(|rest| !rest.is_empty())
    }
}

fn trim(value: &mut Vec<Char>) {
    let is_blank = |c: &Char| *c == (' ', false);
    while value.last().is_some_and(is_blank) {
        value.pop();
    }
    let start = value.iter().take_while(|c| is_blank(c)).count();
    value.drain(..start);
}

/// A value in the form in which all of these texts are written: quoted is what would end it, and what was quoted
/// although it has a meaning of its own in some values (`*`, `{`, `}`: RFC 2156 §3.3.4).
#[must_use]
pub fn quoted(value: &[Char]) -> String {
    let mut text = String::with_capacity(value.len());
    for &(c, was_quoted) in value {
        if matches!(c, '/' | '=' | '$' | ';') || was_quoted && matches!(c, '*' | '{' | '}') {
            text.push('$');
        }
        text.push(c);
    }
    text
}

/// What [`quoted`] wrote, without what quotes.
#[must_use]
pub fn unquoted(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '$' { chars.next() } else { Some(c) });
    }
    plain
}
