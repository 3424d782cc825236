//! Aggregate reports to owners of domains (RFC 7489 §7.2).

use super::record::{ADDRESSES_MAX, Record};
use super::{RequestedPolicy, organization, walk};
use crate::records::{Records, Unanswered};
use crate::{dkim, spf};
use mail::Mailbox;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Maximum number of signatures in one row.
const SIGNATURES_MAX: usize = 10;

/// A value in a report is cut after this many octets.
const VALUE_BYTES_MAX: usize = 255;

/// Application of a policy to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The domain of the policy.
    pub of: String,
    pub(super) record: Record,
    pub is_spf_aligned: bool,
    pub is_dkim_aligned: bool,
    /// The message is one of those that the policy is not applied to in full (`pct`).
    pub is_milder: bool,
}

impl Applied {
    /// `rua`, as it is written.
    #[must_use]
    pub fn report_to(&self) -> &str {
        self.record.report_to.as_deref().unwrap_or_default()
    }

    /// The policy as XML: the content of `policy_published`.
    #[must_use]
    pub fn published(&self) -> String {
        let record = &self.record;
        let mode = |is_strict| if is_strict { "s" } else { "r" };
        let mut published = String::with_capacity(160);
        tag(&mut published, "domain", &self.of);
        tag(&mut published, "adkim", mode(record.is_strict_dkim));
        tag(&mut published, "aspf", mode(record.is_strict_spf));
        tag(&mut published, "p", record.wish.as_str());
        tag(&mut published, "sp", record.wish_below.as_str());
        tag(&mut published, "pct", &record.percent.to_string());
        tag(&mut published, "fo", record.failure_options.as_deref().unwrap_or("0"));
        published
    }
}

/// A message that counts.
#[derive(Clone, Debug)]
pub struct ReportedMessage {
    pub applied: Box<Applied>,
    pub source: IpAddr,
    /// The action taken; [`RequestedPolicy::None`] if none.
    pub disposition: RequestedPolicy,
    /// The action requested by the policy.
    pub wish: RequestedPolicy,
    /// The author's domain.
    pub author: String,
    /// That of MAIL FROM; empty for `<>`.
    pub envelope_from: String,
    pub spf: spf::SpfEvaluation,
    pub dkim: Vec<dkim::DkimVerification>,
}

impl ReportedMessage {
    /// The rest of a row after its count, as XML: messages with equal text share a row.
    #[must_use]
    pub fn rest_of_row(&self) -> String {
        let applied = &self.applied;
        let word = |is_pass| if is_pass { "pass" } else { "fail" };
        let mut out = String::with_capacity(640);
        out.push_str("<policy_evaluated>");
        tag(&mut out, "disposition", self.disposition.as_str());
        tag(&mut out, "dkim", word(applied.is_dkim_aligned));
        tag(&mut out, "spf", word(applied.is_spf_aligned));
        if let Some(reason) = self.reason() {
            let _ = write!(out, "<reason><type>{reason}</type></reason>");
        }
        out.push_str("</policy_evaluated></row><identifiers>");
        tag(&mut out, "envelope_from", &self.envelope_from);
        tag(&mut out, "header_from", &self.author);
        out.push_str("</identifiers><auth_results>");
        for outcome in self.dkim.iter().take(SIGNATURES_MAX) {
            let Some(signer) = &outcome.signer else { continue };
            out.push_str("<dkim>");
            tag(&mut out, "domain", &signer.domain);
            tag(&mut out, "selector", &signer.selector);
            tag(&mut out, "result", outcome.verdict.as_str());
            out.push_str("</dkim>");
        }
        out.push_str("<spf>");
        tag(&mut out, "domain", &self.spf.domain);
        tag(
            &mut out,
            "scope",
            match self.spf.identity {
                spf::Identity::MailFrom => "mfrom",
                spf::Identity::Helo => "helo",
            },
        );
        tag(&mut out, "result", self.spf.verdict.as_str());
        out.push_str("</spf></auth_results>");
        out
    }

    /// The reason for deviating from the policy (RFC 7489 §7.2, appendix C).
    fn reason(&self) -> Option<&'static str> {
        let is_pass = self.applied.is_dkim_aligned || self.applied.is_spf_aligned;
        let asked = if is_pass { RequestedPolicy::None } else { self.wish };
        match self.disposition != asked {
            true => Some("local_policy"),
            false if self.applied.is_milder && !is_pass => Some("sampled_out"),
            false => None,
        }
    }
}

/// Destination of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub mailbox: Mailbox,
    /// Octets of a report that are taken, if that is limited.
    pub bytes_max: Option<u64>,
}

/// The addresses of `rua` (RFC 7489 §6.2). Schemes other than mailto, and invalid addresses, are ignored.
#[must_use]
pub fn destinations(report_to: &str) -> Vec<Destination> {
    let listed = report_to.split(',').take(ADDRESSES_MAX);
    let mut destinations: Vec<Destination> = Vec::new();
    for destination in listed.filter_map(destination) {
        if !destinations.iter().any(|known| known.mailbox.is_same(&destination.mailbox)) {
            destinations.push(destination);
        }
    }
    destinations
}

