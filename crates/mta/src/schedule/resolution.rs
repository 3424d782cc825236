//! Answering the queue's question where a scheduled queue's mail goes: configuration, then DNS for
//! `mx` routes.
//!
//! Asked when a scheduled queue falls due, never stored: a reload reaches mail that is queued.

use super::Schedule;
use super::places::{Found, Place, Places, Question};
use super::shaped::Usual;
use super::{shaped, standing, tls_reports, trouble, warmup};
use crate::answer::Answer;
use crate::control::HopSeen;
use crate::facts::failure_of_refused;
use crate::line::{Owner, Who};
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::routing::Active;
use crate::routing::find::route_of_key;
use crate::routing::hop::NextHop;
use crate::routing::hop_tls::{HopTls, Promised, Unpromised, as_promised, doubted};
use crate::routing::hosts::{Host, HostGroup};
use crate::routing::lookup::{Asker, InTurn};
use crate::routing::mx::resolve_mx;
use crate::routing::require_tls::{Terms, vouched};
use crate::seams::{Dns, World};
use config::shaping::Paced;
use config::{Config, Destination, HostPort, Pool, Route, Source};
use lookup::Trouble;
use mail::{Class, Culprit, Domain, EnhancedStatus, Failure, Mono, RequireTls};
use queue::{
    Deferred, Located, Locating, ReadyId, ReadyKey, Resolution, ScheduledId, ScheduledKey, Way,
};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Hosts that the DNS named are taken for granted as long as their records count, but no longer than this: then
/// policies and addresses are looked at again as well.
const FRESH_MAX: Duration = Duration::from_secs(300);
/// Records that count for nothing, or that nobody remembers, are asked for once for all that comes in this time.
const FRESH_MIN: Duration = Duration::from_secs(1);

/// Answers the queue's question for the route and next hop of `scheduled`.
pub(crate) fn start_resolution<W: World>(schedule: &Rc<Schedule<W>>, scheduled: ScheduledId) {
    let Some(key) = schedule.queue().scheduled_key(scheduled).cloned() else { return };
    if let Some(failure) = failure_of_refused(&key.route) {
        let _ = answer(schedule, scheduled, Resolution::Refuse(Arc::new(failure)));
        return;
    }
    let active = schedule.router.active();
    match route_of_key(schedule.services.world.tables(), &active, &key) {
        Answer::Now(found) => resolve(schedule, scheduled, key, &active, found),
        Answer::Later(later) => {
            let task = Rc::clone(schedule);
            schedule.services.spawn(async move {
                let found = later.await;
                resolve(&task, scheduled, key, &active, found);
            });
        }
    }
}

/// Goes on with the route that was found.
fn resolve<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    key: ScheduledKey,
    active: &Active,
    found: Result<Option<Arc<Route>>, Trouble>,
) {
    standing::suspend_scheduled(schedule, scheduled, &key);
    let found = match found {
        Ok(found) => found,
        Err(trouble) => {
            let _ = answer(schedule, scheduled, Resolution::Retry(unanswered(&trouble)));
            return;
        }
    };
    let Some(route) = found else {
        // It was accepted when there was one: a slip in the configuration must not bounce it.
        // RFC 3463 §3.5: 4.4.4, unable to route.
        let (what, when) = active.since;
        let text = format!("no route leads to {} since the {what} of {when}", key.domain);
        schedule
            .services
            .console
            .warn("route", format_args!("{text}: its queued mail waits for one"));
        let failure = Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 4), text);
        let _ = answer(schedule, scheduled, Resolution::Unrouted(Arc::new(failure)));
        return;
    };
    let config = Arc::clone(&active.config);
    let port = match route.channel.destination() {
        Destination::Mx { port } => port,
        Destination::Hosts(groups) => {
            let tls = terms(schedule, &route, key.require_tls).of_named_hosts();
            let found = Found::of_file(host_groups(groups), tls);
            return answer_hop(schedule, (scheduled, &key), &config, &route, found);
        }
        Destination::Here(_) => {
            let found = Found::of_file(Vec::new(), HopTls::default());
            return answer_hop(schedule, (scheduled, &key), &config, &route, found);
        }
        Destination::ByEntry => {
            let each = Resolution::Each { fresh_until: Mono::NEVER };
            let _ = answer(schedule, scheduled, each);
            return;
        }
    };
    let question = pool_of(&config, &key).ok().and_then(|pool| Question::of(&key, &route, pool));
    let now = schedule.services.now();
    if let Some(known) = question.and_then(|it| schedule.known_places.get(now, &config, &it)) {
        return answer_places(schedule, (scheduled, &key), &config, &route, &known);
    }
    let asker = asker(schedule, scheduled, &key);
    let dns = InTurn::new(&schedule.services, asker);
    let task = Rc::clone(schedule);
    schedule.services.spawn(async move {
        match hosts_of_domain(&task, &dns, &config, (port, &route), &key).await {
            Ok(found) => {
                answer_hop(&task, (scheduled, &key), &config, &route, found);
            }
            Err(resolution) => _ = answer(&task, scheduled, *resolution),
        }
    });
}

