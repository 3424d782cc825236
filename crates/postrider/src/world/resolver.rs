//! Names by way of hickory-resolver.

mod validated;

use auth::tlsa::Tlsa;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ProtocolConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as NetDnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record};
use hickory_resolver::system_conf::read_system_conf;
use mta::lack;
use mta::seams::{Dns, DnsError, HostSecurity, Mx, Vouched};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
            Ok(Ways { usual, over_tcp, validated })
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

    /// Asks, and once more over TCP if the answer could not be read.
    async fn ask<T>(
        &self,
        question: impl AsyncFn(&TokioResolver) -> Result<T, NetError>,
    ) -> Result<T, DnsError> {
        let ways = self.ways()?;
        let answer = match question(&ways.usual).await {
            Err(NetError::Proto(_)) => question(&ways.over_tcp).await,
            answer => answer,
        };
        answer.map_err(|error| error_of(&error))
    }
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
    options.cache_size = u64::from(config.cache_max);
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
        let name = absolute(domain)?;
        let lookup = self.ask(async |resolver| resolver.mx_lookup(name.clone()).await).await?;
        let records = lookup.answers().iter().filter_map(mx_of).collect::<Vec<_>>();
        if records.is_empty() { Err(DnsError::NoRecords) } else { Ok(records) }
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let name = absolute(host)?;
        let lookup = self.ask(async |resolver| resolver.lookup_ip(name.clone()).await).await?;
        Ok(lookup.iter().collect())
    }

    async fn ipv4_addresses(&self, host: &str) -> Result<Vec<Ipv4Addr>, DnsError> {
        let name = absolute(host)?;
        let lookup = self.ask(async |resolver| resolver.ipv4_lookup(name.clone()).await).await?;
        let address = |record: &Record| match &record.data {
            RData::A(a) => Some(a.0),
            _ => None,
        };
        Ok(lookup.answers().iter().filter_map(address).collect())
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
        let name = absolute(name)?;
        let lookup = self.ask(async |resolver| resolver.txt_lookup(name.clone()).await).await?;
        let text = |record: &Record| match &record.data {
            RData::TXT(txt) => Some(txt.txt_data.concat()),
            _ => None,
        };
        Ok(lookup.answers().iter().filter_map(text).collect())
    }

    async fn names(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        let lookup = self.ask(async |resolver| resolver.reverse_lookup(address).await).await?;
        let name = |record: &Record| match &record.data {
            RData::PTR(ptr) => Some(ptr.to_ascii().trim_end_matches('.').to_ascii_lowercase()),
            _ => None,
        };
        Ok(lookup.answers().iter().filter_map(name).collect())
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
    use std::time::Duration;

    /// One server, asked once and waited for long.
    fn asking(server: SocketAddr) -> config::Dns {
        config::Dns {
            servers: vec![server],
            timeout: Duration::from_secs(10),
            attempts: 1,
            cache_max: 16,
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
