//! DNS lookups with hickory-resolver.

mod cache;
mod servers;
mod system;
mod validated;

use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::services::{Adoption, CandidateConfig, Service, nothing_to_adopt};
use auth::tlsa::Tlsa;
use cache::{Cache, CachedRecords, DnsQuestion, Value};
use config::Problem;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError as NetDnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use mta::console::{Console as _, Level};
use mta::lack;
use mta::seams::{Dns, DnsError, HostSecurity, Mx, Vouched};
use servers::Servers;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use system::{ResolverFiles, System};
use validated::ValidatingResolver;

/// Maximum number of UDP sockets per lookup: A and AAAA at once, each with the query and two retries by hickory.
pub(crate) const SOCKETS_PER_LOOKUP: u64 = 6;

/// A resolver; clones share one cache.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<ResolverInner>);

struct ResolverInner {
    state: Mutex<State>,
    console: Option<Arc<ConsoleLog>>,
}

/// The current state of a resolver.
struct State {
    config: config::Dns,
    system: System,
    /// Number of times these files were read.
    systems_read: u64,
    ways: ResolverSetupResult,
}

/// `Err` with the reason if there are no servers.
type ResolverSetupResult = Result<Arc<ResolverSetup>, String>;

/// Name servers with their cache.
struct ResolverSetup {
    servers: Arc<Servers>,
    cache: Cache,
    validated: ValidatingResolver,
}

impl ResolverSetup {
    fn new(
        config: &config::Dns,
        system: &System,
        console: Option<&Arc<ConsoleLog>>,
    ) -> Result<Arc<ResolverSetup>, String> {
        let servers = servers::servers(config, system)?;
        let servers = Servers::new(config, servers, &system.hosts, console.cloned());
        let servers = Arc::new(servers.map_err(|error| error.to_string())?);
        let cache = Cache::new(config.cache_max, config.cache_bytes);
        let validated = ValidatingResolver::new(config, Arc::clone(&servers));
        Ok(Arc::new(ResolverSetup { servers, cache, validated }))
    }
}

impl ResolverInner {
    fn new(
        config: &config::Dns,
        system: System,
        console: Option<&Arc<ConsoleLog>>,
    ) -> Arc<ResolverInner> {
        let ways = ResolverSetup::new(config, &system, console);
        let state = Mutex::new(State { config: config.clone(), system, systems_read: 1, ways });
        Arc::new(ResolverInner { state, console: console.cloned() })
    }

    /// Goes by other files of the system.
    fn adopt_system(&self, system: System) {
        let mut state = lock(&self.state);
        state.system = system.after(&state.system);
        state.systems_read += 1;
        state.ways = ResolverSetup::new(&state.config, &state.system, self.console.as_ref());
    }

    fn info(&self, text: std::fmt::Arguments<'_>) {
        if let Some(console) = &self.console {
            console.line(Level::Info, "name_servers", text);
        }
    }
}

impl Service for Resolver {
    fn name(&self) -> &'static str {
        "name servers"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let prepared = self.prepared(&next.config.dns);
        let prepared = prepared.map_err(|why| vec![next.config.mistake_at("dns.servers", why)])?;
        let Some(prepared) = prepared else { return Ok(nothing_to_adopt()) };
        let (this, config) = (self.clone(), Arc::clone(next.config));
        Ok(Box::new(move || this.adopt(&config.dns, prepared)))
    }
}

impl Resolver {
    /// Queries the servers in `config`, or the system's current ones. Without any, every lookup fails with a transient
    /// error: mail waits, and nothing is bounced.
    pub(crate) fn new(config: &config::Dns) -> Resolver {
        Resolver(ResolverInner::new(config, System::read(&ResolverFiles::of_system()), None))
    }

    /// As [`new`](Self::new), and follows changes of the system's files while it exists.
    pub(crate) fn following(
        config: &config::Dns,
        watch: &FileWatch,
        console: &Arc<ConsoleLog>,
    ) -> Resolver {
        Resolver::following_at(config, &ResolverFiles::of_system(), watch, console)
    }

