//! What stands still: a scheduled queue or a ready queue, with all that will come to it, because an operator
//! stopped it or it cannot send.

use crate::{ReadyId, ScheduledId};
use mail::Mono;
use std::fmt;
use std::sync::Arc;

/// Why something stands still, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// What stands still, to follow "resume": `the domain example.org`.
    pub what: Arc<str>,
    /// Why, in the operator's words, or ours; may be empty.
    pub reason: Arc<str>,
    /// An operator stopped it; otherwise it goes on by itself.
    pub is_operators: bool,
    /// When whoever owns the queue is asked whether it is over ([`crate::Action::Standstill`]); `Mono::NEVER`
    /// where it does not end by itself.
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

/// What stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendedQueue {
    /// A scheduled queue.
    Scheduled(ScheduledId),
    /// A ready queue.
    Ready(ReadyId),
}

/// Whether a queue is suspended, and when that ended last. It ends when the owner of the queue says so and not by
/// itself: most standstills end by the wall clock, which may have been set since they were told.
#[derive(Debug, Default)]
pub(crate) struct SuspensionState {
    suspension: Option<Arc<Suspension>>,
    /// The owner is asked whether it is over.
    asked: bool,
    ended: Mono,
}

impl SuspensionState {
    /// The suspension, if it has not ended.
    pub(crate) fn get(&self) -> Option<&Arc<Suspension>> {
        self.suspension.as_ref()
    }

    /// When to ask whether it is over, if it has not ended; never before an answer.
    pub(crate) fn worth_a_look(&self) -> Option<Mono> {
        let until = self.suspension.as_ref()?.until;
        Some(if self.asked { Mono::NEVER } else { until })
    }

    /// Its time has come and the owner has to be asked, which it is from now on.
    pub(crate) fn ask(&mut self, now: Mono) -> bool {
        let is_time = self.worth_a_look().is_some_and(|at| at <= now);
        self.asked |= is_time;
        is_time
    }

    /// When the last one ended.
    pub(crate) fn ended(&self) -> Mono {
        self.ended
    }

    /// Suspends, or ends a suspension; whether that changed something.
    pub(crate) fn set(&mut self, now: Mono, suspension: Option<Arc<Suspension>>) -> bool {
        // One whose time has passed would be asked about for ever.
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
