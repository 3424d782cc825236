//! A value with followers that are woken in the order of their arrival.
//!
//! `tokio::sync::watch` wakes them in a random order: the same seed would not give the same history.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The owner's side of a value.
pub struct Watched<T>(Arc<Mutex<State<T>>>);

/// A follower; a clone has seen the same version.
pub struct Watcher<T> {
    state: Arc<Mutex<State<T>>>,
    number: u64,
    seen: u64,
}

struct State<T> {
    value: T,
    version: u64,
    /// The owner was dropped.
    is_over: bool,
    next: u64,
    /// Waiting followers, by their numbers.
    waiting: BTreeMap<u64, Waker>,
}

/// The owner of the value was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn joined<T>(state: &Arc<Mutex<State<T>>>, seen: Option<u64>) -> Watcher<T> {
    let mut locked = lock(state);
    let (number, seen) = (locked.next, seen.unwrap_or(locked.version));
    locked.next += 1;
    drop(locked);
    Watcher { state: Arc::clone(state), number, seen }
}

impl<T> Watched<T> {
    /// Without followers.
    #[must_use]
    pub fn new(value: T) -> Watched<T> {
        let (is_over, waiting) = (false, BTreeMap::new());
        Watched(Arc::new(Mutex::new(State { value, version: 0, is_over, next: 0, waiting })))
    }

    /// Sets the value.
    pub fn set(&self, value: T) {
        self.change(|state| {
            state.version += 1;
            state.value = value;
        });
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let waiting = {
            let mut state = lock(&self.0);
            change(&mut state);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// A follower that has seen the current value.
    #[must_use]
    pub fn follow(&self) -> Watcher<T> {
        joined(&self.0, None)
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.change(|state| state.is_over = true);
    }
}

impl<T: Clone> Watcher<T> {
    /// The current value, without marking it as seen.
    #[must_use]
    pub fn get(&self) -> T {
        lock(&self.state).value.clone()
    }

    /// The current value, marked as seen.
    pub fn see(&mut self) -> T {
        let state = lock(&self.state);
        self.seen = state.version;
        state.value.clone()
    }

    /// Waits until the value satisfies `is_wanted`.
    ///
    /// # Errors
    /// The owner was dropped before.
    pub async fn wait_for(&mut self, is_wanted: impl Fn(&T) -> bool) -> Result<T, Gone> {
        loop {
            let value = self.see();
            if is_wanted(&value) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }
}

impl<T> Watcher<T> {
    /// Returns true if the value has changed since it was seen.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        lock(&self.state).version != self.seen
    }

    /// Waits for a change since the value was seen.
    ///
    /// # Errors
    /// The owner was dropped: the value will not change.
    pub async fn changed(&mut self) -> Result<(), Gone> {
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if state.version != self.seen {
                self.seen = state.version;
                return Poll::Ready(Ok(()));
            }
            if state.is_over {
                return Poll::Ready(Err(Gone));
            }
            state.waiting.insert(self.number, cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T> Clone for Watcher<T> {
    fn clone(&self) -> Watcher<T> {
        joined(&self.state, Some(self.seen))
    }
}

impl<T> Drop for Watcher<T> {
    fn drop(&mut self) {
        lock(&self.state).waiting.remove(&self.number);
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A signal that is set any number of times, and taken once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_noted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    /// Sets the signal, and wakes the waiting task.
    pub(crate) fn note(&self) {
        if !self.is_noted.replace(true)
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Ready if it was set since it was last taken.
    pub(crate) fn poll_taken(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_noted.take() {
            return Poll::Ready(());
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::{Context, Wake};

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    struct Noted(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Noted {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn all_are_woken_once_in_the_order_in_which_they_came() {
        let (value, woken) = (Watched::new(0), Arc::default());
        let mut followers: Vec<Watcher<u32>> = (0..100).map(|_| value.follow()).collect();
        let mut waiting: Vec<_> =
            followers.iter_mut().map(|follower| Box::pin(follower.changed())).collect();
        // In another order than that of their arrival.
        for (n, future) in waiting.iter_mut().enumerate().rev() {
            let waker = Waker::from(Arc::new(Noted(n as u32, Arc::clone(&woken))));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        value.set(1);
        value.set(2);
        assert_eq!(*woken.lock().unwrap(), (0..100).collect::<Vec<u32>>());
        assert!(waiting.iter_mut().all(|future| poll(future.as_mut()).is_ready()));
    }

    #[test]
    fn what_was_seen_is_no_change_and_the_owner_s_end_is_told() {
        let value = Watched::new(1);
        let mut first = value.follow();
        assert!(!first.has_changed());
        value.set(2);
        let mut second = first.clone();
        assert!(first.has_changed() && first.see() == 2 && !first.has_changed());
        assert!(second.has_changed(), "the clone has not seen it");
        assert_eq!(poll(pin!(second.changed())), Poll::Ready(Ok(())));
        assert!(poll(pin!(second.changed())).is_pending());
        assert_eq!(poll(pin!(second.wait_for(|value| *value == 2))), Poll::Ready(Ok(2)));
        value.set(3);
        drop(value);
        assert_eq!(poll(pin!(first.wait_for(|value| *value == 3))), Poll::Ready(Ok(3)), "its last");
        assert_eq!(poll(pin!(first.changed())), Poll::Ready(Err(Gone)));
        assert_eq!(poll(pin!(second.wait_for(|value| *value == 4))), Poll::Ready(Err(Gone)));
    }

    #[test]
    fn it_is_taken_once_however_often_it_was_noted() {
        let signal = Signal::default();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(signal.poll_taken(&mut cx).is_pending());
        signal.note();
        signal.note();
        assert!(signal.poll_taken(&mut cx).is_ready());
        assert!(signal.poll_taken(&mut cx).is_pending());
    }
}
