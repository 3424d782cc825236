//! Lists of tags and values: `v=1; a=rsa-sha256` (RFC 6376 §3.2).

/// Maximum number of tags in one list; a longer one is invalid. The standards define a dozen.
const TAGS_MAX: usize = 50;

/// The tags of a list, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tags<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Tags<'a> {
    /// `None` for an invalid or repeated tag (RFC 6376 §3.2).
    pub(crate) fn parse(text: &'a str) -> Option<Tags<'a>> {
        let mut tags: Vec<(&str, &str)> = Vec::new();
        let mut pieces = text.split(';').peekable();
        while let Some(piece) = pieces.next() {
            let piece = piece.trim_matches(is_blank);
            if piece.is_empty() && pieces.peek().is_none() {
                break;
            }
            let (name, value) = tag(piece)?;
            if tags.len() == TAGS_MAX || tags.iter().any(|(known, _)| *known == name) {
                return None;
            }
            tags.push((name, value));
        }
        Some(Tags(tags))
    }

    /// The lenient form, for records with ignored errors (RFC 7489 §6.3): invalid tags are skipped, and so are tags
    /// beyond the limit. Of equal tags the first one counts.
    pub(crate) fn parse_leniently(text: &'a str) -> Tags<'a> {
        let mut tags: Vec<(&str, &str)> = Vec::new();
        for (name, value) in text.split(';').filter_map(tag).take(TAGS_MAX) {
            if !tags.iter().any(|(known, _)| *known == name) {
                tags.push((name, value));
            }
        }
        Tags(tags)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The same list without one of its tags.
    pub(crate) fn without(&self, name: &str) -> Tags<'a> {
        Tags(self.0.iter().copied().filter(|(known, _)| *known != name).collect())
    }

    /// The first tag's name and value.
    pub(crate) fn first(&self) -> Option<(&'a str, &'a str)> {
        self.0.first().copied()
    }
}

/// Name and value.
fn tag(piece: &str) -> Option<(&str, &str)> {
    let (name, value) = piece.trim_matches(is_blank).split_once('=')?;
    let name = name.trim_end_matches(is_blank);
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| (name, value.trim_start_matches(is_blank)))
}

/// Folding white space in a list.
pub(crate) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// A value with the blanks taken out that may stand anywhere in it (base64, RFC 6376 §2.10).
pub(crate) fn without_blanks(value: &str) -> String {
    value.chars().filter(|c| !is_blank(*c)).collect()
}

/// The items of a colon-separated list.
pub(crate) fn listed(value: &str) -> impl Iterator<Item = &str> {
    value.split(':').map(|item| item.trim_matches(is_blank))
}

/// Replies and hold reasons are ASCII; third-party text may not be.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_once_and_may_be_folded() {
        let tags = Tags::parse("v=1; a = rsa-sha256;\r\n\tb=ab\r\n cd==; x=;").unwrap();
        assert_eq!(tags.get("a"), Some("rsa-sha256"));
        assert_eq!(tags.get("b").map(without_blanks).as_deref(), Some("abcd=="));
        assert_eq!((tags.get("x"), tags.get("y")), (Some(""), None));
        assert_eq!(tags.first(), Some(("v", "1")));
        let list = |count: usize| (0..count).map(|n| format!("t{n}=;")).collect::<String>();
        assert!(
            Tags::parse(&list(TAGS_MAX)).is_some() && Tags::parse(&list(TAGS_MAX + 1)).is_none()
        );
        for bad in ["v=1; v=1", "v", ";v=1", "=1", "v=1;; a=b", "\u{e9}=1"] {
            assert_eq!(Tags::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn read_leniently_a_list_is_what_can_be_read_of_it() {
        let tags = Tags::parse_leniently("v=1;; x:2; a = b c ;\r\n\t1=2; a=d; =e; f=");
        assert_eq!(tags, Tags(vec![("v", "1"), ("a", "b c"), ("f", "")]));
        let many: String = (0..TAGS_MAX + 1).map(|n| format!("t{n}=;")).collect();
        assert_eq!(Tags::parse_leniently(&many).0.len(), TAGS_MAX);
    }
}
