//! Idle connections that wait for messages.

use mail::map::FixedMap;
use queue::ReadyId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// An idle connection.
#[derive(Debug, Default)]
pub(crate) struct IdleSlot {
    /// Increases from slot to slot.
    number: u64,
    woken: Cell<bool>,
    /// The process is short of connections.
    asked_to_go: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl IdleSlot {
    /// Ready once the connection has work or the shard stops.
    pub(crate) fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.woken.get() {
            return Poll::Ready(());
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns true once after a request to close.
    pub(crate) fn is_asked_to_go(&self) -> bool {
        self.asked_to_go.take()
    }

    fn wake(&self) {
        self.woken.set(true);
        self.nudge();
    }

    fn nudge(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// The idle connections of a shard by ready queue. The most recent one is woken first, so that in quiet times the rest
/// time out and close.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    slots: RefCell<FixedMap<ReadyId, Vec<Rc<IdleSlot>>>>,
    next_number: Cell<u64>,
    entered: Notify,
}

impl IdleConnections {
    /// Enters the calling connection.
    pub(crate) fn enter(&self, ready: ReadyId) -> Rc<IdleSlot> {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let slot = Rc::new(IdleSlot { number, ..IdleSlot::default() });
        self.slots.borrow_mut().entry(ready).or_default().push(Rc::clone(&slot));
        slot
    }

    /// Removes the connection. Returns false if it has been woken and removed already.
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

    /// Wakes the most recent idle connection of `ready`.
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

    /// Signals a new idle connection, because another hop may need its permit.
    pub(crate) fn tell_entered(&self) {
        self.entered.notify_one();
    }

    /// Ready after [a signal](IdleConnections::tell_entered).
    pub(crate) async fn entered(&self) {
        self.entered.notified().await;
    }

    /// Asks `count` connections to close if possible, the longest idle first.
    pub(crate) fn ask_to_go(&self, count: u64) {
        let all = self.slots.borrow();
        let mut waiting: Vec<_> = all.values().flatten().collect();
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(waiting.len());
        if count == 0 {
            return;
        }
        // Numbers are unique, so the result does not depend on the map's order.
        waiting.select_nth_unstable_by_key(count - 1, |slot| slot.number);
        waiting.truncate(count);
        waiting.sort_unstable_by_key(|slot| slot.number);
        for slot in waiting {
            slot.asked_to_go.set(true);
            slot.nudge();
        }
    }

    /// Wakes all idle connections.
    pub(crate) fn wake_all(&self) {
        let all = std::mem::take(&mut *self.slots.borrow_mut());
        // The order has no effect: each checks the queue and finds it paused.
        for slot in all.into_values().flatten() {
            slot.wake();
        }
    }
}
