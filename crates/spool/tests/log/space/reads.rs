//! A disk that fails to read for a while.

use super::log::{accept, open, run, settle, small, submit};
use spool::memdisk::{Faults, MemDisk};
use spool::{Completion, LoadError, Request, SettleKind, Ticket};

#[test]
fn a_record_that_is_longer_than_wanted_is_measured_and_not_read() {
    let disk = MemDisk::new(5, 1 << 30);
    let (mut spool, _) = open(&disk, small());
    assert!(submit(&mut spool, &disk, accept(1, 2_500)));
    let id = mail::MessageId::new(0, 0, 1);
    let mut load = |bytes_max| {
        spool.handle_request(Request::Load { ticket: Ticket(9), id, bytes_max });
        run(&mut spool, &disk).remove(0).1
    };
    let Completion::TooLong(bytes) = load(0) else { panic!("it has some") };
    assert!((2_500..4_000).contains(&bytes), "{bytes}");
    // At its edge.
    assert!(matches!(load(bytes - 1), Completion::TooLong(again) if again == bytes));
    assert!(matches!(load(bytes), Completion::Loaded(_)));
}

#[test]
fn a_read_that_fails_is_told_and_compaction_tries_again() {
    let disk = MemDisk::new(5, 1 << 30);
    let (mut spool, _) = open(&disk, small());
    let mut count = 0;
    while spool.status().segments_count < 4 {
        count += 1;
        assert!(submit(&mut spool, &disk, accept(count, 2_500)));
    }
    // Of each segment hardly anything is left, which compaction can't read.
    disk.set_faults(Faults { read_permille: 1_000, ..Faults::default() });
    for n in (1..=count).filter(|n| n % 12 != 0) {
        assert!(submit(&mut spool, &disk, vec![settle(n, SettleKind::Relayed)]));
    }
    let id = mail::MessageId::new(0, 0, 12);
    spool.handle_request(Request::Load { ticket: Ticket(9), id, bytes_max: u64::MAX });
    let answers = run(&mut spool, &disk);
    assert!(
        matches!(&answers[..], [(Ticket(9), Completion::LoadFailed(LoadError::Disk(_)))]),
        "{answers:?}"
    );
    let stuck = spool.status();
    assert!(stuck.segments_count >= 4 && stuck.poisoned.is_none(), "{stuck:?}");
    // The disk recovers, and a minute later what is left is moved.
    disk.set_faults(Faults::default());
    for _ in 0..130 {
        spool.handle_tick();
        run(&mut spool, &disk);
    }
    let status = spool.status();
    assert!(status.segments_count <= 3 && status.compacted_bytes > 0, "{status:?}");
    let (_, found) = open(&disk, small());
    assert_eq!(found, (1..=count).filter(|n| n % 12 == 0).collect::<Vec<_>>());
}
