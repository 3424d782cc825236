//! Disks that do not answer.

use super::super::file_system::FileSystems;
use super::*;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Condvar, Mutex};

/// The longest that anything here waits for what does not answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// File systems of which one does not answer, until it does again.
#[derive(Default)]
struct Hanging {
    root: Mutex<Option<PathBuf>>,
    changed: Condvar,
}

impl Hanging {
    fn set(&self, root: Option<PathBuf>) {
        *self.root.lock().unwrap() = root;
        self.changed.notify_all();
    }
}

impl FileSystems for Hanging {
    fn open_root(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let hanging = self.root.lock().unwrap();
        drop(self.changed.wait_while(hanging, |root| root.as_deref() == Some(path)).unwrap());
        Mounted::new().open_root(path)
    }

    fn can_sync_whole(&self, _: &OwnedFd) -> bool {
        false
    }

    fn sync_whole(&self, _: &OwnedFd) -> Result<(), Errno> {
        Ok(())
    }
}

/// Writers, two directories with mailboxes, and what may hang.
fn two() -> (MailboxFiles, Arc<Hanging>, [tempfile::TempDir; 2]) {
    let hanging = Arc::<Hanging>::default();
    let world = (Arc::clone(&hanging) as Arc<dyn FileSystems>, PATIENCE);
    let files = MailboxThreads::start_with(&Arc::default(), 4_096, world);
    (files, hanging, [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()])
}

fn mailbox(root: &tempfile::TempDir, user: &str) -> MailboxPlace {
    MailboxPlace { below: user.into(), ..MailboxPlace::at(root.path().into()) }
}

fn deliver(files: &MailboxFiles, place: &MailboxPlace, name: &str) -> Result<(), MailboxError> {
    wait(files.deliver(place.clone(), name.to_owned(), vec!["x".into()]))
}

#[test]
fn a_disk_that_does_not_answer_stops_what_lies_on_it_alone() {
    let (files, hanging, [bad, good]) = two();
    hanging.set(Some(bad.path().to_owned()));
    // As many as there are writers, and one for which none is left.
    for n in 0..=pace::WRITERS_MAX {
        let place = mailbox(&bad, &n.to_string());
        let result = deliver(&files, &place, "1");
        assert!(matches!(result, Err(MailboxError::Hangs)), "{n}: {result:?}");
        deliver(&files, &mailbox(&good, "user"), &n.to_string()).unwrap();
    }
    assert_eq!(names(&good.path().join("user/new")).len(), pace::WRITERS_MAX + 1);
    let began = wait(files.begin(mailbox(&bad, "pieces"), "1".to_owned()));
    assert!(matches!(began, Err(MailboxError::Hangs)), "{began:?}");
    hanging.set(None);
    // What was given up is not delivered later, and what comes is.
    let again = mailbox(&bad, "0");
    while deliver(&files, &again, "2").is_err() {}
    assert_eq!(names(&bad.path().join("0/new")), ["2"]);
    assert_eq!(names(&bad.path().join("0/tmp")), [] as [String; 0]);
}

#[test]
fn a_disk_that_does_not_answer_is_a_problem() {
    let (files, hanging, [bad, good]) = two();
    deliver(&files, &mailbox(&good, "user"), "1").unwrap();
    hanging.set(Some(bad.path().to_owned()));
    assert!(deliver(&files, &mailbox(&bad, "user"), "1").is_err());
    let all = lock(&files.0.all).clone();
    let of = |root: &tempfile::TempDir| {
        let (_, desk) = all.iter().find(|(path, _)| path == root.path()).unwrap();
        desk.oldest()
    };
    assert!(of(&bad).unwrap() >= PATIENCE);
    hanging.set(None);
    while of(&bad).is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(of(&good), None);
}

#[test]
fn roots_beyond_the_last_lane_share_it() {
    let files = MailboxThreads::start(&Arc::default(), 4_096);
    let root = tempfile::tempdir().unwrap();
    for n in 0..LANES_MAX + 3 {
        let own = root.path().join(n.to_string());
        fs::create_dir(&own).unwrap();
        let place = MailboxPlace { below: "user".into(), ..MailboxPlace::at(own.clone()) };
        deliver(&files, &place, "1").unwrap();
        assert_eq!(names(&own.join("user/new")), ["1"]);
    }
    assert_eq!(lock(&files.0.all).len(), LANES_MAX);
}
