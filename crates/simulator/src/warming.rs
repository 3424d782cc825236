//! Sources that warm up: their book, which is written to a file before anything is handed out, and the judge of what
//! they send.

use super::account::Account;
use super::executor::{Executor, wall_ms};
use super::plan::{Plan, WarmupPlan};
use super::plant::Plant;
use load::random::Random;
use mail::Wall;
use mta::answer::Answer;
use mta::seams::Warmups;
use mta::warmup::{
    Allowance, AllowanceGrant, AllowanceRequest, Answered, Record, Tried, WarmupChanges, WarmupKey,
    WarmupLedger, day_of,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

/// How long a write takes at most.
const WRITE_US: u64 = 80_000;
/// Writes that fail, in thousandths, and how long nothing is sent after one.
const FAILED_PERMILLE: u16 = 20;
const CLOSED_MS: u64 = 10_000;

/// What is on the disk, by course.
pub type WarmupFile = Rc<RefCell<BTreeMap<WarmupKey, Record>>>;

/// The book of one life of the node.
#[derive(Debug)]
pub struct SimWarmups(Rc<WarmupModel>);

#[derive(Debug)]
struct WarmupModel {
    executor: Executor,
    wall_offset_ms: Rc<Cell<i64>>,
    random: RefCell<Random>,
    book: RefCell<WarmupLedger>,
    file: WarmupFile,
    plant: Option<Plant>,
}

impl SimWarmups {
    /// Reads the file.
    #[must_use]
    pub fn open(
        executor: &Executor,
        wall_offset_ms: &Rc<Cell<i64>>,
        seed: u64,
        file: &WarmupFile,
        plant: Option<Plant>,
    ) -> Rc<SimWarmups> {
        let kept: Vec<(WarmupKey, Record)> =
            file.borrow().iter().map(|(key, record)| (key.clone(), *record)).collect();
        Rc::new(SimWarmups(Rc::new(WarmupModel {
            executor: executor.clone(),
            wall_offset_ms: Rc::clone(wall_offset_ms),
            random: RefCell::new(Random::new(seed)),
            book: RefCell::new(WarmupLedger::read(kept, &BTreeSet::new(), 0)),
            file: Rc::clone(file),
            plant,
        })))
    }

    /// The process ends in good order.
    pub fn close(&self) {
        let mut book = self.0.book.borrow_mut();
        book.close();
        let changes = book.take_changes();
        self.0.store(&changes);
        book.written(&changes);
    }
}

impl WarmupModel {
    fn store(&self, changes: &WarmupChanges) {
        let mut file = self.file.borrow_mut();
        for change in changes {
            // What was written now is of this version.
            let record = Record::read(&change.record).unwrap_or_default();
            file.insert(change.key.clone(), record);
        }
    }

    fn below(&self, most: u64) -> u64 {
        self.random.borrow_mut().below(most)
    }

    /// Writes what changed; whether that could be written. A process that ends meanwhile may have written it or not.
    async fn write(&self) -> bool {
        let changes = self.book.borrow_mut().take_changes();
        let is_lost = self.plant == Some(Plant::CountAfterUse);
        let is_early = self.below(2) == 0;
        if is_early && !is_lost {
            self.store(&changes);
        }
        self.executor.sleep(1 + self.below(WRITE_US)).await;
        if !is_early && self.random.borrow_mut().permille(FAILED_PERMILLE) {
            self.book.borrow_mut().unwritten(&changes);
            return false;
        }
        if !is_early && !is_lost {
            self.store(&changes);
        }
        self.book.borrow_mut().written(&changes);
        true
    }
}

impl Warmups for SimWarmups {
    fn ask(&self, mut ask: AllowanceRequest) -> Answer<'static, Answered> {
        if let AllowanceGrant::Answered(answered) = self.0.book.borrow_mut().ask(&ask) {
            return Answer::Now(answered);
        }
        let inner = Rc::clone(&self.0);
        Answer::later(async move {
            loop {
                let is_written = inner.write().await;
                ask.now = Wall(wall_ms(&inner.executor, &inner.wall_offset_ms));
                if !is_written {
                    let until = Wall(ask.now.0 + CLOSED_MS);
                    let why = format!("warm-up of {}: it cannot be counted", ask.key).into();
                    let allowance = Allowance::Closed { why, until };
                    return Answered { allowance, turn: None };
                }
                let asked = inner.book.borrow_mut().ask(&ask);
                if let AllowanceGrant::Answered(answered) = asked {
                    return answered;
                }
            }
        })
    }

    fn give_back(&self, key: &WarmupKey, recipients: u32, until: Wall) {
        self.0.book.borrow_mut().give_back(key, recipients, until);
    }

    fn note(&self, key: &WarmupKey, came: Tried) {
        self.0.book.borrow_mut().note(key, came);
    }
}

/// Recipients of the source that warms up, as the provider saw them.
#[derive(Debug, Default)]
pub struct Warmed {
    /// What the wall clock was turned ahead, in milliseconds.
    turned_ms: Cell<u64>,
    sent: RefCell<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    /// Days on which something may have been tried, which is what the node goes on by: not only a recipient that
    /// was named, but also a transaction that failed before that, or that was lost on its way here. Without a
    /// connection there was none.
    tried: BTreeSet<u32>,
    /// The last day on which there was a recipient.
    day: u32,
    of_day: u32,
    in_all: u32,
}

