//! Warm-up: daily limits of recipients for a new source, by provider.
//!
//! The state of a source with one provider is its course. Recipients are first reserved, which the [`WarmupLedger`] of
//! all courses makes durable, and only then granted. A process that is killed has at most reserved recipients that it
//! did not use, and these are lost for the day. A day's limit is thus never exceeded, whatever is restarted.
//!
//! Days are UTC days. A day's limit is spread like a rate, with a burst of one hour's worth: there is no peak at
//! midnight.

mod book;
mod course;
mod record;

pub use book::{AllowanceGrant, Answered, WarmupChange, WarmupChanges, WarmupLedger, WarmupView};
pub use course::{WarmupDayEnd, day_of};
pub use record::{Record, RecordBytes};

use config::Warmup;
use mail::Wall;
use std::fmt;
use std::sync::Arc;

/// Key of a common count of recipients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WarmupKey {
    /// The name of the source.
    pub source: Arc<str>,
    /// The provider, or the set of hosts.
    pub towards: Arc<str>,
}

/// `source ip-1 towards google`.
impl fmt::Display for WarmupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} towards {}", self.source, self.towards)
    }
}

/// A shard's request for an allowance.
#[derive(Clone, Debug)]
pub struct AllowanceRequest {
    pub key: WarmupKey,
    /// The source's warm-up plan in the configuration.
    pub plan: Arc<Warmup>,
    /// Number of waiting recipients, at least 1.
    pub wanted: u32,
    pub now: Wall,
}

/// The allowance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// Number of recipients to be sent before the day ends.
    Granted {
        recipients: u32,
        /// The rest is void afterwards.
        until: Wall,
    },
    /// Nothing may be sent at present.
    Closed {
        /// To follow "waiting for".
        why: Arc<str>,
        /// Time of the next try.
        until: Wall,
    },
    /// Without limit: the warm-up is over.
    Warm,
}

/// Results of tried recipients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    pub tried: u32,
    pub delivered: u32,
    /// Deferred or rejected as blocked or rate limited.
    pub held: u32,
}
