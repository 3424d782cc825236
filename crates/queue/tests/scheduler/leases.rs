//! Several shards share the limits of their next hops, with messages between them that are late.

use crate::world::{self, Limits, MS, SECOND, Weather, World, hosts_of, limits, ready_key};
use mail::{Mono, Random};
use proptest::prelude::*;
use queue::ReadyKey;
use std::time::Duration;

fn with_limits(limits: Limits) -> Weather {
    Weather { limits, ..Weather::fair() }
}

#[test]
fn without_limits_nothing_is_said() {
    let mut world = World::new(4, 1, with_limits(Limits { connections_max: 0, ..limits() }));
    for n in 0..1000 {
        world.push(n % 4, 0, |_| {});
    }
    world.run_for(SECOND * 60);
    assert_eq!((world.settled(), world.lease_messages), (1000, 0));
}

#[test]
fn borrowing_is_quick_and_in_batches() {
    let mut world = World::new(2, 1, with_limits(limits()));
    let start = world.now;
    for n in 0..20_000u64 {
        world.push((n % 2) as usize, 0, |_| {});
        if n % 20 == 19 {
            world.run_for(MS);
        }
    }
    world.run_for(SECOND * 3);
    assert_eq!(world.settled(), 20_000);
    assert!(world.peak[&ready_key("hop0")] <= 50);
    assert!(world.lease_messages < 100, "{} lease messages", world.lease_messages);
    for shard in &world.shards {
        let first = shard.settled.iter().map(|(at, _)| *at).min().expect("some");
        assert!(first.since(start) < MS * 15, "first after {:?}", first.since(start));
    }
}

#[test]
fn tokens_of_a_plentiful_rate_are_not_asked_for_one_by_one() {
    let limits = Limits { messages_per_second: 100_000.0, ..limits() };
    let mut world = World::new(2, 1, with_limits(limits));
    for n in 0..4000 {
        world.push(n % 2, 0, |_| {});
        world.run_for(MS * 2);
    }
    world.run_for(SECOND * 3);
    assert_eq!(world.settled(), 4000);
    assert!(world.lease_messages < 200, "{} lease messages", world.lease_messages);
}

#[test]
fn a_shard_that_comes_late_gets_its_part() {
    let mut world = World::new(2, 1, with_limits(limits()));
    for greedy in [0, 1] {
        for _ in 0..100_000 {
            world.push(greedy, 0, |_| {});
        }
        world.run_for(SECOND);
        let before = [world.shards[0].settled.len(), world.shards[1].settled.len()];
        let other = 1 - greedy;
        for _ in 0..100_000 {
            world.push(other, 0, |_| {});
        }
        world.run_for(MS * 30);
        assert!(world.shards[other].settled.len() > before[other], "waits too long");
        world.run_for(SECOND * 2);
        let done = [0, 1].map(|n| (world.shards[n].settled.len() - before[n]) as f64);
        assert!((0.8..1.25).contains(&(done[0] / done[1])), "not shared equally: {done:?}");
        world.run_for(SECOND * 60);
        assert_eq!(world.queued(), 0);
    }
    assert!(world.peak[&ready_key("hop0")] <= 50);
}

#[test]
fn a_single_connection_goes_round() {
    let mut world = World::new(4, 1, with_limits(Limits { connections_max: 1, ..limits() }));
    for n in 0..20_000 {
        world.push(n % 4, 0, |_| {});
    }
    world.run_for(SECOND * 40);
    assert_eq!(world.peak[&ready_key("hop0")], 1);
    let done: Vec<usize> = world.shards.iter().map(|s| s.settled.len()).collect();
    let (least, most) = (done.iter().min().expect("4"), done.iter().max().expect("4"));
    assert!(*least > 0 && least * 2 > *most, "{done:?}");
}

#[test]
fn scarce_rate_tokens_go_round() {
    let slow = Limits { messages_per_second: 2.0, ..limits() };
    let mut world = World::new(3, 1, with_limits(slow));
    let start = world.now;
    for n in 0..300 {
        world.push(n % 3, 0, |_| {});
    }
    world.run_for(SECOND * 60);
    let taken = &world.taken[&ready_key("hop0")];
    assert!((115..=122).contains(&taken.len()), "{} taken in 60 s", taken.len());
    for (n, at) in taken.iter().enumerate() {
        assert!(n as f64 <= 1.0 + 2.0 * at.since(start).as_secs_f64());
    }
    for shard in &world.shards {
        assert!((36..=44).contains(&shard.settled.len()), "{}", shard.settled.len());
    }
}

