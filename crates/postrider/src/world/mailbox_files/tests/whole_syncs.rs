//! Batches for which the whole file system is synced.

use super::super::desk::JobReply;
use super::super::file_system::{FileSystems, Mounted};
use super::super::owner;
use super::super::publication::{Publisher, WrittenMessage};
use super::super::quota::Counts;
use super::super::sync_costs::WHOLE_MESSAGES_MIN;
use super::*;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Mutex;
use tokio::sync::oneshot;

/// Calls something at each sync, by its number from 1 on, instead of syncing.
struct Watched<F>(Mutex<(u32, F)>);

impl<F: FnMut(u32) -> Result<(), Errno> + Send> FileSystems for Watched<F> {
    fn can_sync_whole(&self, _: &OwnedFd) -> bool {
        true
    }

    fn sync_whole(&self, _: &OwnedFd) -> Result<(), Errno> {
        let (calls, watch) = &mut *self.0.lock().unwrap();
        *calls += 1;
        watch(*calls)
    }
}

fn watched(watch: impl FnMut(u32) -> Result<(), Errno> + Send + 'static) -> Arc<dyn FileSystems> {
    Arc::new(Watched(Mutex::new((0, watch))))
}

/// Messages `0`, `1`, … that are written, each to the mailbox that is said, and who waits for them.
struct Batch {
    written: Vec<WrittenMessage>,
    answers: Vec<oneshot::Receiver<Result<(), MailboxError>>>,
}

fn batch(mailboxes: &[MailboxPlace]) -> Batch {
    let counts = Arc::<Counts>::default();
    let mut batch = Batch { written: Vec::new(), answers: Vec::new() };
    for (n, mailbox) in mailboxes.iter().enumerate() {
        let maildir =
            Arc::new(Maildir::open(mailbox, owner::own(), (&Mounted::new(), &counts)).unwrap());
        let mut mail =
            NewMail::begin(maildir, n.to_string(), std::time::SystemTime::now()).unwrap();
        mail.write(&[Bytes::from(format!("message {n}\r\n"))]).unwrap();
        let (answer, answered): (JobReply<()>, _) = oneshot::channel();
        batch.written.push((mail, answer));
        batch.answers.push(answered);
    }
    batch
}

/// As many mailboxes as share a sync.
fn mailboxes(place: &Place) -> Vec<MailboxPlace> {
    (0..WHOLE_MESSAGES_MIN).map(|n| place.mailbox(&format!("user{n}"))).collect()
}

/// The directories of all mailboxes that are called so have so many files.
fn count(root: &Path, name: &str) -> usize {
    (0..WHOLE_MESSAGES_MIN).map(|n| names(&root.join(format!("user{n}")).join(name)).len()).sum()
}

#[test]
fn contents_come_before_names_and_names_before_answers() {
    let place = Place::new();
    let Batch { written, answers } = batch(&mailboxes(&place));
    let (seen, root) = (Arc::new(Mutex::new(Vec::new())), place.root.path().to_owned());
    let answers = Arc::new(Mutex::new(answers));
    let watch = {
        let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
        watched(move |_| {
            let waiting = answers.lock().unwrap().iter_mut().all(|one| one.try_recv().is_err());
            seen.lock().unwrap().push((count(&root, "tmp"), count(&root, "new"), waiting));
            Ok(())
        })
    };
    let metrics: Arc<MailboxMetrics> = Arc::default();
    let publisher = Publisher::new(Arc::clone(&metrics), watch);
    assert_eq!(publisher.publish(written), WHOLE_MESSAGES_MIN as u64);
    let many = WHOLE_MESSAGES_MIN;
    assert_eq!(*seen.lock().unwrap(), [(many, 0, true), (0, many, true)]);
    for answer in answers.lock().unwrap().iter_mut() {
        assert!(matches!(answer.try_recv(), Ok(Ok(()))));
    }
    assert_eq!(metrics.whole_syncs.get(), 1);
}

#[test]
fn a_few_are_synced_by_themselves() {
    let place = Place::new();
    let Batch { written, mut answers } = batch(&mailboxes(&place)[1..]);
    let publisher = Publisher::new(Arc::default(), watched(|_| panic!("not for so few")));
    assert_eq!(publisher.publish(written), WHOLE_MESSAGES_MIN as u64 - 1);
    assert!(answers.iter_mut().all(|answer| matches!(answer.try_recv(), Ok(Ok(())))));
}

