//! Values as people see them: numbers with units, tables and plots as markup. Nothing here knows what a
//! benchmark is: a page of any kind can hold it.
//!
//! Markup is written with `maud`, which closes what is opened and escapes all text. Elements that HTML
//! leaves open are avoided or closed by hand, so that what comes out is well-formed XML too.

pub mod number;
pub mod plot;

use maud::{Markup, html};
pub use number::Spread;
use number::{scale, short, three_digits, with_unit};

/// What XML can hold: other control characters are replaced (XML 1.0 §2.2), which escaping does not do.
#[must_use]
pub fn printable(markup: &str) -> String {
    let is_forbidden = |c: char| {
        (c.is_control() && !matches!(c, '\t' | '\n')) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    markup.replace(is_forbidden, "\u{FFFD}")
}

/// A table with a header and rows, in a box that scrolls sideways.
#[must_use]
pub fn scrolling(header: &Markup, rows: &Markup) -> Markup {
    html! {
        // Whoever has no pointer scrolls with the keys.
        div class="scroll" tabindex="0" {
            table {
                thead { tr { (header) } }
                tbody { (rows) }
            }
        }
        "\n"
    }
}

/// Headings of columns; the first is the rows' own.
#[must_use]
pub fn headings(names: &[&str]) -> Markup {
    html! { @for name in names { th { (name) } } }
}

/// A row of which every cell is a text; the first names it.
#[must_use]
pub fn text_row(cells: &[String]) -> Markup {
    html! {
        tr {
            @for (n, cell) in cells.iter().enumerate() {
                @if n == 0 { th { (cell) } } @else { td { (cell) } }
            }
        }
    }
}

/// A cell with prose, which may wrap.
#[must_use]
pub fn prose(text: &str) -> Markup {
    html! { td class="prose" { (text) } }
}

/// A cell with a value and, if there is more than one, from where to where the values went.
#[must_use]
pub fn spread_cell(spread: &Spread, unit: &str, class: &str) -> Markup {
    html! {
        td class=(class) {
            (with_unit(spread.median, unit))
            @if spread.values.len() > 1 { small { (range(spread, unit)) } }
        }
    }
}

/// From where to where, without the unit, but in the one in which [`with_unit`] shows the median.
fn range(spread: &Spread, unit: &str) -> String {
    let divisor = scale(unit, spread.median).map_or(1.0, |scale| scale.divisor);
    let show = if unit.is_empty() { short } else { three_digits };
    format!("{}–{}", show(spread.min / divisor), show(spread.max / divisor))
}

/// A row's heading, with a few words below it.
#[must_use]
pub fn heading(title: &str, note: Option<&str>) -> Markup {
    html! {
        th {
            (title)
            @if let Some(note) = note { small { (note) } }
        }
    }
}

/// A row that names those below it.
#[must_use]
pub fn group(name: &str, columns: usize) -> Markup {
    html! { tr class="group" { th colspan=(columns) { (name) } } }
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
