//! What an entry costs in memory and time. Run by hand, in release mode:
//! `cargo test --release -p queue --test scheduler cost -- --ignored --nocapture --test-threads 1`.

#![allow(clippy::disallowed_methods, reason = "measuring needs the real clock and /proc")]

use crate::world::{SECOND, entry, failure, limits, policy, ready_key, scheduled_key};
use mail::Mono;
use queue::{
    Action, EntryOutcome, Queue, QueueConfig, ReadyId, Resolution, ScheduledId, Take, WeightedPath,
};
use std::time::{Duration, Instant};

/// Resident memory now and at its peak, in bytes.
fn resident() -> (i64, i64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let field = |name: &str| -> i64 {
        let line = status.lines().find(|l| l.starts_with(name)).expect("the field");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    };
    (field("VmRSS:") * 1024, field("VmHWM:") * 1024)
}

fn answer(queue: &mut Queue, now: Mono, scheduled: ScheduledId, hop: &str) {
    let answer = Resolution::Ready {
        ways: vec![WeightedPath {
            key: ready_key(hop),
            limits: limits().own(),
            shared: vec![limits().shared(hop)],
            weight: 1,
            tier: 0,
        }],
        fresh_until: now + SECOND * 86_400,
    };
    queue.handle_resolved(now, scheduled, answer);
}

/// Pushes entries `from..to` over `domains` domains, the next hop of which is down, and lets the
/// queue work on them.
fn fill(queue: &mut Queue, from: u64, to: u64, domains: u64) {
    for n in from..to {
        let now = Mono(1_000_000 + n * 100);
        let scheduled =
            queue.scheduled(&scheduled_key(&format!("d{}.example", n % domains)), &policy());
        queue.push(now, scheduled, entry(n, now));
        while let Some(action) = queue.poll(now) {
            match action {
                Action::Resolve(scheduled) => {
                    answer(queue, now, scheduled, &format!("hop{}", scheduled.0));
                }
                Action::Open(ready) => queue.handle_open_failed(now, ready, failure("down")),
                _ => {}
            }
        }
    }
}

#[test]
#[ignore = "measures"]
fn memory_of_a_million_entries_that_are_ready() {
    let mut queue = Queue::new(QueueConfig::new(0, 2));
    fill(&mut queue, 0, 200_000, 10_000);
    let (before, _) = resident();
    fill(&mut queue, 200_000, 1_000_000, 10_000);
    let (after, peak) = resident();
    println!(
        "ready: {} bytes per entry, {} at the peak ({:?})",
        (after - before) / 800_000,
        (peak - before) / 800_000,
        queue.counts()
    );
    assert!(peak - before < 800_000 * 100);
}

#[test]
#[ignore = "measures"]
fn memory_of_a_million_entries_that_wait_for_their_time() {
    for domains in [1, 10_000, 1_000_000] {
        let mut queue = Queue::new(QueueConfig::new(0, 2));
        let (before, _) = resident();
        let start = Instant::now();
        for n in 0..1_000_000u64 {
            let now = Mono(1_000_000);
            let domain = format!("d{}.example", n % domains);
            let scheduled = queue.scheduled(&scheduled_key(&domain), &policy());
            let mut new = entry(n, now);
            new.due = now + Duration::from_micros(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30);
            queue.push(now, scheduled, new);
        }
        let took = start.elapsed();
        let (after, peak) = resident();
        println!(
            "{domains} domains: {} bytes per entry, {} at the peak so far, {took:?}",
            (after - before) / 1_000_000,
            (peak - before) / 1_000_000,
        );
        assert!(domains > 10_000 || after - before < 100_000_000);
    }
}

#[test]
#[ignore = "measures"]
fn time_of_push_take_settle() {
    for shards in [1, 2] {
        let mut queue = Queue::new(QueueConfig::new(0, shards));
        let now = Mono(1_000_000);
        let key = scheduled_key("a.example");
        let scheduled = queue.scheduled(&key, &policy());
        // A hop whose limits this shard owns.
        let hop = (0..).map(|n| format!("hop{n}")).find(|hop| {
            let mut probe = Queue::new(QueueConfig::new(0, shards));
            let scheduled = probe.scheduled(&key, &policy());
            answer(&mut probe, now, scheduled, hop);
            probe.push(now, scheduled, entry(0, now));
            let first: Vec<Action> = std::iter::from_fn(|| probe.poll(now)).collect();
            first.contains(&Action::Open(ReadyId(0)))
        });
        answer(&mut queue, now, scheduled, &hop.expect("one of many"));
        let mut open = 0;
        let mut settled = 0u64;
        let start = Instant::now();
        for round in 0..40_000u64 {
            let now = now + Duration::from_micros(round * 500);
            for n in 0..50 {
                let scheduled = queue.scheduled(&key, &policy());
                queue.push(now, scheduled, entry(round * 50 + n, now));
            }
            while let Some(action) = queue.poll(now) {
                if let Action::Open(ready) = action {
                    queue.handle_opened(now, ready);
                    open += 1;
                }
            }
            for _ in 0..open {
                while let Take::Work(work) = queue.take(now, ReadyId(0), 0) {
                    for (entry, _, _) in work.entries {
                        queue.handle_outcome(now, entry, EntryOutcome::Settled);
                        settled += 1;
                    }
                    queue.handle_accepted(now, ReadyId(0));
                }
            }
            for _ in 0..open {
                queue.handle_idle(now, ReadyId(0));
            }
            while queue.poll(now).is_some() {}
        }
        let each = start.elapsed().as_nanos() as f64 / settled as f64;
        println!("{shards} shards: {settled} entries, {each:.0} ns each, {open} connections");
        assert!(settled > 1_000_000);
    }
}
