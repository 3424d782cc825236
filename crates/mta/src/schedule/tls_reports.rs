//! What is found out of a domain's TLS before there is a session, for reports (RFC 8460).

use super::Schedule;
use super::tls_domains::TlsDomain;
use crate::seams::World;
use auth::mta_sts::{Mode, Policy};
use auth::tls_report::{self, Details, ResultType, Session};
use mail::{Domain, Failure};
use std::sync::Arc;

/// The domain as reports have it, if any are made; `policy`: what it promises.
pub(super) fn reported<W: World>(
    schedule: &Schedule<W>,
    domain: &Domain,
    policy: Option<Arc<Policy>>,
) -> Option<TlsDomain> {
    if !schedule.services.world.tls_reports().is_on() || domain.literal().is_some() {
        return None;
    }
    let name = domain.to_ascii().ok()?.to_ascii_lowercase().into();
    // RFC 8461 §3.2: who has this mode takes its promise back.
    let policy = policy.filter(|policy| policy.mode != Mode::None);
    Some(TlsDomain { name, policy })
}

/// None of the domain's MX hosts is one of its policy: there is no session, and each try to find one counts.
pub(super) fn excluded<W: World>(
    schedule: &Schedule<W>,
    domain: &Domain,
    failure: &Failure,
    policy: Arc<Policy>,
) {
    let Some(reported) = reported(schedule, domain, Some(policy)) else { return };
    schedule.services.world.tls_reports().note(Session {
        domain: reported.name,
        policy: tls_report::Policy::sts(reported.policy.as_deref()),
        failure: Some(Details::new(ResultType::ValidationFailure).because(&failure.text)),
    });
}
