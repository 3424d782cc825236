//! Names by way of hickory-resolver.

mod cache;
mod validated;

use auth::tlsa::Tlsa;
use cache::{Answer, Cache, Key, Value};
use hickory_resolver::config::{NameServerConfig, ProtocolConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as NetDnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{TokioResolver, lookup::Lookup};
use mta::lack;
use mta::seams::{Dns, DnsError, HostSecurity, Mx, Vouched};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use validated::Validated;

/// UDP sockets that one lookup has open at most: A and AAAA at once, and of each the question
/// and the two that hickory asks again while it waits for the answer.
pub(crate) const SOCKETS_PER_LOOKUP: u64 = 6;

/// A resolver; clones share one cache.
#[derive(Clone)]
pub(crate) struct Resolver {
    /// Or why there is none.
    ways: Result<Ways, String>,
}

/// How name servers are asked.
#[derive(Clone)]
struct Ways {
    usual: TokioResolver,
    /// For what came garbled: servers that send more than was agreed without saying that it is
    /// truncated are understood over TCP (RFC 7766 §5).
    over_tcp: TokioResolver,
    /// What either said.
    cache: Cache,
    validated: Validated,
}

impl Resolver {
    /// Asks the servers that `config` names, or those of the system. Without any, every question
    /// is answered with a transient error: mail waits, nothing is returned.
    pub(crate) fn new(config: &config::Dns) -> Resolver {
        let ways = || {
            let servers = servers(config)?;
            let tcp_only = servers.iter().cloned().map(without_udp).collect();
            let validated = Validated::new(config, &servers)?;
            let (usual, over_tcp) = (build(config, servers)?, build(config, tcp_only)?);
            let cache = Cache::new(config.cache_max, config.cache_bytes);
            Ok(Ways { usual, over_tcp, cache, validated })
        };
        Resolver { ways: ways().map_err(|error: NetError| error.to_string()) }
    }

    fn ways(&self) -> Result<&Ways, DnsError> {
        let none = |trouble| DnsError::Transient(format!("no resolver is configured: {trouble}"));
        self.ways.as_ref().map_err(none)
    }

    /// Why no answer counts as secure, if so.
    pub(crate) fn why_insecure(&self) -> Option<&'static str> {
        self.ways.as_ref().ok().and_then(|ways| ways.validated.why_insecure())
    }

    /// Asks, unless the answer is remembered, and once more over TCP if it could not be read.
    async fn ask(&self, name: &Name, kind: RecordType) -> Answer {
        let ways = self.ways()?;
        let key = Key::new(name, kind);
        if let Some(known) = ways.cache.get(&key, Instant::now()) {
            return known;
        }
        let lookup = match ways.usual.lookup(name.clone(), kind).await {
            Err(NetError::Proto(_)) => ways.over_tcp.lookup(name.clone(), kind).await,
            lookup => lookup,
        };
        let now = Instant::now();
        let lasts = lasts(&lookup, now);
        let answer = answer_of(lookup, kind);
        ways.cache.put(key, &answer, lasts, now);
        answer
    }
}

/// How long an answer counts: as its records say, and that there are none, as the zone does (RFC 2308 §5).
fn lasts(lookup: &Result<Lookup, NetError>, now: Instant) -> Duration {
    match lookup {
        Ok(lookup) => lookup.valid_until().saturating_duration_since(now),
        Err(NetError::Dns(NetDnsError::NoRecordsFound(none))) => {
            Duration::from_secs(none.negative_ttl.unwrap_or(0).into())
        }
        Err(_) => Duration::ZERO,
    }
}

fn answer_of(lookup: Result<Lookup, NetError>, kind: RecordType) -> Answer {
    let lookup = lookup.map_err(|error| error_of(&error))?;
    // Aliases on the way there are among them.
    let records = lookup.answers().iter().filter(|record| record.record_type() == kind);
    let values: Arc<[Value]> = records.filter_map(Value::of).collect();
    if values.is_empty() { Err(DnsError::NoRecords) } else { Ok(values) }
}

/// The name servers of `config`, or those of the system.
fn servers(config: &config::Dns) -> Result<Vec<NameServerConfig>, NetError> {
    if config.servers.is_empty() {
        return Ok(read_system_conf()?.0.name_servers);
    }
    let server = |server: &SocketAddr| {
        let mut entry = NameServerConfig::udp_and_tcp(server.ip());
        for connection in &mut entry.connections {
            connection.port = server.port();
        }
        entry
    };
    Ok(config.servers.iter().map(server).collect())
}

fn without_udp(mut server: NameServerConfig) -> NameServerConfig {
    server.connections.retain(|connection| connection.protocol != ProtocolConfig::Udp);
    server
}

fn build(config: &config::Dns, servers: Vec<NameServerConfig>) -> Result<TokioResolver, NetError> {
    let parts = ResolverConfig::from_parts(None, Vec::new(), servers);
    let mut builder = TokioResolver::builder_with_config(parts, TokioRuntimeProvider::default());
    set_options(builder.options_mut(), config);
    builder.build()
}

