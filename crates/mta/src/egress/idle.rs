//! Connections that wait for work.

use mail::map::FixedMap;
use queue::ReadyId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// One waiting connection.
#[derive(Debug, Default)]
pub(crate) struct IdleSlot {
    woken: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl IdleSlot {
    /// Ready once there is work (or the shard stops).
    pub(crate) fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.woken.get() {
            return Poll::Ready(());
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    fn wake(&self) {
        self.woken.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// All waiting connections of a shard by ready queue. The one that waited least is woken first:
/// in quiet times the others time out and go.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    slots: RefCell<FixedMap<ReadyId, Vec<Rc<IdleSlot>>>>,
}

impl IdleConnections {
    /// The calling connection waits from now on.
    pub(crate) fn enter(&self, ready: ReadyId) -> Rc<IdleSlot> {
        let slot = Rc::new(IdleSlot::default());
        self.slots.borrow_mut().entry(ready).or_default().push(Rc::clone(&slot));
        slot
    }

    /// The connection stops waiting. `false`: it was woken already and is not in the list.
    pub(crate) fn leave(&self, ready: ReadyId, slot: &Rc<IdleSlot>) -> bool {
        let mut all = self.slots.borrow_mut();
        let Some(waiting) = all.get_mut(&ready) else { return false };
        let Some(at) = waiting.iter().position(|other| Rc::ptr_eq(other, slot)) else {
            return false;
        };
        waiting.swap_remove(at);
        if waiting.is_empty() {
            all.remove(&ready);
        }
        true
    }

    /// Wakes the connection of `ready` that waited least.
    pub(crate) fn wake_one(&self, ready: ReadyId) {
        let mut all = self.slots.borrow_mut();
        let Some(waiting) = all.get_mut(&ready) else { return };
        let slot = waiting.pop();
        if waiting.is_empty() {
            all.remove(&ready);
        }
        drop(all);
        if let Some(slot) = slot {
            slot.wake();
        }
    }

    /// Wakes every waiting connection.
    pub(crate) fn wake_all(&self) {
        let all = std::mem::take(&mut *self.slots.borrow_mut());
        // The order does not show: each only looks at the queue, and finds it paused.
        for slot in all.into_values().flatten() {
            slot.wake();
        }
    }
}
