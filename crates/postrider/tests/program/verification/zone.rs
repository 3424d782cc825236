//! A zone in memory, that the checks ask.

use auth::records::{DnsAnswer, Family, Records, Unanswered};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Records by names in lower case, as the openspf test suite writes them: a list of `{type: data}`, or
/// `"TIMEOUT"` for what gets no answer.
#[derive(Debug, Default)]
pub(super) struct Zone(pub(super) BTreeMap<String, Vec<Value>>);

impl Zone {
    /// The zone data of a scenario. A record of type SPF is one of type TXT as well, unless the name
    /// says what it has of them.
    pub(super) fn of(data: &Value) -> Zone {
        let names = data.as_object().expect("names").iter().map(|(name, records)| {
            let records = records.as_array().expect("records");
            (name.to_ascii_lowercase(), records.clone())
        });
        Zone(names.collect())
    }

    fn find(&self, name: &str, kind: &str) -> DnsAnswer<Value> {
        let name = name.to_ascii_lowercase();
        let Some(records) = self.0.get(&name) else { return Ok(Vec::new()) };
        let has = |kind: &str| records.iter().any(|record| record.get(kind).is_some());
        let stored = if kind == "TXT" && !has("TXT") { "SPF" } else { kind };
        let unanswered = || Err(Unanswered::NoAnswer("timeout".into()));
        let mut found = Vec::new();
        for record in records {
            match (record, record.get(stored), record.get("CNAME")) {
                (Value::String(timeout), ..) if timeout == "TIMEOUT" && found.is_empty() => {
                    return unanswered();
                }
                (_, Some(Value::String(data)), _) if data == "TIMEOUT" => return unanswered(),
                (_, Some(Value::String(data)), _) if data == "NONE" => {}
                (_, Some(data), _) => found.push(data.clone()),
                (_, None, Some(target)) => {
                    found.extend(self.find(target.as_str().expect("a name"), kind)?);
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

pub(super) fn text(data: &Value) -> Vec<u8> {
    match data {
        Value::String(text) => text.clone().into_bytes(),
        Value::Array(pieces) => pieces.iter().flat_map(text).collect(),
        other => panic!("{other} is no text"),
    }
}

impl Records for Zone {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        Ok(self.find(name, "TXT")?.iter().map(text).collect())
    }

    async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
        let kind = if family == Family::V4 { "A" } else { "AAAA" };
        let addresses = self.find(host, kind)?;
        let address = |data: &Value| data.as_str().expect("text").parse().expect("an address");
        Ok(addresses.iter().map(address).collect())
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        let mut hosts = self.find(domain, "MX")?;
        hosts.sort_by_key(|data| data[0].as_i64());
        Ok(hosts.iter().map(|data| data[1].as_str().expect("a host").to_owned()).collect())
    }

    async fn names(&self, address: IpAddr) -> DnsAnswer<String> {
        let name = match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            IpAddr::V6(address) => {
                let nibbles = address.octets().into_iter().rev().flat_map(|b| [b & 15, b >> 4]);
                let labels: Vec<String> = nibbles.map(|nibble| format!("{nibble:x}")).collect();
                format!("{}.ip6.arpa", labels.join("."))
            }
        };
        let names = self.find(&name, "PTR")?;
        Ok(names.iter().map(|data| data.as_str().expect("a name").to_owned()).collect())
    }
}

/// What a future gives that never waits.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
