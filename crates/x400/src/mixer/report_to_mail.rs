//! Reports to delivery status notifications (RFC 2156 §5.3.8).

use super::output::{MimeHeader, MimePart, finished};
use super::to_mail::{Mail, MailTo, is_mapped, returned};
use super::{ConversionContext, status, trace};
use crate::ber::oid_text;
use crate::mts::report::{ReportType, ReportedRecipient};
use crate::mts::{ExtensionKind, Extensions, ReportContent, ReportEnvelope};
use crate::or_name::OrName;
use crate::reasons::NonDelivery;
use mail::Notify;

/// Recipients that a DSN names at most; more are counted only.
pub const RECIPIENTS_MAX: usize = 1_000;
/// Names of the kinds of users that a message is delivered to (X.411, type-of-MTS-user).
const USERS: [&str; 7] = ["public", "private", "ms", "dl", "pdau", "physical-recipient", "other"];

/// Converts a report. Its recipient is the one that the report goes to; the reverse-path is null.
#[must_use]
pub fn report_to_mail(
    here: &ConversionContext<'_>,
    envelope: &ReportEnvelope,
    content: &ReportContent,
) -> Mail {
    let to = here.gateway.to_mail(&envelope.destination.address);
    let mut out = MimeHeader::default();
    out.raw(&trace::gateway_field(&here.gateway.domain, here.now));
    let internal = envelope.extensions.internal_trace().unwrap_or_default();
    for field in trace::to_fields(&envelope.trace, &internal) {
        out.raw(&field);
    }
    out.field("From", &format!("X.400 gateway <postmaster@{}>", here.gateway.domain));
    out.field("To", to.as_deref().unwrap_or("list:;"));
    out.field("Message-Type", "Delivery Report");
    out.field("Subject", &subject(here, content));
    let date = envelope.trace.first().map_or(here.now, |element| element.supplied.arrival);
    out.field("Date", &date.to_rfc5322());
    out.field("Message-ID", &format!("<{}.report@{}>", here.local_id, here.gateway.domain));
    out.field("Auto-Submitted", "auto-replied");
    out.field("X400-MTS-Identifier", &envelope.identifier.to_string());
    if let Some(identifier) = &content.content_identifier {
        out.field("X400-Content-Identifier", identifier);
    }
    let original = content
        .returned_content
        .as_ref()
        .and_then(|octets| returned(here, content.content_type.as_ref(), octets));
    let mut parts = vec![
        MimePart::text(
            "text/plain; charset=us-ascii",
            explanation(here, content, original.is_some()).as_bytes(),
        ),
        delivery_status(here, envelope, content),
    ];
    if let Some(original) = original {
        let mut part = MimePart { body: original, ..MimePart::default() };
        part.fields.field("Content-Type", "message/rfc822");
        parts.push(part);
    }
    let body =
        MimePart::multipart("report", " report-type=delivery-status;", &parts, here.local_id);
    Mail {
        originator: None,
        recipients: vec![MailTo { index: 0, address: to, notify: Notify::NEVER, original: None }],
        envid: String::new(),
        returns_content: false,
        priority: mail::Priority::NORMAL,
        message: finished(out, body),
    }
}

fn is_failure(recipient: &ReportedRecipient) -> bool {
    matches!(recipient.outcome, ReportType::Failed { .. })
}

fn subject(here: &ConversionContext<'_>, content: &ReportContent) -> String {
    let failures = content.recipients.iter().filter(|r| is_failure(r)).count();
    let status = match failures {
        0 => "success",
        all if all == content.recipients.len() => "failure",
        _ => "success and failures",
    };
    let subject = format!("Delivery-Report ({status})");
    match &content.recipients[..] {
        [one] => format!("{subject} for {}", mailbox(here, specified(one))),
        _ => subject,
    }
}

/// The recipient named by the originator.
fn specified(recipient: &ReportedRecipient) -> &OrName {
    recipient.intended.as_ref().unwrap_or(&recipient.actual)
}

fn mailbox(here: &ConversionContext<'_>, name: &OrName) -> String {
    here.gateway.to_mail(&name.address).unwrap_or_else(|| name.address.to_string())
}

fn why(recipient: &ReportedRecipient) -> Option<NonDelivery> {
    match recipient.outcome {
        ReportType::Failed { reason, diagnostic } => Some(NonDelivery { reason, diagnostic }),
        ReportType::Delivered { .. } => None,
    }
}

