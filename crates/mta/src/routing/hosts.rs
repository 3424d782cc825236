//! The hosts of a next hop and their state, which lives as long as the hop. Healthy hosts have no state.
//!
//! Also detects that a host is this server: a message sent there would loop (RFC 5321 §5.1, §6.3).

use super::addresses::shuffle;
use config::Config;
use mail::{Class, Culprit, EnhancedStatus, Failure, Mono};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time that a failed host is tried last. After it one connection attempt probes the host.
const PROBE_EVERY: Duration = Duration::from_secs(60);
/// The same for a host that deferred a transaction: first retries go to other hosts.
const PUT_OFF_FOR: Duration = Duration::from_secs(300);
/// Time that an address family of a host is skipped after "no route to host".
const NO_ROUTE_FOR: Duration = Duration::from_secs(300);
/// Time that a host which replied 421 gets fewer connections than at that time, if other hosts exist.
const CROWDED_FOR: Duration = Duration::from_secs(300);

/// Hosts of equal preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// In any order.
    pub hosts: Vec<Host>,
}

/// One host of a next hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    /// Name, address or socket path.
    pub name: Arc<str>,
    /// 0 for a socket. Neither the configuration nor the DNS has port 0.
    pub port: u16,
}

impl Host {
    /// The failure of a host without an address. Temporary, because a host named by a route or an MX record should
    /// exist and its address may appear.
    pub fn no_address(&self) -> Failure {
        self.unknown(EnhancedStatus::new(4, 4, 4), "the host has no address")
    }

    /// The failure of a host without a DNS answer: 4.4.3, directory server failure (RFC 3463 §3.5).
    pub fn no_answer(&self, text: impl Into<Box<str>>) -> Failure {
        self.unknown(EnhancedStatus::new(4, 4, 3), text)
    }

    fn unknown(&self, status: EnhancedStatus, text: impl Into<Box<str>>) -> Failure {
        Failure::dns(Class::Transient, &self.name, status, text)
    }

    /// The socket path, if the host is a socket.
    pub fn socket(&self) -> Option<&Path> {
        (self.port == 0).then(|| Path::new(&*self.name))
    }
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

fn family(ip: IpAddr) -> Family {
    if ip.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// State of a host.
#[derive(Debug)]
struct State {
    host: Host,
    /// Tried after the other hosts until this time.
    behind_until: Mono,
    /// Connection limit after a 421 reply, until this time.
    crowded: Option<(u32, Mono)>,
    /// No route to this address family, until this time.
    no_route: Option<(Family, Mono)>,
    /// The next connection attempt tries these other hosts first.
    passed_over: Option<Others>,
    /// Open connections.
    open: u32,
}

impl State {
    fn is_forgettable(&self, now: Mono) -> bool {
        self.open == 0
            && self.passed_over.is_none()
            && self.behind_until <= now
            && self.crowded.is_none_or(|(_, until)| until <= now)
            && self.no_route.is_none_or(|(_, until)| until <= now)
    }

    fn stands_behind(&self, now: Mono) -> bool {
        let crowded = |(max, until): (u32, Mono)| now < until && self.open >= max;
        now < self.behind_until || self.crowded.is_some_and(crowded)
    }
}

/// The hosts that precede a skipped host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Healthy hosts.
    Well,
    /// All hosts, because this one rejects the message.
    All,
}

/// A host to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub host: Host,
    /// A host of lower preference.
    pub is_backup: bool,
    /// A preceding host was skipped because of one message.
    pub is_detour: bool,
}

/// The states of a next hop's hosts.
#[derive(Debug, Default)]
pub struct HostStates(RefCell<Vec<State>>);

