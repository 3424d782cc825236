//! Names by way of hickory-resolver.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as NetDnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RData;
use mta::config;
use mta::lack;
use mta::seams::{Dns, DnsError, Mx};
use std::net::IpAddr;

/// UDP sockets that one lookup has open at most: A and AAAA at once, and of each the question
/// and the two that hickory asks again while it waits for the answer.
pub(crate) const SOCKETS_PER_LOOKUP: u64 = 6;

/// A resolver; clones share one cache.
#[derive(Clone)]
pub(crate) struct Resolver {
    resolver: Option<TokioResolver>,
    /// Why there is none.
    trouble: String,
}

impl Resolver {
    /// Asks the servers that `config` names, or those of the system. Without any, every question
    /// is answered with a transient error: mail waits, nothing is returned.
    pub(crate) fn new(config: &config::Dns) -> Resolver {
        match build(config) {
            Ok(resolver) => Resolver { resolver: Some(resolver), trouble: String::new() },
            Err(error) => Resolver { resolver: None, trouble: error.to_string() },
        }
    }

    fn get(&self) -> Result<&TokioResolver, DnsError> {
        self.resolver.as_ref().ok_or_else(|| {
            DnsError::Transient(format!("no resolver is configured: {}", self.trouble))
        })
    }
}

fn build(config: &config::Dns) -> Result<TokioResolver, NetError> {
    let mut builder = if config.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let servers = config
            .servers
            .iter()
            .map(|server| {
                let mut entry = NameServerConfig::udp_and_tcp(server.ip());
                for connection in &mut entry.connections {
                    connection.port = server.port();
                }
                entry
            })
            .collect();
        let parts = ResolverConfig::from_parts(None, Vec::new(), servers);
        TokioResolver::builder_with_config(parts, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = config.timeout;
    // The library counts what follows the first question.
    options.attempts = usize::from(config.attempts).saturating_sub(1);
    options.cache_size = u64::from(config.cache_max);
    // One name server after the other, the quickest first: each that is asked at the same time
    // would double the sockets.
    options.num_concurrent_reqs = 1;
    // A search list would turn a missing domain into one of our own.
    options.ndots = 0;
    builder.build()
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

/// A trailing dot makes a name absolute: no search list is tried.
fn absolute(name: &str) -> String {
    if name.ends_with('.') { name.to_owned() } else { format!("{name}.") }
}

impl Dns for Resolver {
    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        let answer = self.get()?.mx_lookup(absolute(domain)).await;
        let lookup = answer.map_err(|error| error_of(&error))?;
        let records = lookup
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::MX(mx) => Some(Mx {
                    preference: mx.preference,
                    host: mx.exchange.to_ascii().trim_end_matches('.').to_ascii_lowercase(),
                }),
                _ => None,
            })
            .collect::<Vec<_>>();
        if records.is_empty() { Err(DnsError::NoRecords) } else { Ok(records) }
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let answer = self.get()?.lookup_ip(absolute(host)).await;
        answer.map(|lookup| lookup.iter().collect()).map_err(|error| error_of(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// Questions that a name server which never answers is asked in one lookup.
    fn questions_asked(attempts: u8) -> usize {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = config::Dns {
            servers: vec![silent.local_addr().unwrap()],
            timeout: Duration::from_millis(100),
            attempts,
            cache_max: 16,
            max_lookups: 16,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async { Resolver::new(&config).mx("far.test").await });
        assert!(matches!(answer, Err(DnsError::Transient(_))), "{answer:?}");
        silent.set_nonblocking(true).unwrap();
        let mut packet = [0; 512];
        std::iter::from_fn(|| silent.recv(&mut packet).ok()).count()
    }

    #[test]
    fn a_question_is_asked_as_often_as_configured() {
        assert_eq!([1, 2, 3].map(questions_asked), [1, 2, 3]);
    }
}