    fn following_at(
        config: &config::Dns,
        at: &ResolverFiles,
        watch: &FileWatch,
        console: &Arc<ConsoleLog>,
    ) -> Resolver {
        let (system, mut looks) = system::first(at);
        let inner = ResolverInner::new(config, system, Some(console));
        watch.follow_every(system::LOOK_EVERY, &inner, move |inner| looks.look(inner));
        Resolver(inner)
    }

    /// Prepares the setup for a new configuration, with the version of the system's files; `None` if the settings are
    /// equal.
    ///
    /// # Errors
    /// Returns the reason if its name servers are unusable.
    fn prepared(&self, config: &config::Dns) -> Result<Option<(u64, ResolverSetupResult)>, String> {
        let state = lock(&self.0.state);
        if state.config == *config {
            return Ok(None);
        }
        let ways = ResolverSetup::new(config, &state.system, self.0.console.as_ref());
        match ways {
            // The system's servers may appear later; a configuration without usable servers is wrong.
            Err(why) if !config.servers.is_empty() => Err(format!("name servers: {why}")),
            ways => Ok(Some((state.systems_read, ways))),
        }
    }

    /// Applies a configuration, and clears the cache, since other servers may have different answers.
    fn adopt(&self, config: &config::Dns, (systems_read, ways): (u64, ResolverSetupResult)) {
        let mut state = lock(&self.0.state);
        state.ways = match state.systems_read == systems_read {
            true => ways,
            // Files of the system have changed since.
            false => ResolverSetup::new(config, &state.system, self.0.console.as_ref()),
        };
        state.config = config.clone();
    }

    fn ways(&self) -> Result<Arc<ResolverSetup>, DnsError> {
        let none = |trouble| DnsError::Transient(format!("no resolver is configured: {trouble}"));
        lock(&self.0.state).ways.clone().map_err(none)
    }

    /// The reason why no answer counts as secure, if so.
    pub(crate) fn why_insecure(&self) -> Option<&'static str> {
        lock(&self.0.state).ways.as_ref().ok().and_then(|ways| ways.validated.why_insecure())
    }

    /// The cached answer.
    fn at_hand(&self, name: &Name, kind: RecordType) -> Option<CachedRecords> {
        self.ways().ok()?.cache.get(&DnsQuestion::new(name, kind), Instant::now())
    }

    /// Queries, unless the answer is cached. A malformed response is followed by a query over TCP.
    async fn ask(&self, name: &Name, kind: RecordType) -> CachedRecords {
        let ways = self.ways()?;
        let key = DnsQuestion::new(name, kind);
        if let Some(known) = ways.cache.get(&key, Instant::now()) {
            return known;
        }
        let lookup = ways.servers.ask(async |server| {
            let lookup = match server.usual.lookup(name.clone(), kind).await {
                Err(NetError::Proto(_)) => server.over_tcp.lookup(name.clone(), kind).await,
                lookup => lookup,
            }?;
            known_code(lookup.message().response_code)?;
            Ok(lookup)
        });
        let lookup = lookup.await;
        let now = Instant::now();
        let lasts = lasts(&lookup, now);
        let answer = answer_of(lookup, kind);
        ways.cache.put(key, &answer, lasts, now);
        answer
    }
}

/// Returns true if an error is the answer to the query, not a failure of one server: the name does not exist, or has no
/// records of the type. A referral is no answer.
fn has_ended(error: &NetError) -> bool {
    let NetError::Dns(NetDnsError::NoRecordsFound(none)) = error else { return false };
    let is_referral = none.soa.is_none() && none.ns.is_some();
    match none.response_code {
        ResponseCode::NXDomain => true,
        ResponseCode::NoError => !is_referral,
        _ => false,
    }
}

/// # Errors
/// Returns an error for a code that the library passes as an answer, because it is unassigned (RFC 6895 §2.3).
fn known_code(code: ResponseCode) -> Result<(), NetError> {
    match code {
        ResponseCode::NoError | ResponseCode::NXDomain => Ok(()),
        code => Err(NetDnsError::ResponseCode(code).into()),
    }
}

/// Lifetime of an answer: the TTL of its records, or for a negative one that of the zone (RFC 2308 §5).
fn lasts(lookup: &Result<Lookup, NetError>, now: Instant) -> Duration {
    match lookup {
        Ok(lookup) => lookup.valid_until().saturating_duration_since(now),
        Err(error) => negative_lasts(error),
    }
}

