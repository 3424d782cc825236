//! Sectors that can't be read: what lies in them is lost, and told; nothing else is.

use crate::setup::{BLOB_BYTES, accept, accept_blob, blob, open, run, settle, small, submit};
use spool::memdisk::MemDisk;
use spool::{Disk, SettleKind};

/// Sixty messages in several segments, one to a batch.
fn filled() -> MemDisk {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    for sequence in 1..=60 {
        assert!(submit(&mut spool, &disk, vec![accept(sequence, 3_000)]));
    }
    disk
}

fn segments(disk: &MemDisk) -> Vec<String> {
    let mut names = disk.list().expect("lists");
    let used = |name: &String| disk.content(name).is_some_and(|content| content[0] != 0);
    names.retain(|name| name.ends_with(".segment") && used(name));
    names.sort();
    names
}

#[test]
fn a_sector_costs_what_lies_in_it_and_never_the_start() {
    let names = segments(&filled());
    assert!(names.len() >= 4);
    let mut lost_count = 0;
    for name in [&names[0], &names[names.len() - 1]] {
        for sector in 0..128 {
            let disk = filled();
            disk.set_unreadable(name, sector * 512);
            let verified = spool::verify(&disk).expect("reads past it");
            assert!(verified.damaged_count > 0, "{name} {sector}: {verified:?}");
            let told = verified.damage.iter().any(|damage| {
                *damage.file == **name && damage.offset == sector * 512 && damage.bytes == 512
            });
            assert!(told, "{name} {sector}: {verified:?}");
            let (mut spool, report, found) = open(&disk, small()).expect("opens");
            assert_eq!(report.torn_count, 0, "{name} {sector}");
            assert!(found.len() >= 59, "{name} {sector}: {} {report:?}", found.len());
            lost_count += 60 - found.len();
            if found.len() < 60 {
                assert!(report.damaged_count > 0, "{name} {sector}");
            }
            // It is not used again, and the log goes on.
            for message in &found {
                let settle = settle(message.id.sequence(), SettleKind::Relayed);
                assert!(submit(&mut spool, &disk, vec![settle]));
            }
            run(&mut spool, &disk);
            if report.damaged_count > 0 {
                let aside = name.replace("segment", "damaged");
                assert!(disk.list().expect("lists").contains(&aside), "{name} {sector}");
            }
        }
    }
    assert!(lost_count > 20, "{lost_count}");
}

#[test]
fn a_sector_of_the_register_or_of_a_blob_is_told() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    let blob = blob(&mut spool, &disk);
    assert!(submit(&mut spool, &disk, vec![accept_blob(1, blob)]));
    disk.set_unreadable("register", 0);
    assert_eq!(spool::verify(&disk).expect("reads").damaged_count, 0, "it has two copies");
    disk.set_unreadable("register", 16 << 10);
    let verified = spool::verify(&disk).expect("reads");
    assert_eq!((verified.damaged_count, &*verified.damage[0].file), (1, "register"));
    let (_, report, found) = open(&disk, small()).expect("opens");
    assert_eq!((report.damaged_count, found.len()), (1, 1));
    assert_eq!(disk.length("0000000000000001.blob").expect("there"), BLOB_BYTES);
    // It was written anew, which a disk does elsewhere.
    let (_, report, _) = open(&disk, small()).expect("opens");
    assert_eq!(report.damaged_count, 0);
}
