//! Name servers, queried one after the other until one answers.
//!
//! The library skips silent servers but accepts any response: a server that refuses is the fastest of all and would be
//! queried forever. So each server has its own pool, and this module selects the server as libc and c-ares do: in
//! configured order, with recently failed servers last.

use super::system::System;
use super::{error_of, has_ended};
use crate::console::ConsoleLog;
use crate::mutex::lock;
use hickory_resolver::config::{
    NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{Hosts, NameServerPool, PoolContext, TlsConfig, TokioResolver};
use mta::console::{Console as _, Level};
use mta::lack;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time for which a failed server is queried last, doubled after each further failure.
const ASIDE_MIN: Duration = Duration::from_secs(5);
/// No longer than that, so that one which is well again is soon found out.
const ASIDE_MAX: Duration = Duration::from_secs(300);
/// Number of failures in a row after which a failure is logged.
const FAILURES_TOLD: u32 = 3;

/// A name server.
pub(super) struct UpstreamResolver {
    address: String,
    pub(super) usual: TokioResolver,
    /// For malformed responses: a server that sends more than the agreed size without setting TC is queried over TCP
    /// (RFC 7766 §5).
    pub(super) over_tcp: TokioResolver,
    pub(super) validating: NameServerPool<TokioRuntimeProvider>,
    standing: Mutex<UpstreamHealth>,
}

/// Results of queries to a server.
#[derive(Debug, Default)]
struct UpstreamHealth {
    /// Questions in a row that it failed and another server answered.
    failures: u32,
    /// Queried last until then.
    aside_until: Option<Instant>,
}

impl UpstreamHealth {
    /// Returns true if it is queried last. At the end of its time one query probes it, and all other queries still
    /// avoid it.
    fn is_aside(&mut self, now: Instant) -> bool {
        let Some(until) = self.aside_until else { return false };
        if now < until {
            return true;
        }
        self.aside_until = Some(now + self.aside());
        false
    }

    fn aside(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        (ASIDE_MIN * (1 << doublings)).min(ASIDE_MAX)
    }
}

/// All name servers.
pub(super) struct Servers {
    each: Vec<UpstreamResolver>,
    /// Number of attempts per server for one query.
    rounds: u8,
    console: Option<Arc<ConsoleLog>>,
}

impl Servers {
    pub(super) fn new(
        config: &config::Dns,
        servers: Vec<NameServerConfig>,
        hosts: &Arc<Hosts>,
        console: Option<Arc<ConsoleLog>>,
    ) -> Result<Servers, NetError> {
        let server = |server: NameServerConfig| {
            let address = address_of(&server);
            let usual = build(config, server.clone(), hosts)?;
            let over_tcp = build(config, without_udp(server.clone()), hosts)?;
            let validating = pool(config, server)?;
            Ok(UpstreamResolver {
                address,
                usual,
                over_tcp,
                validating,
                standing: Mutex::default(),
            })
        };
        let each = servers.into_iter().map(server).collect::<Result<_, NetError>>()?;
        Ok(Servers { each, rounds: config.attempts.max(1), console })
    }

    /// Queries one server after the other until one answers; a negative answer counts. A failure counts against a
    /// server only if another one answers the same query, because zones fail too.
    ///
    /// # Errors
    /// Returns the error of the first server, or an exhaustion of this machine.
    pub(super) async fn ask<T>(
        &self,
        question: impl AsyncFn(&UpstreamResolver) -> Result<T, NetError>,
    ) -> Result<T, NetError> {
        let order = self.order(Instant::now());
        let mut first = None;
        let mut failed: Vec<(usize, String)> = Vec::new();
        for _ in 0..self.rounds {
            for &number in &order {
                let mut answer = question(&self.each[number]).await;
                // RFC 7766 §6.2.4: repeat queries of a closed connection.
                if answer.as_ref().is_err_and(was_cut_off) {
                    answer = question(&self.each[number]).await;
                }
                let error = match answer {
                    Err(error) if !has_ended(&error) => error,
                    answer => {
                        self.note(number, &failed);
                        return answer;
                    }
                };
                match &error {
                    // The next server would have no socket either.
                    NetError::Io(io) if lack::is_ours(io) => return Err(error),
                    NetError::Busy => {}
                    _ => failed.push((number, error_of(&error).to_string())),
                }
                first.get_or_insert(error);
            }
        }
        Err(first.unwrap_or(NetError::NoConnections))
    }

    /// The servers in the current order of queries.
    fn order(&self, now: Instant) -> Vec<usize> {
        let mut order: Vec<(bool, usize)> = (0..)
            .zip(&self.each)
            .map(|(number, server)| (lock(&server.standing).is_aside(now), number))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, number)| number).collect()
    }

    /// Records that one server answered and the ones before it failed.
    fn note(&self, answered: usize, failed: &[(usize, String)]) {
        let well = &self.each[answered];
        let before = std::mem::take(&mut *lock(&well.standing));
        if before.failures >= FAILURES_TOLD {
            self.warn(format_args!("name server {} recovered", well.address));
        }
        let now = Instant::now();
        for (number, why) in failed.iter().filter(|(number, _)| *number != answered) {
            let server = &self.each[*number];
            let mut standing = lock(&server.standing);
            standing.failures = standing.failures.saturating_add(1);
            standing.aside_until = Some(now + standing.aside());
            let is_news = standing.failures == FAILURES_TOLD;
            drop(standing);
            if is_news {
                let address = &server.address;
                self.warn(format_args!("name server {address} fails, used last reason={why:?}"));
            }
        }
    }

    fn warn(&self, text: std::fmt::Arguments<'_>) {
        if let Some(console) = &self.console {
            console.line(Level::Warn, "name_servers", text);
        }
    }
}

