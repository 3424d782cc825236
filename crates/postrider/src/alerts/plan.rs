//! The schedule of alerts to one receiver: a function of time and the list of problems.

use mail::Wall;
use mta::problems::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time that a new problem waits for more problems with the same cause, so that one alert has all.
const GATHER: Duration = Duration::from_secs(2);
/// A problem has ended once it has been absent for this time, or for `every` if that is shorter.
const ABSENT_MIN: Duration = Duration::from_secs(60);
/// Maximum number of problems in a list of an alert; further ones are counted.
pub(super) const LISTED_MAX: usize = 20;
/// Maximum number of problems that began and ended between two alerts; further ones are not listed.
const PASSED_MAX: usize = 100;
/// The kind of problems with alerts themselves, which causes none.
pub(super) const ALERT_KIND: &str = "alert";
/// Kinds that an alert by mail may cause, by its delivery. If one begins while an alert is undelivered, that receiver
/// gets none about it: otherwise each alert could be the cause of the next.
const DELIVERY_KINDS: [&str; 6] =
    ["next_hop", "source", "name_servers", "silent_zone", "table", "mailboxes"];
/// A kind that mail to the postmaster causes whenever it is stored in the spool.
const OWN_MAILBOX_KIND: &str = "postmaster_mail";

/// Mail or web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlertWay {
    Mail,
    Webhook,
}

impl AlertWay {
    /// Returns true if these alerts have the problem.
    fn has(self, problem: &Problem) -> bool {
        problem.kind != ALERT_KIND
            && (self == AlertWay::Webhook || problem.kind != OWN_MAILBOX_KIND)
    }

    /// Returns true if the delivery of an alert may cause the problem.
    fn may_cause(self, problem: &Problem) -> bool {
        self == AlertWay::Mail && DELIVERY_KINDS.contains(&&*problem.kind)
    }
}

mta::label! { AlertWay, "by": Mail = "mail", Webhook = "webhook" }

/// The purpose of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AlertKind {
    /// Problems, after none.
    Alert,
    /// Changes since the last alert.
    Digest,
    /// No problem is left.
    AllClear,
}

/// An alert to one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alert {
    pub(super) kind: AlertKind,
    /// Not reported before.
    pub(super) begun: Vec<Problem>,
    /// Reported before, and current.
    pub(super) current: Vec<Problem>,
    /// Reported before, and ended.
    pub(super) ended: Vec<Problem>,
    /// Begun and ended since the last alert.
    pub(super) passed: Vec<Problem>,
}

/// A problem as one receiver knows it.
#[derive(Clone, Debug)]
struct Tracked {
    problem: Problem,
    seen: Wall,
    /// `None`: current.
    absent: Option<Wall>,
    is_reported: bool,
    /// An alert may be its cause.
    is_left_out: bool,
    sent: Sent,
}

/// A problem's place in the pending alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sent {
    #[default]
    No,
    AsCurrent,
    AsEnded,
}

/// The state of one receiver that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredPlan {
    pub(super) receiver: String,
    /// Unix ms.
    sent_at: u64,
    reported: Vec<Problem>,
}

/// The alerts of one receiver.
#[derive(Debug)]
pub(super) struct AlertPlan {
    way: AlertWay,
    tracked: BTreeMap<(String, String), Tracked>,
    passed: Vec<Problem>,
    sent_at: Option<Wall>,
    is_pending: bool,
}

impl AlertPlan {
    /// A receiver that got no alert yet.
    pub(super) fn new(way: AlertWay) -> AlertPlan {
        let (tracked, passed) = (BTreeMap::new(), Vec::new());
        AlertPlan { way, tracked, passed, sent_at: None, is_pending: false }
    }

