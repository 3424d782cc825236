//! The addresses of a list, as people write them on a command line and in To.

/// The addresses of a list of mailboxes and groups (RFC 5322 §3.4), without names and comments. Text that is no address
/// stays as it is, for the server to reject.
pub(super) fn addresses_of(list: &str) -> Vec<String> {
    let (mut found, mut entry) = (Vec::new(), Entry::default());
    let mut chars = list.chars();
    let (mut depth, mut is_quoted) = (0_u32, false);
    while let Some(c) = chars.next() {
        match c {
            '\\' if depth > 0 => _ = chars.next(),
            '\\' => {
                entry.push(c);
                chars.next().into_iter().for_each(|escaped| entry.push(escaped));
            }
            '"' if depth == 0 => {
                is_quoted = !is_quoted;
                entry.push(c);
            }
            _ if is_quoted => entry.push(c),
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            '<' => entry.in_brackets = Some(String::new()),
            '>' => entry.is_closed = true,
            // The name of a group. Brackets and literals have colons of their own.
            ':' if entry.in_brackets.is_none() && !entry.bare.contains(['@', '[']) => {
                entry = Entry::default();
            }
            ',' | ';' if entry.in_brackets.is_none() || entry.is_closed => {
                found.extend(std::mem::take(&mut entry).address());
            }
            _ => entry.push(c),
        }
    }
    found.extend(entry.address());
    found
}

/// One entry of a list.
#[derive(Default)]
struct Entry {
    bare: String,
    in_brackets: Option<String>,
    is_closed: bool,
}

impl Entry {
    fn push(&mut self, c: char) {
        match &mut self.in_brackets {
            Some(_) if self.is_closed => {}
            Some(inner) => inner.push(c),
            None => self.bare.push(c),
        }
    }

    fn address(self) -> Option<String> {
        let text = self.in_brackets.unwrap_or(self.bare);
        let address = text.trim();
        (!address.is_empty()).then(|| address.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_lists() {
        for (list, expected) in [
            ("root", &["root"][..]),
            ("a@x.test, b@y.test", &["a@x.test", "b@y.test"]),
            (
                "Jo Doe <jo@x.test>, \"Doe, Al\" <al@x.test> (home, sweet)",
                &["jo@x.test", "al@x.test"],
            ),
            ("team: a@x.test, b@x.test; c@x.test", &["a@x.test", "b@x.test", "c@x.test"]),
            ("undisclosed-recipients:;", &[]),
            ("\"a, b\"@x.test", &["\"a, b\"@x.test"]),
            ("a@[IPv6:::1], b", &["a@[IPv6:::1]", "b"]),
            ("<@relay.test:a@x.test>", &["@relay.test:a@x.test"]),
            (" , ,", &[]),
            ("<>", &[]),
            ("a (one \\) two) , b", &["a", "b"]),
            ("\"open", &["\"open"]),
        ] {
            assert_eq!(addresses_of(list), expected, "{list}");
        }
    }
}
