//! Applies the result of a resolution (`resolution.rs`) in a fixed order: suspensions of the scheduled queue, then its
//! ready queues with their limits. For each ready queue follow the TLS report domain, the shaping rules, warm-up, the
//! next hop and its suspensions.
//!
//! The limits of a ready queue are determined together with its hosts. No other module of a shard creates ready queue
//! keys.

use super::places::{ResolutionKey, ResolvedHops, ResolvedHosts, SourcePath};
use super::resolution::{Resolved, RouteChoice, resolve, terms};
use super::shaped::Usual;
use super::{Schedule, shaped, standing, tls_domains, trouble, warmup};
use crate::answer::Answer;
use crate::control::HopSeen;
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::routing::hop::NextHop;
use crate::routing::hop_tls::HopTls;
use crate::routing::hosts::{Host, HostGroup};
use crate::seams::{Dns as _, World};
use config::shaping::Paced;
use config::{Config, Destination, Pool, Route, Source};
use mail::{Culprit, Domain, Mono};
use queue::{
    Deferred, HopLookup, HopLookupResult, ReadyId, ReadyKey, Resolution, ScheduledId, ScheduledKey,
    WeightedPath,
};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Interval for looking up a route that was left out because the DNS did not answer.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Resolves the route and next hops of `scheduled`, and applies the result to the queue.
pub(crate) fn start_resolution<W: World>(schedule: &Rc<Schedule<W>>, scheduled: ScheduledId) {
    let Some(key) = schedule.queue().scheduled_key(scheduled).cloned() else { return };
    match resolve(schedule, scheduled, &key) {
        Answer::Now(resolved) => apply(schedule, (scheduled, &key), resolved),
        Answer::Later(later) => {
            let task = Rc::clone(schedule);
            schedule.services.spawn(async move {
                let resolved = later.await;
                apply(&task, (scheduled, &key), resolved);
            });
        }
    }
}

/// Applies the result of a resolution, and passes it to the queue.
fn apply<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    resolved: Resolved,
) {
    standing::suspend_scheduled(schedule, scheduled, key);
    match resolved {
        Resolved::Tiers(tiers) => apply_tiers(schedule, (scheduled, key), tiers),
        resolved => match destination_of(schedule, key, resolved) {
            Ok(tier) => enter(schedule, (scheduled, key), &[tier], Mono::NEVER),
            Err(nowhere) => apply_nowhere(schedule, (scheduled, key), nowhere),
        },
    }
}

/// A route with its ready queues.
type Tier = (RouteChoice, Rc<ResolvedHops>);

fn destination_of<W: World>(
    schedule: &Schedule<W>,
    key: &ScheduledKey,
    resolved: Resolved,
) -> Result<Tier, Resolved> {
    match resolved {
        Resolved::Hosts(course, found) => {
            let places = places_of(schedule, key, &course, found);
            Ok((course, places))
        }
        Resolved::Known(course, places) => Ok((course, places)),
        nowhere => Err(nowhere),
    }
}

/// Applies the destinations of a route and its fallbacks. A route is left out for a time if the DNS
/// does not name its hosts. A permanent failure of the first route is final.
fn apply_tiers<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    resolved: Vec<Resolved>,
) {
    let (mut tiers, mut failed, mut until) = (Vec::new(), None, Mono::NEVER);
    for one in resolved {
        match destination_of(schedule, key, one) {
            Ok(tier) => tiers.push(tier),
            Err(nowhere) => {
                let is_for_now = matches!(nowhere, Resolved::Nowhere(Resolution::Retry(_)));
                let is_first = tiers.is_empty() && failed.is_none();
                failed.get_or_insert(nowhere);
                if is_first && !is_for_now {
                    break;
                }
                until = schedule.services.now() + LOOK_AGAIN_AFTER;
            }
        }
    }
    match failed {
        Some(nowhere) if tiers.is_empty() => apply_nowhere(schedule, (scheduled, key), nowhere),
        _ => enter(schedule, (scheduled, key), &tiers, until),
    }
}

/// Applies a result without hosts.
fn apply_nowhere<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    resolved: Resolved,
) {
    let resolution = match resolved {
        Resolved::Each => Resolution::Each { fresh_until: Mono::NEVER },
        Resolved::Unrouted(failure) => {
            let console = &schedule.services.console;
            let text = &failure.text;
            console.warn("route", format_args!("{text}: its queued mail waits"));
            Resolution::Unrouted(failure)
        }
        Resolved::Nowhere(resolution) => resolution,
        Resolved::Excluded(failure, policy) => {
            tls_domains::excluded(schedule, &key.domain, &failure, policy);
            Resolution::Unrouted(Arc::new(failure))
        }
        Resolved::Hosts(..) | Resolved::Known(..) | Resolved::Tiers(_) => return,
    };
    let _ = answer(schedule, scheduled, resolution);
}