#[test]
fn what_was_lent_comes_home() {
    let rated = Limits { messages_per_second: 500.0, ..limits() };
    let mut world = World::new(3, 1, Weather { hops: 5, ..with_limits(rated) });
    for n in 0..3000 {
        world.push((n % 3) as usize, n, |_| {});
    }
    world.run_for(SECOND * 60);
    assert_eq!(world.queued(), 0);
    let messages = world.lease_messages;
    world.run_for(SECOND * 3000);
    assert_eq!(world.lease_messages, messages, "talk without need");
    for shard in &world.shards {
        // Ready queues are dropped only when nothing is lent, wanted or held.
        assert_eq!(shard.queue.counts().ready_queues, 0);
        assert_eq!(shard.queue.next_timeout(), Mono::NEVER);
    }
}

#[test]
fn a_lower_limit_is_reached_soon_after_a_reload() {
    let mut world = World::new(3, 1, with_limits(limits()));
    for n in 0..60_000 {
        world.push(n % 3, 0, |_| {});
    }
    world.run_for(SECOND);
    assert!(world.connections() > 40);
    for (connections_max, least) in [(10, 5), (30, 20), (2, 1)] {
        world.weather.limits.connections_max = connections_max;
        for shard in &mut world.shards {
            shard.queue.invalidate_resolutions();
        }
        world.run_for(SECOND);
        world.peak.clear();
        world.run_for(SECOND);
        let peak = world.peak[&ready_key("hop0")];
        assert!((least..=connections_max as usize).contains(&peak), "{peak} connections");
    }
    let left = world.queued();
    world.run_for(SECOND * 10);
    assert!(world.queued() < left);
}

#[derive(Clone, Debug)]
enum Step {
    Push { shard: usize, domain: u64, count: u64, at_once: bool },
    Wait { ms: u64 },
    Fail { opens: u32, lost: u32, throttled: u32 },
    Retry,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8usize, 0..6u64, 1..200u64, any::<bool>())
            .prop_map(|(shard, domain, count, at_once)| Step::Push { shard, domain, count, at_once }),
        3 => (0..3000u64).prop_map(|ms| Step::Wait { ms }),
        1 => (0..500u32, 0..100u32, 0..100u32)
            .prop_map(|(opens, lost, throttled)| Step::Fail { opens, lost, throttled }),
        1 => Just(Step::Retry),
    ]
}

prop_compose! {
    fn any_limits()(
        connections_max in prop_oneof![Just(0u32), 1..5u32, 1..60u32],
        opens_max in 0..5u32,
        messages_per_connection in prop_oneof![Just(0u32), 1..20u32],
        messages_per_second in prop_oneof![Just(0.0), 5.0..50.0f64, 50.0..5000.0f64],
        adaptive in any::<bool>(),
    ) -> Limits {
        Limits {
            connections_max,
            opens_max,
            messages_per_connection,
            messages_per_second,
            recipients_per_message: 10,
            adaptive,
        }
    }
}

/// When transactions were taken that some limit counts together.
fn taken_by(world: &World, counts: impl Fn(&ReadyKey) -> bool) -> Vec<Mono> {
    let taken = world.taken.iter().filter(|(key, _)| counts(key));
    let mut taken: Vec<Mono> = taken.flat_map(|(_, at)| at).copied().collect();
    taken.sort();
    taken
}

fn check_rate(taken: &[Mono], start: Mono, limits: &Limits) {
    if limits.messages_per_second <= 0.0 {
        return;
    }
    let burst = (limits.messages_per_second / 4.0).max(1.0);
    for (n, at) in taken.iter().enumerate() {
        let allowed = burst + limits.messages_per_second * at.since(start).as_secs_f64();
        assert!(n as f64 <= allowed + 1e-3, "message {n} taken too early");
    }
}

/// Most connections that were open at once to any of these hops.
fn peak(world: &World, hops: &[&str]) -> usize {
    hops.iter().filter_map(|hop| world.peak.get(&ready_key(hop))).copied().max().unwrap_or(0)
}

