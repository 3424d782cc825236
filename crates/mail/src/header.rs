//! Header scanning without copying (RFC 5322 §2.2).
//!
//! All functions take the first bytes of a content, as many as the caller has in memory. The header may be cut at the
//! end of these bytes. Then the last field may be cut too, and [`end`] is `None`.
//!
//! Received headers are often broken, and a relay must neither repair nor refuse them, so this reads as most servers
//! do. A line ends at LF, with or without CR. A line that starts with a blank continues the field before it. The header
//! ends at the empty line, or before the first line that cannot be a field. A line without a colon, or with anything
//! but printable ASCII before the colon, cannot be one; it then is the first line of the body.

use memchr::memchr;
use std::borrow::Cow;
use std::ops::Range;

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// As written, without the blanks that RFC 5322 §4.5 allows before the colon.
    pub name: &'a [u8],
    /// Everything between the colon and the last line end, including leading blanks and folds.
    pub value: &'a [u8],
    /// Position of the field, its last line end included.
    pub range: Range<usize>,
}

impl<'a> Field<'a> {
    /// Returns true if the field has this name, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The unfolded value without blanks around it.
    #[must_use]
    pub fn unfolded(&self) -> Cow<'a, [u8]> {
        unfold(self.value)
    }
}

/// The end of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBoundary {
    /// The length of the fields, without the empty line.
    pub fields_end: usize,
    /// Start of the body, after the empty line if present.
    pub body_start: usize,
}

/// The fields of a header, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    content: &'a [u8],
    offset: usize,
}

/// Iterates over the fields at the start of `content`.
#[must_use]
pub fn fields(content: &[u8]) -> Fields<'_> {
    Fields { content, offset: 0 }
}

/// The first field with this `name`, in any case.
#[must_use]
pub fn find<'a>(content: &'a [u8], name: &str) -> Option<Field<'a>> {
    fields(content).find(|field| field.is(name))
}

/// The fields that a relay looks for in each header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayFields {
    /// Received fields, for the hop limit (RFC 5321 §6.3).
    pub received_count: usize,
    /// `TLS-Required: No` (RFC 8689 §3).
    pub asks_for_no_tls: bool,
}

/// Finds it in one pass.
#[must_use]
pub fn relay_fields(content: &[u8]) -> RelayFields {
    let mut found = RelayFields::default();
    for field in fields(content) {
        if field.is("Received") {
            found.received_count += 1;
        } else if field.is("TLS-Required") {
            found.asks_for_no_tls |= field.unfolded().eq_ignore_ascii_case(b"No");
        }
    }
    found
}

/// The end of the header; `None` if it is not within `content`: it is cut, or it is all header.
#[must_use]
pub fn end(content: &[u8]) -> Option<HeaderBoundary> {
    let mut fields = fields(content);
    fields.by_ref().for_each(drop);
    let offset = fields.offset;
    match &content[offset..] {
        [b'\r', b'\n', ..] => Some(HeaderBoundary { fields_end: offset, body_start: offset + 2 }),
        [b'\n', ..] => Some(HeaderBoundary { fields_end: offset, body_start: offset + 1 }),
        // The next bytes may still form an empty line or a field.
        [] | [b'\r'] => None,
        rest => match name_length(rest) {
            Name::Cut => None,
            _ => Some(HeaderBoundary { fields_end: offset, body_start: offset }),
        },
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let start = self.offset;
        let rest = self.content.get(start..)?;
        let Name::Ends { name, colon } = name_length(rest) else { return None };
        let mut length = colon + 1;
        let mut value_end;
        loop {
            let Some(lf) = memchr(b'\n', &rest[length..]) else {
                length = rest.len();
                value_end = length;
                break;
            };
            value_end = length + lf;
            length = value_end + 1;
            if !matches!(rest.get(length), Some(b' ' | b'\t')) {
                value_end -= usize::from(rest[value_end - 1] == b'\r');
                break;
            }
        }
        self.offset = start + length;
        Some(Field {
            name: &rest[..name],
            value: &rest[colon + 1..value_end],
            range: start..self.offset,
        })
    }
}

pub(crate) enum Name {
    /// The length of the name, and the position of the colon.
    Ends { name: usize, colon: usize },
    /// It may be a name, but the text ends before the colon.
    Cut,
    /// No field starts here.
    No,
}

/// Octets of a field's name (RFC 5322 §2.2).
const NAME: [bool; 256] = {
    let mut is_name = [false; 256];
    let mut octet = 33;
    while octet <= 126 {
        is_name[octet] = octet != b':' as usize;
        octet += 1;
    }
    is_name
};

/// Matches `field-name *WSP ":"` (RFC 5322 §2.2, §4.5.8) at the start of `line`.
pub(crate) fn name_length(line: &[u8]) -> Name {
    let name = line.iter().position(|b| !NAME[usize::from(*b)]).unwrap_or(line.len());
    let blanks = line[name..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    match line.get(name + blanks) {
        Some(b':') if name > 0 => Name::Ends { name, colon: name + blanks },
        None if name > 0 => Name::Cut,
        _ => Name::No,
    }
}

/// The value in one line, without line ends (RFC 5322 §2.2.3) and without blanks around it. Copied only if it contains
/// a line end.
#[must_use]
pub fn unfold(value: &[u8]) -> Cow<'_, [u8]> {
    let value = trim(value);
    if memchr::memchr2(b'\r', b'\n', value).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect())
}

