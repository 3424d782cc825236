//! What must not outlive this program when it panics: then it ends at once, and nothing is dropped.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// What there is to do in this program.
static ALL: Works = Works::new();

/// Done at a panic, unless this was dropped before.
#[derive(Debug)]
pub struct OnPanic {
    _noted: Noted,
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

type Work = Box<dyn FnOnce() + Send>;

/// What is to be done, with numbers.
struct Works(Mutex<Vec<(u64, Work)>>);

impl Works {
    const fn new() -> Works {
        Works(Mutex::new(Vec::new()))
    }

    fn note(&'static self, work: Work) -> Noted {
        let mut works = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = works.last().map_or(0, |(number, _)| number + 1);
        works.push((number, work));
        Noted { of: self, number }
    }

    fn take_all(&self) {
        loop {
            let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((_, work)) = latest else { return };
            work();
        }
    }
}

/// Forgotten when it is dropped.
struct Noted {
    of: &'static Works,
    number: u64,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut works = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        works.retain(|(number, _)| *number != self.number);
    }
}

impl fmt::Debug for Noted {
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
    }
}
