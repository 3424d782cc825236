//! Resolves the destination of a scheduled queue: the configured route, then the DNS for `mx` routes.
//!
//! Runs when a scheduled queue falls due, and is never stored on disk: a reload affects queued mail.

use super::places::{ResolutionKey, ResolvedHops, ResolvedHosts};
use super::{Schedule, tls_domains};
use crate::answer::Answer;
use crate::facts::failure_of_refused;
use crate::line::{FairKey, Owner};
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::routing::Active;
use crate::routing::find::route_of_key;
use crate::routing::hop_tls::{HopTls, Promised, Unpromised, as_promised, doubted};
use crate::routing::hosts::{Host, HostGroup};
use crate::routing::lookup::{DnsRequester, InTurn};
use crate::routing::mx::resolve_mx;
use crate::routing::require_tls::{TlsRequirement, vouched};
use crate::seams::{Dns, World};
use auth::mta_sts::Policy;
use config::{Config, Destination, HostPort, Pool, Route};
use lookup::{LookupError, Requester};
use mail::{Class, Domain, EnhancedStatus, Failure, RequireTls};
use queue::{Resolution, ScheduledId, ScheduledKey};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Upper limit for the lifetime of hosts from the DNS, otherwise given by the TTL. Policies and addresses are refreshed
/// as often.
const FRESH_MAX: Duration = Duration::from_secs(300);
/// Lower limit: with a TTL of 0 or without a DNS cache, one lookup serves all mail within this time.
const FRESH_MIN: Duration = Duration::from_secs(1);

/// The destination of a scheduled queue. It takes effect when applied (`application.rs`).
pub(super) enum Resolved {
    /// These hosts.
    Hosts(RouteChoice, ResolvedHosts),
    /// The cached resolution of another scheduled queue.
    Known(RouteChoice, Rc<ResolvedHops>),
    /// The destinations of a route and its fallbacks, in this order.
    Tiers(Vec<Resolved>),
    /// Each entry has its own destination.
    Each,
    /// No route for the domain.
    Unrouted(Arc<Failure>),
    /// No destination, temporarily or permanently.
    Nowhere(Resolution),
    /// The domain's MTA-STS policy excludes all its hosts.
    Excluded(Failure, Arc<Policy>),
}

/// The route and its pool.
pub(super) struct RouteChoice {
    pub(super) config: Arc<Config>,
    pub(super) route: Arc<Route>,
    /// The pool named by the mail or by its tenant.
    pub(super) pool: Option<Arc<Pool>>,
}

/// Resolves the route and hosts of a scheduled queue.
pub(super) fn resolve<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    key: &ScheduledKey,
) -> Answer<'static, Resolved> {
    if let Some(failure) = failure_of_refused(&key.route) {
        return Answer::Now(Resolved::Nowhere(Resolution::Refuse(Arc::new(failure))));
    }
    let active = schedule.router.active();
    if active.is_unchosen(key) {
        // Each entry is moved to the queue of its route.
        return Answer::Now(Resolved::Each);
    }
    let found = route_of_key(&schedule.services.world.tables(Requester::Ours), &active, key);
    let (task, key) = (Rc::clone(schedule), key.clone());
    found.then(move |found| match found {
        Ok(Some(route)) => with_fallbacks(&task, scheduled, key, (&active.config, route)),
        Ok(None) => Answer::Now(Resolved::Unrouted(unrouted(&active, &key))),
        Err(trouble) => Answer::Now(Resolved::Nowhere(Resolution::Retry(unanswered(&trouble)))),
    })
}

/// The failure of mail for a route that has disappeared since the acceptance. Temporary, because an error in the
/// configuration must not bounce it.
fn unrouted(active: &Active, key: &ScheduledKey) -> Arc<Failure> {
    let (what, when) = active.since;
    let text = format!("no route to {} since the {what} of {when}", key.domain);
    // 4.4.4: unable to route (RFC 3463 §3.5).
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 4), text))
}