/// The name servers of `config`, or of the system.
///
/// # Errors
/// Returns the reason if there is no name server.
pub(super) fn servers(
    config: &config::Dns,
    system: &System,
) -> Result<Vec<NameServerConfig>, String> {
    if config.servers.is_empty() {
        return system.servers.clone();
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

fn address_of(server: &NameServerConfig) -> String {
    let port = server.connections.first().map_or(53, |connection| connection.port);
    SocketAddr::new(server.ip, port).to_string()
}

fn without_udp(mut server: NameServerConfig) -> NameServerConfig {
    server.connections.retain(|connection| connection.protocol != ProtocolConfig::Udp);
    server
}

fn build(
    config: &config::Dns,
    server: NameServerConfig,
    hosts: &Arc<Hosts>,
) -> Result<TokioResolver, NetError> {
    let parts = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let mut builder = TokioResolver::builder_with_config(parts, TokioRuntimeProvider::default());
    set_options(builder.options_mut(), config);
    let mut resolver = builder.build()?;
    resolver.set_hosts(Arc::clone(hosts));
    Ok(resolver)
}

fn pool(
    config: &config::Dns,
    server: NameServerConfig,
) -> Result<NameServerPool<TokioRuntimeProvider>, NetError> {
    let mut options = ResolverOpts::default();
    set_options(&mut options, config);
    let context = Arc::new(PoolContext::new(options, TlsConfig::new()?));
    Ok(NameServerPool::from_config([server], context, TokioRuntimeProvider::default()))
}

fn set_options(options: &mut ResolverOpts, config: &config::Dns) {
    options.timeout = config.timeout;
    // One query per server, then the next server: see `Servers::ask`.
    options.attempts = 0;
    // The library's cache would count answers of any size; ours is in `cache`.
    options.cache_size = 0;
    options.num_concurrent_reqs = 1;
    // A search list would turn a missing domain into one of our own.
    options.ndots = 0;
    // The library would read the file on the current thread.
    options.use_hosts_file = ResolveHosts::Never;
}

/// Returns true if the connection ended before the answer. All its pending queries fail then, though the server may
/// have closed it because of one query, or as idle.
fn was_cut_off(error: &NetError) -> bool {
    // The library's text for queries pending on a closed connection.
    error.is_connection_closed() || matches!(error, NetError::Message("receiver was canceled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_failed_is_asked_last_and_for_longer_each_time() {
        let mut standing = UpstreamHealth::default();
        let now = Instant::now();
        assert!(!standing.is_aside(now));
        for (failures, aside) in [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (u32::MAX, 300)] {
            standing.failures = failures;
            let aside = Duration::from_secs(aside);
            assert_eq!(standing.aside(), aside, "{failures}");
            standing.aside_until = Some(now + aside);
            assert!(standing.is_aside(now + aside - Duration::from_millis(1)));
            // One question finds out; those that come meanwhile go elsewhere.
            assert!(!standing.is_aside(now + aside));
            assert!(standing.is_aside(now + aside));
        }
    }
}
