//! The queue of writes to one file system. Shards add jobs, and writers take batches that may share syncs.
//!
//! A batch is as slow as its slowest mailbox. Mailboxes of a slow batch are therefore written alone for a while, by
//! additional writers, until they are fast again. A batch that hangs releases its mailboxes to other writers.

use super::new_mail::NewMail;
use super::pace::{WRITERS_MAX, WriterScaling};
use super::turns::{FairTurns, Walk};
use crate::mutex::lock;
use bytes::Bytes;
use mta::metrics::MailboxMetrics;
use mta::seams::{MailboxError, MailboxPlace};
use queue::Origin;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Maximum number of messages per batch, equal to the number of mailbox workers.
const BATCH_MAX: usize = 256;
/// Files that are open for one message: its own, and three directories.
const FILES_PER_MESSAGE: usize = 4;
/// Time after which a batch is slow, in milliseconds. A busy disk needs only a fraction.
const SLOW_MS: u64 = 1_000;
/// Additional time per message, since a busy disk is not a slow mailbox.
const SLOW_EACH_MS: u64 = 20;
/// Time for which a slow mailbox is written alone, unless it is fast again earlier.
const SUSPECT_MS: u64 = 60_000;
/// Maximum number of slow mailboxes remembered; at the limit the list is cleared.
const SUSPECTS_MAX: usize = 10_000;
/// Maximum number of writers for slow mailboxes.
const SUSPECT_WRITERS_MAX: usize = WRITERS_MAX / 2;
/// Interval at which a writer with waiting jobs checks for slow batches.
const LOOKED_EVERY: Duration = Duration::from_millis(200);

/// Receives the result of a job.
pub(super) type JobReply<T> = oneshot::Sender<Result<T, MailboxError>>;

/// Something to write.
#[derive(Debug)]
pub(super) enum Job {
    Deliver {
        place: MailboxPlace,
        name: String,
        pieces: Vec<Bytes>,
        answer: JobReply<()>,
    },
    Begin {
        handle: u64,
        place: MailboxPlace,
        name: String,
        answer: JobReply<u64>,
    },
    Append {
        handle: u64,
        piece: Bytes,
        answer: JobReply<()>,
    },
    Finish {
        handle: u64,
        keep: bool,
        answer: JobReply<()>,
    },
    /// Checks that a message of so many octets fits.
    Room {
        place: MailboxPlace,
        bytes: u64,
        answer: JobReply<()>,
    },
}

impl Job {
    /// The origin of the message, for fair turns; `None` for a job of an open file, which has its turn now.
    fn origin(&self) -> Option<Origin> {
        match self {
            Job::Deliver { place, .. } | Job::Begin { place, .. } | Job::Room { place, .. } => {
                Some(place.origin)
            }
            Job::Append { .. } | Job::Finish { .. } => None,
        }
    }

    /// Returns true if the attempt was abandoned, or the shard has ended.
    fn is_given_up(&self) -> bool {
        match self {
            Job::Begin { answer, .. } => answer.is_closed(),
            Job::Deliver { answer, .. } | Job::Append { answer, .. } | Job::Room { answer, .. } => {
                answer.is_closed()
            }
            // A message that was begun is finished.
            Job::Finish { .. } => false,
        }
    }
}

/// Progress of a job: the time at which a writer took it, in milliseconds, plus one; 0 while it waits.
pub(super) type JobProgress = Arc<AtomicU64>;

