//! Whether a shard stops, and what it waits for then.

use mail::Mono;
use std::cell::Cell;
use tokio::sync::Notify;

/// Whether and until when the shard stops.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    until: Cell<Option<Mono>>,
    /// Wakes sessions and idle connections.
    pub(crate) notify: Notify,
    /// Tasks that must end before the shard may.
    pub(crate) busy: Cell<usize>,
}

impl Stopping {
    /// The shard stops; transactions have until then.
    pub(crate) fn begin(&self, until: Mono) {
        self.until.set(Some(until));
    }

    /// When the grace ends, once the shard stops.
    pub(crate) fn until(&self) -> Option<Mono> {
        self.until.get()
    }
}

/// Counts a task among those that a stop waits for.
#[derive(Debug)]
pub(crate) struct Busy<'a>(&'a Stopping);

impl<'a> Busy<'a> {
    pub(crate) fn new(stopping: &'a Stopping) -> Busy<'a> {
        stopping.busy.set(stopping.busy.get() + 1);
        Busy(stopping)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}
