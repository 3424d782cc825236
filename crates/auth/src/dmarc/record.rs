//! Policies as the DNS has them (RFC 7489 §6.3, RFC 9989 §4.7).

use crate::tags::{Tags, is_blank};

/// Maximum number of addresses used in `rua`, the first ones.
pub(super) const ADDRESSES_MAX: usize = 10;

/// Bytes of `rua` kept, in whole addresses. The counts of a day hold them for each domain, and a record may have 60
/// KiB.
const REPORT_TO_BYTES_MAX: usize = 2_048;

/// A longer `fo` is ignored: it has only four letters.
const FAILURE_OPTIONS_BYTES_MAX: usize = 64;

/// Requested handling of failing mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestedPolicy {
    None,
    Quarantine,
    Reject,
}

impl RequestedPolicy {
    fn parse(text: &str) -> Option<RequestedPolicy> {
        [RequestedPolicy::None, RequestedPolicy::Quarantine, RequestedPolicy::Reject]
            .into_iter()
            .find(|wish| wish.as_str().eq_ignore_ascii_case(text))
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RequestedPolicy::None => "none",
            RequestedPolicy::Quarantine => "quarantine",
            RequestedPolicy::Reject => "reject",
        }
    }

    /// The next milder handling, for mail outside the policy's percentage (RFC 7489 §6.6.4).
    pub(super) fn milder(self) -> RequestedPolicy {
        match self {
            RequestedPolicy::Reject => RequestedPolicy::Quarantine,
            RequestedPolicy::None | RequestedPolicy::Quarantine => RequestedPolicy::None,
        }
    }
}

/// States if a domain is a public suffix, below which third parties register domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registry {
    Yes,
    No,
    Unsaid,
}

/// Returns true if a TXT record is a policy by its version.
pub(super) fn is_policy(txt: &[u8]) -> bool {
    let version = txt.split(|byte| *byte == b';').next().unwrap_or_default();
    let (tag, value) = match version.iter().position(|byte| *byte == b'=') {
        Some(at) => (&version[..at], &version[at + 1..]),
        None => return false,
    };
    tag.trim_ascii() == b"v" && value.trim_ascii() == b"DMARC1"
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// `p`.
    pub(super) wish: RequestedPolicy,
    /// `sp`, or `p`.
    pub(super) wish_below: RequestedPolicy,
    /// `np`, or the value of `sp`: for names below that do not exist.
    pub(super) wish_absent: RequestedPolicy,
    /// `adkim=s`.
    pub(super) is_strict_dkim: bool,
    /// `aspf=s`.
    pub(super) is_strict_spf: bool,
    /// `psd`.
    pub(super) registry: Registry,
    /// `pct`: of a hundred messages, to so many it applies in full; `t=y`: to none.
    pub(super) percent: u8,
    /// `rua`, its first addresses as written: destinations of reports.
    pub(super) report_to: Option<Box<str>>,
    /// `fo`, as it is written.
    pub(super) failure_options: Option<Box<str>>,
    /// It contains an invalid or repeated tag.
    pub(super) has_mistakes: bool,
}

impl Record {
    /// The policy among the TXT records of a name, if there is exactly one (RFC 7489 §6.6.3). Records that are not
    /// policies are skipped; several policies count as none.
    pub(super) fn find(records: &[Vec<u8>]) -> Option<Record> {
        let mut policies = records.iter().filter(|txt| is_policy(txt));
        let only = policies.next().filter(|_| policies.next().is_none())?;
        // Octets that are not text invalidate only their tag.
        Record::parse(&String::from_utf8_lossy(only))
    }

    /// Errors after the version are ignored, and so are unknown tags (RFC 7489 §6.3).
    fn parse(text: &str) -> Option<Record> {
        let tags = Tags::parse_leniently(text);
        let value = |tag| tags.get(tag).map(|value| value.trim_matches(is_blank));
        let is = |tag, expected: &str| {
            value(tag).is_some_and(|value: &str| value.eq_ignore_ascii_case(expected))
        };
        // RFC 7489 §6.6.3, step 6: without a valid request but with a report address, the request is none.
        let wish = value("p").and_then(RequestedPolicy::parse);
        let wish = wish.or_else(|| value("rua").map(|_| RequestedPolicy::None))?;
        let percent = value("pct").filter(|percent| !percent.starts_with('+'));
        let percent = percent.and_then(|percent| percent.parse::<u8>().ok());
        let wish_below = value("sp").and_then(RequestedPolicy::parse).unwrap_or(wish);
        Some(Record {
            wish,
            wish_below,
            wish_absent: value("np").and_then(RequestedPolicy::parse).unwrap_or(wish_below),
            is_strict_dkim: is("adkim", "s"),
            is_strict_spf: is("aspf", "s"),
            registry: match value("psd") {
                Some("y") => Registry::Yes,
                Some("n") => Registry::No,
                _ => Registry::Unsaid,
            },
            report_to: value("rua").and_then(first_addresses),
            failure_options: value("fo")
                .filter(|options| options.len() <= FAILURE_OPTIONS_BYTES_MAX)
                .map(Box::from),
            has_mistakes: Tags::parse(text).is_none(),
            percent: if is("t", "y") { 0 } else { percent.unwrap_or(100).min(100) },
        })
    }
}

