//! What the judge may hold the node to, by what it was configured with.

use super::Parts;
use crate::prove::sim::names::{DEAD_DOMAIN, OR_DEAD};
use mta::control::BlockerKind;

/// How far in the future deadlines may lie, by what the configuration says.
#[derive(Clone, Copy, Debug)]
pub struct Horizon {
    /// The longest pause between two tries of a message.
    pub retry_ms: u64,
    /// The longest pause between two connections to a next hop, or two questions where it is.
    pub back_off_ms: u64,
    /// The oldest a message gets.
    pub expiry_ms: u64,
    /// The same for those to the next hop that is dead.
    pub dead_ms: u64,
    /// The longest wait for what a source that warms up may send; 0 where none does.
    pub warmup_ms: u64,
}

impl Horizon {
    /// How far for a recipient who waits for this.
    #[must_use]
    pub fn of(&self, kind: BlockerKind, address: &str) -> u64 {
        match kind {
            BlockerKind::Time => self.retry_ms,
            BlockerKind::Backoff => self.back_off_ms,
            _ if address.ends_with(DEAD_DOMAIN) || address.ends_with(OR_DEAD) => self.dead_ms,
            // What can't be read says so in place of what it waits for.
            BlockerKind::Rate | BlockerKind::Spool => self.expiry_ms.max(self.warmup_ms),
            _ => self.expiry_ms,
        }
    }
}

/// What the node may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Delivered recipients whose settle is not durable.
    pub unsettled: u64,
    /// Client sessions.
    pub sessions: u64,
    /// How its descriptors are divided.
    pub parts: Option<Parts>,
    /// Of those in small domains who wait for memory somebody gets some within this time, in microseconds.
    pub memory_within_us: Option<u64>,
}