/// Waiting jobs, and writers at work.
#[derive(Debug)]
pub(super) struct MailboxWriteQueue {
    state: Mutex<State>,
    left: Condvar,
    metrics: Arc<MailboxMetrics>,
    started: Instant,
    /// A batch that takes longer does not end, in milliseconds.
    hung_ms: u64,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<(Job, JobProgress)>,
    turns: FairTurns,
    /// Files in tmp that are written piece by piece; a writer takes one out while it works on it.
    open: BTreeMap<u64, NewMail>,
    /// The mailboxes of open files.
    begun: HashMap<u64, PathBuf>,
    /// Mailboxes that are being written to, by which batch.
    taken: HashMap<PathBuf, u64>,
    /// Mailboxes that are written by themselves, and until when.
    suspects: HashMap<PathBuf, u64>,
    /// Writers at work, by the number of the batch.
    under_way: BTreeMap<u64, RunningBatch>,
    next_batch: u64,
    /// Time of the last end of a batch.
    done_ms: u64,
    /// Number of messages in batches, and the maximum including open ones.
    written: usize,
    messages_max: usize,
    pace: WriterScaling,
    is_closed: bool,
    /// Last values of the gauges: writers, busy writers and waiting jobs.
    shown: [i64; 3],
}

/// A batch that a writer works on.
#[derive(Debug)]
struct RunningBatch {
    since_ms: u64,
    /// Its mailboxes.
    places: HashSet<PathBuf>,
    /// It is slow when it takes longer.
    slow_ms: u64,
    /// It is of one mailbox that was slow.
    is_suspect: bool,
    /// It is known to be slow.
    is_slow: bool,
}

/// The work of one writer, which has exclusive use of its mailboxes. Two writers in one directory would block each
/// other in the kernel, and could exceed its quota together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) jobs: Vec<Job>,
    /// Original number of jobs.
    count: usize,
    number: u64,
}

impl MailboxWriteQueue {
    /// A queue for writers with this limit of open files; a batch that takes longer than `hung` counts as hanging.
    pub(super) fn new(
        metrics: Arc<MailboxMetrics>,
        files_max: usize,
        hung: Duration,
    ) -> MailboxWriteQueue {
        let state = State {
            waiting: VecDeque::new(),
            turns: FairTurns::default(),
            open: BTreeMap::new(),
            begun: HashMap::new(),
            taken: HashMap::new(),
            suspects: HashMap::new(),
            under_way: BTreeMap::new(),
            next_batch: 0,
            done_ms: 0,
            written: 0,
            messages_max: messages_of(files_max),
            pace: WriterScaling::new(),
            is_closed: false,
            shown: [0; 3],
        };
        let hung_ms = u64::try_from(hung.as_millis()).unwrap_or(u64::MAX);
        let (left, started) = (Condvar::new(), Instant::now());
        let desk = MailboxWriteQueue { state: Mutex::new(state), left, metrics, started, hung_ms };
        desk.show(&mut lock(&desk.state));
        desk
    }

    /// Changes the limit of open files.
    pub(super) fn set_files_max(&self, files_max: usize) {
        lock(&self.state).messages_max = messages_of(files_max);
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Adds a job. It is dropped, with its reply channel, if the queue is closed. Returns `None` if all writers hang;
    /// the job then fails at once.
    pub(super) fn leave(&self, job: Job) -> Option<JobProgress> {
        let now_ms = self.now_ms();
        let taken = JobProgress::default();
        let mut state = lock(&self.state);
        if state.does_hang(now_ms, self.hung_ms) {
            return None;
        }
        if !state.is_closed {
            state.waiting.push_back((job, Arc::clone(&taken)));
            self.show(&mut state);
            if state.has_writer(now_ms) {
                self.left.notify_one();
            }
        }
        Some(taken)
    }

    /// Returns true if a job that timed out may still end: a writer took it recently, or, while it waits, another batch
    /// ended recently. Forgets abandoned jobs.
    pub(super) fn is_moving(&self, taken: &JobProgress) -> bool {
        let now_ms = self.now_ms();
        let mut state = lock(&self.state);
        state.waiting.retain(|(job, _)| !job.is_given_up());
        let since_ms = match taken.load(Ordering::Relaxed).checked_sub(1) {
            Some(taken_ms) => taken_ms,
            None => state.done_ms,
        };
        now_ms.saturating_sub(since_ms) < self.hung_ms
    }

    /// Age of the oldest running batch.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let now_ms = self.now_ms();
        let oldest = lock(&self.state).under_way.values().map(|batch| batch.since_ms).min()?;
        Some(Duration::from_millis(now_ms.saturating_sub(oldest)))
    }

