//! Who gets the report to a domain.

use super::{Dmarc, DmarcSender};
use crate::daily_reports::{DailyReporter, DomainReport, Letter, ReporterSettings, packed};
use auth::dmarc::reporting::{destinations, may_report, tag};
use mail::Mailbox;
use mta::inbox::Purpose;
use mta::seams::AsRecords;
use std::fmt::Write as _;
use std::sync::Arc;

/// Octets of a report; a larger one is not sent.
const REPORT_BYTES_MAX: usize = 10 << 20;

/// Queues a domain's report, if there is anybody whom it may be sent to.
///
/// # Errors
/// Why it can't be done now.
pub(super) async fn send(
    inner: &Arc<DailyReporter<Dmarc>>,
    report: &Arc<DomainReport<Dmarc>>,
) -> Result<(), String> {
    let of_file = Arc::clone(report);
    let packed = inner.aside(move |_| packed(xml(&of_file).as_bytes())).await;
    let packed = packed.map_err(|error| error.to_string())?;
    let to = readers(inner, report, packed.len()).await?;
    if to.is_empty() {
        return Ok(());
    }
    let (of_letter, readers) = (Arc::clone(report), to.clone());
    let content = inner.aside(move |_| compose(&of_letter, &packed, &readers)).await;
    let id = inner.queue(&report.terms.settings.from, to, content, Purpose::Report).await?;
    inner.tell(format_args!("report to {} queued id={id}", report.domain));
    Ok(())
}

/// Who gets a report of so many octets.
///
/// # Errors
/// The DNS gives no answer about one of them.
async fn readers(
    inner: &DailyReporter<Dmarc>,
    report: &DomainReport<Dmarc>,
    report_bytes: usize,
) -> Result<Vec<Mailbox>, String> {
    let (mut readers, domain) = (Vec::new(), &*report.domain);
    let told = |address: &Mailbox, why: &str| {
        inner.tell(format_args!("no report to {domain} for {address}: {why}"));
    };
    if report_bytes > REPORT_BYTES_MAX {
        inner.warn(format_args!("no report to {domain}: it has {report_bytes} octets"));
        return Ok(readers);
    }
    for destination in destinations(&report.counted.report_to) {
        let mailbox = destination.mailbox;
        let Ok(to) = mailbox.domain().to_ascii().map(|ascii| ascii.to_ascii_lowercase()) else {
            continue;
        };
        if destination.bytes_max.is_some_and(|max| report_bytes as u64 > max) {
            told(&mailbox, "larger than its size limit");
            continue;
        }
        match may_report(&AsRecords(&inner.resolver), domain, &to).await {
            Ok(true) => readers.push(mailbox),
            Ok(false) => told(&mailbox, "its domain does not permit them"),
            Err(unanswered) => return Err(unanswered.to_string()),
        }
    }
    Ok(readers)
}

/// The report itself.
pub(super) fn xml(report: &DomainReport<Dmarc>) -> String {
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
pub(super) fn compose(report: &DomainReport<Dmarc>, packed: &[u8], to: &[Mailbox]) -> Vec<u8> {
    let ReporterSettings::<DmarcSender> { settings, hostname } = &*report.terms;
    let (domain, id) = (&report.domain, report.id());
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
