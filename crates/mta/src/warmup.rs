//! Warm-up: how many recipients a source that nobody knows yet may send to, by provider and day.
//!
//! What a source has come to with one provider is its [`Course`] there. Recipients are first reserved, which is
//! made durable by whoever keeps the [`WarmupLedger`] of all courses, and only then handed out: a process that ends where it
//! stands has at most reserved what it did not use, and that is lost to the day. So a day's count is never
//! exceeded, whatever ends and begins again.
//!
//! Days are those of UTC. They are spread like a rate, with an hour's worth at once: at midnight nothing bursts.

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

/// Whose recipients are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WarmupKey {
    /// The name of the source.
    pub source: Arc<str>,
    /// The provider that they go to, or the set of hosts.
    pub towards: Arc<str>,
}

/// `source ip-1 towards google`.
impl fmt::Display for WarmupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {} towards {}", self.source, self.towards)
    }
}

/// What a shard wants to send.
#[derive(Clone, Debug)]
pub struct AllowanceRequest {
    pub key: WarmupKey,
    /// What the configuration says of the source.
    pub plan: Arc<Warmup>,
    /// As many recipients as wait, at least 1.
    pub wanted: u32,
    pub now: Wall,
}

/// What it may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// So many recipients, before the day ends.
    Granted {
        recipients: u32,
        /// What is not used by then is void.
        until: Wall,
    },
    /// Nothing at present.
    Closed {
        /// To follow "waiting for".
        why: Arc<str>,
        /// When there may be something.
        until: Wall,
    },
    /// It is warm: there is no limit any more.
    Warm,
}

/// What became of recipients that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    pub tried: u32,
    pub delivered: u32,
    /// Deferred or refused as blocked or rate limited.
    pub held: u32,
}
