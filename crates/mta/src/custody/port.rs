//! The way to a log, and the numbers that are handed out for it.

use crate::problems::Watchdog;
use mail::{MessageId, Mono};
use spool::{Request, Ticket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One log: where requests go, and the numbers that are handed out for it.
pub struct LogPort {
    /// Takes requests in order; completions come back to the shard in the ticket's high bits.
    pub send: Box<dyn Fn(Request) + Send + Sync>,
    /// The next message sequence number; shared by all shards.
    pub next_sequence: AtomicU64,
    /// The next blob number; shared by all shards.
    pub next_blob: AtomicU64,
    /// This log's number in message ids.
    pub log: u8,
    /// This machine's number in message ids.
    pub node: u16,
    /// How the log is, for whoever has a choice.
    pub condition: LogCondition,
}

/// A commit that has been under way for longer hangs: other logs take what is new.
pub const COMMIT_MAX: Duration = Duration::from_millis(1_500);

/// How a log is, as its commit thread and whoever watches it see it.
#[derive(Debug, Default)]
pub struct LogCondition {
    /// Its disk has too little room for mail.
    pub is_full: AtomicBool,
    /// The commit that is under way.
    pub commit: Watchdog,
    /// Messages with open recipients, as of the last commit.
    pub live_count: AtomicU64,
}

impl LogCondition {
    /// How it is after a commit.
    pub fn note(&self, live_count: u64, is_full: bool) {
        self.live_count.store(live_count, Ordering::Relaxed);
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Whether mail for which there is a choice had better go elsewhere.
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

/// Of each log's 2^40 message ids so many are kept for reports: mail is refused before they are used.
pub const REPORT_IDS: u64 = 1 << 24;

/// Mail has no sequence number from here on.
pub(super) const MAIL_IDS_END: u64 = MessageId::SEQUENCE_MAX + 1 - REPORT_IDS;

impl LogPort {
    /// Message ids that are left for mail.
    #[must_use]
    pub fn ids_left(&self) -> u64 {
        MAIL_IDS_END.saturating_sub(self.next_sequence.load(Ordering::Relaxed))
    }

    /// The next message id, if its sequence number is below `end`. None is given out twice.
    pub(super) fn allocate_id(&self, end: u64) -> Option<MessageId> {
        let next = |next: u64| (next < end).then_some(next + 1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let sequence = self.next_sequence.fetch_update(set, get, next).ok()?;
        Some(MessageId::new(self.node, self.log, sequence))
    }
}

/// Bits of a ticket below the shard's number.
pub(super) const SHARD_SHIFT: u32 = 48;

/// The shard that `ticket` belongs to.
#[must_use]
pub fn shard_of(ticket: Ticket) -> u16 {
    (ticket.0 >> SHARD_SHIFT) as u16
}
