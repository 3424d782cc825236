//! Tenants: their rates, and their part of what they share with others.

use crate::world::{SECOND, Weather, World, all_entries};
use mail::Mono;
use queue::{Blocker, NamedLimit, TenantTerms};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 4;

fn terms(rates: &[f64], queued: &Arc<AtomicU64>) -> TenantTerms {
    let rate = |(n, per_second): (usize, &f64)| NamedLimit {
        name: format!("tenant a at {n}").into(),
        connections_max: 0,
        messages_per_second: *per_second,
    };
    let rates = rates.iter().enumerate().map(rate).collect();
    TenantTerms { weight: 1, rates, queued: Arc::clone(queued) }
}

/// Messages of a tenant, on all shards, to many next hops.
fn fill(world: &mut World, tenant: &str, count: u64, terms: &TenantTerms) {
    for n in 0..count {
        let shard = n as usize % SHARDS;
        world.push_of(tenant, shard, n % 7, |_| {});
        let now = world.now;
        world.shards[shard].queue.set_tenant(now, &Arc::from(tenant), terms.clone());
    }
}

fn set(world: &mut World, terms: &TenantTerms) {
    let now = world.now;
    for shard in &mut world.shards {
        shard.queue.set_tenant(now, &Arc::from("a"), terms.clone());
    }
}

fn taken(world: &World, tenant: &str) -> Vec<Mono> {
    let mut taken = world.taken_of.get(tenant).cloned().unwrap_or_default();
    taken.sort_unstable();
    taken
}

/// Asserts that no more went in any time than a rate with its burst lets go.
fn assert_within(taken: &[Mono], per_second: f64) {
    let burst = (per_second / 4.0).max(1.0);
    for (first, from) in taken.iter().enumerate() {
        for (last, to) in taken.iter().enumerate().skip(first) {
            let may = burst + per_second * to.since(*from).as_secs_f64() + 1.0;
            assert!((last - first + 1) as f64 <= may, "{} from {from:?} to {to:?}", last - first);
        }
    }
}

#[test]
fn a_rate_holds_over_all_shards_and_next_hops_and_is_used() {
    for seed in 0..8 {
        let mut world = World::new(SHARDS as u16, seed, Weather { hops: 3, ..Weather::fair() });
        let queued = Arc::new(AtomicU64::new(0));
        let terms = terms(&[20.0, 1_000.0], &queued);
        fill(&mut world, "a", 400, &terms);
        fill(&mut world, "b", 400, &TenantTerms::default());
        assert_eq!(queued.load(Ordering::Relaxed), 400);
        world.run_for(SECOND * 10);
        assert_eq!(taken(&world, "b").len(), 400, "nobody else waits");
        let of_a = taken(&world, "a");
        assert!((190..=206).contains(&of_a.len()), "seed {seed}: {}", of_a.len());
        assert_within(&of_a, 20.0);
        world.run_for(SECOND * 15);
        assert_eq!(taken(&world, "a").len(), 400, "seed {seed}");
        assert_eq!(queued.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn what_waits_names_the_rate_and_a_reload_lets_it_go() {
    let mut world = World::new(SHARDS as u16, 1, Weather { hops: 3, ..Weather::fair() });
    let queued = Arc::new(AtomicU64::new(0));
    fill(&mut world, "a", 100, &terms(&[1.0 / 60.0], &queued));
    world.run_for(SECOND * 30);
    assert_eq!(taken(&world, "a").len(), 1);
    let now = world.now;
    let queue = &world.shards[2].queue;
    for entry in all_entries(queue, now) {
        let Some(Blocker::Rate { next_hop, until, .. }) = queue.why(now, entry) else {
            panic!("{:?}", queue.why(now, entry))
        };
        assert_eq!(&*next_hop, "tenant a at 0");
        assert!(until > now);
    }
    // Nothing happens until a token comes.
    let next = world.shards.iter().map(|shard| shard.queue.next_timeout()).min().expect("four");
    assert!(next.since(now) > Duration::from_millis(500), "{:?}", next.since(now));
    set(&mut world, &terms(&[40.0], &queued));
    world.run_for(SECOND);
    let some = taken(&world, "a").len();
    assert!((30..60).contains(&some), "{some}");
    set(&mut world, &terms(&[], &queued));
    world.run_for(SECOND);
    assert_eq!(taken(&world, "a").len(), 100);
}

#[test]
fn tokens_go_to_whom_can_use_them() {
    // Connections of one hop fail for ever: what it was let do, others do.
    for seed in 0..8 {
        let weather = Weather { hops: 40, open_fails: 500, ..Weather::fair() };
        let mut world = World::new(SHARDS as u16, seed, weather);
        let queued = Arc::new(AtomicU64::new(0));
        let terms = terms(&[10.0], &queued);
        for n in 0..400 {
            let shard = n as usize % SHARDS;
            world.push_of("a", shard, n % 40, |_| {});
            let now = world.now;
            world.shards[shard].queue.set_tenant(now, &Arc::from("a"), terms.clone());
        }
        world.run_for(SECOND * 20);
        let of_a = taken(&world, "a");
        assert!(of_a.len() > 120, "seed {seed}: {}", of_a.len());
        assert_within(&of_a, 10.0);
    }
}

#[test]
fn a_tenant_without_mail_is_forgotten() {
    let mut world = World::new(SHARDS as u16, 1, Weather::fair());
    let queued = Arc::new(AtomicU64::new(0));
    fill(&mut world, "a", 40, &terms(&[100.0], &queued));
    world.run_for(SECOND * 5);
    assert_eq!(taken(&world, "a").len(), 40);
    world.run_for(SECOND * 2_000);
    for shard in &world.shards {
        assert_eq!(shard.queue.tenants().count(), 0);
    }
}
