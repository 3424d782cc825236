//! Who failed to log in lately, over all shards: by client, as [`crate::clients`] knows them, and by
//! user. What is remembered is bounded, as strangers choose both, and who failed least lately is
//! forgotten first.

use crate::clients::network_of;
use mail::Mono;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Clients and users remembered.
const REMEMBERED_MAX: usize = 32 * 1_024;
/// The rates are per hour, and an hour's worth may come at once.
const HOUR_US: u64 = 3_600_000_000;

/// Whose failures are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// An IPv4 address, or an IPv6 /64.
    Client(IpAddr),
    /// Of a name, whether or not there is such a user, what is needed to know it again: it may be
    /// long.
    User(u64),
}

impl Who {
    pub(crate) fn client(ip: IpAddr) -> Who {
        Who::Client(network_of(ip))
    }

    /// Names are without regard to case here: most tables have them so.
    pub(crate) fn user(name: &str) -> Who {
        let mut hasher = DefaultHasher::new();
        name.to_lowercase().hash(&mut hasher);
        Who::User(hasher.finish())
    }
}

/// For each the moment at which all failures so far are forgiven, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct LoginFailures(Mutex<BTreeMap<Who, u64>>);

impl LoginFailures {
    /// Whether one failure more would be too many (0: none is).
    pub(crate) fn is_exhausted(&self, who: Who, per_hour: u32, now: Mono) -> bool {
        let Some(each_us) = HOUR_US.checked_div(u64::from(per_hour)) else { return false };
        let forgiven_us = self.lock().get(&who).copied().unwrap_or(0);
        forgiven_us.max(now.0).saturating_add(each_us) > now.0.saturating_add(HOUR_US)
    }

    /// One failure. Those that were under way together may be more than are allowed, but weigh no
    /// more than an hour.
    pub(crate) fn note(&self, who: Who, per_hour: u32, now: Mono) {
        let Some(each_us) = HOUR_US.checked_div(u64::from(per_hour)) else { return };
        let mut remembered = self.lock();
        if remembered.len() >= REMEMBERED_MAX && !remembered.contains_key(&who) {
            make_room(&mut remembered, now);
        }
        let forgiven_us = remembered.entry(who).or_default();
        let after = (*forgiven_us).max(now.0).saturating_add(each_us);
        *forgiven_us = after.min(now.0.saturating_add(HOUR_US));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Who, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets who is forgiven, and if those are few, half of all.
fn make_room(remembered: &mut BTreeMap<Who, u64>, now: Mono) {
    remembered.retain(|_, forgiven_us| *forgiven_us > now.0);
    if remembered.len() > REMEMBERED_MAX / 2 {
        let mut all: Vec<u64> = remembered.values().copied().collect();
        let (_, middle, _) = all.select_nth_unstable(REMEMBERED_MAX / 4);
        let middle = *middle;
        remembered.retain(|_, forgiven_us| *forgiven_us > middle);
        // All may have failed at one moment.
        while remembered.len() >= REMEMBERED_MAX {
            remembered.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Mono = Mono(1_000_000_000);

    fn after(seconds: u64) -> Mono {
        Mono(START.0 + seconds * 1_000_000)
    }

    #[test]
    fn an_hours_worth_may_fail_and_then_one_at_a_time() {
        let failures = LoginFailures::default();
        let who = Who::client([192, 0, 2, 1].into());
        for _ in 0..60 {
            assert!(!failures.is_exhausted(who, 60, START));
            failures.note(who, 60, START);
        }
        assert!(failures.is_exhausted(who, 60, START));
        assert!(failures.is_exhausted(who, 60, Mono(after(60).0 - 1)));
        assert!(!failures.is_exhausted(who, 60, after(60)));
        assert!(!failures.is_exhausted(Who::client([192, 0, 2, 2].into()), 60, START));
        assert!(!failures.is_exhausted(who, 0, START), "no limit");
        // Those that were under way are no longer held against him than an hour.
        (0..1_000).for_each(|_| failures.note(who, 60, START));
        assert!(!failures.is_exhausted(who, 60, after(60)));
    }

    #[test]
    fn a_64_is_one_client_and_a_user_is_known_in_any_case() {
        let client = |text: &str| Who::client(text.parse().unwrap());
        assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff::2"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_eq!(Who::user("Jo"), Who::user("jo"));
        assert_ne!(Who::user("jo"), Who::user("al"));
    }

    #[test]
    fn whoever_makes_up_users_has_no_more_remembered() {
        let failures = LoginFailures::default();
        let victim = Who::user("victim");
        (0..10).for_each(|_| failures.note(victim, 10, START));
        for n in 0..3 * REMEMBERED_MAX as u64 {
            failures.note(Who::User(n), 1_000, Mono(START.0 + n));
            assert!(failures.lock().len() <= REMEMBERED_MAX);
        }
        assert!(failures.is_exhausted(victim, 10, START), "who failed more is remembered longer");
        // The worst: all at one moment.
        let failures = LoginFailures::default();
        (0..2 * REMEMBERED_MAX as u64).for_each(|n| failures.note(Who::User(n), 10, START));
        assert!(failures.lock().len() <= REMEMBERED_MAX);
    }
}
