//! Two machines that talk with each other.

use super::driver::Driver;
use crate::association::{Initiator, Responder};

/// An initiator and a responder with a wire between them that cuts what is said.
#[derive(Debug)]
pub struct Talk {
    /// Who calls.
    pub initiator: Driver<Initiator>,
    /// Who is called.
    pub responder: Driver<Responder>,
    /// What went over the wire, in order: whether the initiator said it, and what.
    pub wire: Vec<(bool, Vec<u8>)>,
    heard: [usize; 2],
}

impl Talk {
    /// Nothing was said yet.
    #[must_use]
    pub fn new(initiator: Driver<Initiator>, responder: Driver<Responder>) -> Self {
        Talk { initiator, responder, wire: Vec::new(), heard: [0, 0] }
    }

    /// Until neither has anything to say. Pieces have the lengths that `cut` gives, over and over.
    ///
    /// # Panics
    /// They never end, or an end breaks a rule.
    pub fn run(&mut self, cut: &[usize]) {
        let mut cuts = cut.iter().cycle();
        self.initiator.run();
        for _ in 0..1_000_000 {
            let [at_responder, at_initiator] = self.heard;
            let piece = cuts.next().copied().unwrap_or(usize::MAX).max(1);
            if at_responder < self.initiator.output.len() {
                let end = at_responder.saturating_add(piece).min(self.initiator.output.len());
                let octets = self.initiator.output[at_responder..end].to_vec();
                self.heard[0] = end;
                self.responder.feed(&octets);
                self.wire.push((true, octets));
            } else if at_initiator < self.responder.output.len() {
                let end = at_initiator.saturating_add(piece).min(self.responder.output.len());
                let octets = self.responder.output[at_initiator..end].to_vec();
                self.heard[1] = end;
                self.initiator.feed(&octets);
                self.wire.push((false, octets));
            } else if self.initiator.machine.is_closed() && !self.responder.machine.is_closed() {
                self.responder.close();
            } else if self.responder.machine.is_closed() && !self.initiator.machine.is_closed() {
                self.initiator.close();
            } else {
                return;
            }
        }
        panic!("they talk without an end");
    }
}
