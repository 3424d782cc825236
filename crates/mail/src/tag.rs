//! Tags of local parts: `user+tag`.

use std::sync::Arc;

/// Maximum number of delimiters.
const DELIMITERS_MAX: usize = 8;

/// The characters that begin a tag (`recipient_delimiter`). In a local part the first one counts. An empty set means no
/// tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagDelimiters(Arc<str>);

impl Default for TagDelimiters {
    fn default() -> TagDelimiters {
        TagDelimiters("+".into())
    }
}

impl TagDelimiters {
    /// Parses a set of characters.
    ///
    /// # Errors
    /// Returns the remedy for characters that cannot be delimiters.
    pub fn parse(text: &str) -> Result<TagDelimiters, String> {
        // RFC 5321 §4.1.2: atext but letters and digits, and the dot.
        let is_one = |c: char| "!#$%&'*+-/=?^_`{|}~.".contains(c);
        if text.chars().count() > DELIMITERS_MAX {
            return Err(format!("write at most {DELIMITERS_MAX} characters"));
        }
        if let Some(other) = text.chars().find(|c| !is_one(*c)) {
            return Err(format!(
                "{other:?} cannot begin a tag: write, for example, \"+\" or \"+-\""
            ));
        }
        Ok(TagDelimiters(text.into()))
    }

    /// Splits a local part into user, delimiter and tag. `None` without a tag, and for names that Postfix keeps whole, too:
    /// those of the mail system and, if `-` is a delimiter, `owner-list` and `list-request`.
    #[must_use]
    pub fn split<'l>(&self, local: &'l str) -> Option<(&'l str, char, &'l str)> {
        let at = local.find(|c| self.0.contains(c)).filter(|at| *at > 0)?;
        if self.0.contains('-') && is_kept_whole(local) {
            return None;
        }
        let (user, rest) = local.split_at(at);
        let delimiter = rest.chars().next()?;
        Some((user, delimiter, rest.get(delimiter.len_utf8()..)?))
    }
}

fn is_kept_whole(local: &str) -> bool {
    let local = local.to_ascii_lowercase();
    let is_request = local.strip_suffix("-request").is_some_and(|list| !list.is_empty());
    local.starts_with("owner-")
        || is_request
        || local == "mailer-daemon"
        || local == "double-bounce"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_delimiter_begins_the_tag() {
        for (delimiters, local, split) in [
            ("+", "jo+news", Some(("jo", '+', "news"))),
            ("+", "jo+a+b", Some(("jo", '+', "a+b"))),
            ("+", "jo+", Some(("jo", '+', ""))),
            ("+", "+jo", None),
            ("+", "jo-news", None),
            ("+-", "jo-a+b", Some(("jo", '-', "a+b"))),
            ("+-", "-jo+a", None),
            ("-", "owner-list", None),
            ("-", "list-request", None),
            ("-", "Mailer-Daemon", None),
            ("-", "-request", None),
            ("+", "owner-list+a", Some(("owner-list", '+', "a"))),
            ("", "jo+news", None),
        ] {
            assert_eq!(TagDelimiters::parse(delimiters).unwrap().split(local), split, "{local}");
        }
    }

    #[test]
    fn letters_and_separators_are_no_delimiters() {
        for bad in ["a", "1", "@", "\"", " ", "\\", ",", "\u{e9}", "+++++++++"] {
            assert!(TagDelimiters::parse(bad).is_err(), "{bad}");
        }
        assert!(TagDelimiters::parse("++++++++").is_ok());
    }
}
