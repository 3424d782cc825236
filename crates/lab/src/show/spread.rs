//! Values of several rounds.

use serde::{Deserialize, Serialize};

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
    use super::Spread;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of(vec![]), None);
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).expect("values");
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(spread.values, [3.0, 1.0, 2.0]);
        assert_eq!(Spread::of(vec![4.0, 1.0]).expect("values").median, 2.5);
    }
}
