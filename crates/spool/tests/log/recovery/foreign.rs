//! Files that are there and should not be, or the other way round.

use crate::setup::{BLOB_BYTES, accept, accept_blob, blob, id, open, run, settle, small, submit};
use spool::memdisk::MemDisk;
use spool::{
    Completion, Disk, LoadError, Request, SettleKind, SpoolConfig, SpoolError, Ticket, checksums,
};

#[test]
fn two_segments_of_one_generation_are_refused() {
    let disks = [1, 2].map(|salt| {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, SpoolConfig { salt, ..small() }).expect("opens");
        for n in 1..=3 {
            assert!(submit(&mut spool, &disk, vec![accept(10 * salt + n, 100)]));
        }
        disk
    });
    for name in disks[0].list().expect("lists") {
        if name.ends_with(".segment") {
            disks[1].put(&name, disks[0].content(&name).expect("there"));
        }
    }
    let before = disks[1].list();
    let error = open(&disks[1], small()).expect_err("two spools");
    assert!(matches!(error, SpoolError::Twice { .. }), "{error}");
    assert!(error.to_string().contains("have the same number"), "{error}");
    assert!(matches!(spool::verify(&disks[1]), Err(SpoolError::Twice { .. })));
    assert_eq!(disks[1].list(), before);
}

#[test]
fn a_generation_that_leaves_none_for_later_segments_is_refused() {
    for (name, is_fine) in
        [("feffffff.spare", true), ("ff000000.spare", false), ("ffffffff.new", false)]
    {
        let disk = MemDisk::new(1, 1 << 30);
        disk.put(name, vec![0; 64 << 10]);
        match open(&disk, small()) {
            Ok(_) => assert!(is_fine, "{name}"),
            Err(error) => {
                assert!(!is_fine && matches!(error, SpoolError::Generation { .. }), "{error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}

#[test]
fn a_message_whose_blob_is_missing_or_short_is_handed_over() {
    for content in [None, Some(vec![7; 100])] {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, small()).expect("opens");
        let blob = blob(&mut spool, &disk);
        assert!(submit(&mut spool, &disk, vec![accept_blob(1, blob)]));
        let name = "0000000000000001.blob";
        disk.remove(name).expect("there");
        if let Some(content) = content {
            disk.put(name, content);
        }
        let (mut spool, report, found) = open(&disk, small()).expect("opens");
        assert_eq!((report.damaged_count, report.live_count, found.len()), (1, 1, 1));
        assert_eq!(spool.status().damaged_count, 1);
        // It has all that a report needs; its body can't be read.
        spool.handle_request(Request::Load { ticket: Ticket(1), id: id(1), bytes_max: u64::MAX });
        let Some((_, Completion::Loaded(loaded))) = run(&mut spool, &disk).pop() else {
            panic!("not loaded")
        };
        let piece = checksums::piece(&loaded.meta, BLOB_BYTES, 0).expect("good");
        spool.handle_request(Request::BlobRead { ticket: Ticket(2), blob, offset: 0, piece });
        let Some((_, Completion::LoadFailed(LoadError::Damaged(what)))) =
            run(&mut spool, &disk).pop()
        else {
            panic!("read")
        };
        assert!(what.contains(name), "{what}");
        assert!(submit(&mut spool, &disk, vec![settle(1, SettleKind::Removed)]));
        assert_eq!((spool.status().live_count, spool.status().damaged_count), (0, 0));
    }
}

#[test]
fn orphans_that_cannot_belong_to_what_is_lost_go() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    let early = blob(&mut spool, &disk);
    assert!(submit(&mut spool, &disk, vec![accept_blob(1, early)]));
    for sequence in 2..=40 {
        assert!(submit(&mut spool, &disk, vec![accept(sequence, 3_000)]));
    }
    let mut names = disk.list().expect("lists");
    names.retain(|name| name.ends_with(".segment"));
    names.sort();
    // The record of the first message is damaged, and found by no index.
    let content = disk.content(&names[0]).expect("there");
    disk.put(&names[0], content[..600].to_vec());
    disk.put("0000000000000ffe.blob", vec![1]);
    let (_, report, _) = open(&disk, small()).expect("opens");
    assert!(report.damaged_count > 0, "{report:?}");
    assert_eq!((report.orphan_blobs_count, report.kept_blobs_count), (2, 1));
    assert!(disk.length("0000000000000001.blob").is_ok(), "it may be the lost message's");
    assert!(disk.length("0000000000000ffe.blob").is_err(), "it is of later mail");
}
