//! Recent login failures, over all shards: by client, as in [`crate::clients`], and by user.
//!
//! An attempt reserves a failure when it begins ([`LoginFailures::begin`]), so that no more guesses run concurrently
//! than may fail; success releases the reservation. The number of records is bounded, because clients choose both keys;
//! the oldest failures are forgotten first.

mod known;

pub use known::KnownClients;

use crate::clients::network_of;
use lookup::prepared;
use mail::Mono;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of clients and users without a running attempt. Those with attempts come on top; each attempt has a
/// connection.
const REMEMBERED_MAX: usize = 32 * 1_024;
/// Time after a failure in which a user's checks do not run in the lane of unknown clients, even if the failure is
/// forgiven. Otherwise guesses at a few existing names could delay all users with new addresses.
const SUSPECT_US: u64 = 300_000_000;
/// Rates are per hour, with a burst of one hour's worth.
const HOUR_US: u64 = 3_600_000_000;

/// Subject of the failure count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LoginSubject {
    /// An IPv4 address, or an IPv6 /64.
    Client(IpAddr),
    /// Hash of a name, of an existing user or not: the name may be long.
    User(u64),
}

impl LoginSubject {
    pub(crate) fn client(ip: IpAddr) -> LoginSubject {
        LoginSubject::Client(network_of(ip))
    }

    /// A user by its lookup key. Case and blanks make no difference, as in tables and directories.
    pub(crate) fn user(key: &str) -> LoginSubject {
        LoginSubject::hashed("key", &prepared(key))
    }

    /// A user by the login source's own name for the entry: the same for all spellings.
    pub(crate) fn entry(name: &str) -> LoginSubject {
        LoginSubject::hashed("entry", name)
    }

    fn hashed(kind: &str, text: &str) -> LoginSubject {
        let mut hasher = DefaultHasher::new();
        (kind, text).hash(&mut hasher);
        LoginSubject::User(hasher.finish())
    }
}

/// A subject, and its allowed failures within an hour; 0: no limit.
pub(crate) type Limit = (LoginSubject, u32);

/// Record of a subject.
#[derive(Debug, Default)]
struct Record {
    /// Time at which all failures so far are forgiven, in microseconds.
    forgiven_us: u64,
    /// The last failure, in microseconds.
    failed_us: Option<u64>,
    /// Running attempts.
    open: u32,
    /// Weight of attempts that ended without a verdict since the last settlement: a client that disconnects before the
    /// answer has failed.
    lost_us: u64,
    /// Weight of a failure at the last attempt: each listener may have its own limit.
    each_us: u64,
    /// Waiters for the end of an attempt, in order.
    line: VecDeque<oneshot::Sender<()>>,
}

impl Record {
    /// Counts lost attempts as failures from now on, to be forgiven over time.
    fn settle(&mut self, now: Mono) {
        let lost_us = std::mem::take(&mut self.lost_us);
        self.add(lost_us, now);
    }

    /// Adds failures; their total weight is at most an hour.
    fn add(&mut self, weight_us: u64, now: Mono) {
        if weight_us > 0 {
            self.failed_us = Some(now.0);
            let after = self.forgiven_us.max(now.0).saturating_add(weight_us);
            self.forgiven_us = after.min(now.0.saturating_add(HOUR_US));
        }
    }

    /// Returns true if `more` failures would exceed the limit.
    fn is_beyond(&self, more: u32, each_us: u64, now: Mono) -> bool {
        let more_us = each_us.saturating_mul(u64::from(more));
        let until_us = self.forgiven_us.max(now.0).saturating_add(more_us);
        until_us > now.0.saturating_add(HOUR_US)
    }

    /// An attempt has ended: wakes the first waiter.
    fn end_one(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.call_next();
    }

    fn call_next(&mut self) {
        while let Some(next) = self.line.pop_front() {
            // This waiter has left.
            if next.send(()).is_ok() {
                return;
            }
        }
    }

