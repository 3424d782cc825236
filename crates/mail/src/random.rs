//! The only generator of seeded numbers: SplitMix64 (Steele, Lea, Flood 2014). Small, fast, sufficient for choices and
//! jitter; no secret may depend on it.
//!
//! A simulator seed replays a run only while the sequences stay unchanged.

/// Increment of the state per number: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A deterministic sequence of random numbers for a seed.
#[derive(Clone, Debug, Default)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number less than `bound`; 0 for a bound of 0. Computed as a remainder: the bias is negligible for bounds far
    /// below 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// Returns `true` with a probability of `permille` in a thousand.
    pub fn hits(&mut self, permille: u32) -> bool {
        self.below(1_000) < u64::from(permille)
    }

    /// A number from -1.0 up to, but not including, 1.0.
    pub fn around_zero(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Element `number` (from 0) of a sequence of numbers that look unrelated to each other and to `seed`, without a stored
/// state. Without the seed the next number cannot be predicted from those before.
#[must_use]
pub fn nth(seed: u64, number: u64) -> u64 {
    mix(seed ^ number.wrapping_mul(STEP))
}

/// The finaliser: each bit of the result depends on each bit of `n`.
fn mix(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(random.next_u64(), 0x06c4_5d18_8009_454f);
        assert_eq!(Random::new(1_234_567).next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(nth(0, 1), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn bounds_are_kept_at_their_edges() {
        let mut random = Random::new(7);
        assert!((0..1_000).all(|_| random.below(0) == 0 && random.below(1) == 0));
        let seen: std::collections::BTreeSet<u64> = (0..100).map(|_| random.below(3)).collect();
        assert!(seen.into_iter().eq(0..3));
        assert!((0..1_000).all(|_| !random.hits(0) && random.hits(1_000)));
        assert!((0..1_000).all(|_| (-1.0..1.0).contains(&random.around_zero())));
    }
}
