//! The DNS, and what it said.

use crate::world::resolver::Resolver;
use auth::records::{Answer, Family, Records};
use mta::seams::{Dns, DnsError, answer};
use std::cell::RefCell;
use std::net::IpAddr;

/// Asks, and remembers what was said.
pub(super) struct Told {
    dns: Resolver,
    answers: RefCell<Vec<Answered>>,
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// `TXT`, `A`, …
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Records as text, or why there is no answer.
    pub(super) records: Answer<String>,
}

impl Told {
    pub(super) fn new(dns: Resolver) -> Told {
        Told { dns, answers: RefCell::default() }
    }

    /// Each question once, in the order of the answers.
    pub(super) fn into_answers(self) -> Vec<Answered> {
        let mut answers: Vec<Answered> = Vec::new();
        for answered in self.answers.into_inner() {
            if !answers.contains(&answered) {
                answers.push(answered);
            }
        }
        answers
    }

    fn note<T>(
        &self,
        kind: &'static str,
        name: &str,
        said: Result<Vec<T>, DnsError>,
        shown: impl Fn(&T) -> String,
    ) -> Answer<T> {
        let said = answer(said);
        let records = said.as_ref().map(|records| records.iter().map(shown).collect());
        let records = records.map_err(Clone::clone);
        self.answers.borrow_mut().push(Answered { kind, name: name.to_owned(), records });
        said
    }
}

impl Records for Told {
    async fn txt(&self, name: &str) -> Answer<Vec<u8>> {
        let said = self.dns.txt(name).await;
        self.note("TXT", name, said, |text| String::from_utf8_lossy(text).into_owned())
    }

    async fn addresses(&self, host: &str, family: Family) -> Answer<IpAddr> {
        let mut said = self.dns.addresses(host).await;
        if let Ok(addresses) = &mut said {
            addresses.retain(|address| Family::of(*address) == family);
        }
        let kind = if family == Family::V4 { "A" } else { "AAAA" };
        self.note(kind, host, said, IpAddr::to_string)
    }

    async fn mail_hosts(&self, domain: &str) -> Answer<String> {
        let mut said = self.dns.mx(domain).await;
        if let Ok(hosts) = &mut said {
            hosts.sort_by_key(|mx| mx.preference);
        }
        let hosts = self.note("MX", domain, said, |mx| format!("{} {}", mx.preference, mx.host))?;
        Ok(hosts.into_iter().map(|mx| mx.host).collect())
    }

    async fn names(&self, address: IpAddr) -> Answer<String> {
        let said = self.dns.names(address).await;
        self.note("PTR", &address.to_string(), said, String::clone)
    }
}