    fn wait(&mut self) -> oneshot::Receiver<()> {
        if self.line.len() == self.line.capacity() {
            self.line.retain(|one| !one.is_closed());
        }
        let (call, called) = oneshot::channel();
        self.line.push_back(call);
        called
    }

    fn is_needed(&self, now_us: u64) -> bool {
        self.open > 0 || self.lost_us > 0 || self.forgiven_us > now_us
    }
}

/// The reason for which no attempt may begin.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The limit of failures is reached.
    Exhausted(LoginSubject),
    /// The limit would be reached if all running attempts failed: retry when one has ended.
    Full(LoginSubject, oneshot::Receiver<()>),
}

/// The records, by subject.
#[derive(Debug, Default)]
pub(crate) struct LoginFailures(Mutex<BTreeMap<LoginSubject, Record>>);

/// The reservation of an attempt. Dropping it counts as a failure.
#[derive(Debug)]
pub(crate) struct Charge {
    failures: Arc<LoginFailures>,
    of: SmallVec<[Limit; 2]>,
}

impl LoginFailures {
    /// Returns true if one more failure would exceed the limit (0: never), without counting running attempts.
    pub(crate) fn is_exhausted(&self, (who, per_hour): Limit, now: Mono) -> bool {
        let Some(each_us) = each_us(per_hour) else { return false };
        self.lock().get_mut(&who).is_some_and(|record| {
            record.settle(now);
            record.is_beyond(1, each_us, now)
        })
    }

    /// Begins an attempt that may fail for each of these subjects.
    ///
    /// # Errors
    /// The limit of a subject is reached.
    pub(crate) fn begin(self: &Arc<Self>, of: &[Limit], now: Mono) -> Result<Charge, Obstacle> {
        let mut charge = Charge { failures: Arc::clone(self), of: SmallVec::new() };
        self.take(&mut charge, of, now)?;
        Ok(charge)
    }

    fn take(&self, charge: &mut Charge, of: &[Limit], now: Mono) -> Result<(), Obstacle> {
        let mut remembered = self.lock();
        for &(who, per_hour) in of {
            let Some(each_us) = each_us(per_hour) else { continue };
            let Some(record) = remembered.get_mut(&who) else { continue };
            record.settle(now);
            if record.is_beyond(1, each_us, now) {
                // The same applies to its waiters.
                record.call_next();
                return Err(Obstacle::Exhausted(who));
            }
            if record.is_beyond(record.open.saturating_add(1), each_us, now) {
                return Err(Obstacle::Full(who, record.wait()));
            }
        }
        for &(who, per_hour) in of.iter().filter(|(_, per_hour)| *per_hour > 0) {
            if remembered.len() >= REMEMBERED_MAX && !remembered.contains_key(&who) {
                make_room(&mut remembered, now);
            }
            remembered.entry(who).or_default().open += 1;
            charge.of.push((who, per_hour));
        }
        Ok(())
    }

    /// Clients for which another failure would exceed the limit, and the time until it would not.
    pub(crate) fn blocked_clients(&self, now: Mono) -> Vec<(IpAddr, Duration)> {
        let mut remembered = self.lock();
        let blocked = |(who, record): (&LoginSubject, &mut Record)| {
            let LoginSubject::Client(address) = *who else { return None };
            record.settle(now);
            let room = Mono(now.0.saturating_add(HOUR_US).saturating_sub(record.each_us));
            let left = Mono(record.forgiven_us).since(room);
            (record.each_us > 0 && left > Duration::ZERO).then_some((address, left))
        };
        remembered.iter_mut().filter_map(blocked).collect()
    }

    /// Forgets the failures of a client, but not its running attempts. Returns false if it has none.
    pub(crate) fn forget_client(&self, address: IpAddr) -> bool {
        let mut remembered = self.lock();
        let Some(record) = remembered.get_mut(&LoginSubject::client(address)) else { return false };
        let had_failed = record.forgiven_us > 0 || record.lost_us > 0;
        (record.forgiven_us, record.lost_us, record.failed_us) = (0, 0, None);
        record.call_next();
        had_failed
    }

