//! Whatever happens, nothing is forgotten: when the weather clears, the queue drains.

use crate::world::{self, Limits, SECOND, Weather, World, limits, policy};
use mail::MessageId;
use proptest::prelude::*;
use queue::{Pause, RetryPolicy};
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Push {
        shard: usize,
        domain: u64,
        count: u64,
        recipients: u32,
        due_s: u64,
        priority: u8,
        held: bool,
    },
    Wait {
        ms: u64,
    },
    Weather {
        opens: u32,
        lost: u32,
        throttled: u32,
        deferred: u32,
        untried: u32,
        resolve: u32,
    },
    Hold(u64),
    Release(u64),
    Remove(u64),
    RetryAll,
    Suspend {
        domain: u64,
        until_s: u32,
    },
    SuspendHop {
        hop: u64,
        until_s: u32,
    },
    Reload {
        hops: u64,
        by_recipient: bool,
        connections_max: u32,
        messages_per_second: f64,
    },
    Pause,
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    let push = (0..4usize, 0..6u64, 1..60u64, 1..30u32, 0..100u64, 0..10u8, any::<u8>());
    let weather = (0..1000u32, 0..300u32, 0..300u32, 0..1000u32, 0..300u32, 0..1000u32);
    prop_oneof![
        6 => push.prop_map(|(shard, domain, count, recipients, due_s, priority, held)| Step::Push {
            shard,
            domain,
            count,
            recipients,
            due_s: due_s.saturating_sub(70),
            priority,
            held: held > 240,
        }),
        6 => (0..40_000u64).prop_map(|ms| Step::Wait { ms }),
        2 => weather.prop_map(|(opens, lost, throttled, deferred, untried, resolve)| {
            Step::Weather { opens, lost, throttled, deferred, untried, resolve }
        }),
        1 => (0..300u64).prop_map(Step::Hold),
        1 => (0..300u64).prop_map(Step::Release),
        1 => (0..300u64).prop_map(Step::Remove),
        1 => Just(Step::RetryAll),
        1 => (0..6u64, 0..100u32)
            .prop_map(|(domain, until_s)| Step::Suspend { domain, until_s }),
        1 => (0..5u64, 0..100u32).prop_map(|(hop, until_s)| Step::SuspendHop { hop, until_s }),
        1 => (1..5u64, any::<bool>(), 0..20u32, prop_oneof![Just(0.0), 20.0..500.0f64])
            .prop_map(|(hops, by_recipient, connections_max, messages_per_second)| {
                Step::Reload { hops, by_recipient, connections_max, messages_per_second }
            }),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
    ]
}

/// What became of it all.
#[derive(Default)]
struct Books {
    pushed: usize,
    removed: usize,
}

fn push(world: &mut World, books: &mut Books, step: &Step) {
    let Step::Push { shard, domain, count, recipients, due_s, priority, held } = *step else {
        return;
    };
    let shard = shard % world.shards.len();
    let due = world.now + SECOND * due_s as u32;
    for _ in 0..count {
        let id = world.next_id;
        for recipient in 0..recipients {
            world.push(shard, domain + u64::from(recipient % 2), |new| {
                new.id = MessageId(id);
                new.recipient = recipient;
                new.due = due;
                new.priority = priority;
                new.held = held;
            });
            books.pushed += 1;
        }
        world.next_id = id + 1;
    }
}

