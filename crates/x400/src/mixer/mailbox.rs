//! Address lists of header fields (RFC 5322 §3.4), as [`address_list`] reads them.

use mail::address_list::{self, Address, Limits, Member};

/// Maximum number of tokens, comments and delimiters of one mailbox; no real name has more.
pub const MAILBOX_TOKENS_MAX: usize = 1_000;

/// An address of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMailbox {
    /// Name and comments, as they are written but for quotes.
    pub display: Option<String>,
    /// `local@domain`, quoted if needed; `None`: an empty group.
    pub address: Option<String>,
}

/// Reads a list of at most `max` addresses. `None`: it is none, or longer, or not every reader reads it alike, and must be
/// carried as it is.
#[must_use]
pub fn parse_list(text: &str, max: usize) -> Option<Vec<ListedMailbox>> {
    let members = address_list::members(text, Limits { members: max, tokens: MAILBOX_TOKENS_MAX })?;
    let listed = |Member { name, address }| ListedMailbox {
        display: name,
        address: address.as_ref().map(Address::to_text),
    };
    Some(members.into_iter().map(listed).collect())
}

/// A mailbox in the syntax of a field.
#[must_use]
pub fn write(display: Option<&str>, address: &str) -> String {
    let Some(display) = display.map(str::trim).filter(|display| !display.is_empty()) else {
        return address.to_owned();
    };
    // Comments as a name stay comments, if every reader parses them alike.
    if are_comments(display) {
        return format!("{address} {display}");
    }
    format!("{} <{address}>", written_phrase(display))
}

/// Returns true if a text consists of balanced comments only. Quoting inside is not interpreted, because only some
/// readers do.
fn are_comments(text: &str) -> bool {
    let mut depth = 0_u32;
    let is_inside = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"') || c == ' ';
    let is_right = text.chars().all(|c| match c {
        '(' => {
            depth += 1;
            true
        }
        ')' if depth > 0 => {
            depth -= 1;
            true
        }
        c => c == ' ' || depth > 0 && is_inside(c) && c != ')',
    });
    is_right && depth == 0
}

/// A phrase in the syntax of a field.
#[must_use]
pub fn written_phrase(text: &str) -> String {
    let encoded = super::words::encode(text);
    let is_word = |word: &str| {
        word.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
    };
    if encoded.split(' ').all(|word| !word.is_empty() && is_word(word)) {
        return encoded;
    }
    let mut quoted = String::from('"');
    for c in encoded.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 100;

    fn listed(display: Option<&str>, address: Option<&str>) -> ListedMailbox {
        ListedMailbox { display: display.map(Into::into), address: address.map(Into::into) }
    }

    #[test]
    fn lists() {
        for (text, expected) in [
            ("", vec![]),
            ("a@b", vec![listed(None, Some("a@b"))]),
            ("A B <a@b>, c@d", vec![listed(Some("A B"), Some("a@b")), listed(None, Some("c@d"))]),
            ("\"B, A\" <a@b> (c(d))", vec![listed(Some("B, A (c(d))"), Some("a@b"))]),
            ("\"a b\"@c (x)", vec![listed(Some("(x)"), Some("\"a b\"@c"))]),
            ("<@r,@s:a@b>", vec![listed(None, Some("a@b"))]),
            (
                "g: a@b, c@d;, e@f",
                vec![
                    listed(None, Some("a@b")),
                    listed(None, Some("c@d")),
                    listed(None, Some("e@f")),
                ],
            ),
            ("nobody:;", vec![listed(Some("nobody"), None)]),
            ("\"/S=x/O=a b/\"@gw", vec![listed(None, Some("\"/S=x/O=a b/\"@gw"))]),
            ("x@[IPv6:::1]", vec![listed(None, Some("x@[IPv6:::1]"))]),
            ("=?utf-8?q?a?= <a@b>", vec![listed(Some("=?utf-8?q?a?="), Some("a@b"))]),
        ] {
            assert_eq!(parse_list(text, MANY), Some(expected), "{text}");
        }
        for bad in [
            "a",
            "a@",
            "@b",
            "<a@b",
            "a@b>",
            "\"a",
            "(a",
            "a@b <c@d>x",
            "g: a@b",
            // One address for some readers, another for others.
            "evil@x.test bob@b.test",
            "<evil@x.test bob@b.test>",
            "\"evil@x.test\"bob@b.test",
            "evil @x.test(c)bob@b.test",
            "a@b;",
            "B, A <a@b>",
        ] {
            assert_eq!(parse_list(bad, MANY), None, "{bad}");
        }
        let many = "a@b,".repeat(MANY);
        assert_eq!(parse_list(&many, MANY).map(|all| all.len()), Some(MANY));
        assert_eq!(parse_list(&(many + "a@b"), MANY), None);
        let name = |words: usize| "A ".repeat(words) + "<a@b>";
        assert!(parse_list(&name(MAILBOX_TOKENS_MAX - 5), MANY).is_some());
        assert_eq!(parse_list(&name(MAILBOX_TOKENS_MAX - 4), MANY), None);
    }

    #[test]
    fn a_name_in_brackets_is_no_address() {
        for display in [
            "(x) <evil@x> (y)",
            "(a) ) evil@x.test, (b)",
            "(a\\)",
            "(a\\) <evil@x> (b)",
            "(a) (b",
            "(\"a)",
            "(a) evil@x (b)",
            "(a), evil@x, (b)",
        ] {
            let written = write(Some(display), "bob@b.test");
            assert!(written.starts_with('"') && written.ends_with("\" <bob@b.test>"), "{written}");
            let read = parse_list(&written, MANY).unwrap_or_else(|| panic!("{written}"));
            assert_eq!(read.len(), 1, "{written}");
            assert_eq!(read[0].address.as_deref(), Some("bob@b.test"));
        }
        for display in ["(x)", "(x) (y)", "(x(y)z)", "(Tel +49 1)"] {
            assert_eq!(write(Some(display), "a@b"), format!("a@b {display}"));
        }
    }

    #[test]
    fn mailboxes_are_written_so_that_they_come_back() {
        for display in ["A B", "B, A", "q\"uo\\te", "(comment)", "Jürgen K."] {
            let written = write(Some(display), "a@b");
            let read = parse_list(&written, MANY).unwrap_or_else(|| panic!("{written}"));
            assert_eq!(
                super::super::words::decode(read[0].display.as_deref().unwrap_or_default()),
                display
            );
        }
    }
}
