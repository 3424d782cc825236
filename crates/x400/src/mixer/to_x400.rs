//! Internet mail to X.400 (RFC 2156 §5.1): envelope and content.

use super::budget::ConversionBudget;
use super::entity::{Entity, FIELDS_MAX};
use super::heading_to_x400::{self, Mapped};
use super::{
    CONTENT_BYTES_MAX, ConversionContext, NotConverted, Party, Use, body_to_x400, trace, words,
};
use crate::content::{Content, Ipm};
use crate::mts::extension::{NameAndTime, Redirection, RedirectionReason, number};
use crate::mts::recipient::ReportRequest;
use crate::mts::{
    ContentType, EnvelopeKind, Extension, Extensions, Flags, MtsIdentifier, Priority, Recipient,
    RecipientIndicators, TransferEnvelope, message_indicator,
};
use crate::or_name::OrAddress;
use crate::reasons::Cause;
use mail::Notify;

/// Characters of a content identifier, and of a correlator (X.411).
const CONTENT_ID_CHARS: usize = 16;
const CORRELATOR_CHARS: usize = 512;
/// Prefix of a correlator made from an ENVID (RFC 2156 appendix A 3.1).
pub(super) const ENVID: &str = "SMTP/NOTARY ENVID: ";

/// The envelope of a message from the internet.
#[derive(Clone, Debug)]
pub struct MailEnvelope<'a> {
    /// MAIL FROM; `None` is the null reverse-path.
    pub originator: Option<Party<'a>>,
    /// RCPT TO.
    pub recipients: &'a [MailRecipient<'a>],
    /// ENVID=, decoded.
    pub envid: Option<&'a str>,
    /// False for RET=HDRS.
    pub returns_content: bool,
    /// MT-PRIORITY=.
    pub priority: mail::Priority,
}

/// A recipient of a message from the internet.
#[derive(Clone, Debug)]
pub struct MailRecipient<'a> {
    /// Who.
    pub party: Party<'a>,
    /// NOTIFY=.
    pub notify: Notify,
    /// ORCPT=, decoded: its type and its address.
    pub orcpt: Option<(&'a str, &'a str)>,
    /// True if the next MTA is responsible for it.
    pub is_responsible: bool,
}

/// MT-PRIORITY as X.400 has it: the nearest of -4, 0 and 4 (RFC 6710 appendix B).
#[must_use]
pub fn priority_to_x400(priority: mail::Priority) -> Priority {
    match priority.value() {
        ..=-3 => Priority::NonUrgent,
        -2..=2 => Priority::Normal,
        3.. => Priority::Urgent,
    }
}

/// The value of MT-PRIORITY for a priority of X.400.
#[must_use]
pub fn priority_to_mail(priority: Priority) -> mail::Priority {
    let value = match priority {
        Priority::NonUrgent => -4,
        Priority::Normal => 0,
        Priority::Urgent => 4,
    };
    mail::Priority::new(value).unwrap_or_default()
}

/// The report request for a NOTIFY (RFC 2156 appendix A 3.1).
#[must_use]
pub fn request_of(notify: Notify) -> ReportRequest {
    if notify.wants(Notify::SUCCESS) {
        ReportRequest::Both
    } else if notify == Notify::NEVER {
        ReportRequest::None
    } else {
        ReportRequest::NonDelivery
    }
}

/// Recipients under the next MTA's responsibility without a form in X.400, by index.
#[must_use]
pub fn refused(
    here: &ConversionContext<'_>,
    envelope: &MailEnvelope<'_>,
) -> Vec<(usize, NotConverted)> {
    let theirs = envelope.recipients.iter().enumerate().filter(|(_, one)| one.is_responsible);
    theirs.filter_map(|(index, one)| Some((index, recipient(one, 0, here).err()?))).collect()
}

/// Converts a message. The content is of type P22, or P2 if that suffices. Recipients without a form are left out;
/// [`refused`] returns those under the next MTA's responsibility.
///
/// # Errors
/// Returns the reason for a report if it cannot be converted, or not for any recipient under the next MTA's
/// responsibility.
pub fn to_x400(
    here: &ConversionContext<'_>,
    envelope: &MailEnvelope<'_>,
    message: &[u8],
) -> Result<(TransferEnvelope, Vec<u8>), NotConverted> {
    if message.len() > CONTENT_BYTES_MAX {
        return Err(NotConverted::new(Cause::ContentTooLong, "the gateway converts 64 MiB"));
    }
    let recipients = recipients(envelope, here)?;
    let entity = Entity::parse(message);
    if trace::conversions_to_mail(&entity) > trace::CONVERSIONS_MAX {
        return Err(NotConverted::new(Cause::Loop, "too many conversions by gateways"));
    }
    if entity.fields.len() >= FIELDS_MAX {
        return Err(NotConverted::new(Cause::ConversionImpractical, "too many header fields"));
    }
    let originator = match &envelope.originator {
        Some(party) => here.or_address(party, Use::Originator),
        // Reports are unwanted: the gateway itself is the originator.
        None => Some(here.gateway.address.clone()),
    };
    let originator = originator.ok_or_else(|| {
        NotConverted::new(Cause::InvalidArguments, "the originator has no O/R address")
    })?;
    let work = ConversionBudget::new(here);
    let mut mapped = heading_to_x400::map(&entity, &work);
    let body = body_to_x400::body(&entity, &work, &mut mapped, 0)?;
    let eits = trace::mixer_eits(body.has_text, body.eits);
    let trace = trace::of_header(&entity, &originator, eits.clone(), here);
    let ipm = Ipm { heading: std::mem::take(&mut mapped.heading), body: body.parts };
    let is_1988 = ipm.heading.needs_1988() || body.needs_1988;
    let content = Content::Message(Box::new(ipm)).encode();
    let priority = match priority_to_x400(envelope.priority) {
        Priority::Normal => mapped.priority,
        other => other,
    };
    let subject = words::decode(entity.field("Subject").unwrap_or_default());
    Ok((
        TransferEnvelope {
            kind: EnvelopeKind::Message,
            identifier: MtsIdentifier { domain: here.domain.clone(), local: here.local_id.into() },
            originator: originator.into(),
            original_eits: Some(eits),
            content_type: if is_1988 { ContentType::P22 } else { ContentType::P2 },
            content_identifier: content_identifier(&subject),
            priority,
            indicators: indicators(&mapped, envelope),
            deferred_delivery: mapped.deferred,
            content_length: None,
            bilateral: Vec::new(),
            extensions: extensions(&entity, mapped, envelope, &trace),
            trace: trace.external,
            recipients,
        },
        content,
    ))
}

