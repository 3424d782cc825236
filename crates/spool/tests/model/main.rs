//! The spool against a model, on a disk that loses, tears, fails and fills up.

mod history;
mod world;

use history::event;
use proptest::prelude::*;
use spool::memdisk::Faults;
use spool::{Durability, SpoolConfig};
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
