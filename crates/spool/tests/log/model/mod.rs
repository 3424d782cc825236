//! The spool against a model, on a disk that loses, tears, fails and fills up.

mod history;
mod world;

use history::event;
use proptest::prelude::*;
use spool::memdisk::Faults;
use spool::{Disk, DiskErrorKind, Durability, SpoolConfig};
use world::{World, tiny};

fn run(config: SpoolConfig, capacity: u64, seed: u64, faults: Faults, events: &[(u8, u16)]) {
    let mut world = World::new(config, capacity, seed);
    for &(what, argument) in events {
        world.disk.set_faults(faults);
        event(&mut world, what, argument);
    }
    if faults.sync_permille + faults.write_permille == 0 && !world.disk.has_crashed() {
        // Whatever there was no room for, nothing is left without an answer or given up.
        world.disk.set_fuse(u64::MAX);
        world.drain();
        assert_eq!(world.unanswered_count(), 0);
    }
    world.restart(true);
    // In the end everything is delivered, and nothing is left but the active segment.
    world.disk.set_capacity_bytes(1 << 30);
    world.settle_all();
    world.drain();
    let status = world.spool.status();
    assert_eq!((status.live_count, status.pending_count, status.blobs_count), (0, 0, 0));
    assert!(status.segments_count <= 2, "{status:?}");
    world.restart(true);
    assert_eq!(world.spool.status().live_count, 0);
}

fn events() -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((any::<u8>(), any::<u16>()), 1..160)
}

/// Histories of each test; `HISTORIES` in the environment makes them more.
fn cases() -> u32 {
    std::env::var("HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(256)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_acknowledged_is_lost_in_crashes(seed: u64, events in events()) {
        run(tiny(), 1 << 30, seed, Faults::default(), &events);
    }

    #[test]
    fn nothing_acknowledged_is_lost_on_a_failing_disk(seed: u64, events in events()) {
        let faults = Faults { sync_permille: 10, write_permille: 5, read_permille: 20, short_read_permille: 200, ..Faults::default() };
        run(tiny(), 1 << 30, seed, faults, &events);
    }

    #[test]
    fn a_full_disk_drains(seed: u64, events in events()) {
        run(tiny(), 160 << 10, seed, Faults::default(), &events);
    }

    #[test]
    fn want_of_room_and_descriptors_passes(seed: u64, events in events()) {
        let faults = Faults { full_permille: 20, scarce_permille: 20, ..Faults::default() };
        run(tiny(), 1 << 30, seed, faults, &events);
    }

    #[test]
    fn larger_blocks_and_segments(seed: u64, events in events()) {
        let config = SpoolConfig { block_bytes: 4096, segment_bytes: 96 << 10, first_segment_bytes: 64 << 10, ..tiny() };
        run(config, 1 << 30, seed, Faults::default(), &events);
    }
}

/// A short life of a log in which everything happens, without restarts.
fn script(world: &mut World) {
    for round in 0..6_u16 {
        for what in [0, 7, 6, 15, 8, 13, 12, 19, 14, 9, 18] {
            event(world, what, 311 * (round + 1) + 37 * u16::from(what));
        }
    }
    world.pump(60);
}

fn scripted() -> World {
    let mut world = World::new(tiny(), 1 << 30, 3);
    world.failing_starts_max = 0;
    world
}

const FAILURES: [(DiskErrorKind, bool); 4] = [
    (DiskErrorKind::Failed, false),
    (DiskErrorKind::Failed, true),
    (DiskErrorKind::Full, false),
    (DiskErrorKind::Full, true),
];

#[test]
fn any_operation_may_fail_once_or_from_then_on() {
    for (kind, forever) in FAILURES {
        for at in 0.. {
            let mut world = scripted();
            world.disk.set_failure(at, kind, forever);
            script(&mut world);
            let is_over = !forever && world.disk.clear_failure();
            world.restart(at % 2 == 0);
            if is_over || at > 400 {
                assert!(at > 150, "{at} operations");
                break;
            }
        }
    }
}

