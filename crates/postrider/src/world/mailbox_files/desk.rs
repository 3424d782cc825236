//! Where shards leave what is to be written, and writers take it: as much at once as may share its
//! syncs.

use super::new_mail::NewMail;
use super::pace::Pace;
use crate::mutex::lock;
use bytes::Bytes;
use mta::metrics::MailboxMetrics;
use mta::seams::{MailboxError, MailboxPlace};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Messages that are written together, at most: as many as there are workers who bring them.
const BATCH_MAX: usize = 256;
/// Files that are open for one message: its own, and three directories.
const FILES_PER_MESSAGE: usize = 4;

/// Takes what became of a job.
pub(super) type Answer<T> = oneshot::Sender<Result<T, MailboxError>>;

/// Something to write.
#[derive(Debug)]
pub(super) enum Job {
    Deliver { place: MailboxPlace, name: String, pieces: Vec<Bytes>, answer: Answer<()> },
    Begin { handle: u64, place: MailboxPlace, name: String, answer: Answer<u64> },
    Append { handle: u64, piece: Bytes, answer: Answer<()> },
    Finish { handle: u64, keep: bool, answer: Answer<()> },
}

/// What waits, and who works.
#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    left: Condvar,
    metrics: Arc<MailboxMetrics>,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Job>,
    /// Files in tmp that are written piece by piece; a writer takes one out while it works on it.
    open: BTreeMap<u64, NewMail>,
    /// Mailboxes that are being written to.
    taken: HashSet<PathBuf>,
    /// Writers at work.
    busy: usize,
    /// Messages that they work on, and how many there may be with those that are open.
    written: usize,
    messages_max: usize,
    pace: Pace,
    is_closed: bool,
}

/// What one writer works on. The mailboxes in it are nobody else's meanwhile: two that write to one
/// directory wait for each other in the system, and could overdraw its quota together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) jobs: Vec<Job>,
    /// How many jobs it had.
    count: usize,
    /// The mailboxes.
    places: HashSet<PathBuf>,
}

impl Desk {
    /// For writers that may have so many files open at once.
    pub(super) fn new(metrics: Arc<MailboxMetrics>, files_max: usize) -> Desk {
        let state = State {
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            taken: HashSet::new(),
            busy: 0,
            written: 0,
            messages_max: (files_max / FILES_PER_MESSAGE).max(1),
            pace: Pace::new(),
            is_closed: false,
        };
        let desk = Desk { state: Mutex::new(state), left: Condvar::new(), metrics };
        desk.show(&lock(&desk.state));
        desk
    }

    /// Leaves a job. It is dropped, with its answer, when the desk is closed.
    pub(super) fn leave(&self, job: Job) {
        let mut state = lock(&self.state);
        if !state.is_closed {
            state.waiting.push_back(job);
            self.show(&state);
            if state.busy < state.pace.writers() {
                self.left.notify_one();
            }
        }
    }

    /// Waits for a turn and for work. `None`: there will be none any more.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        loop {
            if state.busy < state.pace.writers()
                && let Some(batch) = state.pick()
            {
                state.busy += 1;
                // Those that others may work on at the same time.
                if !state.waiting.is_empty() && state.busy < state.pace.writers() {
                    self.left.notify_one();
                }
                self.show(&state);
                return Some(batch);
            }
            if state.is_closed && state.waiting.is_empty() {
                return None;
            }
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A batch is done, with so many messages delivered, at `now_ms` of a clock that never goes back.
    pub(super) fn done(&self, batch: Batch, delivered: u64, now_ms: u64) {
        let mut state = lock(&self.state);
        let is_short = !state.waiting.is_empty() && state.busy >= state.pace.writers();
        for place in &batch.places {
            state.taken.remove(place);
        }
        state.busy -= 1;
        state.written -= batch.count;
        state.pace.handle_delivered(now_ms, delivered, is_short);
        self.metrics.batches.add(1);
        self.metrics.written.add(delivered);
        self.show(&state);
        // The caller comes back for more; others may be allowed to work since.
        if !state.waiting.is_empty() && state.busy + 1 < state.pace.writers() {
            self.left.notify_one();
        }
    }

    /// Nothing is left here any more; what was is still done.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.left.notify_all();
    }

    /// Keeps a file that is written piece by piece.
    pub(super) fn keep(&self, handle: u64, mail: NewMail) {
        lock(&self.state).open.insert(handle, mail);
    }

    /// Takes it out.
    pub(super) fn open(&self, handle: u64) -> Option<NewMail> {
        lock(&self.state).open.remove(&handle)
    }

    fn show(&self, state: &State) {
        self.metrics.writers.set_u64(state.pace.writers() as u64);
        self.metrics.writers_busy.set_u64(state.busy as u64);
        self.metrics.waiting.set_u64(state.waiting.len() as u64);
    }
}