/// The hosts of a domain, and what it and DNSSEC say of TLS to them.
///
/// # Errors
/// What the queue is to know instead: why there are none, for now or for good.
async fn hosts_of_domain<W: World>(
    schedule: &Schedule<W>,
    dns: &InTurn<W>,
    config: &Config,
    (port, route): (u16, &Route),
    key: &ScheduledKey,
) -> Result<Found, Box<Resolution>> {
    let domain = &key.domain;
    let terms = terms(schedule, route, key.require_tls);
    let Terms { sources, required } = terms;
    let policies = schedule.services.world.policies();
    let found = match resolve_mx(dns, config, port, domain, sources.dane).await {
        Ok(found) => found,
        Err(failure) => {
            let failed = Arc::new(doubted(policies, sources, domain, failure).await);
            return Err(Box::new(match failed.class {
                Class::Permanent => Resolution::Refuse(failed),
                Class::Transient => Resolution::Retry(failed),
            }));
        }
    };
    let sources = terms.sources_given(&*route.channel, &found);
    let promised = match as_promised((dns, policies), sources, domain, found).await {
        Ok(promised) if required => vouched(domain, promised),
        Ok(promised) => Ok(promised),
        // What goes to such hosts already must not go there either.
        Err(Unpromised::Excluded(failure, policy)) => {
            tls_reports::excluded(schedule, domain, &failure, policy);
            return Err(Box::new(Resolution::Unrouted(Arc::new(failure))));
        }
        Err(Unpromised::Unknown(failure)) => {
            return Err(Box::new(Resolution::Retry(Arc::new(failure))));
        }
    };
    match promised {
        Ok(Promised { groups, tls, policy }) => Ok(Found {
            hosts: groups,
            shaped: Some(domain.clone()),
            tls,
            fresh_until: schedule.services.now() + fresh_for(dns, domain),
            // Where the domain's policy does not count there is nothing to tell of it; else a report were
            // the reason of the next.
            reported: tls_reports::reported(schedule, domain, policy)
                .filter(|_| key.require_tls != RequireTls::No),
        }),
        Err(failure) => Err(Box::new(Resolution::Refuse(Arc::new(failure)))),
    }
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
pub(crate) fn unanswered(trouble: &Trouble) -> Arc<Failure> {
    let text = format!("route lookup failed: {trouble}");
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 3), text))
}

/// Has it found out anew where the mail of scheduled queues goes, whatever is remembered of it.
pub(crate) fn look_again<W: World>(schedule: &Schedule<W>, scheduled: &BTreeSet<ScheduledId>) {
    let queue = schedule.queue();
    let domains: BTreeSet<&Domain> =
        scheduled.iter().filter_map(|id| Some(&queue.scheduled_key(*id)?.domain)).collect();
    schedule.known_places.forget(&domains);
    for domain in domains {
        if let Ok(ascii) = domain.to_ascii() {
            schedule.services.world.dns().forget(&ascii);
        }
    }
}

/// As whom a scheduled queue asks the DNS.
fn asker<W: World>(schedule: &Schedule<W>, scheduled: ScheduledId, key: &ScheduledKey) -> Asker {
    let tenant = Some(&*key.tenant).filter(|tenant| !tenant.is_empty());
    Asker {
        who: asker_of(schedule, scheduled),
        tenant: tenant.map(|tenant| Owner::named("tenant", tenant)),
        in_trouble: schedule.queue().is_in_trouble(scheduled),
    }
}

/// What a scheduled queue is called in the line for lookups.
pub(crate) fn asker_of<W: World>(schedule: &Schedule<W>, scheduled: ScheduledId) -> Who {
    Who::new(schedule.services.number, scheduled.0)
}

