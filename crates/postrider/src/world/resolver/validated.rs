//! DNSSEC answers that name servers have validated, as shown by the AD bit (RFC 4035 §3.2.3). Only servers count that
//! the configuration declares trustworthy, including the network path to them.
//!
//! Nothing is cached here, since these servers are near and have caches of their own.

use super::servers::{Servers, UpstreamResolver};
use super::{absolute, error_of, known_code, mx_of, negative_lasts, written};
use auth::tlsa::Tlsa;
use hickory_resolver::config::ResolverOpts;
use hickory_resolver::net::NetError;
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer};
use hickory_resolver::proto::op::{DnsRequestOptions, DnsResponse, Query};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use mta::seams::{DnsError, HostSecurity, Mx, Vouched};
use std::sync::Arc;
use std::time::Duration;

/// Aliases that are followed in one answer.
const ALIASES_MAX: usize = 16;

/// Asks validating name servers.
#[derive(Clone)]
pub(super) struct ValidatingResolver {
    servers: Arc<Servers>,
    request: DnsRequestOptions,
    /// The reason why the AD bit of these servers does not count.
    why_insecure: Option<&'static str>,
}

impl ValidatingResolver {
    pub(super) fn new(config: &config::Dns, servers: Arc<Servers>) -> ValidatingResolver {
        let mut request = DnsRequestOptions::default();
        // RFC 6840 §5.7, §5.8: a query with DO gets AD in the response.
        request.edns_set_dnssec_ok = true;
        request.edns_payload_len = ResolverOpts::default().edns_payload_len;
        let why_insecure = match config.validating {
            Some(true) => None,
            Some(false) => Some("`validating` of [dns] is false"),
            // A server on this machine is not trusted by default: many only forward.
            None => Some("`validating = true` is not set in [dns]"),
        };
        ValidatingResolver { servers, request, why_insecure }
    }

    /// The reason why no answer counts as secure, if so.
    pub(super) fn why_insecure(&self) -> Option<&'static str> {
        self.why_insecure
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Result<DnsResponse, DnsError> {
        let name = absolute(name)?;
        let asked = self.look_up(&name, kind).await;
        asked.map_err(|error| error_of(&error))
    }

    async fn look_up(&self, name: &Name, kind: RecordType) -> Result<DnsResponse, NetError> {
        let question = async |server: &UpstreamResolver| {
            let query = Query::query(name.clone(), kind);
            let response = server.validating.lookup(query, self.request).first_answer().await?;
            known_code(response.response_code)?;
            Ok(response)
        };
        self.servers.ask(question).await
    }

    fn is_secure(&self, response: &DnsResponse) -> bool {
        self.why_insecure.is_none() && response.authentic_data
    }

    async fn records<T>(
        &self,
        name: &str,
        kind: RecordType,
        of: impl Fn(&Record) -> Option<T>,
    ) -> Result<Vouched<Vec<T>>, DnsError> {
        self.vouched(&self.ask(name, kind).await?, of)
    }

    fn vouched<T>(
        &self,
        response: &DnsResponse,
        of: impl Fn(&Record) -> Option<T>,
    ) -> Result<Vouched<Vec<T>>, DnsError> {
        let answer: Vec<T> = response.answers.iter().filter_map(of).collect();
        if answer.is_empty() {
            return Err(DnsError::NoRecords);
        }
        Ok(Vouched { answer, is_secure: self.is_secure(response) })
    }

    /// The records or a negative answer, and the lifetime.
    pub(super) async fn mx(&self, domain: &str) -> (Result<Vouched<Vec<Mx>>, DnsError>, Duration) {
        let name = match absolute(domain) {
            Ok(name) => name,
            Err(error) => return (Err(error), Duration::ZERO),
        };
        let response = match self.look_up(&name, RecordType::MX).await {
            Ok(response) => response,
            Err(error) => return (Err(error_of(&error)), negative_lasts(&error)),
        };
        let ttl = response.answers.iter().map(|record| record.ttl).min().unwrap_or(0);
        (self.vouched(&response, mx_of), Duration::from_secs(ttl.into()))
    }

    pub(super) async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        self.records(name, RecordType::TLSA, tlsa_of).await
    }

    pub(super) async fn host(&self, host: &str) -> Result<HostSecurity, DnsError> {
        let is_address = |record: &Record| matches!(record.data, RData::A(_) | RData::AAAA(_));
        let mut response = match self.ask(host, RecordType::A).await {
            Err(DnsError::NoRecords) => self.ask(host, RecordType::AAAA).await?,
            answer => answer?,
        };
        if !response.answers.iter().any(is_address) {
            response = self.ask(host, RecordType::AAAA).await?;
        }
        if !response.answers.iter().any(is_address) {
            return Err(DnsError::NoRecords);
        }
        let (alias, is_secure) = (alias_of(host, &response), self.is_secure(&response));
        let is_alias_secure = match alias {
            None => is_secure,
            Some(_) if is_secure => true,
            Some(_) => self.is_secure(&self.ask(host, RecordType::CNAME).await?),
        };
        Ok(HostSecurity { alias, is_secure, is_alias_secure })
    }
}

/// The target of a host's aliases.
fn alias_of(host: &str, response: &DnsResponse) -> Option<String> {
    let mut end = host.to_ascii_lowercase();
    for _ in 0..ALIASES_MAX {
        let next = response.answers.iter().find_map(|record| match &record.data {
            RData::CNAME(to) if written(&record.name) == end => Some(written(to)),
            _ => None,
        });
        match next {
            Some(next) => end = next,
            None => break,
        }
    }
    (end != host.to_ascii_lowercase()).then_some(end)
}

fn tlsa_of(record: &Record) -> Option<Tlsa> {
    let RData::TLSA(tlsa) = &record.data else { return None };
    Some(Tlsa {
        usage: tlsa.cert_usage.into(),
        selector: tlsa.selector.into(),
        matching: tlsa.matching.into(),
        data: tlsa.cert_data.as_slice().into(),
    })
}
