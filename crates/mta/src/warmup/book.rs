//! All courses of a process, and what of them is to be written.

use super::course::WarmupState;
use super::{Allowance, AllowanceRequest, Record, RecordBytes, Tried, WarmupDayEnd, WarmupKey};
use mail::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Courses that are known; sets of hosts that come later have one together, for each source.
const COURSES_MAX: usize = 100_000;

/// Where those go together.
const OTHERS: &str = "(others)";

/// Courses that nobody has gone on for so many days, from sources that warm up no more, are forgotten.
const FORGOTTEN_AFTER_DAYS: u32 = 30;

/// What a shard is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub allowance: Allowance,
    /// What the last day came to, if nobody was told yet.
    pub turn: Option<WarmupDayEnd>,
}

/// What came of an [`AllowanceRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowanceGrant {
    Answered(Answered),
    /// Something was reserved: ask again when [`WarmupLedger::take_changes`] are written.
    Reserved,
}

/// A course that is another than on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmupChange {
    pub key: WarmupKey,
    pub record: RecordBytes,
    /// The day for which something becomes durable with it, and how many recipients.
    day: u32,
    writing: u32,
}

/// Changes in the order of their keys.
pub type WarmupChanges = Vec<WarmupChange>;

/// A course as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmupView {
    pub key: WarmupKey,
    pub kept: Record,
    /// Recipients of its day that were handed out.
    pub used: u32,
}

/// All courses.
#[derive(Debug, Default)]
pub struct WarmupLedger {
    courses: BTreeMap<WarmupKey, WarmupState>,
    changed: BTreeSet<WarmupKey>,
    /// On this day the book was lost: nobody knows what was sent before.
    lost_on: Option<u32>,
}

impl WarmupLedger {
    /// What was kept. Who is not among `warming` any more, and has sent nothing for a month, is left out.
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

    /// One that replaces a book which can't be read: what begins on this day sends nothing before the next.
    #[must_use]
    pub fn replaced(today: u32) -> WarmupLedger {
        WarmupLedger { lost_on: Some(today), ..WarmupLedger::default() }
    }

    /// Whose course it is, and where: with the others if there are too many.
    fn known(&self, key: &WarmupKey) -> WarmupKey {
        if self.courses.len() < COURSES_MAX || self.courses.contains_key(key) {
            return key.clone();
        }
        WarmupKey { source: Arc::clone(&key.source), towards: OTHERS.into() }
    }

    /// What may be sent.
    pub fn ask(&mut self, ask: &AllowanceRequest) -> AllowanceGrant {
        let AllowanceRequest { key, plan, wanted, now } = ask;
        if *now < plan.start() {
            let start = plan.start();
            let why = format!("warm-up of source {}: it has not begun", key.source);
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

    /// What was granted until then is not needed.
    pub fn give_back(&mut self, key: &WarmupKey, recipients: u32, until: Wall) {
        let key = self.known(key);
        if let Some(course) = self.courses.get_mut(&key) {
            course.give_back(recipients, until);
        }
    }

    /// What became of recipients that were tried.
    pub fn note(&mut self, key: &WarmupKey, came: Tried) {
        let key = self.known(key);
        if let Some(course) = self.courses.get_mut(&key) {
            course.note(came);
            self.changed.insert(key);
        }
    }

    /// What is to be written, all or nothing; then comes [`WarmupLedger::written`] or [`WarmupLedger::unwritten`].
    pub fn take_changes(&mut self) -> WarmupChanges {
        let changed = std::mem::take(&mut self.changed);
        let change = |key: WarmupKey| {
            let course = self.courses.get(&key)?;
            let (record, day, writing) = (course.kept.to_bytes(), course.kept.day, course.writing);
            Some(WarmupChange { key, record, day, writing })
        };
        changed.into_iter().filter_map(change).collect()
    }

    /// These are durable: what they reserve may be handed out.
    pub fn written(&mut self, changes: &WarmupChanges) {
        for WarmupChange { key, day, writing, .. } in changes {
            if let Some(course) = self.courses.get_mut(key) {
                course.written(*day, *writing);
            }
        }
    }

    /// These are not: nothing of what they reserve was handed out.
    pub fn unwritten(&mut self, changes: &WarmupChanges) {
        for WarmupChange { key, day, writing, .. } in changes {
            if let Some(course) = self.courses.get_mut(key) {
                course.unwritten(*day, *writing);
                self.changed.insert(key.clone());
            }
        }
    }

    /// The process ends in good order: what was not handed out is free again, once that is written.
    pub fn close(&mut self) {
        for (key, course) in &mut self.courses {
            let before = course.kept;
            course.close();
            if course.kept != before {
                self.changed.insert(key.clone());
            }
        }
    }

    /// All courses, by source and then by where they go.
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
