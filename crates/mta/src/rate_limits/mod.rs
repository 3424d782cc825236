//! Limits of accepted mail (`[[limit]]`): counts by login, sender, sender's domain and listener, over all shards.

mod counts;
mod ledger;
mod limiter;
mod record;
pub(crate) mod settings;

pub use ledger::VALUES_MAX;
pub(crate) use limiter::{LimitCharges, Spent};
pub use limiter::{RateLimiter, Usage};
pub use record::{RECORD_KEY_BYTES, RateChanges, RecordKey};
pub use settings::is_any;
pub use settings::{LimitBy, Maximum, Over, RateLimit, RateLimits, Unit};

use crate::problems::DetectedProblem;
use mail::Wall;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Maximum number of values that are known by name at once; more are only counted in metrics.
const REACHED_MAX: usize = 1_000;
/// Maximum number of problems with a name.
const SHOWN_MAX: usize = 20;

/// A limit that a value has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    pub limit: Arc<RateLimit>,
    /// The login, sender, domain or listener.
    pub value: Arc<str>,
    pub maximum: Maximum,
    pub since: Wall,
}

/// Limits now reached, by property and value.
type ReachedLimits = BTreeMap<(LimitBy, Arc<str>), Arc<LimitReached>>;

impl RateLimiter {
    /// Notes that a value has reached a limit.
    fn note_reached(
        &self,
        limit: &Arc<RateLimit>,
        value: &Arc<str>,
        maximum: Maximum,
        now: Wall,
    ) -> Spent {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (limit.by, Arc::clone(value));
        if let Some(known) = reached.get(&key) {
            return Spent { reached: Arc::clone(known), is_news: false };
        }
        let (limit, value) = (Arc::clone(limit), Arc::clone(value));
        let new = Arc::new(LimitReached { limit, value, maximum, since: now });
        let is_news = reached.len() < REACHED_MAX;
        if is_news {
            reached.insert(key, Arc::clone(&new));
        }
        Spent { reached: new, is_news }
    }

    /// The limits now reached, without those that accept more again.
    #[must_use]
    pub fn reached(&self, now: Wall) -> Vec<(Arc<LimitReached>, Wall)> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let mut full = Vec::new();
        reached.retain(|_, one| {
            let until = self.full_until(one, now);
            full.extend(until.map(|until| (Arc::clone(one), until)));
            until.is_some()
        });
        full
    }

    /// Reports a problem for each, the latest first.
    fn find_reached(&self, now: Wall, found: &mut dyn FnMut(DetectedProblem)) {
        let mut all = self.reached(now);
        all.sort_by_key(|(one, _)| std::cmp::Reverse(one.since));
        for (one, until) in all.iter().take(SHOWN_MAX) {
            let text = format!("{one}; no more is accepted before {until}");
            let problem = DetectedProblem::warning(one.about(), text);
            found(problem.next_step(one.next_step()).since(one.since));
        }
        if let Some(more) = all.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            let text = format!("{more} more logins, senders or listeners have reached a [[limit]]");
            found(DetectedProblem::warning("more", text).next_step("see the events `limited`"));
        }
    }
}

impl LimitReached {
    /// The subject: `login jo`.
    fn about(&self) -> String {
        format!("{} {}", self.limit.by.words(), self.value)
    }

    fn next_step(&self) -> String {
        let value = &self.value;
        match self.limit.by {
            LimitBy::Login => format!(
                "if the account is stolen, `postrider login revoke {value}` and `postrider queue \
                 remove --login {value}`"
            ),
            LimitBy::Sender | LimitBy::SenderDomain | LimitBy::Listener => {
                format!("if this is right, write a [[limit]] with names = [\"{value}\"]")
            }
        }
    }
}

/// `login jo has reached its limit of 200/h messages: more is deferred`.
impl std::fmt::Display for LimitReached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = match self.limit.over {
            Over::Defer => "deferred",
            Over::Hold => "held",
        };
        write!(f, "{} has reached its limit of {}: more is {done}", self.about(), self.maximum)
    }
}
