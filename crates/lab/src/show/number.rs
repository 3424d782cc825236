//! How figures are written for people.

use serde::{Deserialize, Serialize};

/// A unit that fits the size of the values, and what a value is divided by to be in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What a value is divided by.
    pub divisor: f64,
    /// The unit then; empty for a bare number.
    pub unit: &'static str,
}

/// The larger units of bytes and of microseconds.
const BYTES: [(f64, &str); 4] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (0.0, "bytes")];
const MICROS: [(f64, &str); 3] = [(1e6, "s"), (1e3, "ms"), (0.0, "µs")];

/// The unit in which values up to `max`, given in `unit`, read well. A unit that isn't known
/// remains: [`unit_name`].
#[must_use]
pub fn scale(unit: &str, max: f64) -> Option<Scale> {
    let units: &[(f64, &'static str)] = match unit {
        "bytes" => &BYTES,
        "µs" => &MICROS,
        _ => return None,
    };
    let (least, unit) = units.iter().find(|(least, _)| max.abs() >= *least)?;
    Some(Scale { divisor: least.max(1.0), unit })
}

/// How a unit is written behind a value: `1/s` as `/s`.
#[must_use]
pub fn unit_name(unit: &str) -> &str {
    if unit == "1/s" { "/s" } else { unit }
}

/// A value with its unit, to three digits or to the whole: `10,604 /s`, `27.3 MB`.
#[must_use]
pub fn with_unit(value: f64, unit: &str) -> String {
    let (value, unit) = match scale(unit, value) {
        Some(scale) => (value / scale.divisor, scale.unit),
        None => (value, unit_name(unit)),
    };
    if unit.is_empty() { short(value) } else { format!("{} {unit}", three_digits(value)) }
}

/// A bare value, to three digits or to the whole: `10,604`, `23.7`, `1.56`, `0.0123`. A whole number
/// remains one.
#[must_use]
pub fn short(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value, 0) } else { three_digits(value) }
}

/// The same, whole or not, so that values beside each other look alike: `3.00`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.1 => 3,
        _ => 4,
    };
    grouped(value, decimals)
}

/// A value with so many decimals and a comma between each three digits before them.
#[must_use]
pub fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    // A rounded zero has no sign.
    if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        out.push('−');
    }
    for (n, digit) in whole.chars().enumerate() {
        if n > 0 && (whole.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Values of several rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// One for each round, in their order; rounds without the figure are left out.
    pub values: Vec<f64>,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` without any.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Option<Spread> {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (low, high) = (sorted.get((sorted.len() - 1) / 2)?, sorted.get(sorted.len() / 2)?);
        let median = low.midpoint(*high);
        Some(Spread { values, median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, grouped, short, with_unit};

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(grouped(0.0, 0), "0");
        assert_eq!(grouped(999.0, 0), "999");
        assert_eq!(grouped(1_000.0, 0), "1,000");
        assert_eq!(grouped(-1_234_567.891, 2), "−1,234,567.89");
        assert_eq!(grouped(-0.001, 1), "0.0");
        assert_eq!(grouped(f64::NAN, 1), "–");
    }

    #[test]
    fn three_digits_say_enough() {
        let shown = [0.012_34, 0.5, 1.0, 1.555_5, 23.72, 106.6, 10_604.3].map(short);
        assert_eq!(shown, ["0.0123", "0.500", "1", "1.56", "23.7", "107", "10,604"]);
    }

    #[test]
    fn a_unit_grows_with_the_value() {
        assert_eq!(with_unit(27_300_000.0, "bytes"), "27.3 MB");
        assert_eq!(with_unit(136.0, "bytes"), "136 bytes");
        assert_eq!(with_unit(106.6, "µs"), "107 µs");
        assert_eq!(with_unit(2_500.0, "µs"), "2.50 ms");
        assert_eq!(with_unit(18e6, "bytes"), "18.0 MB");
        assert_eq!(with_unit(10_604.0, "1/s"), "10,604 /s");
        assert_eq!(with_unit(3.0, ""), "3");
        assert_eq!(with_unit(99.5, "%"), "99.5 %");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of(vec![]), None);
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).expect("values");
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(spread.values, [3.0, 1.0, 2.0]);
        assert_eq!(Spread::of(vec![4.0, 1.0]).expect("values").median, 2.5);
    }
}