    /// Waits for a turn and for work. `None`: there will be none any more.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        loop {
            let now_ms = self.now_ms();
            if let Some(batch) = state.pick(now_ms) {
                // Wake another writer for the remaining jobs.
                if !state.waiting.is_empty() && state.has_writer(now_ms) {
                    self.left.notify_one();
                }
                self.show(&mut state);
                return Some(batch);
            }
            if state.is_closed && state.waiting.is_empty() {
                return None;
            }
            state = match state.waiting.is_empty() {
                true => self.left.wait(state).unwrap_or_else(PoisonError::into_inner),
                // The batch that blocks these jobs may become slow in this time.
                false => {
                    let waited = self.left.wait_timeout(state, LOOKED_EVERY);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Notes the time of a batch.
    pub(super) fn observe(&self, time: Duration) {
        self.metrics.write_time.observe(time);
    }

    /// Ends a batch with this number of messages delivered.
    pub(super) fn done(&self, batch: Batch, delivered: u64) {
        let now_ms = self.now_ms();
        let mut state = lock(&self.state);
        let is_short = !state.waiting.is_empty() && state.usual_writers() >= state.pace.writers();
        state.end(&batch, now_ms);
        state.pace.handle_delivered(now_ms, delivered, is_short);
        self.metrics.batches.add(1);
        self.metrics.written.add(delivered);
        self.show(&mut state);
        // The caller returns for more; other writers may be allowed to work now.
        if !state.waiting.is_empty() && state.usual_writers() + 1 < state.pace.writers() {
            self.left.notify_one();
        }
    }

    /// Accepts no more jobs; waiting ones are completed.
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

    /// All desks together are in the numbers.
    fn show(&self, state: &mut State) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let now = [state.pace.writers(), state.under_way.len(), state.waiting.len()].map(count);
        let MailboxWriteQueue { metrics, .. } = self;
        for (gauge, (now, shown)) in [&metrics.writers, &metrics.writers_busy, &metrics.waiting]
            .into_iter()
            .zip(now.into_iter().zip(state.shown))
        {
            gauge.add(now - shown);
        }
        state.shown = now;
    }
}

fn messages_of(files_max: usize) -> usize {
    (files_max / FILES_PER_MESSAGE).max(1)
}

impl State {
    /// Writers counted by the scaling.
    fn usual_writers(&self) -> usize {
        self.under_way.values().filter(|batch| !batch.is_slow && !batch.is_suspect).count()
    }

    /// Returns true if another writer may begin to work.
    fn has_writer(&mut self, now_ms: u64) -> bool {
        self.note_slow(now_ms);
        self.under_way.len() < WRITERS_MAX
            && (self.usual_writers() < self.pace.writers()
                || (!self.suspects.is_empty() && self.has_suspect_writer()))
    }

    /// Returns true if another writer may begin to work on a slow mailbox.
    fn has_suspect_writer(&self) -> bool {
        let beside = self.under_way.values().filter(|batch| batch.is_slow || batch.is_suspect);
        beside.count() < SUSPECT_WRITERS_MAX
    }

    /// Returns true if all writers are busy, and none has finished for `hung_ms`.
    fn does_hang(&self, now_ms: u64, hung_ms: u64) -> bool {
        let is_over = |since_ms: u64| now_ms.saturating_sub(since_ms) >= hung_ms;
        self.under_way.len() >= WRITERS_MAX
            && is_over(self.done_ms)
            && self.under_way.values().all(|batch| is_over(batch.since_ms))
    }

