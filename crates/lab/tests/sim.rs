//! The simulator: the same seed gives the same history, the laws hold in all of them, and a fault
//! that is planted is seen.

use lab::sim::{self, Plant};
use std::collections::BTreeSet;

/// Within so many seeds a planted fault must show.
const SEEDS_MAX: u64 = 64;

#[test]
fn a_seed_gives_one_history_and_the_laws_hold() {
    let mut hashes = BTreeSet::new();
    for seed in 1..=16 {
        let first = sim::run(seed, None, false);
        assert_eq!(first.violations, [], "seed {seed}");
        assert!(first.totals.acknowledged > 0 && first.totals.arrived > 0, "seed {seed}");
        let again = sim::run(seed, None, false);
        assert_eq!(first.hash, again.hash, "seed {seed}");
        assert_eq!(first.totals, again.totals, "seed {seed}");
        hashes.insert(first.hash);
    }
    assert_eq!(hashes.len(), 16, "each seed has a history of its own");
}

#[test]
fn the_text_of_a_history_changes_nothing_in_it() {
    let silent = sim::run(7, None, false);
    let told = sim::run(7, None, true);
    assert_eq!(silent.hash, told.hash);
    assert_eq!(told.lines.len() as u64, told.events_count);
}

/// The first seed in which `plant` breaks a law of which the text tells with `word`.
fn first_seed(plant: Plant, word: &str) -> Option<u64> {
    (1..=SEEDS_MAX).find(|&seed| {
        let outcome = sim::run(seed, Some(plant), false);
        outcome.violations.iter().any(|violation| violation.text.contains(word))
    })
}

#[test]
fn messages_acknowledged_before_they_are_durable_are_missed() {
    assert!(first_seed(Plant::AcknowledgeBeforeSync, "is lost").is_some());
}

#[test]
fn forgotten_settles_are_noticed() {
    assert!(first_seed(Plant::ForgetSettle, "not drained").is_some());
}

#[test]
fn a_message_that_comes_twice_is_noticed() {
    assert!(first_seed(Plant::CountTwice, "without a reason").is_some());
}

#[test]
fn a_connection_too_many_is_noticed() {
    assert!(first_seed(Plant::OneConnectionMore, "connections to").is_some());
}
