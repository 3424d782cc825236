//! Delivery status notifications to reports (RFC 2156 §5.1.8).

use super::budget::ConversionBudget;
use super::entity::Entity;
use super::trace::parse_date;
use super::{
    CONTENT_BYTES_MAX, ConversionContext, Use, body_to_x400, heading_to_x400, status, trace,
};
use crate::ber::{Tag, Writer};
use crate::content;
use crate::content::{Content, Ipm};
use crate::mts::recipient::ReportRequest;
use crate::mts::report::{ReportType, ReportedRecipient};
use crate::mts::{
    ContentType, Extension, ExtensionKind, Extensions, Flags, MtsIdentifier, RecipientIndicators,
    ReportContent, ReportEnvelope, UtcTime,
};
use crate::or_name::OrAddress;
use bytes::Bytes;
use mail::EnhancedStatus;
use mail::dsn::{DeliveryStatus, FieldGroup};

/// Recipients of a DSN that are reported at most; of more it is a message, too.
pub const RECIPIENTS_MAX: usize = 1_000;
/// Octets of a delivery status that is read at most: its fields take some forty times as much. One that is longer is a
/// message.
const STATUS_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Prefix of an ENVID that a gateway made from an identifier (RFC 2156 appendix A 3.2).
const MTS_IDENTIFIER: &str = "X400-MTS-Identifier: ";

/// Result of converting a DSN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromDsn {
    /// Report on the failed and delivered recipients; `None` without any.
    pub report: Option<(ReportEnvelope, ReportContent)>,
    /// The reported message, if named.
    pub subject: Option<MtsIdentifier>,
    /// It has results of a different kind (delayed, relayed, expanded): those are sent as a message.
    pub has_others: bool,
}

/// Converts a DSN to this address. `None` if the message is not a DSN.
#[must_use]
pub fn dsn_to_report(
    here: &ConversionContext<'_>,
    destination: &OrAddress,
    message: &[u8],
) -> Option<FromDsn> {
    let entity = Entity::parse(message);
    let is_report = entity.content_type.is("multipart", "report")
        && entity
            .content_type
            .parameter("report-type")
            .is_some_and(|kind| kind.eq_ignore_ascii_case("delivery-status"));
    if !is_report || message.len() > CONTENT_BYTES_MAX {
        return None;
    }
    let parts = entity.parts()?;
    let part = parts.iter().find(|part| {
        part.content_type.kind == "message"
            && matches!(
                part.content_type.subtype.as_str(),
                "delivery-status" | "global-delivery-status"
            )
    })?;
    let status = part.decoded().filter(|status| status.len() <= STATUS_BYTES_MAX)?;
    let says = mail::dsn::parse(&status);
    let date = entity.field("Date").and_then(parse_date).unwrap_or(here.now);
    let arrival = says.message.get("Arrival-Date").and_then(parse_date).unwrap_or(date);
    let recipients: Vec<ReportedRecipient> = says
        .recipients
        .iter()
        .take(RECIPIENTS_MAX)
        .zip(1..)
        .filter_map(|(group, number)| reported(here, group, number, arrival))
        .collect();
    let has_others = recipients.len() < says.recipients.len();
    if recipients.is_empty() {
        return Some(FromDsn { report: None, subject: None, has_others });
    }
    let envelope = envelope(here, destination, &entity);
    let subject = subject(&says, &parts);
    let known = subject.clone();
    let content = content(here, &entity, &says, (subject, recipients));
    Some(FromDsn { report: Some((envelope, content)), subject: known, has_others })
}

fn envelope(
    here: &ConversionContext<'_>,
    destination: &OrAddress,
    entity: &Entity<'_>,
) -> ReportEnvelope {
    let eits = trace::mixer_eits(true, Vec::new());
    let trace = trace::of_header(entity, &here.gateway.address, eits, here);
    ReportEnvelope {
        identifier: MtsIdentifier { domain: here.domain.clone(), local: here.local_id.into() },
        destination: destination.clone().into(),
        extensions: Extensions(vec![trace.extension()]),
        trace: trace.external,
    }
}

/// The identifier of the reported message: by ENVID, or by the returned message.
fn subject(says: &DeliveryStatus, parts: &[Entity<'_>]) -> Option<MtsIdentifier> {
    let envid = says.message.get("Original-Envelope-Id").unwrap_or_default();
    // Some systems drop the gateway's prefix.
    let known = MtsIdentifier::parse(envid.strip_prefix(MTS_IDENTIFIER).unwrap_or(envid));
    known.or_else(|| {
        let is_returned = |part: &&Entity<'_>| {
            part.content_type.is("message", "rfc822")
                || part.content_type.is("text", "rfc822-headers")
        };
        let header = parts.iter().find(is_returned)?.decoded()?;
        MtsIdentifier::parse(Entity::parse(&header).field("X400-MTS-Identifier")?)
    })
}

