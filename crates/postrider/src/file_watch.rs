//! Jobs with files: they look at files whose content is in use (certificates, keys, passwords, tables, lists of name
//! servers), and write the server's own files beside the spool. Any file may hang. A job that hangs keeps its thread, and
//! another thread runs the rest. Files that hang with their file system leave threads for other file systems.
//!
//! A look comes after each pause. A job with a [`Bell`] also runs as soon as the bell is rung.

use crate::file_stamp::{Device, FileIdentity, LOOK_EVERY};
use crate::mutex::lock;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// Maximum number of threads, with those that hang. With all of them hanging no job runs until one returns.
const THREADS_MAX: usize = 256;
/// Threads without work that are kept.
const FREE_MAX: usize = 2;

/// Runs once and returns the pause until the next time; `None`: the job has ended.
type Job = Box<dyn FnMut() -> Option<Duration> + Send>;

/// A job, and when and where it runs.
struct WatchedItem {
    number: u64,
    /// The file system that it is on, where that is known.
    device: Option<Device>,
    bell: Option<Arc<BellState>>,
    run: Job,
}

/// All jobs. The threads end with it.
pub(crate) struct FileWatch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs that don't run now, by the time of their next run, and by number.
    waiting: BTreeMap<(Instant, u64), WatchedItem>,
    /// Times under which jobs with a bell wait, by number.
    dues: BTreeMap<u64, Instant>,
    next: u64,
    /// Jobs that run, and those at each file system. Jobs at an unknown place count as one file system.
    looking: usize,
    looking_at: BTreeMap<Option<Device>, usize>,
    threads: usize,
    free: usize,
    is_closed: bool,
}

/// Jobs at one file system.
#[derive(Clone, Debug)]
pub(crate) struct FileJobs {
    watch: Arc<FileWatch>,
    device: Option<Device>,
}

/// Rings for a job to run. The job ends with its bell.
pub(crate) struct Bell {
    state: Arc<BellState>,
    /// There is a thread to run the job for as long as there is a bell.
    _watch: Arc<FileWatch>,
}

struct BellState {
    /// The job's number.
    number: u64,
    /// A ring that no run has followed yet.
    is_rung: AtomicBool,
    is_over: AtomicBool,
    inner: Weak<Inner>,
}

impl fmt::Debug for FileWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileWatch")
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        let waiting = {
            let mut state = lock(&self.0.state);
            state.is_closed = true;
            state.dues.clear();
            std::mem::take(&mut state.waiting)
        };
        self.0.changed.notify_all();
        // Not under the lock: a job may own a bell.
        drop(waiting);
    }
}

impl FileWatch {
    /// Starts the first thread.
    ///
    /// # Errors
    /// A sentence, when the system gives no thread.
    pub(crate) fn start() -> Result<Arc<FileWatch>, String> {
        let watch = FileWatch(Arc::default());
        lock(&watch.0.state).count_thread();
        let started = watch.0.start_thread();
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Arc::new(watch))
    }

    /// Calls `look` now and then every [`LOOK_EVERY`], until it returns false. `device`: the place of the file, if that
    /// is known.
    pub(crate) fn add(&self, device: Option<Device>, look: impl FnMut() -> bool + Send + 'static) {
        self.add_every(LOOK_EVERY, device, look);
    }

    /// Calls `look` with its owner as often, for as long as there is an owner.
    pub(crate) fn follow<T: Send + Sync + 'static>(
        &self,
        owner: &Arc<T>,
        look: impl FnMut(&Arc<T>) + Send + 'static,
    ) {
        self.follow_every(LOOK_EVERY, owner, look);
    }

    /// The same with another pause between two looks.
    pub(crate) fn follow_every<T: Send + Sync + 'static>(
        &self,
        pause: Duration,
        owner: &Arc<T>,
        mut look: impl FnMut(&Arc<T>) + Send + 'static,
    ) {
        let owner = Arc::downgrade(owner);
        let look = move || owner.upgrade().map(|owner| look(&owner)).is_some();
        self.add_every(pause, None, look);
    }

    /// The same with another pause between two looks.
    fn add_every(
        &self,
        pause: Duration,
        device: Option<Device>,
        mut look: impl FnMut() -> bool + Send + 'static,
    ) {
        let number = lock(&self.0.state).take_number();
        let run = Box::new(move || look().then_some(pause));
        self.add_item(WatchedItem { number, device, bell: None, run });
    }

    fn add_item(&self, item: WatchedItem) {
        lock(&self.0.state).wait_until(Instant::now(), item);
        self.0.changed.notify_one();
    }
}

impl FileJobs {
    /// Jobs at the file system of this directory.
    pub(crate) fn at(watch: &Arc<FileWatch>, directory: &Path) -> FileJobs {
        let device = FileIdentity::at(directory).map(|seen| seen.device());
        FileJobs { watch: Arc::clone(watch), device }
    }

    /// For looks that have no file there.
    pub(crate) fn watch(&self) -> &Arc<FileWatch> {
        &self.watch
    }

    /// Calls `job` now, after the pause that it returns, and as soon as its bell is rung, until it returns `None` or
    /// the bell is dropped. The waker rings the bell, too.
    pub(crate) fn add(
        &self,
        mut job: impl FnMut(&Waker) -> Option<Duration> + Send + 'static,
    ) -> Bell {
        let state = Arc::new(BellState {
            number: lock(&self.watch.0.state).take_number(),
            is_rung: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            inner: Arc::downgrade(&self.watch.0),
        });
        let (number, device, bell) = (state.number, self.device, Some(Arc::clone(&state)));
        let (own, waker) = (Arc::clone(&state), Waker::from(Arc::clone(&state)));
        let run = Box::new(move || match own.is_over.load(Ordering::Acquire) {
            true => None,
            false => job(&waker),
        });
        self.watch.add_item(WatchedItem { number, device, bell, run });
        Bell { state, _watch: Arc::clone(&self.watch) }
    }

