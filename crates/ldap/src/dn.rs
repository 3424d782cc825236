//! Names of entries (RFC 4514).

use crate::key::{Cursor, Key, Template, TemplateError, TemplateFragment, attribute};

/// Characters that mean something in a name unless they are escaped (RFC 4514 §2.4, and `=` and `#`,
/// which do in places).
const SPECIAL: &[u8] = b"\"+,;<>\\=#";

/// A name with places for parts of the key, in its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnTemplate(Template);

impl DnTemplate {
    /// Reads a name. An empty one is that of the directory's root.
    ///
    /// # Errors
    /// It breaks the syntax, and where.
    pub fn parse(text: &str) -> Result<DnTemplate, TemplateError> {
        let mut out = Template::default();
        let mut cursor = Cursor::new(text);
        if cursor.peek().is_none() {
            return Ok(DnTemplate(out));
        }
        loop {
            while cursor.take(' ') {}
            for c in attribute(&mut cursor)?.chars() {
                out.push_char(c);
            }
            while cursor.take(' ') {}
            if !cursor.take('=') {
                return Err(cursor.error("expected ="));
            }
            out.push_byte(b'=');
            value(&mut cursor, &mut out)?;
            match cursor.next() {
                None => return Ok(DnTemplate(out)),
                Some(separator) => out.push_char(separator),
            }
        }
    }

    /// Returns true if it has placeholders for parts of the key.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.0.has_parts()
    }

    /// Returns true if the key has all required parts.
    #[must_use]
    pub fn fits(&self, key: &Key<'_>) -> bool {
        self.0.fits(key)
    }

    /// The name for this key. Parts of the key are values in it, whatever characters they have.
    #[must_use]
    pub fn name(&self, key: &Key<'_>) -> String {
        let mut out = String::new();
        for piece in &self.0.pieces {
            match piece {
                TemplateFragment::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
                TemplateFragment::Part(part) => {
                    escape(key.part(*part).unwrap_or_default(), &mut out)
                }
            }
        }
        out
    }
}

/// A value up to `,` or `+`, which are not read.
fn value(cursor: &mut Cursor<'_>, out: &mut Template) -> Result<(), TemplateError> {
    while let Some(c) = cursor.peek() {
        match c {
            ',' | '+' => break,
            '"' | ';' | '<' | '>' | '\0' => {
                return Err(cursor.error(format!("{c:?} in a value must be escaped with \\")));
            }
            '%' => {
                cursor.next();
                cursor.placeholder(out)?;
            }
            '\\' => {
                cursor.next();
                out.push_byte(b'\\');
                let special = cursor.peek().filter(|c| " \"#+,;<=>\\".contains(*c));
                if let Some(c) = special {
                    cursor.next();
                    out.push_char(c);
                } else {
                    for c in format!("{:02x}", cursor.hex()?).chars() {
                        out.push_char(c);
                    }
                }
            }
            c => {
                cursor.next();
                out.push_char(c);
            }
        }
    }
    Ok(())
}

/// A value as it stands in a name.
fn escape(value: &str, out: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (n, c) in value.chars().enumerate() {
        match c {
            ' ' if n == 0 || n == last => out.push_str("\\20"),
            c if c.is_ascii_control() => out.push_str(&format!("\\{:02x}", u32::from(c))),
            c if u8::try_from(c).is_ok_and(|byte| SPECIAL.contains(&byte)) => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
}

/// Returns the normal form of a name, for comparison: lower case, no spaces around values, uniform
/// escapes.
#[must_use]
pub fn normalise(name: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    let mut begins = true;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let escaped = match (byte, after) {
            (b'\\', [high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                rest = after;
                hex(*high, *low)
            }
            (b'\\', [next, after @ ..]) => {
                rest = after;
                Some(*next)
            }
            _ => None,
        };
        match escaped {
            Some(byte) if byte <= b' ' || SPECIAL.contains(&byte) => {
                out.extend_from_slice(format!("\\{byte:02x}").as_bytes());
            }
            Some(byte) => out.push(byte),
            None if matches!(byte, b',' | b'+' | b'=' | b';') => {
                trim(&mut out);
                out.push(*byte);
            }
            None if *byte == b' ' && begins => continue,
            None => out.push(*byte),
        }
        begins = escaped.is_none() && matches!(byte, b',' | b'+' | b'=' | b';');
    }
    trim(&mut out);
    String::from_utf8_lossy(&out).to_lowercase()
}

fn trim(out: &mut Vec<u8>) {
    while out.last() == Some(&b' ') {
        out.pop();
    }
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(template: &str, key: &str) -> String {
        DnTemplate::parse(template).unwrap().name(&Key::new(key))
    }

    #[test]
    fn parts_of_the_key_are_values() {
        assert_eq!(name("", "joe@a.test"), "");
        assert_eq!(name("ou=people,dc=a,dc=test", "joe@a.test"), "ou=people,dc=a,dc=test");
        assert_eq!(
            name("uid=%u,ou=%d,dc=%2,dc=%1", "joe@a.test"),
            "uid=joe,ou=a.test,dc=a,dc=test"
        );
        assert_eq!(name("cn=5%%, o=x\\,y+l=\\c3\\bc", "k"), "cn=5%,o=x\\,y+l=\\c3\\bc");
        assert_eq!(
            name("uid=%s,dc=test", "joe,ou=admins+cn=#\"x\";<>\\="),
            "uid=joe\\,ou\\=admins\\+cn\\=\\#\\\"x\\\"\\;\\<\\>\\\\\\=,dc=test"
        );
        assert_eq!(name("uid=%s,dc=test", " a b\0 "), "uid=\\20a b\\00\\20,dc=test");
        assert_eq!(name("uid=%s", "Grüße"), "uid=Grüße");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let cases = [
            ("people", 7),
            ("ou=people,", 11),
            ("%s=x", 1),
            ("ou=%q", 5),
            ("ou=a;b", 5),
            ("ou=\"a\"", 4),
            ("ou=\\q", 5),
            (",ou=a", 1),
        ];
        for (text, at) in cases {
            let error = DnTemplate::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text:?}: {error}");
        }
    }

    #[test]
    fn the_same_name_in_several_writings() {
        let same =
            ["CN=A b,DC=Test", "cn=a b,dc=test", "cn = a b , dc = test", "cn=\\61 b,dc=test"];
        for writing in same {
            assert_eq!(normalise(writing), "cn=a b,dc=test");
        }
        assert_eq!(normalise("cn=a\\,b"), normalise("cn=a\\2Cb"));
        assert_ne!(normalise("cn=a\\,b"), normalise("cn=a,b"));
        assert_ne!(normalise("cn=a\\20"), normalise("cn=a"));
        assert_eq!(normalise("\\"), "\\");
    }

    proptest! {
        /// However the key is made, the name has the attributes of the template and no other.
        #[test]
        fn a_key_adds_no_attribute(key in ".{1,40}") {
            let made = name("uid=%s,dc=test", &key);
            let mut bare = String::new();
            let mut chars = made.chars();
            while let Some(c) = chars.next() {
                if c == '\\' { chars.next(); } else { bare.push(c); }
            }
            prop_assert_eq!(bare.matches(',').count(), 1);
            prop_assert_eq!(bare.matches('=').count(), 2);
            prop_assert_eq!(bare.matches('+').count(), 0);
            prop_assert!(DnTemplate::parse(&made.replace('%', "%%")).is_ok());
        }

        #[test]
        fn normalising_settles(name in ".{0,40}") {
            let once = normalise(&name);
            prop_assert_eq!(normalise(&once).clone(), once);
        }
    }
}
