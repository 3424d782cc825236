//! Access to a log, and allocation of its ids.

use crate::problems::Watchdog;
use mail::{MessageId, Mono};
use spool::{Request, Ticket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A log: its request channel and id counters.
pub struct LogPort {
    /// Sends a request, in order. The completion goes to the shard in the ticket's high bits.
    pub send: Box<dyn Fn(Request) + Send + Sync>,
    /// The next message sequence number, shared by all shards.
    pub next_sequence: AtomicU64,
    /// The next blob number, shared by all shards.
    pub next_blob: AtomicU64,
    /// The log's number in message ids.
    pub log: u8,
    /// This machine's number in message ids.
    pub node: u16,
    /// The condition of the log, for the choice among several.
    pub condition: LogCondition,
}

/// Maximum duration of a commit. A log with a longer one counts as hung, and new mail goes to other logs.
pub const COMMIT_MAX: Duration = Duration::from_millis(1_500);

/// The condition of a log, set by its commit thread and read by all shards.
#[derive(Debug, Default)]
pub struct LogCondition {
    /// Its disk has too little free space for mail.
    pub is_full: AtomicBool,
    /// The running commit.
    pub commit: Watchdog,
    /// Messages with open recipients, as of the last commit.
    pub live_count: AtomicU64,
}

impl LogCondition {
    /// Notes the condition after a commit.
    pub fn note(&self, live_count: u64, is_full: bool) {
        self.live_count.store(live_count, Ordering::Relaxed);
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Returns true if new mail should prefer another log.
    pub(super) fn is_avoided(&self, now: Mono) -> bool {
        self.is_full.load(Ordering::Relaxed)
            || self.commit.under_way(now).is_some_and(|time| time > COMMIT_MAX)
    }
}

impl std::fmt::Debug for LogPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogPort").field("log", &self.log).finish_non_exhaustive()
    }
}

/// Message ids out of each log's 2^40 that are reserved for reports. Mail is refused before these are used.
pub const REPORT_IDS: u64 = 1 << 24;

/// End of the sequence numbers for mail.
pub(super) const MAIL_IDS_END: u64 = MessageId::SEQUENCE_MAX + 1 - REPORT_IDS;

impl LogPort {
    /// Message ids left for mail.
    #[must_use]
    pub fn ids_left(&self) -> u64 {
        MAIL_IDS_END.saturating_sub(self.next_sequence.load(Ordering::Relaxed))
    }

    /// Allocates the next message id, if its sequence number is below `end`. Ids are unique.
    pub(super) fn allocate_id(&self, end: u64) -> Option<MessageId> {
        let next = |next: u64| (next < end).then_some(next + 1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let sequence = self.next_sequence.fetch_update(set, get, next).ok()?;
        Some(MessageId::new(self.node, self.log, sequence))
    }
}

/// Bits of a ticket below the shard's number.
pub(super) const SHARD_SHIFT: u32 = 48;

/// The shard of a ticket.
#[must_use]
pub fn shard_of(ticket: Ticket) -> u16 {
    (ticket.0 >> SHARD_SHIFT) as u16
}
