//! Actions that a queue requests from its owner.

use crate::entry::{EntryDetail, EntryId, ReadyId, ScheduledId};
use crate::lease;
use crate::suspension::SuspendedQueue;
use mail::{Failure, MessageId, Mono};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The next action for the owner of the queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Resolve route and next hop of this scheduled queue and answer with [`crate::Queue::handle_resolved`]. Emitted
    /// once until answered, and again when the answer is stale.
    Resolve(ScheduledId),
    /// Say whether this scheduled queue's window ([`crate::ScheduledKey::window`]) is open, with
    /// [`crate::Queue::set_hours`], at once.
    Hours(ScheduledId),
    /// Check at once if this suspension is still in force, and answer with [`crate::Queue::suspend`] or
    /// [`crate::Queue::suspend_ready`].
    Standstill(SuspendedQueue),
    /// Look up the next hop of each of these recipients and answer with [`crate::Queue::handle_located`].
    Locate(HopLookup),
    /// Open one more connection for this ready queue; its slot is already taken. Report the result with `handle_opened`
    /// or `handle_open_failed`, and the end with `handle_closed`.
    Open(ReadyId),
    /// Work and an idle connection exist: wake one. It counts as busy from now on and must call [`crate::Queue::take`],
    /// which may close it.
    Wake(ReadyId),
    /// The entry has expired and is in no queue any more: settle it as expired and send a bounce.
    Expired(EntryDetail),
    /// The next hop was refused permanently. The entry is in no queue any more: settle it as failed.
    Failed(EntryDetail, Arc<Failure>),
    /// An operator removed the entry while it was in flight, and it was not delivered. It is in no queue any more:
    /// settle it as removed.
    Removed(EntryDetail),
    /// Send the sender a delay notice for these recipients of one message, at least one. The entries stay and are not
    /// returned again.
    Warn(Vec<EntryDetail>),
    /// A next hop is suspended after failures. Returned once per step of the back-off.
    Suspended(SuspendedHop),
    /// The next hop accepts mail again (`recovered`), or no mail waits for it any more.
    Resumed {
        ready: ReadyId,
        /// It accepted a message, or refused one permanently.
        recovered: bool,
    },
    /// Say how many recipients this ready queue may send ([`crate::Queue::need_allowance`]), with
    /// [`crate::Queue::handle_allowance`] or [`crate::Queue::handle_no_allowance`]. Asked once until answered.
    Allowance {
        ready: ReadyId,
        /// The number of waiting recipients, at least 1.
        recipients: u32,
    },
    /// This ready queue does not need this many of its allowed recipients.
    Spare { ready: ReadyId, recipients: u32 },
    /// This unused ready queue was dropped. Other state kept for its number can be dropped too.
    Forgotten(ReadyId),
    /// Send this to another shard's queue, to be passed to [`crate::Queue::handle_lease`] there.
    Lease {
        /// Shard to send it to.
        shard: u16,
        /// Argument for the other queue's [`crate::Queue::handle_lease`].
        message: lease::LeaseMessage,
    },
}

/// A next hop that is left alone for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspendedHop {
    pub ready: ReadyId,
    /// The how-manieth pause in a row this is, from 1.
    pub step: u16,
    /// Recipients waiting for it on this shard, now and later.
    pub waiting: WaitingCount,
    /// The last failure, if known.
    pub failure: Option<Arc<Failure>>,
    /// Time of the next attempt.
    pub until: Mono,
}

/// Entries that wait for a suspended next hop, or for a domain that can't be resolved. The queue stores each change, so
/// that readers on other threads get the current number without asking the shard.
#[derive(Clone, Debug, Default)]
pub struct WaitingCount(Arc<AtomicU32>);

impl WaitingCount {
    /// The current number.
    #[must_use]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns true while the queue stores changes: until the suspension ends or the queue is dropped.
    #[must_use]
    pub fn is_current(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Stores the number.
    pub fn set(&self, entries: u32) {
        self.0.store(entries, Ordering::Relaxed);
    }
}

impl PartialEq for WaitingCount {
    fn eq(&self, other: &WaitingCount) -> bool {
        self.get() == other.get()
    }
}

/// Recipients of one message that need a next-hop lookup each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopLookup {
    /// The message.
    pub id: MessageId,
    /// The scheduled queue common to all.
    pub scheduled: ScheduledId,
    /// The entries, each with its index in the envelope; at least one.
    pub entries: SmallVec<[(EntryId, u32); 1]>,
    pub(crate) asked: Mono,
    pub(crate) epoch: u32,
}
