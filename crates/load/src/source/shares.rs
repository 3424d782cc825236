//! Choosing among values that have weights: by a number, so that the same run chooses the same.

use crate::random::Random;

/// The largest weight.
const WEIGHT_MAX: u64 = 1_000_000;

/// Values with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares<T> {
    /// Each with the sum of the weights up to and with its own.
    values: Vec<(u64, T)>,
}

impl<T> Shares<T> {
    /// `None` without any value.
    pub(super) fn new(values: impl IntoIterator<Item = (u64, T)>) -> Option<Shares<T>> {
        let mut sum = 0;
        let add = |(weight, value)| {
            sum += weight;
            (sum, value)
        };
        let values: Vec<(u64, T)> = values.into_iter().map(add).collect();
        (sum > 0).then_some(Shares { values })
    }

    /// The value of this draw.
    pub(super) fn pick(&self, number: u64) -> Option<&T> {
        let sum = self.values.last()?.0;
        let drawn = Random::new(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).below(sum);
        let index = self.values.partition_point(|(up_to, _)| *up_to <= drawn);
        self.values.get(index).map(|(_, value)| value)
    }
}

/// Reads a weight: from 1 to a million.
pub(super) fn weight(text: &str) -> Result<u64, String> {
    let weight = text.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    weight.ok_or_else(|| format!("{text:?} is no weight from 1 to {WEIGHT_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_their_shares() {
        let shares = Shares::new([(3, 'a'), (1, 'b')]).unwrap();
        let count = |wanted| (0..40_000).filter(|n| shares.pick(*n) == Some(&wanted)).count();
        assert!((29_500..30_500).contains(&count('a')), "{}", count('a'));
        assert_eq!(count('a') + count('b'), 40_000);
        assert_eq!(Shares::<char>::new([]), None);
        assert_eq!(weight("1"), Ok(1));
        assert!(weight("0").is_err() && weight("1000001").is_err() && weight("x").is_err());
    }
}
