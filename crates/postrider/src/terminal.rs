//! Text from unauthenticated clients must neither control the operator's terminal nor disguise its contents.

/// Returns true if a character must be hidden: controls, and invisible characters that turn, join or hide the text
/// around them (Unicode's category Cf, and its line and paragraph separators).
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'
            | '\u{891}' | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}')
}

/// The text with a mark for each character that is not to be shown.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_turns_or_hides_text_is_marked() {
        let evil = "450 4.2.0 \u{202e}gpj.exe\u{2066}\u{200b}\u{feff}\u{e0041}\u{1b}[2J\r\n";
        let shown = clean(evil);
        assert_eq!(
            shown,
            "450 4.2.0 \u{fffd}gpj.exe\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}"
        );
        for kept in ["grüße@bücher.example", "日本語", "a – b … “c”", "ελ, עברית, العربية", "👍"]
        {
            assert_eq!(clean(kept), kept);
        }
    }
}
