use super::super::file_system::Mounted;
use super::super::maildir::Maildir;
use super::super::owner;
use super::super::quota::Counts;
use super::*;

const HUNG: Duration = Duration::from_secs(20);
/// A batch of a few messages is slow after so long.
const FEW_MS: u64 = SLOW_MS + 5 * SLOW_EACH_MS;

fn deliver(mailbox: &str) -> (Job, oneshot::Receiver<Result<(), MailboxError>>) {
    let place = MailboxPlace::at(PathBuf::from(mailbox));
    let (answer, answered) = oneshot::channel();
    (Job::Deliver { place, name: String::new(), pieces: Vec::new(), answer }, answered)
}

/// A desk, and who waits for what was left on it.
struct Waited {
    desk: MailboxWriteQueue,
    answers: Vec<oneshot::Receiver<Result<(), MailboxError>>>,
}

impl Waited {
    fn new(files_max: usize, mailboxes: &[&str]) -> Waited {
        let desk = MailboxWriteQueue::new(Arc::default(), files_max, HUNG);
        let mut waited = Waited { desk, answers: Vec::new() };
        mailboxes.iter().for_each(|mailbox| waited.leave(mailbox));
        waited
    }

    fn leave(&mut self, mailbox: &str) {
        self.leave_from(Origin::OURS, mailbox);
    }

    fn leave_from(&mut self, from: Origin, mailbox: &str) {
        let (mut job, answer) = deliver(mailbox);
        if let Job::Deliver { place, .. } = &mut job {
            place.origin = from;
        }
        self.desk.leave(job).unwrap();
        self.answers.push(answer);
    }

    /// What a writer takes at this moment: the mailboxes.
    fn pick(&self, now_ms: u64) -> Option<(Batch, Vec<String>)> {
        let mut state = lock(&self.desk.state);
        let batch = state.pick(now_ms)?;
        let places = &state.under_way[&batch.number].places;
        let mut places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        places.sort();
        Some((batch, places))
    }

    fn end(&self, batch: &Batch, now_ms: u64) {
        lock(&self.desk.state).end(batch, now_ms);
    }
}

fn desk_with(mailboxes: &[&str]) -> Waited {
    Waited::new(FILES_PER_MESSAGE * 2 * BATCH_MAX, mailboxes)
}

#[test]
fn what_waits_together_is_written_together() {
    let waited = desk_with(&["a", "b", "a", "c"]);
    let batch = waited.desk.take().unwrap();
    assert_eq!(batch.jobs.len(), 4);
    assert_eq!(waited.desk.metrics.writers_busy.get(), 1);
    waited.desk.done(batch, 4);
    assert_eq!(waited.desk.metrics.writers_busy.get(), 0);
}

#[test]
fn nobody_else_writes_to_a_mailbox_meanwhile() {
    let mut waited = desk_with(&["a"]);
    lock(&waited.desk.state).pace = WriterScaling::of(2);
    let (first, _) = waited.pick(0).unwrap();
    waited.leave("a");
    waited.leave("b");
    let (second, places) = waited.pick(0).unwrap();
    assert_eq!(places, ["b"]);
    assert!(waited.pick(0).is_none());
    waited.end(&first, 1);
    assert_eq!(waited.pick(1).unwrap().1, ["a"]);
    waited.end(&second, 1);
}

#[test]
fn a_batch_has_an_end() {
    let names: Vec<String> = (0..BATCH_MAX + 5).map(|n| n.to_string()).collect();
    let mut mailboxes: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(desk_with(&mailboxes).desk.take().unwrap().jobs.len(), BATCH_MAX);
    mailboxes.fill("same");
    assert_eq!(desk_with(&mailboxes).desk.take().unwrap().jobs.len(), BATCH_MAX);
}

