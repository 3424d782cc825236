//! ASCII in PrintableString: `(a)` for an at sign, and so on (RFC 2156 §3.4).

const NAMED: [(char, char); 7] =
    [('@', 'a'), ('%', 'p'), ('!', 'b'), ('"', 'q'), ('_', 'u'), ('(', 'l'), (')', 'r')];

/// Encodes ASCII; `None`: it has other characters.
#[must_use]
pub fn encode(text: &str) -> Option<String> {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if let Some((_, letter)) = NAMED.iter().find(|(known, _)| *known == c) {
            encoded.extend(['(', *letter, ')']);
        } else if crate::or_name::text::is_printable(c) {
            encoded.push(c);
        } else if c.is_ascii() {
            encoded.push_str(&format!("({:03})", u32::from(c)));
        } else {
            return None;
        }
    }
    Some(encoded)
}

/// Decodes it; `None` if a bracket begins no known sequence, so that the text was not encoded.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = rest.get(c.len_utf8()..)?;
        rest = match c {
            '(' => {
                let (name, more) = behind.split_once(')')?;
                decoded.push(character(name)?);
                more
            }
            ')' => return None,
            c => {
                decoded.push(c);
                behind
            }
        };
    }
    Some(decoded)
}

/// As [`decode`], and as it is where it was not encoded (RFC 2156 §3.4: "pass the printable string through").
#[must_use]
pub fn decode_or_keep(text: &str) -> String {
    decode(text).unwrap_or_else(|| text.to_owned())
}

fn character(name: &str) -> Option<char> {
    if name.len() == 3 && name.bytes().all(|digit| digit.is_ascii_digit()) {
        return name.parse::<u8>().ok().filter(u8::is_ascii).map(char::from);
    }
    let mut letters = name.chars();
    let letter = letters.next().filter(|_| letters.next().is_none())?.to_ascii_lowercase();
    NAMED.iter().find(|(_, known)| *known == letter).map(|(c, _)| *c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2156 §3.4.
    #[test]
    fn examples() {
        for (printable, ascii) in [
            ("'a demo.'", "'a demo.'"),
            ("foo(a)bar", "foo@bar"),
            ("(q)(u)(p)(q)", "\"_%\""),
            ("(a)", "@"),
            ("(l)a(r)", "(a)"),
            ("(126)", "~"),
            ("(l)", "("),
        ] {
            assert_eq!(encode(ascii).as_deref(), Some(printable));
            assert_eq!(decode(printable).as_deref(), Some(ascii));
        }
        assert_eq!(decode("(A)").as_deref(), Some("@"));
        assert_eq!(decode_or_keep("("), "(");
        for bad in ["(", ")", "(x)", "(12)", "(128)", "()", "(aa)"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(encode("\u{e9}"), None);
    }
}
