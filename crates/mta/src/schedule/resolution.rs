//! Finding out where a scheduled queue's mail goes: configuration, then DNS for `mx` routes.
//!
//! Asked when a scheduled queue falls due, never stored: a reload reaches mail that is queued.

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
use lookup::LookupError;
use mail::{Class, Domain, EnhancedStatus, Failure, RequireTls};
use queue::{Resolution, ScheduledId, ScheduledKey};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Hosts that the DNS named are taken for granted as long as their records count, but no longer than this: then
/// policies and addresses are looked at again as well.
const FRESH_MAX: Duration = Duration::from_secs(300);
/// Records that count for nothing, or that nobody remembers, are asked for once for all that comes in this time.
const FRESH_MIN: Duration = Duration::from_secs(1);

/// Where the mail of a scheduled queue goes, by the configuration and the DNS. Nothing of it is in force before it is
/// applied (`application.rs`).
pub(super) enum Resolved {
    /// To these hosts.
    Hosts(RouteChoice, ResolvedHosts),
    /// As was found out for another scheduled queue.
    Known(RouteChoice, Rc<ResolvedHops>),
    /// Where the entry of each recipient says.
    Each,
    /// No route has the domain.
    Unrouted(Arc<Failure>),
    /// Nowhere for now, or never.
    Nowhere(Resolution),
    /// To no host: the domain's policy has none of them.
    Excluded(Failure, Arc<Policy>),
}

/// The route that was found, and what goes with it.
pub(super) struct RouteChoice {
    pub(super) config: Arc<Config>,
    pub(super) route: Arc<Route>,
    /// The pool that the mail names, or its tenant has.
    pub(super) pool: Option<Arc<Pool>>,
}

/// Finds the route of a scheduled queue's mail, and its hosts.
pub(super) fn resolve<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    key: &ScheduledKey,
) -> Answer<'static, Resolved> {
    if let Some(failure) = failure_of_refused(&key.route) {
        return Answer::Now(Resolved::Nowhere(Resolution::Refuse(Arc::new(failure))));
    }
    let active = schedule.router.active();
    let found = route_of_key(schedule.services.world.tables(), &active, key);
    let (task, key) = (Rc::clone(schedule), key.clone());
    found.then(move |found| match found {
        Ok(Some(route)) => by_route(&task, scheduled, key, (&active.config, route)),
        Ok(None) => Answer::Now(Resolved::Unrouted(unrouted(&active, &key))),
        Err(trouble) => Answer::Now(Resolved::Nowhere(Resolution::Retry(unanswered(&trouble)))),
    })
}

/// It was accepted when there was a route: a slip in the configuration must not bounce it.
fn unrouted(active: &Active, key: &ScheduledKey) -> Arc<Failure> {
    let (what, when) = active.since;
    let text = format!("no route leads to {} since the {what} of {when}", key.domain);
    // RFC 3463 §3.5: 4.4.4, unable to route.
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 4), text))
}

/// Goes on with the route that was found.
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
        Destination::Mx { port } => match course() {
            Ok(course) => return by_dns(schedule, scheduled, key, (course, port)),
            Err(nowhere) => nowhere,
        },
    })
}

/// The hosts of a domain as they are known, or as the DNS is asked for them.
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

/// The hosts of a domain, and what it and DNSSEC say of TLS to them.
async fn hosts_of_domain<W: World>(
    schedule: &Schedule<W>,
    dns: &InTurn<W>,
    course: RouteChoice,
    port: u16,
    key: &ScheduledKey,
) -> Resolved {
    let domain = &key.domain;
    let terms = terms(schedule, &course.route, key.require_tls);
    let TlsRequirement { sources, required } = terms;
    let policies = schedule.services.world.policies();
    let found = match resolve_mx(dns, &course.config, port, domain, sources.dane).await {
        Ok(found) => found,
        Err(failure) => {
            let failed = Arc::new(doubted(policies, sources, domain, failure).await);
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
        // What goes to such hosts already must not go there either.
        Err(Unpromised::Excluded(failure, policy)) => return Resolved::Excluded(failure, policy),
        Err(Unpromised::Unknown(failure)) => {
            return Resolved::Nowhere(Resolution::Retry(Arc::new(failure)));
        }
    };
    let Promised { groups, tls, policy } = match promised {
        Ok(promised) => promised,
        Err(failure) => return Resolved::Nowhere(Resolution::Refuse(Arc::new(failure))),
    };
    let found = ResolvedHosts {
        hosts: groups,
        shaped: Some(domain.clone()),
        tls,
        fresh_until: schedule.services.now() + fresh_for(dns, domain),
        // Where the domain's policy does not count there is nothing to tell of it; else a report were
        // the reason of the next.
        reported: tls_domains::reported(schedule, domain, policy)
            .filter(|_| key.require_tls != RequireTls::No),
    };
    Resolved::Hosts(course, found)
}

/// How long the hosts of a domain are taken for granted.
fn fresh_for(dns: &impl Dns, domain: &Domain) -> Duration {
    match domain.to_ascii() {
        // An address that stands there itself stays what it is.
        _ if domain.literal().is_some() => FRESH_MAX,
        Ok(ascii) => dns.mx_lasts(&ascii).clamp(FRESH_MIN, FRESH_MAX),
        Err(_) => FRESH_MIN,
    }
}

/// No table says which route it is. RFC 3463 §3.5: 4.4.3, directory server failure.
pub(crate) fn unanswered(trouble: &LookupError) -> Arc<Failure> {
    let text = format!("route lookup failed: {trouble}");
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 3), text))
}

/// As whom a scheduled queue asks the DNS.
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

/// What a scheduled queue is called in the line for lookups.
pub(crate) fn asker_of<W: World>(schedule: &Schedule<W>, scheduled: ScheduledId) -> FairKey {
    FairKey::new(schedule.services.number, scheduled.0)
}

/// On what terms messages go by a route that ask for this.
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

/// The pool that the mail of a scheduled queue names, or else its tenant has, if there is one.
///
/// # Errors
/// There is none of this name any more. There was one when the mail came: it waits until there is again, as mail
/// whose route is gone does.
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
            let text = format!("no pool is named \"{name}\" any more");
            let status = EnhancedStatus::new(4, 3, 5);
            Err(Arc::new(Failure::local(Class::Transient, status, text)))
        }
    }
}

/// Groups of hosts that the file or a table names.
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