#[test]
fn ready_queues_with_the_same_hosts_in_another_order_share_connections() {
    for shards in [1, 3] {
        let weather =
            Weather { orders: 3, ..with_limits(Limits { connections_max: 6, ..limits() }) };
        let mut world = World::new(shards, 1, weather);
        for n in 0..9_000 {
            world.push((n % u64::from(shards)) as usize, n % 3, |_| {});
        }
        for _ in 0..2_000 {
            world.run_for(MS);
            assert!(world.connections() <= 6, "{} connections", world.connections());
        }
        // All orders had their part.
        for hop in ["hop0", "hop0>1", "hop0>2"] {
            assert!(world.taken[&ready_key(hop)].len() > 300, "{hop} with {shards} shards");
        }
        world.run_for(SECOND * 60);
        assert_eq!(world.settled(), 9_000);
    }
}

#[test]
fn the_last_slot_goes_round_among_ready_queues() {
    for shards in [1, 2] {
        let weather =
            Weather { orders: 4, ..with_limits(Limits { connections_max: 1, ..limits() }) };
        let mut world = World::new(shards, 1, weather);
        for n in 0..40_000 {
            world.push((n % u64::from(shards)) as usize, n % 4, |_| {});
        }
        for _ in 0..60_000 {
            world.run_for(MS);
            assert!(world.connections() <= 1);
        }
        for order in 1..4 {
            assert!(world.taken[&ready_key(&format!("hop0>{order}"))].len() > 1000);
        }
    }
}

#[test]
fn a_ready_queue_obeys_all_its_limits_and_nobody_waits_for_ever() {
    let provider = Limits { connections_max: 3, messages_per_second: 50.0, ..limits() };
    let hops = Limits { connections_max: 2, ..limits() };
    let weather = Weather { hops: 4, provider: Some(provider), ..with_limits(hops) };
    let mut world = World::new(3, 1, weather);
    let start = world.now;
    for n in 0..1_200 {
        world.push((n % 3) as usize, n % 4, |_| {});
    }
    for _ in 0..5_000 {
        world.run_for(MS);
        assert!(world.connections() <= 3, "{} connections", world.connections());
    }
    assert!(peak(&world, &["hop0", "hop1", "hop2", "hop3"]) <= 2);
    for hop in 0..4 {
        let taken = world.taken[&ready_key(&format!("hop{hop}"))].len();
        assert!(taken > 20, "hop{hop} had {taken} of some 250 turns");
    }
    let taken: usize = world.taken.values().map(Vec::len).sum();
    assert!(taken as f64 <= 13.0 + 50.0 * world.now.since(start).as_secs_f64(), "{taken}");
    world.run_for(SECOND * 60);
    assert_eq!(world.settled(), 1_200);
}

#[test]
fn a_limit_that_is_named_no_more_gets_all_of_its_own_back() {
    let provider = Limits { connections_max: 3, ..limits() };
    let weather = Weather { hops: 2, provider: Some(provider), ..with_limits(limits()) };
    let mut world = World::new(2, 1, weather);
    for n in 0..20_000 {
        world.push((n % 2) as usize, n / 2 % 2, |_| {});
    }
    world.run_for(SECOND);
    assert!(world.connections() <= 3);
    world.weather.provider = None;
    for shard in &mut world.shards {
        shard.queue.invalidate_resolutions();
    }
    world.run_for(SECOND);
    assert!(world.connections() > 30, "{} connections", world.connections());
    world.run_for(SECOND * 60);
    assert_eq!(world.settled(), 20_000);
    world.run_for(SECOND * 1500);
    for shard in &world.shards {
        assert_eq!(shard.queue.counts().ready_queues, 0, "something was not given back");
    }
    assert!(world.shards.iter().all(|shard| shard.forgotten == 2));
}

