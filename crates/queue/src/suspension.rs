//! What stands still: a scheduled queue or a ready queue, with all that will come to it, because an operator
//! stopped it or it cannot send.

use mail::Mono;
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
    /// When it ends by itself; `Mono::NEVER` where it does not.
    pub until: Mono,
}

/// Whether a queue is suspended, and when that ended last.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    suspension: Option<Arc<Suspension>>,
    ended: Mono,
}

impl Standstill {
    /// The suspension, if it has not ended.
    pub(crate) fn at(&self, now: Mono) -> Option<&Arc<Suspension>> {
        self.suspension.as_ref().filter(|suspension| suspension.until > now)
    }

    /// When it ends by itself, or did.
    pub(crate) fn until(&self) -> Mono {
        self.suspension.as_ref().map_or(Mono(0), |suspension| suspension.until)
    }

    /// When the last one ended, if it has: what was tried before was not tried since.
    pub(crate) fn ended(&self, now: Mono) -> Mono {
        self.ended.max(Some(self.until()).filter(|until| *until <= now).unwrap_or_default())
    }

    /// Suspends, or ends a suspension; whether that changed something.
    pub(crate) fn set(&mut self, now: Mono, suspension: Option<Arc<Suspension>>) -> bool {
        if self.suspension == suspension {
            return false;
        }
        self.ended = if self.at(now).is_some() { now } else { self.ended(now) };
        self.suspension = suspension;
        true
    }
}
