//! Horizontal bars, one for each contender.

use super::{
    Anchor, Drawing, TITLE_BASELINE, WIDTH, fit, ink::series_class, line, rectangle, text,
    text_width, title,
};
use crate::show::Spread;
use crate::show::number::with_unit;
use maud::{Markup, html};

/// From one bar to the next.
const ROW: f64 = 26.0;
const BAR_HEIGHT: f64 = 14.0;
const LABEL_WIDTH_MAX: f64 = 130.0;
const GAP: f64 = 8.0;
/// Above the first bar, and below the last.
const TOP: f64 = 44.0;
const BOTTOM: f64 = 6.0;

/// Values of several contenders, in the order in which they are drawn.
#[derive(Clone, Debug)]
pub struct BarChart<'a> {
    /// What is shown.
    pub title: &'a str,
    /// How to read it, in a few words.
    pub note: &'a str,
    /// Unit of the values.
    pub unit: &'a str,
    /// The bars.
    pub bars: Vec<Bar<'a>>,
}

/// One contender.
#[derive(Clone, Debug)]
pub struct Bar<'a> {
    /// Its name.
    pub label: &'a str,
    /// Number of its colour.
    pub colour: usize,
    /// How long the bar is, and from where to where its whisker goes.
    pub spread: &'a Spread,
    /// Whether it proves nothing.
    pub invalid: bool,
}

impl BarChart<'_> {
    /// Draws it.
    #[must_use]
    pub fn draw(&self) -> Drawing {
        let labels = self.bars.iter().map(|bar| text_width(bar.label));
        let left = labels.fold(0.0, f64::max).min(LABEL_WIDTH_MAX) + GAP;
        let values: Vec<String> = self.bars.iter().map(|bar| self.value(bar)).collect();
        let right = values.iter().map(|value| text_width(value)).fold(0.0, f64::max) + 2.0 * GAP;
        let end = self.bars.iter().map(|bar| bar.spread.max).fold(0.0, f64::max);
        let room = (WIDTH - left - right).max(40.0);
        let at = |value: f64| left + if end > 0.0 { value.max(0.0) / end * room } else { 0.0 };
        let height = TOP + self.bars.len() as f64 * ROW;
        let note = fit(self.note, WIDTH);
        let inside = html! {
            (title(self.title))
            (text((0.0, TITLE_BASELINE + 16.0), "note", Anchor::Start, &note))
            @for (n, (bar, value)) in self.bars.iter().zip(&values).enumerate() {
                (draw_bar(bar, value, TOP + n as f64 * ROW, (left, &at)))
            }
            (line((left, TOP - 5.0), (left, height - 5.0), "axis"))
        };
        Drawing { height: height + BOTTOM, title: self.title.to_owned(), inside }
    }

    fn value(&self, bar: &Bar<'_>) -> String {
        let value = with_unit(bar.spread.median, self.unit);
        if bar.invalid { format!("{value} INVALID") } else { value }
    }
}

fn draw_bar(
    bar: &Bar<'_>,
    value: &str,
    top: f64,
    (left, at): (f64, &dyn Fn(f64) -> f64),
) -> Markup {
    let (label_class, bar_class, value_class) = match bar.invalid {
        true => ("invalid", "invalid".to_owned(), "invalid"),
        false => ("label", format!("bar {}", series_class(bar.colour)), "value"),
    };
    let (baseline, middle) = (top + 11.5, top + BAR_HEIGHT / 2.0);
    let length = at(bar.spread.median) - left;
    let (least, most) = (at(bar.spread.min), at(bar.spread.max));
    let beyond = at(bar.spread.max.max(bar.spread.median)) + GAP;
    let label = fit(bar.label, LABEL_WIDTH_MAX);
    html! {
        (text((left - GAP, baseline), label_class, Anchor::End, &label))
        (rectangle((left, top), (length, BAR_HEIGHT), &bar_class))
        // One round has no spread.
        @if bar.spread.values.len() > 1 {
            (line((least, middle), (most, middle), "whisker"))
            @for end in [least, most] {
                (line((end, middle - 4.0), (end, middle + 4.0), "whisker"))
            }
        }
        (text((beyond, baseline), value_class, Anchor::Start, value))
    }
}