/// Answers the queue; what could not be found, or is found again, is told. Gives the ready queues.
fn answer<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    resolution: Resolution,
) -> SmallVec<[ReadyId; 1]> {
    let now = schedule.services.now();
    let failure = match &resolution {
        Resolution::Retry(failure) => Some(Arc::clone(failure)),
        // Who has no route was told that already.
        Resolution::Unrouted(failure) if failure.culprit != Culprit::Local => {
            Some(Arc::clone(failure))
        }
        _ => None,
    };
    let (found, ready) = {
        let mut queue = schedule.queue_mut();
        // Whether entries can be located turns out with the first that is.
        let is_answer = !matches!(resolution, Resolution::Each { .. });
        let was_in_trouble = is_answer && queue.is_in_trouble(scheduled);
        let key = queue.scheduled_key(scheduled).filter(|_| was_in_trouble);
        let domain = key.map(|key| key.domain.clone());
        (domain, queue.handle_resolved(now, scheduled, resolution))
    };
    match (failure, found) {
        (Some(failure), _) => trouble::tell_unresolved(schedule, scheduled, &failure),
        (None, Some(domain)) => trouble::tell_resolved(schedule, domain.as_str()),
        (None, None) => {}
    }
    ready
}

/// On what terms messages go by a route that ask for this.
fn terms<W: World>(_schedule: &Schedule<W>, route: &Route, asked: RequireTls) -> Terms {
    #[cfg(feature = "planted")]
    let asked = match _schedule.services.has_planted(Planted::ForgetRequireTls) {
        true => RequireTls::Unsaid,
        false => asked,
    };
    Terms::new(&*route.channel, asked)
}

/// Names the ready queues towards hosts that were found, and answers the queue.
fn answer_hop<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    config: &Arc<Config>,
    route: &Route,
    found: Found,
) {
    let pool = match pool_of(config, key) {
        Ok(pool) => pool,
        Err(missing) => {
            let _ = answer(schedule, scheduled, Resolution::Unrouted(missing));
            return;
        }
    };
    // Mail for this machine is sent from nowhere.
    let is_sent = !matches!(route.channel.destination(), Destination::Here(_));
    let mut each = Vec::new();
    for (source, weight) in sources_of(pool.filter(|_| is_sent).or(route.pool.as_ref())) {
        let paced = found.paced(config, route, source.as_deref());
        let hosts = (&*found.hosts, found.tls);
        let (key, usual) = names(schedule, (route, source.as_deref()), hosts, paced);
        each.push(Place { source, weight, key, usual });
    }
    let provider = each.last().and_then(|place| place.usual.provider().cloned());
    let places = Rc::new(Places { found, each, provider });
    if let Some(question) = Question::of(key, route, pool).filter(|_| places.found.is_by_dns()) {
        schedule.known_places.keep(schedule.services.now(), config, question, &places);
    }
    answer_places(schedule, (scheduled, key), config, route, &places);
}

/// Answers the queue with these ready queues, unless the mail is given up there.
fn answer_places<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    config: &Config,
    route: &Route,
    places: &Places,
) {
    let Places { found, each, provider } = places;
    if let Some(failure) = schedule.shaped.given_up(provider.as_deref(), key) {
        let _ = answer(schedule, scheduled, Resolution::Refuse(failure));
        return;
    }
    let way = |Place { weight, key, usual, .. }: &Place| {
        let (limits, shared) = schedule.shaped.limits(config, key, usual);
        Way { key: key.clone(), limits, shared, weight: *weight }
    };
    let ways = each.iter().map(way).collect();
    let seen = each.iter().map(|place| HopSeen {
        next_hop: &place.key.next_hop,
        route: Some(&*route.name),
        provider: provider.as_deref(),
        source: &place.key.source,
    });
    standing::suspend_resolved(schedule, scheduled, &seen.collect::<Vec<_>>());
    let answer = Resolution::Ready { ways, fresh_until: found.fresh_until };
    let entered = self::answer(schedule, scheduled, answer);
    for (ready, Place { source, key, usual, .. }) in entered.into_iter().zip(each) {
        match &found.reported {
            Some(domain) => schedule.tls_domains.learn(ready, scheduled, domain.clone()),
            None => schedule.tls_domains.forget_scheduled(ready, scheduled),
        }
        let hop = NextHop::new(route, found.hosts.clone(), found.tls, config.hostname.clone());
        let hop = hop.of_provider(provider.clone()).from_source(source.clone());
        schedule.shaped.keep(ready, key, usual.clone(), found.shaped.is_some());
        learn(schedule, ready, key, hop);
    }
    shaped::note_provider(schedule, scheduled);
}

