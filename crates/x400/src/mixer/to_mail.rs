//! X.400 to internet mail (RFC 2156 §5.3): messages and notifications.

use super::budget::{ELEMENTS_MAX, elements};
use super::output::{MimeHeader, MimePart, finished};
use super::{
    CONTENT_BYTES_MAX, ConversionContext, NotConverted, body_to_mail, heading_to_mail,
    notification, trace,
};
use crate::ber::oid_text;
use crate::content::{Content, Ipm};
use crate::mts::extension::{Stage, number};
use crate::mts::recipient::ReportRequest;
use crate::mts::{
    ContentType, ExtensionKind, Extensions, Priority, Recipient, TransferEnvelope,
    message_indicator,
};
use crate::reasons::Cause;
use bytes::Bytes;
use mail::Notify;

/// A message for the internet, and its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// MAIL FROM; `None` is the null reverse-path.
    pub originator: Option<String>,
    /// RCPT TO.
    pub recipients: Vec<MailTo>,
    /// ENVID=, not yet as xtext.
    pub envid: String,
    /// True for RET=FULL.
    pub returns_content: bool,
    /// MT-PRIORITY=.
    pub priority: mail::Priority,
    /// The message: lines end with CRLF, none is longer than 998 octets.
    pub message: Vec<u8>,
}

/// A recipient of a message for the internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailTo {
    /// Index of the recipient in the X.400 envelope, from 0.
    pub index: usize,
    /// `local@domain`; `None`: it has no internet address.
    pub address: Option<String>,
    /// NOTIFY=.
    pub notify: Notify,
    /// ORCPT= without its type `x400`, not yet as xtext: the recipient meant by the originator, if different.
    pub original: Option<String>,
}

/// Extensions with a field, or without a meaning outside the transfer system.
const MAPPED: [u32; 11] = [1, 2, 3, 4, 5, 6, 23, 25, 26, 37, 38];

/// Extensions that are named at most.
const DISCARDED_MAX: usize = 100;

/// Converts a message for these recipients (indices from 0).
///
/// # Errors
/// Returns the reason for a report.
pub fn to_mail(
    here: &ConversionContext<'_>,
    envelope: &TransferEnvelope,
    recipients: &[usize],
    content: &Bytes,
) -> Result<Mail, NotConverted> {
    check(envelope, recipients, content)?;
    let content_read = read(content)?;
    let originator = here.gateway.to_mail(&envelope.originator.address);
    let to: Vec<MailTo> = recipients
        .iter()
        .filter_map(|&index| Some(mail_to(index, envelope.recipients.get(index)?, here)))
        .collect();
    let mut out = MimeHeader::default();
    envelope_fields(here, envelope, originator.as_deref(), &to, &mut out);
    let body = match &content_read {
        Content::Message(ipm) => message(ipm, here, originator.as_deref(), &mut out),
        Content::Notification(ipn) => notification::write(ipn, here, &addresses(&to), &mut out),
    };
    Ok(Mail {
        // A notification must not be answered (RFC 3834 §3.3).
        originator: match content_read {
            Content::Message(_) => originator,
            Content::Notification(_) => None,
        },
        recipients: to,
        envid: format!("X400-MTS-Identifier: {}", envelope.identifier),
        returns_content: envelope.indicators.has(message_indicator::CONTENT_RETURN_REQUEST),
        priority: super::to_x400::priority_to_mail(envelope.priority),
        message: finished(out, body),
    })
}

/// Reads a content, unless it would need far more memory than its length.
fn read(content: &Bytes) -> Result<Content, NotConverted> {
    // Malformed elements within an unread body part are carried unchanged.
    let (count, _) = elements(content, ELEMENTS_MAX);
    if count > ELEMENTS_MAX {
        let text = "the content has too many elements";
        return Err(NotConverted::new(Cause::ConversionImpractical, text));
    }
    Content::read(content)
        .map_err(|error| NotConverted::new(Cause::ContentSyntax, error.to_string()))
}

