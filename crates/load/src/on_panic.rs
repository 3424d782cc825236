//! What must not outlive this program when it panics: then it ends at once, and nothing is dropped.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What there is to do in this program.
static ALL: Works = Works::new();

/// Done at a panic, unless this was dropped before.
#[derive(Debug)]
pub struct OnPanic {
    _noted: CleanupGuard,
}

impl OnPanic {
    /// Remembers what to do. It must not panic itself.
    #[must_use]
    pub fn new(work: impl FnOnce() + Send + 'static) -> OnPanic {
        OnPanic { _noted: ALL.note(Box::new(work)) }
    }
}

/// Does all of it, the latest first; for a panic's hook.
pub fn do_all() {
    ALL.take_all();
}

type CleanupTask = Box<dyn FnOnce() + Send>;

/// What is to be done, the latest last.
struct Works {
    noted: Mutex<CleanupList>,
    /// Held by who does it: others that panic meanwhile wait, and end the program no sooner.
    doing: Mutex<()>,
}

struct CleanupList {
    /// With numbers.
    works: Vec<(u64, CleanupTask)>,
    /// The next.
    number: u64,
    /// It was done: what comes now is done at once.
    is_over: bool,
}

impl Works {
    const fn new() -> Works {
        let list = CleanupList { works: Vec::new(), number: 0, is_over: false };
        Works { noted: Mutex::new(list), doing: Mutex::new(()) }
    }

    fn list(&self) -> MutexGuard<'_, CleanupList> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&'static self, work: CleanupTask) -> CleanupGuard {
        let mut list = self.list();
        let number = list.number;
        list.number += 1;
        if list.is_over {
            drop(list);
            work();
        } else {
            list.works.push((number, work));
        }
        CleanupGuard { of: self, number }
    }

    fn take_all(&self) {
        let _doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut list = self.list();
            list.is_over = true;
            let Some((_, work)) = list.works.pop() else { return };
            drop(list);
            work();
        }
    }
}

/// Forgotten when it is dropped.
struct CleanupGuard {
    of: &'static Works,
    number: u64,
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        self.of.list().works.retain(|(number, _)| *number != self.number);
    }
}

impl fmt::Debug for CleanupGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Not those of the program: they kill what other tests have started.
    static OWN: Works = Works::new();

    #[test]
    fn what_is_not_dropped_is_done_once_and_the_latest_first() {
        let (send, done) = mpsc::channel();
        let note = |word: &'static str| {
            let send = send.clone();
            OWN.note(Box::new(move || send.send(word).unwrap()))
        };
        let (_first, dropped, _last) = (note("first"), note("dropped"), note("last"));
        drop(dropped);
        OWN.take_all();
        OWN.take_all();
        assert_eq!(done.try_iter().collect::<Vec<_>>(), ["last", "first"]);
        let _late = note("late");
        assert_eq!(done.try_iter().collect::<Vec<_>>(), ["late"]);
    }
}
