//! The simulator: same seed, same history; laws hold; planted faults are seen.

use lab::sim::{self, Plant};

#[test]
fn a_seed_gives_one_history_and_the_laws_hold() {
    let mut hashes = Vec::new();
    for seed in 1..=16 {
        let first = sim::run(seed, None, false);
        assert!(first.violations.is_empty(), "seed {seed}: {:?}", first.violations);
        let again = sim::run(seed, None, false);
        assert_eq!(first.hash, again.hash, "seed {seed}");
        assert!(!hashes.contains(&first.hash), "seed {seed} is like another");
        hashes.push(first.hash);
    }
}
