//! Guards that count reports in progress: shutdown waits for these, but not for reports that are paused.

use super::Delivery;
use crate::seams::World;
use std::rc::Rc;

/// Counts a report in progress: shutdown waits for it.
pub(crate) struct DsnInProgress<W: World>(Rc<Delivery<W>>);

impl<W: World> DsnInProgress<W> {
    pub(crate) fn new(delivery: &Rc<Delivery<W>>) -> DsnInProgress<W> {
        delivery.gathering.begin();
        DsnInProgress(Rc::clone(delivery))
    }
}

impl<W: World> Drop for DsnInProgress<W> {
    fn drop(&mut self) {
        self.0.gathering.end();
    }
}

/// Counts a paused report: shutdown does not wait for it.
pub(crate) struct DsnPaused<W: World>(Rc<Delivery<W>>);

impl<W: World> DsnPaused<W> {
    pub(crate) fn new(delivery: &Rc<Delivery<W>>) -> DsnPaused<W> {
        delivery.gathering.pause();
        DsnPaused(Rc::clone(delivery))
    }
}

impl<W: World> Drop for DsnPaused<W> {
    fn drop(&mut self) {
        self.0.gathering.go_on();
    }
}
