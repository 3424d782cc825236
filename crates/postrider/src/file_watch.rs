//! Files that are looked at again and again, because their content is in use: certificates, keys, passwords, tables,
//! lists of name servers. Any file may hang: one that does keeps the thread that looks at it, and another thread goes
//! on with the rest. Files that hang with their file system leave threads for those on others.

use crate::file_stamp::{Device, LOOK_EVERY};
use crate::mutex::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// Threads that look, those included that hang. With all of them hanging no file is looked at until one returns.
const THREADS_MAX: usize = 256;
/// Threads without work that are kept.
const FREE_MAX: usize = 2;

/// Looks once; false: there is nothing left to look at.
type WatchCallback = Box<dyn FnMut() -> bool + Send>;

/// What is looked at, and how.
struct WatchedItem {
    pause: Duration,
    /// The file system that it is on, where that is known.
    device: Option<Device>,
    look: WatchCallback,
}

/// Everything that is looked at. The threads end with it.
pub(crate) struct FileWatch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What nobody looks at now, by when it is looked at next, and by a number of its own.
    waiting: BTreeMap<(Instant, u64), WatchedItem>,
    next: u64,
    /// Looks under way, and those at each file system that is known.
    looking: usize,
    looking_at: BTreeMap<Device, usize>,
    threads: usize,
    free: usize,
    is_closed: bool,
}

impl fmt::Debug for FileWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileWatch")
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        state.waiting.clear();
        self.0.changed.notify_all();
    }
}

impl FileWatch {
    /// Starts the first thread.
    ///
    /// # Errors
    /// A sentence, when the system gives no thread.
    pub(crate) fn start() -> Result<Arc<FileWatch>, String> {
        let watch = FileWatch(Arc::default());
        let started = watch.0.start_thread(&mut lock(&watch.0.state));
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Arc::new(watch))
    }

    /// Looks now and then every [`LOOK_EVERY`], until `look` returns false. `device`: where the file is, if that is
    /// known.
    pub(crate) fn add(&self, device: Option<Device>, look: impl FnMut() -> bool + Send + 'static) {
        self.add_every(LOOK_EVERY, device, look);
    }

    /// Has `look` called as often with its owner, for as long as there is one.
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
        look: impl FnMut() -> bool + Send + 'static,
    ) {
        let looked = WatchedItem { pause, device, look: Box::new(look) };
        lock(&self.0.state).wait_until(Instant::now(), looked);
        self.0.changed.notify_one();
    }
}

impl State {
    fn wait_until(&mut self, due: Instant, looked: WatchedItem) {
        self.waiting.insert((due, self.next), looked);
        self.next += 1;
    }

    /// Begins with what is due, or says how long nothing is.
    fn take_due(&mut self, now: Instant) -> Result<WatchedItem, Duration> {
        let mut due = self.waiting.range(..=(now, u64::MAX));
        let key = due.find(|(_, looked)| self.may_look(looked.device)).map(|(key, _)| *key);
        if let Some(looked) = key.and_then(|key| self.waiting.remove(&key)) {
            self.looking += 1;
            *looked.device.map_or(&mut 0, |device| self.looking_at.entry(device).or_default()) += 1;
            return Ok(looked);
        }
        let next = self.waiting.range((now, u64::MAX)..).next();
        Err(next.map_or(LOOK_EVERY, |((due, _), _)| due.duration_since(now)))
    }

    /// A file system may have as many threads as it leaves to all others: however many files hang with it, and with
    /// a second and a third one, there are some for the next.
    fn may_look(&self, device: Option<Device>) -> bool {
        let there = device.and_then(|device| self.looking_at.get(&device)).copied().unwrap_or(0);
        there < THREADS_MAX.saturating_sub(self.looking)
    }

    fn end_look(&mut self, device: Option<Device>) {
        self.looking -= 1;
        let Some(device) = device else { return };
        let Some(there) = self.looking_at.get_mut(&device) else { return };
        *there -= 1;
        if *there == 0 {
            self.looking_at.remove(&device);
        }
    }
}

impl Inner {
    fn start_thread(self: &Arc<Inner>, state: &mut State) -> io::Result<()> {
        let inner = Arc::clone(self);
        thread::Builder::new().name("files".to_owned()).spawn(move || inner.work())?;
        state.threads += 1;
        state.free += 1;
        Ok(())
    }

    fn work(self: &Arc<Inner>) {
        let mut state = lock(&self.state);
        while !state.is_closed && state.free <= FREE_MAX {
            let mut looked = match state.take_due(Instant::now()) {
                Ok(looked) => looked,
                Err(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            state.free -= 1;
            // What is looked at may hang: somebody has to be there for the rest. Without a thread the rest waits.
            if state.free == 0 && state.threads < THREADS_MAX {
                let _ = self.start_thread(&mut state);
            }
            drop(state);
            let goes_on = (looked.look)();
            state = lock(&self.state);
            state.free += 1;
            state.end_look(looked.device);
            if goes_on && !state.is_closed {
                state.wait_until(Instant::now() + looked.pause, looked);
            }
        }
        state.threads -= 1;
        state.free -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const PAUSE: Duration = Duration::from_millis(1);

    #[test]
    fn what_hangs_keeps_its_thread_and_the_rest_is_looked_at() {
        let watch = FileWatch::start().unwrap();
        let (seen, looks) = mpsc::channel();
        let mut hanging = Vec::new();
        for _ in 0..THREADS_MAX - 1 {
            let (let_go, hangs) = mpsc::channel::<()>();
            hanging.push(let_go);
            watch.add_every(PAUSE, None, move || hangs.recv().is_ok());
        }
        watch.add_every(PAUSE, None, move || seen.send(()).is_ok());
        // With all but one hanging, the last one goes on.
        for _ in 0..THREADS_MAX {
            looks.recv().unwrap();
        }
        // Nobody looks any more once it has ended, and those that hang may end, too.
        drop((hanging, watch));
        while looks.recv().is_ok() {}
    }

    #[test]
    fn file_systems_that_hang_leave_threads_for_another() {
        let watch = FileWatch::start().unwrap();
        let mut hanging = Vec::new();
        for device in [1, 2, 3].map(Device::numbered) {
            for _ in 0..THREADS_MAX {
                let (let_go, hangs) = mpsc::channel::<()>();
                hanging.push(let_go);
                watch.add_every(PAUSE, Some(device), move || hangs.recv().is_ok());
            }
        }
        let of_any = [Some(Device::numbered(4)), None];
        let looks = of_any.map(|device| {
            let (seen, looks) = mpsc::channel();
            watch.add_every(PAUSE, device, move || seen.send(()).is_ok());
            looks
        });
        for looks in &looks {
            (0..10).for_each(|_| looks.recv().unwrap());
        }
        drop(watch);
        drop(hanging);
    }

    #[test]
    fn it_is_looked_at_until_it_is_over_and_threads_without_work_end() {
        let watch = FileWatch::start().unwrap();
        let (seen, looks) = mpsc::channel();
        let mut left = 5;
        watch.add_every(PAUSE, None, move || {
            seen.send(()).unwrap();
            left -= 1;
            left > 0
        });
        assert_eq!(looks.iter().count(), 5);
        let inner = Arc::clone(&watch.0);
        let state = lock(&inner.state);
        assert!(state.waiting.is_empty() && state.threads <= FREE_MAX, "{}", state.threads);
    }
}