fn check(
    envelope: &TransferEnvelope,
    recipients: &[usize],
    content: &Bytes,
) -> Result<(), NotConverted> {
    if content.len() > CONTENT_BYTES_MAX {
        return Err(NotConverted::new(Cause::ContentTooLong, "the gateway converts 64 MiB"));
    }
    if trace::conversions(&envelope.trace) > trace::CONVERSIONS_MAX {
        return Err(NotConverted::new(Cause::Loop, "too many conversions by gateways"));
    }
    if !envelope.content_type.is_interpersonal() {
        let text = format!("no mapping for content type {}", envelope.content_type);
        return Err(NotConverted::new(Cause::ContentTypeUnsupported, text));
    }
    let of_recipients = recipients
        .iter()
        .filter_map(|&index| envelope.recipients.get(index))
        .map(|recipient| &recipient.extensions);
    for extensions in std::iter::once(&envelope.extensions).chain(of_recipients) {
        // RFC 2156 §5.3.6: an unmapped critical extension must not be lost silently.
        for stage in [Stage::Transfer, Stage::Delivery] {
            if let Some(extension) = extensions.unsupported(stage) {
                let text =
                    format!("critical extension {} has no mapping", kind_text(&extension.kind));
                return Err(NotConverted::new(Cause::UnsupportedCriticalFunction, text));
            }
        }
    }
    Ok(())
}

fn kind_text(kind: &ExtensionKind) -> String {
    match kind {
        ExtensionKind::Standard(number) => format!("({number})"),
        ExtensionKind::Private(oid) => oid_text(oid),
    }
}

/// Maps a recipient and its indicators (appendix A 3.2).
fn mail_to(index: usize, recipient: &Recipient, here: &ConversionContext<'_>) -> MailTo {
    let notify = match recipient.indicators.user_request() {
        ReportRequest::None => Notify::NEVER,
        ReportRequest::NonDelivery => Notify::FAILURE,
        ReportRequest::Both | ReportRequest::Audited => Notify::SUCCESS.union(Notify::FAILURE),
    };
    let history = recipient.extensions.redirection_history().unwrap_or_default();
    MailTo {
        index,
        address: here.gateway.to_mail(&recipient.name.address),
        notify,
        original: history.first().map(|first| first.intended.name.address.to_string()),
    }
}

/// The addresses of recipients that have one.
fn addresses(to: &[MailTo]) -> Vec<&str> {
    to.iter().filter_map(|to| to.address.as_deref()).collect()
}

fn envelope_fields(
    here: &ConversionContext<'_>,
    envelope: &TransferEnvelope,
    originator: Option<&str>,
    to: &[MailTo],
    out: &mut MimeHeader,
) {
    out.raw(&trace::gateway_field(&here.gateway.domain, here.now));
    for field in trace::to_fields(&envelope.trace, &envelope.internal_trace()) {
        out.raw(&field);
    }
    let submitted = envelope.submission_time().unwrap_or(here.now);
    out.field("Date", &submitted.to_rfc5322());
    if let Some(originator) = originator {
        out.field("X400-Originator", originator);
    }
    // Recipients are disclosed to each other only if allowed (§4.6.2.2).
    let is_disclosed = envelope.indicators.has(message_indicator::DISCLOSE_RECIPIENTS);
    if is_disclosed || to.len() == 1 {
        let shown = addresses(to);
        if !shown.is_empty() {
            out.field("X400-Recipients", &shown.join(", "));
        }
    }
    out.field("X400-MTS-Identifier", &envelope.identifier.to_string());
    if let Some(eits) = &envelope.original_eits {
        out.field("Original-Encoded-Information-Types", &trace::encoded_info(eits));
    }
    out.field("X400-Content-Type", &envelope.content_type.to_string());
    if let Some(identifier) = &envelope.content_identifier {
        out.field("X400-Content-Identifier", identifier);
    }
    if envelope.priority != Priority::Normal {
        out.field("Priority", envelope.priority.name());
    }
    if envelope.indicators.has(message_indicator::IMPLICIT_CONVERSION_PROHIBITED) {
        out.field("Conversion", "Prohibited");
    }
    if let Some(time) = envelope.deferred_delivery {
        out.field("Deferred-Delivery", &time.to_rfc5322());
    }
    extension_fields(here, &envelope.extensions, out);
    let of_recipients = to.iter().filter_map(|to| envelope.recipients.get(to.index));
    let all = of_recipients.map(|recipient| &recipient.extensions);
    discarded(std::iter::once(&envelope.extensions).chain(all), out);
}

