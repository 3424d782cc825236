//! Between X.400 and internet mail (MIXER, RFC 2156): at delivery, the same at every attempt, so that a reload
//! reaches queued messages.

use super::apdu::{Content, Departure};
use super::kept::{self, ApduKind};
use super::names;
use bytes::Bytes;
use config::{Config, GatewayTables, X400};
use mail::dsn::xtext;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Reply, Ret};
use mta::delivery::{AsMail, MailQuestion};
use mta::message::{Converted, Message};
use x400::mixer::status::to_status;
use x400::mixer::{
    Gateway, Here, MailEnvelope, MailRecipient, Mappings, NotConverted, Party, TableKind, Use,
    dsn_to_report, report_to_mail, to_mail, to_x400,
};
use x400::mts::envelope::message_prefix;
use x400::mts::report::report_prefix;
use x400::mts::{
    self, EnvelopeKind, GlobalDomain, Limits, ReportContent, ReportEnvelope, TransferEnvelope,
    UtcTime,
};
use x400::or_name::{OrAddress, OrName};

/// The gateway that the configuration has; `None`: nothing is converted.
pub(super) fn gateway_of(x400: &X400) -> Option<&Gateway> {
    let made = |told: &config::X400Gateway, tables: &GatewayTables| {
        let mut mappings = Mappings::default();
        // Whoever has read the files knows that they are right.
        let _ = mappings.read(&tables.mappings, TableKind::Mapping);
        let _ = mappings.read(&tables.gateways, TableKind::Gateway);
        Gateway {
            address: OrAddress::parse(&told.address.to_string()).unwrap_or_default(),
            domain: told.domain.as_str().into(),
            mappings,
        }
    };
    Some(x400.gateway.as_ref()?.made(made))
}

/// Names, times and identifiers of one conversion.
pub(super) struct Converting<'a> {
    gateway: &'a Gateway,
    domain: GlobalDomain,
    x400: &'a X400,
    now: UtcTime,
    local_id: String,
}

impl<'a> Converting<'a> {
    /// Of a message that is kept; `None`: there is no gateway.
    pub(super) fn of(message: &Message, x400: &'a X400) -> Option<Converting<'a>> {
        Some(Converting {
            gateway: gateway_of(x400)?,
            domain: names::global_domain(&x400.domain),
            x400,
            // Not that of the attempt: each makes the same.
            now: UtcTime::from(message.received_at),
            local_id: names::local_id(message.id, x400),
        })
    }

    pub(super) fn here(&self) -> Here<'_> {
        Here {
            gateway: self.gateway,
            domain: &self.domain,
            mta: &self.x400.mta,
            now: self.now,
            local_id: &self.local_id,
        }
    }
}

/// The mailbox that a name of P1 stands for, if it is one of internet mail: not what the gateway puts before its own
/// domain.
fn mailbox(name: &OrName, x400: &X400) -> Option<Mailbox> {
    let gateway = gateway_of(x400)?;
    let mailbox = Mailbox::parse(&gateway.to_mail(&name.address)?, true).ok()?;
    let (_, domain) = mailbox.as_str().rsplit_once('@')?;
    (!domain.eq_ignore_ascii_case(&gateway.domain)).then_some(mailbox)
}

/// Who a name of P1 is in the queue: an O/R address where a route takes it, or who the gateway makes of it.
pub(super) fn recipient(name: &OrName, config: &Config, x400: &X400) -> Mailbox {
    let address = names::mailbox_or_none(name);
    match config.route_of(&address, None) {
        Some(_) => address,
        None => mailbox(name, x400).unwrap_or(address),
    }
}

/// A message, probe or report as internet mail; `None`: it is none of X.400.
pub(super) fn as_mail(question: &MailQuestion<'_>) -> Option<Result<AsMail, Failure>> {
    let (kind, octets) = kept::read(question.original.kept_of_x400()?)?;
    Some(made_mail(kind, &octets, question))
}

fn made_mail(
    kind: ApduKind,
    octets: &[u8],
    question: &MailQuestion<'_>,
) -> Result<AsMail, Failure> {
    let x400 = question.config.x400.as_deref().ok_or_else(no_gateway)?;
    let converting = Converting::of(question.original, x400).ok_or_else(no_gateway)?;
    let (here, limits) = (converting.here(), Limits::default());
    let mail = match kind {
        ApduKind::Probe => {
            return Ok(AsMail::Nothing(Reply::new(250, (2, 1, 5), "a message would be delivered")));
        }
        ApduKind::Report => {
            let envelope = ReportEnvelope::read(octets).map_err(|error| unread(&error))?;
            let content = ReportContent::read(&question.content, &limits);
            report_to_mail(&here, &envelope, &content.map_err(|error| unread(&error))?)
        }
        ApduKind::Message => {
            let envelope = TransferEnvelope::read(octets, EnvelopeKind::Message, &limits)
                .map_err(|error| unread(&error))?;
            // Whoever of them an attempt is for, it makes the same.
            let is_ours = |recipient: &mts::Recipient| {
                recipient.indicators.is_responsible() && mailbox(&recipient.name, x400).is_some()
            };
            let recipients: Vec<usize> = (0..)
                .zip(&envelope.recipients)
                .filter(|(_, recipient)| is_ours(recipient))
                .map(|(index, _)| index)
                .collect();
            to_mail(&here, &envelope, &recipients, &question.content)
                .map_err(|error| not_converted(&error))?
        }
    };
    let parse = |address: &str| Mailbox::parse(address, true).ok();
    Ok(AsMail::Message(Converted {
        reverse_path: mail.originator.as_deref().and_then(parse),
        envid: (!mail.envid.is_empty()).then(|| xtext::encode(&mail.envid).into()),
        content: mail.message,
    }))
}

