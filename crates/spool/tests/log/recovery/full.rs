//! Starts on a disk without a free byte.

use crate::setup::{accept, attempt, open, run, settle, small, submit};
use spool::memdisk::MemDisk;
use spool::{Disk, SettleKind, Spool, SpoolConfig};

fn tight() -> SpoolConfig {
    SpoolConfig {
        reserve_bytes: 80 << 10,
        index_every_bytes: 16 << 10,
        compact_step_bytes: 16 << 10,
        ..small()
    }
}

/// Full of mail, then without a free byte; how many messages.
fn full() -> (MemDisk, Spool, u64) {
    const BYTES: u64 = 600 << 10;
    let disk = MemDisk::new(5, BYTES);
    let (mut spool, _, _) = open(&disk, tight()).expect("opens");
    let mut count = 0;
    while submit(&mut spool, &disk, vec![accept(count + 1, 2_500)]) {
        count += 1;
    }
    disk.set_capacity_bytes(BYTES - disk.free_bytes().expect("a number"));
    (disk, spool, count)
}

#[test]
fn a_full_disk_can_be_started_upon_again_and_again() {
    for power_loss in [false, true] {
        let (disk, mut spool, count) = full();
        for life in 0..12 {
            // A retry may find no room any more; nothing depends on it.
            let _ = submit(&mut spool, &disk, vec![attempt(1 + life % count, 1 + life as u16)]);
            if power_loss {
                disk.crash()
            } else {
                disk.kill()
            }
            let config = SpoolConfig { salt: life, ..tight() };
            let (again, report, found) =
                open(&disk, config).unwrap_or_else(|error| panic!("start {life}: {error}"));
            assert_eq!((found.len() as u64, report.damaged_count), (count, 0), "start {life}");
            spool = again;
            run(&mut spool, &disk);
        }
        let verified = spool::verify(&disk).expect("verifies");
        assert_eq!((verified.damaged_count, verified.live_count), (0, count));
        for sequence in 1..=count {
            let _ = submit(&mut spool, &disk, vec![settle(sequence, SettleKind::Relayed)]);
        }
        run(&mut spool, &disk);
        assert_eq!((spool.status().pending_count, spool.status().live_count), (0, 0));
    }
}

#[test]
fn a_segment_that_is_sealed_early_is_cut_behind_its_footer() {
    let disk = MemDisk::new(5, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    assert!(submit(&mut spool, &disk, vec![accept(1, 300)]));
    let used = |disk: &MemDisk| {
        let mut names = disk.list().expect("lists");
        names.retain(|name| name.ends_with(".segment"));
        names.sort();
        disk.length(&names[0]).expect("there")
    };
    assert_eq!(used(&disk), 64 << 10);
    for _ in 0..3 {
        disk.crash();
        let (_, report, found) = open(&disk, small()).expect("opens");
        assert_eq!((report.damaged_count, found.len()), (0, 1));
        // Header, batch, index and footer.
        assert_eq!(used(&disk), 4 * 512);
    }
}
