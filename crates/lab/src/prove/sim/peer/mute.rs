//! Hosts that take an envelope, and then read nothing any more.

use super::Session;
use crate::prove::sim::plan::Mire;

impl Session {
    /// It reads nothing until all heals.
    pub(super) fn is_mute(&self) -> bool {
        let is_one = self.hop.is_crowd() && self.peers.plan.mire() == Some(Mire::Mute);
        is_one && self.has_recipient && !self.peers.healed.get()
    }
}