/// Resolves the hosts of the route and of its fallbacks.
fn with_fallbacks<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    key: ScheduledKey,
    (config, route): (&Arc<Config>, Arc<Route>),
) -> Answer<'static, Resolved> {
    if route.fallback.is_none() {
        return by_route(schedule, scheduled, key, (config, route));
    }
    let (task, config) = (Rc::clone(schedule), Arc::clone(config));
    Answer::later(async move {
        let (mut tiers, mut next) = (Vec::new(), Some(route));
        while let Some(route) = next {
            next = route.fallback.and_then(|index| config.routes.get(index)).cloned();
            tiers.push(by_route(&task, scheduled, key.clone(), (&config, route)).get().await);
        }
        Resolved::Tiers(tiers)
    })
}

/// Resolves the hosts of the route.
fn by_route<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    key: ScheduledKey,
    (config, route): (&Arc<Config>, Arc<Route>),
) -> Answer<'static, Resolved> {
    let course = || match pool_of(config, &key) {
        Ok(pool) => {
            let (config, route) = (Arc::clone(config), Arc::clone(&route));
            Ok(RouteChoice { config, route, pool: pool.map(Arc::clone) })
        }
        Err(missing) => Err(Resolved::Nowhere(Resolution::Unrouted(missing))),
    };
    let named = |found: ResolvedHosts| match course() {
        Ok(course) => Resolved::Hosts(course, found),
        Err(nowhere) => nowhere,
    };
    Answer::Now(match route.channel.destination() {
        Destination::ByEntry => Resolved::Each,
        Destination::Here(_) => named(ResolvedHosts::of_file(Vec::new(), HopTls::default())),
        Destination::Hosts(groups) => {
            let tls = terms(schedule, &route, key.require_tls).of_named_hosts();
            named(ResolvedHosts::of_file(host_groups(groups), tls))
        }
        Destination::Mx { port } | Destination::MxOf { port, .. } => match course() {
            Ok(course) => return by_dns(schedule, scheduled, key, (course, port)),
            Err(nowhere) => nowhere,
        },
    })
}

/// The cached resolution of a domain, or a DNS lookup.
fn by_dns<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    key: ScheduledKey,
    (course, port): (RouteChoice, u16),
) -> Answer<'static, Resolved> {
    let question = ResolutionKey::of(&key, &course.route, course.pool.as_ref());
    let now = schedule.services.now();
    if let Some(known) = question.and_then(|it| schedule.known_places.get(now, &course.config, &it))
    {
        return Answer::Now(Resolved::Known(course, known));
    }
    let dns = InTurn::new(&schedule.services, asker(schedule, scheduled, &key));
    let task = Rc::clone(schedule);
    Answer::later(async move { hosts_of_domain(&task, &dns, course, port, &key).await })
}

/// The hosts of a domain, or of the name in the route, with TLS requirements from DNSSEC and MTA-STS.
async fn hosts_of_domain<W: World>(
    schedule: &Schedule<W>,
    dns: &InTurn<W>,
    course: RouteChoice,
    port: u16,
    key: &ScheduledKey,
) -> Resolved {
    let named = match course.route.channel.destination() {
        Destination::MxOf { name, .. } => Some(name.clone()),
        _ => None,
    };
    let domain = named.as_ref().unwrap_or(&key.domain);
    let terms = terms(schedule, &course.route, key.require_tls);
    let TlsRequirement { sources, required } = terms;
    let policies = schedule.services.world.policies();
    let found = match resolve_mx(dns, &course.config, port, domain, sources.dane).await {
        Ok(found) => found,
        Err(failure) => {
            let failed = match &named {
                // A mistake in the route, or at the relay, must not bounce mail.
                Some(_) => {
                    let text = failure.text.clone();
                    failure.for_now(text)
                }
                None => doubted(policies, sources, domain, failure).await,
            };
            let failed = Arc::new(failed);
            return Resolved::Nowhere(match failed.class {
                Class::Permanent => Resolution::Refuse(failed),
                Class::Transient => Resolution::Retry(failed),
            });
        }
    };
    let sources = terms.sources_given(&*course.route.channel, &found);
    let promised = match as_promised((dns, policies), sources, domain, found).await {
        Ok(promised) if required => vouched(domain, promised),
        Ok(promised) => Ok(promised),
        // Mail that is already queued for these hosts must not be sent either.
        Err(Unpromised::Excluded(failure, policy)) => return Resolved::Excluded(failure, policy),
        Err(Unpromised::Unknown(failure)) => {
            return Resolved::Nowhere(Resolution::Retry(Arc::new(failure)));
        }
    };
    let Promised { groups, tls, policy } = match promised {
        Ok(promised) => promised,
        Err(failure) => return Resolved::Nowhere(Resolution::Refuse(Arc::new(failure))),
    };
    // `TLS-Required: No` ignores the policy, and a TLS report must not cause the next one.
    let is_reported = named.is_none() && key.require_tls != RequireTls::No;
    let found = ResolvedHosts {
        hosts: groups,
        shaped: named.is_none().then(|| domain.clone()),
        tls,
        fresh_until: schedule.services.now() + fresh_for(dns, domain),
        reported: tls_domains::reported(schedule, domain, policy).filter(|_| is_reported),
    };
    Resolved::Hosts(course, found)
}