fn indicators(mapped: &Mapped, envelope: &MailEnvelope<'_>) -> Flags {
    Flags::of(&[message_indicator::ALTERNATE_RECIPIENT_ALLOWED])
        .with(message_indicator::CONTENT_RETURN_REQUEST, envelope.returns_content)
        .with(message_indicator::IMPLICIT_CONVERSION_PROHIBITED, mapped.is_conversion_prohibited)
}

fn extensions(
    entity: &Entity<'_>,
    mapped: Mapped,
    envelope: &MailEnvelope<'_>,
    trace: &trace::Trace,
) -> Extensions {
    let mut all = vec![Extension::content_correlator(&correlator(entity, envelope.envid))];
    all.extend(mapped.latest_delivery.map(Extension::latest_delivery_time));
    if mapped.is_loss_prohibited {
        all.push(Extension::prohibition(number::CONVERSION_WITH_LOSS_PROHIBITED));
    }
    if !mapped.dl_history.is_empty() {
        all.push(Extension::history(number::DL_EXPANSION_HISTORY, &mapped.dl_history));
    }
    all.push(trace.extension());
    Extensions(all)
}

/// The Subject as PrintableString, 16 characters at most (§5.1.5).
fn content_identifier(subject: &str) -> Option<Box<str>> {
    let printable: String = subject
        .chars()
        .map(|c| if crate::or_name::text::is_printable(c) { c } else { '?' })
        .collect();
    let printable = printable.trim();
    if printable.is_empty() {
        return None;
    }
    if printable.len() <= CONTENT_ID_CHARS {
        return Some(printable.into());
    }
    let cut: String = printable.chars().take(CONTENT_ID_CHARS - 3).collect();
    Some(format!("{cut}...").into())
}

/// The originator's identification of the message (§5.1.5).
fn correlator(entity: &Entity<'_>, envid: Option<&str>) -> String {
    let text = match envid {
        Some(envid) => format!("{ENVID}{envid}"),
        None => ["Subject", "Message-ID", "Date", "To"]
            .into_iter()
            .filter_map(|name| Some(format!("{name}: {}", entity.field(name)?)))
            .collect::<Vec<_>>()
            .join("\r\n"),
    };
    text.chars().take(CORRELATOR_CHARS).collect()
}

/// Recipients with a form, and their original numbers.
fn recipients(
    envelope: &MailEnvelope<'_>,
    here: &ConversionContext<'_>,
) -> Result<Vec<Recipient>, NotConverted> {
    let all = envelope.recipients.iter().zip(1..);
    let made = all.filter_map(|(one, number)| recipient(one, number, here).ok());
    let made: Vec<Recipient> = made.collect();
    if !made.iter().any(|recipient| recipient.indicators.is_responsible())
        && let Some((_, why)) = refused(here, envelope).into_iter().next()
    {
        return Err(why);
    }
    Ok(made)
}

/// The reason why an address cannot be a recipient.
fn no_address(party: &Party<'_>, here: &ConversionContext<'_>) -> NotConverted {
    match party {
        Party::Mail(mail) if here.gateway.would_come_back(mail) => NotConverted::new(
            Cause::RestrictedDelivery,
            "a recipient would return to internet mail through X.400",
        ),
        _ => NotConverted::new(Cause::InvalidArguments, "a recipient has no O/R address"),
    }
}

fn recipient(
    recipient: &MailRecipient<'_>,
    number: u32,
    here: &ConversionContext<'_>,
) -> Result<Recipient, NotConverted> {
    let address = here
        .or_address(&recipient.party, Use::Other)
        .ok_or_else(|| no_address(&recipient.party, here))?;
    let original = recipient.orcpt.and_then(|(kind, text)| match kind {
        kind if kind.eq_ignore_ascii_case("x400") => OrAddress::parse(text).ok(),
        kind if kind.eq_ignore_ascii_case("rfc822") => here.gateway.to_or_address(text, Use::Other),
        _ => None,
    });
    let mut extensions = Extensions::default();
    if let Some(original) = original.filter(|original| !original.is_same(&address)) {
        extensions.set(Extension::redirection_history(&[Redirection {
            intended: NameAndTime { name: original.into(), time: here.now },
            reason: RedirectionReason::Alias,
        }]));
    }
    Ok(Recipient {
        name: address.into(),
        number,
        indicators: RecipientIndicators::new(
            recipient.is_responsible,
            request_of(recipient.notify),
        ),
        explicit_conversion: None,
        extensions,
    })
}