fn set_options(options: &mut ResolverOpts, config: &config::Dns) {
    options.timeout = config.timeout;
    // The library counts what follows the first question.
    options.attempts = usize::from(config.attempts).saturating_sub(1);
    // It would count answers, however large they are: what is remembered is in `cache`.
    options.cache_size = 0;
    // One name server after the other, the quickest first: each that is asked at the same time
    // would double the sockets.
    options.num_concurrent_reqs = 1;
    // A search list would turn a missing domain into one of our own.
    options.ndots = 0;
}

fn error_of(error: &NetError) -> DnsError {
    match error {
        NetError::Dns(NetDnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => DnsError::NoSuchDomain,
            ResponseCode::NoError => DnsError::NoRecords,
            code => DnsError::Transient(format!("the server answered {code}")),
        },
        NetError::Io(error) if lack::is_ours(error) => DnsError::Lack,
        NetError::Busy => DnsError::Lack,
        other => DnsError::Transient(other.to_string()),
    }
}

/// A name to ask for, absolute: no search list is tried.
///
/// # Errors
/// One that the DNS can't have (too long, say, or with an empty label) has no records.
fn absolute(name: &str) -> Result<Name, DnsError> {
    // By the letter: as text for people, names with a `_` within a label would be refused.
    let read = if name.is_ascii() { Name::from_ascii(name) } else { Name::from_utf8(name) };
    let mut name = read.map_err(|_| DnsError::NoSuchDomain)?;
    name.set_fqdn(true);
    Ok(name)
}

/// A name as it is written, lower case, without the final dot.
fn written(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_ascii_lowercase()
}

fn mx_of(record: &Record) -> Option<Mx> {
    let RData::MX(mx) = &record.data else { return None };
    Some(Mx { preference: mx.preference, host: written(&mx.exchange) })
}

impl Dns for Resolver {
    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        let values = self.ask(&absolute(domain)?, RecordType::MX).await?;
        let mx = |value: &Value| match value {
            Value::Mx(mx) => Some(mx.clone()),
            _ => None,
        };
        Ok(values.iter().filter_map(mx).collect())
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let name = absolute(host)?;
        let (six, four) =
            tokio::join!(self.ask(&name, RecordType::AAAA), self.ask(&name, RecordType::A));
        let address = |value: &Value| match value {
            Value::Address(address) => Some(*address),
            _ => None,
        };
        match (six, four) {
            // A host without addresses of one kind may have those of the other, which nobody could tell.
            (Err(DnsError::NoSuchDomain | DnsError::NoRecords), Err(why)) | (Err(why), Err(_)) => {
                Err(why)
            }
            (six, four) => Ok([six, four]
                .iter()
                .flatten()
                .flat_map(|values| values.iter().filter_map(address))
                .collect()),
        }
    }

    async fn ipv4_addresses(&self, host: &str) -> Result<Vec<Ipv4Addr>, DnsError> {
        let values = self.ask(&absolute(host)?, RecordType::A).await?;
        let address = |value: &Value| match value {
            Value::Address(IpAddr::V4(address)) => Some(*address),
            _ => None,
        };
        Ok(values.iter().filter_map(address).collect())
    }

    async fn vouched_mx(&self, domain: &str) -> Result<Vouched<Vec<Mx>>, DnsError> {
        self.ways()?.validated.mx(domain).await
    }

    async fn host_security(&self, host: &str) -> Result<HostSecurity, DnsError> {
        self.ways()?.validated.host(host).await
    }

    async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        self.ways()?.validated.tlsa(name).await
    }

    async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
        let values = self.ask(&absolute(name)?, RecordType::TXT).await?;
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.to_vec()),
            _ => None,
        };
        Ok(values.iter().filter_map(text).collect())
    }

    async fn names(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        let mut name = Name::from(address);
        name.set_fqdn(true);
        let values = self.ask(&name, RecordType::PTR).await?;
        let name = |value: &Value| match value {
            Value::Name(name) => Some(name.to_string()),
            _ => None,
        };
        Ok(values.iter().filter_map(name).collect())
    }
}

#[cfg(test)]
#[path = "../../tests/support/name_server.rs"]
#[allow(dead_code, unreachable_pub)]
mod name_server;

#[cfg(test)]
mod tests {
    use super::name_server::{Fault, NameServer};
    use super::*;
    use std::net::UdpSocket;

    /// One server, asked once and waited for long.
    fn asking(server: SocketAddr) -> config::Dns {
        config::Dns {
            servers: vec![server],
            timeout: Duration::from_secs(10),
            attempts: 1,
            cache_max: 1_000,
            cache_bytes: 1 << 20,
            max_lookups: 16,
            validating: None,
        }
    }

