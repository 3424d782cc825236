//! A resolver that records queries and answers, for `auth check`.

use crate::world::resolver::Resolver;
use auth::records::{DnsAnswer, Family, Records};
use mta::seams::AsRecords;
use std::cell::RefCell;
use std::net::IpAddr;

/// A resolver that records its answers.
pub(super) struct RecordingResolver {
    dns: Resolver,
    answers: RefCell<Vec<RecordedLookup>>,
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedLookup {
    /// `TXT`, `A`, …
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Records as text, or why there is no answer.
    pub(super) records: DnsAnswer<String>,
}

impl RecordingResolver {
    pub(super) fn new(dns: Resolver) -> RecordingResolver {
        RecordingResolver { dns, answers: RefCell::default() }
    }

    /// Each question once, in the order of the answers.
    pub(super) fn into_answers(self) -> Vec<RecordedLookup> {
        let mut answers: Vec<RecordedLookup> = Vec::new();
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
        said: DnsAnswer<T>,
        shown: impl Fn(&T) -> String,
    ) -> DnsAnswer<T> {
        let records = said.as_ref().map(|records| records.iter().map(shown).collect());
        let records = records.map_err(Clone::clone);
        self.answers.borrow_mut().push(RecordedLookup { kind, name: name.to_owned(), records });
        said
    }
}

impl Records for RecordingResolver {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        let said = AsRecords(&self.dns).txt(name).await;
        self.note("TXT", name, said, |text| String::from_utf8_lossy(text).into_owned())
    }

    async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
        let said = AsRecords(&self.dns).addresses(host, family).await;
        let kind = if family == Family::V4 { "A" } else { "AAAA" };
        self.note(kind, host, said, IpAddr::to_string)
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        let said = AsRecords(&self.dns).mail_hosts(domain).await;
        self.note("MX", domain, said, String::clone)
    }

    async fn names(&self, address: IpAddr) -> DnsAnswer<String> {
        let said = AsRecords(&self.dns).names(address).await;
        self.note("PTR", &address.to_string(), said, String::clone)
    }
}