#[test]
fn no_more_files_are_open_than_may_be() {
    let waited = Waited::new(2 * FILES_PER_MESSAGE, &["a", "b", "c", "d", "e"]);
    lock(&waited.desk.state).pace = WriterScaling::of(2);
    let batch = waited.desk.take().unwrap();
    assert_eq!(batch.jobs.len(), 2);
    assert!(waited.pick(0).is_none());
    waited.desk.done(batch, 2);
    assert_eq!(waited.desk.take().unwrap().jobs.len(), 2);
}

#[test]
fn files_that_are_written_in_pieces_count_as_open() {
    let root = tempfile::tempdir().unwrap();
    let place = MailboxPlace::at(root.path().to_owned());
    let mut begins = Vec::new();
    let mut waited = Waited::new(2 * FILES_PER_MESSAGE, &[]);
    for handle in 0..3 {
        let (answer, answered) = oneshot::channel();
        begins.push(answered);
        let (name, place) = (handle.to_string(), place.clone());
        waited.desk.leave(Job::Begin { handle, place, name, answer }).unwrap();
    }
    let batch = waited.desk.take().unwrap();
    assert_eq!(batch.jobs.len(), 2);
    let open = Maildir::open(&place, owner::own(), (&Mounted::new(), &Arc::<Counts>::default()));
    let maildir = Arc::new(open.unwrap());
    for handle in 0..2 {
        let since = std::time::SystemTime::now();
        let mail = NewMail::begin(Arc::clone(&maildir), handle.to_string(), since).unwrap();
        waited.desk.keep(handle, mail);
    }
    waited.desk.done(batch, 0);
    waited.leave("a");
    // Only what lets go of one goes on.
    assert!(waited.pick(0).is_none());
    let (answer, _answered) = oneshot::channel();
    waited.desk.leave(Job::Finish { handle: 0, keep: false, answer }).unwrap();
    let batch = waited.desk.take().unwrap();
    assert!(matches!(batch.jobs[..], [Job::Finish { .. }]));
    drop(waited.desk.open(0));
    waited.desk.done(batch, 0);
    assert!(matches!(waited.desk.take().unwrap().jobs[..], [Job::Begin { handle: 2, .. }]));
}

#[test]
fn what_was_left_before_the_end_is_done() {
    let waited = desk_with(&["a"]);
    waited.desk.close();
    let (late, _answer) = deliver("late");
    waited.desk.leave(late);
    assert_eq!(waited.desk.take().unwrap().jobs.len(), 1);
    assert!(waited.desk.take().is_none());
}

#[test]
fn what_nobody_waits_for_is_not_written() {
    let mut waited = desk_with(&["a", "b"]);
    drop(waited.answers.remove(0));
    assert_eq!(waited.pick(0).unwrap().1, ["b"]);
}

#[test]
fn a_mailbox_that_was_slow_is_written_by_itself_until_it_is_quick() {
    let mut waited = desk_with(&["slow", "b"]);
    let (first, _) = waited.pick(0).unwrap();
    waited.end(&first, FEW_MS + 1);
    // Either may have been it: each by itself, beside the usual writer.
    ["slow", "b", "c"].iter().for_each(|mailbox| waited.leave(mailbox));
    let now_ms = FEW_MS + 2;
    let (slow, places) = waited.pick(now_ms).unwrap();
    assert_eq!(places, ["slow"]);
    let (usual, places) = waited.pick(now_ms).unwrap();
    assert_eq!(places, ["c"]);
    let (b, places) = waited.pick(now_ms).unwrap();
    assert_eq!(places, ["b"]);
    waited.end(&b, now_ms + 10);
    waited.end(&usual, now_ms + 10);
    // It was not b: that is one of the others again, while the slow one is being written to.
    ["slow", "b", "c"].iter().for_each(|mailbox| waited.leave(mailbox));
    assert_eq!(waited.pick(now_ms + 11).unwrap().1, ["b", "c"]);
    assert!(waited.pick(now_ms + 11).is_none(), "it is taken");
    waited.end(&slow, now_ms + 3 * FEW_MS);
    let later = now_ms + 3 * FEW_MS + SUSPECT_MS;
    waited.leave("d");
    assert_eq!(waited.pick(later).unwrap().1, ["d", "slow"], "it is forgotten after a while");
}

