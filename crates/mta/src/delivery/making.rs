//! What a stop waits for: reports that are being made, and not those that can't be for now.

use super::Delivery;
use crate::seams::World;
use std::rc::Rc;

/// Counts a report that is being made: a stop waits for it.
pub(crate) struct Making<W: World>(Rc<Delivery<W>>);

impl<W: World> Making<W> {
    pub(crate) fn new(delivery: &Rc<Delivery<W>>) -> Making<W> {
        delivery.gathering.begin();
        Making(Rc::clone(delivery))
    }
}

impl<W: World> Drop for Making<W> {
    fn drop(&mut self) {
        self.0.gathering.end();
    }
}

/// A report that can't be made for now: a stop does not wait for it.
pub(crate) struct Idle<W: World>(Rc<Delivery<W>>);

impl<W: World> Idle<W> {
    pub(crate) fn new(delivery: &Rc<Delivery<W>>) -> Idle<W> {
        delivery.gathering.pause();
        Idle(Rc::clone(delivery))
    }
}

impl<W: World> Drop for Idle<W> {
    fn drop(&mut self) {
        self.0.gathering.go_on();
    }
}
