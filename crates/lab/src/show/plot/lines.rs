//! Values over time.

use super::axis::Axis;
use super::{Anchor, Drawing, TITLE_BASELINE, WIDTH, fit, ink, length, line, text, text_width};
use crate::show::number::{Scale, scale, unit_name};
use maud::{Markup, html};

/// Height of the area in which lines are.
const AREA: f64 = 170.0;
/// Right of it: half of the last tick's text has room.
const RIGHT: f64 = 20.0;
const LEGEND_ROW: f64 = 17.0;
const LEGEND_STROKE: f64 = 22.0;
const MOMENT_ROW: f64 = 13.0;
/// Below the area, for ticks and what they count.
const BOTTOM: f64 = 38.0;
/// Points of a line beyond which neighbours become one: more than a screen shows.
const POINTS_MAX: usize = 440;
/// More seconds than this are shown as minutes.
const SECONDS_MAX: f64 = 600.0;

/// Lines over a common axis.
#[derive(Clone, Debug)]
pub struct LinePlot<'a> {
    /// What is shown.
    pub title: &'a str,
    /// What is counted to the right; `s` becomes minutes where there are many.
    pub across: &'a str,
    /// Unit of the values.
    pub unit: &'a str,
    /// The lines.
    pub lines: Vec<PlotLine<'a>>,
    /// What happened when.
    pub moments: Vec<(f64, &'a str)>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct PlotLine<'a> {
    /// Its name in the legend.
    pub label: &'a str,
    /// Number of its colour.
    pub colour: usize,
    /// Where it goes.
    pub points: &'a [(f64, f64)],
}

/// Where values are in the picture.
struct Frame {
    left: f64,
    top: f64,
    across: Axis,
    up: Axis,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        self.left + (value / self.across.end()).clamp(0.0, 1.0) * (WIDTH - RIGHT - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + AREA - (value / self.up.end()).clamp(0.0, 1.0) * AREA
    }

    fn bottom(&self) -> f64 {
        self.top + AREA
    }
}

impl LinePlot<'_> {
    /// Draws it.
    #[must_use]
    pub fn draw(&self) -> Drawing {
        let points =
            || self.lines.iter().flat_map(|line| line.points).filter(|point| usable(point));
        let ends = self.moments.iter().map(|moment| moment.0);
        let across_max = points().map(|point| point.0).chain(ends).fold(0.0, f64::max);
        let up_max = points().map(|point| point.1).fold(0.0, f64::max);
        let up = scale(self.unit, up_max).unwrap_or(Scale { divisor: 1.0, unit: "" });
        let up = Axis::new(up_max, 4, up);
        let unit = if up.unit().is_empty() { unit_name(self.unit) } else { up.unit() };
        let title = match unit {
            "" => self.title.to_owned(),
            "/s" => format!("{}, per second", self.title),
            unit => format!("{}, {unit}", self.title),
        };
        let (legend, below) = self.draw_legend();
        let top = below + self.moments.len() as f64 * MOMENT_ROW + 9.0;
        let left = up.ticks().map(|(_, label)| text_width(&label)).fold(0.0, f64::max) + 8.0;
        let across = Axis::new(across_max, 6, across_scale(self.across, across_max));
        let frame = Frame { left, top, across, up };
        let inside = html! {
            (super::title(&title))
            (legend)
            (self.draw_axes(&frame))
            (self.draw_moments(&frame))
            @for line in &self.lines { (draw_line(line, &frame)) }
        };
        Drawing { height: frame.bottom() + BOTTOM, title, inside }
    }

    /// The lines' names, in as many rows as they need, and where the last row ends.
    fn draw_legend(&self) -> (Markup, f64) {
        if self.lines.len() < 2 {
            return (html! {}, TITLE_BASELINE + 6.0);
        }
        let (mut x, mut y) = (0.0, TITLE_BASELINE + LEGEND_ROW);
        let mut entries = Vec::new();
        for entry in &self.lines {
            let label = fit(entry.label, WIDTH - LEGEND_STROKE);
            let width = LEGEND_STROKE + text_width(&label) + 14.0;
            if x > 0.0 && x + width > WIDTH {
                (x, y) = (0.0, y + LEGEND_ROW);
            }
            let class = format!("line {}", ink::series_class(entry.colour));
            entries.push(html! {
                (line((x, y - 4.0), (x + LEGEND_STROKE - 5.0, y - 4.0), &class))
                (text((x + LEGEND_STROKE, y), "label", Anchor::Start, &label))
            });
            x += width;
        }
        (html! { @for entry in entries { (entry) } }, y + 6.0)
    }

    fn draw_axes(&self, frame: &Frame) -> Markup {
        let (bottom, right) = (frame.bottom(), WIDTH - RIGHT);
        let across = if frame.across.unit().is_empty() { self.across } else { frame.across.unit() };
        html! {
            @for (y, label) in frame.up.ticks().map(|(value, label)| (frame.y(value), label)) {
                (line((frame.left, y), (right, y), "grid"))
                (text((frame.left - 6.0, y + 4.0), "tick", Anchor::End, &label))
            }
            @for (x, label) in frame.across.ticks().map(|(value, label)| (frame.x(value), label)) {
                (line((x, bottom), (x, bottom + 4.0), "axis"))
                (text((x, bottom + 16.0), "tick", Anchor::Middle, &label))
            }
            (line((frame.left, bottom), (right, bottom), "axis"))
            (text((frame.left.midpoint(right), bottom + 31.0), "note", Anchor::Middle, across))
        }
    }

    /// Each in a row of its own above the area: they may be close to each other.
    fn draw_moments(&self, frame: &Frame) -> Markup {
        let moment = |(n, (when, what)): (usize, &(f64, &str))| {
            let x = frame.x(*when);
            let row = frame.top - 4.0 - (self.moments.len() - 1 - n) as f64 * MOMENT_ROW;
            let (left, right) = (x - frame.left, WIDTH - x);
            let (anchor, beside) =
                if right >= left { (Anchor::Start, x + 3.0) } else { (Anchor::End, x - 3.0) };
            html! {
                (line((x, row + 2.0), (x, frame.bottom()), "moment"))
                (text((beside, row), "note", anchor, &fit(what, right.max(left))))
            }
        };
        html! { @for drawn in self.moments.iter().enumerate().map(moment) { (drawn) } }
    }
}

