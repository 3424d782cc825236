//! One shard, driven by hand.

use crate::world::{Limits, SECOND, entry, policy, ready_key, scheduled_key};
use mail::Mono;
use queue::{
    Action, EntryOutcome, Queue, QueueConfig, ReadyId, Resolution, RetryPolicy, ScheduledId, Take,
    TransactionWork, WeightedPath,
};
use std::time::Duration;

/// The shard, and what it was told to do.
pub(crate) struct One {
    pub(crate) queue: Queue,
    pub(crate) now: Mono,
    /// Steps of back-offs that were told, and 0 for their end.
    pub(crate) told: Vec<u16>,
}

impl One {
    pub(crate) fn new() -> One {
        One { queue: Queue::new(QueueConfig::new(0, 1)), now: Mono(5_000_000), told: Vec::new() }
    }

    pub(crate) fn push(&mut self, id: u64) -> queue::EntryId {
        self.push_with(&policy(), entry(id, self.now))
    }

    pub(crate) fn push_with(
        &mut self,
        retry: &RetryPolicy,
        new: queue::NewEntry,
    ) -> queue::EntryId {
        let scheduled = self.queue.scheduled(&scheduled_key("a.example"), retry);
        self.queue.push(self.now, scheduled, new)
    }

    pub(crate) fn poll(&mut self) -> Vec<Action> {
        let mut actions: Vec<_> = std::iter::from_fn(|| self.queue.poll(self.now)).collect();
        actions.retain(|action| match action {
            Action::Suspended(suspended) => {
                self.told.push(suspended.step);
                false
            }
            Action::Resumed { .. } => {
                self.told.push(0);
                false
            }
            _ => true,
        });
        actions
    }

    pub(crate) fn later(&mut self, time: Duration) -> Vec<Action> {
        self.now = self.now + time;
        self.poll()
    }

    /// Answers the open question.
    pub(crate) fn resolve(&mut self, hop: &str, limits: &Limits) -> Vec<Action> {
        let scheduled = ScheduledId(0);
        let answer = Resolution::Ready {
            ways: vec![WeightedPath {
                key: ready_key(hop),
                limits: limits.own(),
                shared: vec![limits.shared(hop)],
                weight: 1,
                tier: 0,
            }],
            fresh_until: self.now + SECOND * 3600,
        };
        self.queue.handle_resolved(self.now, scheduled, answer);
        self.poll()
    }

    /// A connection opens and takes.
    pub(crate) fn open(&mut self, ready: ReadyId) -> Take {
        self.queue.handle_opened(self.now, ready);
        self.queue.take(self.now, ready, 0)
    }

    pub(crate) fn outcome(
        &mut self,
        work: &TransactionWork,
        outcome: &EntryOutcome,
    ) -> Option<queue::Deferred> {
        let mut last = None;
        for (entry, _, _) in &work.entries {
            last = self.queue.handle_outcome(self.now, *entry, outcome.clone());
        }
        last
    }
}

/// The work that must be there.
pub(crate) fn work(take: Take) -> TransactionWork {
    match take {
        Take::Work(work) => work,
        other => panic!("no work but {other:?}"),
    }
}

/// The first ready queue.
pub(crate) const READY: ReadyId = ReadyId(0);
