//! Patterns for whole replies, for rules of other kinds.

use crate::file::compiled;
use crate::said::push_words;
use mail::EnhancedStatus;
use regex::bytes::Regex;

/// A pattern for replies in one line ([`one_line`]): without regard to case and of bounded size, as those of
/// lines in files.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A syntax error, or a pattern that matches every failure.
    pub fn new(text: &str) -> Result<Pattern, String> {
        if text.contains('@') {
            // The pattern could never match, without an error.
            return Err(
                "addresses are removed from a reply before matching: it has no `@`".to_owned()
            );
        }
        let pattern = Pattern(compiled(text).map_err(|(_, why)| why)?);
        let matches_all = ["421 4.7.0 x", "450 Q", "554 5.7.1 7", "550 #", "599"];
        match matches_all.iter().all(|line| pattern.matches(line)) {
            true => Err("this pattern matches every failure".to_owned()),
            false => Ok(pattern),
        }
    }

    /// Returns true if the pattern matches a reply in one line.
    #[must_use]
    pub fn matches(&self, line: &str) -> bool {
        self.0.is_match(line.as_bytes())
    }
}

/// Returns a reply in one line: its code, its status if present, and at most [`crate::REPLY_BYTES_MAX`]
/// octets of its text.
#[must_use]
pub fn one_line(code: u16, status: Option<EnhancedStatus>, text: &str) -> String {
    let mut line = match status {
        Some(status) => format!("{code} {status} "),
        None => format!("{code} "),
    };
    push_words(text, &mut line);
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::REPLY_BYTES_MAX;

    #[test]
    fn a_reply_is_one_line_with_its_codes() {
        let status = Some(EnhancedStatus::new(4, 7, 28));
        assert_eq!(
            one_line(421, status, "Our system\nhas  detected"),
            "421 4.7.28 Our system has detected"
        );
        assert_eq!(one_line(550, None, ""), "550");
        assert_eq!(
            one_line(550, None, &"x".repeat(REPLY_BYTES_MAX + 9)).len(),
            4 + REPLY_BYTES_MAX
        );
    }

    #[test]
    fn patterns_match_codes_and_words_and_not_everything() {
        let matches = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().matches(line);
        assert!(matches("Unusual RATE", "421 4.7.28 unusual rate of mail"));
        assert!(
            matches(r"^421 4\.7\.", "421 4.7.28 x") && !matches(r"^421 4\.7\.", "550 421 4.7.")
        );
        for bad in ["", ".*", "a@b", "^[45]", r"^\d\d\d", "(", "x{1000}{1000}"] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
        assert!(Pattern::new("^4").is_ok(), "these are not all");
    }
}
