//! Many seeds on many threads, each on one.

use super::{Plant, RunResult, run};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

thread_local! {
    /// The seed that this thread plays.
    static PLAYED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The seed that the calling thread plays, for who tells of a panic.
#[must_use]
pub fn played() -> Option<u64> {
    PLAYED.get()
}

/// Threads that make use of this machine.
#[must_use]
pub fn jobs() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Plays each seed on one of `jobs` threads; `take` gets the outcomes as they come and says
/// whether to go on.
pub fn play(
    seeds: Range<u64>,
    jobs: usize,
    plant: Option<Plant>,
    with_text: bool,
    mut take: impl FnMut(RunResult) -> bool,
) {
    let next = AtomicU64::new(seeds.start);
    let (send, outcomes) = mpsc::sync_channel(jobs.max(1));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (send, next, end) = (send.clone(), &next, seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    PLAYED.set(Some(seed));
                    if send.send(run(seed, plant, with_text)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for outcome in outcomes {
            if !take(outcome) {
                // Nobody receives any more: each thread ends after its seed.
                return;
            }
        }
    });
}
