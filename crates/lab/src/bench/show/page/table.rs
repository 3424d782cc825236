//! Tables that a phone can scroll, and the cells that they have in common.

use crate::bench::report::{Better, Spread};
use crate::bench::show::markup::Markup;
use crate::bench::show::number::{scale, short, three_digits, unit_name, with_unit};

/// A table with a header, in a box that scrolls sideways.
pub(super) fn draw(
    out: &mut Markup,
    header: impl FnOnce(&mut Markup),
    rows: impl FnOnce(&mut Markup),
) {
    // Whoever has no pointer scrolls with the keys.
    out.element("div", &[("class", "scroll"), ("tabindex", "0")], |out| {
        out.element("table", &[], |out| {
            out.element("thead", &[], |out| out.element("tr", &[], header));
            out.element("tbody", &[], rows);
        });
    });
    out.line();
}

/// Headings of columns; the first is the rows' own.
pub(super) fn headings(row: &mut Markup, names: &[&str]) {
    for name in names {
        row.leaf("th", &[], name);
    }
}

/// A row of which every cell is a text; the first names it.
pub(super) fn text_row(body: &mut Markup, cells: &[String]) {
    body.element("tr", &[], |row| {
        for (n, cell) in cells.iter().enumerate() {
            row.leaf(if n == 0 { "th" } else { "td" }, &[], cell);
        }
    });
}

/// A cell with prose, which may wrap.
pub(super) fn prose(row: &mut Markup, text: &str) {
    row.leaf("td", &[("class", "prose")], text);
}

/// A cell with a value and, if there is more than one, from where to where the values went.
pub(super) fn spread_cell(row: &mut Markup, spread: &Spread, unit: &str, class: &str) {
    row.element("td", &[("class", class)], |cell| {
        cell.text(&with_unit(spread.median, unit));
        if spread.values.len() > 1 {
            cell.leaf("small", &[], &range(spread, unit));
        }
    });
}

/// From where to where, without the unit, but in the one in which [`with_unit`] shows the median.
fn range(spread: &Spread, unit: &str) -> String {
    let divisor = scale(unit, spread.median).map_or(1.0, |scale| scale.divisor);
    let show = if unit.is_empty() { short } else { three_digits };
    format!("{}–{}", show(spread.min / divisor), show(spread.max / divisor))
}

/// A row's heading: a figure's name, and which way it is better.
pub(super) fn figure_heading(row: &mut Markup, title: &str, better: Better) {
    row.element("th", &[], |cell| {
        cell.text(title);
        match better {
            Better::Higher => cell.leaf("small", &[], "more is better"),
            Better::Lower => cell.leaf("small", &[], "less is better"),
            Better::Neither => {}
        }
    });
}

/// A row that names those below it.
pub(super) fn group(body: &mut Markup, name: &str, columns: usize) {
    body.element("tr", &[("class", "group")], |row| {
        row.leaf("th", &[("colspan", &columns.to_string())], name);
    });
}

/// A value and its unit, as somebody published it.
pub(super) fn published(value: f64, unit: &str) -> String {
    format!("{} {}", short(value), unit_name(unit)).trim_end().to_owned()
}
