//! What the scheduler says of an entry, in the words of the control protocol.

use crate::control::{BlockerKind, RecipientState};
use queue::{Blocker, Pause};

impl From<&Blocker> for RecipientState {
    fn from(why: &Blocker) -> RecipientState {
        match why {
            Blocker::Held { .. } => RecipientState::Held,
            Blocker::InFlight => RecipientState::InFlight,
            Blocker::Scheduled { .. }
            | Blocker::Hours { .. }
            | Blocker::Resolving { .. }
            | Blocker::ResolutionFailed { .. } => RecipientState::Scheduled,
            _ => RecipientState::Ready,
        }
    }
}

impl From<&Blocker> for BlockerKind {
    fn from(why: &Blocker) -> BlockerKind {
        match why {
            Blocker::Scheduled { .. } | Blocker::Hours { .. } => BlockerKind::Time,
            Blocker::Resolving { .. } | Blocker::ResolutionFailed { .. } => BlockerKind::Resolving,
            Blocker::ConnectionSlots { .. }
            | Blocker::Window { .. }
            | Blocker::LeaseWait { .. } => BlockerKind::ConnectionSlot,
            Blocker::Opening { .. } => BlockerKind::Opening,
            Blocker::OpenBackoff { .. } => BlockerKind::Backoff,
            Blocker::Rate { .. } | Blocker::Allowance { .. } => BlockerKind::Rate,
            Blocker::Held { .. } => BlockerKind::Operator,
            Blocker::Suspended(_) => BlockerKind::Suspended,
            Blocker::Paused(Pause::Stopping) => BlockerKind::Shutdown,
            Blocker::Paused(_) => BlockerKind::Spool,
            Blocker::InFlight => BlockerKind::Attempt,
            Blocker::Turn { .. } => BlockerKind::Turn,
        }
    }
}
