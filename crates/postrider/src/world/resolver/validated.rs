//! Answers that name servers have validated by DNSSEC, who say so by the AD bit (RFC 4035 §3.2.3): such as
//! the file says can be trusted, the way to them included.
//!
//! Nothing is remembered here: the servers do that, and they are near.

use super::{absolute, error_of, mx_of, set_options, written};
use auth::tlsa::Tlsa;
use hickory_resolver::config::{NameServerConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer, RetryDnsHandle};
use hickory_resolver::proto::op::{DnsRequestOptions, DnsResponse, Query, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};
use mta::seams::{DnsError, HostSecurity, Mx, Vouched};
use std::sync::Arc;

/// Aliases that are followed in one answer.
const ALIASES_MAX: usize = 16;

/// Asks validating name servers.
#[derive(Clone)]
pub(super) struct Validated {
    handle: RetryDnsHandle<NameServerPool<TokioRuntimeProvider>>,
    request: DnsRequestOptions,
    /// Why what the servers say of it doesn't count.
    why_insecure: Option<&'static str>,
}

impl Validated {
    pub(super) fn new(
        config: &config::Dns,
        servers: &[NameServerConfig],
    ) -> Result<Validated, NetError> {
        let mut options = ResolverOpts::default();
        set_options(&mut options, config);
        let mut request = DnsRequestOptions::default();
        // RFC 6840 §5.7, §5.8: who sets DO is told by AD.
        request.edns_set_dnssec_ok = true;
        request.edns_payload_len = options.edns_payload_len;
        let attempts = options.attempts;
        let context = Arc::new(PoolContext::new(options, TlsConfig::new()?));
        let provider = TokioRuntimeProvider::default();
        let pool = NameServerPool::from_config(servers.to_vec(), context, provider);
        let why_insecure = match config.validating {
            Some(true) => None,
            Some(false) => Some("`validating` of [dns] is false"),
            // That a server is on this machine says nothing: many there only pass on what they are told.
            None => Some("[dns] does not say `validating = true`"),
        };
        Ok(Validated { handle: RetryDnsHandle::new(pool, attempts), request, why_insecure })
    }

    /// Why no answer counts as secure, if so.
    pub(super) fn why_insecure(&self) -> Option<&'static str> {
        self.why_insecure
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Result<DnsResponse, DnsError> {
        let name = absolute(name)?;
        let query = Query::query(name, kind);
        let answer = self.handle.lookup(query, self.request).first_answer().await;
        let response = answer.map_err(|error| error_of(&error))?;
        match response.response_code {
            ResponseCode::NoError => Ok(response),
            ResponseCode::NXDomain => Err(DnsError::NoSuchDomain),
            code => Err(DnsError::Transient(format!("the server answered {code}"))),
        }
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
        let response = self.ask(name, kind).await?;
        let answer: Vec<T> = response.answers.iter().filter_map(of).collect();
        if answer.is_empty() {
            return Err(DnsError::NoRecords);
        }
        Ok(Vouched { answer, is_secure: self.is_secure(&response) })
    }

    pub(super) async fn mx(&self, domain: &str) -> Result<Vouched<Vec<Mx>>, DnsError> {
        self.records(domain, RecordType::MX, mx_of).await
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

/// Where the aliases of a host lead.
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
