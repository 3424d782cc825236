//! Shutdown of a shard, and the tasks that it waits for.

use mail::Mono;
use std::cell::Cell;
use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// State of the shutdown, and the end of its grace period.
#[derive(Debug, Default)]
pub struct Stopping {
    until: Cell<Option<Mono>>,
    /// Wakes sessions and idle connections.
    notify: Notify,
    /// Tasks that must end before the shard may.
    busy: Rc<Cell<usize>>,
}

impl Stopping {
    /// Begins the shutdown; transactions have until `until`.
    pub(crate) fn begin(&self, until: Mono) {
        self.until.set(Some(until));
    }

    /// Wakes listeners: at the start of the shutdown, and at the end of the grace period.
    pub(crate) fn wake(&self) {
        self.notify.notify_waiters();
    }

    /// The future for [`Stopping::poll_woken`].
    pub fn listen(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Ready when the shutdown begins, and once more at the end of its grace period; otherwise wakes the task then.
    pub fn poll_woken<'s>(
        &'s self,
        mut listening: Pin<&mut Notified<'s>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if listening.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        listening.set(self.listen());
        let _ = listening.as_mut().poll(cx);
        Poll::Ready(())
    }

    /// End of the grace period, if the shard is shutting down.
    #[must_use]
    pub fn until(&self) -> Option<Mono> {
        self.until.get()
    }

    /// A guard for the task that holds it: shutdown waits for it.
    #[must_use]
    pub fn guard(&self) -> StopGuard {
        self.busy.set(self.busy.get() + 1);
        StopGuard(Rc::clone(&self.busy))
    }

    /// Returns true if a task must end before the shard may.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.get() > 0
    }
}

/// Counts a task that shutdown waits for.
#[derive(Debug)]
pub struct StopGuard(Rc<Cell<usize>>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn who_listens_is_woken_by_the_stop_and_by_the_end_of_its_grace() {
        let stopping = Stopping::default();
        let mut listening = pin!(stopping.listen());
        let mut cx = Context::from_waker(Waker::noop());
        let mut is_woken = || stopping.poll_woken(listening.as_mut(), &mut cx).is_ready();
        assert!(!is_woken());
        for _ in ["the stop", "the end of its grace"] {
            stopping.wake();
            assert!(is_woken());
            assert!(!is_woken());
        }
    }
}
