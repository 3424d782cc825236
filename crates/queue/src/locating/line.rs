//! The line of scheduled queues that wait to have entries located.

use std::collections::VecDeque;

/// Maximum number of recipients per shard in next-hop lookups at once. Further ones wait in line, one scheduled queue
/// after the other.
pub const LOCATING_MAX: u32 = 64;

/// Scheduled queues in line, and the number of pending lookups.
#[derive(Debug, Default)]
pub(crate) struct LocatingLine {
    /// Scheduled queues, by number.
    pub(crate) waiting: VecDeque<u32>,
    /// Entries in pending lookups.
    pub(crate) asked: u32,
}

impl LocatingLine {
    /// Returns true if the first in line may have entries located.
    pub(crate) fn has_turn(&self) -> bool {
        self.asked < LOCATING_MAX && !self.waiting.is_empty()
    }
}
