//! Seeded numbers: the same seed gives the same run.

/// `SplitMix64` (Steele, Lea, Flood 2014): small, fast, good enough to choose by.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence that depends on nothing but the seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 for a bound of 0).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift instead of a remainder: no bias worth naming for small bounds.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// `true` in `permille` of a thousand calls.
    pub fn permille(&mut self, permille: u16) -> bool {
        permille != 0 && self.below(1000) < u64::from(permille)
    }
}

/// The largest weight.
const WEIGHT_MAX: u64 = 1_000_000;

/// Values with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares<T> {
    /// Each with the sum of the weights up to and with its own.
    values: Vec<(u64, T)>,
}

impl<T> Shares<T> {
    /// `None` without any value.
    pub(crate) fn new(values: impl IntoIterator<Item = (u64, T)>) -> Option<Shares<T>> {
        let mut sum = 0;
        let add = |(weight, value)| {
            sum += weight;
            (sum, value)
        };
        let values: Vec<(u64, T)> = values.into_iter().map(add).collect();
        (sum > 0).then_some(Shares { values })
    }

    /// The value of this draw.
    pub(crate) fn pick(&self, number: u64) -> Option<&T> {
        let sum = self.values.last()?.0;
        let drawn = Random::new(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).below(sum);
        let index = self.values.partition_point(|(up_to, _)| *up_to <= drawn);
        self.values.get(index).map(|(_, value)| value)
    }
}

/// Reads a weight: from 1 to a million.
pub(crate) fn weight(text: &str) -> Result<u64, String> {
    let weight = text.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    weight.ok_or_else(|| format!("{text:?} is no weight from 1 to {WEIGHT_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::{Random, *};

    #[test]
    fn same_seed_same_sequence() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Random::new(7).next_u64(), Random::new(8).next_u64());
    }

    #[test]
    fn permille_is_near_its_share() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.permille(50)).count();
        assert!((4_500..5_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.permille(0)));
        assert!((0..1000).all(|_| random.permille(1000)));
    }

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