/// Creates the ready queue keys for the resolved hosts, one per egress source.
fn places_of<W: World>(
    schedule: &Schedule<W>,
    key: &ScheduledKey,
    course: &RouteChoice,
    found: ResolvedHosts,
) -> Rc<ResolvedHops> {
    let RouteChoice { config, route, pool } = course;
    // Local delivery has no egress source.
    let is_sent = !matches!(route.channel.destination(), Destination::Here(_));
    let mut each = Vec::new();
    for (source, weight) in sources_of(pool.as_ref().filter(|_| is_sent).or(route.pool.as_ref())) {
        let paced = found.paced(config, route, source.as_deref());
        let hosts = (&*found.hosts, found.tls);
        let place = (&**route, source.as_deref(), key);
        let (key, usual) = names(schedule, place, hosts, paced);
        each.push(SourcePath { source, weight, key, usual });
    }
    let provider = each.last().and_then(|place| place.usual.provider().cloned());
    let places = Rc::new(ResolvedHops { found, each, provider });
    let question = ResolutionKey::of(key, route, pool.as_ref());
    if let Some(question) = question.filter(|_| places.found.is_by_dns()) {
        schedule.known_places.keep(schedule.services.now(), config, question, &places);
    }
    places
}

/// Passes the ready queues of a route and its fallbacks to the queue, unless a shaping rule fails the mail. `until`: the
/// resolution is repeated then at the latest.
fn enter<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    tiers: &[Tier],
    until: Mono,
) {
    let Some((_, first)) = tiers.first() else { return };
    if let Some(failure) = schedule.shaped.given_up(first.provider.as_deref(), key) {
        let _ = answer(schedule, scheduled, Resolution::Refuse(failure));
        return;
    }
    let (mut ways, mut seen, mut fresh_until) = (Vec::new(), Vec::new(), until);
    for ((course, places), tier) in tiers.iter().zip(0..) {
        let RouteChoice { config, route, .. } = course;
        for SourcePath { weight, key, usual, .. } in &places.each {
            let (limits, shared) = schedule.shaped.limits(config, key, usual);
            ways.push(WeightedPath { key: key.clone(), limits, shared, weight: *weight, tier });
            seen.push(HopSeen {
                next_hop: &key.next_hop,
                route: Some(&*route.name),
                provider: places.provider.as_deref(),
                source: &key.source,
            });
        }
        fresh_until = fresh_until.min(places.found.fresh_until);
    }
    standing::suspend_resolved(schedule, scheduled, &seen);
    let entered = answer(schedule, scheduled, Resolution::Ready { ways, fresh_until });
    let mut entered = entered.into_iter();
    for tier in tiers {
        let has_fallback = tier.0.route.fallback.is_some();
        learn_tier(schedule, scheduled, tier, (&mut entered, has_fallback));
    }
    shaped::note_provider(schedule, scheduled);
}

/// Stores the data of a route's ready queues, in the order of `entered`.
fn learn_tier<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    (course, places): &Tier,
    (entered, has_fallback): (&mut dyn Iterator<Item = ReadyId>, bool),
) {
    let RouteChoice { config, route, .. } = course;
    let ResolvedHops { found, each, provider } = &**places;
    for (SourcePath { source, key, usual, .. }, ready) in each.iter().zip(entered) {
        match &found.reported {
            Some(domain) => schedule.tls_domains.learn(ready, scheduled, domain.clone()),
            None => schedule.tls_domains.forget_scheduled(ready, scheduled),
        }
        let hop = NextHop::new(route, found.hosts.clone(), found.tls, config.hostname.clone());
        let hop = hop.of_provider(provider.clone()).from_source(source.clone());
        let hop = hop.of_sender(sender_of(key)).with_fallback(has_fallback);
        schedule.shaped.keep(ready, key, usual.clone(), found.shaped.is_some());
        learn(schedule, ready, key, hop);
    }
}

/// Passes the resolution to the queue, and reports a failure or its end. Returns the ready queues.
fn answer<W: World>(
    schedule: &Rc<Schedule<W>>,
    scheduled: ScheduledId,
    resolution: Resolution,
) -> SmallVec<[ReadyId; 1]> {
    let now = schedule.services.now();
    let failure = match &resolution {
        Resolution::Retry(failure) => Some(Arc::clone(failure)),
        // A missing route has been reported by the caller.
        Resolution::Unrouted(failure) if failure.culprit != Culprit::Local => {
            Some(Arc::clone(failure))
        }
        _ => None,
    };
    let (found, ready) = {
        let mut queue = schedule.queue_mut();
        // With [`Resolution::Each`] success is known only after the first entry is located.
        let is_answer = !matches!(resolution, Resolution::Each { .. });
        let was_in_trouble = is_answer && queue.is_in_trouble(scheduled);
        let key = queue.scheduled_key(scheduled).filter(|_| was_in_trouble);
        let domain = key.map(|key| key.domain.clone());
        (domain, queue.handle_resolved(now, scheduled, resolution))
    };
    match (failure, found) {
        (Some(failure), _) => trouble::tell_unresolved(schedule, scheduled, &failure),
        (None, Some(domain)) => trouble::tell_resolved(schedule, scheduled, domain.as_str()),
        (None, None) => {}
    }
    ready
}

