//! Where a recipient's domain leads: configuration, then DNS for `mx` routes.
//!
//! Asked when a scheduled queue falls due, never stored: a reload reaches mail that is queued.

use crate::config::{self, Channel, Config, Peer, Route};
use crate::egress::{Host, HostGroup, HostStates, Lessons, NextHop};
use crate::line::{Standing, Who};
use crate::lookup::Asker;
use crate::seams::{DnsError, Mx, Spawn, World};
use crate::shard::Shard;
use mail::{Class, Culprit, Domain, EnhancedStatus, Failure, Mono};
use queue::{
    NamedLimit, ReadyId, ReadyKey, ReadyLimits, Resolution, RetryPolicy, ScheduledId, ScheduledKey,
};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long hosts that DNS named are taken for granted; the resolver's own cache keeps to the
/// records' TTL.
const MX_FRESH: Duration = Duration::from_secs(300);
/// Hosts of a domain that are looked at, best first.
const HOSTS_MAX: usize = 16;

/// Answers the queue's question for the route and next hop of `scheduled`.
pub(crate) fn start_resolution<W: World>(shard: &Rc<Shard<W>>, scheduled: ScheduledId) {
    let Some(key) = shard.queue.borrow().scheduled_key(scheduled).cloned() else { return };
    shard.suspend_scheduled(scheduled, &key);
    let active = shard.active();
    let config = Arc::clone(&active.config);
    let Some(route) = route_of_key(&config, &key) else {
        // It was accepted when there was one: a slip in the configuration must not bounce it.
        // RFC 3463 §3.5: 4.4.4, unable to route.
        let (what, when) = active.since;
        let text = format!("no route leads to {} since the {what} of {when}", key.domain);
        shard.console.warn("route", format_args!("{text}: its queued mail waits for one"));
        let failure = Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 4), text);
        let _ = answer(shard, scheduled, Resolution::Unrouted(Arc::new(failure)));
        return;
    };
    let route = Arc::clone(route);
    let Channel::Mx(peer) = &route.channel else {
        let found = Found { hosts: static_hosts(&route), fresh_until: Mono::NEVER };
        return answer_hop(shard, scheduled, &config, &route, found);
    };
    let asker = asker(shard, scheduled);
    let (peer, task) = (Arc::clone(peer), Rc::clone(shard));
    shard.world.spawn().spawn(async move {
        match resolve_mx(&task, asker, &config, &peer, &key.domain).await {
            Ok(hosts) => {
                let found = Found { hosts, fresh_until: task.now() + MX_FRESH };
                answer_hop(&task, scheduled, &config, &route, found);
            }
            Err(failure) => {
                let failed = Arc::new(failure);
                let resolution = match failed.class {
                    Class::Permanent => Resolution::Refuse(failed),
                    Class::Transient => Resolution::Retry(failed),
                };
                let _ = answer(&task, scheduled, resolution);
            }
        }
        task.pump();
    });
}

/// As whom a scheduled queue asks the DNS.
fn asker<W: World>(shard: &Shard<W>, scheduled: ScheduledId) -> Asker {
    let in_trouble = shard.queue.borrow().is_in_trouble(scheduled);
    Asker {
        who: asker_of(shard, scheduled),
        standing: if in_trouble { Standing::Doubtful } else { Standing::Unknown },
    }
}

/// What a scheduled queue is called in the line for lookups.
pub(crate) fn asker_of<W: World>(shard: &Shard<W>, scheduled: ScheduledId) -> Who {
    Who::new(shard.number, scheduled.0)
}

/// The route of a scheduled queue: the postmaster's, or what an operator chose, else what the
/// domain has.
pub(crate) fn route_of_key<'a>(config: &'a Config, key: &ScheduledKey) -> Option<&'a Arc<Route>> {
    // No route of the configuration may have this name: the queue holds the postmaster's mail,
    // wherever that goes now.
    if &*key.route == config::POSTMASTER_ROUTE || key.domain.as_str().is_empty() {
        return config.routes.get(config.postmaster.route);
    }
    if !key.route.is_empty()
        && let Some((_, route)) = config.route_named(&key.route)
    {
        return Some(route);
    }
    config.route_for(&key.domain).map(|(_, route)| route)
}

/// The retry policy of a route (or of the whole configuration) as the queue takes it.
pub(crate) fn retry_policy(retry: &config::Retry) -> RetryPolicy {
    RetryPolicy {
        first: retry.first,
        factor: retry.factor,
        longest: retry.longest,
        jitter: retry.jitter,
        give_up_after: retry.give_up_after,
        warn_after: retry.warn_after,
    }
}

