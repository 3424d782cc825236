//! The scheduler: scheduled queues, ready queues, retry, limits and leases, fairness, expiry.
//!
//! Pure data: time comes in as an argument, randomness from a seed, and what shall be done comes
//! out of [`Queue::poll`]. One `Queue` belongs to one shard.

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
    /// Slot.
    pub slot: u32,
    /// Told apart from earlier users of the slot.
    pub generation: u32,
}

/// What waits together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduledKey {
    /// Tenant; empty when there is none.
    pub tenant: Arc<str>,
    /// Campaign; empty when there is none.
    pub campaign: Arc<str>,
    /// Recipient domain, normalised.
    pub domain: mail::Domain,
    /// Route the operator chose; empty: by configuration.
    pub route: Arc<str>,
}

/// What is sent together: all limits towards a peer hang on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadyKey {
    /// Egress source; empty for the default.
    pub source: Arc<str>,
    /// Canonical text of the channel and its set of hosts: `smtp:mx1.example,mx2.example`.
    pub next_hop: Arc<str>,
}

/// Limits of a ready queue, over all shards together. 0 means no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyLimits {
    /// Connections at once.
    pub connections_max: u32,
    /// Connections being opened at once.
    pub opens_max: u32,
    /// Messages a connection carries before it is closed.
    pub messages_per_connection: u32,
    /// Messages per second.
    pub messages_per_second: f64,
    /// Recipients in one transaction.
    pub recipients_per_message: u32,
    /// Whether concurrency adapts: grows on success, shrinks on 421 and timeouts.
    pub adaptive: bool,
}

/// Retry policy of a scheduled queue.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Before the second attempt.
    pub first: Duration,
    /// Growth per attempt.
    pub factor: f64,
    /// Never longer than this.
    pub longest: Duration,
    /// ± this share of the delay, from the seeded generator (0.0 to 0.5).
    pub jitter: f64,
    /// Age at which a message is given up.
    pub give_up_after: Duration,
    /// Age at which the sender is told of the delay; `None`: never.
    pub warn_after: Option<Duration>,
}

/// A recipient to be queued.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// The message.
    pub id: MessageId,
    /// Index in its envelope.
    pub recipient: u32,
    /// When the message was received; may lie before the process started (saturated to 0 there
    /// with `age_before_start` telling the rest).
    pub received: Mono,
    /// How old it was already at `Mono(0)`; zero for what was accepted since.
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
}

/// What the owner of the queue must do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Find route and next hop of this scheduled queue and answer with
    /// [`Queue::handle_resolved`]. Asked once until answered, and again when the answer is stale.
    Resolve(ScheduledId),
    /// Open one more connection for this ready queue (its slot is taken); report with
    /// `handle_opened`, `handle_open_failed`, and in the end `handle_closed`.
    Open(ReadyId),
    /// There is work and an idle connection for it: wake one.
    Wake(ReadyId),
    /// The entry is too old. It is out of every queue; settle it as expired and report it.
    Expired(EntryDetail),
    /// The sender should be told of the delay. The entry stays.
    Warn(EntryDetail),
    /// Send this to another shard's queue, which takes it with [`Queue::handle_lease`].
    Lease {
        /// Shard to send it to.
        shard: u16,
        /// The message.
        message: lease::LeaseMessage,
    },
}

/// An entry as seen from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryDetail {
    /// The entry.
    pub entry: EntryId,
    /// The message.
    pub id: MessageId,
    /// Recipient index.
    pub recipient: u32,
    /// Its scheduled queue.
    pub scheduled: ScheduledId,
    /// Attempts so far.
    pub attempts: u16,
    /// Age of the message at the time of asking.
    pub age: Duration,
    /// The last failure that this entry or its queue met, if it is still known.
    pub last_failure: Option<Arc<Failure>>,
}

pub mod lease {
    //! How shards share the limits of one ready queue.

    /// Stub: to be designed.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LeaseMessage;
}
