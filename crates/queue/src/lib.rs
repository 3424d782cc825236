//! The scheduler: scheduled queues, ready queues, retry, limits and leases, fairness, expiry.
//!
//! It is pure data: time is an argument, randomness comes from a seed, and actions are returned by [`Queue::poll`]. One
//! `Queue` belongs to one shard.
//!
//! Life of an entry: [`Queue::push`] puts it into its scheduled queue, or directly into a ready queue if it is due and
//! the next hop is known. At its due time, [`Action::Resolve`] requests the next hop, [`Queue::handle_resolved`]
//! answers, and the entry moves to that hop's ready queue. If the next hop depends on the recipient, the answer is
//! [`Resolution::Each`] and [`Action::Locate`] requests the next hop of each entry. [`Action::Open`] and
//! [`Action::Wake`] start connections, which fetch work with [`Queue::take`] and report with [`Queue::handle_outcome`].
//!
//! All settings that decide the delivery are in the key of a ready queue ([`ReadyKey`]). Limits shared by several ready
//! queues (connections, messages per second) are named limits ([`NamedLimit`]), lent by one shard to the ready queues
//! of all ([`lease`]).
//!
//! Precision: an entry falls due, and a back-off ends, to the microsecond of the clock argument. Expiry and delay
//! notices are exact when an entry falls due or returns from an attempt. For entries waiting in any other state a sweep
//! checks every second in small queues and every 30 s in big ones, so they come at most that much later. No entry
//! expires without an attempt after it became too old (`expiry.rs` defines an attempt), and none that an operator holds
//! or has suspended. Deadlines set by a sender are exact everywhere (`deadlines.rs`).

mod action;
mod allowance;
mod backlog;
mod connections;
mod deadlines;
mod entry;
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

pub use action::{Action, HopLookup, SuspendedHop, WaitingCount};
pub use backlog::origin::Origin;
pub use connections::{CloseReason, Take, TransactionWork};
pub use entry::{
    Deadlines, EntryDetail, EntryId, NewEntry, ReadyId, ReadyKey, ScheduledId, ScheduledKey,
};
pub use hold::HoldResult;
pub use hours::Hours;
pub use limits::{NamedLimit, ReadyLimits};
pub use listing::{Glance, GlanceState, QueueCounts, ReadyCounts, ScheduledCounts};
pub use locating::HopLookupResult;
pub use locating::line::LOCATING_MAX;
pub use operator::{Retried, Transferred};
pub use outcome::{Deferred, EntryOutcome};
pub use queue::{Queue, QueueConfig};
pub use resolution::{Resolution, WeightedPath};
pub use retry::RetryPolicy;
pub use siblings::Siblings;
pub use suspension::{SuspendedQueue, Suspension};
pub use tenant::TenantTerms;
pub use why::{Blocker, Pause};
