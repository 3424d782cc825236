//! Services that stages ask (milters, policy services), and whether the last request failed. Each is a problem until it
//! answers again, whichever shard asks.

use crate::problems::{ClockReading, DetectedProblem, ProblemKind, Severity};
use mail::Wall;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Maximum size of a reason in octets.
const REASON_BYTES_MAX: usize = 256;

/// The kind of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceKind {
    Milter,
    Policy,
}

impl ServiceKind {
    /// The kind of its problem.
    #[must_use]
    pub fn problem(self) -> &'static str {
        match self {
            ServiceKind::Milter => "milter",
            ServiceKind::Policy => "policy_service",
        }
    }

    /// For people.
    fn word(self) -> &'static str {
        match self {
            ServiceKind::Milter => "milter",
            ServiceKind::Policy => "policy service",
        }
    }
}

/// Name of a service: its kind, the severity of its failure, and its address.
type ServiceName = (ServiceKind, Severity, String);

/// The services in use, over all shards.
#[derive(Debug, Default)]
pub struct Outages(Mutex<BTreeMap<ServiceName, Weak<Outage>>>);

impl Outages {
    /// The state of a service, shared by all of its users. It is a problem only while one of these keeps it.
    #[must_use]
    pub fn of(&self, kind: ServiceKind, address: &str, severity: Severity) -> Arc<Outage> {
        let mut all = lock(&self.0);
        all.retain(|_, known| known.strong_count() > 0);
        let known = all.entry((kind, severity, address.to_owned())).or_default();
        known.upgrade().unwrap_or_else(|| {
            let fresh = Arc::<Outage>::default();
            *known = Arc::downgrade(&fresh);
            fresh
        })
    }
}

/// The state of one service.
#[derive(Debug, Default)]
pub struct Outage {
    /// Read for each answer, without a lock.
    is_failing: AtomicBool,
    last: Mutex<Option<FailedRequest>>,
}

#[derive(Debug)]
struct FailedRequest {
    since: Wall,
    reason: String,
}

impl Outage {
    /// A request failed at time `now`.
    pub fn failed(&self, reason: &str, now: Wall) {
        let mut last = lock(&self.last);
        let since = last.as_ref().map_or(now, |known| known.since);
        let reason = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
        *last = Some(FailedRequest { since, reason });
        self.is_failing.store(true, Ordering::Relaxed);
    }

    /// A request was answered.
    pub fn answered(&self) {
        if self.is_failing.load(Ordering::Relaxed) {
            self.is_failing.store(false, Ordering::Relaxed);
            *lock(&self.last) = None;
        }
    }
}

/// Failing services of one kind as problems.
pub(crate) struct FailingServices {
    pub(crate) kind: ServiceKind,
    pub(crate) outages: Arc<Outages>,
}

impl ProblemKind for FailingServices {
    fn name(&self) -> &'static str {
        self.kind.problem()
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        for ((kind, severity, address), outage) in &*lock(&self.outages.0) {
            let Some(outage) = outage.upgrade().filter(|_| *kind == self.kind) else { continue };
            let Some(FailedRequest { since, reason }) = &*lock(&outage.last) else { continue };
            let effect = match severity {
                Severity::Error => "mail is refused",
                _ => "mail passes without it",
            };
            let text = format!("{} {address} fails: {reason}; {effect}", kind.word());
            let problem = DetectedProblem::new(*severity, address.as_str(), text).since(*since);
            found(problem.next_step("start it, or check its log; the next answer clears this"));
        }
    }

    /// Each shard logs the begin and the end.
    fn has_own_lines(&self) -> bool {
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::Problems;

    #[test]
    fn service_is_a_problem_until_any_shard_gets_an_answer() {
        let (outages, problems) = (Arc::<Outages>::default(), Problems::default());
        let kind = ServiceKind::Milter;
        problems.register(Arc::new(FailingServices { kind, outages: Arc::clone(&outages) }));
        let of_shard = || outages.of(kind, "inet:127.0.0.1:1", Severity::Warning);
        let shards = [of_shard(), of_shard()];
        let policy = outages.of(ServiceKind::Policy, "127.0.0.1:2", Severity::Error);
        let ask = || problems.ask(ClockReading::default());
        assert_eq!(ask(), []);
        shards[0].failed("refused", Wall(5));
        shards[1].failed("timeout", Wall(7));
        policy.failed("refused", Wall(8));
        let [one] = &ask()[..] else { panic!() };
        assert_eq!((one.since, one.severity), (Wall(5), Severity::Warning));
        assert_eq!(one.text, "milter inet:127.0.0.1:1 fails: timeout; mail passes without it");
        shards[1].answered();
        assert_eq!(ask(), []);
    }

    #[test]
    fn removed_service_is_no_problem() {
        let (outages, problems) = (Arc::<Outages>::default(), Problems::default());
        let kind = ServiceKind::Policy;
        problems.register(Arc::new(FailingServices { kind, outages: Arc::clone(&outages) }));
        let user = outages.of(kind, "127.0.0.1:2", Severity::Error);
        user.failed("refused", Wall(5));
        assert_eq!(problems.ask(ClockReading::default()).len(), 1);
        // A reload has removed its last user.
        drop(user);
        assert_eq!(problems.ask(ClockReading::default()), []);
    }
}
