//! What is wanting for a while: nothing is poisoned, and all goes on when it is there again.

use super::log::{accept, open, run, settle, small, submit, with_blob};
use bytes::Bytes;
use spool::memdisk::{Faults, MemDisk};
use spool::{BlobId, Completion, Refusal, Request, SettleKind, Ticket};

const NO_ROOM: Faults = Faults {
    full_permille: 1_000,
    sync_permille: 0,
    write_permille: 0,
    read_permille: 0,
    short_read_permille: 0,
    scarce_permille: 0,
};

#[test]
fn a_batch_without_room_or_descriptors_is_written_later() {
    let scarce = Faults { scarce_permille: 1_000, ..Faults::default() };
    for (faults, refusal) in [(NO_ROOM, Refusal::Full), (scarce, Refusal::Scarce)] {
        let disk = MemDisk::new(5, 1 << 30);
        let (mut spool, _) = open(&disk, small());
        assert!(submit(&mut spool, &disk, accept(1, 100)));
        disk.set_faults(faults);
        assert!(!submit(&mut spool, &disk, accept(2, 100)));
        assert!(spool.is_stalled() && spool.status().full && spool.status().poisoned.is_none());
        // Mail is told so; a settle waits.
        spool.handle_request(Request::Submit { ticket: Ticket(3), records: accept(3, 100) });
        let records = vec![settle(1, SettleKind::Relayed)];
        spool.handle_request(Request::Submit { ticket: Ticket(4), records });
        for _ in 0..3 {
            spool.handle_tick();
            let answers = run(&mut spool, &disk);
            assert!(
                answers.iter().all(|(t, c)| *t == Ticket(3)
                    && matches!(c, Completion::Refused(r) if *r == refusal)),
                "{answers:?}"
            );
        }
        disk.set_faults(Faults::default());
        spool.handle_tick();
        let answers = run(&mut spool, &disk);
        let durable = |(_, c): &(Ticket, Completion)| matches!(c, Completion::Durable { .. });
        assert!(answers.len() == 2 && answers.iter().all(durable), "{answers:?}");
        assert!(submit(&mut spool, &disk, accept(5, 100)));
        disk.crash();
        assert_eq!(open(&disk, small()).1, [2, 5]);
    }
}

#[test]
fn a_blob_that_cannot_be_synced_fails_alone() {
    let disk = MemDisk::new(5, 1 << 30);
    let (mut spool, _) = open(&disk, small());
    let failing = Faults { sync_permille: 1_000, ..Faults::default() };
    for (faults, refusal) in [(failing, Refusal::BlobFailed), (NO_ROOM, Refusal::Full)] {
        let blob = BlobId(spool.next_blob() + u64::from(refusal == Refusal::Full));
        let data = Bytes::from(vec![7; 5000]);
        spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
        let _ = run(&mut spool, &disk);
        disk.set_faults(faults);
        spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
        let answers = run(&mut spool, &disk);
        disk.set_faults(Faults::default());
        assert!(
            matches!(&answers[..], [(_, Completion::Refused(r))] if *r == refusal),
            "{answers:?}"
        );
        assert!(!submit(&mut spool, &disk, with_blob(7, blob)), "nobody may name it");
        spool.handle_request(Request::BlobDrop { blob });
        let _ = run(&mut spool, &disk);
    }
    assert!(spool.status().poisoned.is_none());
    assert!(submit(&mut spool, &disk, accept(8, 100)));
}
