//! Room for a message, asked before it is accepted.

use super::super::file_system::FileSystems;
use super::*;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk with this much room.
struct Disk(AtomicU64);

impl FileSystems for Disk {
    fn free_bytes(&self, _: &OwnedFd) -> Result<u64, Errno> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn can_sync_whole(&self, _: &OwnedFd) -> bool {
        false
    }

    fn sync_whole(&self, _: &OwnedFd) -> Result<(), Errno> {
        Ok(())
    }
}

impl Place {
    fn on(disk: &Arc<Disk>) -> Place {
        let metrics = Arc::default();
        let disk: Arc<dyn FileSystems> = Arc::clone(disk) as _;
        let files = MailboxThreads::start_with(&metrics, 64, (disk, ATTEMPT_MAX));
        Place { root: tempfile::tempdir().unwrap(), files, metrics }
    }

    fn room(&self, place: &MailboxPlace, bytes: u64) -> Result<(), MailboxError> {
        wait(self.files.room(place.clone(), bytes))
    }
}

fn is_full(result: &Result<(), MailboxError>) -> bool {
    matches!(result, Err(MailboxError::Full { quota_bytes: 100 }))
}

#[test]
fn room_is_known_to_the_octet_and_nothing_is_made() {
    let place = Place::new();
    let mailbox = MailboxPlace { quota_bytes: Some(100), ..place.mailbox("a/user") };
    place.room(&mailbox, 100).unwrap();
    assert!(!place.path("a").exists(), "a question creates no mailbox");
    place.deliver(&mailbox, "1", &"x".repeat(60)).unwrap();
    place.room(&mailbox, 40).unwrap();
    assert!(is_full(&place.room(&mailbox, 41)));
    place.deliver(&mailbox, "2", &"x".repeat(40)).unwrap();
    assert!(is_full(&place.room(&mailbox, 1)));
    // Room that a reader made is found, though the file was not updated; and the file stays.
    fs::remove_file(place.path("a/user/new/1,S=60")).unwrap();
    fs::write(place.path("a/user/maildirsize"), "100S\n60 1\n40 1\n").unwrap();
    place.room(&mailbox, 60).unwrap();
    let left = fs::read_to_string(place.path("a/user/maildirsize")).unwrap();
    assert_eq!(left, "100S\n60 1\n40 1\n");
}

#[test]
fn a_full_disk_is_found_and_room_on_it_again() {
    let disk = Arc::new(Disk(AtomicU64::new(1_000)));
    let place = Place::on(&disk);
    let mailbox = place.mailbox("user");
    place.room(&mailbox, 1_000).unwrap();
    assert!(!place.files.was_full(), "no disk was full");
    let full = place.room(&mailbox, 1_001);
    let kind = match full {
        Err(MailboxError::Io(error)) => error.kind(),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind, io::ErrorKind::StorageFull);
    assert!(place.files.was_full());
    disk.0.store(2_000, Ordering::Relaxed);
    place.room(&mailbox, 1_001).unwrap();
}

#[test]
fn a_path_that_is_a_link_has_no_answer() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    symlink(place.path("other"), place.path("user")).unwrap();
    let mailbox = MailboxPlace { quota_bytes: Some(100), ..place.mailbox("user") };
    assert!(untrusted(place.room(&mailbox, 1)).contains("symbolic link"));
}
