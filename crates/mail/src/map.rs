//! Hash maps with the same order in every run.

// The standard map is suitable with a fixed hasher: only its random seed is unwanted.
#![allow(clippy::disallowed_types)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with a fixed hasher. Keys chosen by clients belong in a `BTreeMap` instead: a fixed hasher can be flooded
/// with collisions.
pub type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<FixedHasher>>;
/// A hash set with a fixed hasher; see [`FixedMap`].
pub type FixedSet<K> = HashSet<K, BuildHasherDefault<FixedHasher>>;

/// A hash by one wide multiplication, fast for the small integer keys it is used with.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, n: u64) {
        // Both halves of the product are combined. A difference in the high bits of a key (the node and log of a
        // message id) reaches the low bits, by which a map chooses the bucket.
        let product = u128::from(self.0.rotate_left(5) ^ n) * u128::from(MULTIPLIER);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_buckets_wherever_they_differ() {
        for shift in [0, 8, 16, 32, 40, 48, 53] {
            let mut buckets: Vec<u64> = (0..1024u64)
                .map(|n| {
                    let mut hasher = FixedHasher::default();
                    hasher.write_u64((n << shift) ^ 7);
                    hasher.finish() & 1023
                })
                .collect();
            buckets.sort_unstable();
            buckets.dedup();
            // Chance alone would fill 647.
            assert!(buckets.len() > 550, "{} buckets at shift {shift}", buckets.len());
        }
    }

    #[test]
    fn text_keys_differ_by_any_byte() {
        let hash = |text: &str| {
            let mut hasher = FixedHasher::default();
            hasher.write(text.as_bytes());
            hasher.finish()
        };
        let all = ["", "a", "b", "aaaaaaaab", "aaaaaaaac", "baaaaaaab", "aaaaaaaaaaaaaaaaa"];
        let hashes: FixedSet<u64> = all.iter().map(|text| hash(text)).collect();
        assert_eq!(hashes.len(), all.len());
    }

    #[test]
    fn two_maps_iterate_alike() {
        let a: FixedMap<u64, ()> = (0..1000).map(|n| (n, ())).collect();
        let b: FixedMap<u64, ()> = (0..1000).map(|n| (n, ())).collect();
        assert!(a.keys().eq(b.keys()));
    }
}
