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

/// The columns of the terminal on standard output; `None` for a pipe or a file.
pub(crate) fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// A column of text is not made narrower than this.
const COLUMN_CHARS_MIN: usize = 12;
/// A blank on each side of a cell.
const MARGIN: usize = 2;

/// Cuts texts in these columns, in this order, so that the lines of a table have at most `width` characters, as far as that
/// is possible.
pub(crate) fn fit<const N: usize>(rows: &mut [[String; N]], columns: &[usize], width: usize) {
    for &column in columns.iter().filter(|column| **column < N) {
        let longest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let total: usize = (0..N).filter_map(longest).map(|chars| chars + MARGIN).sum();
        let own = longest(column).unwrap_or(0);
        let most = own.saturating_sub(total.saturating_sub(width)).max(COLUMN_CHARS_MIN);
        for row in rows.iter_mut() {
            cut(&mut row[column], most);
        }
    }
}

/// Cuts a text to a number of characters, and marks the cut.
fn cut(text: &mut String, chars_max: usize) {
    if text.chars().count() > chars_max {
        *text = text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_cut_in_their_order() {
        let rows = || [["ü".repeat(20), "b".repeat(20)], ["c".to_owned(), "d".to_owned()]];
        let mut cut = rows();
        fit(&mut cut, &[1, 0], 39);
        assert_eq!(cut[0], ["ü".repeat(20), "b".repeat(14) + "…"]);
        fit(&mut cut, &[1, 0], 1);
        assert_eq!(cut[0], ["ü".repeat(11) + "…", "b".repeat(11) + "…"]);
        let mut whole = rows();
        fit(&mut whole, &[1, 0], 44);
        assert_eq!(whole, rows());
    }

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
