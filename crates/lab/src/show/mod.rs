//! Values as people see them: numbers with units, tables and plots as markup. Nothing here knows what a
//! benchmark is: a page of any kind can hold it.
//!
//! Markup is written with `maud`, which closes what is opened and escapes all text. Elements that HTML
//! leaves open are avoided or closed by hand, so that what comes out is well-formed XML too.

pub mod number;
pub mod plot;
pub mod table;

pub use number::Spread;

/// What XML can hold: other control characters are replaced (XML 1.0 §2.2), which escaping does not do.
#[must_use]
pub fn printable(markup: &str) -> String {
    let is_forbidden = |c: char| {
        (c.is_control() && !matches!(c, '\t' | '\n')) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    markup.replace(is_forbidden, "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::printable;
    use maud::html;

    #[test]
    fn text_can_not_become_markup() {
        let markup = html! { p title="\"><b>" { "<script>&\u{0}\u{1b}" } };
        assert_eq!(
            printable(&markup.into_string()),
            "<p title=\"&quot;&gt;&lt;b&gt;\">&lt;script&gt;&amp;\u{fffd}\u{fffd}</p>"
        );
    }
}