    /// A receiver of an earlier process.
    pub(super) fn restored(way: AlertWay, stored: StoredPlan) -> AlertPlan {
        let mut plan = AlertPlan::new(way);
        plan.sent_at = Some(Wall(stored.sent_at));
        for problem in stored.reported {
            let (key, seen) = (key(&problem), problem.since);
            let tracked = Tracked { is_reported: true, ..Tracked::new(problem, seen) };
            plan.tracked.insert(key, tracked);
        }
        plan
    }

    /// The state to keep; `None` before the first alert.
    pub(super) fn stored(&self, receiver: &str) -> Option<StoredPlan> {
        let reported = self.tracked.values().filter(|one| one.is_reported);
        let reported = reported.map(|one| one.problem.clone()).collect();
        Some(StoredPlan { receiver: receiver.to_owned(), sent_at: self.sent_at?.0, reported })
    }

    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Returns an alert if one is due. The caller calls [`AlertPlan::conclude`] with its result.
    pub(super) fn poll(
        &mut self,
        now: Wall,
        current: &[Problem],
        every: Duration,
    ) -> Option<Alert> {
        let absent_min = every.min(ABSENT_MIN);
        self.observe(now, current, absent_min);
        // A clock that was set back must not delay alerts.
        let is_early = self.sent_at.is_some_and(|at| at <= now && now.since(at) < every);
        if self.is_pending || is_early || !self.is_due(now, absent_min) {
            return None;
        }
        self.is_pending = true;
        self.sent_at = Some(now);
        Some(self.alert())
    }

    /// Compares the list with the last one.
    fn observe(&mut self, now: Wall, current: &[Problem], absent_min: Duration) {
        for tracked in self.tracked.values_mut() {
            tracked.absent = tracked.absent.or(Some(now));
        }
        let (way, is_pending) = (self.way, self.is_pending);
        for problem in current.iter().filter(|problem| way.has(problem)) {
            let left_out = is_pending && way.may_cause(problem);
            let new = || Tracked { is_left_out: left_out, ..Tracked::new(problem.clone(), now) };
            let tracked = self.tracked.entry(key(problem)).or_insert_with(new);
            tracked.problem.clone_from(problem);
            tracked.absent = None;
        }
        let passed = &mut self.passed;
        self.tracked.retain(|_, one| {
            let is_kept =
                one.is_reported || one.sent != Sent::No || !one.is_absent(now, absent_min);
            let lasted = one.absent.unwrap_or(now).since(one.seen);
            let is_told = !one.is_left_out && lasted >= GATHER;
            if !is_kept && is_told && passed.len() < PASSED_MAX {
                passed.push(one.problem.clone());
            }
            is_kept
        });
    }

    fn is_due(&self, now: Wall, absent_min: Duration) -> bool {
        let is_new = |one: &Tracked| one.is_new() && now.since(one.seen) >= GATHER;
        let has_ended = |one: &Tracked| one.is_reported && one.is_absent(now, absent_min);
        // Problems that an alert can cause are listed, but cause none.
        let has_passed = self.passed.iter().any(|problem| !self.way.may_cause(problem));
        has_passed || self.tracked.values().any(|one| is_new(one) || has_ended(one))
    }

    /// All changes, and the problems that were reported before.
    fn alert(&mut self) -> Alert {
        let had_reported = self.tracked.values().any(|one| one.is_reported);
        let mut alert = Alert {
            kind: AlertKind::Alert,
            begun: Vec::new(),
            current: Vec::new(),
            ended: Vec::new(),
            passed: std::mem::take(&mut self.passed),
        };
        for one in self.tracked.values_mut() {
            let (list, sent) = match (one.is_reported, one.absent) {
                _ if one.is_left_out => continue,
                (false, None) => (&mut alert.begun, Sent::AsCurrent),
                (true, None) => (&mut alert.current, Sent::AsCurrent),
                (true, Some(_)) => (&mut alert.ended, Sent::AsEnded),
                // Perhaps it comes back.
                (false, Some(_)) => continue,
            };
            one.sent = sent;
            list.push(one.problem.clone());
        }
        alert.kind = match (had_reported, alert.begun.is_empty() && alert.current.is_empty()) {
            (true, true) => AlertKind::AllClear,
            (true, false) | (false, true) => AlertKind::Digest,
            (false, false) => AlertKind::Alert,
        };
        alert
    }

