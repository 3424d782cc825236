//! Policies that were fetched, in memory: which of them hold, and which go when there are too many.

use auth::mta_sts::{Mode, Policy};
use mail::Wall;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Policies that are kept, and octets of all of them together; then some go, those first that strangers
/// can have made ([`EvictionPriority`]).
const POLICIES_MAX: usize = 10_000;
const BYTES_MAX: usize = 16 << 20;

/// A policy that is older than half of its age, or a day, is fetched again while it still holds.
const RENEWED_AFTER_MS: u64 = DAY_MS;

/// Without mail for its domain a policy is renewed for so long.
const RENEWED_UNUSED_MS: u64 = 90 * DAY_MS;

/// A domain that has mail so long after it came is one of ours.
const OF_OURS_AFTER_MS: u64 = DAY_MS;

const DAY_MS: u64 = 86_400_000;

/// A policy, and what is known of its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyCacheEntry {
    /// Of the TXT record that it was fetched for.
    pub(super) id: Box<str>,
    pub(super) fetched: Wall,
    /// When the first policy of the domain came.
    pub(super) since: Wall,
    /// When it was asked for last, by mail.
    pub(super) used: Wall,
    pub(super) policy: Arc<Policy>,
}

/// What is lost with a policy; the least goes first. Anybody can have us ask for the policies of as many
/// domains as he has: that must not push out those of domains which are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionPriority {
    /// It has ended, or asks for nothing.
    Nothing,
    /// Its domain has had mail once.
    Once,
    /// It is written to again and again.
    OfOurs,
}

impl PolicyCacheEntry {
    fn age_ms(&self, now: Wall) -> u64 {
        // A clock that was put back makes nothing older.
        now.0.saturating_sub(self.fetched.0)
    }

    fn max_age_ms(&self) -> u64 {
        u64::try_from(self.policy.max_age.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn holds(&self, now: Wall) -> bool {
        self.age_ms(now) < self.max_age_ms()
    }

    /// RFC 8461 §3.3: it is fetched again before it ends.
    pub(super) fn wants_renewal(&self, now: Wall) -> bool {
        self.age_ms(now) >= RENEWED_AFTER_MS.min(self.max_age_ms() / 2)
    }

    fn worth(&self, now: Wall) -> EvictionPriority {
        match self.policy.mode {
            Mode::Testing | Mode::None => EvictionPriority::Nothing,
            Mode::Enforce if !self.holds(now) => EvictionPriority::Nothing,
            Mode::Enforce if self.used.0.saturating_sub(self.since.0) < OF_OURS_AFTER_MS => {
                EvictionPriority::Once
            }
            Mode::Enforce => EvictionPriority::OfOurs,
        }
    }

    fn bytes(&self) -> usize {
        let names: usize = self.policy.mx().map(|name| name.len() + size_of::<Box<str>>()).sum();
        self.id.len() + names + size_of::<PolicyCacheEntry>()
    }
}

/// All of them, by domain.
#[derive(Debug, Default)]
pub(super) struct Cache {
    policies: BTreeMap<Box<str>, PolicyCacheEntry>,
    bytes: usize,
}

/// What had to go, and whether it was in force.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EvictedPolicy {
    pub(super) domain: Box<str>,
    pub(super) was_enforced: bool,
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.policies.len()
    }

    pub(super) fn has(&self, domain: &str) -> bool {
        self.policies.contains_key(domain)
    }

    /// That of a domain, if it still holds.
    pub(super) fn get(&self, domain: &str, now: Wall) -> Option<&PolicyCacheEntry> {
        self.policies.get(domain).filter(|cached| cached.holds(now))
    }

    /// The same, for mail.
    pub(super) fn used(&mut self, domain: &str, now: Wall) -> Option<&PolicyCacheEntry> {
        let cached = self.policies.get_mut(domain)?;
        cached.used = cached.used.max(now);
        Some(&*cached).filter(|cached| cached.holds(now))
    }

    /// Domains whose policies are to be renewed although nobody asks.
    pub(super) fn to_renew(&self, now: Wall) -> Vec<Box<str>> {
        let is_wanted = |cached: &PolicyCacheEntry| {
            cached.policy.mode == Mode::Enforce
                && cached.holds(now)
                && cached.wants_renewal(now)
                && now.0.saturating_sub(cached.used.0) < RENEWED_UNUSED_MS
        };
        let wanted = self.policies.iter().filter(|(_, cached)| is_wanted(cached));
        wanted.map(|(domain, _)| domain.clone()).collect()
    }

