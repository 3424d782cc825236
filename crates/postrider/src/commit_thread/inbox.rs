//! The queue of the commit thread, and the group commit delay of a batch.

use super::LogVisit;
use spool::{IoDone, Request};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum time that a batch waits for the size of the last one. A sync costs as much processor time as about ten
/// messages, so under load it should commit many.
const GATHER: Duration = Duration::from_millis(1);
/// Minimum size of a batch for which waiting pays.
const CROWD: usize = 6;
/// More are never waited for.
const CROWD_MAX: usize = 128;
/// Minimum number of requests after [`GATHER`] for a batch to wait further steps.
const THRONG: usize = 16;
/// Length of a further step; the wait ends with the first step without a new request.
const STEP: Duration = Duration::from_micros(250);
/// Maximum number of steps: no request waits longer than 3 ms.
const STEPS_MAX: u32 = 8;
/// Number of batches that do not wait after a first step without a new request.
const PAUSE: u32 = 4;

/// Number of requests to wait for after a batch of `last`: half as many again, so that batches grow with the load. A
/// few clients never wait for each other.
fn gather_count(last: usize) -> usize {
    if last < CROWD { 0 } else { (last + last / 2).min(CROWD_MAX) }
}

/// Waiting input of the commit thread.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) requests: Vec<Request>,
    pub(super) done: Vec<IoDone>,
    pub(super) stop: bool,
    pub(super) visits: Vec<LogVisit>,
    /// Number of requests at which the sleeping commit thread is woken.
    wake_at: Option<usize>,
}

impl Inbox {
    /// Returns true if input must be handled now.
    fn is_urgent(&self) -> bool {
        !self.done.is_empty() || self.stop || !self.visits.is_empty()
    }
}

/// The inbox, shared with its senders.
#[derive(Default)]
pub(super) struct Mailbox {
    inbox: Mutex<Inbox>,
    wake: Condvar,
}

impl Mailbox {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, change: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.lock();
        change(&mut inbox);
        let wake =
            inbox.wake_at.is_some_and(|count| inbox.is_urgent() || inbox.requests.len() >= count);
        if wake {
            inbox.wake_at = None;
        }
        drop(inbox);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Waits until `count` requests are here, something urgent is, or `time` has passed.
    pub(super) fn wait<'a>(
        &self,
        mut inbox: MutexGuard<'a, Inbox>,
        count: usize,
        time: Duration,
    ) -> MutexGuard<'a, Inbox> {
        inbox.wake_at = Some(count);
        let (mut inbox, _) =
            self.wake.wait_timeout(inbox, time).unwrap_or_else(PoisonError::into_inner);
        inbox.wake_at = None;
        inbox
    }
}

/// Makes batches large under load. The longer wait pays only for many independent requests: clients in lockstep, which
/// all wait for this very commit, would lose by it. The first step without a new request detects them.
#[derive(Default)]
pub(super) struct GroupCommitDelay {
    /// Requests in the last batch.
    last: usize,
    /// Number of further batches without a wait beyond [`GATHER`].
    pause: u32,
}

impl GroupCommitDelay {
    /// Waits for the rest of a batch.
    pub(super) fn gather<'a>(
        &mut self,
        mailbox: &Mailbox,
        mut inbox: MutexGuard<'a, Inbox>,
    ) -> MutexGuard<'a, Inbox> {
        let wanted = gather_count(self.last);
        let lacks = |inbox: &Inbox| inbox.requests.len() < wanted && !inbox.is_urgent();
        if lacks(&inbox) {
            inbox = mailbox.wait(inbox, wanted, GATHER);
            let mut steps = self.steps();
            while steps > 0 && inbox.requests.len() >= THRONG && lacks(&inbox) {
                let before = inbox.requests.len();
                inbox = mailbox.wait(inbox, wanted, STEP);
                steps = self.steps_after(steps, inbox.requests.len() > before);
            }
        }
        self.last = inbox.requests.len();
        inbox
    }

    /// Maximum number of further steps for this batch.
    fn steps(&mut self) -> u32 {
        if self.pause == 0 {
            return STEPS_MAX;
        }
        self.pause -= 1;
        0
    }

    /// Number of steps left after one with or without a new request.
    fn steps_after(&mut self, steps: u32, came: bool) -> u32 {
        if came {
            return steps - 1;
        }
        if steps == STEPS_MAX {
            self.pause = PAUSE;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_never_wait_for_each_other() {
        assert_eq!(gather_count(CROWD - 1), 0);
        assert_eq!(gather_count(CROWD), CROWD + CROWD / 2);
        assert_eq!(gather_count(1_000), CROWD_MAX);
    }

    #[test]
    fn steps_end_when_nobody_comes_and_after_the_last() {
        let mut gathering = GroupCommitDelay::default();
        let mut steps = gathering.steps();
        let mut taken = 0;
        while steps > 0 {
            steps = gathering.steps_after(steps, true);
            taken += 1;
        }
        assert_eq!(taken, STEPS_MAX);
        assert_eq!(gathering.steps_after(STEPS_MAX - 1, false), 0);
        assert_eq!(gathering.steps(), STEPS_MAX, "somebody had come in the first step");
    }

    #[test]
    fn after_a_first_step_in_vain_the_next_batches_dont_wait() {
        let mut gathering = GroupCommitDelay::default();
        assert_eq!(gathering.steps_after(STEPS_MAX, false), 0);
        for _ in 0..PAUSE {
            assert_eq!(gathering.steps(), 0);
        }
        assert_eq!(gathering.steps(), STEPS_MAX);
    }
}
