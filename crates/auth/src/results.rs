//! Authentication-Results (RFC 8601): the results of the checks, for readers of the message.

use crate::checks::Verdicts;
use crate::dnsbl::DnsblListings;
use crate::spf::Identity;
use crate::{arc, dkim, dmarc, iprev, spf};
use std::fmt::Write as _;
use std::net::IpAddr;

/// The name of the field.
pub const FIELD: &str = "Authentication-Results";

/// A reason is cut here.
const REASON_BYTES_MAX: usize = 120;

/// The field as lines to fold: the first begins with the field's name, and none is longer than 998 octets. `server` is
/// the authserv-id.
#[must_use]
pub fn lines(server: &str, verdicts: &Verdicts) -> Vec<String> {
    lines_from(format!("{FIELD}: {};", value(server)), verdicts)
}

/// The same in an ARC set (RFC 8617 §4.1.1).
pub(crate) fn lines_of_set(instance: u32, server: &str, verdicts: &Verdicts) -> Vec<String> {
    lines_from(format!("ARC-{FIELD}: i={instance}; {};", value(server)), verdicts)
}

fn lines_from(first: String, verdicts: &Verdicts) -> Vec<String> {
    let mut results = Vec::new();
    results.extend(verdicts.iprev.as_ref().map(of_client));
    results.extend(verdicts.spf.as_ref().map(of_spf));
    match verdicts.dkim.as_deref() {
        Some([]) => results.push("dkim=none".to_owned()),
        Some(signatures) => results.extend(signatures.iter().map(of_signature)),
        None => {}
    }
    if verdicts.signatures_left > 0 {
        let left = verdicts.signatures_left;
        results.push(format!("dkim=policy reason=\"{left} more signatures not verified\""));
    }
    results.extend(verdicts.dmarc.as_ref().map(of_dmarc));
    results.extend(verdicts.arc.as_ref().map(of_arc));
    if results.is_empty() {
        results.push("none".to_owned());
    }
    field(first, results)
}

/// A separate field for lists that favour a client (RFC 8904); `None` without any.
#[must_use]
pub fn allowed(server: &str, standing: &DnsblListings) -> Option<Vec<String>> {
    let speak_for = standing.0.iter().filter(|listing| listing.score < 0);
    let results: Vec<String> = speak_for
        .map(|listing| {
            let mut text = result("dnswl", "pass", "", true);
            add(&mut text, "dns.zone", &listing.zone);
            add(&mut text, "policy.ip", &listing.answer.to_string());
            text
        })
        .collect();
    (!results.is_empty()).then(|| field(format!("{FIELD}: {};", value(server)), results))
}

fn field(first: String, results: Vec<String>) -> Vec<String> {
    let mut lines = vec![first];
    let last = results.len().saturating_sub(1);
    for (n, mut result) in results.into_iter().enumerate() {
        if n < last {
            result.push(';');
        }
        lines.push(result);
    }
    lines
}

/// RFC 8601 §2.7.3.
fn of_client((address, outcome): &(IpAddr, iprev::IprevCheck)) -> String {
    let mut text = result("iprev", outcome.verdict.as_str(), "", true);
    add(&mut text, "policy.iprev", &address.to_canonical().to_string());
    if let Some(name) = &outcome.name {
        let _ = write!(text, " ({name})");
    }
    text
}

fn of_spf(outcome: &spf::SpfEvaluation) -> String {
    let is_good = outcome.verdict == spf::SpfResult::Pass;
    let mut text = result("spf", outcome.verdict.as_str(), &outcome.reason, is_good);
    let property = match outcome.identity {
        Identity::MailFrom => "smtp.mailfrom",
        Identity::Helo => "smtp.helo",
    };
    add(&mut text, property, &outcome.domain);
    text
}

fn of_signature(outcome: &dkim::DkimVerification) -> String {
    let is_good = outcome.verdict == dkim::DkimResult::Pass;
    let mut text = result("dkim", outcome.verdict.as_str(), &outcome.reason, is_good);
    if let Some(signer) = &outcome.signer {
        add(&mut text, "header.d", &signer.domain);
        add(&mut text, "header.s", &signer.selector);
        add(&mut text, "header.a", signer.algorithm.as_str());
    }
    text
}