impl HostStates {
    /// The hosts in the order of attempts: by preference, those of equal preference in random order (RFC 5321 §5.1),
    /// and last all with failures. A failed host that is due for a probe gets its normal position, in this attempt
    /// only.
    pub fn order(
        &self,
        now: Mono,
        groups: &[HostGroup],
        mut random: impl FnMut() -> u64,
    ) -> Vec<Candidate> {
        let mut states = self.0.borrow_mut();
        states.retain(|state| state.open > 0 || !state.is_forgettable(now) || state.is_due(now));
        let (mut first, mut behind) = (Vec::new(), Vec::new());
        let is_detour = states.iter().any(|state| state.passed_over.is_some());
        for (rank, group) in groups.iter().enumerate() {
            let mut hosts: Vec<&Host> = group.hosts.iter().collect();
            shuffle(&mut hosts, &mut random);
            for host in hosts {
                let candidate = Candidate { host: host.clone(), is_backup: rank > 0, is_detour };
                match states.iter_mut().find(|state| state.host == *host) {
                    Some(state) if state.passed_over.is_some() => {
                        let at = match state.passed_over.take() {
                            Some(Others::All) => Mono::NEVER,
                            // As healthy as before, so tried before failed hosts.
                            _ if state.stands_behind(now) => state.behind_until,
                            _ => Mono(0),
                        };
                        behind.push((at, Candidate { is_detour: false, ..candidate }));
                    }
                    Some(state) if state.stands_behind(now) => {
                        behind.push((state.behind_until, candidate));
                    }
                    Some(state) => {
                        if state.behind_until > Mono(0) {
                            state.behind_until = now + PROBE_EVERY;
                        }
                        first.push(candidate);
                    }
                    None => first.push(candidate),
                }
            }
        }
        behind.sort_by_key(|(until, _)| *until);
        first.extend(behind.into_iter().map(|(_, candidate)| candidate));
        first
    }

    fn change(&self, host: &Host, change: impl FnOnce(&mut State)) {
        let mut states = self.0.borrow_mut();
        if let Some(state) = states.iter_mut().find(|state| state.host == *host) {
            return change(state);
        }
        let host = host.clone();
        let mut state = State {
            host,
            behind_until: Mono(0),
            crowded: None,
            no_route: None,
            passed_over: None,
            open: 0,
        };
        change(&mut state);
        states.push(state);
    }

    /// Notes that the host was unreachable or refused the session.
    pub fn failed(&self, now: Mono, host: &Host) {
        self.change(host, |state| state.behind_until = now + PROBE_EVERY);
    }

    /// Notes that the host deferred a transaction.
    pub fn put_off(&self, now: Mono, host: &Host) {
        self.change(host, |state| state.behind_until = now + PUT_OFF_FOR);
    }

    /// Notes a 421 reply.
    pub fn crowded(&self, now: Mono, host: &Host) {
        self.change(host, |state| {
            let max = state.open.saturating_sub(1).max(1);
            state.crowded = Some((max, now + CROWDED_FOR));
        });
    }

    /// Notes that the host rejects one message that the other hosts may accept. The next connection attempt tries those
    /// first.
    pub fn pass_over(&self, host: &Host, others: Others) {
        self.change(host, |state| state.passed_over = Some(others));
    }

    /// Counts an open connection. A connection alone does not make a host healthy: it may greet and then hang. Only a
    /// reply to a message does ([`HostStates::well`]).
    pub fn opened(&self, host: &Host) {
        self.change(host, |state| state.open += 1);
    }

    /// Notes a final reply to a message.
    pub fn well(&self, host: &Host) {
        if let Some(state) = self.0.borrow_mut().iter_mut().find(|state| state.host == *host) {
            state.behind_until = Mono(0);
        }
    }

    /// Returns true if the host has at most one connection.
    pub fn has_no_other(&self, host: &Host) -> bool {
        !self.0.borrow().iter().any(|state| state.host == *host && state.open > 1)
    }

    /// Returns true if a host other than this one is in its normal position.
    pub fn has_another_in_front(&self, now: Mono, groups: &[HostGroup], but: &Host) -> bool {
        let states = self.0.borrow();
        let stands_behind = |host: &Host| {
            states.iter().any(|state| state.host == *host && state.stands_behind(now))
        };
        groups.iter().flat_map(|group| &group.hosts).any(|host| host != but && !stands_behind(host))
    }

    /// Counts a closed connection.
    pub fn closed(&self, now: Mono, host: &Host) {
        let mut states = self.0.borrow_mut();
        if let Some(at) = states.iter().position(|state| state.host == *host) {
            states[at].open = states[at].open.saturating_sub(1);
            if states[at].is_forgettable(now) && states[at].behind_until == Mono(0) {
                states.swap_remove(at);
            }
        }
    }

    /// Notes that this address has no route.
    pub fn no_route(&self, now: Mono, host: &Host, ip: IpAddr) {
        self.change(host, |state| state.no_route = Some((family(ip), now + NO_ROUTE_FOR)));
    }

