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

pub use action::{Action, HopLookup, SuspendedHop};
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
