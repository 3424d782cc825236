//! Spools as earlier builds left them, one directory for each form of what is on the disk. Each
//! must open, with all that is in it. When the format changes, add one: never change these.

use crate::setup::{accept, accept_blob, attempt, blob, id, open, settle, small, submit};
use spool::memdisk::MemDisk;
use spool::{Disk, SettleKind, SpoolConfig};
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/log/recovery/golden")
}

fn config() -> SpoolConfig {
    let (segment_bytes, first_segment_bytes) = (16 << 10, 16 << 10);
    SpoolConfig { segment_bytes, first_segment_bytes, index_every_bytes: 2 << 10, ..small() }
}

/// Three segments, the last without footer, and a blob.
fn fill() -> MemDisk {
    let disk = MemDisk::new(1, 1 << 20);
    let (mut spool, _, _) = open(&disk, config()).expect("opens");
    let blob = blob(&mut spool, &disk);
    assert!(submit(&mut spool, &disk, vec![accept_blob(1, blob)]));
    for sequence in 2..=24 {
        assert!(submit(&mut spool, &disk, vec![accept(sequence, 800)]));
    }
    assert!(submit(&mut spool, &disk, vec![attempt(3, 2)]));
    assert!(submit(&mut spool, &disk, vec![settle(4, SettleKind::Relayed)]));
    assert!(submit(&mut spool, &disk, vec![settle(5, SettleKind::Failed), accept(25, 100)]));
    disk
}

#[test]
#[ignore = "writes the image of this build, for a new form"]
#[expect(clippy::disallowed_methods, reason = "a test of files")]
fn write_the_image_of_this_build() {
    let to = directory().join("new");
    std::fs::create_dir_all(&to).expect("made");
    let disk = fill();
    for name in disk.list().expect("lists") {
        let content = disk.content(&name).expect("there");
        if name.ends_with(".spare") {
            continue;
        }
        std::fs::write(to.join(name), content).expect("written");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files")]
fn spools_of_earlier_builds_open() {
    let mut count = 0;
    for image in std::fs::read_dir(directory()).expect("there") {
        let image = image.expect("read").path();
        count += 1;
        let disk = MemDisk::new(1, 1 << 20);
        for file in std::fs::read_dir(&image).expect("there") {
            let file = file.expect("read");
            let name = file.file_name().into_string().expect("text");
            disk.put(&name, std::fs::read(file.path()).expect("read"));
        }
        let verified = spool::verify(&disk).expect("verifies");
        assert_eq!((verified.damaged_count, verified.live_count), (0, 23), "{image:?}");
        let (spool, report, found) = open(&disk, config()).expect("opens");
        assert_eq!((report.damaged_count, found.len()), (0, 23), "{image:?} {report:?}");
        assert!(report.indexed_segments_count > 0 && report.scanned_segments_count > 0);
        assert!(found.iter().all(|message| message.id != id(4) && message.id != id(5)));
        let tried = found.iter().find(|message| message.id == id(3)).expect("there");
        assert_eq!(tried.open[0].attempts, 2);
        assert_eq!((spool.next_sequence(), spool.next_blob()), (26, 2));
    }
    assert!(count > 0, "no image");
}