fn unread(error: &dyn std::fmt::Display) -> Failure {
    let text = format!("what came by X.400 can't be read: {error}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 0), text)
}

fn no_gateway() -> Failure {
    let text = "there is no gateway between internet mail and X.400 here";
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 3), text)
}

/// A message of internet mail as an APDU. `content`: all of it, header and body; the next MTA answers for the
/// recipients of these indexes.
///
/// # Errors
/// It can't be converted, for people.
pub(super) fn to_apdu(
    message: &Message,
    content: &[u8],
    indexes: &[u32],
    x400: &X400,
) -> Result<Departure, Failure> {
    let converting = Converting::of(message, x400);
    let converting = converting.ok_or_else(no_gateway)?;
    if let Some((prefix, content)) = report_of_dsn(message, content, &converting) {
        let content = Content::Made(content);
        return Ok(Departure { prefix, content, refused: Vec::new() });
    }
    let parsed: Vec<Option<OrAddress>> = message
        .envelope
        .recipients
        .iter()
        .map(|recipient| or_address(&recipient.mailbox))
        .collect();
    let recipients: Vec<MailRecipient<'_>> = (0..)
        .zip(&message.envelope.recipients)
        .zip(&parsed)
        .map(|((index, recipient), parsed): ((u32, _), _)| MailRecipient {
            party: match parsed {
                Some(address) => Party::X400(address),
                None => Party::Mail(recipient.mailbox.as_str()),
            },
            notify: recipient.notify,
            orcpt: None,
            is_responsible: indexes.contains(&index),
        })
        .collect();
    let originator = message.envelope.reverse_path.as_ref();
    let parsed_originator = originator.and_then(or_address);
    let envid = message.envelope.envid.as_deref().and_then(xtext::decode_envid);
    let envelope = MailEnvelope {
        originator: originator.map(|mailbox| match &parsed_originator {
            Some(address) => Party::X400(address),
            None => Party::Mail(mailbox.as_str()),
        }),
        recipients: &recipients,
        envid: envid.as_deref(),
        returns_content: message.envelope.ret != Some(Ret::Headers),
        priority: message.priority().unwrap_or_default(),
    };
    let here = converting.here();
    let refused: Vec<(u32, Failure)> = to_x400::refused(&here, &envelope)
        .iter()
        .filter_map(|(index, why)| Some((u32::try_from(*index).ok()?, not_converted(why))))
        .collect();
    if !refused.is_empty() && refused.len() == indexes.len() {
        return Ok(Departure { prefix: Vec::new(), content: Content::None, refused });
    }
    let made = to_x400(&here, &envelope, content);
    let (envelope, content) = made.map_err(|error| not_converted(&error))?;
    let prefix = message_prefix(&envelope.encode(), content.len() as u64);
    Ok(Departure { prefix, content: Content::Made(Bytes::from(content)), refused })
}

/// The report that a DSN becomes (RFC 2156 §5.1.8); `None`: it is none, or says more than a report can.
fn report_of_dsn(
    message: &Message,
    content: &[u8],
    converting: &Converting<'_>,
) -> Option<(Vec<u8>, Bytes)> {
    let [recipient] = &message.envelope.recipients[..] else { return None };
    if message.envelope.reverse_path.is_some() {
        return None;
    }
    let destination = or_address(&recipient.mailbox)
        .or_else(|| converting.gateway.to_or_address(recipient.mailbox.as_str(), Use::Other))?;
    let made = dsn_to_report(&converting.here(), &destination, content)?;
    let (envelope, content) = made.report.filter(|_| !made.has_others)?;
    let content = content.encode();
    let prefix = report_prefix(&envelope.encode(), content.len() as u64);
    Some((prefix, Bytes::from(content)))
}

fn or_address(mailbox: &Mailbox) -> Option<OrAddress> {
    OrAddress::parse(mailbox.as_str()).ok().filter(|_| mailbox.is_or_address())
}

fn not_converted(error: &NotConverted) -> Failure {
    let status = to_status(error.cause.non_delivery());
    let status = EnhancedStatus::new(5, status.subject, status.detail);
    Failure::local(Class::Permanent, status, format!("it can't be converted: {error}"))
}

#[cfg(test)]
mod tests;
