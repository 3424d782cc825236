//! All warm-up courses of a process, and their changes to write.

use super::course::WarmupState;
use super::{Allowance, AllowanceRequest, Record, RecordBytes, Tried, WarmupDayEnd, WarmupKey};
use mail::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of courses; further sets of hosts share one, for each source.
const COURSES_MAX: usize = 100_000;

/// Name of the course that later sets of hosts share.
const OTHERS: &str = "(others)";

/// Days without mail after which a course is forgotten if its source has no warm-up plan any more.
const FORGOTTEN_AFTER_DAYS: u32 = 30;

/// The answer to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub allowance: Allowance,
    /// The result of the last day, if not yet reported.
    pub turn: Option<WarmupDayEnd>,
}

/// The result of an [`AllowanceRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowanceGrant {
    Answered(Answered),
    /// A reservation was made: ask again when [`WarmupLedger::take_changes`] are written.
    Reserved,
}

/// A course that differs from the stored one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmupChange {
    pub key: WarmupKey,
    pub record: RecordBytes,
    /// The day of the reservation that becomes durable with it, and its recipients.
    day: u32,
    writing: u32,
}

/// Changes in the order of their keys.
pub type WarmupChanges = Vec<WarmupChange>;

/// A course for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmupView {
    pub key: WarmupKey,
    pub kept: Record,
    /// Recipients granted on its day.
    pub used: u32,
}

/// All courses.
#[derive(Debug, Default)]
pub struct WarmupLedger {
    courses: BTreeMap<WarmupKey, WarmupState>,
    changed: BTreeSet<WarmupKey>,
    /// The day on which the ledger was lost: the numbers sent before are unknown.
    lost_on: Option<u32>,
}

impl WarmupLedger {
    /// Loads the stored courses. Courses of sources not in `warming` are dropped after a month without mail.
    #[must_use]
    pub fn read(
        kept: impl IntoIterator<Item = (WarmupKey, Record)>,
        warming: &BTreeSet<Arc<str>>,
        today: u32,
    ) -> WarmupLedger {
        let is_wanted = |key: &WarmupKey, record: &Record| {
            warming.contains(&key.source)
                || record.day.saturating_add(FORGOTTEN_AFTER_DAYS) >= today
        };
        let kept = kept.into_iter().filter(|(key, record)| is_wanted(key, record));
        let courses = kept.map(|(key, record)| (key, WarmupState::read(record))).collect();
        WarmupLedger { courses, ..WarmupLedger::default() }
    }

    /// A ledger in place of an unreadable one: courses that begin on this day send nothing before the next.
    #[must_use]
    pub fn replaced(today: u32) -> WarmupLedger {
        WarmupLedger { lost_on: Some(today), ..WarmupLedger::default() }
    }

    /// The key of the course: the source's shared one if there are too many.
    fn known(&self, key: &WarmupKey) -> WarmupKey {
        if self.courses.len() < COURSES_MAX || self.courses.contains_key(key) {
            return key.clone();
        }
        WarmupKey { source: Arc::clone(&key.source), towards: OTHERS.into() }
    }

    /// Requests an allowance.
    pub fn ask(&mut self, ask: &AllowanceRequest) -> AllowanceGrant {
        let AllowanceRequest { key, plan, wanted, now } = ask;
        if *now < plan.start() {
            let start = plan.start();
            let why = format!("warm-up of source {} has not begun", key.source);
            let allowance = Allowance::Closed { why: why.into(), until: start };
            return AllowanceGrant::Answered(Answered { allowance, turn: None });
        }
        let key = self.known(key);
        let is_spent = self.lost_on == Some(super::day_of(*now));
        let course = self
            .courses
            .entry(key.clone())
            .or_insert_with(|| WarmupState::new(plan, *now, is_spent));
        let before = course.kept;
        let allowance = course.ask(&key, plan, *wanted, *now);
        if course.kept != before {
            self.changed.insert(key);
        }
        match allowance {
            Some(allowance) => {
                AllowanceGrant::Answered(Answered { allowance, turn: course.take_turn() })
            }
            None => AllowanceGrant::Reserved,
        }
    }

    /// Returns an unused part of a grant until `until`.
    pub fn give_back(&mut self, key: &WarmupKey, recipients: u32, until: Wall) {
        let key = self.known(key);
        if let Some(course) = self.courses.get_mut(&key) {
            course.give_back(recipients, until);
        }
    }

    /// Counts the results of tried recipients.
    pub fn note(&mut self, key: &WarmupKey, came: Tried) {
        let key = self.known(key);
        if let Some(course) = self.courses.get_mut(&key) {
            course.note(came);
            self.changed.insert(key);
        }
    }

    /// Takes the changes to write, as one unit. Call [`WarmupLedger::written`] or [`WarmupLedger::unwritten`]
    /// afterwards.
    pub fn take_changes(&mut self) -> WarmupChanges {
        let changed = std::mem::take(&mut self.changed);
        let change = |key: WarmupKey| {
            let course = self.courses.get(&key)?;
            let (record, day, writing) = (course.kept.to_bytes(), course.kept.day, course.writing);
            Some(WarmupChange { key, record, day, writing })
        };
        changed.into_iter().filter_map(change).collect()
    }

    /// The changes are durable: their reservations may be granted.
    pub fn written(&mut self, changes: &WarmupChanges) {
        for WarmupChange { key, day, writing, .. } in changes {
            if let Some(course) = self.courses.get_mut(key) {
                course.written(*day, *writing);
            }
        }
    }

    /// The changes failed to be written: none of their reservations was granted.
    pub fn unwritten(&mut self, changes: &WarmupChanges) {
        for WarmupChange { key, day, writing, .. } in changes {
            if let Some(course) = self.courses.get_mut(key) {
                course.unwritten(*day, *writing);
                self.changed.insert(key.clone());
            }
        }
    }

    /// Clean end of the process: ungranted reservations are free again, once this is written.
    pub fn close(&mut self) {
        for (key, course) in &mut self.courses {
            let before = course.kept;
            course.close();
            if course.kept != before {
                self.changed.insert(key.clone());
            }
        }
    }

    /// All courses, by source and then by target.
    pub fn courses(&self) -> impl Iterator<Item = WarmupView> + '_ {
        self.courses.iter().map(|(key, course)| WarmupView {
            key: key.clone(),
            kept: course.kept,
            used: course.used(),
        })
    }
}

#[cfg(test)]
mod tests;
