//! Plots as SVG. The same values give the same bytes.
//!
//! They are drawn small, about as wide as a phone, and scale up: text stays readable on both.
//! Light colours are presentation attributes, which every viewer shows; a style sheet replaces them in dark mode.

mod axis;
mod bars;
mod ink;
mod lines;

pub use bars::{Bar, BarChart};
pub use lines::{LinePlot, PlotLine};

use super::printable;
use maud::{Markup, PreEscaped, html};

/// Colours in dark mode; needed once in a page with plots.
pub const STYLE: &str = include_str!("style.css");

/// Width of every plot, in its own units. About as many as a phone has pixels.
const WIDTH: f64 = 380.0;

/// Free space at both sides: text that touches the edge is cut by some viewers.
const MARGIN: f64 = 10.0;

/// The line of a title.
const TITLE_BASELINE: f64 = 16.0;

/// A plot that was drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    height: f64,
    title: String,
    inside: Markup,
}

impl Drawing {
    /// As part of a page, which has [`STYLE`] already.
    #[must_use]
    pub fn inline(&self) -> Markup {
        self.svg(false)
    }

    /// As a file of its own, without anything from outside.
    #[must_use]
    pub fn standalone(&self) -> String {
        printable(&self.svg(true).into_string()) + "\n"
    }

    fn svg(&self, standalone: bool) -> Markup {
        let (left, width, height) =
            (length(-MARGIN), length(WIDTH + 2.0 * MARGIN), length(self.height));
        // Twice its own units, for pages that show a picture in its natural size. CairoSVG needs both sides.
        let natural = |side: f64| standalone.then(|| length(2.0 * side));
        let (natural_width, natural_height) = (natural(WIDTH + 2.0 * MARGIN), natural(self.height));
        html! {
            svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox={(left) " 0 " (width) " " (height)}
                role="img" aria-label=(self.title) width=[natural_width] height=[natural_height] font-family=(FONTS) font-size="12" {
                @if standalone { style { (PreEscaped(STYLE)) } }
                rect class="paper" x=(left) width=(width) height=(height) fill=(ink::PAPER) {}
                (self.inside)
            }
        }
    }
}

const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// Where text is held.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

fn text((x, y): (f64, f64), class: &str, anchor: Anchor, text: &str) -> Markup {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let ink::Lettering { colour, size, weight } = ink::lettering(class);
    html! {
        text x=(length(x)) y=(length(y)) class=(class) text-anchor=(anchor) fill=(colour) font-size=[size]
            font-weight=[weight] { (text) }
    }
}

fn line(from: (f64, f64), to: (f64, f64), class: &str) -> Markup {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(length);
    let ink::Stroke { colour, width, dashes } = ink::stroke(class);
    html! {
        line x1=(x1) y1=(y1) x2=(x2) y2=(y2) class=(class) stroke=[colour] stroke-width=[width]
            stroke-dasharray=[dashes] {}
    }
}

fn rectangle(corner: (f64, f64), size: (f64, f64), class: &str) -> Markup {
    let [x, y, width, height] = [corner.0, corner.1, size.0, size.1].map(length);
    let (fill, ink::Stroke { colour, width: stroke_width, dashes }) = ink::fill(class);
    html! {
        rect x=(x) y=(y) width=(width) height=(height) class=(class) fill=(fill) fill-opacity="0.75"
            stroke=[colour] stroke-width=[stroke_width] stroke-dasharray=[dashes] {}
    }
}

/// A length in a plot: a tenth of a unit is exact enough and keeps the file small.
fn length(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// About how wide a text of 12 units' size is: there is nothing to measure it with here.
fn text_width(text: &str) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '/' => 4.2,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 11.0,
        c if c.is_uppercase() => 8.6,
        _ => 7.2,
    };
    text.chars().map(width).sum()
}

/// A title, which is larger and bold.
fn title(title: &str) -> Markup {
    const WIDER: f64 = 1.25;
    text((0.0, TITLE_BASELINE), "title", Anchor::Start, &fit(title, WIDTH / WIDER))
}

/// The text, or as much of its beginning as has room, and an ellipsis.
fn fit(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut fitting = String::new();
    for c in text.chars() {
        if text_width(&fitting) + text_width(&format!("{c}…")) > width {
            break;
        }
        fitting.push(c);
    }
    format!("{}…", fitting.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{STYLE, fit, length, text_width};

    #[test]
    fn lengths_are_short() {
        assert_eq!([0.0, -0.01, 12.0, 12.345].map(length), ["0", "0", "12", "12.3"]);
    }

    #[test]
    fn a_text_is_cut_to_its_room() {
        assert_eq!(fit("postrider", 200.0), "postrider");
        let cut = fit("a contender with a very long name", 100.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 100.0, "{cut}");
        assert_eq!(fit("x", 0.0), "…");
    }

    #[test]
    fn the_style_needs_no_escaping() {
        assert!(!STYLE.contains(['<', '&']));
    }
}