    /// Ends the pending alert. An undelivered one is not repeated: the next one has the problems that last. Ends are
    /// then not reported.
    pub(super) fn conclude(&mut self, is_delivered: bool) {
        self.is_pending = false;
        self.tracked.retain(|_, one| match std::mem::take(&mut one.sent) {
            Sent::No => true,
            Sent::AsCurrent => {
                one.is_reported |= is_delivered;
                true
            }
            Sent::AsEnded if one.absent.is_some() => false,
            // It is back, which the receiver does not know.
            Sent::AsEnded => {
                one.is_reported &= !is_delivered;
                true
            }
        });
    }
}

impl Tracked {
    fn new(problem: Problem, seen: Wall) -> Tracked {
        let (absent, is_reported, is_left_out) = (None, false, false);
        Tracked { problem, seen, absent, is_reported, is_left_out, sent: Sent::No }
    }

    fn is_new(&self) -> bool {
        !self.is_reported && !self.is_left_out && self.absent.is_none()
    }

    fn is_absent(&self, now: Wall, min: Duration) -> bool {
        self.absent.is_some_and(|at| now.since(at) >= min)
    }
}

fn key(problem: &Problem) -> (String, String) {
    (problem.kind.clone(), problem.about.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mta::problems::Severity;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn problem(kind: &str, about: &str) -> Problem {
        let (kind, about) = (kind.to_owned(), about.to_owned());
        let text = "it failed".to_owned();
        Problem { kind, severity: Severity::Error, about, text, ..Problem::default() }
    }

    /// A receiver by mail, with its time in seconds.
    struct Receiver {
        plan: AlertPlan,
        now: u64,
    }

    impl Receiver {
        fn new() -> Receiver {
            Receiver { plan: AlertPlan::new(AlertWay::Mail), now: 1_000 }
        }

        /// The alerts of so many seconds with these problems, each as kind and lengths of its lists. They are
        /// delivered at once.
        fn pass(&mut self, seconds: u64, current: &[Problem]) -> Vec<(AlertKind, [usize; 4])> {
            let mut alerts = Vec::new();
            for _ in 0..seconds {
                alerts.extend(self.poll(current).map(|alert| {
                    self.plan.conclude(true);
                    let Alert { kind, begun, current, ended, passed } = alert;
                    (kind, [&begun, &current, &ended, &passed].map(Vec::len))
                }));
            }
            alerts
        }

        /// One second.
        fn poll(&mut self, current: &[Problem]) -> Option<Alert> {
            self.now += 1;
            self.plan.poll(Wall(self.now * 1_000), current, HOUR)
        }
    }

    #[test]
    fn first_alert_is_sent_at_once_and_others_once_an_hour() {
        let mut to = Receiver::new();
        let [log, disk, table] = [("log", "/a"), ("disk", "/a"), ("list", "t")]
            .map(|(kind, about)| problem(kind, about));
        assert_eq!(to.pass(100, &[]), []);
        let both = [log.clone(), disk.clone()];
        assert_eq!(to.pass(1, &both[..1]), []);
        assert_eq!(to.pass(3, &both), [(AlertKind::Alert, [2, 0, 0, 0])]);
        // One ends, one begins, and one does both.
        assert_eq!(to.pass(1_000, &[disk.clone(), table.clone()]), []);
        let last = [disk.clone(), problem("list", "u")];
        assert_eq!(to.pass(2_595, &last), []);
        assert_eq!(to.pass(10, &last), [(AlertKind::Digest, [1, 1, 1, 1])]);
        assert_eq!(to.pass(3_600 * 9, &last), [], "nothing has changed");
        assert_eq!(to.pass(59, &[]), []);
        assert_eq!(to.pass(2, &[]), [(AlertKind::AllClear, [0, 0, 2, 0])]);
        assert_eq!(to.pass(3_600 * 9, &[]), []);
    }

    #[test]
    fn problem_that_comes_and_goes_is_not_repeated() {
        let mut to = Receiver::new();
        let log = [problem("log", "/a")];
        assert_eq!(to.pass(10, &log).len(), 1);
        for _ in 0..1_000 {
            assert_eq!(to.pass(30, &[]), []);
            assert_eq!(to.pass(30, &log), []);
        }
        // Less than the time for others with the same cause.
        let mut to = Receiver::new();
        to.pass(1, &log);
        assert_eq!(to.pass(10_000, &[]), []);
    }

    #[test]
    fn undelivered_alert_causes_no_other() {
        let mut to = Receiver::new();
        let log = problem("log", "/a");
        let hop = problem("next_hop", "smtp:relay:25");
        to.pass(2, std::slice::from_ref(&log));
        assert!(to.poll(std::slice::from_ref(&log)).is_some());
        for _ in 0..86_400 {
            assert!(to.poll(&[log.clone(), hop.clone()]).is_none(), "one is pending");
        }
        to.plan.conclude(false);
        // The hop is still down, and nobody knows of the log.
        let again = to.poll(&[log.clone(), hop.clone()]).unwrap();
        assert_eq!((again.kind, &again.begun[..]), (AlertKind::Alert, &[log][..]));
        to.plan.conclude(false);
        // It ends: that may be reported once, and then nothing is.
        let mut sent = 0;
        for _ in 0..10 * 3_600 {
            if to.poll(std::slice::from_ref(&hop)).is_some() {
                sent += 1;
                to.plan.conclude(false);
            }
        }
        assert_eq!(sent, 1);
        // Once it was well, its next outage is reported.
        to.pass(100, &[]);
        assert_eq!(to.pass(10, &[hop]), [(AlertKind::Alert, [1, 0, 0, 0])]);
    }

    #[test]
    fn alerts_are_no_subject_of_alerts() {
        let mut to = Receiver::new();
        assert_eq!(to.pass(10, &[problem("alert", "x"), problem("postmaster_mail", "")]), []);
        to.plan = AlertPlan::new(AlertWay::Webhook);
        assert_eq!(to.pass(10, &[problem("alert", "x")]), []);
        assert_eq!(to.pass(10, &[problem("postmaster_mail", "")]).len(), 1);
    }

    #[test]
    fn restart_neither_repeats_nor_forgets() {
        let mut to = Receiver::new();
        let log = [problem("log", "/a")];
        assert_eq!(to.plan.stored("x"), None);
        to.pass(10, &log);
        let stored = to.plan.stored("x").unwrap();
        let text = serde_json::to_string(&stored).unwrap();
        let stored: StoredPlan = serde_json::from_str(&text).unwrap();
        to.plan = AlertPlan::restored(AlertWay::Mail, stored);
        assert_eq!(to.pass(4_000, &log), []);
        assert_eq!(to.pass(61, &[]), [(AlertKind::AllClear, [0, 0, 1, 0])]);
        // The clock was set back by a year.
        let mut to = Receiver {
            plan: AlertPlan::restored(AlertWay::Mail, to.plan.stored("x").unwrap()),
            now: 5,
        };
        assert_eq!(to.pass(10, &log).len(), 1);
    }

    #[test]
    fn problem_that_is_back_when_its_end_was_reported_is_new() {
        let mut to = Receiver::new();
        let log = [problem("log", "/a")];
        to.pass(10, &log);
        to.pass(3_590, &[]);
        let ended = (0..20).find_map(|_| to.poll(&[])).unwrap();
        assert_eq!(ended.kind, AlertKind::AllClear);
        assert_eq!(to.poll(&log), None);
        to.plan.conclude(true);
        assert_eq!(to.pass(3_600, &log), [(AlertKind::Alert, [1, 0, 0, 0])]);
    }
}
