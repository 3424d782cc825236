//! Resolves the hosts of a domain from MX records (RFC 5321 §5.1).

use super::hosts::{Host, HostGroup};
use crate::seams::{Dns, DnsError, Mx, Vouched};
use config::Config;
use mail::{Class, Domain, EnhancedStatus, Failure};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Maximum number of hosts of a domain, best first.
const HOSTS_MAX: usize = 16;

/// The hosts of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MxHosts {
    /// In order of preference, grouped by equal preference.
    pub groups: Vec<HostGroup>,
    /// DNSSEC secures the MX answer, if that was requested. True for a domain without MX records, which is its own
    /// host.
    pub is_secure: bool,
}

/// Resolves the hosts of a domain. With `by_dnssec` it also checks if the answer is secure.
///
/// # Errors
/// The temporary or permanent failure.
pub async fn resolve_mx(
    dns: &impl Dns,
    config: &Config,
    port: u16,
    domain: &Domain,
    by_dnssec: bool,
) -> Result<MxHosts, Failure> {
    if let Some(ip) = domain.literal() {
        let groups = vec![HostGroup { hosts: vec![Host { name: ip.to_string().into(), port }] }];
        let known = HostAddresses::look_up(dns, &groups).await;
        let groups = refuse_ourselves(&known, config, domain, groups)?;
        return Ok(MxHosts { groups, is_secure: false });
    }
    let ascii = domain.to_ascii().map_err(|error| {
        dns_failure(Class::Permanent, EnhancedStatus::new(5, 1, 2), domain, &error.to_string())
    })?;
    let answer = match by_dnssec {
        true => dns.vouched_mx(&ascii).await,
        false => dns.mx(&ascii).await.map(|answer| Vouched { answer, is_secure: false }),
    };
    let Vouched { answer: records, is_secure } = match answer {
        Ok(records) => records,
        // Without MX records the domain itself is the host (RFC 5321 §5.1).
        Err(DnsError::NoRecords) => {
            let answer = vec![Mx { preference: 0, host: ascii.clone() }];
            Vouched { answer, is_secure: by_dnssec }
        }
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
    // A single MX with an empty host is a null MX (RFC 7505 §3).
    if records.iter().all(|mx| mx.host.is_empty()) {
        let status = EnhancedStatus::new(5, 1, 10);
        let text = "the domain accepts no mail (null MX)";
        return Err(dns_failure(Class::Permanent, status, domain, text));
    }
    let implicit = records.len() == 1 && records[0].host == ascii;
    let is_whole = records.len() <= HOSTS_MAX;
    let groups = group(records, port, config.hostname.as_str(), domain)?;
    let known = HostAddresses::look_up(dns, &groups).await;
    let groups = refuse_ourselves(&known, config, domain, groups)?;
    if implicit {
        check_implicit(&known, domain, &ascii)?;
    } else {
        check_existence(&known, domain, &groups, is_whole)?;
    }
    Ok(MxHosts { groups, is_secure })
}

fn dns_failure(class: Class, status: EnhancedStatus, domain: &Domain, text: &str) -> Failure {
    Failure::dns(class, domain.as_str(), status, text)
}

/// The addresses of hosts, looked up in parallel: several timeouts take no longer than one.
struct HostAddresses(BTreeMap<Arc<str>, Result<Vec<IpAddr>, DnsError>>);

impl HostAddresses {
    async fn look_up(dns: &impl Dns, groups: &[HostGroup]) -> HostAddresses {
        let names: BTreeSet<Arc<str>> = groups
            .iter()
            .flat_map(|group| &group.hosts)
            .map(|host| Arc::clone(&host.name))
            .collect();
        let asked = names.into_iter().map(|name| async move {
            let addresses = match name.parse::<IpAddr>() {
                Ok(ip) => Ok(vec![ip]),
                Err(_) => dns.addresses(&name).await,
            };
            (name, addresses)
        });
        HostAddresses(auth::together::all(asked).await.into_iter().collect())
    }

    fn addresses(&self, host: &str) -> Result<&[IpAddr], &DnsError> {
        match self.0.get(host) {
            Some(found) => found.as_deref(),
            None => Err(&DnsError::NoRecords),
        }
    }
}

/// A domain without MX records needs an address, otherwise its mail can never be delivered.
fn check_implicit(known: &HostAddresses, domain: &Domain, ascii: &str) -> Result<(), Failure> {
    match known.addresses(ascii) {
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

/// MX records without a usable host are an error (RFC 5321 §5.1). Checked here and not at connection time, because
/// hosts in older records may have disappeared since. If the list was cut (`is_whole` is false), the remaining hosts
/// are unknown.
fn check_existence(
    known: &HostAddresses,
    domain: &Domain,
    groups: &[HostGroup],
    is_whole: bool,
) -> Result<(), Failure> {
    for host in groups.iter().flat_map(|group| &group.hosts) {
        match known.addresses(&host.name) {
            Ok([]) => {}
            Err(DnsError::NoRecords | DnsError::NoSuchDomain) => {}
            // A temporary lookup failure is reported when connecting.
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

/// Groups hosts by preference. If we are one, only more preferred hosts count (RFC 5321 §5.1).
fn group(
    mut records: Vec<Mx>,
    port: u16,
    ourselves: &str,
    domain: &Domain,
) -> Result<Vec<HostGroup>, Failure> {
    // An MX names a host, so an address is invalid (RFC 1035 §3.3.9).
    records.retain(|mx| !mx.host.is_empty() && mx.host.parse::<IpAddr>().is_err());
    if records.is_empty() {
        let (status, text) = (EnhancedStatus::new(5, 4, 4), "the domain's MX records name no host");
        return Err(dns_failure(Class::Permanent, status, domain, text));
    }
    records.sort_by(|a, b| (a.preference, &a.host).cmp(&(b.preference, &b.host)));
    // A host named twice keeps its best preference.
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
    let text = "mail for this domain loops back to this server";
    dns_failure(Class::Permanent, EnhancedStatus::new(5, 4, 6), domain, text)
}

/// Removes hosts with addresses of our own listeners, and all that are less preferred, since these would cause a mail
/// loop.
fn refuse_ourselves(
    known: &HostAddresses,
    config: &Config,
    domain: &Domain,
    groups: Vec<HostGroup>,
) -> Result<Vec<HostGroup>, Failure> {
    let mut kept = Vec::new();
    for group in groups {
        let mut own = false;
        let mut hosts = Vec::new();
        for host in group.hosts {
            if is_ourselves(known, config, &host) {
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

fn is_ourselves(known: &HostAddresses, config: &Config, host: &Host) -> bool {
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
    // A temporary lookup failure is no loop. It is reported when connecting.
    let addresses = known.addresses(&host.name).unwrap_or_default();
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
    use std::cell::Cell;

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

    /// A domain with sixteen hosts of which none is ever answered for; counts how many are asked for
    /// at once.
    #[derive(Default)]
    struct Silent {
        now: Cell<usize>,
        most: Cell<usize>,
    }

    impl Dns for Silent {
        async fn mx(&self, _: &str) -> Result<Vec<Mx>, DnsError> {
            Ok((0..16).map(|n| mx(n, &format!("h{n}.silent.test"))).collect())
        }

        async fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, DnsError> {
            self.now.set(self.now.get() + 1);
            self.most.set(self.most.get().max(self.now.get()));
            tokio::task::yield_now().await;
            self.now.set(self.now.get() - 1);
            Err(DnsError::Transient("timed out".to_owned()))
        }
    }

    #[test]
    fn hosts_that_are_never_answered_for_are_waited_for_side_by_side() {
        let dns = Silent::default();
        let text = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";
        let config = crate::testing::schema().parse(text, "test.toml").unwrap();
        let domain = Domain::parse("wild.test").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(resolve_mx(&dns, &config, 25, &domain, false)).unwrap();
        assert_eq!((found.groups.len(), dns.most.get()), (16, 16));
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