/// Answers the queue; what could not be found, or is found again, is told. Gives the ready queue.
fn answer<W: World>(
    shard: &Rc<Shard<W>>,
    scheduled: ScheduledId,
    resolution: Resolution,
) -> Option<ReadyId> {
    let now = shard.now();
    let failure = match &resolution {
        Resolution::Retry(failure) => Some(Arc::clone(failure)),
        _ => None,
    };
    let (found, ready) = {
        let mut queue = shard.queue.borrow_mut();
        let key = queue.scheduled_key(scheduled).filter(|_| queue.is_in_trouble(scheduled));
        let domain = key.map(|key| key.domain.clone());
        (domain, queue.handle_resolved(now, scheduled, resolution))
    };
    match (failure, found) {
        (Some(failure), _) => shard.tell_unresolved(scheduled, &failure),
        (None, Some(domain)) => shard.tell_resolved(domain.as_str()),
        (None, None) => {}
    }
    ready
}

/// The hosts of a next hop, and how long they are taken for granted.
struct Found {
    hosts: Vec<HostGroup>,
    fresh_until: Mono,
}

fn answer_hop<W: World>(
    shard: &Rc<Shard<W>>,
    scheduled: ScheduledId,
    config: &Config,
    route: &Route,
    found: Found,
) {
    let (key, shared) = names(shard, route, &found.hosts);
    let limits = limits_of(route.channel.peer());
    let named = key.clone();
    let answer = Resolution::Ready { key, limits, shared, fresh_until: found.fresh_until };
    let Some(ready) = self::answer(shard, scheduled, answer) else { return };
    let hop = NextHop {
        route: Arc::clone(&route.name),
        channel: route.channel.clone(),
        hosts: found.hosts,
        states: HostStates::default(),
        hostname: config.hostname.clone(),
        superseded: Cell::new(false),
        lessons: Lessons::default(),
    };
    shard.hops.learn(&shard.shared.known_hops, ready, &named, hop);
    shard.suspend_hop(ready, &named);
}

/// The name of the ready queue, and the limits that it shares: those of the route towards the set
/// of hosts, whatever their order.
fn names<W: World>(
    shard: &Shard<W>,
    route: &Route,
    hosts: &[HostGroup],
) -> (ReadyKey, Vec<NamedLimit>) {
    let channel = route.channel.name();
    let text = |host: &Host| config::host_text(&host.name, host.port);
    let groups: Vec<Vec<String>> =
        hosts.iter().map(|group| group.hosts.iter().map(text).collect()).collect();
    let next_hop = match route.next_hop() {
        Some(name) => name,
        None => config::next_hop(channel, &route.name, &groups),
    };
    let nothing = || Arc::clone(&shard.nothing);
    let key = ReadyKey { source: nothing(), next_hop: next_hop.into(), tls: nothing() };
    let shared = route.channel.peer().map(|peer| NamedLimit {
        name: config::host_set(channel, &route.name, &groups).into(),
        connections_max: peer.max_connections,
        messages_per_second: peer.messages_per_second,
    });
    (key, shared.into_iter().collect())
}

/// Limits of a ready queue alone; of local channels, how many workers write at once.
fn limits_of(peer: Option<&Arc<Peer>>) -> ReadyLimits {
    match peer {
        Some(peer) => ReadyLimits {
            opens_max: peer.max_opens,
            messages_per_connection: peer.messages_per_connection,
            recipients_per_message: peer.recipients_per_message,
            adaptive: peer.adaptive,
        },
        None => ReadyLimits {
            opens_max: LOCAL_WORKERS,
            messages_per_connection: 0,
            recipients_per_message: 0,
            adaptive: false,
        },
    }
}

/// Workers of a local channel that may be starting at once. They end when the queue is empty.
const LOCAL_WORKERS: u32 = 8;

/// The hosts that the file names. "failover" keeps the order; "round_robin" treats all hosts
/// alike.
fn static_hosts(route: &Route) -> Vec<HostGroup> {
    let Some(peer) = route.channel.peer() else { return Vec::new() };
    let hosts = peer.hosts.iter().map(|host| {
        let name = match &host.host {
            config::Host::Address(ip) => Arc::from(ip.to_string()),
            config::Host::Name(name) => Arc::from(name.as_str()),
            config::Host::Socket(path) => Arc::from(&*path.to_string_lossy()),
        };
        Host { name, port: host.port }
    });
    match peer.balance {
        config::Balance::Failover => hosts.map(|host| HostGroup { hosts: vec![host] }).collect(),
        config::Balance::RoundRobin => vec![HostGroup { hosts: hosts.collect() }],
    }
}

