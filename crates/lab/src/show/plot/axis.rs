//! Which values an axis names.

use crate::show::number::{Scale, grouped};

/// The round values of an axis from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// Between two ticks, in the axis's unit.
    step: f64,
    /// Digits behind the point that tell two ticks apart.
    decimals: usize,
    /// How many ticks there are after 0.
    count: usize,
    scale: Scale,
}

impl Axis {
    /// Ticks at 1, 2 or 5 times a power of ten, about `wanted` of them, up to at least `max`.
    pub(super) fn new(max: f64, wanted: usize, scale: Scale) -> Axis {
        let max = if max.is_finite() && max > 0.0 { max / scale.divisor } else { 1.0 };
        let rough = max / wanted.max(1) as f64;
        let exponent = rough.log10().floor();
        let power = 10_f64.powf(exponent);
        // A little room: 0.2 * 5 is not quite 1.
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999_999);
        let step = factor.unwrap_or(10.0) * power;
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let count = (max / step - 1e-9).ceil().max(1.0) as usize;
        Axis { step, decimals, count, scale }
    }

    /// The largest value on it, in the unit of the values.
    pub(super) fn end(&self) -> f64 {
        self.count as f64 * self.step * self.scale.divisor
    }

    /// Each tick's value, in the unit of the values, and what is written there.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        (0..=self.count).map(|n| {
            let value = n as f64 * self.step;
            (value * self.scale.divisor, grouped(value, if n == 0 { 0 } else { self.decimals }))
        })
    }

    /// The axis's unit.
    pub(super) fn unit(&self) -> &'static str {
        self.scale.unit
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;
    use crate::show::number::Scale;

    fn ticks(max: f64) -> Vec<String> {
        let axis = Axis::new(max, 5, Scale { divisor: 1.0, unit: "" });
        axis.ticks().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_the_end() {
        assert_eq!(ticks(10_604.0), ["0", "5,000", "10,000", "15,000"]);
        assert_eq!(ticks(1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(ticks(0.003), ["0", "0.001", "0.002", "0.003"]);
        assert_eq!(ticks(100.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(7.0), ["0", "2", "4", "6", "8"]);
    }

    #[test]
    fn nothing_is_an_axis_too() {
        assert_eq!(ticks(0.0).last().map(String::as_str), Some("1.0"));
        assert_eq!(ticks(f64::NAN), ticks(0.0));
    }

    #[test]
    fn ticks_have_the_unit_of_the_axis() {
        let axis = Axis::new(2.5e6, 5, Scale { divisor: 1e6, unit: "MB" });
        let last = axis.ticks().last().expect("a tick");
        assert_eq!(last, (2.5e6, "2.5".to_owned()));
        assert_eq!(axis.end(), 2.5e6);
    }
}
