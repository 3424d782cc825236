//! Between X.400 and internet mail (MIXER, RFC 2156): at delivery, the same at every attempt, so that a reload
//! reaches queued messages.

use super::names;
use bytes::Bytes;
use config::X400;
use mail::dsn::xtext;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Ret};
use mta::message::Message;
use x400::mixer::{
    Gateway, Here, MailEnvelope, MailRecipient, Mappings, NotConverted, Party, TableKind, to_x400,
};
use x400::mts::envelope::message_prefix;
use x400::mts::{GlobalDomain, UtcTime};
use x400::or_name::{OrAddress, OrName};

/// The gateway that the configuration has; `None`: nothing is converted.
pub(super) fn gateway_of(x400: &X400) -> Option<&Gateway> {
    let made = |told: &config::X400Gateway, text: &str| {
        let mut mappings = Mappings::default();
        // Whoever has read the file knows that it is right.
        let _ = mappings.read(text, TableKind::Mapping);
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

/// The mailbox that a name of P1 stands for, if it is one of internet mail that a gateway maps.
pub(super) fn mailbox(name: &OrName, x400: &X400) -> Option<Mailbox> {
    let mapped = gateway_of(x400)?.to_mail(&name.address)?;
    Mailbox::parse(&mapped, true).ok()
}

/// A message of internet mail as an APDU: the octets before its content, and that. `content`: all of it, header
/// and body; the next MTA answers for the recipients of these indexes.
///
/// # Errors
/// It can't be converted, for people.
pub(super) fn to_apdu(
    message: &Message,
    content: &[u8],
    indexes: &[u32],
    x400: &X400,
) -> Result<(Vec<u8>, Bytes), Failure> {
    let converting = Converting::of(message, x400);
    let converting = converting.ok_or_else(|| {
        let status = EnhancedStatus::new(5, 6, 3);
        let text = "there is no gateway between internet mail and X.400 here";
        Failure::local(Class::Permanent, status, text)
    })?;
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
    let made = to_x400(&converting.here(), &envelope, content);
    let (envelope, content) = made.map_err(|error| not_converted(&error))?;
    let prefix = message_prefix(&envelope.encode(), content.len() as u64);
    Ok((prefix, Bytes::from(content)))
}

fn or_address(mailbox: &Mailbox) -> Option<OrAddress> {
    OrAddress::parse(mailbox.as_str()).ok().filter(|_| mailbox.is_or_address())
}

/// RFC 3463 §3.7: X.6.3, conversion required but not supported.
fn not_converted(error: &NotConverted) -> Failure {
    let text = format!("it can't be converted for X.400: {error}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 3), text)
}