/// As many of those listed as are ever used.
fn first_addresses(listed: &str) -> Option<Box<str>> {
    let mut kept = String::new();
    let short = listed.split(',').filter(|address| address.len() < REPORT_TO_BYTES_MAX);
    for address in short.take(ADDRESSES_MAX) {
        if kept.len() + address.len() >= REPORT_TO_BYTES_MAX {
            break;
        }
        if !kept.is_empty() {
            kept.push(',');
        }
        kept.push_str(address);
    }
    (!kept.is_empty()).then(|| kept.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(records: &[&str]) -> Option<Record> {
        Record::find(&records.iter().map(|txt| txt.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn a_mistake_in_a_record_counts_for_nothing_and_the_rest_of_it_holds() {
        for mistaken in [
            "v=DMARC1; p=reject;; rua=mailto:a@b.test",
            "v=DMARC1; p=reject; fo:1; rua=mailto:a@b.test",
            "v=DMARC1; p=reject; rua=mailto:a@b.test; rua=mailto:c@d.test",
            "v=DMARC1; p=reject; p=none; rua=mailto:a@b.test",
            "v=DMARC1; ; 1x=y; =z; \u{e9}=1; p=reject; rua=mailto:a@b.test; and more",
            "v=DMARC1; p=reject; sp=perhaps; pct=all; adkim=x; rua=mailto:a@b.test",
        ] {
            let record = find(&[mistaken]).expect(mistaken);
            assert_eq!(
                (record.wish, record.wish_below),
                (RequestedPolicy::Reject, RequestedPolicy::Reject),
                "{mistaken}"
            );
            assert_eq!(record.report_to.as_deref(), Some("mailto:a@b.test"), "{mistaken}");
            assert_eq!((record.percent, record.is_strict_dkim), (100, false), "{mistaken}");
        }
        // An octet that is no text, too.
        let latin = b"v=DMARC1; p=reject; x=\xe9".to_vec();
        assert_eq!(Record::find(&[latin]).map(|record| record.wish), Some(RequestedPolicy::Reject));
        // What is behind the last tag that is looked at is not.
        let many: String = (0..100).map(|n| format!("t{n}=;")).collect();
        assert_eq!(find(&[&format!("v=DMARC1; {many} p=reject")]), None);
        assert_eq!(find(&["v=DMARC1; p=nix; p=reject"]), None);
    }

    #[test]
    fn of_whom_to_report_to_no_more_is_kept_than_is_used() {
        let kept = |rua: &str| {
            let record = find(&[&format!("v=DMARC1; p=reject; rua={rua}; fo=1:d")]).unwrap();
            record.report_to.unwrap_or_default().to_string()
        };
        let listed = |count: usize| {
            let one = |n: usize| format!("mailto:a{n}@b.test");
            (0..count).map(one).collect::<Vec<_>>().join(",")
        };
        assert_eq!(kept(&listed(3)), listed(3));
        assert_eq!(kept(&listed(1_000)), listed(ADDRESSES_MAX));
        // Whole ones alone: half an address would be another's.
        let long = format!("mailto:{}@b.test", "x".repeat(REPORT_TO_BYTES_MAX));
        assert_eq!(kept(&format!("{long},{}", listed(2))), listed(2));
        assert_eq!(kept(&long), "");
        let record = format!("v=DMARC1; p=reject; fo={}", "1:".repeat(1_000));
        assert_eq!(find(&[&record]).unwrap().failure_options, None);
    }

    #[test]
    fn a_policy_stands_alone_among_other_records() {
        let record = find(&["x", "v=DMARC1; p=Reject; sp=none; adkim=s; pct=30; psd=n"]).unwrap();
        assert_eq!(
            (record.wish, record.wish_below),
            (RequestedPolicy::Reject, RequestedPolicy::None)
        );
        assert!(record.is_strict_dkim && !record.is_strict_spf);
        assert_eq!((record.percent, record.registry), (30, Registry::No));
        assert_eq!(record.wish_absent, RequestedPolicy::None);
        let absent = find(&["v=DMARC1; p=none; np=reject; rua=mailto:a@b.test"]).unwrap();
        assert_eq!(
            (absent.wish_below, absent.wish_absent),
            (RequestedPolicy::None, RequestedPolicy::Reject)
        );
        assert_eq!(absent.report_to.as_deref(), Some("mailto:a@b.test"));
        assert_eq!(find(&["v=DMARC1; p=none; t=y"]).unwrap().percent, 0);
        assert_eq!(find(&["v=DMARC1; p=nix; rua=mailto:a@b"]).unwrap().wish, RequestedPolicy::None);
        for none in [
            &["v=DMARC1; p=none", "v=DMARC1; p=reject"][..],
            &["p=none; v=DMARC1"],
            &["v=DMARC2; p=none"],
            &["v=DMARC1; p=nix"],
            &["v=DMARC1"],
            &["DMARC1"],
            &[],
        ] {
            assert_eq!(find(none), None, "{none:?}");
        }
    }
}