fn destination(uri: &str) -> Option<Destination> {
    let (scheme, rest) = uri.trim().split_once(':')?;
    if !scheme.eq_ignore_ascii_case("mailto") {
        return None;
    }
    let (address, limit) = match rest.rsplit_once('!') {
        Some((address, limit)) => (address, Some(bytes_of(limit)?)),
        None => (rest, None),
    };
    Some(Destination { mailbox: mailbox_of(address)?, bytes_max: limit })
}

/// The mailbox of a mailto URI, from the text after the scheme. Header fields that it requests (RFC 6068 §2) are
/// ignored.
pub(crate) fn mailbox_of(address: &str) -> Option<Mailbox> {
    let address = address.split('?').next().unwrap_or_default();
    let mailbox = Mailbox::parse(address, false).ok()?;
    let is_domain = mailbox.has_domain() && mailbox.domain().literal().is_none();
    is_domain.then_some(mailbox)
}

/// `10m` (RFC 7489 §6.4, `dmarc-uri`).
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last()? {
        (_, c) if c.is_ascii_digit() => (text, 0),
        (at, c) => (&text[..at], 1 + "kmgt".find(c.to_ascii_lowercase())?),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().ok())??;
    number.checked_mul(1 << (10 * unit))
}

/// Returns true if reports about one domain may go to another (RFC 7489 §7.1): both have one organizational domain, or
/// the other domain consents.
///
/// # Errors
/// Returns an error if a query failed.
pub async fn may_report<R: Records>(
    records: &R,
    about: &str,
    to: &str,
) -> Result<bool, Unanswered> {
    if about == to {
        return Ok(true);
    }
    let of_about = organization(&walk(records, about).await?.whole()?, about);
    let of_to = organization(&walk(records, to).await?.whole()?, to);
    if of_about == of_to {
        return Ok(true);
    }
    let txt = records.txt(&format!("{about}._report._dmarc.{to}")).await?;
    let is_consent = |text: &Vec<u8>| {
        let version = text.split(|byte| *byte == b';').next().unwrap_or_default();
        version.split(|byte| *byte == b'=').map(<[u8]>::trim_ascii).eq([&b"v"[..], b"DMARC1"])
    };
    Ok(txt.iter().any(is_consent))
}

/// An element with text, escaped.
pub fn tag(out: &mut String, name: &str, text: &str) {
    let _ = write!(out, "<{name}>");
    for c in text[..text.floor_char_boundary(VALUE_BYTES_MAX)].chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // XML 1.0 allows no other control characters, and none of these is needed here.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    let _ = write!(out, "</{name}>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Zone, now};

    fn shown(report_to: &str) -> Vec<(String, Option<u64>)> {
        let shown = |of: Destination| (of.mailbox.as_str().to_owned(), of.bytes_max);
        destinations(report_to).into_iter().map(shown).collect()
    }

    #[test]
    fn addresses_are_read_with_their_limits() {
        let of = |address: &str, limit| (address.to_owned(), limit);
        assert_eq!(
            shown("mailto:a@b.test!10m, MAILTO:c@d.test?subject=x ,https://e.test/,mailto:f!1k"),
            [of("a@b.test", Some(10 << 20)), of("c@d.test", None)]
        );
        assert_eq!(shown("mailto:a@b.test!50"), [of("a@b.test", Some(50))]);
        assert_eq!(shown("mailto:a@b.test,mailto:a@B.test"), [of("a@b.test", None)]);
        for none in
            ["", "mailto:", "a@b.test", "mailto:a@b.test!x", "mailto:a@[127.0.0.1]", "mailto:a@b!!"]
        {
            assert_eq!(shown(none), [], "{none}");
        }
        assert_eq!(shown("mailto:a@b.test!99999999999999t"), []);
        let many =
            |count: usize| (0..count).map(|n| format!("mailto:a{n}@b.test,")).collect::<String>();
        assert_eq!(shown(&many(ADDRESSES_MAX)).len(), ADDRESSES_MAX);
        assert_eq!(shown(&many(100)).len(), ADDRESSES_MAX);
    }

    #[test]
    fn reports_go_to_strangers_only_who_want_them() {
        let zone = Zone::of(&[
            ("_dmarc.a.example", "v=DMARC1; p=none"),
            ("_dmarc.b.example", "v=DMARC1; p=none"),
            ("a.example._report._dmarc.b.example", "v=DMARC1"),
            ("a.example._report._dmarc.odd.test", "v=DMARC2"),
            ("_dmarc.dead.test", "?"),
        ]);
        let may = |about, to| now(may_report(&zone, about, to));
        assert_eq!(may("a.example", "a.example"), Ok(true));
        assert_eq!(may("a.example", "mail.a.example"), Ok(true));
        assert_eq!(may("a.example", "b.example"), Ok(true));
        assert_eq!(may("b.example", "a.example"), Ok(false));
        assert_eq!(may("a.example", "odd.test"), Ok(false));
        assert_eq!(may("a.example", "nowhere.test"), Ok(false));
        assert!(may("a.example", "dead.test").is_err());
    }

    #[test]
    fn what_strangers_write_stays_within_its_element() {
        let mut out = String::new();
        tag(&mut out, "x", "a<b>&\u{0}\u{e9}\r\n");
        assert_eq!(out, "<x>a&lt;b&gt;&amp;?\u{e9}??</x>");
        let mut out = String::new();
        tag(&mut out, "x", &"\u{e9}".repeat(VALUE_BYTES_MAX));
        assert_eq!(out.len(), VALUE_BYTES_MAX - 1 + "<x></x>".len());
    }
}
