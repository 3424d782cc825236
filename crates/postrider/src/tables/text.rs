//! Server texts, cleaned for display and use.

use lookup::{LookupError, LookupErrorKind};

/// Maximum length shown of a server's text.
const WORDS_BYTES_MAX: usize = 300;

/// A server's text on one line.
pub(super) fn words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..WORDS_BYTES_MAX).unwrap_or(text));
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.collect::<String>().trim().to_owned()
}

/// A value of an answer. It becomes part of paths, addresses and replies: it is UTF-8, on one line, and
/// has no control characters but tabs.
pub(super) fn value(bytes: &[u8]) -> Result<Box<str>, LookupError> {
    let wrong =
        |what: &str| Err(LookupError::new(LookupErrorKind::Key, format!("the answer {what}")));
    let Ok(text) = std::str::from_utf8(bytes) else { return wrong("is not UTF-8") };
    match text.chars().find(|c| c.is_control() && *c != '\t') {
        Some(c) => wrong(&format!("has a control character (U+{:04X})", u32::from(c))),
        None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_line_and_not_long() {
        assert_eq!(words(b"no\r\n\x1b[2Jsuch table\n"), "no   [2Jsuch table");
        assert_eq!(words(&[b'x'; WORDS_BYTES_MAX]).len(), WORDS_BYTES_MAX);
        assert_eq!(words(&[b'x'; WORDS_BYTES_MAX + 1]).len(), WORDS_BYTES_MAX);
    }

    #[test]
    fn a_value_has_no_second_line() {
        assert_eq!(&*value("für\tdich".as_bytes()).unwrap(), "für\tdich");
        assert_eq!(&*value(b"").unwrap(), "");
        for bad in [&b"a\r\nRCPT TO:<b>"[..], b"a\0", b"\x7f", b"\xc2\x85", b"\xff"] {
            assert_eq!(value(bad).unwrap_err().kind, LookupErrorKind::Key, "{bad:?}");
        }
    }
}