    /// Marks batches that have become slow. A slow batch of several mailboxes releases them, to be written one by one:
    /// any mailbox may be the one that hangs.
    fn note_slow(&mut self, now_ms: u64) {
        for (number, batch) in &mut self.under_way {
            if batch.is_slow || now_ms.saturating_sub(batch.since_ms) <= batch.slow_ms {
                continue;
            }
            batch.is_slow = true;
            let is_alone = batch.places.len() == 1;
            for place in &batch.places {
                suspect(&mut self.suspects, place, now_ms);
                if !is_alone && self.taken.get(place) == Some(number) {
                    self.taken.remove(place);
                }
            }
        }
    }

    fn end(&mut self, batch: &Batch, now_ms: u64) {
        self.written -= batch.count;
        self.done_ms = now_ms;
        let Some(ended) = self.under_way.remove(&batch.number) else { return };
        let is_slow = ended.is_slow || now_ms.saturating_sub(ended.since_ms) > ended.slow_ms;
        for place in &ended.places {
            if self.taken.get(place) == Some(&batch.number) {
                self.taken.remove(place);
            }
            if is_slow {
                suspect(&mut self.suspects, place, now_ms);
            } else if ended.is_suspect {
                self.suspects.remove(place);
            }
        }
    }

    fn is_suspect(&self, place: &PathBuf, now_ms: u64) -> bool {
        self.suspects.get(place).is_some_and(|until| *until > now_ms)
    }

    /// The next batch for a writer, if there is work that may start now.
    fn pick(&mut self, now_ms: u64) -> Option<Batch> {
        self.note_slow(now_ms);
        self.waiting.retain(|(job, _)| !job.is_given_up());
        if self.waiting.is_empty() || self.under_way.len() >= WRITERS_MAX {
            return None;
        }
        let works_on_suspect = self.under_way.values().any(|batch| batch.is_suspect);
        let can_usual = self.usual_writers() < self.pace.writers();
        // Alternate, so that neither kind blocks the other.
        let first = if works_on_suspect { None } else { self.pick_suspect(now_ms) };
        first
            .or_else(|| can_usual.then(|| self.pick_usual(now_ms)).flatten())
            .or_else(|| self.pick_suspect(now_ms))
    }

    /// One writer's share of the waiting jobs, which are divided evenly among the idle writers.
    fn pick_usual(&mut self, now_ms: u64) -> Option<Batch> {
        let idle = self.pace.writers().saturating_sub(self.usual_writers()).max(1);
        let share = self.waiting.len().div_ceil(idle).min(BATCH_MAX);
        self.gather(now_ms, share, None)
    }

    /// The waiting jobs of the first slow mailbox that no writer works on.
    fn pick_suspect(&mut self, now_ms: u64) -> Option<Batch> {
        if self.suspects.is_empty() || !self.has_suspect_writer() {
            return None;
        }
        let place_of = |(job, _): &(Job, JobProgress)| self.place_of(job);
        let is_free =
            |place: &PathBuf| self.is_suspect(place, now_ms) && !self.taken.contains_key(place);
        let place = self.waiting.iter().filter_map(place_of).find(is_free)?;
        self.gather(now_ms, BATCH_MAX, Some(place))
    }

    /// The mailbox that a job is about.
    fn place_of(&self, job: &Job) -> Option<PathBuf> {
        match job {
            Job::Deliver { place, .. } | Job::Begin { place, .. } | Job::Room { place, .. } => {
                Some(place.path())
            }
            Job::Append { handle, .. } | Job::Finish { handle, .. } => {
                self.begun.get(handle).cloned()
            }
        }
    }

