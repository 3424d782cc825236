//! Disks that do not answer.

use super::super::file_system::FileSystems;
use super::super::lanes::{LANES_MAX, MOUNTED_LANES_MAX};
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
    /// What is mounted.
    mounted: Mutex<Vec<PathBuf>>,
    /// The writers that see it hang, where it is not all of them: how their threads' names begin.
    only: Mutex<String>,
}

impl Hanging {
    fn set(&self, root: Option<PathBuf>) {
        *self.root.lock().unwrap() = root;
        self.changed.notify_all();
    }
}

impl FileSystems for Hanging {
    fn open_root(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let writer = std::thread::current().name().unwrap_or_default().to_owned();
        if writer.starts_with(&*self.only.lock().unwrap()) {
            let hanging = self.root.lock().unwrap();
            drop(self.changed.wait_while(hanging, |root| root.as_deref() == Some(path)).unwrap());
        }
        Mounted::new().open_root(path)
    }

    fn mount_points(&self) -> Vec<PathBuf> {
        self.mounted.lock().unwrap().clone()
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
    let all = files.0.all();
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
    assert_eq!(files.0.all().len(), LANES_MAX);
}

/// A file system for each user, below one directory.
#[test]
fn a_disk_below_a_directory_that_does_not_answer_stops_what_lies_on_it_alone() {
    let hanging = Arc::<Hanging>::default();
    let root = tempfile::tempdir().unwrap();
    let bad = root.path().join("bad");
    fs::create_dir(&bad).unwrap();
    *hanging.mounted.lock().unwrap() = vec!["/".into(), bad.clone(), "/elsewhere".into()];
    let world = (Arc::clone(&hanging) as Arc<dyn FileSystems>, PATIENCE);
    let files = MailboxThreads::start_with(&Arc::default(), 4_096, world);
    // Of what lies on it, which the first lane is for.
    "mailbox-0-".clone_into(&mut hanging.only.lock().unwrap());
    hanging.set(Some(root.path().to_owned()));
    // More mailboxes on it than there are writers.
    for n in 0..=pace::WRITERS_MAX {
        let result = deliver(&files, &mailbox(&root, &format!("bad/{n}")), "1");
        assert!(matches!(result, Err(MailboxError::Hangs)), "{n}: {result:?}");
        deliver(&files, &mailbox(&root, "user"), &n.to_string()).unwrap();
    }
    assert_eq!(names(&root.path().join("user/new")).len(), pace::WRITERS_MAX + 1);
    let places: Vec<PathBuf> = files.0.all().into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, [bad, root.path().to_owned()]);
    hanging.set(None);
}

#[test]
fn file_systems_beyond_so_many_share_the_lane_of_their_root() {
    let hanging = Arc::<Hanging>::default();
    let root = tempfile::tempdir().unwrap();
    let users: Vec<PathBuf> =
        (0..MOUNTED_LANES_MAX + 5).map(|n| root.path().join(n.to_string())).collect();
    hanging.mounted.lock().unwrap().clone_from(&users);
    let world = (Arc::clone(&hanging) as Arc<dyn FileSystems>, PATIENCE);
    let files = MailboxThreads::start_with(&Arc::default(), 4_096, world);
    for n in 0..users.len() {
        deliver(&files, &mailbox(&root, &n.to_string()), "1").unwrap();
    }
    assert_eq!(files.0.all().len(), MOUNTED_LANES_MAX + 1);
    let other = tempfile::tempdir().unwrap();
    deliver(&files, &mailbox(&other, "user"), "1").unwrap();
    assert_eq!(files.0.all().len(), MOUNTED_LANES_MAX + 2);
}
