//! Generation of reports (X.411 §14.3.3) on messages and probes. Reports are never reported on, so none can be made
//! from a report's envelope.

use crate::ber::Tag;
use crate::mts::extension::{Extension, NameAndTime, number};
use crate::mts::report::{ReportType, ReportedRecipient};
use crate::mts::trace::Supplied;
use crate::mts::{
    Broken, ContentType, Eits, Extensions, Flags, GlobalDomain, InternalTraceElement,
    MtsIdentifier, Recipient, ReportContent, ReportEnvelope, TraceElement, TransferEnvelope,
    UtcTime, message_indicator,
};
use crate::or_name::OrName;
use crate::reasons::NonDelivery;
use bytes::Bytes;

/// Octets of a content that are returned at most: more costs everybody, and the originator has it.
pub const RETURNED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Characters of supplementary information (X.411, ub-supplementary-info-length).
pub const SUPPLEMENTARY_CHARS_MAX: usize = 256;

/// The subject's data needed for a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Its identifier.
    pub identifier: MtsIdentifier,
    /// Its originator.
    pub originator: OrName,
    /// The domains it passed.
    pub trace: Vec<TraceElement>,
    /// Information types of its content.
    pub original_eits: Option<Eits>,
    /// Type of its content.
    pub content_type: Option<ContentType>,
    /// The originator's name of the content.
    pub content_identifier: Option<Box<str>>,
    /// Its extensions, of which correlator and lists count.
    pub extensions: Extensions,
    /// The originator wants the content back.
    pub is_content_wanted: bool,
}

impl From<&TransferEnvelope> for Subject {
    fn from(envelope: &TransferEnvelope) -> Subject {
        Subject {
            identifier: envelope.identifier.clone(),
            originator: envelope.originator.clone(),
            trace: envelope.trace.clone(),
            original_eits: envelope.original_eits.clone(),
            content_type: Some(envelope.content_type.clone()),
            content_identifier: envelope.content_identifier.clone(),
            extensions: envelope.extensions.clone(),
            is_content_wanted: envelope.indicators.has(message_indicator::CONTENT_RETURN_REQUEST),
        }
    }
}

impl Subject {
    /// The subject of a malformed envelope; `None` if no party can be notified.
    #[must_use]
    pub fn of_broken(broken: &Broken) -> Option<Subject> {
        Some(Subject {
            identifier: broken.identifier.clone()?,
            originator: broken.originator.clone()?,
            trace: broken.trace.clone(),
            content_type: broken.content_type.clone(),
            ..Subject::default()
        })
    }
}

/// The reporting MTA.
#[derive(Clone, Debug)]
pub struct Reporter<'a> {
    /// Our domain.
    pub domain: &'a GlobalDomain,
    /// Our MTA.
    pub mta: &'a str,
    /// The report's own identifier; its domain is ours.
    pub local_id: &'a str,
    /// Now.
    pub now: UtcTime,
}

/// Result for one recipient.
#[derive(Clone, Copy, Debug)]
pub struct ReportedOutcome<'a> {
    /// The recipient in the received envelope.
    pub recipient: &'a Recipient,
    /// The result.
    pub outcome: ReportType,
    /// Supplementary text for people.
    pub supplementary: Option<&'a str>,
}

impl ReportType {
    /// The outcome of a failure.
    #[must_use]
    pub fn failed(why: NonDelivery) -> ReportType {
        ReportType::Failed { reason: why.reason, diagnostic: why.diagnostic }
    }

    fn is_failure(self) -> bool {
        matches!(self, ReportType::Failed { .. })
    }
}

