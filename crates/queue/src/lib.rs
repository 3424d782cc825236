//! The scheduler: scheduled queues, ready queues, retry, limits and leases, fairness, expiry.
//!
//! Pure data: time comes in as an argument, randomness from a seed, and what shall be done comes
//! out of [`Queue::poll`]. One `Queue` belongs to one shard.
//!
//! The way of an entry: [`Queue::push`] puts it into its scheduled queue (or, if it is due and
//! the next hop is known, at once into a ready queue). When it falls due, [`Action::Resolve`]
//! asks for the next hop, [`Queue::handle_resolved`] answers, and the entry moves to the ready
//! queue of that hop. Where the next hop hangs on the recipient, the answer is that
//! ([`Resolution::Each`]), and [`Action::Locate`] asks for each entry. [`Action::Open`] and [`Action::Wake`] bring connections, which fetch work
//! with [`Queue::take`] and report with [`Queue::handle_outcome`].
//!
//! What decides how mail is delivered is in the key of its ready queue ([`ReadyKey`]). What
//! several ready queues have to share (connections, messages per second) are named limits
//! ([`NamedLimit`]), lent by one shard to the ready queues of all ([`lease`]).
//!
//! Precision: an entry falls due, and a back-off ends, to the microsecond of the clock handed in.
//! Expiry and delay notices are exact where an entry falls due or comes back from an attempt;
//! for entries that wait in any other state a sweep passes by, every second in small queues and
//! every 30 s in big ones, so they come that much later at most. Nothing expires that was not
//! tried once more when it was too old (see `expiry.rs` for what counts as a try), and nothing
//! that an operator holds or has suspended. What a sender sets itself is exact everywhere
//! (`deadlines.rs`).

mod allowance;
mod backlog;
mod connections;
mod cursor;
mod deadlines;
mod expiry;
mod failures;
mod hold;
mod hours;
pub mod lease;
mod lending;
mod limits;
mod listing;
mod locating;
mod named_limit;
mod operator;
mod outcome;
mod queue;
mod quota;
mod ready;
mod resolution;
mod retry;
mod scheduled;
mod service;
mod siblings;
mod slab;
mod suspension;
mod sweep;
mod tenancy;
mod tenant;
mod timers;
mod ways;
mod why;
mod window;

pub use connections::{CloseReason, Take, TransactionWork};
pub use cursor::LOCATING_MAX;
pub use deadlines::Deadlines;
pub use hold::HoldResult;
pub use hours::{Hours, Origin};
pub use limits::{NamedLimit, ReadyLimits};
pub use listing::{Glance, GlanceState, QueueCounts, ReadyCounts, ScheduledCounts};
pub use locating::{HopLookup, HopLookupResult};
pub use operator::{Retried, Transferred};
pub use outcome::{Deferred, EntryOutcome};
pub use queue::{Queue, QueueConfig};
pub use resolution::{Resolution, WeightedPath};
pub use retry::RetryPolicy;
pub use siblings::Siblings;
pub use suspension::{SuspendedQueue, Suspension};
pub use tenant::TenantTerms;
pub use why::{Blocker, Pause};

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
    /// Told apart from earlier users of the slot.
    pub generation: u32,
}

/// The key of a scheduled queue: what has the same waits together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduledKey {
    /// Recipient domain, normalised. It stands first because it tells most queues apart: keys are
    /// compared for each recipient that comes.
    pub domain: mail::Domain,
    /// Tenant; empty when there is none.
    pub tenant: Arc<str>,
    /// Campaign; empty when there is none.
    pub campaign: Arc<str>,
    /// Route the operator chose; empty: by configuration.
    pub route: Arc<str>,
    /// The pool of sources that its messages name; empty: the route's.
    pub pool: Arc<str>,
    /// The hours in which its messages may be sent, as they name them; empty: at any time.
    pub window: Arc<str>,
    /// What its messages ask of TLS.
    pub require_tls: mail::RequireTls,
}

/// What is sent together. All that decides how mail is delivered is in here, so that nothing
/// another domain publishes or another route says can change it; what is shared with others are
/// limits, by their names ([`NamedLimit`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadyKey {
    /// Egress source; empty for the default.
    pub source: Arc<str>,
    /// Canonical text of the channel, the route, and the hosts in the order in which they are
    /// tried: `mx:careful:mx1.example:25>mx2.example:25`.
    pub next_hop: Arc<str>,
    /// What is asked of TLS; empty while nothing is.
    pub tls: Arc<str>,
    /// Whose limits hold where not all domains with these hosts have the same; empty mostly.
    pub shaping: Arc<str>,
}

