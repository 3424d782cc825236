//! Results of DNS lookups: names that were answered lately, and names that were not (RFC 9520 §3.2).
//!
//! A failed lookup is cached for a time, in which the name is not looked up again. Failed names below a zone make all
//! other names below it doubtful. One dead zone with ten thousand names counts as one, and leaves most of the lookups
//! to other zones.

use crate::line::{Owner, Standings, TrustLevel};
use mail::Mono;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of names and of zones.
const NAMES_MAX: usize = 65_536;
/// Maximum number of cached failures.
const FAILURES_MAX: usize = 16_384;
/// First lifetime of a cached failure: it grows each time, as the queue's back-off does.
const FIRST: Duration = Duration::from_secs(2);
/// RFC 9520 §3.2: at most five minutes.
const LONGEST: Duration = Duration::from_secs(60);
/// Minimum duration of a failed lookup that counts as silence, and not as a quick error reply of a server.
const SILENCE: Duration = Duration::from_secs(1);

/// Hash of a lookup's type and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LookupHash(u64);

impl LookupHash {
    pub(crate) fn new(kind: &'static str, name: &str) -> LookupHash {
        let mut hasher = DefaultHasher::new();
        (kind, name.to_ascii_lowercase()).hash(&mut hasher);
        LookupHash(hasher.finish())
    }
}

#[derive(Debug)]
struct Failed {
    until: Mono,
    lasts: Duration,
    why: Box<str>,
}

#[derive(Debug)]
struct State {
    names: Standings<LookupHash>,
    zones: Standings<Owner>,
    failed: BTreeMap<LookupHash, Failed>,
}

/// Results of lookups, shared by the shards.
#[derive(Debug)]
pub(crate) struct KnownNames(Mutex<State>);

impl Default for KnownNames {
    fn default() -> KnownNames {
        KnownNames(Mutex::new(State {
            names: Standings::new(NAMES_MAX),
            zones: Standings::new(NAMES_MAX),
            failed: BTreeMap::new(),
        }))
    }
}

impl KnownNames {
    /// The cached failure of a lookup.
    pub(crate) fn failure(&self, question: LookupHash, now: Mono) -> Option<String> {
        let state = self.lock();
        let failed = state.failed.get(&question).filter(|failed| now < failed.until)?;
        Some(failed.why.to_string())
    }

    /// The trust level of a name below `zone`.
    pub(crate) fn standing(&self, question: LookupHash, zone: Owner, now: Mono) -> TrustLevel {
        let state = self.lock();
        match state.names.of(question, now) {
            TrustLevel::Unknown => match state.zones.of(zone, now) {
                // Answers for names below the zone prove no other name: it may have any number of names.
                TrustLevel::Good => TrustLevel::Unknown,
                other => other,
            },
            known => known,
        }
    }

    /// Notes an answer, even NXDOMAIN.
    pub(crate) fn answered(&self, question: LookupHash, zone: Owner, now: Mono) {
        let mut state = self.lock();
        state.failed.remove(&question);
        state.names.note_answer(question, now);
        state.zones.note_answer(zone, now);
    }

    /// Notes a failed lookup that took `took`.
    pub(crate) fn unanswered(
        &self,
        question: LookupHash,
        zone: Owner,
        (now, took): (Mono, Duration),
        why: &str,
    ) {
        let mut state = self.lock();
        if took >= SILENCE {
            state.names.note_silence(question, now);
            state.zones.note_silence(zone, now);
        }
        let before = state.failed.get(&question).map(|failed| failed.lasts);
        let lasts = before.map_or(FIRST, |before| (before * 2).min(LONGEST));
        if before.is_none() && state.failed.len() >= FAILURES_MAX {
            state.failed.retain(|_, failed| now < failed.until);
            if state.failed.len() >= FAILURES_MAX {
                return;
            }
        }
        state.failed.insert(question, Failed { until: now + lasts, lasts, why: why.into() });
    }

    /// Forgets all failures, when an operator asks for new lookups.
    pub(crate) fn forget_failures(&self) {
        self.lock().failed.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const LONG: Duration = Duration::from_secs(10);

    fn of(name: &str) -> (LookupHash, Owner) {
        (LookupHash::new("mx", name), Owner::zone(name))
    }

    #[test]
    fn a_failure_is_remembered_for_longer_each_time_and_an_answer_ends_that() {
        let names = KnownNames::default();
        let (name, zone) = of("a.wild.test");
        let mut now = Mono(0);
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(names.failure(name, now), None);
            names.unanswered(name, zone, (now, LONG), "timed out");
            let last = Mono(now.0 + seconds * SECOND - 1);
            assert_eq!(names.failure(name, last).as_deref(), Some("timed out"), "{seconds}");
            now = Mono(now.0 + seconds * SECOND);
        }
        assert_eq!(names.failure(of("b.wild.test").0, now), None, "another name");
        names.answered(name, zone, now);
        names.unanswered(name, zone, (now, LONG), "timed out");
        assert_eq!(names.failure(name, Mono(now.0 + 2 * SECOND)), None, "it begins anew");
        names.unanswered(name, zone, (now, LONG), "timed out");
        names.forget_failures();
        assert_eq!(names.failure(name, now), None);
    }

    #[test]
    fn silence_makes_others_below_the_zone_doubtful_and_not_those_that_were_answered() {
        let names = KnownNames::default();
        let ((a, wild), (b, _), (known, _)) =
            (of("a.wild.test"), of("b.wild.test"), of("wild.test"));
        names.answered(known, wild, Mono(0));
        assert_eq!(names.standing(a, wild, Mono(0)), TrustLevel::Unknown);
        names.unanswered(a, wild, (Mono(0), Duration::ZERO), "SERVFAIL");
        assert_eq!(names.standing(b, wild, Mono(0)), TrustLevel::Unknown, "it was no silence");
        names.unanswered(a, wild, (Mono(0), LONG), "timed out");
        for doubtful in [a, b] {
            assert_eq!(names.standing(doubtful, wild, Mono(0)), TrustLevel::Doubtful);
        }
        assert_eq!(names.standing(known, wild, Mono(0)), TrustLevel::Good);
        names.answered(b, wild, Mono(1));
        assert_eq!(names.standing(of("c.wild.test").0, wild, Mono(1)), TrustLevel::Unknown);
        let (other, zone) = of("a.other.test");
        assert_eq!(names.standing(other, zone, Mono(0)), TrustLevel::Unknown);
    }

    #[test]
    fn no_more_failures_are_remembered_than_so_many() {
        let names = KnownNames::default();
        for n in 0..FAILURES_MAX + 10 {
            let (name, zone) = of(&format!("n{n}.wild.test"));
            names.unanswered(name, zone, (Mono(0), LONG), "timed out");
        }
        assert_eq!(names.lock().failed.len(), FAILURES_MAX);
        let (name, zone) = of("later.test");
        names.unanswered(name, zone, (Mono(10 * SECOND), LONG), "timed out");
        assert_eq!(names.lock().failed.len(), 1, "those that are over go");
    }
}
