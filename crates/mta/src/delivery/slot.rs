//! What a channel works with: a connection slot of a ready queue.

use super::Delivery;
use crate::seams::World;
use mail::Failure;
use queue::{CloseReason, ReadyId};
use std::rc::Rc;
use std::sync::Arc;

/// A connection slot of a ready queue, given back when dropped, however the task ends.
pub(crate) struct Slot<W: World> {
    pub(crate) delivery: Rc<Delivery<W>>,
    pub(crate) ready: ReadyId,
    reason: CloseReason,
    held: bool,
}

impl<W: World> Slot<W> {
    /// The slot that the queue has just taken for `ready`.
    pub(super) fn new(delivery: &Rc<Delivery<W>>, ready: ReadyId) -> Slot<W> {
        Slot { delivery: Rc::clone(delivery), ready, reason: CloseReason::Normal, held: true }
    }

    /// The connection is open.
    pub(crate) fn opened(&self) {
        let now = self.delivery.services.now();
        self.delivery.schedule.queue_mut().handle_opened(now, self.ready);
        self.delivery.schedule.note_opening(self.ready);
    }

    /// The connection could not be opened: gives the slot back with the reason.
    pub(crate) fn open_failed(mut self, failure: Arc<Failure>) {
        self.held = false;
        let now = self.delivery.services.now();
        self.delivery.schedule.queue_mut().handle_open_failed(now, self.ready, failure);
        self.delivery.schedule.note_opening(self.ready);
    }

    /// There will never be mail service: gives the slot back, and all that waits fails.
    pub(crate) fn refused(mut self, failure: Arc<Failure>) {
        self.held = false;
        let now = self.delivery.services.now();
        self.delivery.schedule.queue_mut().handle_open_refused(now, self.ready, failure);
    }

    /// No connection was opened, for nothing waits for one any more.
    pub(crate) fn not_needed(mut self) {
        self.held = false;
        let now = self.delivery.services.now();
        self.delivery.schedule.queue_mut().handle_open_not_needed(now, self.ready);
    }

    /// Says why it will be closed.
    pub(crate) fn closing(&mut self, reason: CloseReason) {
        self.reason = reason;
    }
}

impl<W: World> Drop for Slot<W> {
    fn drop(&mut self) {
        if self.held {
            let now = self.delivery.services.now();
            self.delivery.schedule.queue_mut().handle_closed(now, self.ready, self.reason);
            #[cfg(feature = "planted")]
            if self.delivery.services.has_planted(crate::planted::Planted::ReleaseSlotTwice) {
                self.delivery.schedule.queue_mut().handle_closed(now, self.ready, self.reason);
            }
        }
    }
}
