//! A disk without room: settles find some, what is less urgent is refused, all are answered.

use super::log::{Quota, accept, attempt, full, open, run, settle, submit, tight};
use bytes::Bytes;
use spool::memdisk::MemDisk;
use spool::record::tag;
use spool::{Io, Record, Request, SettleKind, Spool, SpoolConfig, Ticket};

#[test]
fn retries_leave_room_for_settles() {
    let (disk, mut spool, n) = full(&tight());
    let mut refused = 0;
    for round in 1..20 {
        for id in 1..=n {
            refused += u64::from(!submit(&mut spool, &disk, vec![attempt(id, round)]));
        }
    }
    assert!(refused > 0, "there was room for all of them");
    assert_eq!(spool.status().pending_count, 0, "each was answered");
    for id in 1..=n {
        assert!(submit(&mut spool, &disk, vec![settle(id, SettleKind::Relayed)]), "{id}");
    }
    assert_eq!(spool.status().live_count, 0);
}

#[test]
fn alerts_use_the_space_for_reports_and_leave_the_rest_to_settles() {
    let (disk, mut spool, n) = full(&tight());
    let alert = |sequence| {
        let mut records = accept(sequence, 60);
        let Some(Record::Accept(accept)) = records.first_mut() else { panic!("{records:?}") };
        accept.meta.fields.push((tag::ALERT, Bytes::from_static(&[1])));
        records
    };
    assert!(!submit(&mut spool, &disk, accept(n + 1, 60)), "it is full");
    let mut last = n;
    while submit(&mut spool, &disk, alert(last + 1)) {
        last += 1;
        assert!(last < n + 1_000, "alerts have a limit, too");
        assert!(!submit(&mut spool, &disk, accept(n + 2_000, 60)), "other mail is refused");
    }
    assert!(last >= n + 16, "{} alerts", last - n);
    for id in 1..=last {
        assert!(submit(&mut spool, &disk, vec![settle(id, SettleKind::Relayed)]), "{id} of {last}");
    }
    assert_eq!(spool.status().live_count, 0);
}

#[test]
fn accepts_leave_the_last_segment_to_settles() {
    // Less reserve than a segment; then a quota that the disk does not tell of.
    for (reserve_bytes, told_bytes) in [(8 << 10, 20 << 10), (80 << 10, 10 << 30)] {
        let disk = MemDisk::new(5, 1 << 30);
        let disk = Quota::none(&disk);
        let (mut spool, _) = open(&disk, SpoolConfig { reserve_bytes, ..tight() });
        let mut n = 0;
        for _ in 0..100 {
            n += 1;
            assert!(submit(&mut spool, &disk, accept(n, 2500)));
        }
        disk.set(Some(told_bytes));
        for round in 0..1000 {
            let bytes = 60 + (round % 3) * 700;
            n += u64::from(submit(&mut spool, &disk, accept(n + 1, bytes)));
            if round % 4 == 0 {
                let _ = submit(&mut spool, &disk, vec![attempt(1 + round as u64 % 100, 1)]);
            }
        }
        assert!(spool.status().full, "{told_bytes}");
        for id in 1..=n {
            let settled = submit(&mut spool, &disk, vec![settle(id, SettleKind::Relayed)]);
            assert!(settled, "{id} of {n}, told {told_bytes}");
        }
    }
}

#[test]
fn what_has_no_room_for_a_segment_is_full_until_one_is_made() {
    let disk = MemDisk::new(5, 1 << 30);
    let disk = Quota::none(&disk);
    let (mut spool, _) = open(&disk, tight());
    let _ = run(&mut spool, &disk);
    disk.set(Some(10 << 30));
    let mut n = 0;
    while submit(&mut spool, &disk, accept(n + 1, 2500)) {
        n += 1;
        assert!(n < 1_000, "nothing is ever refused");
    }
    for _ in 0..100 {
        spool.handle_tick();
        let _ = run(&mut spool, &disk);
        assert!(spool.status().full, "the disk says it has room, and has none");
    }
    // The quota is lifted, and the disk tells of nothing new: it is tried less and less often.
    disk.set(None);
    for _ in 0..2_000 {
        spool.handle_tick();
        let _ = run(&mut spool, &disk);
    }
    assert!(!spool.status().full);
    assert!(submit(&mut spool, &disk, accept(n + 1, 2500)));
}

#[test]
fn a_copy_that_does_not_fit_keeps_nothing_from_its_answer() {
    let (disk, mut spool, n) = full(&tight());
    // The read of a compaction takes its time; meanwhile settles fill the last segment. They are of
    // every other message, so that none comes free, and bring attempts with them.
    let mut slow: Vec<Io> = Vec::new();
    let mut go = |spool: &mut Spool, records: Vec<Record>| {
        spool.handle_request(Request::Submit { ticket: Ticket(1), records });
        while let Some(io) = spool.poll_io() {
            if format!("{io:?}").contains("ReadMany") {
                slow.push(io);
                continue;
            }
            let done = io.perform(&disk);
            spool.handle_io_done(done);
        }
        while spool.poll_completion().is_some() {}
    };
    for id in (1..n).step_by(2) {
        let attempts = (0..10).map(|round| attempt(n, round));
        let records = std::iter::once(settle(id, SettleKind::Relayed)).chain(attempts);
        go(&mut spool, records.collect());
        if spool.status().pending_count > 0 {
            break;
        }
    }
    assert!(!slow.is_empty(), "there was something to compact");
    assert_eq!((spool.status().spares_count, spool.status().pending_count), (0, 1));
    for io in slow {
        let done = io.perform(&disk);
        spool.handle_io_done(done);
    }
    let _ = run(&mut spool, &disk);
    let report = [vec![settle(n, SettleKind::Failed)], accept(9_000, 100)].concat();
    spool.handle_request(Request::Submit { ticket: Ticket(7), records: report });
    assert_eq!(run(&mut spool, &disk).len(), 1, "durable or refused, but answered");
}

#[test]
fn room_is_noticed_without_a_request() {
    let (disk, mut spool, n) = full(&tight());
    assert!(spool.status().full);
    disk.set_capacity_bytes(1 << 30);
    for _ in 0..2 {
        spool.handle_tick();
        let _ = run(&mut spool, &disk);
    }
    assert!(!spool.status().full);
    assert!(submit(&mut spool, &disk, accept(n + 1, 2500)));
}

#[test]
fn what_says_nothing_new_takes_no_room() {
    let disk = MemDisk::new(5, 1 << 30);
    let (mut spool, _) = open(&disk, tight());
    assert!(submit(&mut spool, &disk, accept(1, 100)));
    assert!(submit(&mut spool, &disk, vec![settle(1, SettleKind::Relayed)]));
    let (batches, syncs) = (spool.status().batches_count, disk.syncs_count());
    for _ in 0..100 {
        assert!(submit(&mut spool, &disk, vec![settle(1, SettleKind::Relayed)]));
        assert!(submit(&mut spool, &disk, vec![attempt(1, 2)]));
    }
    assert_eq!((spool.status().batches_count, disk.syncs_count()), (batches, syncs));
}
