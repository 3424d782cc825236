//! Files that are looked at again and again, because their content is in use: certificates, keys, passwords, tables,
//! lists of name servers. Any file may hang: one that does keeps the thread that looks at it, and another thread goes
//! on with the rest.

use crate::file_stamp::LOOK_EVERY;
use crate::mutex::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// Threads that look, those included that hang. With all of them hanging no file is looked at until one returns.
const THREADS_MAX: usize = 256;
/// Threads without work that are kept.
const FREE_MAX: usize = 2;

/// Looks once; false: there is nothing left to look at.
type Look = Box<dyn FnMut() -> bool + Send>;

/// Everything that is looked at. The threads end with it.
pub(crate) struct FileWatch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What nobody looks at now, and when it is looked at next.
    waiting: Vec<(Instant, Duration, Look)>,
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

    /// Looks now and then every [`LOOK_EVERY`], until `look` returns false.
    pub(crate) fn add(&self, look: impl FnMut() -> bool + Send + 'static) {
        self.add_every(LOOK_EVERY, look);
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
        self.add_every(pause, move || owner.upgrade().map(|owner| look(&owner)).is_some());
    }

    /// The same with another pause between two looks.
    fn add_every(&self, pause: Duration, look: impl FnMut() -> bool + Send + 'static) {
        let mut state = lock(&self.0.state);
        state.waiting.push((Instant::now(), pause, Box::new(look)));
        self.0.changed.notify_one();
    }
}

impl State {
    /// What is due, or how long nothing is.
    fn take_due(&mut self, now: Instant) -> Result<(Duration, Look), Duration> {
        let next = self.waiting.iter().enumerate().min_by_key(|(_, (due, ..))| *due);
        match next.map(|(at, (due, ..))| (at, *due)) {
            Some((at, due)) if due <= now => {
                let (_, pause, look) = self.waiting.swap_remove(at);
                Ok((pause, look))
            }
            Some((_, due)) => Err(due - now),
            None => Err(LOOK_EVERY),
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
            let (pause, mut look) = match state.take_due(Instant::now()) {
                Ok(due) => due,
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
            let goes_on = look();
            state = lock(&self.state);
            state.free += 1;
            if goes_on && !state.is_closed {
                state.waiting.push((Instant::now() + pause, pause, look));
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
            watch.add_every(PAUSE, move || hangs.recv().is_ok());
        }
        watch.add_every(PAUSE, move || seen.send(()).is_ok());
        // With all but one hanging, the last one goes on.
        for _ in 0..THREADS_MAX {
            looks.recv().unwrap();
        }
        // Nobody looks any more once it has ended, and those that hang may end, too.
        drop((hanging, watch));
        while looks.recv().is_ok() {}
    }

    #[test]
    fn it_is_looked_at_until_it_is_over_and_threads_without_work_end() {
        let watch = FileWatch::start().unwrap();
        let (seen, looks) = mpsc::channel();
        let mut left = 5;
        watch.add_every(PAUSE, move || {
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