/// The correlator, unless it was made by a gateway.
fn correlator(content: &ReportContent) -> Option<String> {
    let octets = content.extensions.content_correlator().ok()??;
    Some(octets.iter().map(|&octet| char::from(octet)).collect())
}

/// For people (dr-user-info).
fn explanation(here: &ConversionContext<'_>, content: &ReportContent, is_returned: bool) -> String {
    let mut text = String::from("This report relates to your message:\r\n");
    let correlator = correlator(content).filter(|text| !text.starts_with(super::to_x400::ENVID));
    let known = correlator.or_else(|| content.content_identifier.as_deref().map(Into::into));
    for line in known.unwrap_or_else(|| content.subject.to_string()).lines() {
        text.push_str(&format!("        {line}\r\n"));
    }
    if let Some(first) = content.subject_trace.first() {
        text.push_str(&format!("        of {}\r\n", first.supplied.arrival.to_rfc5322()));
    }
    text.push_str("\r\n");
    for recipient in content.recipients.iter().take(RECIPIENTS_MAX) {
        let mailbox = mailbox(here, specified(recipient));
        match (recipient.outcome, why(recipient)) {
            (_, Some(why)) => {
                text.push_str(&format!(
                    "Your message was not delivered to:\r\n        {mailbox}\r\n"
                ));
                text.push_str(&format!(
                    "for the following reason:\r\n        {}\r\n",
                    why.explanation()
                ));
                if let Some(more) = &recipient.supplementary {
                    text.push_str(&format!("        {more}\r\n"));
                }
            }
            (ReportType::Delivered { time, .. }, None) => {
                text.push_str("Your message was successfully delivered to:\r\n");
                text.push_str(&format!("        {mailbox} at {}\r\n", time.to_rfc5322()));
            }
            (ReportType::Failed { .. }, None) => {}
        }
        text.push_str("\r\n");
    }
    let more = content.recipients.len().saturating_sub(RECIPIENTS_MAX);
    if more > 0 {
        text.push_str(&format!("and {more} more.\r\n\r\n"));
    }
    text.push_str(if is_returned {
        "The Original Message follows:\r\n"
    } else {
        "The Original Message is not available\r\n"
    });
    text
}

/// For programs (RFC 3464, with the fields that RFC 2156 adds).
fn delivery_status(
    here: &ConversionContext<'_>,
    envelope: &ReportEnvelope,
    content: &ReportContent,
) -> MimePart {
    let mut out = MimeHeader::default();
    let internal = envelope.extensions.internal_trace().unwrap_or_default();
    let reporter = match (internal.first(), envelope.trace.first()) {
        (Some(mta), _) => format!("{} in {}", mta.mta, mta.domain),
        (None, Some(element)) => element.domain.to_string(),
        (None, None) => here.domain.to_string(),
    };
    out.field("Reporting-MTA", &format!("x400; {reporter}"));
    out.field("DSN-Gateway", &format!("dns; {}", here.gateway.domain));
    out.field("X400-Conversion-Date", &here.now.to_rfc5322());
    if let Some(first) = content.recipients.first() {
        out.field("Arrival-Date", &first.arrival.to_rfc5322());
    }
    let correlator = correlator(content);
    match correlator.as_deref().and_then(|text| text.strip_prefix(super::to_x400::ENVID)) {
        Some(envid) => {
            out.field("Original-Envelope-Id", envid);
            out.field("X400-Subject-Submission-Identifier", &content.subject.to_string());
        }
        None => {
            out.field("Original-Envelope-Id", &content.subject.to_string());
            if let Some(correlator) = &correlator {
                out.field("X400-Content-Correlator", correlator);
            }
        }
    }
    if let Some(identifier) = &content.content_identifier {
        out.field("X400-Content-Identifier", identifier);
    }
    if let Some(content_type) = &content.content_type {
        out.field("X400-Content-Type", &content_type.to_string());
    }
    if let Some(eits) = &content.original_eits {
        out.field("X400-Original-Encoded-Information-Types", &trace::encoded_info(eits));
    }
    for element in envelope.extensions.originator_and_dl_history().unwrap_or_default().iter().rev()
    {
        let value = format!("{}; {};", mailbox(here, &element.name), element.time.to_rfc5322());
        out.field("X400-Originator-and-DL-Expansion-History", &value);
    }
    for field in trace::to_fields(&content.subject_trace, &[]) {
        if let Some((_, value)) = field.split_once(':') {
            out.field("X400-Subject-Intermediate-Trace-Information", value);
        }
    }
    discarded(&[&envelope.extensions, &content.extensions], &mut out);
    for recipient in content.recipients.iter().take(RECIPIENTS_MAX) {
        out.0.extend_from_slice(b"\r\n");
        recipient_fields(here, recipient, &mut out);
    }
    let mut part = MimePart { body: out.0, ..MimePart::default() };
    part.fields.field("Content-Type", "message/delivery-status");
    part
}

