//! The limits in force, over all shards.

use super::counts::{CountWindow, Layout, ValueCounts};
use super::ledger::Ledger;
use super::record::{RateChanges, RecordKey, key_of, read, split, write};
use super::settings::{LimitBy, Maximum, Over, RateLimit, RateLimits, Unit};
use super::{LimitReached, ReachedLimits};
use crate::problems::{ClockReading, DetectedProblem, ProblemKind};
use config::{Config, Tenants};
use mail::Wall;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of all values with a limit, and the values that have reached it.
#[derive(Debug, Default)]
pub struct RateLimiter {
    ledgers: Mutex<[Ledger; LimitBy::ALL.len()]>,
    pub(super) reached: Mutex<ReachedLimits>,
}

/// The count of a value in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub unit: Unit,
    pub period_s: u32,
    pub count: u32,
}

/// A maximum that is reached.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) reached: Arc<LimitReached>,
    /// It was not known to be reached.
    pub(crate) is_news: bool,
}

/// A value with the limit that applies to it, and its counts of one transaction.
#[derive(Debug)]
struct LimitedValue {
    limit: Arc<RateLimit>,
    value: Arc<str>,
    key: u64,
    messages: u32,
    recipients: u32,
}

/// The counts of one transaction. Unless it is [kept](LimitCharges::keep), they are taken back when it is dropped.
#[derive(Debug)]
pub(crate) struct LimitCharges {
    limiter: Arc<RateLimiter>,
    of: SmallVec<[LimitedValue; 1]>,
    began_s: u32,
    is_kept: bool,
    /// The reason to hold the message: the first limit with `over = "hold"` that it exceeds.
    pub(crate) hold: Option<Arc<LimitReached>>,
}

impl RateLimiter {
    /// Adopts the windows of a configuration. ValueCounts in windows that it still has are kept.
    pub(crate) fn adopt(&self, config: &Config) {
        let Some(RateLimits(limits)) = config.of::<RateLimits>() else { return };
        // Known by their old limits.
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut ledgers = self.lock();
        for (ledger, by) in ledgers.iter_mut().zip(LimitBy::ALL) {
            let mut layout = Layout::default();
            for maximum in limits.iter().filter(|l| l.by == by).flat_map(|limit| &limit.maxima) {
                let Maximum { unit, rate } = *maximum;
                let is_wide = rate.count() > u32::from(u16::MAX);
                layout.add(CountWindow { unit, period_s: rate.period_s(), is_wide });
            }
            if layout == *ledger.layout() {
                continue;
            }
            let mut new = Ledger::new(layout, ledger.is_stored());
            for (key, counts) in ledger.iter() {
                new.put(key, &counts.converted(ledger.layout(), new.layout()));
            }
            *ledger = new;
        }
    }

    /// The counts of a value in each window.
    #[must_use]
    pub fn usage(&self, by: LimitBy, value: &str, now: Wall) -> Vec<Usage> {
        let ledgers = self.lock();
        let Some(ledger) = ledgers.get(by as usize) else { return Vec::new() };
        let counts = ledger.get(key_of(by, value), seconds(now));
        let of = |(at, window): (usize, CountWindow)| {
            let CountWindow { unit, period_s, .. } = window;
            Usage { unit, period_s, count: counts.total(at) }
        };
        ledger.layout().windows().enumerate().map(of).collect()
    }

    /// Time from which this limit accepts more if nothing is counted before. `None`: it does now.
    pub(super) fn full_until(&self, reached: &LimitReached, now: Wall) -> Option<Wall> {
        let LimitReached { limit, value, maximum, .. } = reached;
        let ledgers = self.lock();
        let ledger = ledgers.get(limit.by as usize)?;
        let counts = ledger.get(key_of(limit.by, value), seconds(now));
        let at = ledger.layout().position(maximum.unit, maximum.rate.period_s())?;
        let is_full = counts.total(at) >= maximum.rate.count();
        let until_s = counts.free_at_s(ledger.layout(), at, maximum.rate.count());
        is_full.then(|| Wall(u64::from(until_s) * 1_000))
    }

    /// Counts one more of a unit, unless a maximum is reached and the excess is deferred.
    fn count(&self, value: &LimitedValue, unit: Unit, now: Wall) -> Option<Maximum> {
        let now_s = seconds(now);
        let mut ledgers = self.lock();
        let ledger = ledgers.get_mut(value.limit.by as usize)?;
        let mut counts = ledger.get(value.key, now_s);
        let layout = ledger.layout();
        let is_full = |maximum: &&Maximum| {
            let at = layout.position(unit, maximum.rate.period_s());
            maximum.unit == unit && at.is_some_and(|at| counts.total(at) >= maximum.rate.count())
        };
        let full = value.limit.maxima.iter().find(is_full).copied();
        if full.is_none() || value.limit.over == Over::Hold {
            counts.add(layout, unit, 1);
            ledger.put(value.key, &counts);
        }
        full
    }