/// A recipient to be queued.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// The message that it is a recipient of.
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
    /// What its sender wants of time.
    pub deadlines: Deadlines,
    /// Whose turn it waits for where it is to go.
    pub origin: Origin,
}

/// What the owner of the queue must do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Find route and next hop of this scheduled queue and answer with
    /// [`Queue::handle_resolved`]. Asked once until answered, and again when the answer is stale.
    Resolve(ScheduledId),
    /// Say whether this scheduled queue's window ([`ScheduledKey::window`]) is open, with
    /// [`Queue::set_hours`], at once.
    Hours(ScheduledId),
    /// Say whether this stands still yet, with [`Queue::suspend`] or [`Queue::suspend_ready`], at once.
    Standstill(SuspendedQueue),
    /// Find the next hop of each of these recipients and answer with [`Queue::handle_located`].
    Locate(HopLookup),
    /// Open one more connection for this ready queue (its slot is taken); report with
    /// `handle_opened`, `handle_open_failed`, and in the end `handle_closed`.
    Open(ReadyId),
    /// There is work and an idle connection for it: wake one. It is not idle from now on, and
    /// must call [`Queue::take`] (which may also tell it to close).
    Wake(ReadyId),
    /// The entry is too old. It is out of every queue; settle it as expired and report it.
    Expired(EntryDetail),
    /// The next hop was refused for good. The entry is out of every queue; settle it as failed.
    Failed(EntryDetail, Arc<Failure>),
    /// An operator removed the entry while it was in flight, and it came back undelivered. It is
    /// out of every queue; settle it as removed.
    Removed(EntryDetail),
    /// The sender should be told of the delay of these recipients of one message, at least one.
    /// The entries stay, and are not named again.
    Warn(Vec<EntryDetail>),
    /// A next hop is left alone after failures; one for each step of the back-off.
    Suspended(SuspendedHop),
    /// It takes mail again (`recovered`), or nothing waits for it any more.
    Resumed {
        ready: ReadyId,
        /// It took a message, or refused one for good.
        recovered: bool,
    },
    /// Say how many recipients this ready queue may send ([`Queue::need_allowance`]), with
    /// [`Queue::handle_allowance`] or [`Queue::handle_no_allowance`]. Asked once until answered.
    Allowance {
        ready: ReadyId,
        /// As many as wait, at least 1.
        recipients: u32,
    },
    /// So many recipients that it was allowed are not needed.
    Spare { ready: ReadyId, recipients: u32 },
    /// This ready queue was dropped, long unused: what is kept for it elsewhere can go.
    Forgotten(ReadyId),
    /// Send this to another shard's queue, which takes it with [`Queue::handle_lease`].
    Lease {
        /// Shard to send it to.
        shard: u16,
        /// What to hand to its [`Queue::handle_lease`].
        message: lease::LeaseMessage,
    },
}

/// A next hop that is left alone for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspendedHop {
    pub ready: ReadyId,
    /// The how-manieth pause in a row this is, from 1.
    pub step: u16,
    /// Recipients that wait behind it on this shard.
    pub recipients: u32,
    /// What happened last, if it is known.
    pub failure: Option<Arc<Failure>>,
    /// When it is tried again.
    pub until: Mono,
}

/// An entry as seen from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryDetail {
    /// Its name in the queue.
    pub entry: EntryId,
    /// The message that it is a recipient of.
    pub id: MessageId,
    /// Its index in the envelope.
    pub recipient: u32,
    /// The scheduled queue that it belongs to.
    pub scheduled: ScheduledId,
    /// How often it was tried so far.
    pub attempts: u16,
    /// Age of the message at the time of asking.
    pub age: Duration,
    /// Its sender wants it given up by now.
    pub is_overdue: bool,
    /// The last failure that this entry met, or what keeps its way closed, if it is still known;
    /// never a failure of another entry's.
    pub last_failure: Option<Arc<Failure>>,
    /// Another recipient of the same message that is queued, if there is one.
    pub sibling: Option<EntryId>,
}
