//! Giving work back that was not tried.

use super::Delivery;
use crate::seams::World;
use queue::{EntryOutcome, Work};

/// Gives work back untouched: it was not this message's fault.
pub(super) fn give_back<W: World>(delivery: &Delivery<W>, work: &Work) {
    for (entry, _, _) in &work.entries {
        let _ = delivery.schedule.outcome(*entry, EntryOutcome::Untried);
    }
}

/// Gives work back that no peer has heard of.
pub(super) fn give_back_unnamed<W: World>(delivery: &Delivery<W>, work: &Work) {
    for (entry, _, _) in &work.entries {
        let _ = delivery.schedule.outcome(*entry, EntryOutcome::Unnamed(work.allowance));
    }
}
