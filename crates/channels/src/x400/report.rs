//! Reports of delivery and non-delivery (X.411 §12.2.1.3), about messages and probes that came by P1.

use super::kept::{self, ApduKind};
use super::{acceptance, gateway, names};
use crate::x400::section::X400;
use bytes::Bytes;
use mail::dsn::{DsnOutcome, RecipientReport};
use mail::failure::Unconverted;
use mail::{Culprit, EnhancedStatus, Failure, Priority, Wall};
use mta::delivery::{NativeReport, ReportQuestion};
use x400::mixer::status::to_reason;
use x400::mts::{self, EnvelopeKind, Limits, Recipient, TransferEnvelope, UtcTime};
use x400::reasons::NonDelivery;
use x400::report::{ReportedOutcome, Reporter, Subject, report as make};

/// Reason for a recipient that the originator may not send to (X.411, NonDeliveryReasonCode).
const RESTRICTED_DELIVERY: u32 = 5;
/// User type for deliveries to `discard` (X.411, MTSUserType): no public service.
const PRIVATE_USER: u32 = 1;

/// Answer to a probe, given by the MTA at which the recipient's mail leaves X.400 or ends.
const PROBED: &str = "This MTA would accept a message. No MTA beyond this one was queried.";

/// Builds a report. `None` if the message did not come over X.400, or no report was requested.
pub(super) fn report(question: &ReportQuestion<'_>) -> Option<NativeReport> {
    let (kind, octets) = kept::read(question.original.kept_of_x400()?)?;
    let x400 = question.config.of::<X400>()?;
    let kind = match kind {
        ApduKind::Message => EnvelopeKind::Message,
        ApduKind::Probe => EnvelopeKind::Probe,
        ApduKind::Report => return None,
    };
    let envelope = TransferEnvelope::read(&octets, kind, &Limits::default()).ok()?;
    let ours: Vec<&Recipient> =
        envelope.recipients.iter().filter(|r| r.indicators.is_responsible()).collect();
    let told: Vec<PerRecipientReport<'_>> = question
        .recipients
        .iter()
        .filter_map(|(index, report)| {
            Some(PerRecipientReport::new(ours.get(*index as usize)?, report, kind, question.now))
        })
        .collect();
    let verdicts: Vec<ReportedOutcome<'_>> = told.iter().map(PerRecipientReport::verdict).collect();
    let local_id = names::local_id(question.report_id, x400);
    let domain = names::global_domain(&x400.domain);
    let reporter = Reporter {
        domain: &domain,
        mta: &x400.mta,
        local_id: &local_id,
        now: UtcTime::from(question.now),
    };
    let is_whole = question.content.len() as u64 == question.original.content_bytes();
    let content = (is_whole && kind == EnvelopeKind::Message)
        .then(|| Bytes::copy_from_slice(question.content));
    let (envelope, content) =
        make(&Subject::from(&envelope), &reporter, &verdicts, content.as_ref())?;
    Some(NativeReport {
        to: gateway::recipient(&envelope.destination, question.config, x400),
        kept: kept::keep(ApduKind::Report, &envelope.encode()),
        content: content.encode(),
        priority: Priority::new(acceptance::URGENT),
    })
}

/// Report on one recipient.
struct PerRecipientReport<'a> {
    recipient: &'a Recipient,
    outcome: mts::report::ReportType,
    text: Option<String>,
}

impl<'a> PerRecipientReport<'a> {
    fn new(
        recipient: &'a Recipient,
        report: &RecipientReport<'_>,
        kind: EnvelopeKind,
        now: Wall,
    ) -> PerRecipientReport<'a> {
        let (outcome, text) = match &report.outcome {
            DsnOutcome::Failed(failure) => (failed(failure), Some(failure.to_string())),
            // Expiry is reported, regardless of the last failure.
            DsnOutcome::Expired { failure, .. } | DsnOutcome::Delayed { failure, .. } => {
                (failed_with(EnhancedStatus::new(5, 4, 7)), Some(failure.to_string()))
            }
            DsnOutcome::Delivered(_) | DsnOutcome::Relayed(_) | DsnOutcome::Expanded => {
                let time = UtcTime::from(report.last_attempt.unwrap_or(now));
                let text = (kind == EnvelopeKind::Probe).then(|| PROBED.to_owned());
                (mts::report::ReportType::Delivered { time, user: PRIVATE_USER }, text)
            }
        };
        PerRecipientReport { recipient, outcome, text }
    }

    fn verdict(&self) -> ReportedOutcome<'_> {
        let supplementary = self.text.as_deref();
        ReportedOutcome { recipient: self.recipient, outcome: self.outcome, supplementary }
    }
}

/// Reason and diagnostic of a failure: those of a conversion, otherwise by its status.
fn failed(failure: &Failure) -> mts::report::ReportType {
    match failure.culprit {
        Culprit::Conversion(Unconverted { reason, diagnostic }) => {
            mts::report::ReportType::Failed { reason, diagnostic }
        }
        _ => failed_with(failure.status),
    }
}

/// Reason and diagnostic of a status. 5.7.1 is restricted delivery (X.411 §8.3.1.2.1.12), not a missing permission of a
/// list as in RFC 2156.
fn failed_with(status: EnhancedStatus) -> mts::report::ReportType {
    mts::report::ReportType::failed(match (status.subject, status.detail) {
        (7, 1) => NonDelivery::bare(RESTRICTED_DELIVERY),
        _ => to_reason(status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_conversion_found_is_reported_as_it_is() {
        for (reason, diagnostic) in [(1, Some(12)), (1, Some(15)), (2, Some(19)), (5, None)] {
            let why = Unconverted { reason, diagnostic };
            let failure = Failure::not_converted(why, EnhancedStatus::new(5, 5, 2), "no");
            assert_eq!(failed(&failure), mts::report::ReportType::Failed { reason, diagnostic });
        }
    }

    #[test]
    fn statuses_become_reasons_and_diagnostics() {
        for (subject, detail, reason, diagnostic) in [
            (1, 1, 1, Some(0)),
            (4, 6, 1, Some(3)),
            (4, 7, 1, Some(5)),
            (2, 3, 1, Some(7)),
            (5, 3, 1, Some(16)),
            (5, 5, 1, Some(18)),
            (7, 2, 1, Some(28)),
            (7, 1, 5, None),
            (6, 5, 2, Some(47)),
            (5, 4, 1, Some(14)),
            (4, 4, 0, None),
            (6, 0, 2, None),
            (5, 9, 1, None),
        ] {
            let found = failed_with(EnhancedStatus::new(5, subject, detail));
            let expected = mts::report::ReportType::Failed { reason, diagnostic };
            assert_eq!(found, expected, "{subject}.{detail}");
        }
    }
}
