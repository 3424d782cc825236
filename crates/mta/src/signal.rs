//! A wake-up for one task, noted by any other of the same thread.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Noted any number of times, taken once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_noted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    /// Wakes the task that waits, now or when it waits next.
    pub(crate) fn note(&self) {
        if !self.is_noted.replace(true)
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Ready if it was noted since it was last taken.
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