#[test]
fn none_counts_when_a_sync_fails_and_all_are_there_once_when_they_are_tried_again() {
    for failing in [1, 2] {
        let place = Place::new();
        let mut mailboxes = mailboxes(&place);
        mailboxes.iter_mut().for_each(|mailbox| mailbox.quota_bytes = Some(20));
        let watch = watched(move |call| if call == failing { Err(Errno::IO) } else { Ok(()) });
        let metrics: Arc<MailboxMetrics> = Arc::default();
        let publisher = Publisher::new(Arc::clone(&metrics), watch);
        let Batch { written, mut answers } = batch(&mailboxes);
        assert_eq!(publisher.publish(written), 0);
        for answer in &mut answers {
            assert!(matches!(answer.try_recv(), Ok(Err(MailboxError::Io(_)))));
        }
        assert_eq!(count(place.root.path(), "tmp"), 0, "{failing}");
        let there = if failing == 1 { 0 } else { WHOLE_MESSAGES_MIN };
        assert_eq!(count(place.root.path(), "new"), there, "{failing}");
        // The next ones ask nobody but themselves.
        let Batch { written, mut answers } = batch(&mailboxes);
        assert_eq!(publisher.publish(written), WHOLE_MESSAGES_MIN as u64);
        assert!(answers.iter_mut().all(|answer| matches!(answer.try_recv(), Ok(Ok(())))));
        assert_eq!(metrics.whole_syncs.get(), 1, "{failing}");
        assert_eq!(count(place.root.path(), "new"), WHOLE_MESSAGES_MIN, "{failing}");
        let sum = fs::read_to_string(place.path("user0/maildirsize")).unwrap();
        assert_eq!(sum, "20S\n0 0\n10 1\n", "{failing}: it is counted once");
    }
}

#[test]
fn a_failure_of_one_is_its_own() {
    let place = Place::new();
    let mut mailboxes = mailboxes(&place);
    mailboxes[1].quota_bytes = Some(5);
    mailboxes.push(place.mailbox("user1"));
    // All its names are taken.
    fs::create_dir_all(place.path("user2/new/2")).unwrap();
    (1..16).for_each(|n| fs::create_dir(place.path(&format!("user2/new/2.{n}"))).unwrap());
    fs::create_dir_all(place.path("user2/cur")).unwrap();
    fs::create_dir_all(place.path("user2/tmp")).unwrap();
    let Batch { written, mut answers } = batch(&mailboxes);
    let publisher = Publisher::new(Arc::default(), watched(|_| Ok(())));
    assert_eq!(publisher.publish(written), WHOLE_MESSAGES_MIN as u64 - 1);
    for (n, answer) in answers.iter_mut().enumerate() {
        match (n, answer.try_recv().unwrap()) {
            (1, Err(MailboxError::Full { quota_bytes: 5 })) | (2, Err(MailboxError::Io(_))) => {}
            (1 | 2, other) => panic!("{n}: {other:?}"),
            (_, result) => assert!(result.is_ok(), "{n}: {result:?}"),
        }
    }
    assert_eq!(names(&place.path("user1/new")), [WHOLE_MESSAGES_MIN.to_string()]);
    assert_eq!(count(place.root.path(), "tmp"), 0);
}

#[test]
fn file_systems_of_one_batch_are_synced_each() {
    let place = Place::new();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(place.root.path()) == device(other.path()) {
        return;
    }
    let mut mailboxes = mailboxes(&place);
    let there = |n: usize| MailboxPlace { root: other.path().into(), ..mailboxes[n].clone() };
    let there: Vec<_> = (0..WHOLE_MESSAGES_MIN).map(there).collect();
    mailboxes.extend(there);
    // The first that is synced fails; nothing of the other's does.
    let watch = watched(|call| if call == 1 { Err(Errno::IO) } else { Ok(()) });
    let Batch { written, mut answers } = batch(&mailboxes);
    let publisher = Publisher::new(Arc::default(), watch);
    assert_eq!(publisher.publish(written), WHOLE_MESSAGES_MIN as u64);
    let is_good: Vec<_> =
        answers.iter_mut().map(|answer| answer.try_recv().unwrap().is_ok()).collect();
    let (here, there) = is_good.split_at(WHOLE_MESSAGES_MIN);
    assert!(here.iter().all(|good| *good == here[0]) && there.iter().all(|good| *good != here[0]));
}

#[test]
fn through_the_writers_failed_ones_are_delivered_when_they_are_tried_again() {
    let root = tempfile::tempdir().unwrap();
    let (metrics, watch) = (Arc::default(), watched(|_| Err(Errno::IO)));
    let files = MailboxThreads::start_with(&metrics, 4_096, (watch, ATTEMPT_MAX));
    let deliver = async |n: usize| {
        let place = MailboxPlace {
            below: format!("user{}", n % WHOLE_MESSAGES_MIN).into(),
            ..MailboxPlace::at(root.path().to_owned())
        };
        let mut failures = 0;
        while files.deliver(place.clone(), n.to_string(), vec!["x".into()]).await.is_err() {
            failures += 1;
        }
        failures
    };
    let failures: u32 = wait(together((0..200).map(deliver).collect())).into_iter().sum();
    assert!(failures >= WHOLE_MESSAGES_MIN as u32, "{failures}");
    assert_eq!(count(root.path(), "new"), 200);
    assert_eq!(count(root.path(), "tmp"), 0);
    // Those that write at once may each have begun before the first failed.
    assert!(metrics.whole_syncs.get() <= pace::WRITERS_MAX as u64);
}
