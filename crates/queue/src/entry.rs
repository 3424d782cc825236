//! Entries and their queues, as seen by callers.

use crate::backlog::origin::Origin;
use mail::{Failure, MessageId, Mono};
use std::sync::Arc;
use std::time::Duration;

/// Names a scheduled queue of this shard; small and dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduledId(pub u32);

/// Names a ready queue of this shard; small and dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadyId(pub u32);

/// Names an entry; stale ids (the slot was reused) are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Its place in the queue's slab.
    pub slot: u32,
    /// Distinguishes the entry from earlier ones in the same slot.
    pub generation: u32,
}

/// The key of a scheduled queue: entries with equal keys wait together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduledKey {
    /// Recipient domain, normalised. First because it distinguishes most queues: keys are compared for each recipient
    /// that arrives.
    pub domain: mail::Domain,
    /// Tenant; empty if none.
    pub tenant: Arc<str>,
    /// Campaign; empty if none.
    pub campaign: Arc<str>,
    /// Route the operator chose; empty: by configuration.
    pub route: Arc<str>,
    /// The pool of egress sources named by its messages; empty: the route's.
    pub pool: Arc<str>,
    /// The sending window named by its messages; empty: at any time.
    pub window: Arc<str>,
    /// TLS requirement of its messages (REQUIRETLS).
    pub require_tls: mail::RequireTls,
    /// The choice of a route by facts of its messages, opaque to the queue; empty: by the domain.
    pub choice: Arc<str>,
}

/// Identity of a ready queue: mail with the same key is sent together. It contains everything that decides the
/// delivery, so that data published by another domain, or another route's settings, cannot change it. Shared limits are
/// referenced by name ([`crate::NamedLimit`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadyKey {
    /// Egress source; empty for the default.
    pub source: Arc<str>,
    /// Canonical text of the channel, the route and the hosts in order of preference:
    /// `mx:careful:mx1.example:25>mx2.example:25`.
    pub next_hop: Arc<str>,
    /// TLS requirement; empty if none.
    pub tls: Arc<str>,
    /// Name of the shaping limits, where domains with these hosts have different ones; usually empty.
    pub shaping: Arc<str>,
    /// The login at the hosts, where mail has different ones; usually empty.
    pub login: Arc<str>,
}

impl ReadyKey {
    /// The next hop, with its source unless that is the default: `mx:out:mx1.example:25 from ip-1`.
    pub(crate) fn with_source(&self) -> Arc<str> {
        match self.source.is_empty() {
            true => Arc::clone(&self.next_hop),
            false => format!("{} from {}", self.next_hop, self.source).into(),
        }
    }
}

/// A recipient to be queued.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// The message of this recipient.
    pub id: MessageId,
    /// Index in its envelope.
    pub recipient: u32,
    /// Time of reception. May lie before the start of the process: then it saturates to 0 and `age_before_start` holds
    /// the difference.
    pub received: Mono,
    /// Age at `Mono(0)`; zero for messages accepted since.
    pub age_before_start: Duration,
    /// Not to be tried before.
    pub due: Mono,
    /// Attempts made so far.
    pub attempts: u16,
    /// 0 (lowest) to 9; 4 is normal.
    pub priority: u8,
    /// Waits for an operator.
    pub held: bool,
    /// The delay notice was sent.
    pub warned: bool,
    /// Deadlines set by its sender.
    pub deadlines: Deadlines,
    /// Origin, by which entries take turns at a ready queue.
    pub origin: Origin,
}

/// Public description of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryDetail {
    /// Its name in the queue.
    pub entry: EntryId,
    /// The message of this recipient.
    pub id: MessageId,
    /// Its index in the envelope.
    pub recipient: u32,
    /// Its scheduled queue.
    pub scheduled: ScheduledId,
    /// Attempts made so far.
    pub attempts: u16,
    /// Age of the message at the time of the query.
    pub age: Duration,
    /// The deadline set by its sender has passed.
    pub is_overdue: bool,
    /// The last failure of this entry, or the failure that keeps its next hop closed, if still known. Never a failure
    /// of another entry.
    pub last_failure: Option<Arc<Failure>>,
    /// Another queued recipient of the same message, if any.
    pub sibling: Option<EntryId>,
}

/// The deadlines of one message; [`Mono::NEVER`] if not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Time of expiry.
    pub expires: Mono,
    /// Time of the delay notice; replaces the default time.
    pub notice: Mono,
}

impl Deadlines {
    /// No wishes.
    pub const NONE: Deadlines = Deadlines { expires: Mono::NEVER, notice: Mono::NEVER };
}
