//! Addresses in the value of a header field (RFC 5322 §3.4), by their positions, so that the text around them stays.

use std::ops::Range;

/// The positions of addresses with a domain: those in angle brackets, and those without a phrase. Text that is no
/// address list yields none, or the parts that are addresses.
pub(super) fn addresses(value: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    let mut item = Item::default();
    while let Some(&byte) = value.get(at) {
        let start = at;
        at = match byte {
            b'(' => end_of_comment(value, at),
            b'"' => end_of_quoted(value, at),
            b'[' => value
                .get(at..)
                .and_then(|rest| rest.iter().position(|b| *b == b']'))
                .map_or(value.len(), |n| at + n + 1),
            b'<' => {
                let end = end_of_angle(value, at);
                let is_closed = value.get(end.saturating_sub(1)) == Some(&b'>');
                found.extend(in_angle(value, at + 1..end - 1).filter(|_| is_closed));
                item.has_angle = true;
                end
            }
            b',' | b';' => {
                found.extend(std::mem::take(&mut item).address());
                at + 1
            }
            // The name of a group.
            b':' => {
                item = Item::default();
                at + 1
            }
            b' ' | b'\t' | b'\r' | b'\n' => {
                item.is_interrupted |= item.range.is_some();
                at += 1;
                continue;
            }
            _ => at + 1,
        };
        if !matches!(byte, b'(' | b'<' | b',' | b';' | b':') {
            item.take(start..at, byte == b'@');
        }
    }
    found.extend(item.address());
    found
}

/// Text up to the next comma.
#[derive(Default)]
struct Item {
    range: Option<Range<usize>>,
    has_at: bool,
    has_angle: bool,
    /// White space follows its text, and so text after it makes it no bare address.
    is_interrupted: bool,
    has_words: bool,
}

impl Item {
    fn take(&mut self, part: Range<usize>, is_at: bool) {
        self.has_words |= self.is_interrupted;
        self.has_at |= is_at;
        self.range = Some(self.range.take().map_or(part.start, |range| range.start)..part.end);
    }

    /// The text, if it is an address without a phrase.
    fn address(self) -> Option<Range<usize>> {
        self.range.filter(|_| self.has_at && !self.has_angle && !self.has_words)
    }
}

/// The address in angle brackets, without white space around it.
fn in_angle(value: &[u8], inner: Range<usize>) -> Option<Range<usize>> {
    let text = value.get(inner.clone())?;
    let start = inner.start + (text.len() - text.trim_ascii_start().len());
    let end = inner.start + text.trim_ascii_end().len();
    let text = value.get(start..end)?;
    // A source route (RFC 5322 §4.4) is left alone.
    (text.contains(&b'@') && !text.starts_with(b"@")).then_some(start..end)
}

/// The position after `>`.
fn end_of_angle(value: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = value.get(at) {
        at = match byte {
            b'>' => return at + 1,
            b'"' => end_of_quoted(value, at),
            _ => at + 1,
        };
    }
    value.len()
}

/// The position after a quoted string (RFC 5322 §3.2.4).
fn end_of_quoted(value: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = value.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    value.len()
}

/// The position after a comment, which may contain comments (RFC 5322 §3.2.2).
fn end_of_comment(value: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_u32);
    while let Some(&byte) = value.get(at) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(value: &str) -> Vec<&str> {
        addresses(value.as_bytes()).into_iter().map(|range| &value[range]).collect()
    }

    #[test]
    fn addresses_are_found_whatever_is_around_them() {
        for (value, expected) in [
            (" a@b.test", &["a@b.test"][..]),
            ("Jo <a@b.test>", &["a@b.test"]),
            ("\"Jo, <x@y>\" < a@b.test >, c@d.test (me, x@y)", &["a@b.test", "c@d.test"]),
            ("a@b.test,\r\n\tJo\r\n <c@d.test>", &["a@b.test", "c@d.test"]),
            ("Team: a@b.test, Jo <c@d.test>;", &["a@b.test", "c@d.test"]),
            ("\"a b\"@c.test", &["\"a b\"@c.test"]),
            ("a@[192.0.2.1]", &["a@[192.0.2.1]"]),
            ("(a@b) c@d.test", &["c@d.test"]),
            ("<@r.test:a@b.test>", &[]),
            ("undisclosed-recipients:;", &[]),
            ("root, a @ b.test", &[]),
            ("Jo a@b.test", &[]),
            ("\"open a@b.test", &[]),
            ("<a@b.test", &[]),
            ("", &[]),
        ] {
            assert_eq!(found(value), expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_walked_to_its_end(value in "[\"\\\\(<>),;:@ a\\[\\]\r\n]{0,40}") {
            let mut end = 0;
            for range in addresses(value.as_bytes()) {
                prop_assert!(range.start >= end && range.start < range.end && range.end <= value.len());
                end = range.end;
            }
        }
    }
}