    fn take_back(&self, value: &LimitedValue, began_s: u32) {
        let mut ledgers = self.lock();
        let Some(ledger) = ledgers.get_mut(value.limit.by as usize) else { return };
        // Forgotten, or of another configuration.
        let Some(mut counts) = ledger.known(value.key) else { return };
        for (unit, count) in
            [(Unit::Messages, value.messages), (Unit::Recipients, value.recipients)]
        {
            counts.take_back(ledger.layout(), (unit, count), began_s);
        }
        ledger.put(value.key, &counts);
    }

    /// Loads stored counts, and notes changes from then on, as they are stored.
    pub fn load(&self, records: impl IntoIterator<Item = (RecordKey, Vec<u8>)>, now: Wall) {
        let mut ledgers = self.lock();
        ledgers.iter_mut().for_each(Ledger::store);
        for (record_key, record) in records {
            let Some((by, key)) = split(&record_key) else { continue };
            let Some(ledger) = ledgers.get_mut(by as usize) else { continue };
            let counts = read(&record, ledger.layout()).map(|mut counts| {
                counts.advance(ledger.layout(), seconds(now));
                counts
            });
            match counts.filter(|counts| !counts.is_empty()) {
                Some(counts) => ledger.put(key, &counts),
                None => ledger.note_gone(key),
            }
        }
    }

    /// Some changes since the last call, to be stored.
    #[must_use]
    pub fn take_changes(&self, count: usize) -> RateChanges {
        let mut changes = RateChanges::new();
        for (ledger, by) in self.lock().iter_mut().zip(LimitBy::ALL) {
            let some = ledger.take_changes(count.saturating_sub(changes.len()));
            let layout = ledger.layout();
            let stored = |(key, counts): (u64, Option<ValueCounts>)| {
                (write::key(by, key), counts.map(|counts| write::record(&counts, layout)))
            };
            changes.extend(some.into_iter().map(stored));
        }
        changes
    }

    fn lock(&self) -> MutexGuard<'_, [Ledger; LimitBy::ALL.len()]> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProblemKind for RateLimiter {
    fn name(&self) -> &'static str {
        "limit"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        self.find_reached(now.wall, found);
    }

    /// A line is logged when the limit is reached.
    fn has_own_lines(&self) -> bool {
        true
    }
}

impl LimitCharges {
    /// For a message with these values, each of one property, at a listener with these limits. `None` if no limit
    /// applies.
    pub(crate) fn new(
        limiter: &Arc<RateLimiter>,
        limits: &[Arc<RateLimit>],
        values: impl Fn(LimitBy) -> Option<Arc<str>>,
        tenants: &Tenants,
        now: Wall,
    ) -> Option<Box<LimitCharges>> {
        let mut of = SmallVec::new();
        for by in LimitBy::ALL {
            if !limits.iter().any(|limit| limit.by == by) {
                continue;
            }
            let Some(value) = values(by) else { continue };
            // Those with names come first, the default last.
            let is_for = |limit: &&Arc<RateLimit>| {
                limit.by == by && (!limit.has_names() || limit.is_for(&value))
            };
            let limit = limits.iter().find(is_for);
            let limit = limit.filter(|it| !it.maxima.is_empty() && !it.spares(&value, tenants));
            if let Some(limit) = limit {
                let (limit, key) = (Arc::clone(limit), key_of(by, &value));
                of.push(LimitedValue { limit, value, key, messages: 0, recipients: 0 });
            }
        }
        let (limiter, began_s) = (Arc::clone(limiter), seconds(now));
        let charges = LimitCharges { limiter, of, began_s, is_kept: false, hold: None };
        (!charges.of.is_empty()).then(|| Box::new(charges))
    }

    /// Counts one more of this unit towards each limit, and passes each reached limit to `note`.
    ///
    /// # Errors
    /// A reached limit defers.
    pub(crate) fn count(
        &mut self,
        unit: Unit,
        now: Wall,
        mut note: impl FnMut(&Spent),
    ) -> Result<(), Unit> {
        let LimitCharges { limiter, of, hold, .. } = self;
        for (index, value) in of.iter_mut().enumerate() {
            let full = limiter.count(value, unit, now);
            let is_deferred = full.is_some() && value.limit.over == Over::Defer;
            if let Some(maximum) = full {
                let spent = limiter.note_reached(&value.limit, &value.value, maximum, now);
                note(&spent);
                if !is_deferred {
                    hold.get_or_insert(spent.reached);
                }
            }
            if is_deferred {
                self.uncount(unit, index);
                return Err(unit);
            }
            *value.counted(unit) += 1;
        }
        Ok(())
    }

