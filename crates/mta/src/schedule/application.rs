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
    let resolution = match resolved {
        Resolved::Hosts(course, found) => {
            let places = places_of(schedule, key, &course, found);
            return enter(schedule, (scheduled, key), &course, &places);
        }
        Resolved::Known(course, places) => {
            return enter(schedule, (scheduled, key), &course, &places);
        }
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
        let (key, usual) = names(schedule, (route, source.as_deref()), hosts, paced);
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

/// Passes these ready queues to the queue, unless a shaping rule fails the mail.
fn enter<W: World>(
    schedule: &Rc<Schedule<W>>,
    (scheduled, key): (ScheduledId, &ScheduledKey),
    course: &RouteChoice,
    places: &ResolvedHops,
) {
    let RouteChoice { config, route, .. } = course;
    let ResolvedHops { found, each, provider } = places;
    if let Some(failure) = schedule.shaped.given_up(provider.as_deref(), key) {
        let _ = answer(schedule, scheduled, Resolution::Refuse(failure));
        return;
    }
    let way = |SourcePath { weight, key, usual, .. }: &SourcePath| {
        let (limits, shared) = schedule.shaped.limits(config, key, usual);
        WeightedPath { key: key.clone(), limits, shared, weight: *weight }
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
    for (ready, SourcePath { source, key, usual, .. }) in entered.into_iter().zip(each) {
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
    let scheduled = schedule.queue().scheduled_key(locating.scheduled).map(|key| key.require_tls);
    let tls = terms(schedule, route, scheduled?).of_named_hosts();
    let paced = Paced::of_route(route.channel.limits());
    let (key, usual) = names(schedule, (route, None), (&hosts, tls), paced);
    let (limits, shared) = schedule.shaped.limits(config, &key, &usual);
    let ready = schedule.queue_mut().enter_located(now, locating, &key, &limits, &shared)?;
    learn(schedule, ready, &key, NextHop::new(route, hosts, tls, config.hostname.clone()));
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