fn extension_fields(here: &ConversionContext<'_>, extensions: &Extensions, out: &mut MimeHeader) {
    if let Ok(Some(time)) = extensions.latest_delivery_time() {
        out.field("Latest-Delivery-Time", &time.to_rfc5322());
    }
    if extensions.is_conversion_with_loss_prohibited() {
        out.field("Conversion-With-Loss", "Prohibited");
    }
    // The most recent expansion is first.
    for element in extensions.dl_expansion_history().unwrap_or_default().iter().rev() {
        if let Some(mailbox) = here.gateway.to_mail(&element.name.address) {
            out.field(
                "DL-Expansion-History",
                &format!("{mailbox}; {};", element.time.to_rfc5322()),
            );
        }
    }
}

/// Extensions that are left out: the message's own, and those of the recipients that get it here.
fn discarded<'e>(all: impl Iterator<Item = &'e Extensions>, out: &mut MimeHeader) {
    let mut names: Vec<String> = Vec::new();
    for extension in all.flat_map(|extensions| &extensions.0) {
        let is_known = matches!(extension.kind, ExtensionKind::Standard(n) if MAPPED.contains(&n));
        let name = kind_text(&extension.kind);
        if !is_known && names.len() < DISCARDED_MAX && !names.contains(&name) {
            names.push(name);
        }
    }
    if !names.is_empty() {
        out.field("Discarded-X400-MTS-Extensions", &names.join(", "));
    }
}

/// Header and body of an interpersonal message.
fn message(
    ipm: &Ipm,
    here: &ConversionContext<'_>,
    originator: Option<&str>,
    out: &mut MimeHeader,
) -> MimePart {
    heading_to_mail::write(&ipm.heading, here, false, out);
    let (body, fields) = body_to_mail::body(ipm, here);
    heading_to_mail::listed(&fields, false, out);
    // RFC 2156 §5.3.2: there is always a From, and a recipient field.
    let has = |out: &MimeHeader, name| mail::header::find(&out.0, name).is_some();
    if !has(out, "From") {
        out.field("From", originator.unwrap_or("MAILER-DAEMON:;"));
    }
    if !["To", "Cc", "Bcc"].iter().any(|name| has(out, name)) {
        out.field("To", "list:;");
    }
    body
}

/// The content returned in a report, as a message (§5.3.8); `None` if impossible.
pub(super) fn returned(
    here: &ConversionContext<'_>,
    content_type: Option<&ContentType>,
    content: &Bytes,
) -> Option<Vec<u8>> {
    content_type.is_none_or(ContentType::is_interpersonal).then_some(())?;
    let Ok(Content::Message(ipm)) = read(content) else { return None };
    let mut out = MimeHeader::default();
    let body = message(&ipm, here, None, &mut out);
    Some(finished(out, body))
}

/// Returns true if an extension number has a mapping; for reports.
pub(super) fn is_mapped(number: u32) -> bool {
    MAPPED.contains(&number)
        || [
            number::ORIGINATOR_AND_DL_EXPANSION_HISTORY,
            number::REPORTING_DL_NAME,
            number::REPORTING_MTA_NAME,
        ]
        .contains(&number)
}
