//! The sweep: a cursor over all entries and queues, a bounded piece at a time.
//!
//! It finds entries that became too old or late while waiting, and queues that are no longer in use. It also finds
//! entries in a ready queue to which their scheduled queue no longer leads.

pub(crate) mod cursor;

use crate::queue::Queue;
use crate::scheduled::{JUST_ASKED_FOR, RoutingState};
use crate::slab::{State, WARNED};
use crate::{Action, ReadyId};
use mail::Mono;
use std::time::Duration;

/// Duration of a pass over all chunks of a big queue; a small one takes a second per chunk.
const PASS: Duration = Duration::from_secs(30);
/// Interval between two passes over the queues, and between the steps of a pass.
const TIDY_EVERY: Duration = Duration::from_secs(60);
const TIDY_STEP: Duration = Duration::from_millis(100);
/// Queues checked in one step.
const TIDY_ROWS: u32 = 512;

impl Queue {
    pub(crate) fn next_sweep(&self) -> Mono {
        let chunks = if self.slab.loaded() == 0 { Mono::NEVER } else { self.sweep.at };
        let queues = self.scheduled.len() + self.ready.len() + self.limits.len();
        chunks.min(if queues == 0 { Mono::NEVER } else { self.sweep.tidy_at })
    }

    /// Performs the next step of the sweep, if due.
    pub(crate) fn sweep_a_piece(&mut self, now: Mono) -> bool {
        if self.next_sweep() > now {
            return false;
        }
        if self.sweep.at <= now && self.slab.loaded() > 0 {
            let chunk = self.sweep.chunk;
            self.sweep_chunk(now, chunk);
            let count = self.slab.chunk_count().max(1);
            self.sweep.chunk = (chunk + 1) % count;
            self.sweep.at = now + self.sweep.step(PASS, count);
        }
        if self.sweep.tidy_at <= now {
            self.tidy(now);
        }
        true
    }

    fn sweep_chunk(&mut self, now: Mono, chunk: u32) {
        let slots: Vec<u32> = self.slab.slots(chunk).collect();
        for slot in slots {
            let state = self.slab[slot].state();
            if matches!(state, State::InFlight | State::Held | State::Locating) {
                continue;
            }
            if self.is_given_up(now, slot) {
                self.expire(now, slot);
                continue;
            }
            self.warn_if_late(now, slot);
            self.follow_policy(now, slot);
            if self.slab[slot].state() == State::Ready {
                self.check_way(now, slot);
            }
        }
        self.slab.release(chunk);
    }

    /// Emits the delay notice of an entry, once, together with other late entries of its message: one notice is enough.
    pub(crate) fn warn_if_late(&mut self, now: Mono, slot: u32) {
        if !self.is_late(now, slot) {
            return;
        }
        let late: Vec<u32> = self.ring(slot).filter(|slot| self.is_late(now, *slot)).collect();
        for &slot in &late {
            self.slab[slot].set(WARNED, true);
        }
        let details = late.into_iter().map(|slot| self.detail(now, slot)).collect();
        self.actions.push_back(Action::Warn(details));
    }

    fn is_late(&self, now: Mono, slot: u32) -> bool {
        let entry = &self.slab[slot];
        let late_at = match self.deadlines_at(slot).notice {
            Mono::NEVER => match self.scheduled[entry.scheduled].retry.warn_us() {
                u64::MAX => Mono::NEVER,
                warn_us => {
                    // Waiting for a sending window is not reported as a delay.
                    let opened = self.opened_for(now, slot);
                    let waited = Duration::from_micros(warn_us);
                    entry.moment_at_age(warn_us).max(opened.map_or(Mono(0), |at| at + waited))
                }
            },
            notice => notice,
        };
        !self.keeps_all && !entry.has(WARNED) && late_at <= now && late_at != Mono::NEVER
    }

    /// Checks that a ready entry is in one of the current ready queues of its mail, even if the routing state has
    /// expired.
    fn check_way(&mut self, now: Mono, slot: u32) {
        let (number, ready) = (self.slab[slot].scheduled, ReadyId(self.slab[slot].ready));
        let queue = &self.scheduled[number];
        let current = queue.epoch == self.epoch;
        match &queue.known {
            RoutingState::Ready(ways, until) if current && ways.contains(ready) => {
                let is_elsewhere = self.may_go_another_way(now, ways, ready);
                if *until <= now {
                    self.want_resolution(number);
                }
                if is_elsewhere {
                    self.reschedule(slot);
                }
            }
            RoutingState::Trouble(_, until) if current && !queue.way_lost => {
                if *until <= now {
                    self.want_resolution(number);
                }
            }
            RoutingState::Each(until) if current && self.is_located(slot) => {
                if *until <= now {
                    self.want_resolution(number);
                }
                if self.may_have_moved(now, slot) {
                    self.reschedule(slot);
                }
            }
            _ => self.reschedule(slot),
        }
    }

    /// Drops queues that have long been unused.
    fn tidy(&mut self, now: Mono) {
        let rows = self.scheduled.end().max(self.ready.end()).max(self.limits.end());
        let first = self.sweep.tidy_row;
        let last = rows.min(first + TIDY_ROWS);
        for row in first..last {
            self.tidy_scheduled(now, row);
            self.tidy_ready(now, row);
            self.tidy_limit(now, row);
        }
        let done = last >= rows;
        self.sweep.tidy_row = if done { 0 } else { last };
        self.sweep.tidy_at = now + if done { TIDY_EVERY } else { TIDY_STEP };
    }

    fn tidy_scheduled(&mut self, now: Mono, number: u32) {
        let Some(queue) = self.scheduled.get(number) else { return };
        if queue.entries > 0 || queue.asked || queue.in_line {
            return;
        }
        if queue.used == JUST_ASKED_FOR {
            self.scheduled[number].used = now;
            return;
        }
        if now < queue.used + self.config.forget_after {
            return;
        }
        let known = queue.known.clone();
        let key = queue.key.clone();
        self.drop_reference(now, &known);
        self.scheduled_timers.set(number, Mono::NEVER);
        self.scheduled_names.remove(&key);
        self.tenants.drop_reference(self.scheduled[number].tenant);
        self.scheduled.remove(number);
    }

    fn tidy_ready(&mut self, now: Mono, number: u32) {
        let Some(queue) = self.ready.get(number) else { return };
        if !queue.is_unused() || now < queue.used + self.config.forget_after {
            return;
        }
        let key = queue.key.clone();
        self.ready_timers.set(number, Mono::NEVER);
        self.ready_names.remove(&key);
        self.ready.remove(number);
        self.actions.push_back(Action::Forgotten(ReadyId(number)));
    }
}