fn content(
    here: &ConversionContext<'_>,
    entity: &Entity<'_>,
    says: &DeliveryStatus,
    (identifier, recipients): (Option<MtsIdentifier>, Vec<ReportedRecipient>),
) -> ReportContent {
    let header = entity.fields.iter().filter(|(name, _)| {
        !["Received", "X400-Received", "Content-Type", "MIME-Version", "Content-Transfer-Encoding"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
    });
    let envid = says.message.get("Original-Envelope-Id").unwrap_or_default();
    let mut extensions = vec![
        field_list(content::DSN_HEADER_LIST, header),
        field_list(content::DSN_FIELD_LIST, says.message.fields.iter()),
    ];
    if identifier.is_none() && !envid.is_empty() {
        let text = format!("{}{envid}", super::to_x400::ENVID);
        extensions.push(Extension::content_correlator(&text.chars().take(512).collect::<String>()));
    }
    let has_failure = recipients.iter().any(|r| matches!(r.outcome, ReportType::Failed { .. }));
    let returned = has_failure.then(|| whole(here, entity)).flatten();
    ReportContent {
        // A subject is mandatory; an unknown one is better than a lost report.
        subject: identifier.unwrap_or_else(|| MtsIdentifier {
            domain: here.domain.clone(),
            local: format!("{}.?", here.local_id).into(),
        }),
        content_type: returned.as_ref().map(|_| ContentType::P22),
        returned_content: returned,
        extensions: Extensions(extensions),
        recipients,
        ..ReportContent::default()
    }
}

/// The DSN itself as a message, so that no information is lost (§5.1.8.1).
fn whole(here: &ConversionContext<'_>, entity: &Entity<'_>) -> Option<Bytes> {
    let work = ConversionBudget::new(here);
    let mut mapped = heading_to_x400::map(entity, &work);
    let body = body_to_x400::body(entity, &work, &mut mapped, 0).ok()?;
    let ipm = Ipm { heading: mapped.heading, body: body.parts };
    let content = Bytes::from(Content::Message(Box::new(ipm)).encode());
    (content.len() <= crate::report::RETURNED_BYTES_MAX).then_some(content)
}

/// Fields as a private extension (§5.1.8.2).
fn field_list<'f>(
    oid: &'static [u8],
    fields: impl Iterator<Item = &'f (String, String)>,
) -> Extension {
    let mut value = Writer::new();
    value.constructed(Tag::SEQUENCE, |list| {
        for (name, text) in fields {
            let field = format!("{name}: {text}");
            let ascii: String = field.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
            list.text(Tag::IA5_STRING, &ascii);
        }
    });
    Extension {
        kind: ExtensionKind::Private(Bytes::from_static(oid)),
        criticality: Flags::default(),
        value: Some(Bytes::from(value.into_vec())),
    }
}

/// One recipient; `None`: its action makes no report.
fn reported(
    here: &ConversionContext<'_>,
    group: &FieldGroup,
    number: u32,
    arrival: UtcTime,
) -> Option<ReportedRecipient> {
    let address = |name: &str| {
        let (kind, text) = group.typed(name)?;
        match kind.to_ascii_lowercase().as_str() {
            "x400" => OrAddress::parse(text).ok(),
            "rfc822" | "utf-8" => {
                here.gateway.to_or_address(text.trim_matches(['<', '>']), Use::Other)
            }
            _ => None,
        }
    };
    let action = group.get("Action")?.split(['(', ';']).next()?.trim().to_ascii_lowercase();
    let status = group.status().unwrap_or(EnhancedStatus::new(5, 0, 0));
    let (outcome, request) = match action.as_str() {
        // The examples of RFC 2156 have "failure".
        "failed" | "failure" => {
            (ReportType::failed(status::to_reason(status)), ReportRequest::NonDelivery)
        }
        "delivered" => (ReportType::Delivered { time: arrival, user: 0 }, ReportRequest::Both),
        _ => return None,
    };
    let intended = address("Original-Recipient");
    let actual = address("Final-Recipient").or_else(|| intended.clone())?;
    let number = group
        .get("X400-Originally-Specified-Recipient-Number")
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(number);
    let mapped = ["Original-Recipient", "Final-Recipient", "Action"];
    let others = group
        .fields
        .iter()
        .filter(|(name, _)| !mapped.iter().any(|known| known.eq_ignore_ascii_case(name)));
    let supplementary = group.typed("Diagnostic-Code").map(|(_, text)| text);
    Some(ReportedRecipient {
        intended: intended.filter(|intended| !intended.is_same(&actual)).map(Into::into),
        actual: actual.into(),
        number,
        indicators: RecipientIndicators::new(false, request),
        arrival,
        converted: None,
        outcome,
        supplementary: supplementary.and_then(crate::report::supplementary),
        extensions: Extensions(vec![field_list(content::DSN_FIELD_LIST, others)]),
    })
}
