//! What holds for the queue as a whole until it is changed: the retry policies and routes of the
//! configuration, suspensions, and whether the clock can be trusted.

use crate::control::{Suspension, longest};
use crate::seams::{Spawn, Time, World};
use crate::shard::{ClockDoubt, Shard};
use mail::{Mono, Wall};
use queue::{ReadyId, ReadyKey, ScheduledId, ScheduledKey};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How far a clock may be from the newest record of the spool before nobody believes it.
pub(crate) const CLOCK_ERROR_MAX: Duration = Duration::from_secs(86_400);
/// Between two looks at a clock that is not believed.
const CLOCK_LOOK: Duration = Duration::from_secs(5);

impl<W: World> Shard<W> {
    /// Follows a new configuration or new suspensions in all queues, a piece at a time. Another
    /// change meanwhile is followed from the beginning.
    pub(crate) fn follow_changes(self: &Rc<Self>) {
        self.change.set(self.change.get().wrapping_add(1));
        let change = self.change.get();
        let shard = Rc::clone(self);
        self.world.spawn().spawn(async move {
            shard.follow(change).await;
            shard.pump();
        });
    }

    async fn follow(self: &Rc<Self>, change: u32) {
        let readies: Vec<(ReadyId, ReadyKey)> = {
            let queue = self.queue.borrow();
            queue.ready_queues().map(|ready| (ready.id, ready.key.clone())).collect()
        };
        for (id, key) in readies {
            // Its number may be another's by now.
            if self.queue.borrow().ready_key(id) == Some(&key) {
                self.suspend_hop(id, &key);
            }
        }
        let mut from = Some(0);
        while let Some(at) = from {
            if self.change.get() != change {
                return;
            }
            let piece: Vec<(ScheduledId, ScheduledKey)> = {
                let queue = self.queue.borrow();
                let (rows, next) = queue.scheduled_piece(at);
                from = next;
                rows.map(|row| (row.id, row.key.clone())).collect()
            };
            let active = self.active();
            for (id, key) in piece {
                self.queue.borrow_mut().set_retry(id, active.retry_of(&key));
                self.suspend_scheduled(id, &key);
            }
            self.pump();
            self.pause_for_others().await;
        }
    }

    /// Has a scheduled queue stand still if an operator said so of its domain or route.
    pub(crate) fn suspend_scheduled(&self, id: ScheduledId, key: &ScheduledKey) {
        let suspensions = self.suspensions.borrow();
        let found = if suspensions.is_empty() {
            None
        } else {
            let active = self.active();
            let route = crate::route::route_of_key(&active.config, key);
            let route = route.map(|route| &*route.name);
            let covers = |scope: &crate::control::Scope| scope.covers(key.domain.as_str(), route);
            longest(&suspensions, self.world.time().wall(), covers).map(|s| self.standstill(s))
        };
        self.queue.borrow_mut().suspend(self.now(), id, found);
    }

    /// Has a ready queue stand still if an operator said so of its next hop.
    pub(crate) fn suspend_hop(&self, id: ReadyId, key: &ReadyKey) {
        let suspensions = self.suspensions.borrow();
        let covers = |scope: &crate::control::Scope| scope.covers_hop(&key.next_hop);
        let found = longest(&suspensions, self.world.time().wall(), covers);
        let found = found.map(|s| self.standstill(s));
        self.queue.borrow_mut().suspend_ready(self.now(), id, found);
    }

    /// A suspension as the queue knows it.
    fn standstill(&self, suspension: &Suspension) -> Arc<queue::Suspension> {
        let until = suspension.until.map_or(Mono::NEVER, |until| {
            let left = until.since(self.world.time().wall());
            self.now() + left
        });
        Arc::new(queue::Suspension {
            what: suspension.scope.to_string().into(),
            reason: suspension.reason.as_str().into(),
            until,
        })
    }

    /// What is suspended from now on.
    pub(crate) fn set_suspensions(self: &Rc<Self>, suspensions: Arc<[Suspension]>) {
        *self.suspensions.borrow_mut() = suspensions;
        self.follow_changes();
    }

    /// How many queued recipients no route leads to.
    pub(super) async fn count_unrouted(self: &Rc<Self>) -> u64 {
        let mut count = 0;
        let mut from = Some(0);
        while let Some(at) = from {
            {
                let (queue, active) = (self.queue.borrow(), self.active());
                let (rows, next) = queue.scheduled_piece(at);
                from = next;
                for row in rows.filter(|row| row.entries > 0) {
                    if crate::route::route_of_key(&active.config, row.key).is_none() {
                        count += row.entries as u64;
                    }
                }
            }
            if from.is_some() {
                self.pause_for_others().await;
            }
        }
        count
    }