    /// Keeps the policy that was fetched for a domain. What had to go for it.
    pub(super) fn fetched(
        &mut self,
        domain: &str,
        (id, policy): (Option<&str>, Arc<Policy>),
        now: Wall,
    ) -> (PolicyCacheEntry, Vec<EvictedPolicy>) {
        let before = self.policies.get(domain);
        let id = id.or(before.map(|cached| &*cached.id)).unwrap_or_default().into();
        let (since, used) = before.map_or((now, now), |cached| (cached.since, cached.used));
        let cached = PolicyCacheEntry { id, fetched: now, since, used, policy };
        (cached.clone(), self.put(domain, cached, now))
    }

    /// Takes one as it is.
    pub(super) fn put(
        &mut self,
        domain: &str,
        cached: PolicyCacheEntry,
        now: Wall,
    ) -> Vec<EvictedPolicy> {
        self.remove(domain);
        let (bytes, mut gone) = (cached.bytes(), Vec::new());
        while self.policies.len() >= POLICIES_MAX || self.bytes + bytes > BYTES_MAX {
            let order = |cached: &PolicyCacheEntry| (cached.worth(now), cached.used);
            let least = self.policies.iter().min_by_key(|(_, cached)| order(cached));
            let Some(least) = least.map(|(domain, _)| domain.clone()) else { break };
            let was_enforced = self
                .remove(&least)
                .is_some_and(|cached| cached.worth(now) != EvictionPriority::Nothing);
            gone.push(EvictedPolicy { domain: least, was_enforced });
        }
        self.bytes += bytes;
        self.policies.insert(domain.into(), cached);
        gone
    }

    fn remove(&mut self, domain: &str) -> Option<PolicyCacheEntry> {
        let removed = self.policies.remove(domain)?;
        self.bytes -= removed.bytes();
        Some(removed)
    }
}

/// RFC 8461 §3.3: a policy that can't be fetched is not asked for again for so long; each time that it
/// fails again, twice as long, up to the longest.
const FIRST_MS: u64 = 300_000;
const LONGEST_MS: u64 = 3_600_000;

