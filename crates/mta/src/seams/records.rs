//! DNS lookups for sender checks.

use super::{Dns, DnsError, Mx};
use auth::records::{DnsAnswer, Family, Records, Unanswered};
use std::net::IpAddr;

/// DNS lookups in the form that sender checks use.
#[derive(Clone, Copy, Debug)]
pub struct AsRecords<'a, D>(pub &'a D);

/// Maps a DNS result. A nonexistent name has no records; exhausted lookup capacity is our own limit; any other error is
/// a missing answer.
fn answer<T>(said: Result<Vec<T>, DnsError>) -> DnsAnswer<T> {
    match said {
        Ok(records) => Ok(records),
        Err(DnsError::NoSuchDomain | DnsError::NoRecords) => Ok(Vec::new()),
        Err(error @ DnsError::Lack) => Err(Unanswered::OurLimit(error.to_string().into())),
        Err(error) => Err(Unanswered::NoAnswer(error.to_string().into())),
    }
}

fn of_family(said: Result<Vec<IpAddr>, DnsError>, family: Family) -> DnsAnswer<IpAddr> {
    let mut addresses = answer(said)?;
    addresses.retain(|address| Family::of(*address) == family);
    Ok(addresses)
}

fn in_order(said: Result<Vec<Mx>, DnsError>) -> DnsAnswer<String> {
    let mut hosts = answer(said)?;
    hosts.sort_by_key(|mx| mx.preference);
    Ok(hosts.into_iter().map(|mx| mx.host).collect())
}

/// Answers from the cache, without a query.
impl<D: Dns> AsRecords<'_, D> {
    #[must_use]
    pub fn txt_at_hand(&self, name: &str) -> Option<DnsAnswer<Vec<u8>>> {
        self.0.txt_at_hand(name).map(answer)
    }

    #[must_use]
    pub fn addresses_at_hand(&self, host: &str, family: Family) -> Option<DnsAnswer<IpAddr>> {
        self.0.addresses_at_hand(host).map(|said| of_family(said, family))
    }

    #[must_use]
    pub fn mail_hosts_at_hand(&self, domain: &str) -> Option<DnsAnswer<String>> {
        self.0.mx_at_hand(domain).map(in_order)
    }

    #[must_use]
    pub fn names_at_hand(&self, address: IpAddr) -> Option<DnsAnswer<String>> {
        self.0.names_at_hand(address).map(answer)
    }
}

impl<D: Dns> Records for AsRecords<'_, D> {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        answer(self.0.txt(name).await)
    }

    async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
        of_family(self.0.addresses(host).await, family)
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        in_order(self.0.mx(domain).await)
    }

    async fn names(&self, address: IpAddr) -> DnsAnswer<String> {
        answer(self.0.names(address).await)
    }
}