/// Stores the data of a ready queue: warm-up, next hop and suspensions.
fn learn<W: World>(schedule: &Rc<Schedule<W>>, ready: ReadyId, key: &ReadyKey, hop: NextHop) {
    warmup::learn(schedule, ready, &hop);
    schedule.learn_hop(ready, key, hop);
    standing::suspend_hop(schedule, ready, key);
}

/// Enters the ready queue of recipients with these hosts in their entries. `None` if the configuration has changed
/// since.
pub(crate) fn enter_located<W: World>(
    schedule: &Rc<Schedule<W>>,
    locating: &HopLookup,
    config: &Config,
    route: &Route,
    hosts: Vec<HostGroup>,
) -> Option<ReadyId> {
    let now = schedule.services.now();
    let scheduled = schedule.queue().scheduled_key(locating.scheduled).cloned()?;
    let tls = terms(schedule, route, scheduled.require_tls).of_named_hosts();
    let paced = Paced::of_route(route.channel.limits());
    let (key, usual) = names(schedule, (route, None, &scheduled), (&hosts, tls), paced);
    let (limits, shared) = schedule.shaped.limits(config, &key, &usual);
    let ready = schedule.queue_mut().enter_located(now, locating, &key, &limits, &shared)?;
    let hop = NextHop::new(route, hosts, tls, config.hostname.clone()).of_sender(sender_of(&key));
    learn(schedule, ready, &key, hop);
    Some(ready)
}

/// Passes the located recipients of a message to the queue, and reports a failure or its end. Returns the state to be
/// recorded for the deferred ones, in the order of the entries.
pub(crate) fn answer_located<W: World>(
    schedule: &Rc<Schedule<W>>,
    locating: &HopLookup,
    answers: Vec<HopLookupResult>,
) -> Vec<Option<Deferred>> {
    let (now, scheduled) = (schedule.services.now(), locating.scheduled);
    let silence = answers.iter().find_map(|answer| match answer {
        HopLookupResult::Silence(failure) => Some(Arc::clone(failure)),
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
        (_, Some(domain)) if after < before => {
            trouble::tell_resolved(schedule, scheduled, domain.as_str());
        }
        _ => {}
    }
    deferred
}

/// Forgets cached resolutions, so that scheduled queues are resolved again.
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

/// The egress sources with weights. `None` leaves the address to the system.
fn sources_of(pool: Option<&Arc<Pool>>) -> Vec<(Option<Arc<Source>>, u32)> {
    match pool {
        Some(pool) => {
            pool.sources.iter().map(|(s, weight)| (Some(Arc::clone(s)), *weight)).collect()
        }
        None => vec![(None, 1)],
    }
}

/// The ready queue's key and its normal limits. Limits are shared by all routes with the same set of hosts in any
/// order.
fn names<W: World>(
    schedule: &Schedule<W>,
    (route, source, scheduled): (&Route, Option<&Source>, &ScheduledKey),
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
    let login = login_of(schedule, route, scheduled);
    let key = ReadyKey { source, next_hop: next_hop.into(), tls, shaping, login };
    (key, Usual { paced, host_set })
}

/// The null sender in a ready queue's key.
const NULL_SENDER: &str = "<>";

/// The part of a ready queue's key that keeps mail with different logins apart. Mail without a choice, after a change of
/// a table of domains, has the login of the null sender: never that of another sender.
fn login_of<W: World>(schedule: &Schedule<W>, route: &Route, key: &ScheduledKey) -> Arc<str> {
    if !route.channel.has_logins_by_sender() {
        return schedule.router.nothing();
    }
    let active = schedule.router.active();
    let sender = active.sender_of_key(key).filter(|sender| !sender.is_empty());
    Arc::from(sender.unwrap_or(NULL_SENDER))
}

/// The sender of a next hop's mail, if the login depends on it; empty for the null sender.
fn sender_of(key: &ReadyKey) -> Option<Arc<str>> {
    match &*key.login {
        "" => None,
        NULL_SENDER => Some(Arc::from("")),
        _ => Some(Arc::clone(&key.login)),
    }
}