    /// Releases the reservations, with these consequences.
    fn end(&self, of: &[Limit], mut consequence: impl FnMut(&mut Record, u64)) {
        let mut remembered = self.lock();
        for &(who, per_hour) in of {
            let Some(record) = remembered.get_mut(&who) else { continue };
            record.each_us = each_us(per_hour).unwrap_or(0);
            consequence(record, record.each_us);
            record.end_one();
            if !record.is_needed(0) && record.line.is_empty() {
                remembered.remove(&who);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<LoginSubject, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Charge {
    /// Adds a subject that is only known now.
    ///
    /// # Errors
    /// The subject's limit is reached.
    pub(crate) fn extend(&mut self, by: Limit, now: Mono) -> Result<(), Obstacle> {
        if self.of.iter().any(|(who, _)| *who == by.0) {
            return Ok(());
        }
        Arc::clone(&self.failures).take(self, &[by], now)
    }

    /// Returns true if one of its subjects has failed lately; forgiven failures do not count.
    pub(crate) fn follows_failures(&self, now: Mono) -> bool {
        let remembered = self.failures.lock();
        self.of.iter().any(|(who, _)| {
            let Some(record) = remembered.get(who) else { return false };
            let is_recent = |failed_us: u64| failed_us.saturating_add(SUSPECT_US) > now.0;
            record.lost_us > 0
                || record.forgiven_us > now.0
                || matches!(who, LoginSubject::User(_)) && record.failed_us.is_some_and(is_recent)
        })
    }

    /// The attempt has not failed: it succeeded, or has no verdict.
    pub(crate) fn forgive(mut self) {
        self.failures.end(&std::mem::take(&mut self.of), |_, _| {});
    }

    /// Counts the attempt as a failure.
    pub(crate) fn keep(mut self, now: Mono) {
        let of = std::mem::take(&mut self.of);
        self.failures.end(&of, |record, each_us| record.add(each_us, now));
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if !self.of.is_empty() {
            self.failures.end(&self.of, |record, each_us| {
                record.lost_us = record.lost_us.saturating_add(each_us);
            });
        }
    }
}

/// Weight of one failure. `None` if there is no limit.
fn each_us(per_hour: u32) -> Option<u64> {
    HOUR_US.checked_div(u64::from(per_hour))
}

/// Drops forgiven records and, if these are few, half of all. Records with running attempts are kept.
fn make_room(remembered: &mut BTreeMap<LoginSubject, Record>, now: Mono) {
    remembered.retain(|_, record| {
        record.settle(now);
        record.is_needed(now.0)
    });
    if remembered.len() > REMEMBERED_MAX / 2 {
        let mut all: Vec<u64> = remembered.values().map(|record| record.forgiven_us).collect();
        let (_, middle, _) = all.select_nth_unstable(REMEMBERED_MAX / 4);
        let middle = *middle;
        remembered.retain(|_, record| record.open > 0 || record.forgiven_us > middle);
        // All may have failed at the same time.
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, record| record.open > 0);
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

    /// A failed attempt. Returns true if it could begin.
    fn fail(failures: &Arc<LoginFailures>, limit: Limit, now: Mono) -> bool {
        failures.begin(&[limit], now).map(|charge| charge.keep(now)).is_ok()
    }

    #[test]
    fn an_hours_worth_may_fail_and_then_one_at_a_time() {
        let failures = Arc::<LoginFailures>::default();
        let who = LoginSubject::client([192, 0, 2, 1].into());
        for _ in 0..60 {
            assert!(!failures.is_exhausted((who, 60), START));
            assert!(fail(&failures, (who, 60), START));
        }
        assert!(failures.is_exhausted((who, 60), START));
        assert!(matches!(failures.begin(&[(who, 60)], START), Err(Obstacle::Exhausted(_))));
        assert!(failures.is_exhausted((who, 60), Mono(after(60).0 - 1)));
        assert!(!failures.is_exhausted((who, 60), after(60)));
        let other = LoginSubject::client([192, 0, 2, 2].into());
        assert!(!failures.is_exhausted((other, 60), START));
        assert!(!failures.is_exhausted((who, 0), START), "no limit");
        assert!(fail(&failures, (who, 0), START));
    }

    #[test]
    fn blocked_client_is_listed_until_it_is_forgotten() {
        let failures = Arc::<LoginFailures>::default();
        let address = IpAddr::from([192, 0, 2, 1]);
        let limit = (LoginSubject::client(address), 60);
        for _ in 0..59 {
            fail(&failures, limit, START);
        }
        assert_eq!(failures.blocked_clients(START), []);
        fail(&failures, limit, START);
        assert_eq!(failures.blocked_clients(START), [(address, Duration::from_secs(60))]);
        assert_eq!(failures.blocked_clients(after(59)), [(address, Duration::from_secs(1))]);
        assert_eq!(failures.blocked_clients(after(60)), []);
        assert!(failures.is_exhausted(limit, START));
        assert!(failures.forget_client(address) && !failures.is_exhausted(limit, START));
        assert!(!failures.forget_client(IpAddr::from([192, 0, 2, 9])));
        // Two that left before the answer.
        let few = (LoginSubject::client(address), 2);
        drop([0, 1].map(|_| failures.begin(&[few], START).unwrap()));
        assert_eq!(failures.blocked_clients(START).len(), 1);
    }

    #[test]
    fn what_is_under_way_together_is_no_more_than_may_fail() {
        let failures = Arc::<LoginFailures>::default();
        let limit = (LoginSubject::user("jo"), 3);
        let mut open: Vec<Charge> =
            (0..3).map(|_| failures.begin(&[limit], START).unwrap()).collect();
        assert!(!failures.is_exhausted(limit, START), "none has failed");
        let wait = || match failures.begin(&[limit], START) {
            Err(Obstacle::Full(_, called)) => called,
            other => panic!("{other:?}"),
        };
        let (gone, mut first, mut second) = (wait(), wait(), wait());
        drop(gone);
        // A correct password releases its reservation, and wakes the first waiter.
        open.pop().unwrap().forgive();
        assert!(first.try_recv().is_ok() && second.try_recv().is_err());
        open.push(failures.begin(&[limit], START).unwrap());
        for (nth, charge) in open.into_iter().enumerate() {
            charge.keep(START);
            assert_eq!(failures.is_exhausted(limit, START), nth == 2);
        }
        assert!(second.try_recv().is_ok());
        // A waiter that finds the limit reached wakes the next one.
        let mut third = failures.lock().get_mut(&limit.0).unwrap().wait();
        assert!(matches!(failures.begin(&[limit], START), Err(Obstacle::Exhausted(_))));
        assert!(third.try_recv().is_ok());
    }

    #[test]
    fn whoever_goes_away_before_the_answer_has_failed() {
        let failures = Arc::<LoginFailures>::default();
        let limit = (LoginSubject::user("jo"), 2);
        let open = [0, 1].map(|_| failures.begin(&[limit], START).unwrap());
        drop(open);
        assert!(failures.is_exhausted(limit, after(4_000)), "it is forgiven from now on");
        assert!(!failures.is_exhausted(limit, after(4_000 + 1_800)));
    }

    #[test]
    fn what_follows_failures_is_known_until_they_are_forgiven() {
        let failures = Arc::<LoginFailures>::default();
        let (client, user) =
            ((LoginSubject::client([192, 0, 2, 1].into()), 60), (LoginSubject::user("jo"), 120));
        let follows = |of: &[Limit], now| {
            let charge = failures.begin(of, now).unwrap();
            let follows = charge.follows_failures(now);
            charge.forgive();
            follows
        };
        assert!(!follows(&[client, user], START));
        assert!(fail(&failures, user, START));
        assert!(follows(&[client, user], START), "one of them is enough");
        assert!(!follows(&[client], START) && !follows(&[(user.0, 0)], START));
        assert!(follows(&[user], Mono(after(300).0 - 1)));
        assert!(!follows(&[user], after(300)));
        assert!(fail(&failures, client, START));
        assert!(follows(&[client], Mono(after(60).0 - 1)) && !follows(&[client], after(60)));
        drop(failures.begin(&[client], START).unwrap());
        assert!(follows(&[client], START), "he went away before the answer");
    }

    #[test]
    fn whoever_succeeds_leaves_nothing_behind() {
        let failures = Arc::<LoginFailures>::default();
        let of =
            [(LoginSubject::client([192, 0, 2, 1].into()), 60), (LoginSubject::user("jo"), 120)];
        failures.begin(&of, START).unwrap().forgive();
        assert!(failures.lock().is_empty());
    }

    #[test]
    fn one_is_asked_for_no_room_when_the_other_has_none() {
        let failures = Arc::<LoginFailures>::default();
        let (client, user) =
            ((LoginSubject::client([192, 0, 2, 1].into()), 9), (LoginSubject::user("jo"), 1));
        assert!(fail(&failures, user, START));
        let refused = failures.begin(&[client, user], START);
        assert!(matches!(refused, Err(Obstacle::Exhausted(who)) if who == user.0));
        assert!(!failures.lock().contains_key(&client.0));
        // Nor if the user is known only later.
        let mut charge = failures.begin(&[client], START).unwrap();
        assert!(charge.extend(client, START).is_ok(), "it has that room already");
        assert_eq!(failures.lock()[&client.0].open, 1);
        assert!(matches!(charge.extend(user, START), Err(Obstacle::Exhausted(_))));
        charge.extend((LoginSubject::user("al"), 1), START).unwrap();
        charge.keep(START);
        assert!(failures.is_exhausted((LoginSubject::user("al"), 1), START));
    }

    #[test]
    fn a_64_is_one_client_and_a_user_is_known_however_he_is_written() {
        let client = |text: &str| LoginSubject::client(text.parse().unwrap());
        assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff::2"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        for written in ["Jones", "JONES", "jone\u{17f}", " jones", "jones  "] {
            assert_eq!(LoginSubject::user(written), LoginSubject::user("jones"), "{written}");
        }
        assert_eq!(LoginSubject::user("jo  ann"), LoginSubject::user("Jo Ann"));
        assert_ne!(LoginSubject::user("jo"), LoginSubject::user("al"));
        assert_ne!(LoginSubject::user("jo"), LoginSubject::entry("jo"));
    }

    #[test]
    fn whoever_makes_up_users_has_no_more_remembered() {
        let failures = Arc::<LoginFailures>::default();
        let victim = (LoginSubject::user("victim"), 10);
        (0..10).for_each(|_| assert!(fail(&failures, victim, START)));
        let open = failures.begin(&[(LoginSubject::user("open"), 10)], START).unwrap();
        for n in 0..3 * REMEMBERED_MAX as u64 {
            fail(&failures, (LoginSubject::User(n), 1_000), Mono(START.0 + n));
            assert!(failures.lock().len() <= REMEMBERED_MAX);
        }
        assert!(failures.is_exhausted(victim, START), "who failed more is remembered longer");
        assert_eq!(failures.lock()[&LoginSubject::user("open")].open, 1);
        open.forgive();
        // The worst case: all at the same time.
        let failures = Arc::<LoginFailures>::default();
        for n in 0..2 * REMEMBERED_MAX as u64 {
            fail(&failures, (LoginSubject::User(n), 10), START);
        }
        assert!(failures.lock().len() <= REMEMBERED_MAX);
    }
}
