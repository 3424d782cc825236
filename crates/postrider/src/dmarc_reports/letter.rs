//! A report as a message (RFC 7489 §7.2.1.1, appendix C).

use super::{Dmarc, DmarcSender};
use crate::daily_reports::{Letter, Report, Terms};
use auth::dmarc::reporting::tag;
use mail::Mailbox;
use std::fmt::Write as _;

/// The report itself.
pub(super) fn xml(report: &Report<'_, Dmarc>) -> String {
    let settings = &report.terms.settings;
    let (begin, end) = report.range();
    let mut out = String::with_capacity(1_024 + report.counted.rows.len() * 640);
    out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feedback>");
    tag(&mut out, "version", "1.0");
    out.push_str("<report_metadata>");
    tag(&mut out, "org_name", &settings.organization_name);
    tag(&mut out, "email", settings.from.as_str());
    if let Some(contact) = &settings.contact {
        tag(&mut out, "extra_contact_info", contact);
    }
    tag(&mut out, "report_id", &report.id());
    let _ = write!(out, "<date_range><begin>{begin}</begin><end>{end}</end></date_range>");
    let published = &report.counted.published;
    let _ = write!(out, "</report_metadata>\n<policy_published>{published}</policy_published>");
    for (row, count) in &report.counted.rows {
        let Some((source, rest)) = row.split_once(' ') else { continue };
        out.push_str("\n<record><row>");
        tag(&mut out, "source_ip", source);
        let _ = write!(out, "<count>{count}</count>{rest}</record>");
    }
    out.push_str("\n</feedback>\n");
    out
}

/// The whole message, with CRLF at line ends.
pub(super) fn compose(report: &Report<'_, Dmarc>, packed: &[u8], to: &[Mailbox]) -> Vec<u8> {
    let Terms::<DmarcSender> { settings, hostname } = report.terms;
    let (domain, id) = (report.domain, report.id());
    let (begin, end) = report.range();
    Letter {
        from: &settings.from,
        to,
        subject: format!(
            "Report Domain: {domain}\r\n\tSubmitter: {hostname}\r\n\tReport-ID: <{id}>"
        ),
        date: report.now,
        message_id: format!("<dmarc.{id}.{:x}@{hostname}>", report.now.0),
        fields: &[],
        content_type: "multipart/mixed",
        boundary: format!("=_{id}"),
        text: &[
            format!("This is a DMARC aggregate report about mail in the name of\r\n{domain},"),
            format!("made by {}.", settings.organization_name),
        ],
        file_type: "application/gzip",
        file_name: format!("{hostname}!{domain}!{begin}!{end}.xml.gz"),
        file: packed,
    }
    .compose()
}
