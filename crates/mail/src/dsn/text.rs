//! Text for reports: cleaned of control characters from outside, wrapped and folded.

use super::LINE_BYTES_MAX;

/// Column before which lines are wrapped or folded at a blank (RFC 5322 §2.1.1).
const WRAP_BYTES: usize = 76;
/// Longer unbroken text is split.
const WORD_BYTES_MAX: usize = 900;
/// A peer's text is cut at this length.
const WORDS_BYTES_MAX: usize = 1_000;

/// Appends lines to a part of a report.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) out: Vec<u8>,
    /// Non-ASCII characters are written unchanged (RFC 6533); otherwise as `?`.
    pub(super) global: bool,
}

impl Text {
    pub(super) fn new(global: bool) -> Text {
        Text { out: Vec::with_capacity(1_024), global }
    }

    /// A header or status field, folded at blanks.
    pub(super) fn field(&mut self, name: &str, value: &str) {
        self.wrapped(name, ": ", "\t", value);
    }

    /// A field with significant blanks or that must stay in one line: an address, an identifier. Left out if the line
    /// would be too long.
    pub(super) fn exact_field(&mut self, name: &str, value: &str) {
        let value = self.clean(value);
        if name.len() + 2 + value.len() <= LINE_BYTES_MAX {
            self.line(&format!("{name}: {value}"));
        }
    }

    /// A paragraph, each line indented.
    pub(super) fn paragraph(&mut self, indent: &str, text: &str) {
        self.wrapped(indent, "", indent, text);
    }

    /// Appends a line unchanged: it is short and valid.
    pub(super) fn line(&mut self, line: &str) {
        debug_assert!(line.len() <= LINE_BYTES_MAX && !line.contains(['\r', '\n']));
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes `start`, `between` and `text`, wrapped; further lines begin with `indent`.
    fn wrapped(&mut self, start: &str, between: &str, indent: &str, text: &str) {
        let text = self.clean(text);
        let mut line = format!("{start}{between}");
        let mut is_first = true;
        for word in cut(&text, WORDS_BYTES_MAX).split_ascii_whitespace().flat_map(pieces) {
            if !is_first && line.len() + 1 + word.len() > WRAP_BYTES {
                self.line(&line);
                line.clear();
                line.push_str(indent);
                is_first = true;
            }
            if !is_first {
                line.push(' ');
            }
            line.push_str(word);
            is_first = false;
        }
        self.line(line.trim_end());
    }

    /// Replaces all but printable characters, and non-ASCII ones unless the report is internationalised.
    pub(super) fn clean(&self, text: &str) -> String {
        let replace = |c: char| match c {
            _ if c.is_control() => ' ',
            _ if !c.is_ascii() && !self.global => '?',
            _ => c,
        };
        text.chars().map(replace).collect()
    }
}

/// Up to `bytes_max` bytes of `text`, cut between characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Splits unbroken text into pieces that fit into a line.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let piece = cut(rest, WORD_BYTES_MAX);
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folds_at_blanks() {
        let mut text = Text::new(false);
        text.field("Diagnostic-Code", &format!("smtp; 550 {}", "word ".repeat(20)));
        let out = String::from_utf8(text.out).unwrap();
        assert!(out.starts_with("Diagnostic-Code: smtp; 550 word word"));
        assert_eq!(out.lines().count(), 2);
        assert!(out.lines().all(|line| line.len() <= 76));
    }

    proptest! {
        #[test]
        fn a_field_stays_one_field(
            value in prop_oneof![any::<String>(), "[a ]{0,20}[aü]{0,3000}[\r\n\u{85} ]{0,9}[a-z]{9}"],
            global: bool,
        ) {
            let mut text = Text::new(global);
            text.field("Name", &value);
            text.exact_field("Name", &value);
            text.paragraph("  ", &value);
            let out = String::from_utf8(text.out).unwrap();
            prop_assert!(global || out.is_ascii());
            for line in out.split_terminator("\r\n") {
                prop_assert!(line.len() <= LINE_BYTES_MAX);
                prop_assert!(!line.trim_start_matches('\t').contains(char::is_control));
                prop_assert!(
                    line.starts_with("Name:") || line.starts_with(['\t', ' ']) || line.is_empty()
                );
            }
        }
    }
}
