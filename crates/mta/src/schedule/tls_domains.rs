//! Maps next hops to recipient domains for TLS reports (RFC 8460).
//!
//! Ready queues are shared by domains, and a session that fails before its first transaction belongs to no domain.
//! Reports are per domain, so this module stores which scheduled queues were resolved to a ready queue, with their
//! domains' policies. A failed session counts for each of these domains with mail in the ready queue at that time. A
//! successful session counts once for each domain of its transactions. Without TLS reports the map is empty and is not
//! consulted.

use super::Schedule;
use crate::seams::World;
use auth::mta_sts::{Mode, Policy};
use auth::tls_report::{self, Details, ResultType, TlsSession};
use mail::{Domain, Failure};
use queue::{ReadyId, ScheduledId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A recipient domain.
#[derive(Clone, Debug)]
pub struct TlsDomain {
    /// In A-labels and lower case.
    pub name: Box<str>,
    /// Its MTA-STS policy, in mode enforce or testing.
    pub policy: Option<Arc<Policy>>,
}

/// Domains by ready queue and scheduled queue.
#[derive(Debug, Default)]
pub(crate) struct TlsDomains(RefCell<BTreeMap<(ReadyId, ScheduledId), Rc<TlsDomain>>>);

impl TlsDomains {
    /// Notes that the scheduled queue was resolved to this ready queue.
    pub(super) fn learn(&self, ready: ReadyId, scheduled: ScheduledId, domain: TlsDomain) {
        self.0.borrow_mut().insert((ready, scheduled), Rc::new(domain));
    }

    /// Removes the entry, which may be from another queue with the same id.
    pub(super) fn forget_scheduled(&self, ready: ReadyId, scheduled: ScheduledId) {
        let mut domains = self.0.borrow_mut();
        if !domains.is_empty() {
            domains.remove(&(ready, scheduled));
        }
    }

    /// The queue has dropped a ready queue.
    pub(super) fn forget(&self, ready: ReadyId) {
        let mut domains = self.0.borrow_mut();
        if !domains.is_empty() {
            domains.retain(|(known, _), _| *known != ready);
        }
    }

    /// The domain of a scheduled queue in this ready queue.
    pub(crate) fn get(&self, ready: ReadyId, scheduled: ScheduledId) -> Option<Rc<TlsDomain>> {
        self.0.borrow().get(&(ready, scheduled)).map(Rc::clone)
    }

    /// The domains of a ready queue that `is_wanted` selects.
    pub(crate) fn all(
        &self,
        ready: ReadyId,
        is_wanted: impl Fn(ScheduledId) -> bool,
    ) -> Vec<Rc<TlsDomain>> {
        let domains = self.0.borrow();
        let range = (ready, ScheduledId(0))..=(ready, ScheduledId(u32::MAX));
        let wanted = domains.range(range).filter(|((_, scheduled), _)| is_wanted(*scheduled));
        wanted.map(|(_, domain)| Rc::clone(domain)).collect()
    }
}

/// The domain for TLS reports, with its policy, if reports are enabled.
pub(super) fn reported<W: World>(
    schedule: &Schedule<W>,
    domain: &Domain,
    policy: Option<Arc<Policy>>,
) -> Option<TlsDomain> {
    if !schedule.services.world.tls_reports().is_on() || domain.literal().is_some() {
        return None;
    }
    let name = domain.to_ascii().ok()?.to_ascii_lowercase().into();
    // Mode `none` withdraws the policy (RFC 8461 §3.2).
    let policy = policy.filter(|policy| policy.mode != Mode::None);
    Some(TlsDomain { name, policy })
}

/// Reports that the policy excludes all MX hosts. No session takes place, and each attempt counts.
pub(super) fn excluded<W: World>(
    schedule: &Schedule<W>,
    domain: &Domain,
    failure: &Failure,
    policy: Arc<Policy>,
) {
    let Some(reported) = reported(schedule, domain, Some(policy)) else { return };
    schedule.services.world.tls_reports().note(TlsSession {
        domain: reported.name,
        policy: tls_report::Policy::sts(reported.policy.as_deref()),
        failure: Some(Details::new(ResultType::ValidationFailure).because(&failure.text)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_found_by_their_ready_queue_until_that_goes() {
        let domains = TlsDomains::default();
        for (ready, scheduled, name) in [(1, 1, "a"), (1, 2, "b"), (2, 1, "a"), (3, 4, "c")] {
            let domain = TlsDomain { name: name.into(), policy: None };
            domains.learn(ReadyId(ready), ScheduledId(scheduled), domain);
        }
        let names = |ready: u32, but: u32| -> String {
            let all = domains.all(ReadyId(ready), |scheduled| scheduled.0 != but);
            all.iter().map(|domain| &*domain.name).collect()
        };
        assert_eq!((names(1, 0), names(1, 1), names(2, 0)), ("ab".into(), "b".into(), "a".into()));
        assert!(domains.get(ReadyId(3), ScheduledId(4)).is_some());
        domains.forget(ReadyId(1));
        domains.forget_scheduled(ReadyId(3), ScheduledId(4));
        assert_eq!(
            (names(1, 0), names(2, 0), names(3, 0)),
            (String::new(), "a".into(), String::new())
        );
    }
}