fn of_dmarc(outcome: &dmarc::DmarcEvaluation) -> String {
    let is_good = outcome.verdict == dmarc::DmarcResult::Pass;
    let mut text = result("dmarc", outcome.verdict.as_str(), &outcome.reason, is_good);
    if let Some(domain) = &outcome.domain {
        add(&mut text, "header.from", domain);
    }
    if outcome.verdict == dmarc::DmarcResult::Fail {
        add(&mut text, "policy.dmarc", outcome.wish.as_str());
    }
    text
}

fn of_arc(outcome: &arc::ArcValidation) -> String {
    let is_good = outcome.verdict == arc::ArcResult::Pass;
    let mut text = result("arc", outcome.verdict.as_str(), &outcome.reason, is_good);
    if let Some(sealer) = outcome.sealers.last() {
        add(&mut text, "header.d", sealer);
    }
    text
}

fn result(method: &str, verdict: &str, reason: &str, is_good: bool) -> String {
    let mut text = format!("{method}={verdict}");
    if !is_good && !reason.is_empty() {
        let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
        let _ = write!(text, " reason={}", quoted(reason));
    }
    text
}

fn add(text: &mut String, property: &str, of: &str) {
    if !of.is_empty() {
        let _ = write!(text, " {property}={}", value(of));
    }
}

/// A value, escaped for the field (RFC 8601 §2.2).
fn value(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !text.is_empty() && text.len() <= 255 && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    quoted(&text[..text.floor_char_boundary(255)])
}

/// Third-party text in quotes. Rules that search the field for a text could mistake it for a result.
fn quoted(text: &str) -> String {
    let harmless = |c: char| match c {
        ';' | '=' | '(' | ')' => '?',
        '"' | '\\' => '\'',
        ' '..='~' => c,
        _ => '\'',
    };
    let text: String = text.chars().map(harmless).collect();
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dnsbl::{DnsblIdentity, Listing};
    use std::net::Ipv4Addr;

    #[test]
    fn what_strangers_write_stays_within_its_value() {
        let evil = "a;\r\n dkim=pass \"x\\";
        let spf = spf::SpfEvaluation {
            verdict: spf::SpfResult::PermError,
            identity: Identity::Helo,
            domain: evil.into(),
            reason: evil.repeat(100),
            explanation: None,
        };
        let verdicts = Verdicts { spf: Some(spf), signatures_left: 3, ..Verdicts::default() };
        let lines = lines("mx.example.org", &verdicts);
        assert_eq!(lines[0], "Authentication-Results: mx.example.org;");
        assert_eq!(lines.len(), 3);
        let [spf, ..] = &lines[1..] else { panic!() };
        assert!(spf.starts_with("spf=permerror reason=\"a?'' dkim?pass 'x'"), "{spf}");
        assert!(spf.ends_with(" smtp.helo=\"a?'' dkim?pass 'x'\";"), "{spf}");
        assert!(lines.iter().all(|line| line.len() < 998 && !line.contains(['\r', '\n'])));
    }

    #[test]
    fn a_client_is_named_with_its_address() {
        let line = |address: &str, outcome| {
            let iprev = Some((address.parse().unwrap(), outcome));
            super::lines("mx", &Verdicts { iprev, ..Verdicts::default() }).pop().unwrap()
        };
        let named = iprev::IprevCheck::of_name("mail.test");
        assert_eq!(
            line("::ffff:192.0.2.1", named),
            "iprev=pass policy.iprev=192.0.2.1 (mail.test)"
        );
        let none = iprev::IprevCheck::without_name(iprev::IprevResult::PermError);
        assert_eq!(line("2001:db8::1", none), "iprev=permerror policy.iprev=\"2001:db8::1\"");
    }

    #[test]
    fn lists_that_speak_for_a_client_are_named() {
        let listing = |zone: &str, score| Listing {
            zone: zone.into(),
            by: DnsblIdentity::Client,
            answer: Ipv4Addr::new(127, 0, 10, 1),
            score,
        };
        let standing =
            DnsblListings(vec![listing("block.example", 1), listing("allow.example", -2)]);
        assert_eq!(
            allowed("mx.example.org", &standing).unwrap(),
            [
                "Authentication-Results: mx.example.org;",
                "dnswl=pass dns.zone=allow.example policy.ip=127.0.10.1"
            ]
        );
        assert_eq!(allowed("mx.example.org", &DnsblListings(vec![listing("a.example", 1)])), None);
    }

    #[test]
    fn nothing_checked_is_none() {
        assert_eq!(
            super::lines("a b", &Verdicts::default()),
            ["Authentication-Results: \"a b\";", "none"]
        );
    }
}
