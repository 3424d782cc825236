//! Light colours and strokes of each class, as presentation attributes: rsvg-convert and CairoSVG read few style sheets.

/// Number of series colours, after which they repeat.
const COLOURS: usize = 8;
const SERIES: [&str; COLOURS] =
    ["#0b63c4", "#d9480f", "#2b7d3b", "#8a2fa3", "#0b7f8c", "#b3235f", "#7a5a12", "#56616c"];
/// Dashes of the series, so that lines differ without colour.
const DASHES: [Option<&str>; 4] = [None, Some("7 3"), Some("2 3"), Some("9 3 2 3")];

pub(super) const PAPER: &str = "#fff";
const INK: &str = "#1b1f24";
const FAINT: &str = "#5b6570";
const RULE: &str = "#dfe3e8";
const BAD: &str = "#c81e1e";

/// Presentation attributes of a line or of a rectangle's border.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stroke {
    pub(super) colour: Option<&'static str>,
    pub(super) width: Option<&'static str>,
    pub(super) dashes: Option<&'static str>,
}

/// Presentation attributes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lettering {
    pub(super) colour: &'static str,
    pub(super) size: Option<&'static str>,
    pub(super) weight: Option<&'static str>,
}

/// The class of the `n`th series.
pub(super) fn series_class(n: usize) -> String {
    format!("s{}", n % COLOURS)
}

/// The series of a class list such as `line s3`.
fn series_of(class: &str) -> Option<usize> {
    class.split(' ').find_map(|name| name.strip_prefix('s')?.parse().ok()).filter(|n| *n < COLOURS)
}

/// Colour of a line, by its classes.
pub(super) fn stroke(class: &str) -> Stroke {
    let of = |colour, width, dashes| Stroke { colour: Some(colour), width: Some(width), dashes };
    match (series_of(class), class) {
        (Some(n), _) => of(SERIES[n], "1.8", DASHES[n % DASHES.len()]),
        (None, "grid") => of(RULE, "1", None),
        (None, "moment") => of(FAINT, "1", Some("2 3")),
        (None, "whisker") => of(INK, "1.5", None),
        (None, _) => of(FAINT, "1", None),
    }
}

/// Fill of a bar or dot, and the border of an invalid bar.
pub(super) fn fill(class: &str) -> (&'static str, Stroke) {
    match series_of(class) {
        Some(n) => (SERIES[n], Stroke::default()),
        None => ("none", Stroke { colour: Some(BAD), width: Some("1.5"), dashes: Some("4 3") }),
    }
}

/// Colour, size and weight of a text, by its class.
pub(super) fn lettering(class: &str) -> Lettering {
    let (colour, size, weight) = match class {
        "title" => (INK, Some("13"), Some("600")),
        "note" | "tick" => (FAINT, Some("11"), None),
        "invalid" => (BAD, None, None),
        _ => (INK, None, None),
    };
    Lettering { colour, size, weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_colours() {
        assert_eq!(stroke("line s9"), stroke("axis"), "there is no tenth series");
        assert_eq!(stroke("line s3").colour, Some(SERIES[3]));
        assert_eq!(fill("bar s7").0, SERIES[7]);
        assert_eq!(fill("invalid").0, "none");
        assert_eq!(series_class(COLOURS + 2), "s2");
        assert_ne!(lettering("tick").colour, lettering("label").colour);
    }
}