fn usable((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

/// Time in a unit that reads well; what isn't time as it is.
fn across_scale(across: &str, max: f64) -> Scale {
    match across {
        "s" if max > SECONDS_MAX => Scale { divisor: 60.0, unit: "minutes" },
        "s" => Scale { divisor: 1.0, unit: "seconds" },
        _ => Scale { divisor: 1.0, unit: "" },
    }
}

fn draw_line(line: &PlotLine<'_>, frame: &Frame) -> Markup {
    let points = thinned(line.points);
    let place = |point: &(f64, f64)| (length(frame.x(point.0)), length(frame.y(point.1)));
    let class = ink::series_class(line.colour);
    match points.as_slice() {
        [] => html! {},
        // A single value would be a line that nobody sees.
        [point] => {
            let (x, y) = place(point);
            html! { circle cx=(x) cy=(y) r="3" class={"dot " (class)} fill=(ink::fill(&class).0) {} }
        }
        points => {
            let places = points.iter().map(place).map(|(x, y)| format!("{x},{y}"));
            let places = places.collect::<Vec<_>>().join(" ");
            let ink::Stroke { colour, width, dashes } = ink::stroke(&class);
            html! {
                polyline points=(places) class={"line " (class)} fill="none" stroke=[colour]
                    stroke-width=[width] stroke-dasharray=[dashes] stroke-linejoin="round" stroke-linecap="round" {}
            }
        }
    }
}

/// At most [`POINTS_MAX`] of them: of each stretch the least and the largest value, in their order,
/// so that no peak and no gap is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(usable).collect();
    if points.len() <= POINTS_MAX {
        return points;
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 2);
    let ends = |stretch: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut ends: Vec<(f64, f64)> =
            [stretch.iter().min_by(by_value), stretch.iter().max_by(by_value)]
                .into_iter()
                .flatten()
                .copied()
                .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        ends
    };
    points.chunks(stretch).flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::{POINTS_MAX, thinned};

    #[test]
    fn thinning_keeps_peaks_and_gaps() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 100.0)).collect();
        points[1_234].1 = 900.0;
        points[5_678].1 = 0.0;
        points[9_000].1 = f64::NAN;
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX, "{}", thin.len());
        assert!(thin.contains(&(1_234.0, 900.0)) && thin.contains(&(5_678.0, 0.0)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (1.0, 2.0)];
        assert_eq!(thinned(&points), points);
    }
}
