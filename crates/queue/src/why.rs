//! The one thing that each queued message waits for.

use mail::{Failure, Mono};
use std::fmt;
use std::sync::Arc;

/// Why egress as a whole stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// As many delivered recipients as are allowed wait for their settle to be synced.
    Unsettled,
    /// The spool can't be written: what is sent now could not be settled.
    Poisoned,
    /// The shard is stopping.
    Stopping,
    /// An operator said so, with these words.
    Operator(Arc<str>),
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pause::Unsettled => f.write_str("deliveries are waiting to be recorded on disk"),
            Pause::Poisoned => f.write_str("the spool can't be written"),
            Pause::Stopping => f.write_str("the server is stopping"),
            Pause::Operator(words) => f.write_str(words),
        }
    }
}

/// What one entry waits for. Times inside are monotonic: [`Blocker::deadline`] gives the one
/// that matters, for the caller to print in wall-clock time behind the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocker {
    /// Its time has not come.
    Scheduled {
        /// When it falls due.
        due: Mono,
        /// Why it was put off.
        failure: Option<Arc<Failure>>,
    },
    /// Route and next hop are being found out.
    Resolving {
        /// The recipient domain.
        domain: mail::Domain,
        /// When it expires.
        deadline: Mono,
    },
    /// Route and next hop could not be found out.
    ResolutionFailed {
        /// Why.
        failure: Arc<Failure>,
        /// When that is tried again.
        until: Mono,
    },
    /// All connections that are allowed are in use.
    ConnectionSlots {
        /// The next hop.
        next_hop: Arc<str>,
        /// In use, over all shards as far as this one knows.
        used: u32,
        /// Allowed.
        max: u32,
        /// When the entry expires.
        deadline: Mono,
    },
    /// A connection is being opened.
    Opening {
        /// The next hop.
        next_hop: Arc<str>,
        /// When the entry expires.
        deadline: Mono,
    },
    /// The last connections failed; the next is opened later.
    OpenBackoff {
        /// The next hop.
        next_hop: Arc<str>,
        /// What happened last, if it is known.
        failure: Option<Arc<Failure>>,
        /// When it is tried again.
        until: Mono,
    },
    /// Messages per second.
    Rate {
        /// The next hop.
        next_hop: Arc<str>,
        /// When the next may go, as far as this shard knows.
        until: Mono,
    },
    /// The shard that owns the limit was asked to lend of it.
    LeaseWait {
        /// The next hop.
        next_hop: Arc<str>,
        /// That shard.
        owner: u16,
        /// When the entry expires.
        deadline: Mono,
    },
    /// An operator holds it.
    Held {
        /// When it expires.
        deadline: Mono,
    },
    /// Egress stands still.
    Paused {
        /// Why.
        pause: Pause,
        /// When the entry expires.
        deadline: Mono,
    },
    /// It is being delivered.
    InFlight {
        /// When it would expire.
        deadline: Mono,
    },
    /// Connections are at work on those before it.
    Turn {
        /// The next hop.
        next_hop: Arc<str>,
        /// Entries before it in its own list, counted up to 1,000.
        before: u32,
        /// When the entry expires.
        deadline: Mono,
    },
}

impl Blocker {
    /// The latest moment at which this ends by itself: the next try where it is known, else the
    /// entry's expiry.
    #[must_use]
    pub fn deadline(&self) -> Mono {
        match self {
            Blocker::Scheduled { due: at, .. }
            | Blocker::ResolutionFailed { until: at, .. }
            | Blocker::OpenBackoff { until: at, .. }
            | Blocker::Rate { until: at, .. }
            | Blocker::Resolving { deadline: at, .. }
            | Blocker::ConnectionSlots { deadline: at, .. }
            | Blocker::Opening { deadline: at, .. }
            | Blocker::LeaseWait { deadline: at, .. }
            | Blocker::Held { deadline: at }
            | Blocker::Paused { deadline: at, .. }
            | Blocker::InFlight { deadline: at }
            | Blocker::Turn { deadline: at, .. } => *at,
        }
    }

    /// One word for `--json` and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Blocker::Scheduled { .. } => "scheduled",
            Blocker::Resolving { .. } => "resolving",
            Blocker::ResolutionFailed { .. } => "resolution_failed",
            Blocker::ConnectionSlots { .. } => "connection_slots",
            Blocker::Opening { .. } => "opening",
            Blocker::OpenBackoff { .. } => "open_backoff",
            Blocker::Rate { .. } => "rate",
            Blocker::LeaseWait { .. } => "lease_wait",
            Blocker::Held { .. } => "held",
            Blocker::Paused { .. } => "paused",
            Blocker::InFlight { .. } => "in_flight",
            Blocker::Turn { .. } => "turn",
        }
    }
}

/// `waiting for a connection slot of smtp:mx.example.com, 50/50 in use`.
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::Scheduled { failure: Some(failure), .. } => {
                write!(f, "waiting for its next try; the last: {failure}")
            }
            Blocker::Scheduled { failure: None, .. } => f.write_str("waiting for its time"),
            Blocker::Resolving { domain, .. } => {
                write!(f, "finding out where mail for {domain} goes")
            }
            Blocker::ResolutionFailed { failure, .. } => {
                write!(f, "the way could not be found out: {failure}")
            }
            Blocker::ConnectionSlots { next_hop, used, max, .. } => {
                write!(f, "waiting for a connection slot of {next_hop}, {used}/{max} in use")
            }
            Blocker::Opening { next_hop, .. } => write!(f, "opening a connection to {next_hop}"),
            Blocker::OpenBackoff { next_hop, failure: Some(failure), .. } => {
                write!(f, "no connection to {next_hop}: {failure}")
            }
            Blocker::OpenBackoff { next_hop, failure: None, .. } => {
                write!(f, "connections to {next_hop} keep breaking")
            }
            Blocker::Rate { next_hop, .. } => {
                write!(f, "held to the message rate allowed to {next_hop}")
            }
            Blocker::LeaseWait { next_hop, owner, .. } => {
                write!(f, "waiting for shard {owner} to lend of the limits of {next_hop}")
            }
            Blocker::Held { .. } => f.write_str("held by an operator"),
            Blocker::Paused { pause, .. } => write!(f, "delivery is paused: {pause}"),
            Blocker::InFlight { .. } => f.write_str("being delivered"),
            Blocker::Turn { next_hop, before, .. } => {
                let more = if *before >= 1000 { " or more" } else { "" };
                write!(f, "waiting for its turn at {next_hop}, {before}{more} before it")
            }
        }
    }
}