fn discarded(all: &[&Extensions], out: &mut MimeHeader) {
    let names: Vec<String> = all
        .iter()
        .flat_map(|extensions| &extensions.0)
        .filter_map(|extension| match &extension.kind {
            ExtensionKind::Standard(number) if is_mapped(*number) => None,
            ExtensionKind::Standard(number) => Some(format!("({number})")),
            ExtensionKind::Private(oid) => Some(oid_text(oid)),
        })
        .collect();
    if !names.is_empty() {
        out.field("X400-Discarded-DR-Extensions", &names.join(", "));
    }
}

fn recipient_fields(
    here: &ConversionContext<'_>,
    recipient: &ReportedRecipient,
    out: &mut MimeHeader,
) {
    let named = specified(recipient);
    if let Some(mailbox) = here.gateway.to_mail(&named.address) {
        out.field("Original-Recipient", &format!("rfc822; {mailbox}"));
    }
    out.field("Final-Recipient", &format!("x400; {}", named.address));
    if recipient.intended.is_some() {
        let actual = &recipient.actual.address;
        if let Some(mailbox) = here.gateway.to_mail(actual) {
            out.field("X400-Mapped-Redirect-Recipient", &format!("rfc822; {mailbox}"));
        }
        out.field("X400-Redirect-Recipient", &format!("x400; {actual}"));
    }
    match (recipient.outcome, why(recipient)) {
        (ReportType::Delivered { time, user }, _) => {
            out.field("Action", "delivered");
            out.field("Status", "2.0.0");
            out.field("X400-Delivery-Time", &time.to_rfc5322());
            let name =
                usize::try_from(user).ok().and_then(|user| USERS.get(user)).unwrap_or(&"other");
            out.field("X400-Type-of-MTS-User", &format!("{name} ({user})"));
        }
        (ReportType::Failed { .. }, Some(why)) => {
            out.field("Action", "failed");
            out.field("Status", &status::to_status(why).to_string());
            let mut code = format!("x400; Reason {} ({})", why.reason, why.reason_name());
            if let (Some(number), Some(name)) = (why.diagnostic, why.diagnostic_name()) {
                code.push_str(&format!("; Diagnostic {number} ({name})"));
            }
            out.field("Diagnostic-Code", &code);
        }
        (ReportType::Failed { .. }, None) => {}
    }
    if let Some(eits) = &recipient.converted {
        out.field("X400-Converted-EITs", &format!("{};", trace::encoded_info(eits)));
    }
    out.field("X400-Last-Trace", &recipient.arrival.to_rfc5322());
    if let Some(text) = &recipient.supplementary {
        out.field("X400-Supplementary-Info", &format!("\"{text}\";"));
    }
    for redirection in recipient.extensions.redirection_history().unwrap_or_default() {
        let value = format!(
            "intended recipient {} redirected to {} on {}",
            mailbox(here, &redirection.intended.name),
            reason_text(redirection.reason.number()),
            redirection.intended.time.to_rfc5322()
        );
        out.field("X400-Redirection-History", &value);
    }
    out.field("X400-Originally-Specified-Recipient-Number", &recipient.number.to_string());
    discarded(&[&recipient.extensions], out);
}

/// RFC 2156 §4.6.2.2, redirection-reason.
fn reason_text(reason: u32) -> &'static str {
    match reason {
        0 => "Recipient Assigned Alternate Recipient",
        1 => "Originator Requested Alternate Recipient",
        2 => "Recipient MD Assigned Alternate Recipient",
        3 => "Directory Look Up",
        _ => "Alias",
    }
}