async fn resolve_mx<W: World>(
    shard: &Rc<Shard<W>>,
    asker: Asker,
    config: &Config,
    peer: &Peer,
    domain: &Domain,
) -> Result<Vec<HostGroup>, Failure> {
    if let Some(ip) = domain.literal() {
        let groups =
            vec![HostGroup { hosts: vec![Host { name: ip.to_string().into(), port: peer.port }] }];
        return refuse_ourselves(shard, asker, config, domain, groups).await;
    }
    let ascii = domain.to_ascii().map_err(|error| {
        dns_failure(Class::Permanent, EnhancedStatus::new(5, 1, 2), domain, &error.to_string())
    })?;
    let records = match shard.look_up_mx(asker, &ascii).await {
        Ok(records) => records,
        // RFC 5321 §5.1: without MX records the domain itself is the host.
        Err(DnsError::NoRecords) => vec![Mx { preference: 0, host: ascii.clone() }],
        Err(DnsError::NoSuchDomain) => {
            let text = "the domain does not exist";
            let status = EnhancedStatus::new(5, 1, 2);
            return Err(dns_failure(Class::Permanent, status, domain, text));
        }
        Err(error) => {
            let status = EnhancedStatus::new(4, 4, 3);
            return Err(dns_failure(Class::Transient, status, domain, &error.to_string()));
        }
    };
    // RFC 7505 §3: a single MX with an empty host.
    if records.iter().all(|mx| mx.host.is_empty()) {
        let status = EnhancedStatus::new(5, 1, 10);
        let text = "the domain takes no mail (null MX)";
        return Err(dns_failure(Class::Permanent, status, domain, text));
    }
    let implicit = records.len() == 1 && records[0].host == ascii;
    let is_whole = records.len() <= HOSTS_MAX;
    let groups = group(records, peer.port, config.hostname.as_str(), domain)?;
    let groups = refuse_ourselves(shard, asker, config, domain, groups).await?;
    if implicit {
        check_implicit(shard, asker, domain, &ascii).await?;
    } else {
        check_existence(shard, asker, domain, &groups, is_whole).await?;
    }
    Ok(groups)
}

fn dns_failure(class: Class, status: EnhancedStatus, domain: &Domain, text: &str) -> Failure {
    let culprit = Culprit::Dns(Box::from(domain.as_str()));
    Failure { class, culprit, status, reply: None, step: None, text: Box::from(text) }
}

/// A domain without MX must at least have an address, else its mail can never go.
async fn check_implicit<W: World>(
    shard: &Rc<Shard<W>>,
    asker: Asker,
    domain: &Domain,
    ascii: &str,
) -> Result<(), Failure> {
    match shard.look_up_addresses(asker, ascii).await {
        Ok(addresses) if !addresses.is_empty() => Ok(()),
        Ok(_) | Err(DnsError::NoRecords | DnsError::NoSuchDomain) => {
            let status = EnhancedStatus::new(5, 1, 2);
            let text = "the domain has neither MX nor address records";
            Err(dns_failure(Class::Permanent, status, domain, text))
        }
        Err(error) => {
            let (status, text) = (EnhancedStatus::new(4, 4, 3), error.to_string());
            Err(dns_failure(Class::Transient, status, domain, &text))
        }
    }
}