/// `value` without leading and trailing blanks and line ends.
#[must_use]
pub fn trim(value: &[u8]) -> &[u8] {
    let is_blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let start = value.iter().position(|b| !is_blank(b)).unwrap_or(value.len());
    let end = value.iter().rposition(|b| !is_blank(b)).map_or(start, |last| last + 1);
    &value[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &[u8] = b"Received: from a\r\n\tby b;\r\n date\r\nSubject : two\r\n words \r\n\
        received:x\r\nX-Empty:\r\n\r\nReceived: in the body\r\n";

    #[test]
    fn fields_of_a_usual_header() {
        let all: Vec<_> = fields(HEADER).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0].value, b" from a\r\n\tby b;\r\n date");
        assert_eq!(all[0].unfolded(), &b"from a\tby b; date"[..]);
        assert_eq!(all[0].range, 0..33);
        assert_eq!((all[1].name, &*all[1].unfolded()), (&b"Subject"[..], &b"two words"[..]));
        assert_eq!((all[3].name, all[3].value), (&b"X-Empty"[..], &b""[..]));
        assert_eq!(relay_fields(HEADER).received_count, 2);
        assert_eq!(find(HEADER, "SUBJECT").as_ref(), Some(&all[1]));
        assert_eq!(find(HEADER, "To"), None);
        let end = end(HEADER).unwrap();
        assert_eq!(end.fields_end, all[3].range.end);
        assert_eq!(&HEADER[end.body_start..], b"Received: in the body\r\n");
    }

    #[test]
    fn where_broken_headers_end() {
        let ends = |content: &str| end(content.as_bytes()).map(|e| (e.fields_end, e.body_start));
        assert_eq!(ends("\r\nbody"), Some((0, 2)));
        assert_eq!(ends("A: b\n\nbody"), Some((5, 6)));
        assert_eq!(ends("A: b\r\nno field\r\nC: d\r\n"), Some((6, 6)));
        assert_eq!(ends(" folded first\r\nA: b\r\n"), Some((0, 0)));
        assert_eq!(ends(": no name\r\n"), Some((0, 0)));
        assert_eq!(ends("From a@b Sat Nov 21 10:11:12 2026\r\nA: b\r\n"), Some((0, 0)));
        assert_eq!(ends("\u{fc}: b\r\n"), Some((0, 0)));
        // Cut, or nothing but a header.
        for cut in ["", "A", "A ", "A: b", "A: b\r", "A: b\r\n", "A: b\r\n c", "A: b\r\n\r"] {
            assert_eq!(ends(cut), None, "{cut:?}");
        }
    }

    #[test]
    fn a_cut_field_is_still_seen() {
        let last = fields(b"A: b\r\nReceived: from x").last().unwrap();
        assert_eq!((last.value, last.range), (&b" from x"[..], 6..22));
        assert_eq!(relay_fields(b"Received: a\r\nReceived:").received_count, 2);
    }

    #[test]
    fn a_header_that_asks_for_no_tls() {
        let asks = |header: &str| relay_fields(header.as_bytes()).asks_for_no_tls;
        for header in [
            "TLS-Required: No\r\n\r\n",
            "A: b\r\ntls-required:\r\n no \r\n\r\n",
            "TLS-Required: No\r\nReceived: x\r\nTLS-Required: No\r\n",
        ] {
            assert!(asks(header), "{header:?}");
        }
        for header in [
            "TLS-Required: Yes\r\n\r\n",
            "TLS-Required: No, thanks\r\n\r\n",
            "X-TLS-Required: No\r\n\r\n",
            "A: b\r\n\r\nTLS-Required: No\r\n",
        ] {
            assert!(!asks(header), "{header:?}");
        }
    }

    #[test]
    fn trimming() {
        assert_eq!(trim(b" \r\n\t"), b"");
        assert_eq!(trim(b""), b"");
        assert_eq!(trim(b" a b\r\n"), b"a b");
        assert_eq!(unfold(b" a\n b\r\n\tc "), &b"a b\tc"[..]);
    }

    proptest! {
        #[test]
        fn fields_follow_each_other_whatever_the_bytes(
            content in proptest::collection::vec(
                prop_oneof![
                    Just(b'\r'), Just(b'\n'), Just(b':'), Just(b' '), Just(b'a'), any::<u8>(),
                ],
                0..80,
            ),
        ) {
            let mut offset = 0;
            for field in fields(&content) {
                prop_assert_eq!(field.range.start, offset);
                offset = field.range.end;
                let text = &content[field.range.clone()];
                prop_assert!(text.starts_with(field.name));
                prop_assert!(!field.name.is_empty() && !field.name.contains(&b':'));
                let line_end = if text.ends_with(b"\r\n") { 2 } else { text.ends_with(b"\n").into() };
                prop_assert!(text[..text.len() - line_end].ends_with(field.value));
                prop_assert!(!field.unfolded().contains(&b'\n'));
            }
            if let Some(end) = end(&content) {
                prop_assert_eq!(end.fields_end, offset);
                prop_assert!(matches!(&content[offset..end.body_start], b"" | b"\n" | b"\r\n"));
            }
        }

        #[test]
        fn what_is_composed_is_found(
            values in proptest::collection::vec("[ -~]{0,20}(\r\n [!-~]{1,20}){0,2}", 0..8),
            body in "[a-z:\r\n]{0,20}",
        ) {
            let header: String = values.iter().map(|v| format!("Field:{v}\r\n")).collect();
            let content = format!("{header}\r\n{body}");
            let found: Vec<_> = fields(content.as_bytes()).map(|f| f.value.to_vec()).collect();
            let given: Vec<_> = values.iter().map(|v| v.clone().into_bytes()).collect();
            prop_assert_eq!(found, given);
            let end = end(content.as_bytes()).unwrap();
            prop_assert_eq!(&content[end.body_start..], body);
        }
    }
}
