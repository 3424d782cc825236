//! TLS result of a session with a host (RFC 8460 §4.3, §4.4).

use crate::mta_sts;
use crate::tlsa::Tlsa;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::net::IpAddr;

/// Bytes kept of a policy. An MTA-STS file fits except for its longest names; TLSA records with whole certificates are
/// omitted beyond.
pub const POLICY_BYTES_MAX: usize = 4_096;

/// Bytes kept of a host's name or of a failure reason.
pub const VALUE_BYTES_MAX: usize = 255;

/// Failure type of a session, by its registered name (RFC 8460 §4.3, §6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultType {
    /// The host offers no STARTTLS.
    StarttlsNotSupported,
    /// Its certificate is for other names.
    CertificateHostMismatch,
    /// Its certificate has ended, or has not begun.
    CertificateExpired,
    /// Its certificate is not from a trusted issuer.
    CertificateNotTrusted,
    /// Any failure without its own name.
    ValidationFailure,
    /// No TLSA record is usable.
    TlsaInvalid,
    /// Its TLSA records can't be had, or DNSSEC shows them to be false.
    DnssecInvalid,
    /// It has no TLSA records, and must have some.
    DaneRequired,
    /// The policy of the domain can't be fetched.
    StsPolicyFetchError,
    /// The policy is invalid.
    StsPolicyInvalid,
    /// Its web server has a certificate that is not valid.
    StsWebpkiInvalid,
}

/// The type of policy that a session was judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PolicyType {
    #[serde(rename = "tlsa")]
    Tlsa,
    #[serde(rename = "sts")]
    Sts,
    #[serde(rename = "no-policy-found")]
    NoPolicyFound,
}

/// The same, with the policy's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Policy {
    policy_type: PolicyType,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    policy_string: Vec<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mx_host: Vec<Box<str>>,
}

impl Policy {
    /// The host has no TLS policy.
    #[must_use]
    pub fn none() -> Policy {
        Policy::of(PolicyType::NoPolicyFound)
    }

    fn of(policy_type: PolicyType) -> Policy {
        Policy { policy_type, policy_string: Vec::new(), mx_host: Vec::new() }
    }

    /// The domain's policy; `None` if it could not be obtained.
    #[must_use]
    pub fn sts(policy: Option<&mta_sts::Policy>) -> Policy {
        let mut told = Policy::of(PolicyType::Sts);
        let Some(policy) = policy else { return told };
        told.policy_string = fitting(policy.to_string().lines().map(Box::from));
        told.mx_host = fitting(policy.mx().map(Box::from));
        told
    }

    /// The TLSA records of a host.
    #[must_use]
    pub fn tlsa(host: &str, records: &[Tlsa]) -> Policy {
        let mut told = Policy::of(PolicyType::Tlsa);
        told.policy_string = fitting(records.iter().map(presented));
        told.mx_host = vec![host.into()];
        told
    }

    /// The type.
    #[must_use]
    pub fn kind(&self) -> PolicyType {
        self.policy_type
    }

    /// Approximate memory of its texts.
    pub(super) fn bytes(&self) -> usize {
        self.policy_string.iter().chain(&self.mx_host).map(|text| text.len() + 16).sum()
    }
}

/// RFC 6698 §2.2, without blanks in the data.
fn presented(record: &Tlsa) -> Box<str> {
    let mut text = format!("{} {} {} ", record.usage, record.selector, record.matching);
    for byte in &record.data {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

/// The texts that fit, first ones first.
fn fitting(texts: impl Iterator<Item = Box<str>>) -> Vec<Box<str>> {
    let mut left = POLICY_BYTES_MAX;
    let fitting = texts.filter(|text| {
        let rest = left.checked_sub(text.len());
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    fitting.collect()
}

/// Details of a failed session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Details {
    pub result_type: ResultType,
    /// Our address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sending_mta_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiving_mx_hostname: Option<Box<str>>,
    /// The host's name in its greeting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiving_mx_helo: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiving_ip: Option<IpAddr>,
    /// The reason as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason_code: Option<Box<str>>,
}

impl Details {
    /// A failure of which no more is known.
    #[must_use]
    pub fn new(result_type: ResultType) -> Details {
        Details {
            result_type,
            sending_mta_ip: None,
            receiving_mx_hostname: None,
            receiving_mx_helo: None,
            receiving_ip: None,
            failure_reason_code: None,
        }
    }

    /// With its reason.
    #[must_use]
    pub fn because(self, reason: &str) -> Details {
        Details { failure_reason_code: value(reason), ..self }
    }

    /// With the host's own name for itself.
    #[must_use]
    pub fn said_by(self, helo: &str) -> Details {
        Details { receiving_mx_helo: value(helo), ..self }
    }

    pub(super) fn bytes(&self) -> usize {
        let texts =
            [&self.receiving_mx_hostname, &self.receiving_mx_helo, &self.failure_reason_code];
        200 + texts.into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

/// A peer's text, cut and made printable.
fn value(text: &str) -> Option<Box<str>> {
    let text = &text[..text.floor_char_boundary(VALUE_BYTES_MAX)];
    let clean: String =
        text.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
    (!clean.is_empty()).then(|| clean.into())
}

/// A session that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// The recipient domain of the session, in A-labels and lower case.
    pub domain: Box<str>,
    pub policy: Policy,
    /// `None`: it is as it should be.
    pub failure: Option<Details>,
}