/// What mail is sent from, with weights; `None` is whatever address the machine takes.
fn sources_of(pool: Option<&Arc<Pool>>) -> Vec<(Option<Arc<Source>>, u32)> {
    match pool {
        Some(pool) => {
            pool.sources.iter().map(|(s, weight)| (Some(Arc::clone(s)), *weight)).collect()
        }
        None => vec![(None, 1)],
    }
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

/// What is known of a ready queue that was named.
fn learn<W: World>(schedule: &Rc<Schedule<W>>, ready: ReadyId, key: &ReadyKey, hop: NextHop) {
    warmup::learn(schedule, ready, &hop);
    schedule.learn_hop(ready, key, hop);
    standing::suspend_hop(schedule, ready, key);
}

/// The ready queue of recipients whose entries name these hosts; `None`: the configuration is another by
/// now.
pub(crate) fn enter_located<W: World>(
    schedule: &Rc<Schedule<W>>,
    locating: &Locating,
    config: &Config,
    route: &Route,
    hosts: Vec<HostGroup>,
) -> Option<ReadyId> {
    let now = schedule.services.now();
    let scheduled = schedule.queue().scheduled_key(locating.scheduled).map(|key| key.require_tls);
    let tls = terms(schedule, route, scheduled?).of_named_hosts();
    let paced = Paced::of_route(route.channel.limits());
    let (key, usual) = names(schedule, (route, None), (&hosts, tls), paced);
    let (limits, shared) = schedule.shaped.limits(config, &key, &usual);
    let ready = schedule.queue_mut().enter_located(now, locating, &key, &limits, &shared)?;
    learn(schedule, ready, &key, NextHop::new(route, hosts, tls, config.hostname.clone()));
    Some(ready)
}

/// Answers where the recipients of a message are; trouble in asking, or its end, is told. What is to be
/// recorded of those that were deferred, in the order of the entries.
pub(crate) fn answer_located<W: World>(
    schedule: &Rc<Schedule<W>>,
    locating: &Locating,
    answers: Vec<Located>,
) -> Vec<Option<Deferred>> {
    let (now, scheduled) = (schedule.services.now(), locating.scheduled);
    let silence = answers.iter().find_map(|answer| match answer {
        Located::Silence(failure) => Some(Arc::clone(failure)),
        _ => None,
    });
    let (deferred, before, after, domain) = {
        let mut queue = schedule.queue_mut();
        let before = queue.trouble_count(scheduled);
        let deferred = queue.handle_located(now, locating, answers);
        let domain = queue.scheduled_key(scheduled).map(|key| key.domain.clone());
        (deferred, before, queue.trouble_count(scheduled), domain)
    };
    match (silence, domain) {
        (Some(failure), _) if after > before => {
            trouble::tell_unresolved(schedule, scheduled, &failure);
        }
        (_, Some(domain)) if after < before => trouble::tell_resolved(schedule, domain.as_str()),
        _ => {}
    }
    deferred
}

/// The name of the ready queue, and what it usually shares: the limits of the route towards the set of
/// hosts, whatever their order.
fn names<W: World>(
    schedule: &Schedule<W>,
    (route, source): (&Route, Option<&Source>),
    (hosts, tls): (&[HostGroup], HopTls),
    paced: Paced,
) -> (ReadyKey, Usual) {
    let channel = route.channel.key();
    let text = |host: &Host| config::host_text(&host.name, host.port);
    let groups: Vec<Vec<String>> =
        hosts.iter().map(|group| group.hosts.iter().map(text).collect()).collect();
    let next_hop = match route.next_hop() {
        Some(name) => name,
        None => config::next_hop(channel, &route.name, &groups),
    };
    let nothing = || schedule.router.nothing();
    let tls = match tls.key() {
        "" => nothing(),
        #[cfg(feature = "planted")]
        _ if schedule.services.has_planted(Planted::PolicyOfAnother) => nothing(),
        key => Arc::from(key),
    };
    let shaping = paced.apart.as_deref().map_or_else(nothing, Arc::from);
    let host_set = config::host_set(channel, &route.name, &groups);
    let source = source.map_or_else(nothing, |source| Arc::clone(&source.name));
    let key = ReadyKey { source, next_hop: next_hop.into(), tls, shaping };
    (key, Usual { paced, host_set })
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