/// RFC 5321 §5.1: MX records of which none is usable are an error. Asked now and not when
/// connecting, because records that are a few minutes old may name hosts that have gone since. Of
/// those that were not asked for, as the list `is_whole` no more, nothing is known.
async fn check_existence<W: World>(
    shard: &Rc<Shard<W>>,
    asker: Asker,
    domain: &Domain,
    groups: &[HostGroup],
    is_whole: bool,
) -> Result<(), Failure> {
    for host in groups.iter().flat_map(|group| &group.hosts) {
        match shard.look_up_addresses(asker, &host.name).await {
            Ok(addresses) if addresses.is_empty() => {}
            Err(DnsError::NoRecords | DnsError::NoSuchDomain) => {}
            // What is wrong with a host that can't be looked up now, opening will say.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    if !is_whole {
        let text = format!("none of the domain's first {HOSTS_MAX} MX hosts exists");
        return Err(dns_failure(Class::Transient, EnhancedStatus::new(4, 4, 4), domain, &text));
    }
    let (status, text) = (EnhancedStatus::new(5, 4, 4), "none of the domain's MX hosts exists");
    Err(dns_failure(Class::Permanent, status, domain, text))
}

/// Hosts by preference. RFC 5321 §5.1: if we are among them, only those preferred to us count.
fn group(
    mut records: Vec<Mx>,
    port: u16,
    ourselves: &str,
    domain: &Domain,
) -> Result<Vec<HostGroup>, Failure> {
    // RFC 1035 §3.3.9: an MX names a host; what reads as an address is none.
    records.retain(|mx| !mx.host.is_empty() && mx.host.parse::<IpAddr>().is_err());
    if records.is_empty() {
        let (status, text) = (EnhancedStatus::new(5, 4, 4), "the domain's MX records name no host");
        return Err(dns_failure(Class::Permanent, status, domain, text));
    }
    records.sort_by(|a, b| (a.preference, &a.host).cmp(&(b.preference, &b.host)));
    // A host that is named twice counts where it is preferred.
    let mut seen = BTreeSet::new();
    records.retain(|mx| seen.insert(mx.host.to_ascii_lowercase()));
    if let Some(own) = records.iter().find(|mx| mx.host.eq_ignore_ascii_case(ourselves)) {
        let limit = own.preference;
        records.retain(|mx| mx.preference < limit);
    }
    if records.is_empty() {
        return Err(loops_back(domain));
    }
    let mut groups: Vec<(u16, HostGroup)> = Vec::new();
    for mx in records.into_iter().take(HOSTS_MAX) {
        let host = Host { name: Arc::from(mx.host), port };
        match groups.last_mut() {
            Some((preference, group)) if *preference == mx.preference => group.hosts.push(host),
            _ => groups.push((mx.preference, HostGroup { hosts: vec![host] })),
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

fn loops_back(domain: &Domain) -> Failure {
    let text = "mail for this domain would come back to this server";
    dns_failure(Class::Permanent, EnhancedStatus::new(5, 4, 6), domain, text)
}

/// Leaves out hosts whose addresses are where we listen ourselves, and those less preferred: with
/// them a message would go round in circles.
async fn refuse_ourselves<W: World>(
    shard: &Rc<Shard<W>>,
    asker: Asker,
    config: &Config,
    domain: &Domain,
    groups: Vec<HostGroup>,
) -> Result<Vec<HostGroup>, Failure> {
    let mut kept = Vec::new();
    for group in groups {
        let mut own = false;
        let mut hosts = Vec::new();
        for host in group.hosts {
            if is_ourselves(shard, asker, config, &host).await {
                own = true;
            } else {
                hosts.push(host);
            }
        }
        if !hosts.is_empty() && !own {
            kept.push(HostGroup { hosts });
        }
        if own {
            break;
        }
    }
    if kept.is_empty() { Err(loops_back(domain)) } else { Ok(kept) }
}

async fn is_ourselves<W: World>(
    shard: &Rc<Shard<W>>,
    asker: Asker,
    config: &Config,
    host: &Host,
) -> bool {
    let proxies = &config.proxy_addresses;
    let listening: Vec<SocketAddr> = config
        .listeners
        .iter()
        .map(|listener| listener.address)
        .filter(|address| address.port() == host.port)
        .collect();
    if listening.is_empty() && proxies.is_empty() {
        return false;
    }
    let addresses = match host.name.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        // A host that can't be looked up now is no loop; opening will say what is wrong with it.
        Err(_) => shard.look_up_addresses(asker, &host.name).await.unwrap_or_default(),
    };
    addresses.iter().map(IpAddr::to_canonical).any(|ip| {
        let is_own = |own: &SocketAddr| {
            let own = own.ip().to_canonical();
            own == ip || (own.is_unspecified() && ip.is_loopback())
        };
        proxies.contains(&ip)
            || (!listening.is_empty() && ip.is_unspecified())
            || listening.iter().any(is_own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mx(preference: u16, host: &str) -> Mx {
        Mx { preference, host: host.to_owned() }
    }

    fn names(groups: Result<Vec<HostGroup>, Failure>) -> Vec<Vec<String>> {
        let names = |g: HostGroup| g.hosts.iter().map(|h| h.name.to_string()).collect();
        groups.unwrap().into_iter().map(names).collect()
    }

    #[test]
    fn hosts_are_grouped_by_preference() {
        let domain = Domain::parse("example.org").unwrap();
        let records = vec![mx(20, "c"), mx(10, "b"), mx(10, "a"), mx(30, "a")];
        let groups = group(records, 25, "relay", &domain);
        assert_eq!(names(groups), [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn addresses_are_no_hosts() {
        let domain = Domain::parse("example.org").unwrap();
        let records = vec![mx(10, "127.0.0.4"), mx(20, "b"), mx(30, "::1")];
        assert_eq!(names(group(records, 25, "relay", &domain)), [["b"]]);
        let failure = group(vec![mx(10, "127.0.0.4")], 25, "relay", &domain).unwrap_err();
        assert_eq!(failure.status, EnhancedStatus::new(5, 4, 4));
    }

    #[test]
    fn only_hosts_preferred_to_us_are_left() {
        let domain = Domain::parse("example.org").unwrap();
        let records = vec![mx(10, "a"), mx(20, "Relay"), mx(20, "b"), mx(30, "c")];
        assert_eq!(names(group(records, 25, "relay", &domain)), [["a"]]);
        let failure = group(vec![mx(10, "relay"), mx(20, "b")], 25, "relay", &domain).unwrap_err();
        assert_eq!(failure.status, EnhancedStatus::new(5, 4, 6));
        assert_eq!(failure.class, Class::Permanent);
    }
}
