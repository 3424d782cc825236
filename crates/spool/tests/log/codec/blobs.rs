//! Bodies in files of their own that are not what they were.

use super::setup::{load, open, plain, run, small, submit};
use bytes::Bytes;
use mail::{MessageId, Wall};
use spool::memdisk::MemDisk;
use spool::{
    Accept, Body, BodyChecksums, Completion, Disk, LoadError, Meta, Record, Request, Settle,
    SettleKind, Ticket, checksums,
};

#[test]
fn a_blob_of_another_length_is_damage() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    let blob = spool::BlobId(spool.next_blob());
    let data = Bytes::from_static(b"a large body");
    spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
    spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
    run(&mut spool, &disk);
    let body = Body::Blob { blob, body_bytes: 12 };
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(Accept { body, ..plain(1, 12) }))]);
    for content in ["", "a large", "a large body and more"] {
        disk.put("0000000000000001.blob", content.into());
        let verified = spool::verify(&disk).expect("verifies");
        assert_eq!(verified.damaged_count, 1, "{content}");
        let (spool, report, found) = open(&disk, small());
        assert_eq!((report.damaged_count, found.len()), (1, 1), "{content}");
        assert!(report.damage[0].what.contains("instead of 12"), "{report:?}");
        assert_eq!(spool.status().damaged_count, 1);
    }
    disk.put("0000000000000001.blob", "a large body".into());
    let (_, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, found.len()), (0, 1));
}

#[test]
fn a_bit_that_changes_in_a_blob_is_damage_and_its_piece_is_never_read() {
    const BYTES: usize = checksums::PIECE_BYTES + 5_000;
    let name = "0000000000000001.blob";
    for is_checked in [true, false] {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, small());
        let blob = spool::BlobId(spool.next_blob());
        let data = Bytes::from((0..BYTES).map(|at| (at / 3) as u8).collect::<Vec<_>>());
        let mut sums = BodyChecksums::default();
        for data in [data.slice(..70_000), data.slice(70_000..)] {
            sums.push(&data);
            spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
        }
        spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
        run(&mut spool, &disk);
        let body = Body::Blob { blob, body_bytes: BYTES as u64 };
        // As records were before there were checksums, and as they are.
        let fields = if is_checked { vec![sums.finish()] } else { Vec::new() };
        let accept = Accept { body, meta: Meta { fields }, ..plain(1, BYTES) };
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(accept))]);
        let id = MessageId::new(0, 0, 1);
        let mut read = |disk: &MemDisk, offset: usize| {
            let Completion::Loaded(loaded) = load(&mut spool, disk, id) else { panic!("no load") };
            let piece = checksums::piece(&loaded.meta, BYTES as u64, offset as u64);
            let (ticket, offset, piece) = (Ticket(7), offset as u64, piece.expect("good"));
            spool.handle_request(Request::BlobRead { ticket, blob, offset, piece });
            run(&mut spool, disk).pop().expect("an answer").1
        };
        let second = checksums::PIECE_BYTES;
        assert!(
            matches!(read(&disk, second), Completion::BlobData(read) if read == data[second..])
        );
        assert_eq!(spool::verify(&disk).expect("verifies").damaged_count, 0);
        assert!(disk.flip_bit(name, (second as u64 + 77) * 8 + 3));
        assert!(matches!(read(&disk, 0), Completion::BlobData(read) if read == data[..second]));
        let answer = read(&disk, second);
        let verified = spool::verify(&disk).expect("verifies");
        if !is_checked {
            assert!(matches!(answer, Completion::BlobData(read) if read.len() == 5_000));
            assert_eq!(verified.damaged_count, 0);
            continue;
        }
        let Completion::LoadFailed(LoadError::Damaged(what)) = answer else { panic!("{answer:?}") };
        assert_eq!(&*what, format!("{name} at {second}: bad length or checksum"));
        let [damage] = &verified.damage[..] else { panic!("{verified:?}") };
        assert_eq!((&*damage.file, damage.offset, damage.bytes), (name, second as u64, 5_000));
        assert!(damage.what.contains("0000000000000001 is damaged: 1 of 2 pieces"));
        // The checksums come along when the message is found by the index of its segment.
        let (mut spool, _, found) = open(&disk, small());
        assert_eq!(found[0].meta.fields.len(), 1);
        assert!(
            matches!(load(&mut spool, &disk, id), Completion::Loaded(m) if m.meta.fields.len() == 1)
        );
    }
}

#[test]
fn a_missing_blob_is_damage_and_an_orphan_goes() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    let blob = spool::BlobId(spool.next_blob());
    let data = Bytes::from_static(b"a large body");
    spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
    spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
    let answers = run(&mut spool, &disk);
    assert!(answers.iter().all(|(_, c)| matches!(c, Completion::BlobDone)), "{answers:?}");
    let body = Body::Blob { blob, body_bytes: 12 };
    let accept = Accept { body, ..plain(1, 12) };
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(accept))]);
    disk.put("00000000000000ff.blob", vec![1]);
    let (_, report, found) = open(&disk, small());
    assert_eq!((report.orphan_blobs_count, report.damaged_count, found.len()), (1, 0, 1));
    disk.remove("0000000000000001.blob").expect("there");
    let (mut spool, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, found.len()), (1, 1));
    assert!(report.damage[0].what.contains("0000000000000001 is missing"), "{report:?}");
    // It stays until an operator gives it up.
    assert_eq!((spool.status().live_count, spool.status().damaged_count), (1, 1));
    let recipients = vec![(0, SettleKind::Removed)];
    let settle = Settle { id: MessageId::new(0, 0, 1), at: Wall(1), recipients };
    submit(&mut spool, &disk, vec![Record::Settle(settle)]);
    let (spool, report, _) = open(&disk, small());
    assert_eq!((report.damaged_count, spool.next_blob() > 0xff), (0, true));
}
