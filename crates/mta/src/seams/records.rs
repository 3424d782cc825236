//! The DNS as those ask it who check senders.

use super::{Dns, DnsError};
use auth::records::{Answer, Family, Records, Unanswered};
use std::net::IpAddr;

/// A DNS for checks of senders.
#[derive(Clone, Copy, Debug)]
pub struct AsRecords<'a, D>(pub &'a D);

/// What does not exist has no records; any other trouble is no answer.
fn answer<T>(said: Result<Vec<T>, DnsError>) -> Answer<T> {
    match said {
        Ok(records) => Ok(records),
        Err(DnsError::NoSuchDomain | DnsError::NoRecords) => Ok(Vec::new()),
        Err(error) => Err(Unanswered(error.to_string().into())),
    }
}

impl<D: Dns> Records for AsRecords<'_, D> {
    async fn txt(&self, name: &str) -> Answer<Vec<u8>> {
        answer(self.0.txt(name).await)
    }

    async fn addresses(&self, host: &str, family: Family) -> Answer<IpAddr> {
        let mut addresses = answer(self.0.addresses(host).await)?;
        addresses.retain(|address| Family::of(*address) == family);
        Ok(addresses)
    }

    async fn mail_hosts(&self, domain: &str) -> Answer<String> {
        let mut hosts = answer(self.0.mx(domain).await)?;
        hosts.sort_by_key(|mx| mx.preference);
        Ok(hosts.into_iter().map(|mx| mx.host).collect())
    }

    async fn names(&self, address: IpAddr) -> Answer<String> {
        answer(self.0.names(address).await)
    }
}
