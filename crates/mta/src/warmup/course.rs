//! Warm-up course of one source with one provider: the arithmetic of its days.

use super::{Allowance, Record, Tried, WarmupKey};
use config::Warmup;
use mail::Wall;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
const DAY_US: u64 = DAY_MS * 1_000;

/// Part of a day's limit that may be sent at once after a pause (an hour's worth).
const BURST_PARTS: u32 = 24;
/// Maximum part reserved at once.
const BATCH_PARTS: u32 = 50;
/// Minimum part reserved at once (a minute's worth). Smaller ones would close and open a source often, and each time
/// the queue examines all waiting mail.
const QUANTUM_PARTS: u32 = 1_440;

/// A day counts if this part of its recipients was tried.
const ENOUGH_PARTS: u32 = 2;

/// Number of days by which the clock may be set back without ending the current day.
const SET_BACK_DAYS: u32 = 1;

/// The UTC day of a time: days since 1970-01-01.
#[must_use]
pub fn day_of(now: Wall) -> u32 {
    u32::try_from(now.0 / DAY_MS).unwrap_or(u32::MAX)
}

fn end_of(day: u32) -> Wall {
    Wall((u64::from(day) + 1) * DAY_MS)
}

/// The result of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmupDayEnd {
    /// Too many recipients were blocked: the day is repeated.
    Repeated {
        /// Its number, from 0.
        stage: u32,
        count: u32,
        tried: u32,
        held: u32,
    },
    /// It was the last day.
    Warm,
}

/// The pace on a day with this number of recipients.
#[derive(Clone, Copy, Debug)]
struct WarmupPace {
    interval_us: u64,
    burst: u32,
    batch: u32,
    quantum: u32,
}

impl WarmupPace {
    fn of(count: u32) -> WarmupPace {
        let part = |parts: u32| (count / parts).max(1);
        WarmupPace {
            interval_us: DAY_US.div_ceil(u64::from(count.max(1))),
            burst: part(BURST_PARTS),
            batch: part(BATCH_PARTS),
            quantum: part(QUANTUM_PARTS),
        }
    }

    fn worth_us(self, recipients: u32) -> u64 {
        self.interval_us.saturating_mul(u64::from(recipients))
    }

    /// Number of recipients that may be sent now, if the earlier ones fill the time up to `paced_us`.
    fn available(self, paced_us: u64, now_us: u64) -> u32 {
        let limit_us = now_us.saturating_add(self.worth_us(self.burst));
        let room_us = limit_us.saturating_sub(paced_us.max(now_us));
        u32::try_from(room_us / self.interval_us).unwrap_or(u32::MAX)
    }

    /// Time at which `recipients` may be sent.
    fn due_us(self, paced_us: u64, recipients: u32) -> u64 {
        let ahead_us = self.worth_us(self.burst.saturating_sub(recipients));
        paced_us.saturating_sub(ahead_us)
    }
}

/// State of a source's warm-up with a provider.
#[derive(Clone, Debug)]
pub(super) struct WarmupState {
    /// The stored part.
    pub(super) kept: Record,
    /// Durably reserved, and not granted.
    stock: u32,
    /// Reserved, with the write in progress.
    pub(super) writing: u32,
    /// The result of the last day, until it is reported.
    turn: Option<WarmupDayEnd>,
}

impl WarmupState {
    /// A new course. `is_spent`: the number sent today is unknown.
    pub(super) fn new(plan: &Warmup, now: Wall, is_spent: bool) -> WarmupState {
        let reserved = if is_spent { u32::MAX } else { 0 };
        WarmupState::read(Record {
            start_day: plan.start_day,
            day: day_of(now),
            reserved,
            ..Record::default()
        })
    }

    /// A stored course: reservations that were not granted then are lost.
    pub(super) fn read(kept: Record) -> WarmupState {
        WarmupState { kept, stock: 0, writing: 0, turn: None }
    }

    /// Granted, or lost.
    pub(super) fn used(&self) -> u32 {
        self.kept.reserved.saturating_sub(self.stock).saturating_sub(self.writing)
    }