/// Failures that are remembered; then the one that is over first is forgotten.
const FAILURES_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct FetchBackoff {
    /// The policy is not asked for again until then.
    until: Wall,
    lasts_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct FetchBackoffs(BTreeMap<Box<str>, FetchBackoff>);

impl FetchBackoffs {
    pub(super) fn record(&mut self, domain: &str, now: Wall) {
        let before = self.0.get(domain);
        let lasts_ms = before.map_or(FIRST_MS, |f| (f.lasts_ms * 2).min(LONGEST_MS));
        if before.is_none() && self.0.len() >= FAILURES_MAX {
            let first = self.0.iter().min_by_key(|(_, failure)| failure.until);
            if let Some(first) = first.map(|(domain, _)| domain.clone()) {
                self.0.remove(&first);
            }
        }
        self.0.insert(domain.into(), FetchBackoff { until: Wall(now.0 + lasts_ms), lasts_ms });
    }

    pub(super) fn forget(&mut self, domain: &str) {
        self.0.remove(domain);
    }

    /// A clock that was put back does not make it longer than it lasts.
    pub(super) fn is_recent(&self, domain: &str, now: Wall) -> bool {
        let lasts = |f: &FetchBackoff| now < f.until && now.0 + f.lasts_ms >= f.until.0;
        self.0.get(domain).is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_000 * DAY_MS);

    fn policy(mode: &str, max_age: u64) -> Arc<Policy> {
        let text = format!("version: STSv1\nmode: {mode}\nmx: mx.far.test\nmax_age: {max_age}\n");
        Arc::new(Policy::parse(text.as_bytes()).unwrap())
    }

    fn cached(mode: &str, max_age: u64, fetched: u64) -> PolicyCacheEntry {
        let at = Wall(fetched);
        let policy = policy(mode, max_age);
        PolicyCacheEntry { id: "a".into(), fetched: at, since: at, used: at, policy }
    }

    #[test]
    fn a_policy_is_renewed_in_time_and_a_clock_that_goes_back_does_no_harm() {
        let short = cached("enforce", 1000, 10_000);
        assert!(!short.wants_renewal(Wall(509_999)) && short.wants_renewal(Wall(510_000)));
        assert!(short.holds(Wall(0)) && !short.wants_renewal(Wall(0)));
        assert!(short.holds(Wall(1_009_999)) && !short.holds(Wall(1_010_000)));
        let long = cached("enforce", 31_557_600, 0);
        assert!(!long.wants_renewal(Wall(DAY_MS - 1)) && long.wants_renewal(Wall(DAY_MS)));
    }

    #[test]
    fn policies_in_force_are_renewed_without_mail_but_not_for_ever() {
        let mut cache = Cache::default();
        let fetched = NOW.0 - DAY_MS;
        let mut forgotten = cached("enforce", 31_557_600, fetched);
        forgotten.used = Wall(NOW.0 - RENEWED_UNUSED_MS);
        for (domain, kept) in [
            ("due.test", cached("enforce", 31_557_600, fetched)),
            ("fresh.test", cached("enforce", 31_557_600, fetched + 1)),
            ("ended.test", cached("enforce", 86_400, fetched)),
            ("testing.test", cached("testing", 31_557_600, fetched)),
            ("forgotten.test", forgotten),
        ] {
            assert!(cache.put(domain, kept, NOW).is_empty());
        }
        assert_eq!(cache.to_renew(NOW), [Box::from("due.test")]);
        let (kept, _) = cache.fetched("due.test", (None, policy("enforce", 9)), NOW);
        assert_eq!((&*kept.id, kept.fetched, kept.used), ("a", NOW, Wall(fetched)));
    }

    #[test]
    fn strangers_do_not_push_out_the_policies_of_those_who_are_written_to() {
        let mut cache = Cache::default();
        let mut ours = cached("enforce", 31_557_600, NOW.0 - 9 * DAY_MS);
        ours.used = Wall(ours.since.0 + OF_OURS_AFTER_MS);
        cache.put("ours.test", ours, NOW);
        cache.put("testing.test", cached("testing", 31_557_600, NOW.0), NOW);
        cache.put("ended.test", cached("enforce", 1, NOW.0 - 2_000), NOW);
        let stranger = |n: u64| cached("enforce", 31_557_600, NOW.0 - 1_000_000 + n);
        let mut gone = Vec::new();
        for n in 0..POLICIES_MAX as u64 + 100 {
            gone.extend(cache.put(&format!("d{n}.test"), stranger(n), NOW));
        }
        assert_eq!(cache.len(), POLICIES_MAX);
        assert!(cache.get("ours.test", NOW).is_some());
        let first: Vec<_> = gone.iter().map(|g| (&*g.domain, g.was_enforced)).take(3).collect();
        // What asks for nothing goes first, and then what was used longest ago.
        assert_eq!(first, [("ended.test", false), ("testing.test", false), ("d0.test", true)]);
    }

    #[test]
    fn large_policies_have_no_more_than_their_share() {
        let mut cache = Cache::default();
        let names: String = (0..63).map(|n| format!("mx: {}{n:02}\n", "x.".repeat(60))).collect();
        let text = format!("version: STSv1\nmode: enforce\n{names}max_age: 86400\n");
        let policy = Arc::new(Policy::parse(text.as_bytes()).unwrap());
        let large =
            || PolicyCacheEntry { policy: Arc::clone(&policy), ..cached("enforce", 1, NOW.0) };
        let fit = BYTES_MAX / large().bytes();
        let gone = (0..fit).map(|n| cache.put(&format!("d{n}.test"), large(), NOW).len());
        assert_eq!((gone.sum::<usize>(), fit > 1_000), (0, true));
        assert_eq!(cache.put("more.test", large(), NOW).len(), 1);
        assert!(cache.bytes <= BYTES_MAX);
        // The same domain takes its own place.
        assert_eq!(cache.put("more.test", large(), NOW).len(), 0);
    }

    #[test]
    fn who_fails_again_and_again_is_asked_ever_more_seldom() {
        let (mut failures, mut now) = (FetchBackoffs::default(), Wall(1_000_000));
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
        let mut failures = FetchBackoffs::default();
        for n in 0..=FAILURES_MAX as u64 {
            failures.record(&format!("d{n}.test"), Wall(n));
        }
        assert_eq!(failures.0.len(), FAILURES_MAX);
        assert!(!failures.is_recent("d0.test", Wall(1)) && failures.is_recent("d1.test", Wall(1)));
    }
}
