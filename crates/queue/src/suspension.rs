//! What an operator stopped: a scheduled queue or a ready queue, with all that will come to it.

use crate::queue::Queue;
use crate::{ReadyId, ReadyKey, ScheduledId};
use mail::Mono;
use std::sync::Arc;

/// Why something stands still, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// What the operator stopped, to follow "resume": `the domain example.org`.
    pub what: Arc<str>,
    /// The operator's words.
    pub reason: Arc<str>,
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

    /// Whether that changed something.
    fn set(&mut self, now: Mono, suspension: Option<Arc<Suspension>>) -> bool {
        if self.suspension == suspension {
            return false;
        }
        self.ended = if self.at(now).is_some() { now } else { self.ended(now) };
        self.suspension = suspension;
        true
    }
}

impl Queue {
    /// Stops a scheduled queue, or lets it go on. What is in flight goes on; what lies in ready
    /// queues is taken back when its turn comes.
    pub fn suspend(
        &mut self,
        now: Mono,
        scheduled: ScheduledId,
        suspension: Option<Arc<Suspension>>,
    ) {
        let Some(queue) = self.scheduled.get_mut(scheduled.0) else { return };
        if queue.standstill.set(now, suspension) {
            let towards = queue.ready();
            self.arm(scheduled.0);
            if let Some(ready) = towards {
                self.mark(ready.0);
            }
        }
    }

    /// Stops a ready queue, or lets it go on.
    pub fn suspend_ready(
        &mut self,
        now: Mono,
        ready: ReadyId,
        suspension: Option<Arc<Suspension>>,
    ) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        if queue.standstill.set(now, suspension) {
            self.mark(ready.0);
        }
    }

    /// The number of a ready queue that is known.
    #[must_use]
    pub fn ready_id(&self, key: &ReadyKey) -> Option<ReadyId> {
        self.ready_names.get(key).copied().map(ReadyId)
    }
}