#[test]
fn any_operation_of_a_start_may_fail_once_or_from_then_on() {
    for (kind, forever) in FAILURES {
        for at in 0..120 {
            let mut world = scripted();
            script(&mut world);
            if !world.restart_failing_at(at, kind, forever, at % 2 == 0) {
                assert!(at > 20, "{at} operations");
                break;
            }
        }
    }
}

/// What made recovery remove a body that was still needed: the settle of a message with a blob is
/// written and not synced, and recovery dies before it syncs it.
#[cfg(feature = "planted")]
#[test]
fn a_recovery_that_removes_blobs_first_is_found() {
    let life = |seed: u64, plant: bool| {
        let config = SpoolConfig { removes_orphans_first: plant, ..tiny() };
        let mut world = World::new(config, 1 << 30, seed);
        for round in 0..6 {
            (0..2).for_each(|_| world.accept_blob(1, 900));
            world.drain();
            world.settle(false);
            let fuse = world.below(12) as u64;
            world.disk.set_fuse(fuse);
            world.pump(12);
            world.restart(round % 2 == 0);
        }
    };
    let finds = |plant| {
        let is_found = |seed| std::panic::catch_unwind(|| life(seed, plant)).is_err();
        (0..200).filter(|&seed| is_found(seed)).count()
    };
    assert_eq!(finds(false), 0);
    assert!(finds(true) > 0);
}

#[test]
fn unsynced_logs_survive_the_death_of_the_process() {
    let config = SpoolConfig { durability: Durability::Os, ..tiny() };
    let mut world = World::new(config, 1 << 30, 1);
    // A start that fails may end with the machine.
    world.failing_starts_max = 0;
    for round in 0..5 {
        for n in 0..60 {
            world.accept(1, n * 10);
            world.pump(3);
        }
        world.settle(false);
        world.pump(round);
        assert_eq!(world.disk.syncs_count(), 0);
        world.restart(false);
    }
    assert!(world.durable_count > 200);
}

/// A log that refuses mail, on a disk without a free byte.
fn full(recipients: u32, bytes: usize) -> World {
    const CAPACITY_BYTES: u64 = 600 << 10;
    let config = SpoolConfig {
        segment_bytes: 64 << 10,
        first_segment_bytes: 64 << 10,
        batch_bytes_max: 16 << 10,
        index_every_bytes: 16 << 10,
        compact_step_bytes: 16 << 10,
        reserve_bytes: 80 << 10,
        ..tiny()
    };
    let mut world = World::new(config, CAPACITY_BYTES, 5);
    while world.full_count == 0 {
        (0..8).for_each(|_| world.accept(recipients, bytes));
        world.drain();
    }
    let free = world.disk.free_bytes().expect("a number");
    world.disk.set_capacity_bytes(CAPACITY_BYTES - free);
    assert_eq!(world.disk.free_bytes().expect("a number"), 0);
    world
}

#[test]
fn mail_that_bounces_leaves_a_full_disk() {
    let mut world = full(1, 2_500);
    let queued = world.open_count();
    assert!(queued > 100, "{queued}");
    // Reports take the place of what they are about, and leave.
    for _ in 0..queued {
        world.bounce(8, 2_000);
        world.drain();
        world.deliver_reports();
        world.drain();
    }
    assert_eq!((world.open_count(), world.spool.status().live_count), (0, 0));
    world.restart(true);
    assert_eq!(world.spool.status().live_count, 0);
}

#[test]
fn reports_leave_room_for_settles() {
    let mut world = full(2, 2_500);
    // Neither they nor what they are about leave: there must come an end.
    let refused = world.full_count;
    let queued = world.open_count();
    world.bounce(4, 2_000);
    world.drain();
    assert_eq!(world.full_count, refused, "the first ones find room");
    for _ in 0..queued {
        world.bounce(4, 2_000);
        world.drain();
    }
    assert!(world.full_count > refused, "some find none");
    world.accept(1, 10);
    world.drain();
    world.settle_all();
    world.drain();
    let status = world.spool.status();
    assert_eq!((status.live_count, status.pending_count), (0, 0), "{status:?}");
    world.restart(true);
    assert_eq!(world.spool.status().live_count, 0);
}
