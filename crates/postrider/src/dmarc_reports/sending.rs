//! Who gets the report to a domain.

use super::{Dmarc, letter};
use crate::daily_reports::{Inner, Report, packed};
use auth::dmarc::reporting::{destinations, may_report};
use mail::Mailbox;
use mta::seams::AsRecords;

/// Octets of a report; a larger one is not sent.
const REPORT_BYTES_MAX: usize = 10 << 20;

/// Queues a domain's report, if there is anybody whom it may be sent to.
///
/// # Errors
/// Why it can't be done now.
pub(super) async fn send(inner: &Inner<Dmarc>, report: &Report<'_, Dmarc>) -> Result<(), String> {
    let packed = packed(letter::xml(report).as_bytes()).map_err(|error| error.to_string())?;
    let to = readers(inner, report, packed.len()).await?;
    if to.is_empty() {
        return Ok(());
    }
    let content = letter::compose(report, &packed, &to);
    let id = inner.queue(&report.terms.settings.from, to, content, false).await?;
    inner.tell(format_args!("report to {} queued id={id}", report.domain));
    Ok(())
}

/// Who gets a report of so many octets.
///
/// # Errors
/// The DNS gives no answer about one of them.
async fn readers(
    inner: &Inner<Dmarc>,
    report: &Report<'_, Dmarc>,
    report_bytes: usize,
) -> Result<Vec<Mailbox>, String> {
    let (mut readers, domain) = (Vec::new(), report.domain);
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
            told(&mailbox, "it is larger than wanted");
            continue;
        }
        match may_report(&AsRecords(&inner.resolver), domain, &to).await {
            Ok(true) => readers.push(mailbox),
            Ok(false) => told(&mailbox, "its domain does not say that it wants any"),
            Err(unanswered) => return Err(unanswered.to_string()),
        }
    }
    Ok(readers)
}