/// Lifetime of the hosts of a domain.
fn fresh_for(dns: &impl Dns, domain: &Domain) -> Duration {
    match domain.to_ascii() {
        // An address literal does not expire.
        _ if domain.literal().is_some() => FRESH_MAX,
        Ok(ascii) => dns.mx_lasts(&ascii).clamp(FRESH_MIN, FRESH_MAX),
        Err(_) => FRESH_MIN,
    }
}

/// The failure of a route lookup: 4.4.3, directory server failure (RFC 3463 §3.5).
pub(crate) fn unanswered(trouble: &LookupError) -> Arc<Failure> {
    let text = format!("route lookup failed: {trouble}");
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 3), text))
}

/// The scheduled queue as a DNS requester.
fn asker<W: World>(
    schedule: &Schedule<W>,
    scheduled: ScheduledId,
    key: &ScheduledKey,
) -> DnsRequester {
    let tenant = Some(&*key.tenant).filter(|tenant| !tenant.is_empty());
    DnsRequester {
        who: asker_of(schedule, scheduled),
        tenant: tenant.map(|tenant| Owner::named("tenant", tenant)),
        in_trouble: schedule.queue().is_in_trouble(scheduled),
    }
}

/// The scheduled queue's key in the fair queue for lookups.
pub(crate) fn asker_of<W: World>(schedule: &Schedule<W>, scheduled: ScheduledId) -> FairKey {
    FairKey::new(schedule.services.number, scheduled.0)
}

/// The TLS requirement of messages on a route.
pub(super) fn terms<W: World>(
    _schedule: &Schedule<W>,
    route: &Route,
    asked: RequireTls,
) -> TlsRequirement {
    #[cfg(feature = "planted")]
    let asked = match _schedule.services.has_planted(Planted::ForgetRequireTls) {
        true => RequireTls::Unsaid,
        false => asked,
    };
    TlsRequirement::new(&*route.channel, asked)
}

/// The pool named by the mail, or that of its tenant.
///
/// # Errors
/// The pool no longer exists. The mail waits until it exists again, like mail without a route.
fn pool_of<'c>(
    config: &'c Config,
    key: &ScheduledKey,
) -> Result<Option<&'c Arc<Pool>>, Arc<Failure>> {
    let name = &key.pool;
    if name.is_empty() {
        return Ok(config.tenants.named(&key.tenant).and_then(|tenant| tenant.pool.as_ref()));
    }
    match config.pool_named(name) {
        Some(pool) => Ok(Some(pool)),
        None => {
            let text = format!("pool \"{name}\" no longer exists");
            let status = EnhancedStatus::new(4, 3, 5);
            Err(Arc::new(Failure::local(Class::Transient, status, text)))
        }
    }
}

/// Host groups from the configuration or a table.
pub(crate) fn host_groups<'a>(groups: impl IntoIterator<Item = &'a [HostPort]>) -> Vec<HostGroup> {
    let host = |host: &HostPort| {
        let name = match &host.host {
            config::Host::Address(ip) => Arc::from(ip.to_string()),
            config::Host::Name(name) => Arc::from(name.as_str()),
            config::Host::Socket(path) => Arc::from(&*path.to_string_lossy()),
        };
        Host { name, port: host.port }
    };
    let group = |group: &[HostPort]| HostGroup { hosts: group.iter().map(host).collect() };
    groups.into_iter().map(group).collect()
}
