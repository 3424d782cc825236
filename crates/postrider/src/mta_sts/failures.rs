//! Domains whose policies could not be fetched.

use mail::Wall;
use std::collections::BTreeMap;

/// RFC 8461 §3.3: a policy that can't be fetched is not asked for again for so long; each time that it
/// fails again, twice as long, up to the longest.
const FIRST_MS: u64 = 300_000;
const LONGEST_MS: u64 = 3_600_000;

/// Failures that are remembered; then the one that is over first is forgotten.
const FAILURES_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The policy is not asked for again until then.
    until: Wall,
    lasts_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Box<str>, Failure>);

impl Failures {
    pub(super) fn record(&mut self, domain: &str, now: Wall) {
        let before = self.0.get(domain);
        let lasts_ms = before.map_or(FIRST_MS, |f| (f.lasts_ms * 2).min(LONGEST_MS));
        if before.is_none() && self.0.len() >= FAILURES_MAX {
            let first = self.0.iter().min_by_key(|(_, failure)| failure.until);
            if let Some(first) = first.map(|(domain, _)| domain.clone()) {
                self.0.remove(&first);
            }
        }
        self.0.insert(domain.into(), Failure { until: Wall(now.0 + lasts_ms), lasts_ms });
    }

    pub(super) fn forget(&mut self, domain: &str) {
        self.0.remove(domain);
    }

    /// A clock that was put back does not make it longer than it lasts.
    pub(super) fn is_recent(&self, domain: &str, now: Wall) -> bool {
        let lasts = |f: &Failure| now < f.until && now.0 + f.lasts_ms >= f.until.0;
        self.0.get(domain).is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_again_and_again_is_asked_ever_more_seldom() {
        let (mut failures, mut now) = (Failures::default(), Wall(1_000_000));
        for minutes in [5, 10, 20, 40, 60, 60] {
            failures.record("far.test", now);
            let until = Wall(now.0 + minutes * 60_000);
            assert!(failures.is_recent("far.test", Wall(until.0 - 1)), "{minutes}");
            assert!(!failures.is_recent("far.test", until), "{minutes}");
            now = until;
        }
        assert!(!failures.is_recent("near.test", now));
        failures.record("far.test", now);
        assert!(!failures.is_recent("far.test", Wall(5)), "the clock was put back");
        failures.forget("far.test");
        assert!(!failures.is_recent("far.test", now));
    }

    #[test]
    fn many_failures_do_not_make_all_be_forgotten() {
        let mut failures = Failures::default();
        for n in 0..=FAILURES_MAX as u64 {
            failures.record(&format!("d{n}.test"), Wall(n));
        }
        assert_eq!(failures.0.len(), FAILURES_MAX);
        assert!(!failures.is_recent("d0.test", Wall(1)) && failures.is_recent("d1.test", Wall(1)));
    }
}
