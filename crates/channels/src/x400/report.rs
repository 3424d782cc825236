//! Reports of delivery and non-delivery (X.411 §12.2.1.3), about messages and probes that came by P1.

use super::kept::{self, ApduKind};
use super::{acceptance, names};
use bytes::Bytes;
use config::X400;
use mail::dsn::{Outcome, RecipientReport};
use mail::{EnhancedStatus, Priority, Wall};
use mta::delivery::{OwnReport, ReportQuestion};
use x400::mts::message_indicator::CONTENT_RETURN_REQUEST;
use x400::mts::report::{self, ReportedRecipient};
use x400::mts::trace::Supplied;
use x400::mts::{
    EnvelopeKind, Extensions, Limits, MtsIdentifier, Recipient, ReportContent, ReportEnvelope,
    TraceElement, TransferEnvelope, UtcTime,
};

/// Octets of supplementary information (X.411 Annex B, ub-supplementary-info-length).
const SUPPLEMENTARY_BYTES_MAX: usize = 256;
/// To what `discard` delivers (X.411, MTSUserType): what no public service is.
const PRIVATE_USER: u32 = 1;
/// Contents up to this size are returned where the originator wants them back.
const RETURNED_BYTES_MAX: usize = 256 * 1024;

/// The report that a question asks for; `None`: the message is none of X.400, or has no originator to tell.
pub(super) fn report(question: &ReportQuestion<'_>) -> Option<OwnReport> {
    let (kind, octets) = kept::read(question.original.kept_of_x400()?)?;
    let x400 = question.config.x400.as_ref()?;
    let kind = match kind {
        ApduKind::Message => EnvelopeKind::Message,
        ApduKind::Probe => EnvelopeKind::Probe,
        ApduKind::Report => return None,
    };
    let subject = TransferEnvelope::read(&octets, kind, &Limits::default()).ok()?;
    let content = content_of(question, &subject).encode();
    let envelope = envelope_of(question, x400, &subject);
    Some(OwnReport {
        to: names::mailbox(&subject.originator)?,
        kept: kept::keep(ApduKind::Report, &envelope.encode()),
        content,
        priority: Priority::new(acceptance::URGENT),
    })
}

/// It begins here: our domain is the first that it comes through.
fn envelope_of(
    question: &ReportQuestion<'_>,
    x400: &X400,
    subject: &TransferEnvelope,
) -> ReportEnvelope {
    let domain = names::global_domain(&x400.domain);
    let supplied = Supplied { arrival: UtcTime::from(question.now), ..Supplied::default() };
    ReportEnvelope {
        identifier: MtsIdentifier {
            domain: domain.clone(),
            local: format!("{}.{}", x400.mta, question.report_id)
                .chars()
                .take(32)
                .collect::<String>()
                .into(),
        },
        destination: subject.originator.clone(),
        trace: vec![TraceElement { domain, supplied }],
        extensions: Extensions::default(),
    }
}

fn content_of(question: &ReportQuestion<'_>, subject: &TransferEnvelope) -> ReportContent {
    let ours: Vec<&Recipient> =
        subject.recipients.iter().filter(|r| r.indicators.is_responsible()).collect();
    let arrival = question.original.received_at;
    let reported = |(index, report): &(u32, RecipientReport<'_>)| {
        let fields = ours.get(*index as usize)?;
        Some(reported(fields, report, (arrival, question.now)))
    };
    let has_failed = question.recipients.iter().any(|(_, report)| is_failure(&report.outcome));
    let is_whole = question.content.len() as u64 == question.original.content_bytes();
    let returns = has_failed
        && subject.kind == EnvelopeKind::Message
        && subject.indicators.has(CONTENT_RETURN_REQUEST)
        && is_whole
        && question.content.len() <= RETURNED_BYTES_MAX;
    let correlator = subject.extensions.standard(x400::mts::extension::number::CONTENT_CORRELATOR);
    ReportContent {
        subject: subject.identifier.clone(),
        subject_trace: subject.trace.clone(),
        original_eits: subject.original_eits.clone(),
        content_type: Some(subject.content_type.clone()),
        content_identifier: subject.content_identifier.clone(),
        returned_content: returns.then(|| Bytes::copy_from_slice(question.content)),
        additional: None,
        extensions: Extensions(correlator.into_iter().cloned().collect()),
        recipients: question.recipients.iter().filter_map(reported).collect(),
    }
}