    /// Returns true unless this address family is known to have no route.
    pub fn has_route(&self, now: Mono, host: &Host, ip: IpAddr) -> bool {
        let states = self.0.borrow();
        let state = states.iter().find(|state| state.host == *host);
        let lost = state.and_then(|state| state.no_route);
        lost.is_none_or(|(lost, until)| until <= now || lost != family(ip))
    }
}

impl State {
    /// A failed host that is due for a probe.
    fn is_due(&self, now: Mono) -> bool {
        self.behind_until > Mono(0) && self.behind_until <= now
    }
}

const STATUS: EnhancedStatus = EnhancedStatus::new(5, 4, 6);

/// Returns true if a connection ends at our own listener: both ends have the same address and a listener has that port.
pub fn is_here(config: &Config, local: Option<SocketAddr>, peer: SocketAddr) -> bool {
    let to = peer.ip().to_canonical();
    local.is_some_and(|local| local.ip().to_canonical() == to) && listens_at(config, peer)
}

/// Returns true if one of our listeners has this local address.
fn listens_at(config: &Config, address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    config.listeners.iter().any(|listener| {
        let own = listener.address;
        let own_ip: IpAddr = own.ip().to_canonical();
        own.port() == address.port() && (own_ip == ip || own_ip.is_unspecified())
    })
}

/// Returns true if this name is ours. Listeners greet with the hostname, and sources send with their EHLO names.
pub fn is_our_name(config: &Config, name: &str) -> bool {
    let ehlo = config.sources.iter().filter_map(|source| source.ehlo.as_ref());
    std::iter::once(&config.hostname).chain(ehlo).any(|own| name.eq_ignore_ascii_case(own.as_str()))
}

/// The failure for a mail loop.
pub fn loops(peer: &str) -> Failure {
    Failure {
        class: Class::Permanent,
        culprit: Culprit::Network(Box::from(peer)),
        status: STATUS,
        reply: None,
        heard: None,
        step: None,
        text: "mail for this domain loops back to this server".into(),
    }
}