    /// Moves on to today, and to the current plan.
    fn follow(&mut self, plan: &Warmup, now: Wall) {
        let (kept, today) = (&mut self.kept, day_of(now));
        if kept.start_day != plan.start_day {
            // A new plan begins; the recipients sent today still count.
            kept.start_day = plan.start_day;
            kept.stage = 0;
            (kept.tried, kept.delivered, kept.held) = (0, 0, 0);
        }
        if today > kept.day {
            kept.day = today;
            if let Some(count) = plan.count(kept.stage).filter(|_| kept.tried > 0) {
                let Record { stage, tried, held, .. } = *kept;
                // A few recipients do not show that the provider accepts this many.
                let is_enough = tried >= count.div_ceil(ENOUGH_PARTS);
                if plan.is_held(tried, held) {
                    self.turn = Some(WarmupDayEnd::Repeated { stage, count, tried, held });
                } else if is_enough {
                    kept.stage += 1;
                    if plan.count(kept.stage).is_none() {
                        self.turn = Some(WarmupDayEnd::Warm);
                    }
                }
            }
            (kept.reserved, kept.tried, kept.delivered, kept.held) = (0, 0, 0, 0);
            (self.stock, self.writing) = (0, 0);
        } else if today.saturating_add(SET_BACK_DAYS) < kept.day {
            // The clock was far ahead: the number sent on this day before is unknown.
            (kept.day, kept.reserved) = (today, u32::MAX);
            (kept.tried, kept.delivered, kept.held) = (0, 0, 0);
            (self.stock, self.writing) = (0, 0);
        }
    }

    /// Requests an allowance now; `None` if a reservation was made that must be written first.
    pub(super) fn ask(
        &mut self,
        key: &WarmupKey,
        plan: &Warmup,
        wanted: u32,
        now: Wall,
    ) -> Option<Allowance> {
        self.follow(plan, now);
        let Some(count) = plan.count(self.kept.stage) else { return Some(Allowance::Warm) };
        let (pace, now_us, wanted) =
            (WarmupPace::of(count), now.0.saturating_mul(1_000), wanted.max(1));
        // At most a full burst ahead: the clock may have been set back, or the limit raised.
        let most_us = now_us.saturating_add(pace.worth_us(pace.burst));
        self.kept.paced_us = self.kept.paced_us.min(most_us);
        let until = end_of(self.kept.day);
        // A reload may have lowered the limit.
        let excess = self.kept.reserved.saturating_sub(count).min(self.stock);
        self.stock -= excess;
        self.kept.reserved -= excess;
        if self.stock > 0 {
            let recipients = wanted.min(self.stock);
            self.stock -= recipients;
            return Some(Allowance::Granted { recipients, until });
        }
        if self.writing > 0 {
            return None;
        }
        let left = count.saturating_sub(self.kept.reserved);
        let due_us = pace.due_us(self.kept.paced_us, pace.quantum.min(left));
        if left == 0 || due_us > now_us {
            let due = Wall(due_us.div_ceil(1_000)).max(Wall(now.0 + 1));
            let until = if left == 0 { until } else { due.min(until) };
            return Some(Allowance::Closed { why: self.why(key, count), until });
        }
        let available = pace.available(self.kept.paced_us, now_us).min(pace.batch);
        let reserved = left.min(available).min(wanted.max(pace.quantum));
        self.kept.reserved += reserved;
        self.writing = reserved;
        self.kept.paced_us = self.kept.paced_us.max(now_us).saturating_add(pace.worth_us(reserved));
        None
    }

    fn why(&self, key: &WarmupKey, count: u32) -> Arc<str> {
        let used = self.used().min(count);
        format!("warm-up of {key}: {used} of {count} recipients today").into()
    }

    /// A reservation of that day is durable.
    pub(super) fn written(&mut self, day: u32, recipients: u32) {
        // A new day has dropped the reservation.
        if day == self.kept.day {
            let recipients = recipients.min(self.writing);
            self.writing -= recipients;
            self.stock += recipients;
        }
    }

    /// A reservation could not be written, and was not granted.
    pub(super) fn unwritten(&mut self, day: u32, recipients: u32) {
        if day == self.kept.day {
            let recipients = recipients.min(self.writing);
            self.writing -= recipients;
            self.kept.reserved = self.kept.reserved.saturating_sub(recipients);
        }
    }

    /// Returns an unused part of a grant until `until`.
    pub(super) fn give_back(&mut self, recipients: u32, until: Wall) {
        if until == end_of(self.kept.day) {
            self.stock = self.stock.saturating_add(recipients).min(self.kept.reserved);
        }
    }

    /// End of the process: ungranted reservations are free again.
    pub(super) fn close(&mut self) {
        self.kept.reserved = self.kept.reserved.saturating_sub(self.stock + self.writing);
        (self.stock, self.writing) = (0, 0);
    }

    pub(super) fn note(&mut self, came: Tried) {
        let kept = &mut self.kept;
        kept.tried = kept.tried.saturating_add(came.tried);
        kept.delivered = kept.delivered.saturating_add(came.delivered);
        kept.held = kept.held.saturating_add(came.held);
    }

    pub(super) fn take_turn(&mut self) -> Option<WarmupDayEnd> {
        self.turn.take()
    }
}

#[cfg(test)]
mod tests;