fn is_failure(outcome: &Outcome<'_>) -> bool {
    match outcome {
        Outcome::Failed(_) | Outcome::Expired { .. } | Outcome::Delayed { .. } => true,
        Outcome::Delivered(_) | Outcome::Relayed(_) | Outcome::Expanded => false,
    }
}

fn reported(
    fields: &Recipient,
    report: &RecipientReport<'_>,
    (arrival, now): (Wall, Wall),
) -> ReportedRecipient {
    let (outcome, text) = match &report.outcome {
        Outcome::Failed(failure) => (failed(failure.status), Some(failure.to_string())),
        // Time ran out, whatever stood in the way last.
        Outcome::Expired { failure, .. } | Outcome::Delayed { failure, .. } => {
            (failed(EnhancedStatus::new(5, 4, 7)), Some(failure.to_string()))
        }
        Outcome::Delivered(_) | Outcome::Relayed(_) | Outcome::Expanded => {
            let time = UtcTime::from(report.last_attempt.unwrap_or(now));
            (report::Outcome::Delivered { time, user: PRIVATE_USER }, None)
        }
    };
    ReportedRecipient {
        actual: fields.name.clone(),
        number: fields.number,
        indicators: fields.indicators,
        arrival: UtcTime::from(arrival),
        converted: None,
        outcome,
        intended: None,
        supplementary: text.map(|text| supplementary(&text)),
        extensions: Extensions::default(),
    }
}

/// Reason and diagnostic of a status (RFC 2156 §5.3.8, the table from RFC 3463's statuses).
fn failed(status: EnhancedStatus) -> report::Outcome {
    let (reason, diagnostic) = match (status.subject, status.detail) {
        (1, 1..=3) => (1, Some(0)),
        (1, 4) => (1, Some(1)),
        (1, 6) => (1, Some(43)),
        (1, 7 | 8) => (1, Some(11)),
        (2, 1 | 2) => (1, Some(4)),
        (2, 3) | (3, 4) => (1, Some(7)),
        (2, 4) => (1, Some(30)),
        (3, 1 | 2) | (4, 5) => (1, Some(2)),
        (3, 3) | (5, 5) => (1, Some(18)),
        (3, 0) | (4, 0..=2 | 4) => (0, None),
        (4, 3) => (6, None),
        (4, 6) => (1, Some(3)),
        (4, 7) => (1, Some(5)),
        (5, 1 | 2 | 4) => (1, Some(14)),
        (5, 3) => (1, Some(16)),
        (6, 0) => (2, None),
        (6, 1) => (1, Some(6)),
        (6, 2) => (2, Some(9)),
        (6, 3) => (2, Some(8)),
        (6, 5) => (2, Some(47)),
        (7, 1) => (1, Some(29)),
        (7, 2) => (1, Some(28)),
        (7, _) => (1, Some(46)),
        _ => (1, None),
    };
    report::Outcome::Failed { reason, diagnostic }
}

/// PrintableString (X.680 §41.4), cut.
fn supplementary(text: &str) -> Box<str> {
    let printable = |c: char| match c {
        'a'..='z'
        | 'A'..='Z'
        | '0'..='9'
        | ' '
        | '\''
        | '('
        | ')'
        | '+'
        | ','
        | '-'
        | '.'
        | '/'
        | ':'
        | '='
        | '?' => c,
        _ => '?',
    };
    text.chars().take(SUPPLEMENTARY_BYTES_MAX).map(printable).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (5, 4, 1, Some(14)),
            (4, 4, 0, None),
            (6, 0, 2, None),
        ] {
            let found = failed(EnhancedStatus::new(5, subject, detail));
            assert_eq!(found, report::Outcome::Failed { reason, diagnostic }, "{subject}.{detail}");
        }
    }

    #[test]
    fn supplementary_information_is_printable_and_short() {
        assert_eq!(&*supplementary("no <route> \"x\""), "no ?route? ?x?");
        assert_eq!(supplementary(&"x".repeat(300)).len(), SUPPLEMENTARY_BYTES_MAX);
    }
}