fn negative_lasts(error: &NetError) -> Duration {
    match error {
        NetError::Dns(NetDnsError::NoRecordsFound(none)) => {
            Duration::from_secs(none.negative_ttl.unwrap_or(0).into())
        }
        _ => Duration::ZERO,
    }
}

fn answer_of(lookup: Result<Lookup, NetError>, kind: RecordType) -> CachedRecords {
    let lookup = lookup.map_err(|error| error_of(&error))?;
    // The answers include the aliases on the path.
    let records = lookup.answers().iter().filter(|record| record.record_type() == kind);
    let values: Arc<[Value]> = records.filter_map(Value::of).collect();
    if values.is_empty() { Err(DnsError::NoRecords) } else { Ok(values) }
}

fn error_of(error: &NetError) -> DnsError {
    match error {
        NetError::Dns(NetDnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => DnsError::NoSuchDomain,
            ResponseCode::NoError if has_ended(error) => DnsError::NoRecords,
            ResponseCode::NoError => DnsError::Transient("the server refuses recursion".to_owned()),
            code => DnsError::Transient(format!("the server returned {code}")),
        },
        NetError::Io(error) if lack::is_ours(error) => DnsError::Lack,
        NetError::Busy => DnsError::Lack,
        other => DnsError::Transient(other.to_string()),
    }
}

/// An absolute name for a query: no search list is tried.
///
/// # Errors
/// Returns an error for a name that the DNS cannot have (for example too long, or with an empty label): it has no
/// records.
fn absolute(name: &str) -> Result<Name, DnsError> {
    let relative = name.strip_suffix('.').unwrap_or(name);
    let read = match name.is_ascii() {
        true if relative.is_empty() => Ok(Name::root()),
        // RFC 2181 §11: a label may have any octets. The text parser would treat a backslash as an escape, and refuse
        // characters not allowed in host names. Local parts in SPF macros have them (RFC 7208 §7.3).
        true => Name::from_labels(relative.split('.').map(str::as_bytes)),
        false => Name::from_utf8(name),
    };
    let mut name = read.map_err(|_| DnsError::NoSuchDomain)?;
    name.set_fqdn(true);
    Ok(name)
}

/// The text of a name in lower case, without the final dot. Labels are unchanged, so that the name can be queried. If
/// that would be a different name, it has escapes (RFC 1035 §5.1) and cannot be queried.
fn written(name: &Name) -> String {
    let is_plain = |label: &[u8]| {
        label.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'.' | b'\\'))
    };
    if !name.iter().all(is_plain) {
        return name.to_ascii().trim_end_matches('.').to_ascii_lowercase();
    }
    let mut text = String::with_capacity(name.len());
    for label in name.iter() {
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    text
}

fn mx_of(record: &Record) -> Option<Mx> {
    let RData::MX(mx) = &record.data else { return None };
    Some(Mx { preference: mx.preference, host: written(&mx.exchange) })
}

fn mx_of_answer(answer: CachedRecords) -> Result<Vec<Mx>, DnsError> {
    let mx = |value: &Value| match value {
        Value::Mx(mx) => Some(mx.clone()),
        _ => None,
    };
    Ok(answer?.iter().filter_map(mx).collect())
}

fn texts_of(answer: CachedRecords) -> Result<Vec<Vec<u8>>, DnsError> {
    let text = |value: &Value| match value {
        Value::Text(text) => Some(text.to_vec()),
        _ => None,
    };
    Ok(answer?.iter().filter_map(text).collect())
}

fn names_of(answer: CachedRecords) -> Result<Vec<String>, DnsError> {
    let name = |value: &Value| match value {
        Value::Name(name) => Some(name.to_string()),
        _ => None,
    };
    Ok(answer?.iter().filter_map(name).collect())
}

/// RFC 1035 §3.5.
fn reverse(address: IpAddr) -> Name {
    let mut name = Name::from(address);
    name.set_fqdn(true);
    name
}

