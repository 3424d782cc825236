//! What a lookup in the cache costs. `cargo test --release -p lookup --test cost -- --ignored --nocapture`
#![allow(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use lookup::{Cache, Cached, Entry, Lifetimes};
use mail::Mono;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "measures"]
fn a_fresh_answer() {
    let lifetimes = Lifetimes { positive: MINUTE, negative: MINUTE, stale: MINUTE };
    let cache = Cache::new(100_000, lifetimes, 9);
    let keys: Vec<String> = (0..10_000).map(|n| format!("user{n}@example.org")).collect();
    for key in &keys {
        cache.put(key, Some(Arc::new(Entry::text("x"))), Mono(1));
    }
    // The best of many rounds: others use this machine, too.
    let round = || {
        let began = Instant::now();
        let hits = keys.iter().filter(|key| matches!(cache.get(key, Mono(2)), Cached::Fresh(..)));
        assert_eq!(hits.count(), keys.len());
        began.elapsed() / 10_000
    };
    println!("{:?} a lookup", (0..50).map(|_| round()).min());
}