/// Returns true for the failure of [`loops`].
pub fn is_loop(failure: &Failure) -> bool {
    failure.reply.is_none() && failure.status == STATUS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    fn host(name: &str) -> Host {
        Host { name: Arc::from(name), port: 25 }
    }

    fn groups(groups: &[&[&str]]) -> Vec<HostGroup> {
        let group = |names: &&[&str]| HostGroup { hosts: names.iter().map(|n| host(n)).collect() };
        groups.iter().map(group).collect()
    }

    fn order(states: &HostStates, now: Mono, of: &[HostGroup]) -> String {
        let order = states.order(now, of, || 0);
        order.iter().map(|candidate| candidate.host.name.to_string()).collect()
    }

    #[test]
    fn hosts_of_equal_preference_come_in_random_order_and_each_once() {
        let (states, of) = (HostStates::default(), groups(&[&["a", "b", "c"], &["d"]]));
        let mut seed = 0;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut random = || {
                seed += 7;
                seed
            };
            let order = states.order(Mono(1), &of, &mut random);
            let names: String = order.iter().map(|c| c.host.name.to_string()).collect();
            assert!(names.ends_with('d') && names.len() == 4, "{names}");
            assert!(order[3].is_backup && !order[2].is_backup);
            seen.insert(names);
        }
        assert!(seen.len() > 2, "{seen:?}");
    }

    #[test]
    fn one_stands_in_front_until_all_are_in_trouble() {
        let (states, of) = (HostStates::default(), groups(&[&["a"], &["b"]]));
        let now = Mono(1_000_000);
        let (a, b) = (host("a"), host("b"));
        assert!(states.has_another_in_front(now, &of, &a));
        states.put_off(now, &a);
        assert!(states.has_another_in_front(now, &of, &a));
        assert!(!states.has_another_in_front(now, &of, &b), "a stands behind");
        states.failed(now, &b);
        assert!(!states.has_another_in_front(now, &of, &a));
        assert!(states.has_another_in_front(now + PROBE_EVERY, &of, &a));
    }

    #[test]
    fn a_dead_host_stands_behind_and_is_probed_once_a_minute() {
        let (states, of) = (HostStates::default(), groups(&[&["a"], &["b"]]));
        let now = Mono(1_000_000);
        assert_eq!(order(&states, now, &of), "ab");
        states.failed(now, &host("a"));
        assert_eq!(order(&states, now + SECOND * 59, &of), "ba");
        assert_eq!(order(&states, now + SECOND * 60, &of), "ab", "the probe");
        assert_eq!(order(&states, now + SECOND * 61, &of), "ba", "only one");
        assert_eq!(order(&states, now + SECOND * 120, &of), "ab");
        states.opened(&host("a"));
        assert_eq!(order(&states, now + SECOND * 121, &of), "ba", "it has greeted only");
        states.well(&host("a"));
        assert_eq!(order(&states, now + SECOND * 121, &of), "ab", "it is back");
        states.failed(now + SECOND * 121, &host("a"));
        states.failed(now + SECOND * 122, &host("b"));
        assert_eq!(order(&states, now + SECOND * 123, &of), "ab", "who failed first");
    }

    #[test]
    fn a_crowded_host_gets_no_more_than_it_could_bear() {
        let (states, of) = (HostStates::default(), groups(&[&["a"], &["b"]]));
        let (now, a) = (Mono(1_000_000), host("a"));
        (0..3).for_each(|_| states.opened(&a));
        states.crowded(now, &a);
        states.closed(now, &a);
        assert_eq!(order(&states, now, &of), "ba");
        states.closed(now, &a);
        assert_eq!(order(&states, now, &of), "ab");
        states.opened(&a);
        assert_eq!(order(&states, now + SECOND * 299, &of), "ba");
        assert_eq!(order(&states, now + SECOND * 300, &of), "ab");
    }

    #[test]
    fn a_host_is_passed_over_by_one_opening() {
        let (states, of) = (HostStates::default(), groups(&[&["a"], &["b"], &["c"]]));
        let now = Mono(1_000_000);
        states.failed(now, &host("b"));
        states.pass_over(&host("a"), Others::Well);
        let passed = states.order(now, &of, || 0);
        let names: String = passed.iter().map(|c| c.host.name.to_string()).collect();
        assert_eq!(names, "cab");
        assert_eq!(passed.iter().map(|c| c.is_detour).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(order(&states, now, &of), "acb", "only one");
        states.pass_over(&host("a"), Others::All);
        assert_eq!(order(&states, now, &of), "cba", "even one that is in trouble");
        assert_eq!(order(&states, now, &of), "acb", "only one");
    }

    #[test]
    fn of_hosts_that_are_well_nothing_is_kept() {
        let (states, a) = (HostStates::default(), host("a"));
        states.opened(&a);
        states.closed(Mono(5), &a);
        assert!(states.0.borrow().is_empty());
        states.no_route(Mono(5), &a, "2001:db8::1".parse().unwrap());
        assert!(!states.has_route(Mono(6), &a, "2001:db8::2".parse().unwrap()));
        assert!(states.has_route(Mono(6), &a, "192.0.2.1".parse().unwrap()));
        let later = Mono(5) + NO_ROUTE_FOR;
        assert!(states.has_route(later, &a, "2001:db8::2".parse().unwrap()));
        order(&states, later, &groups(&[&["a"]]));
        assert!(states.0.borrow().is_empty());
    }

    #[test]
    fn a_listener_is_found_at_whatever_address_the_machine_has() {
        let config = |listener: &str| {
            let text =
                format!("[[listener]]\naddress = \"{listener}\"\n[[route]]\ndiscard = {{}}\n");
            crate::testing::schema().parse(&text, "test.toml").unwrap()
        };
        let here = |listener: &str, local: &str, peer: &str| {
            is_here(&config(listener), local.parse().ok(), peer.parse().unwrap())
        };
        assert!(here("0.0.0.0:25", "198.51.100.7:41000", "198.51.100.7:25"));
        assert!(here("[::]:25", "198.51.100.7:41000", "[::ffff:198.51.100.7]:25"));
        assert!(here("198.51.100.7:25", "198.51.100.7:41000", "198.51.100.7:25"));
        assert!(!here("0.0.0.0:25", "198.51.100.7:41000", "198.51.100.8:25"), "another machine");
        assert!(!here("0.0.0.0:2525", "198.51.100.7:41000", "198.51.100.7:25"), "another port");
        // Another program on this machine, at an address of its own.
        assert!(!here("198.51.100.7:25", "127.0.0.1:41000", "127.0.0.1:25"));
    }
}