    #[test]
    fn an_answer_that_was_cut_without_saying_so_is_asked_for_over_tcp() {
        let names = NameServer::start();
        let hosts: Vec<String> = (0..41).map(|n| format!("a-long-name-of-a-host-{n:02}")).collect();
        let records: Vec<_> = (0..).zip(&hosts).map(|(n, host)| (n, host.as_str())).collect();
        names.mx("far.test", &records);
        names.fault("far.test", Fault::Cut);
        let config = asking(names.address.parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async { Resolver::new(&config).mx("far.test").await });
        assert_eq!(answer.unwrap().len(), 41);
    }

    #[test]
    fn names_that_no_host_could_have_are_asked_for_and_impossible_ones_do_not_exist() {
        let names = NameServer::start();
        names.txt("a_b._domainkey.far.test", &["v=DKIM1"]);
        let config = asking(names.address.parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let txt = |name: &str| runtime.block_on(async { Resolver::new(&config).txt(name).await });
        assert_eq!(txt("a_b._domainkey.far.test").unwrap(), [b"v=DKIM1"]);
        let label = "x".repeat(60);
        let long = [&label[..]; 5].join(".");
        for impossible in ["a..test", "a b.test", &long, &"x".repeat(64)] {
            assert!(matches!(txt(impossible), Err(DnsError::NoSuchDomain)), "{impossible}");
        }
    }

    /// How often the server is asked in two lookups of the TXT records of a name.
    fn asked_in_two(names: &NameServer, resolver: &Resolver, name: &str) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let before = names.asked();
        for _ in 0..2 {
            runtime.block_on(resolver.txt(name)).unwrap();
        }
        names.asked() - before
    }

    #[test]
    fn a_small_answer_is_remembered_and_a_large_one_is_asked_for_again() {
        let names = NameServer::start();
        names.set_ttl(3_600);
        names.txt("small.test", &["v=spf1 -all"]);
        names.txt("large.test", &[&"x".repeat(20_000)]);
        let resolver = Resolver::new(&asking(names.address.parse().unwrap()));
        assert_eq!(asked_in_two(&names, &resolver, "small.test"), 1);
        // Each time over UDP and, as it does not fit, over TCP.
        assert_eq!(asked_in_two(&names, &resolver, "large.test"), 4);
    }

    #[test]
    fn what_is_remembered_has_a_bound_in_octets() {
        let names = NameServer::start();
        names.set_ttl(3_600);
        let name = |n: usize| format!("n{n}.wild.test");
        for n in 0..40 {
            names.txt(&name(n), &[&"x".repeat(1_000)]);
        }
        let config =
            config::Dns { cache_bytes: 16 << 10, ..asking(names.address.parse().unwrap()) };
        let resolver = Resolver::new(&config);
        assert_eq!(asked_in_two(&names, &resolver, &name(0)), 1);
        for n in 1..40 {
            asked_in_two(&names, &resolver, &name(n));
        }
        assert_eq!(asked_in_two(&names, &resolver, &name(39)), 0);
        assert_eq!(asked_in_two(&names, &resolver, &name(0)), 1);
    }

    #[test]
    fn a_host_whose_ipv4_addresses_could_not_be_asked_for_is_not_one_without_addresses() {
        let names = NameServer::start();
        names.host("far.test", &[]);
        names.fault("far.test", Fault::FailsIpv4);
        let config = asking(names.address.parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async { Resolver::new(&config).addresses("far.test").await });
        assert!(matches!(answer, Err(DnsError::Transient(_))), "{answer:?}");
    }

    /// Questions that a name server which never answers is asked in one lookup.
    fn questions_asked(attempts: u8) -> usize {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = config::Dns {
            timeout: Duration::from_millis(100),
            attempts,
            ..asking(silent.local_addr().unwrap())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async { Resolver::new(&config).mx("far.test").await });
        assert!(matches!(answer, Err(DnsError::Transient(_))), "{answer:?}");
        silent.set_nonblocking(true).unwrap();
        let mut packet = [0; 512];
        std::iter::from_fn(|| silent.recv(&mut packet).ok()).count()
    }

    #[test]
    fn nobody_is_believed_to_validate_unless_the_file_says_so() {
        let why = |address: &str, validating| {
            let config = config::Dns {
                timeout: Duration::from_millis(100),
                validating,
                ..asking(address.parse().unwrap())
            };
            Resolver::new(&config).why_insecure()
        };
        // Docker's, systemd's, anybody's.
        for address in
            ["127.0.0.11:53", "127.0.0.54:53", "127.0.0.1:53", "[::1]:53", "192.0.2.1:53"]
        {
            assert!(why(address, None).is_some_and(|why| why.contains("validating = true")));
            assert!(why(address, Some(false)).is_some());
            assert_eq!(why(address, Some(true)), None);
        }
    }

    #[test]
    fn a_question_is_asked_as_often_as_configured() {
        assert_eq!([1, 2, 3].map(questions_asked), [1, 2, 3]);
    }
}
