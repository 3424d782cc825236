//! The spool against a model, on a disk that loses, tears, fails and fills up.

mod history;
mod world;

use history::event;
use proptest::prelude::*;
use spool::memdisk::Faults;
use spool::{Disk, Durability, SpoolConfig};
use world::{World, tiny};

fn run(config: SpoolConfig, capacity: u64, seed: u64, faults: Faults, events: &[(u8, u16)]) {
    let mut world = World::new(config, capacity, seed);
    for &(what, argument) in events {
        world.disk.set_faults(faults);
        event(&mut world, what, argument);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_acknowledged_is_lost_in_crashes(seed: u64, events in events()) {
        run(tiny(), 1 << 30, seed, Faults::default(), &events);
    }

    #[test]
    fn nothing_acknowledged_is_lost_on_a_failing_disk(seed: u64, events in events()) {
        let faults = Faults { sync_permille: 10, write_permille: 5, short_read_permille: 200, ..Faults::default() };
        run(tiny(), 1 << 30, seed, faults, &events);
    }

    #[test]
    fn a_full_disk_drains(seed: u64, events in events()) {
        run(tiny(), 160 << 10, seed, Faults::default(), &events);
    }

    #[test]
    fn larger_blocks_and_segments(seed: u64, events in events()) {
        let config = SpoolConfig { block_bytes: 4096, segment_bytes: 96 << 10, first_segment_bytes: 64 << 10, ..tiny() };
        run(config, 1 << 30, seed, Faults::default(), &events);
    }
}

#[test]
fn unsynced_logs_survive_the_death_of_the_process() {
    let config = SpoolConfig { durability: Durability::Os, ..tiny() };
    let mut world = World::new(config, 1 << 30, 1);
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
