//! Suspensions of scheduled and ready queues, by an operator or because a source cannot send. They apply to later
//! entries too.

use crate::{ReadyId, ScheduledId};
use mail::Mono;
use std::fmt;
use std::sync::Arc;

/// A suspension: subject, reason and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// The suspended object, to follow "resume": `the domain example.org`.
    pub what: Arc<str>,
    /// The reason, given by the operator or by this server; may be empty.
    pub reason: Arc<str>,
    /// True if an operator set it; otherwise it ends by itself.
    pub is_operators: bool,
    /// Time at which the owner of the queue is queried about the end ([`crate::Action::Standstill`]); `Mono::NEVER` if
    /// the suspension does not end by itself.
    pub until: Mono,
}

/// To follow "waiting for": `an operator to resume the domain example.org: too many complaints`.
impl fmt::Display for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Suspension { what, reason, is_operators, .. } = self;
        match is_operators {
            true => write!(f, "an operator to resume {what}")?,
            false => write!(f, "{what} to be of use again")?,
        }
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

/// A suspended queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendedQueue {
    /// A scheduled queue.
    Scheduled(ScheduledId),
    /// A ready queue.
    Ready(ReadyId),
}

/// Suspension of a queue, and the end of the last one. Only the owner of the queue ends a suspension: most end by the
/// wall clock, which may be set after they began.
#[derive(Debug, Default)]
pub(crate) struct SuspensionState {
    suspension: Option<Arc<Suspension>>,
    /// A query to the owner is pending.
    asked: bool,
    ended: Mono,
}

impl SuspensionState {
    /// The suspension, if it is still in force.
    pub(crate) fn get(&self) -> Option<&Arc<Suspension>> {
        self.suspension.as_ref()
    }

    /// Time of the next query for the end of the suspension, if it has not ended; `NEVER` while an answer is pending.
    pub(crate) fn worth_a_look(&self) -> Option<Mono> {
        let until = self.suspension.as_ref()?.until;
        Some(if self.asked { Mono::NEVER } else { until })
    }

    /// Marks the owner as queried if the time has come; returns true then.
    pub(crate) fn ask(&mut self, now: Mono) -> bool {
        let is_time = self.worth_a_look().is_some_and(|at| at <= now);
        self.asked |= is_time;
        is_time
    }

    /// End of the last suspension.
    pub(crate) fn ended(&self) -> Mono {
        self.ended
    }

    /// Suspends, or ends a suspension; whether that changed something.
    pub(crate) fn set(&mut self, now: Mono, suspension: Option<Arc<Suspension>>) -> bool {
        // A suspension with a past end would be queried for ever.
        let suspension = suspension.filter(|suspension| suspension.until > now);
        if self.suspension == suspension {
            return false;
        }
        if suspension.is_none() {
            self.ended = now;
        }
        (self.suspension, self.asked) = (suspension, false);
        true
    }
}