/// Generates the report on these recipients, as far as requested for each. `None` if no report is requested. `content`
/// is the subject's, returned on non-delivery if requested (X.411 §8.2.1.1.1.30).
#[must_use]
pub fn report(
    subject: &Subject,
    reporter: &Reporter<'_>,
    verdicts: &[ReportedOutcome<'_>],
    content: Option<&Bytes>,
) -> Option<(ReportEnvelope, ReportContent)> {
    let wanted: Vec<&ReportedOutcome<'_>> = verdicts
        .iter()
        .filter(|verdict| {
            let indicators = verdict.recipient.indicators;
            if verdict.outcome.is_failure() {
                indicators.wants_non_delivery_report()
            } else {
                indicators.wants_delivery_report()
            }
        })
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let is_returned = subject.is_content_wanted && wanted.iter().any(|v| v.outcome.is_failure());
    let content = content.filter(|content| is_returned && content.len() <= RETURNED_BYTES_MAX);
    let correlator = subject.extensions.standard(number::CONTENT_CORRELATOR).cloned();
    let content = ReportContent {
        subject: subject.identifier.clone(),
        subject_trace: subject.trace.clone(),
        original_eits: subject.original_eits.clone(),
        content_type: subject.content_type.clone(),
        content_identifier: subject.content_identifier.clone(),
        returned_content: content.cloned(),
        additional: None,
        extensions: Extensions(correlator.into_iter().collect()),
        recipients: wanted.iter().map(|verdict| reported(verdict, subject, reporter)).collect(),
    };
    Some((envelope(subject, reporter), content))
}

/// Addressed to the originator, or to the last expanded list, which forwards the report (X.411 §14.3.3).
fn envelope(subject: &Subject, reporter: &Reporter<'_>) -> ReportEnvelope {
    let lists = subject.extensions.dl_expansion_history().unwrap_or_default();
    let supplied = Supplied { arrival: reporter.now, ..Supplied::default() };
    let mut extensions = Vec::new();
    if !lists.is_empty() {
        let submitted = subject.trace.first().map_or(reporter.now, |t| t.supplied.arrival);
        let mut history = vec![NameAndTime { name: subject.originator.clone(), time: submitted }];
        history.extend(lists.iter().cloned());
        extensions.push(Extension::history(number::ORIGINATOR_AND_DL_EXPANSION_HISTORY, &history));
    }
    extensions.push(Extension::internal_trace(&[InternalTraceElement {
        domain: reporter.domain.clone(),
        mta: reporter.mta.into(),
        supplied: supplied.clone(),
    }]));
    extensions.push(Extension::standard(number::REPORTING_MTA_NAME, Flags::default(), |value| {
        value.constructed(Tag::SEQUENCE, |name| {
            reporter.domain.encode(name);
            name.text(Tag::IA5_STRING, reporter.mta);
        });
    }));
    let destination = lists.last().map_or(&subject.originator, |list| &list.name);
    ReportEnvelope {
        identifier: MtsIdentifier {
            domain: reporter.domain.clone(),
            local: reporter.local_id.into(),
        },
        destination: destination.clone(),
        trace: vec![TraceElement { domain: reporter.domain.clone(), supplied }],
        extensions: Extensions(extensions),
    }
}

fn reported(
    verdict: &ReportedOutcome<'_>,
    subject: &Subject,
    reporter: &Reporter<'_>,
) -> ReportedRecipient {
    let recipient = verdict.recipient;
    let history = recipient.extensions.redirection_history().unwrap_or_default();
    let arrival = subject.trace.last().map_or(reporter.now, |element| element.supplied.arrival);
    let redirections = recipient.extensions.standard(number::REDIRECTION_HISTORY).cloned();
    ReportedRecipient {
        actual: recipient.name.clone(),
        number: recipient.number,
        indicators: recipient.indicators,
        arrival,
        converted: None,
        outcome: verdict.outcome,
        intended: history.first().map(|first| first.intended.name.clone()),
        supplementary: verdict.supplementary.and_then(supplementary),
        extensions: Extensions(redirections.into_iter().collect()),
    }
}

/// A text as PrintableString, cut to the maximum length; other characters become question marks.
pub(crate) fn supplementary(text: &str) -> Option<Box<str>> {
    let printable: String = text
        .trim()
        .chars()
        .take(SUPPLEMENTARY_CHARS_MAX)
        .map(|c| match c {
            c if crate::or_name::text::is_printable(c) => c,
            // Replies have these, and would be unreadable without.
            '"' | '<' | '>' | '[' | ']' | '`' => '\'',
            ';' => ',',
            '_' | '\t' | '\r' | '\n' => ' ',
            _ => '?',
        })
        .collect();
    (!printable.is_empty()).then(|| printable.into())
}