fn operate(world: &mut World, books: &mut Books, step: &Step) {
    let now = world.now;
    for shard in &mut world.shards {
        let queue = &mut shard.queue;
        match step {
            Step::Hold(id) => {
                if let Some(entry) = world::find(queue, *id) {
                    queue.hold(entry, &format!("reason {}", id % 3).into());
                }
            }
            Step::Release(id) => {
                if let Some(entry) = world::find(queue, *id) {
                    queue.release(now, entry);
                }
            }
            Step::Remove(id) => {
                let entry = world::find(queue, *id);
                let entries = entry.map_or_else(Vec::new, |entry| queue.entries(now, entry));
                for detail in entries {
                    books.removed += usize::from(queue.remove(now, detail.entry).is_some());
                }
            }
            Step::RetryAll => {
                world::retry_all(queue, now);
            }
            Step::Suspend { domain, until_s } => {
                let key = world::scheduled_key(&format!("d{domain}.example"));
                let scheduled = queue.scheduled(&key, &world.weather.retry);
                let suspension = queue::Suspension {
                    is_operators: true,
                    what: "it".into(),
                    reason: "".into(),
                    until: now + SECOND * *until_s,
                };
                queue.suspend(now, scheduled, (*until_s > 0).then(|| suspension.into()));
            }
            Step::SuspendHop { hop, until_s } => {
                let key = world::ready_key(&format!("hop{hop}"));
                let suspension = queue::Suspension {
                    is_operators: true,
                    what: "it".into(),
                    reason: "".into(),
                    until: now + SECOND * *until_s,
                };
                if let Some(ready) = queue.ready_id(&key) {
                    queue.suspend_ready(now, ready, (*until_s > 0).then(|| suspension.into()));
                }
            }
            Step::Reload { .. } => queue.invalidate_resolutions(),
            Step::Pause => queue.set_paused(Some(Pause::Unsettled)),
            Step::Resume => queue.set_paused(None),
            Step::Push { .. } | Step::Wait { .. } | Step::Weather { .. } => {}
        }
    }
}

fn perform(world: &mut World, books: &mut Books, step: &Step) {
    match step {
        Step::Push { .. } => push(world, books, step),
        Step::Wait { ms } => world.run_for(Duration::from_millis(*ms)),
        Step::Weather { opens, lost, throttled, deferred, untried, resolve } => {
            world.weather.open_fails = *opens;
            world.weather.lost = *lost;
            world.weather.throttled = *throttled;
            world.weather.deferred = *deferred;
            world.weather.untried = *untried;
            world.weather.resolve_fails = *resolve;
        }
        Step::Reload { hops, by_recipient, connections_max, messages_per_second } => {
            world.weather.hops = *hops;
            world.weather.by_recipient = *by_recipient;
            world.weather.limits.connections_max = *connections_max;
            world.weather.limits.messages_per_second = *messages_per_second;
            operate(world, books, step);
        }
        _ => operate(world, books, step),
    }
}

fn heal(world: &mut World, books: &mut Books) {
    let clear = Weather::fair();
    world.weather = Weather {
        limits: world.weather.limits.clone(),
        hops: world.weather.hops,
        by_recipient: world.weather.by_recipient,
        retry: world.weather.retry.clone(),
        ..clear
    };
    operate(world, books, &Step::Resume);
    for id in 0..world.next_id {
        operate(world, books, &Step::Release(id));
    }
}

fn check_books(world: &World, books: &Books) {
    let of = |f: fn(&world::Shard) -> usize| -> usize { world.shards.iter().map(f).sum() };
    let gone = world.settled()
        + of(|s| s.expired.len())
        + of(|s| s.failed)
        + of(|s| s.removed)
        + books.removed;
    assert_eq!(gone + world.queued(), books.pushed, "every entry is queued or accounted for");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_queue_drains_when_the_weather_clears(
        shards in 1..4u16,
        seed in any::<u64>(),
        adaptive in any::<bool>(),
        short_lived in any::<bool>(),
        by_recipient in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let retry = RetryPolicy {
            first: SECOND * 5,
            longest: SECOND * 300,
            give_up_after: if short_lived { SECOND * 60 } else { policy().give_up_after },
            warn_after: Some(SECOND * 20),
            ..policy()
        };
        let limits = Limits { adaptive, recipients_per_message: 7, ..limits() };
        let mut world = World::new(shards, seed, Weather { retry, limits, by_recipient, ..Weather::fair() });
        let mut books = Books::default();
        for step in &steps {
            perform(&mut world, &mut books, step);
            world.settle();
            world.check_blockers();
            check_books(&world, &books);
        }
        heal(&mut world, &mut books);
        // The longest retry, the longest back-off, 60 s of stale answers, and the work itself.
        world.run_for(SECOND * 1200);
        prop_assert_eq!(world.queued(), 0);
        check_books(&world, &books);
        world.run_for(SECOND * 1800);
        for shard in &world.shards {
            let counts = shard.queue.counts();
            prop_assert_eq!((counts.scheduled_queues, counts.ready_queues), (0, 0));
        }
    }
}