impl State {
    /// The part of what waits that is one writer's: of those who may work and don't, each has as
    /// much.
    fn pick(&mut self) -> Option<Batch> {
        let idle = self.pace.writers().saturating_sub(self.busy).max(1);
        let share = self.waiting.len().div_ceil(idle).min(BATCH_MAX);
        let open = self.written + self.open.len();
        let mut room = share.min(self.messages_max.saturating_sub(open));
        let (mut jobs, mut places) = (Vec::with_capacity(room), HashSet::with_capacity(room));
        let mut others = VecDeque::with_capacity(self.waiting.len());
        while let Some(job) = self.waiting.pop_front() {
            let path = match &job {
                // Of a file that is open: its turn is now.
                Job::Append { .. } | Job::Finish { .. } => {
                    jobs.push(job);
                    continue;
                }
                Job::Begin { .. } => None,
                Job::Deliver { place, .. } => Some(place.path()),
            };
            let is_ours = path.as_ref().is_none_or(|path| places.contains(path));
            let is_elsewhere =
                !is_ours && path.as_ref().is_some_and(|path| self.taken.contains(path));
            if room == 0 || is_elsewhere {
                others.push_back(job);
                continue;
            }
            if let Some(path) = path.filter(|_| !is_ours) {
                self.taken.insert(path.clone());
                places.insert(path);
            }
            room -= 1;
            jobs.push(job);
        }
        self.waiting = others;
        self.written += jobs.len();
        (!jobs.is_empty()).then(|| Batch { count: jobs.len(), jobs, places })
    }
}

#[cfg(test)]
mod tests {
    use super::super::maildir::Maildir;
    use super::super::owner;
    use super::*;

    fn deliver(mailbox: &str) -> Job {
        let place = MailboxPlace::at(PathBuf::from(mailbox));
        Job::Deliver {
            place,
            name: String::new(),
            pieces: Vec::new(),
            answer: oneshot::channel().0,
        }
    }

    fn desk_with(mailboxes: &[&str]) -> Desk {
        let desk = Desk::new(Arc::default(), FILES_PER_MESSAGE * 2 * BATCH_MAX);
        mailboxes.iter().for_each(|mailbox| desk.leave(deliver(mailbox)));
        desk
    }

    #[test]
    fn what_waits_together_is_written_together() {
        let desk = desk_with(&["a", "b", "a", "c"]);
        let batch = desk.take().unwrap();
        assert_eq!(batch.jobs.len(), 4);
        assert_eq!(batch.places, ["a", "b", "c"].map(PathBuf::from).into());
        desk.done(batch, 4, 0);
        assert_eq!(desk.metrics.writers_busy.get(), 0);
    }

    #[test]
    fn nobody_else_writes_to_a_mailbox_meanwhile() {
        let desk = desk_with(&["a"]);
        lock(&desk.state).pace = Pace::of(2);
        let first = desk.take().unwrap();
        desk.leave(deliver("a"));
        desk.leave(deliver("b"));
        let second = desk.take().unwrap();
        assert_eq!(second.places, [PathBuf::from("b")].into());
        desk.done(first, 1, 0);
        assert_eq!(desk.take().unwrap().places, [PathBuf::from("a")].into());
        desk.done(second, 1, 0);
    }

    #[test]
    fn a_batch_has_an_end() {
        let names: Vec<String> = (0..BATCH_MAX + 5).map(|n| n.to_string()).collect();
        let mut mailboxes: Vec<&str> = names.iter().map(String::as_str).collect();
        let desk = desk_with(&mailboxes);
        assert_eq!(desk.take().unwrap().jobs.len(), BATCH_MAX);
        mailboxes.fill("same");
        let desk = desk_with(&mailboxes);
        assert_eq!(desk.take().unwrap().jobs.len(), BATCH_MAX);
    }

    #[test]
    fn no_more_files_are_open_than_may_be() {
        let desk = Desk::new(Arc::default(), 2 * FILES_PER_MESSAGE);
        lock(&desk.state).pace = Pace::of(2);
        ["a", "b", "c", "d", "e"].iter().for_each(|mailbox| desk.leave(deliver(mailbox)));
        let batch = desk.take().unwrap();
        assert_eq!(batch.jobs.len(), 2);
        assert!(lock(&desk.state).pick().is_none());
        desk.done(batch, 2, 0);
        assert_eq!(desk.take().unwrap().jobs.len(), 2);
    }

    #[test]
    fn files_that_are_written_in_pieces_count_as_open() {
        let root = tempfile::tempdir().unwrap();
        let place = MailboxPlace::at(root.path().to_owned());
        let begin = |handle: u64| {
            let (name, answer) = (handle.to_string(), oneshot::channel().0);
            Job::Begin { handle, place: place.clone(), name, answer }
        };
        let desk = Desk::new(Arc::default(), 2 * FILES_PER_MESSAGE);
        (0..3).for_each(|handle| desk.leave(begin(handle)));
        let batch = desk.take().unwrap();
        assert_eq!(batch.jobs.len(), 2);
        let maildir = Maildir::open(&place, owner::own()).unwrap();
        let maildir = Arc::new(maildir);
        for handle in 0..2 {
            let mail = NewMail::begin(Arc::clone(&maildir), handle.to_string()).unwrap();
            desk.keep(handle, mail);
        }
        desk.done(batch, 0, 0);
        desk.leave(deliver("a"));
        // Only what lets go of one goes on.
        assert!(lock(&desk.state).pick().is_none());
        desk.leave(Job::Finish { handle: 0, keep: false, answer: oneshot::channel().0 });
        let batch = desk.take().unwrap();
        assert!(matches!(batch.jobs[..], [Job::Finish { .. }]));
        drop(desk.open(0));
        desk.done(batch, 0, 0);
        assert!(matches!(desk.take().unwrap().jobs[..], [Job::Begin { handle: 2, .. }]));
    }

    #[test]
    fn what_was_left_before_the_end_is_done() {
        let desk = desk_with(&["a"]);
        desk.close();
        desk.leave(deliver("late"));
        assert_eq!(desk.take().unwrap().jobs.len(), 1);
        assert!(desk.take().is_none());
    }
}
