//! Checks that SPF passes for the sending addresses.

use super::addresses::SendingAddress;
use super::finding::{Finding, Severity, txt};
use auth::records::Records;
use auth::spf::{Sender, SpfQuery, SpfResult, check};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The identity that SPF checks: a domain in the envelope, or the name in EHLO, which counts for the null sender (RFC
/// 7208 §2.4).
#[derive(Clone, Copy)]
pub(super) enum Identity<'a> {
    Domain(&'a str),
    Ehlo(&'a str),
}

/// Constant parameters of all checks.
#[derive(Clone, Copy)]
pub(super) struct CheckContext<'a> {
    /// This server's name.
    pub(super) name: &'a str,
    /// Seconds since 1970.
    pub(super) now: u64,
}

/// Addresses with the same result.
struct FindingGroup {
    severity: Severity,
    reason: String,
    addresses: Vec<IpAddr>,
}

/// Evaluates SPF of a domain for these addresses: a finding for each result.
pub(super) async fn senders<R: Records>(
    records: &R,
    asker: CheckContext<'_>,
    identity: Identity<'_>,
    addresses: &[&SendingAddress],
) -> Vec<Finding> {
    let mut groups: BTreeMap<&'static str, FindingGroup> = BTreeMap::new();
    for sending in addresses {
        let (sender, helo) = match identity {
            Identity::Domain(domain) => {
                (Some(Sender { local: "postmaster", domain }), &*sending.ehlo)
            }
            Identity::Ehlo(name) => (None, name),
        };
        let (client, receiver, now) = (sending.address, asker.name, asker.now);
        let outcome = check(records, SpfQuery { client, sender, helo, receiver, now }).await;
        let group = groups.entry(outcome.verdict.as_str()).or_insert_with(|| FindingGroup {
            severity: severity(identity, outcome.verdict),
            reason: outcome.reason,
            addresses: Vec::new(),
        });
        group.addresses.push(sending.address);
    }
    let name = match identity {
        Identity::Domain(name) | Identity::Ehlo(name) => name,
    };
    let mut findings = Vec::with_capacity(groups.len());
    for (verdict, group) in groups {
        findings.push(told(records, name, identity, verdict, group).await);
    }
    findings
}

fn severity(identity: Identity<'_>, verdict: SpfResult) -> Severity {
    match (verdict, identity) {
        (SpfResult::Pass, _) => Severity::Ok,
        (_, Identity::Domain(_)) => Severity::Error,
        (_, Identity::Ehlo(_)) => Severity::Warn,
    }
}

async fn told<R: Records>(
    records: &R,
    name: &str,
    identity: Identity<'_>,
    verdict: &'static str,
    group: FindingGroup,
) -> Finding {
    let addresses: Vec<String> = group.addresses.iter().map(IpAddr::to_string).collect();
    let addresses = addresses.join(", ");
    let whose = match identity {
        Identity::Domain(_) => "",
        Identity::Ehlo(_) => " (as EHLO name, for mail with a null sender)",
    };
    let is_none = verdict == SpfResult::None.as_str();
    let text = match (group.severity, is_none) {
        (Severity::Ok, _) => format!("pass for {addresses}{whose}"),
        (_, true) => format!("no record{whose}"),
        (_, false) => format!("{verdict} for {addresses}{whose}: {}", group.reason),
    };
    let finding = Finding::new(group.severity, "spf", name, text);
    if group.severity == Severity::Ok {
        return finding;
    }
    let terms = group.addresses.iter().map(|address| match address {
        IpAddr::V4(address) => format!("ip4:{address}"),
        IpAddr::V6(address) => format!("ip6:{address}"),
    });
    let terms: Vec<String> = terms.collect();
    if is_none {
        return finding.publish(txt(name, &format!("v=spf1 {} -all", terms.join(" "))));
    }
    let is_amended = [SpfResult::Fail, SpfResult::SoftFail, SpfResult::Neutral]
        .iter()
        .any(|amended| amended.as_str() == verdict);
    // The intent of a record with syntax errors is unknown.
    match (is_amended, records.txt(name).await) {
        (true, Ok(published)) => match with_terms(&published, &terms) {
            Some(record) => finding.publish(txt(name, &record)),
            None => finding,
        },
        _ => finding,
    }
}

/// The record with additional terms at the front, where they take effect before all others.
fn with_terms(published: &[Vec<u8>], terms: &[String]) -> Option<String> {
    let texts = published.iter().filter_map(|txt| std::str::from_utf8(txt).ok());
    let is_record =
        |text: &&str| text.split(' ').next().is_some_and(|v| v.eq_ignore_ascii_case("v=spf1"));
    let mut records = texts.filter(is_record);
    let record = records.next().filter(|_| records.next().is_none())?;
    let (version, rest) = record.split_once(' ').unwrap_or((record, "-all"));
    Some(format!("{version} {} {}", terms.join(" "), rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_what_it_says_beside_what_is_added() {
        let with = |records: &[&str]| {
            let records: Vec<Vec<u8>> = records.iter().map(|r| r.as_bytes().to_vec()).collect();
            with_terms(&records, &["ip4:192.0.2.1".to_owned(), "ip6:2001:db8::1".to_owned()])
        };
        let terms = "ip4:192.0.2.1 ip6:2001:db8::1";
        for (records, expected) in [
            (&["other", "v=spf1 mx ~all"][..], Some(format!("v=spf1 {terms} mx ~all"))),
            (&["V=SPF1  redirect=a.test"], Some(format!("V=SPF1 {terms} redirect=a.test"))),
            (&["v=spf1"], Some(format!("v=spf1 {terms} -all"))),
            (&["v=spf1 -all", "v=spf1 ~all"], None),
            (&["v=spf10 -all"], None),
            (&[], None),
        ] {
            assert_eq!(with(records), expected, "{records:?}");
        }
    }
}