#[test]
fn a_batch_that_does_not_end_keeps_nobody_from_being_written() {
    let mut waited = desk_with(&["hung", "b", "c"]);
    let _never = waited.pick(0).unwrap();
    waited.leave("b");
    waited.leave("d");
    assert!(waited.pick(SLOW_MS).is_none(), "it may end yet, and the pace is one writer");
    let mut written = Vec::new();
    while let Some((batch, places)) = waited.pick(FEW_MS + 1) {
        written.extend(places);
        waited.end(&batch, FEW_MS + 2);
    }
    written.sort();
    assert_eq!(written, ["b", "d"]);
    // A mailbox that hangs by itself has one writer, however much comes for it.
    let now_ms = 2 * FEW_MS;
    for _ in 0..5 {
        waited.leave("hung");
    }
    let (_never, places) = waited.pick(now_ms).unwrap();
    assert_eq!(places, ["hung"]);
    waited.leave("hung");
    assert!(waited.pick(now_ms + HUNG.as_millis() as u64).is_none());
    waited.leave("e");
    assert_eq!(waited.pick(now_ms + FEW_MS + 1).unwrap().1, ["e"]);
}

#[test]
fn when_all_writers_hang_nobody_waits_for_them() {
    let mut waited = desk_with(&[]);
    for n in 0..WRITERS_MAX {
        waited.leave(&n.to_string());
        let now_ms = n as u64 * (FEW_MS + 1);
        assert!(waited.pick(now_ms).is_some(), "{n}");
    }
    waited.leave("one more");
    let last_ms = WRITERS_MAX as u64 * (FEW_MS + 1);
    assert!(waited.pick(last_ms).is_none());
    let state = lock(&waited.desk.state);
    let hung_ms = HUNG.as_millis() as u64;
    let begun_ms = (WRITERS_MAX as u64 - 1) * (FEW_MS + 1);
    assert!(!state.does_hang(begun_ms + hung_ms - 1, hung_ms));
    assert!(state.does_hang(begun_ms + hung_ms, hung_ms));
}

/// Strangers of a hundred networks fill what the workers of mailboxes may bring at once; how many are written at most
/// before what each of a hundred others brings.
fn written_before(healthy: impl Fn(u16) -> Origin) -> usize {
    const WORKERS: usize = 512;
    let mut waited = desk_with(&[]);
    lock(&waited.desk.state).pace = WriterScaling::of(8);
    let (mut hostile, mut most) = (0_u64, 0);
    for n in 0..100 {
        while lock(&waited.desk.state).waiting.len() < WORKERS - 1 {
            let site = 1 + u16::try_from(hostile % 100).unwrap();
            waited.leave_from(Origin::of(site, 1), &format!("hostile{hostile}"));
            hostile += 1;
        }
        let mailbox = format!("healthy{n}");
        waited.leave_from(healthy(n), &mailbox);
        let mut before = 0;
        loop {
            let (batch, places) = waited.pick(0).unwrap();
            waited.end(&batch, 1);
            if places.contains(&mailbox) {
                break;
            }
            before += places.len();
        }
        most = most.max(before);
    }
    most
}

#[test]
fn strangers_of_a_hundred_networks_leave_turns_at_a_desk_to_others() {
    // A round of the hundred networks, in batches of 64.
    assert!(written_before(|n| Origin::of(1_000 + n, 1)) <= 128);
    // Neighbours in one network have a turn between them.
    assert!(written_before(|_| Origin::of(1_000, 1)) <= 128);
    assert_eq!(written_before(|_| Origin::OURS), 0, "they are in the first batch");
}
