//! Bytes as readable text: printable ASCII as it is, the rest as `\r`, `\n`, `\t`, `\\`, `\xHH`.

/// Bytes to text.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02X}")),
        }
    }
    text
}

/// Text to bytes; characters beyond ASCII stand for their UTF-8. `\*N{…}` repeats what is in the
/// braces N times; `\i` in there is the number of the time, from 0.
///
/// # Panics
/// On anything else behind a backslash.
#[must_use]
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let letter = escaped.chars().next().expect("a letter behind the backslash");
        rest = &escaped[letter.len_utf8()..];
        match letter {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            'x' => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits"));
                rest = &rest[2..];
            }
            '*' => {
                let (count, repeated) = rest.split_once('{').expect("a brace");
                let (repeated, behind) = repeated.split_once('}').expect("a brace");
                let count: usize = count.parse().expect("a count");
                if repeated.contains("\\i") {
                    let nth = |n: usize| unescape(&repeated.replace("\\i", &n.to_string()));
                    bytes.extend((0..count).flat_map(nth));
                } else {
                    bytes.extend(unescape(repeated).repeat(count));
                }
                rest = behind;
            }
            other => panic!("unknown escape \\{other}"),
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_round_trip() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)), all);
        assert_eq!(unescape("\\*3{a\\i,}"), b"a0,a1,a2,");
        assert_eq!(unescape("é\\*3{a\\r}\\x00"), b"\xC3\xA9a\ra\ra\r\0");
    }
}
