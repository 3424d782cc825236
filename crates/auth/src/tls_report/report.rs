//! A report as JSON (RFC 8460 §4.4).

use super::counts::{Counts, PolicyCounts};
use super::session::{Details, Policy};
use mail::Wall;
use serde::Serialize;

/// One domain's report about one day.
#[derive(Clone, Copy, Debug)]
pub struct TlsReport<'a> {
    /// The reporting organization.
    pub organization: &'a str,
    /// A contact address.
    pub contact: &'a str,
    pub id: &'a str,
    /// First and last second of the day.
    pub range: (Wall, Wall),
    /// The reported domain.
    pub domain: &'a str,
    pub counts: &'a Counts,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ReportDocument<'a> {
    organization_name: &'a str,
    date_range: DateRange,
    contact_info: &'a str,
    report_id: &'a str,
    policies: Vec<OfPolicy<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct DateRange {
    start_datetime: String,
    end_datetime: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct OfPolicy<'a> {
    policy: PolicyOfDomain<'a>,
    summary: Summary,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failure_details: Vec<CountedDetails<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyOfDomain<'a> {
    #[serde(flatten)]
    policy: &'a Policy,
    policy_domain: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Summary {
    total_successful_session_count: u64,
    total_failure_session_count: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CountedDetails<'a> {
    #[serde(flatten)]
    details: &'a Details,
    failed_session_count: u64,
}

impl TlsReport<'_> {
    /// The report.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        let (start, end) = self.range;
        let whole = ReportDocument {
            organization_name: self.organization,
            date_range: DateRange { start_datetime: seconds(start), end_datetime: seconds(end) },
            contact_info: self.contact,
            report_id: self.id,
            policies: self.counts.policies.iter().map(|counted| self.of(counted)).collect(),
        };
        // Texts and numbers can always be serialised.
        serde_json::to_vec(&whole).unwrap_or_default()
    }

    fn of<'a>(&'a self, counted: &'a PolicyCounts) -> OfPolicy<'a> {
        let details = counted.details.iter();
        OfPolicy {
            policy: PolicyOfDomain { policy: &counted.policy, policy_domain: self.domain },
            summary: Summary {
                total_successful_session_count: counted.successes,
                total_failure_session_count: counted.failures,
            },
            failure_details: details
                .map(|(details, count)| CountedDetails { details, failed_session_count: *count })
                .collect(),
        }
    }
}

/// RFC 3339, in whole seconds as in the RFC's example.
fn seconds(at: Wall) -> String {
    let text = at.to_string();
    let end = text.find('.').unwrap_or(text.len());
    format!("{}Z", &text[..end].trim_end_matches('Z'))
}
