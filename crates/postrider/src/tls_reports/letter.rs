//! A report as JSON, and as a message (RFC 8460 §4.4, §5.3).

use super::Tls;
use crate::daily_reports::{Letter, Report};
use auth::tls_report;
use mail::{Mailbox, Wall};

/// What the report is called as a file of a message, and in the request to a web server.
pub(super) const MEDIA_TYPE: &str = "application/tlsrpt+gzip";

/// The report itself.
pub(super) fn json(report: &Report<'_, Tls>) -> Vec<u8> {
    let section = &report.terms.settings.section;
    let (begin, end) = report.range();
    tls_report::Report {
        organization: &section.organization_name,
        contact: section.contact.as_str(),
        id: &id(report),
        range: (Wall(begin * 1_000), Wall(end * 1_000)),
        domain: report.domain,
        counts: &report.counted.0,
    }
    .json()
}

/// RFC 8460 §5.3 has it like a message's: with a domain behind it.
fn id(report: &Report<'_, Tls>) -> String {
    format!("{}@{}", report.id(), report.terms.hostname)
}

/// The whole message, with CRLF at line ends. Servers on its way are told not to have TLS in its way (RFC 8689
/// §3): of that it tells.
pub(super) fn compose(report: &Report<'_, Tls>, packed: &[u8], to: &Mailbox) -> Vec<u8> {
    let (section, hostname) = (&report.terms.settings.section, &report.terms.hostname);
    let (domain, id) = (report.domain, id(report));
    let (begin, end) = report.range();
    Letter {
        from: &section.from,
        to: std::slice::from_ref(to),
        subject: format!(
            "Report Domain: {domain}\r\n\tSubmitter: {hostname}\r\n\tReport-ID: <{id}>"
        ),
        date: report.now,
        message_id: format!("<tlsrpt.{}.{:x}@{hostname}>", report.id(), report.now.0),
        fields: &[
            format!("TLS-Report-Domain: {domain}"),
            format!("TLS-Report-Submitter: {hostname}"),
            "TLS-Required: No".to_owned(),
        ],
        content_type: "multipart/report; report-type=\"tlsrpt\"",
        boundary: format!("=_{}", report.id()),
        text: &[
            format!("This is an aggregate report about TLS to the mail servers of\r\n{domain},"),
            format!("made by {}.", section.organization_name),
        ],
        file_type: MEDIA_TYPE,
        file_name: format!("{hostname}!{domain}!{begin}!{end}.json.gz"),
        file: packed,
    }
    .compose()
}
