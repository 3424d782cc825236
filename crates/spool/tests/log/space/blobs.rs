//! Bodies in separate files.

use super::log::{open, run, small, submit, with_blob};
use bytes::Bytes;
use spool::memdisk::MemDisk;
use spool::{BlobId, Completion, Request, Ticket};

#[test]
fn blobs_may_begin_in_any_order() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _) = open(&disk, small());
    let (one, two) = (BlobId(spool.next_blob()), BlobId(spool.next_blob() + 1));
    for blob in [two, one] {
        let data = Bytes::from(vec![7; 5000]);
        spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
        spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
        let answers = run(&mut spool, &disk);
        assert!(
            answers.len() == 2 && answers.iter().all(|(_, c)| matches!(c, Completion::BlobDone)),
            "{blob:?}: {answers:?}"
        );
        assert!(submit(&mut spool, &disk, with_blob(blob.0, blob)));
        let data = Bytes::from(vec![7; 5000]);
        spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
        let answers = run(&mut spool, &disk);
        assert!(matches!(answers[..], [(_, Completion::Refused(_))]), "a number is used once");
    }
}
