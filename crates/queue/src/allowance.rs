//! Ready queues that may send only what they are allowed from outside: asking for it, and giving it back.

use crate::queue::Queue;
use crate::quota::{Closed, Quota};
use crate::slab::COUNTED;
use crate::{Action, ReadyId, Work};
use mail::Mono;
use std::sync::Arc;

impl Queue {
    /// Has a ready queue send only what [`Queue::handle_allowance`] lets it (`is_needed`), or as much as it likes.
    /// Gives how many recipients it was allowed before, which are nobody's from now on.
    pub fn need_allowance(&mut self, now: Mono, ready: ReadyId, is_needed: bool) -> u32 {
        let Some(queue) = self.ready.get_mut(ready.0) else { return 0 };
        let before = queue.quota.take();
        let left = before.as_ref().map_or(0, |quota| quota.left(now));
        let renewed = before.as_ref().map_or_else(Quota::new, |quota| quota.renewed());
        queue.quota = is_needed.then(|| Box::new(renewed));
        if before.is_some() || is_needed {
            self.mark(ready.0);
        }
        left
    }

    /// The answer to [`Action::Allowance`]: so many recipients may go, until then.
    pub fn handle_allowance(&mut self, now: Mono, ready: ReadyId, recipients: u32, until: Mono) {
        let quota = self.ready.get_mut(ready.0).and_then(|queue| queue.quota.as_mut());
        if let Some(quota) = quota {
            quota.grant(now, recipients, until);
            self.mark(ready.0);
        }
    }

    /// The answer to [`Action::Allowance`]: nothing before `until`. What waits goes other ways, where there are
    /// some; `why` follows "waiting for".
    pub fn handle_no_allowance(&mut self, ready: ReadyId, why: Arc<str>, until: Mono) {
        let quota = self.ready.get_mut(ready.0).and_then(|queue| queue.quota.as_mut());
        if let Some(quota) = quota {
            quota.close(Closed { why, until });
            self.mark(ready.0);
            let chunks = self.slab.chunk_count();
            self.sweep.rush(chunks);
        }
    }

    /// What a transaction takes of an allowance, if the ready queue needs one.
    pub(crate) fn spend_allowance(&mut self, ready: u32, work: &Work) {
        let Some(quota) = &mut self.ready[ready].quota else { return };
        quota.spend(u32::try_from(work.entries.len()).unwrap_or(u32::MAX));
        for (entry, ..) in &work.entries {
            self.slab[entry.slot].set(COUNTED, true);
        }
        // More is asked for, or the rest given back.
        self.mark(ready);
    }

    /// An entry is back that took of one.
    pub(crate) fn return_allowance(&mut self, now: Mono, slot: u32, is_untried: bool) {
        let entry = &mut self.slab[slot];
        let ready = entry.ready;
        if !entry.has(COUNTED) {
            return;
        }
        entry.set(COUNTED, false);
        if let Some(quota) = self.ready.get_mut(ready).and_then(|queue| queue.quota.as_mut()) {
            quota.come_back(now, is_untried);
            self.mark(ready);
        }
    }

    /// Asks for an allowance where something waits for one.
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

    /// Gives back what nothing waits for. Says when to look again.
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