    /// Calls `job` with its owner in the same way, for as long as there is an owner, too.
    pub(crate) fn follow<T: Send + Sync + 'static>(
        &self,
        owner: &Arc<T>,
        mut job: impl FnMut(&Arc<T>) -> Duration + Send + 'static,
    ) -> Bell {
        let owner = Arc::downgrade(owner);
        self.add(move |_| owner.upgrade().map(|owner| job(&owner)))
    }
}

impl Bell {
    /// Has the job run at once, or once more if it runs now. Waits for no run and no disk.
    pub(crate) fn ring(&self) {
        self.state.ring();
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        self.state.ring();
    }
}

impl BellState {
    fn ring(&self) {
        // A run takes the ring before it begins, and so sees all that was there before.
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(inner) = self.inner.upgrade() else { return };
        if lock(&inner.state).hurry(self.number, Instant::now()) {
            inner.changed.notify_one();
        }
    }
}

impl Wake for BellState {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

impl State {
    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait_until(&mut self, due: Instant, item: WatchedItem) {
        if item.bell.is_some() {
            self.dues.insert(item.number, due);
        }
        self.waiting.insert((due, item.number), item);
    }

    /// Makes a job with a bell due now. Returns false if it runs, or has ended.
    fn hurry(&mut self, number: u64, now: Instant) -> bool {
        let Some(due) = self.dues.get(&number).copied() else { return false };
        let item = self.waiting.remove(&(due, number));
        item.map(|item| self.wait_until(due.min(now), item)).is_some()
    }

    /// Begins a job that is due, or returns the time until the next one is.
    fn take_due(&mut self, now: Instant) -> Result<WatchedItem, Duration> {
        let mut due = self.waiting.range(..=(now, u64::MAX));
        let key = due.find(|(_, item)| self.may_look(item.device)).map(|(key, _)| *key);
        if let Some(item) = key.and_then(|key| self.waiting.remove(&key)) {
            self.looking += 1;
            *self.looking_at.entry(item.device).or_default() += 1;
            if let Some(bell) = &item.bell {
                self.dues.remove(&item.number);
                bell.is_rung.swap(false, Ordering::AcqRel);
            }
            return Ok(item);
        }
        let next = self.waiting.range((now, u64::MAX)..).next();
        let left = next.map_or(LOOK_EVERY, |((due, _), _)| due.duration_since(now));
        // A job that waits from later on may be due before.
        Err(left.min(LOOK_EVERY))
    }

    fn has_due(&self, now: Instant) -> bool {
        self.waiting.first_key_value().is_some_and(|((due, _), _)| *due <= now)
    }

    /// A file system may have as many threads as it leaves to all others: however many files hang with it, and with
    /// a second and a third one, there are some for the next.
    fn may_look(&self, device: Option<Device>) -> bool {
        let there = self.looking_at.get(&device).copied().unwrap_or(0);
        there < THREADS_MAX.saturating_sub(self.looking)
    }

    fn end_look(&mut self, device: Option<Device>) {
        self.looking -= 1;
        let Some(there) = self.looking_at.get_mut(&device) else { return };
        *there -= 1;
        if *there == 0 {
            self.looking_at.remove(&device);
        }
    }

    fn count_thread(&mut self) {
        self.threads += 1;
        self.free += 1;
    }

    fn discount_thread(&mut self) {
        self.threads -= 1;
        self.free -= 1;
    }
}

impl Inner {
    /// Starts a thread that is counted already.
    fn start_thread(self: &Arc<Inner>) -> io::Result<()> {
        let inner = Arc::clone(self);
        thread::Builder::new().name("files".to_owned()).spawn(move || inner.work())?;
        Ok(())
    }

    fn work(self: &Arc<Inner>) {
        let mut state = lock(&self.state);
        while !state.is_closed && state.free <= FREE_MAX {
            state = match state.take_due(Instant::now()) {
                Ok(item) => self.run(state, item),
                Err(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.discount_thread();
        // A job that this thread has put back may be due before the others wake.
        self.changed.notify_one();
    }

    /// Runs a job once, without the lock.
    fn run<'s>(
        self: &'s Arc<Inner>,
        mut state: MutexGuard<'s, State>,
        mut item: WatchedItem,
    ) -> MutexGuard<'s, State> {
        state.free -= 1;
        // The job may hang, and the other jobs need a thread. If the system gives none, they wait.
        let is_short = state.free == 0 && state.threads < THREADS_MAX;
        if is_short {
            state.count_thread();
        } else if state.has_due(Instant::now()) {
            self.changed.notify_one();
        }
        drop(state);
        if is_short && self.start_thread().is_err() {
            lock(&self.state).discount_thread();
        }
        let device = item.device;
        // A job that has ended is dropped here: it may own a bell, which takes the lock.
        let again = (item.run)().map(|pause| (pause, item));
        let mut state = lock(&self.state);
        state.free += 1;
        state.end_look(device);
        let Some((pause, item)) = again else { return state };
        if state.is_closed {
            drop(state);
            drop(item);
            return lock(&self.state);
        }
        let is_rung = |bell: &Arc<BellState>| bell.is_rung.load(Ordering::Acquire);
        let pause = if item.bell.as_ref().is_some_and(is_rung) { Duration::ZERO } else { pause };
        state.wait_until(Instant::now() + pause, item);
        state
    }
}

#[cfg(test)]
mod tests;
