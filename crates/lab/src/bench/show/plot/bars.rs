//! Horizontal bars, one for each contender.

use super::{
    Anchor, Drawing, TITLE_BASELINE, WIDTH, colour, fit, line, rectangle, text, text_width, title,
};
use crate::bench::report::Spread;
use crate::bench::show::markup::Markup;
use crate::bench::show::number::with_unit;

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
        let mut svg = Markup::default();
        title(&mut svg, self.title);
        text(&mut svg, (0.0, TITLE_BASELINE + 16.0), "note", Anchor::Start, &fit(self.note, WIDTH));
        for (n, (bar, value)) in self.bars.iter().zip(&values).enumerate() {
            let top = TOP + n as f64 * ROW;
            draw_bar(&mut svg, bar, top, (left, &at));
            let beyond = at(bar.spread.max.max(bar.spread.median)) + GAP;
            let class = if bar.invalid { "invalid" } else { "value" };
            text(&mut svg, (beyond, top + 11.5), class, Anchor::Start, value);
        }
        let height = TOP + self.bars.len() as f64 * ROW;
        line(&mut svg, (left, TOP - 5.0), (left, height - 5.0), "axis");
        Drawing { height: height + BOTTOM, title: self.title.to_owned(), inside: svg }
    }

    fn value(&self, bar: &Bar<'_>) -> String {
        let value = with_unit(bar.spread.median, self.unit);
        if bar.invalid { format!("{value} INVALID") } else { value }
    }
}

fn draw_bar(svg: &mut Markup, bar: &Bar<'_>, top: f64, (left, at): (f64, &dyn Fn(f64) -> f64)) {
    let label = fit(bar.label, LABEL_WIDTH_MAX);
    let class = if bar.invalid { "invalid" } else { "label" };
    text(svg, (left - GAP, top + 11.5), class, Anchor::End, &label);
    let class = if bar.invalid { "invalid".into() } else { format!("bar {}", colour(bar.colour)) };
    let length = at(bar.spread.median) - left;
    rectangle(svg, (left, top), (length, BAR_HEIGHT), &class);
    if bar.spread.values.len() < 2 {
        return; // one round has no spread
    }
    let (least, most, middle) = (at(bar.spread.min), at(bar.spread.max), top + BAR_HEIGHT / 2.0);
    line(svg, (least, middle), (most, middle), "whisker");
    for end in [least, most] {
        line(svg, (end, middle - 4.0), (end, middle + 4.0), "whisker");
    }
}
