//! The line of scheduled queues that wait to have entries located.

use std::collections::VecDeque;

/// Recipients of a shard whose next hops are asked for at once; the others wait in line, a scheduled
/// queue after the other.
pub const LOCATING_MAX: u32 = 64;

/// Who waits, and how much is under way.
#[derive(Debug, Default)]
pub(crate) struct LocatingLine {
    /// Scheduled queues, by number.
    pub(crate) waiting: VecDeque<u32>,
    /// Entries that are asked for now.
    pub(crate) asked: u32,
}

impl LocatingLine {
    /// Whether the first in line may have entries located.
    pub(crate) fn has_turn(&self) -> bool {
        self.asked < LOCATING_MAX && !self.waiting.is_empty()
    }
}