    /// Takes up to `share` jobs in fair turns: those of one mailbox, or of all mailboxes that are not slow.
    fn gather(&mut self, now_ms: u64, share: usize, only: Option<PathBuf>) -> Option<Batch> {
        let open = self.written + self.open.len();
        let room = share.min(self.messages_max.saturating_sub(open));
        let number = self.next_batch;
        let mut places = HashSet::with_capacity(room);
        let chosen = self.choose((now_ms, number), room, only.as_ref(), &mut places);
        let count = chosen.iter().filter(|is_chosen| **is_chosen).count();
        if count == 0 {
            return None;
        }
        let (mut jobs, mut others) = (Vec::with_capacity(count), VecDeque::new());
        for (waiting, is_chosen) in std::mem::take(&mut self.waiting).into_iter().zip(chosen) {
            if !is_chosen {
                others.push_back(waiting);
                continue;
            }
            let (job, taken) = waiting;
            match &job {
                Job::Begin { handle, place, .. } => {
                    self.begun.insert(*handle, place.path());
                }
                Job::Finish { handle, .. } => {
                    self.begun.remove(handle);
                }
                Job::Deliver { .. } | Job::Append { .. } | Job::Room { .. } => {}
            }
            taken.store(now_ms + 1, Ordering::Relaxed);
            jobs.push(job);
        }
        self.waiting = others;
        self.next_batch += 1;
        self.written += jobs.len();
        let is_suspect = only.is_some();
        let slow_ms = SLOW_MS + SLOW_EACH_MS * jobs.len() as u64;
        let batch = RunningBatch { since_ms: now_ms, places, slow_ms, is_suspect, is_slow: false };
        self.under_way.insert(number, batch);
        Some(Batch { count: jobs.len(), jobs, number })
    }

    /// Selects the waiting jobs of a batch: all jobs of open files, and of new messages as many as the limit allows.
    /// Reserves their mailboxes for the batch.
    fn choose(
        &mut self,
        (now_ms, number): (u64, u64),
        mut room: usize,
        only: Option<&PathBuf>,
        places: &mut HashSet<PathBuf>,
    ) -> Vec<bool> {
        let mut chosen = vec![false; self.waiting.len()];
        let mut choose = |state: &mut State, at: usize, is_open: bool| {
            let Some(path) = state.waiting.get(at).map(|(job, _)| state.place_of(job)) else {
                return false;
            };
            let is_meant = match (only, &path) {
                (Some(only), path) => path.as_ref() == Some(only),
                (None, Some(path)) => !state.is_suspect(path, now_ms),
                (None, None) => true,
            };
            let by = path.as_ref().and_then(|path| state.taken.get(path));
            if !is_meant || (!is_open && by.is_some_and(|by| *by != number)) {
                return false;
            }
            if let Some(path) = path {
                state.taken.entry(path.clone()).or_insert(number);
                places.insert(path);
            }
            if let Some(is_chosen) = chosen.get_mut(at) {
                *is_chosen = true;
            }
            true
        };
        let mut others = Vec::with_capacity(self.waiting.len());
        for at in 0..self.waiting.len() {
            match self.waiting.get(at).and_then(|(job, _)| job.origin()) {
                Some(origin) => others.push((at, origin)),
                None => _ = choose(self, at, true),
            }
        }
        // Fair turns are needed only if the limit excludes some jobs.
        let has_turns = others.len() > room;
        let in_turn = |(at, origin)| (at, if has_turns { origin } else { Origin::OURS });
        let mut turns = std::mem::take(&mut self.turns);
        let mut walk = Walk::new(&mut turns, others.into_iter().map(in_turn));
        while room > 0 {
            let mut take = |at| {
                let is_taken = choose(self, at, false);
                room -= usize::from(is_taken);
                is_taken
            };
            if walk.next(&mut take).is_none() {
                break;
            }
        }
        self.turns = turns;
        chosen
    }
}

fn suspect(suspects: &mut HashMap<PathBuf, u64>, place: &PathBuf, now_ms: u64) {
    if suspects.len() >= SUSPECTS_MAX && !suspects.contains_key(place) {
        suspects.clear();
    }
    suspects.insert(place.clone(), now_ms + SUSPECT_MS);
}

#[cfg(test)]
mod tests;
