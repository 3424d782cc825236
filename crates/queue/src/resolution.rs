//! From due to ready: finding out where a scheduled queue's messages go.

use crate::lease::{Terms, owner_of};
use crate::queue::Queue;
use crate::ready::Ready;
use crate::scheduled::Known;
use crate::{Action, ReadyId, ReadyKey, ReadyLimits, ScheduledId};
use mail::{Failure, Mono};
use std::sync::Arc;

/// The answer to [`Action::Resolve`].
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// This is where it goes.
    Ready {
        /// The ready queue.
        key: ReadyKey,
        /// Limits towards it.
        limits: ReadyLimits,
        /// Ask again for what falls due after this.
        fresh_until: Mono,
    },
    /// It could not be found out (DNS trouble): the whole scheduled queue waits.
    /// It is asked again by its retry policy, as if each question were an attempt.
    Retry(Arc<Failure>),
    /// Nowhere, for good: each due entry comes out as [`Action::Failed`].
    Refuse(Arc<Failure>),
}

impl Queue {
    /// Takes the answer to [`Action::Resolve`].
    pub fn handle_resolved(&mut self, now: Mono, scheduled: ScheduledId, answer: Resolution) {
        let number = scheduled.0;
        if self.scheduled.get(number).is_none() {
            return;
        }
        let known = match answer {
            Resolution::Ready { key, limits, fresh_until } => {
                let ready = self.intern_ready(now, &key, &limits);
                let longest = self.scheduled[number].retry.longest;
                let queue = &mut self.ready[ready];
                // Referenced before the old answer is let go: they are mostly the same.
                queue.references += 1;
                queue.gate.longest = longest.min(crate::limits::BACK_OFF_MAX);
                // An answer that is stale at once would be asked for again for ever.
                Known::Ready(ReadyId(ready), fresh_until.max(Mono(now.0.saturating_add(1))))
            }
            Resolution::Retry(failure) => {
                let queue = &mut self.scheduled[number];
                queue.troubles = queue.troubles.saturating_add(1);
                let (retry, troubles) = (Arc::clone(&queue.retry), queue.troubles);
                Known::Trouble(failure, now + retry.delay(troubles, &mut self.random))
            }
            Resolution::Refuse(failure) => Known::Refused(failure),
        };
        let queue = &mut self.scheduled[number];
        if !matches!(known, Known::Trouble(..)) {
            queue.troubles = 0;
        }
        // An answer asked for before a reload is as old as the question.
        queue.epoch = if queue.asked { queue.asked_epoch } else { self.epoch };
        queue.asked = false;
        queue.used = now;
        let before = std::mem::replace(&mut queue.known, known);
        self.drop_reference(now, &before);
        self.finish_refusing(now, number);
        self.arm(number);
    }

    /// One scheduled queue less names this ready queue.
    pub(crate) fn drop_reference(&mut self, now: Mono, known: &Known) {
        if let Known::Ready(ready, _) = known
            && let Some(queue) = self.ready.get_mut(ready.0)
        {
            queue.references -= 1;
            queue.used = now;
        }
    }

    pub(crate) fn intern_ready(&mut self, now: Mono, key: &ReadyKey, limits: &ReadyLimits) -> u32 {
        if let Some(&number) = self.ready_names.get(key) {
            let queue = &mut self.ready[number];
            queue.used = now;
            if queue.limits != *limits || queue.terms.epoch != self.epoch {
                queue.adopt(limits, self.epoch);
                self.mark(number);
            }
            return number;
        }
        let terms = Terms::new(self.epoch, limits);
        let owner = owner_of(key, self.config.shards);
        let mut queue = Ready::new(key.clone(), limits.clone(), terms, owner);
        queue.used = now;
        let number = self.ready.insert(queue);
        self.ready_names.insert(key.clone(), number);
        number
    }

    /// Asks where a scheduled queue's messages go, once.
    pub(crate) fn want_resolution(&mut self, number: u32) {
        let queue = &mut self.scheduled[number];
        if !queue.asked {
            queue.asked = true;
            queue.asked_epoch = self.epoch;
            self.actions.push_back(Action::Resolve(ScheduledId(number)));
        }
    }

    /// Whether the last question for this queue's next hop was in vain.
    #[must_use]
    pub fn is_in_trouble(&self, scheduled: ScheduledId) -> bool {
        self.scheduled.get(scheduled.0).is_some_and(|queue| queue.troubles > 0)
    }

    /// Sets the timer of a scheduled queue.
    pub(crate) fn arm(&mut self, number: u32) {
        let queue = &self.scheduled[number];
        let at = match (queue.heap.first(), &queue.known) {
            _ if queue.asked => Mono::NEVER,
            (None, _) => Mono::NEVER,
            (Some(slot), Known::Trouble(_, until)) if queue.epoch == self.epoch => {
                self.slab[slot].due.max(*until)
            }
            (Some(slot), _) => self.slab[slot].due,
        };
        self.scheduled_timers.set(number, at);
    }

    /// Moves one due entry on, or asks where to.
    pub(crate) fn promote(&mut self, now: Mono, number: u32) {
        let queue = &self.scheduled[number];
        let Some(slot) = queue.heap.first().filter(|_| !queue.asked) else {
            self.arm(number);
            return;
        };
        if self.slab[slot].due > now {
            self.arm(number);
            return;
        }
        if self.expires_at(slot) <= now {
            let detail = self.leave_with_detail(now, slot);
            self.actions.push_back(Action::Expired(detail));
            return;
        }
        let current = queue.epoch == self.epoch;
        match &queue.known {
            Known::Ready(ready, until) if current && now < *until => {
                let ready = *ready;
                self.detach(slot);
                self.make_ready(slot, ready, false);
            }
            Known::Refused(failure) if current => {
                let failure = Arc::clone(failure);
                let detail = self.leave_with_detail(now, slot);
                self.actions.push_back(Action::Failed(detail, failure));
                self.finish_refusing(now, number);
            }
            Known::Trouble(_, until) if current && now < *until => self.arm(number),
            _ => {
                self.want_resolution(number);
                self.arm(number);
            }
        }
    }

    /// A refusal holds for what was due when it came; for later ones it is asked again.
    fn finish_refusing(&mut self, now: Mono, number: u32) {
        let queue = &mut self.scheduled[number];
        let more = queue.heap.first().is_some_and(|slot| self.slab[slot].due <= now);
        if !more && matches!(queue.known, Known::Refused(_)) {
            queue.known = Known::Nothing;
        }
    }

    /// Sends a ready entry back to its scheduled queue, because its way there is not valid any
    /// more.
    pub(crate) fn reschedule(&mut self, slot: u32) {
        self.detach(slot);
        self.schedule(slot);
    }
}
