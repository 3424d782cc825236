//! What recovery does to the disk, and when: nothing goes before what allows it is durable.

use crate::setup::{accept, accept_blob, blob, open, settle, small, submit};
use spool::memdisk::{Faults, MemDisk};
use spool::{Disk, Lane, Request, SettleKind, Spool, SpoolConfig, Ticket};

#[test]
fn a_blob_goes_only_when_the_settle_of_its_message_is_durable() {
    for seed in 0..400 {
        let disk = MemDisk::new(seed, 1 << 30);
        let (mut spool, _, _) = open(&disk, small()).expect("opens");
        let blob = blob(&mut spool, &disk);
        assert!(submit(&mut spool, &disk, vec![accept_blob(1, blob)]));
        // It bounces; the disk can't sync that, neither now nor when the process is restarted.
        disk.set_faults(Faults { sync_permille: 1_000, ..Faults::default() });
        let report = vec![settle(1, SettleKind::Failed), accept(2, 300)];
        assert!(!submit(&mut spool, &disk, report));
        disk.kill();
        assert!(open(&disk, small()).is_err());
        disk.set_faults(Faults::default());
        disk.crash();
        let (_, report, found) = open(&disk, small()).expect("opens");
        let damage = (report.damaged_count, report.damage);
        assert!(damage.0 == 0 && found.len() == 1, "seed {seed}: {found:?} {damage:?}");
    }
}

/// The next batch is written, and the process ends before it is synced.
fn write_without_sync(spool: &mut Spool, disk: &MemDisk) {
    let io = loop {
        let io = spool.poll_io().expect("a batch is due");
        if io.lane() == Lane::Log {
            break io;
        }
        let done = io.perform(disk);
        spool.handle_io_done(done);
    };
    disk.set_fuse(1);
    assert!(io.perform(disk).error().is_some());
}

#[test]
fn a_batch_that_was_cut_does_not_come_back() {
    let config = SpoolConfig { index_every_bytes: 2 << 10, ..small() };
    let mut torn_count = 0;
    for seed in 0..3_000 {
        let disk = MemDisk::new(seed, 1 << 30);
        let (mut spool, _, _) = open(&disk, config.clone()).expect("opens");
        let blob = blob(&mut spool, &disk);
        for sequence in 1..=4 {
            assert!(submit(&mut spool, &disk, vec![accept(sequence, 100)]));
        }
        // An index batch goes with this one: both in one write, which is torn.
        let records = vec![accept_blob(6, blob)];
        spool.handle_request(Request::Submit { ticket: Ticket(1), records });
        write_without_sync(&mut spool, &disk);
        disk.crash();
        if spool::verify(&disk).expect("verifies").torn_count == 0 {
            continue;
        }
        torn_count += 1;
        disk.set_fuse(seed % 80);
        let _ = open(&disk, config.clone());
        disk.kill();
        let (_, report, found) = open(&disk, config.clone()).expect("opens");
        assert_eq!(report.damaged_count, 0, "seed {seed}: {:?}", report.damage);
        assert_eq!(found.len(), 4, "seed {seed}");
    }
    assert!(torn_count > 100, "{torn_count}");
}

#[test]
fn messages_of_one_submit_are_there_together_or_not_at_all() {
    let (mut none_count, mut all_count) = (0, 0);
    for seed in 0..3_000 {
        let disk = MemDisk::new(seed, 1 << 30);
        let (mut spool, _, _) = open(&disk, small()).expect("opens");
        let records = vec![accept(1, 600), accept(2, 600)];
        spool.handle_request(Request::Submit { ticket: Ticket(1), records });
        write_without_sync(&mut spool, &disk);
        disk.crash();
        let (_, report, found) = open(&disk, small()).expect("opens");
        assert_eq!(report.damaged_count, 0, "seed {seed}: {:?}", report.damage);
        match found.len() {
            0 => none_count += 1,
            2 => all_count += 1,
            count => panic!("seed {seed}: {count} of 2"),
        }
    }
    assert!(none_count > 100 && all_count > 10, "{none_count} {all_count}");
}

/// A log in which five messages came and went, with one segment and no room for another.
fn used_up(seed: u64, registered: bool) -> (MemDisk, u64) {
    let disk = MemDisk::new(seed, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    for sequence in 1..=5 {
        assert!(submit(&mut spool, &disk, vec![accept(sequence, 300)]));
    }
    for sequence in 1..=5 {
        assert!(submit(&mut spool, &disk, vec![settle(sequence, SettleKind::Relayed)]));
    }
    for name in disk.list().expect("lists") {
        let is_segment = name.ends_with(".segment");
        let unused = is_segment && disk.content(&name).is_some_and(|content| content[0] == 0);
        if unused || name.ends_with(".spare") || (name == "register" && !registered) {
            disk.remove(&name).expect("there");
        }
    }
    disk.sync_dir().expect("synced");
    disk.set_capacity_bytes((1 << 30) - disk.free_bytes().expect("a number"));
    (disk, spool.next_sequence())
}

#[test]
fn ids_are_never_used_twice() {
    for registered in [true, false] {
        for fuse in 0..60 {
            let (disk, next) = used_up(fuse, registered);
            disk.set_fuse(fuse);
            let _ = open(&disk, small());
            disk.crash();
            disk.set_capacity_bytes(1 << 30);
            let (spool, _, _) = open(&disk, small()).expect("opens");
            let found = spool.next_sequence();
            assert!(found >= next, "fuse {fuse}: {found} after {next}");
        }
    }
}

#[test]
fn the_register_knows_which_numbers_were_used_when_all_segments_are_gone() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    let blob = blob(&mut spool, &disk);
    assert!(submit(&mut spool, &disk, vec![accept_blob(41, blob)]));
    drop(spool);
    drop(open(&disk, small()).expect("opens"));
    for name in disk.list().expect("lists") {
        if name.ends_with(".segment") {
            disk.remove(&name).expect("there");
        }
    }
    let (spool, report, found) = open(&disk, small()).expect("opens");
    assert!(report.damaged_count > 0 && found.is_empty(), "{report:?}");
    assert_eq!((spool.next_sequence(), spool.next_blob()), (42, blob.0 + 1));
}