    /// Gives nothing up while the clock can't be trusted: until it comes right or an operator says
    /// that it is.
    pub(crate) async fn watch_clock(self: Rc<Self>) {
        let time = self.world.time();
        let offset = || i128::from(time.wall().0) * 1_000 - i128::from(time.now().0);
        let before = offset();
        let began = time.now();
        self.queue.borrow_mut().keep_all(true);
        loop {
            time.sleep_until(time.now() + CLOCK_LOOK).await;
            let doubt = &self.shared.clock;
            let is_trusted = !doubt.is_doubted();
            let came_right = doubt.is_right(time.wall(), time.now().since(began));
            if !is_trusted && !came_right {
                continue;
            }
            if came_right {
                doubt.trust();
                // The clock was ahead by so much when the ages of what the spool held were taken
                // from it. If it was behind, these are too young: that does no harm.
                let ahead_us = before - offset();
                if let Ok(ahead_us @ 1..) = i64::try_from(ahead_us) {
                    self.make_younger(began, ahead_us).await;
                }
            }
            self.queue.borrow_mut().keep_all(false);
            self.pump();
            return;
        }
    }

    async fn make_younger(self: &Rc<Self>, began: Mono, wrong_us: i64) {
        let mut chunk = 0;
        while chunk < self.queue.borrow().chunk_count() {
            self.queue.borrow_mut().correct_ages(chunk, began, wrong_us);
            chunk += 1;
            self.pause_for_others().await;
        }
    }
}

impl ClockDoubt {
    /// Compares the clock with the newest record of the spool, when the server starts.
    #[must_use]
    pub fn new(newest: Option<Wall>, now: Wall) -> ClockDoubt {
        let doubt = ClockDoubt::default();
        if let Some(newest) = newest {
            doubt.newest_ms.store(newest.0, Ordering::Relaxed);
            doubt.doubted.store(distance(newest, now) > CLOCK_ERROR_MAX, Ordering::Relaxed);
        }
        doubt
    }

    /// Whether nobody has said yet that the clock is right.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// The clock is right.
    pub fn trust(&self) {
        self.doubted.store(false, Ordering::Relaxed);
    }

    /// A sentence for whoever looks after the server, while there is doubt.
    #[must_use]
    pub fn problem(&self, now: Wall) -> Option<String> {
        let newest = Wall(self.newest_ms.load(Ordering::Relaxed));
        let hours = distance(newest, now).as_secs() / 3_600;
        let (days, hours) = (hours / 24, hours % 24);
        let way = if now > newest { "ahead of" } else { "behind" };
        self.is_doubted().then(|| {
            format!(
                "the clock is {days}d {hours}h {way} the newest record of the spool ({newest}): \
                 no mail is given up for its age until it comes right, or until `postrider queue \
                 trust-clock` says that it is"
            )
        })
    }

    /// Whether the clock is near the newest record, `uptime` after the start.
    fn is_right(&self, now: Wall, uptime: Duration) -> bool {
        let newest = Wall(self.newest_ms.load(Ordering::Relaxed)).after(uptime);
        distance(newest, now) <= CLOCK_ERROR_MAX
    }
}

fn distance(a: Wall, b: Wall) -> Duration {
    a.since(b).max(b.since(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_more_than_a_day_off_is_not_believed() {
        let day = 86_400_000;
        let newest = Some(Wall(100 * day));
        assert!(!ClockDoubt::new(None, Wall(0)).is_doubted(), "an empty spool says nothing");
        for (now, doubted) in
            [(100 * day, false), (101 * day, false), (101 * day + 1, true), (99 * day - 1, true)]
        {
            let doubt = ClockDoubt::new(newest, Wall(now));
            assert_eq!(doubt.is_doubted(), doubted, "{now}");
            assert_eq!(doubt.problem(Wall(now)).is_some(), doubted);
        }
        let doubt = ClockDoubt::new(newest, Wall(106 * day));
        let said = doubt.problem(Wall(106 * day)).unwrap();
        assert!(said.starts_with("the clock is 6d 0h ahead of the newest record"), "{said}");
        assert!(!doubt.is_right(Wall(106 * day), Duration::from_secs(60)));
        assert!(doubt.is_right(Wall(100 * day + 60_000), Duration::from_secs(60)));
        doubt.trust();
        assert_eq!(doubt.problem(Wall(106 * day)), None);
    }
}
