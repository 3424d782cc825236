//! Ready queues with an external allowance: requests and refunds.

use crate::queue::Queue;
use crate::quota::{Quota, QuotaPause};
use crate::{Action, ReadyId};
use mail::Mono;
use std::sync::Arc;

impl Queue {
    /// Sets whether a ready queue is limited by [`Queue::handle_allowance`] (`is_needed`) or unlimited. Returns the
    /// rest of the previous allowance, now void.
    pub fn need_allowance(&mut self, now: Mono, ready: ReadyId, is_needed: bool) -> u32 {
        let serial = self.next_allowance();
        let Some(queue) = self.ready.get_mut(ready.0) else { return 0 };
        let before = queue.quota.take();
        let left = before.as_ref().map_or(0, |quota| quota.left(now));
        queue.quota = is_needed.then(|| Box::new(Quota::new(serial)));
        if before.is_some() || is_needed {
            self.mark(ready.0);
        }
        left
    }

    /// Answers [`Action::Allowance`]: this many recipients may be sent until then.
    pub fn handle_allowance(&mut self, now: Mono, ready: ReadyId, recipients: u32, until: Mono) {
        let serial = self.next_allowance();
        let quota = self.ready.get_mut(ready.0).and_then(|queue| queue.quota.as_mut());
        if let Some(quota) = quota {
            quota.grant(now, recipients, until, serial);
            self.mark(ready.0);
        }
    }

    /// Answers [`Action::Allowance`]: no recipient may be sent before `until`. Waiting entries move to another source
    /// if the route has one. `why` completes "waiting for".
    pub fn handle_no_allowance(&mut self, ready: ReadyId, why: Arc<str>, until: Mono) {
        let quota = self.ready.get_mut(ready.0).and_then(|queue| queue.quota.as_mut());
        if let Some(quota) = quota {
            quota.close(QuotaPause { why, until });
            self.mark(ready.0);
            let chunks = self.slab.chunk_count();
            self.sweep.rush(chunks);
        }
    }

    /// The serial of an allowance; 0 is never used.
    fn next_allowance(&mut self) -> u32 {
        self.allowances = self.allowances.wrapping_add(1).max(1);
        self.allowances
    }

    /// Refunds an entry that was not sent to any peer.
    pub(crate) fn refund_allowance(&mut self, number: u32, serial: u32) {
        let quota = self.ready.get_mut(number).and_then(|queue| queue.quota.as_mut());
        if let Some(quota) = quota {
            quota.refund(serial);
            self.mark(number);
        }
    }

    /// Requests an allowance if entries wait for one.
    pub(crate) fn ask_allowance(&mut self, now: Mono, number: u32) {
        if self.ready[number].quota.is_none() || !self.uses_tokens(now, number) {
            return;
        }
        let queue = &mut self.ready[number];
        let waiting = queue.backlog.len();
        let Some(quota) = queue.quota.as_mut().filter(|quota| !quota.is_asked) else { return };
        if quota.left(now) == 0 {
            quota.is_asked = true;
            self.actions
                .push_back(Action::Allowance { ready: ReadyId(number), recipients: waiting });
        }
    }

    /// Returns an unneeded rest of the allowance to its owner. Returns the time of the next check.
    pub(crate) fn spare_allowance(&mut self, now: Mono, number: u32) -> Mono {
        if self.ready[number].quota.is_none() {
            return Mono::NEVER;
        }
        let is_idle = !self.uses_tokens(now, number);
        let Some(quota) = self.ready[number].quota.as_mut() else { return Mono::NEVER };
        let spare = if is_idle { quota.take(now) } else { 0 };
        let changes_at = quota.changes_at(now);
        if spare > 0 {
            self.actions.push_back(Action::Spare { ready: ReadyId(number), recipients: spare });
        }
        changes_at
    }
}
