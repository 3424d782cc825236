//! Who gets the report to a domain.

use super::{ReportWay, Tls, posting};
use crate::daily_reports::{DailyReporter, DomainReport, note_sent, packed};
use auth::tls_report::{Destination, destinations, record_name};
use mta::inbox::Purpose;
use mta::seams::{Dns as _, DnsError};
use std::sync::Arc;

/// Octets of a packed report; a larger one is not sent. What is counted of one domain is far less.
const REPORT_BYTES_MAX: usize = 1 << 20;

/// Sends a domain's report to each place that wants it and has none yet.
///
/// # Errors
/// Why one of them has none now.
pub(super) async fn send(
    daily: &Arc<DailyReporter<Tls>>,
    report: &Arc<DomainReport<Tls>>,
) -> Result<(), String> {
    let domain = &*report.domain;
    let records = match daily.resolver.txt(&record_name(domain)).await {
        Ok(records) => records,
        Err(DnsError::NoRecords | DnsError::NoSuchDomain) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let places = destinations(&records);
    if places.is_empty() {
        return Ok(());
    }
    let of_file = Arc::clone(report);
    let packed = daily.aside(move |_| packed(&posting::json(&of_file))).await;
    let packed = Arc::new(packed.map_err(|error| error.to_string())?);
    if packed.len() > REPORT_BYTES_MAX {
        daily.warn(format_args!("no report to {domain}: it has {} octets", packed.len()));
        return Ok(());
    }
    let mut left = None;
    for place in &places {
        let name = match place {
            Destination::Mailbox(mailbox) => mailbox.to_string(),
            Destination::Web(address) => address.to_string(),
        };
        let noted = format!("{domain} {name}");
        if report.sent.has(&noted) {
            continue;
        }
        match send_to(daily, report, &packed, place).await {
            Ok(how) => {
                daily.tell(format_args!("report to {domain} {how}"));
                if places.len() > 1
                    && let Err(error) = note_sent(daily, report, noted).await
                {
                    daily.warn(format_args!("cannot record sent reports: {error}"));
                }
            }
            Err(why) => left = Some(why),
        }
    }
    left.map_or(Ok(()), Err)
}

/// How it was sent.
///
/// # Errors
/// Why it was not.
async fn send_to(
    daily: &Arc<DailyReporter<Tls>>,
    report: &Arc<DomainReport<Tls>>,
    packed: &Arc<Vec<u8>>,
    place: &Destination,
) -> Result<String, String> {
    let (settings, metrics) = (&report.terms.settings, &daily.kind.metrics);
    match place {
        Destination::Mailbox(mailbox) => {
            let (of_letter, packed, to) = (Arc::clone(report), Arc::clone(packed), mailbox.clone());
            let content = move |_: &_| posting::compose(&of_letter, &packed, &to);
            let (content, to) = (daily.aside(content).await, vec![mailbox.clone()]);
            let id = daily.queue(&settings.section.from, to, content, Purpose::TlsReport).await?;
            metrics.sent[ReportWay::Mail].inc();
            Ok(format!("queued id={id}"))
        }
        Destination::Web(address) => {
            posting::post(daily, address, packed, settings.public_only).await?;
            metrics.sent[ReportWay::Https].inc();
            Ok(format!("accepted by {}", address.host))
        }
    }
}