    /// Takes the last count of a unit back for the limits before this one.
    fn uncount(&mut self, unit: Unit, before: usize) {
        let (limiter, began_s) = (&self.limiter, self.began_s);
        for value in self.of.iter_mut().take(before) {
            let mut one = LimitedValue { messages: 0, recipients: 0, ..value.clone() };
            *one.counted(unit) = 1;
            *value.counted(unit) -= 1;
            limiter.take_back(&one, began_s);
        }
    }

    /// The message was accepted.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Clone for LimitedValue {
    fn clone(&self) -> LimitedValue {
        let (limit, value) = (Arc::clone(&self.limit), Arc::clone(&self.value));
        LimitedValue { limit, value, ..*self }
    }
}

impl LimitedValue {
    fn counted(&mut self, unit: Unit) -> &mut u32 {
        match unit {
            Unit::Messages => &mut self.messages,
            Unit::Recipients => &mut self.recipients,
        }
    }
}

impl Drop for LimitCharges {
    fn drop(&mut self) {
        if !self.is_kept {
            self.of.iter().for_each(|value| self.limiter.take_back(value, self.began_s));
        }
    }
}

/// Seconds since 1970.
pub(super) fn seconds(now: Wall) -> u32 {
    u32::try_from(now.0 / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Wall = Wall(1_800_000_000_000);

    fn limiter(limits: &str) -> (Arc<RateLimiter>, Config) {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n{limits}"
        );
        let config = crate::testing::schema().parse(&text, "test.toml").unwrap();
        let limiter = Arc::<RateLimiter>::default();
        limiter.adopt(&config);
        (limiter, config)
    }

    fn charges(
        (limiter, config): &(Arc<RateLimiter>, Config),
        login: &str,
        now: Wall,
    ) -> Option<Box<LimitCharges>> {
        let RateLimits(limits) = config.of::<RateLimits>().unwrap();
        let here: Vec<_> =
            limits.iter().filter(|limit| limit.is_at(&config.listeners[0])).cloned().collect();
        let value = |by: LimitBy| (by == LimitBy::Login).then(|| Arc::from(login));
        LimitCharges::new(limiter, &here, value, &config.tenants, now)
    }

    /// Accepts a message. Returns false if it is deferred.
    fn accept(of: &(Arc<RateLimiter>, Config), login: &str, now: Wall) -> bool {
        let mut charges = charges(of, login, now).expect("a limit");
        let is_accepted = charges.count(Unit::Messages, now, |_| ()).is_ok();
        charges.keep();
        is_accepted
    }

    #[test]
    fn a_hundred_thousand_logins_at_once_have_bounded_names() {
        let of = limiter("[[limit]]\nby = \"login\"\nmessages = \"1/h\"\n");
        for n in 0..100_000 {
            let login = format!("user{n}@example.org");
            assert!(accept(&of, &login, NOW) && !accept(&of, &login, NOW));
        }
        assert_eq!(of.0.lock()[0].len(), 100_000);
        assert_eq!(of.0.reached(NOW).len(), 1_000);
        let mut problems = 0;
        of.0.find_reached(NOW, &mut |_| problems += 1);
        assert_eq!(problems, 21, "twenty names, and the number of the others");
        assert!(of.0.reached(NOW.after(Duration::from_secs(4_200))).is_empty());
    }

    #[test]
    fn counts_are_kept_over_a_restart() {
        let limits = "[[limit]]\nby = \"login\"\nmessages = [\"2/h\", \"3/d\"]\n";
        let of = limiter(limits);
        of.0.load([], NOW);
        assert!(accept(&of, "jo", NOW) && accept(&of, "jo", NOW) && !accept(&of, "jo", NOW));
        let stored = of.0.take_changes(9);
        assert_eq!(stored.len(), 1);
        let records: Vec<_> =
            stored.into_iter().map(|(key, record)| (key, record.unwrap())).collect();
        // Another configuration has some of the windows, and more of its own.
        let other = limiter("[[limit]]\nby = \"login\"\nmessages = [\"1/m\", \"3/d\"]\n");
        other.0.load(records.clone(), NOW);
        assert!(accept(&other, "jo", NOW) && !accept(&other, "jo", NOW));
        // What is over is removed from the file, what is invalid too.
        let late = limiter(limits);
        let (key, _) = records[0].clone();
        late.0.load(records, NOW.after(Duration::from_secs(2 * 86_400)));
        assert_eq!(late.0.take_changes(9), [(key, None)]);
        late.0.load([(key, vec![1, 2, 3]), ([9; 9], vec![])], NOW);
        assert_eq!(late.0.take_changes(9), [(key, None)]);
    }
}