#[test]
fn a_limit_that_is_set_without_a_question_holds_at_once_on_all_shards_and_ends_so() {
    let mut world = World::new(3, 1, Weather { hops: 2, ..with_limits(limits()) });
    for n in 0..60_000 {
        world.push((n % 3) as usize, n / 3 % 2, |_| {});
    }
    world.run_for(MS * 200);
    assert!(world.connections() > 30, "{} connections", world.connections());
    let set = |world: &mut World, extra: Option<Limits>| {
        let (now, usual) = (world.now, limits());
        for shard in &mut world.shards {
            let ready = shard.queue.ready_queues().map(|ready| (ready.id, ready.key.clone()));
            for (id, key) in ready.collect::<Vec<_>>() {
                let own = usual.shared(hosts_of(&key));
                let extra = extra.as_ref().map(|extra| extra.shared("a provider by a rule"));
                let shared: Vec<_> = [own].into_iter().chain(extra).collect();
                shard.queue.set_limits(now, id, &usual.own(), &shared);
            }
        }
    };
    let slow = Limits { connections_max: 2, messages_per_second: 20.0, ..limits() };
    set(&mut world, Some(slow));
    world.run_for(SECOND);
    let before = world.settled();
    for _ in 0..5_000 {
        world.run_for(MS);
        assert!(world.connections() <= 2, "{} connections", world.connections());
    }
    let settled = world.settled() - before;
    assert!((80..=120).contains(&settled), "{settled} in 5 s, {} left", world.queued());
    set(&mut world, None);
    world.run_for(MS * 200);
    assert!(world.connections() > 30, "{} connections", world.connections());
    world.run_for(SECOND * 120);
    assert_eq!(world.settled(), 60_000);
}

/// A few messages on four shards, in their own time: whether all have gone within a minute.
fn all_go(seed: u64, weather: Weather) -> bool {
    let orders = weather.orders;
    let mut world = World::new(4, seed, weather);
    let mut random = Random::new(seed);
    for _ in 0..30 {
        let (shard, order) = (random.below(4) as usize, random.below(orders));
        world.push(shard, order, |_| {});
        if random.below(2) == 0 {
            world.run_for(MS * random.below(300) as u32);
        }
    }
    world.run_for(SECOND * 60);
    world.settled() == 30
}

#[test]
fn two_scarce_limits_do_not_miss_each_other_for_ever() {
    for seed in 0..20 {
        for (hosts, orders) in [(3, 2), (3, 4), (4, 3), (4, 4), (5, 3), (5, 4)] {
            for lease_us in [0, 500] {
                let provider = Some(Limits { connections_max: 1, ..limits() });
                let hosts = with_limits(Limits { connections_max: hosts, ..limits() });
                let weather = Weather { orders, lease_us, provider, ..hosts };
                assert!(all_go(seed, weather), "seed {seed}, {orders} orders, {lease_us} us");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_hold_over_all_shards_and_all_mail_goes(
        shards in 1..6u16,
        seed in any::<u64>(),
        limits in any_limits(),
        lease_us in prop_oneof![Just(0u64), 0..2000u64, 0..300_000u64],
        provider in prop_oneof![Just(None), any_limits().prop_map(Some)],
        orders in 1..4u64,
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let many = with_limits(limits.clone());
        let weather = Weather { lease_us, hops: 2, orders, provider: provider.clone(), ..many };
        let mut world = World::new(shards, seed, weather);
        let start = world.now;
        let mut pushed = 0;
        for step in steps {
            match step {
                Step::Push { shard, domain, count, at_once } => {
                    for _ in 0..count {
                        world.push(shard % usize::from(shards), domain, |_| {});
                        if !at_once {
                            world.run_for(MS);
                        }
                    }
                    pushed += count as usize;
                }
                Step::Wait { ms } => world.run_for(Duration::from_millis(ms)),
                Step::Fail { opens, lost, throttled } => {
                    world.weather.open_fails = opens;
                    world.weather.lost = lost;
                    world.weather.throttled = throttled;
                }
                Step::Retry => {
                    let now = world.now;
                    for shard in &mut world.shards {
                        world::retry_all(&mut shard.queue, now);
                    }
                }
            }
            world.check_blockers();
        }
        (world.weather.open_fails, world.weather.lost, world.weather.throttled) = (0, 0, 0);
        world.run_for(SECOND * 1500);
        prop_assert_eq!((world.queued(), world.settled()), (0, pushed));
        for (hosts, peak) in &world.peak_shared {
            let limits = if hosts.is_empty() { provider.as_ref() } else { Some(&limits) };
            let max = limits.map_or(0, |limits| limits.connections_max as usize);
            prop_assert!(max == 0 || *peak <= max, "{} connections to {:?}", peak, hosts);
        }
        for hosts in ["hop0", "hop1"] {
            check_rate(&taken_by(&world, |key| hosts_of(key) == hosts), start, &limits);
        }
        if let Some(provider) = &provider {
            check_rate(&taken_by(&world, |_| true), start, provider);
        }
        world.run_for(SECOND * 1500);
        for shard in &world.shards {
            prop_assert_eq!(shard.queue.counts().ready_queues, 0, "something was not given back");
        }
    }
}