/// What was taken before midnight is sent within this time.
const TAKEN_MS: u64 = 60_000;
const DAY_MS: u64 = 86_400_000;

impl Warmed {
    /// The wall clock is turned ahead.
    pub fn turn(&self, by_ms: u64) {
        self.turned_ms.set(self.turned_ms.get() + by_ms);
    }

    /// There is a connection from the source.
    fn note_connection(&self, wall_ms: u64) {
        self.sent.borrow_mut().tried.insert(day_of(Wall(wall_ms)));
    }

    /// The node named a recipient, at `at_us` by the simulation's clock and `wall_ms` by its own. What is wrong with
    /// that, for people.
    pub fn note(&self, plan: &WarmupPlan, at_us: u64, wall_ms: u64) -> Option<String> {
        let mut sent = self.sent.borrow_mut();
        let day = day_of(Wall(wall_ms));
        if day > sent.day {
            (sent.day, sent.of_day) = (day, 0);
        }
        sent.tried.insert(day);
        let days = sent.tried.range(..day).count();
        sent.in_all += 1;
        let is_of_today = days == 0 || wall_ms % DAY_MS >= TAKEN_MS;
        sent.of_day += u32::from(is_of_today);
        let count = plan.count_max(days);
        if sent.of_day > count {
            return Some(format!("{} recipients of {count} on day {day}", sent.of_day));
        }
        // Days are spread like a rate, with an hour's worth at once.
        let passed_ms = at_us / 1_000 + self.turned_ms.get();
        let spread = u64::from(count) * passed_ms / DAY_MS;
        let allowed = u64::from((count / 24).max(1)) + spread + 1;
        (u64::from(sent.in_all) > allowed).then(|| {
            let in_all = sent.in_all;
            format!("{in_all} recipients in {passed_ms} ms, with {count} a day {allowed} at most")
        })
    }
}

/// What the source of this way may send, if it warms up there.
fn plan_of(plan: &Plan, (from, to): (IpAddr, IpAddr)) -> Option<&WarmupPlan> {
    let pace = plan.pace.as_ref()?;
    let is_of_source = pace.sources.get(WarmupPlan::SOURCE) == Some(&from);
    let is_meant = is_of_source && plan.provider_hosts().iter().any(|host| host.ip() == to);
    pace.warmup.as_ref().filter(|_| is_meant)
}

/// There is a connection this way, or was until now.
pub fn note_connection((plan, warmed): (&Plan, &Warmed), between: (IpAddr, IpAddr), wall_ms: u64) {
    if plan_of(plan, between).is_some() {
        warmed.note_connection(wall_ms);
    }
}

/// Whether a recipient of this way counts, and what is wrong with it then.
pub fn check(
    (plan, account, warmed): (&Plan, &Account, &Warmed),
    between: (IpAddr, IpAddr),
    (at_us, wall_ms): (u64, u64),
) {
    let Some(warmup) = plan_of(plan, between) else { return };
    if let Some(wrong) = warmed.note(warmup, at_us, wall_ms) {
        account.violate(None, format!("the source that warms up sends too much: {wrong}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(per_day: &[u32]) -> WarmupPlan {
        WarmupPlan { per_day: per_day.to_vec(), begins_before_midnight_ms: None }
    }

    #[test]
    fn a_day_has_its_count_and_the_next_one_its_own() {
        let (plan, warmed) = (plan(&[1, 2]), Warmed::default());
        assert_eq!(warmed.note(&plan, 0, 5 * DAY_MS + 7), None);
        let more = warmed.note(&plan, 1_000_000, 5 * DAY_MS + 1_007).expect("one too many");
        assert!(more.starts_with("2 recipients of 1 on day 5"), "{more}");
        // What was tried and came to nothing was tried.
        let warmed = Warmed::default();
        warmed.note_connection(5 * DAY_MS + 7);
        let at_ms = 6 * DAY_MS + 2 * TAKEN_MS;
        assert!((0..2).all(|n| warmed.note(&plan, 0, at_ms + n).is_none()));
        assert!(warmed.note(&plan, 0, at_ms + 2).is_some());
        // Taken before midnight.
        let warmed = Warmed::default();
        assert_eq!(warmed.note(&plan, 0, 6 * DAY_MS - 1), None);
        assert_eq!(warmed.note(&plan, 2_000, 6 * DAY_MS + 1), None);
        assert_eq!(warmed.sent.borrow().of_day, 0);
    }

    #[test]
    fn a_day_is_spread_and_begins_with_an_hour_of_it() {
        let (plan, warmed) = (plan(&[240]), Warmed::default());
        let note = || warmed.note(&plan, 0, 7);
        assert!((0..11).all(|_| note().is_none()));
        assert!(note().is_some_and(|text| text.contains("11 at most")));
        warmed.turn(DAY_MS / 240);
        assert_eq!(warmed.sent.borrow().in_all, 12);
        assert!(note().is_some(), "one more was allowed, and two are too many");
    }
}