/// The addresses of both families.
fn addresses_of(six: CachedRecords, four: CachedRecords) -> Result<Vec<IpAddr>, DnsError> {
    let address = |value: &Value| match value {
        Value::Address(address) => Some(*address),
        _ => None,
    };
    match (six, four) {
        // A host without addresses of one family may have some of the other, for which the lookup failed.
        (Err(DnsError::NoSuchDomain | DnsError::NoRecords), Err(why)) | (Err(why), Err(_)) => {
            Err(why)
        }
        (six, four) => {
            let all = [six, four];
            Ok(all.iter().flatten().flat_map(|of| of.iter().filter_map(address)).collect())
        }
    }
}

impl Dns for Resolver {
    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        mx_of_answer(self.ask(&absolute(domain)?, RecordType::MX).await)
    }

    fn mx_at_hand(&self, domain: &str) -> Option<Result<Vec<Mx>, DnsError>> {
        self.at_hand(&absolute(domain).ok()?, RecordType::MX).map(mx_of_answer)
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let name = absolute(host)?;
        let (six, four) =
            tokio::join!(self.ask(&name, RecordType::AAAA), self.ask(&name, RecordType::A));
        addresses_of(six, four)
    }

    fn addresses_at_hand(&self, host: &str) -> Option<Result<Vec<IpAddr>, DnsError>> {
        let name = absolute(host).ok()?;
        let at_hand = |kind| self.at_hand(&name, kind);
        Some(addresses_of(at_hand(RecordType::AAAA)?, at_hand(RecordType::A)?))
    }

    async fn ipv4_addresses(&self, host: &str) -> Result<Vec<Ipv4Addr>, DnsError> {
        let values = self.ask(&absolute(host)?, RecordType::A).await?;
        let address = |value: &Value| match value {
            Value::Address(IpAddr::V4(address)) => Some(*address),
            _ => None,
        };
        Ok(values.iter().filter_map(address).collect())
    }

    fn mx_lasts(&self, domain: &str) -> Duration {
        let Ok(name) = absolute(domain) else { return Duration::ZERO };
        let Ok(ways) = self.ways() else { return Duration::ZERO };
        ways.cache.lasts(&DnsQuestion::new(&name, RecordType::MX), Instant::now())
    }

    fn forget(&self, domain: &str) {
        let (Ok(name), Ok(ways)) = (absolute(domain), self.ways()) else { return };
        let hosts = ways.cache.forget(&DnsQuestion::new(&name, RecordType::MX));
        let hosts = hosts.iter().filter_map(|value| match value {
            Value::Mx(mx) => absolute(&mx.host).ok(),
            _ => None,
        });
        for host in hosts.chain([name]) {
            for kind in [RecordType::A, RecordType::AAAA] {
                ways.cache.forget(&DnsQuestion::new(&host, kind));
            }
        }
    }

    async fn vouched_mx(&self, domain: &str) -> Result<Vouched<Vec<Mx>>, DnsError> {
        let ways = self.ways()?;
        let (vouched, lasts) = ways.validated.mx(domain).await;
        // Cache it for its lifetime, so that lookups without DNSSEC need no second query.
        let answer = match &vouched {
            Ok(vouched) => Ok(vouched.answer.iter().cloned().map(Value::Mx).collect()),
            Err(error) => Err(error.clone()),
        };
        let key = DnsQuestion::new(&absolute(domain)?, RecordType::MX);
        ways.cache.put(key, &answer, lasts, Instant::now());
        vouched
    }

    async fn host_security(&self, host: &str) -> Result<HostSecurity, DnsError> {
        self.ways()?.validated.host(host).await
    }

    async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        self.ways()?.validated.tlsa(name).await
    }

    async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
        texts_of(self.ask(&absolute(name)?, RecordType::TXT).await)
    }

    fn txt_at_hand(&self, name: &str) -> Option<Result<Vec<Vec<u8>>, DnsError>> {
        self.at_hand(&absolute(name).ok()?, RecordType::TXT).map(texts_of)
    }

    async fn names(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        names_of(self.ask(&reverse(address), RecordType::PTR).await)
    }

    fn names_at_hand(&self, address: IpAddr) -> Option<Result<Vec<String>, DnsError>> {
        self.at_hand(&reverse(address), RecordType::PTR).map(names_of)
    }
}

#[cfg(test)]
#[path = "../../tests/support/name_server.rs"]
#[allow(dead_code, unreachable_pub)]
mod name_server;

#[cfg(test)]
mod tests;
