//! Conversion between X.400 and internet mail (MIXER, RFC 2156). It takes place at delivery, with the same result at
//! each attempt, so that a reload also applies to queued messages.

use super::kept::{self, ApduContent, ApduKind, Departure};
use super::names;
use crate::x400::section::{GatewayTables, X400, X400Gateway};
use auth::forged::AuthresRenamer;
use auth::return_path::{ReturnPaths, Returned};
use bytes::Bytes;
use config::Config;
use mail::address_list::Address;
use mail::dsn::xtext::{self, Envid};
use mail::failure::Unconverted;
use mail::{Class, Domain, EnhancedStatus, Failure, Mailbox, Refusal, Reply, Ret};
use mta::delivery::{ConversionRequest, MailConversion};
use mta::message::{Converted, Original};
use x400::mixer::status::to_status;
use x400::mixer::{
    ConversionContext, Gateway, MailEnvelope, MailRecipient, Mappings, NotConverted, Party, Reach,
    TableKind, Use, dsn_to_report, report_to_mail, to_mail, to_x400,
};
use x400::mts::envelope::message_prefix;
use x400::mts::report::report_prefix;
use x400::mts::{
    self, EnvelopeKind, GlobalDomain, Limits, ReportContent, ReportEnvelope, TransferEnvelope,
    UtcTime,
};
use x400::or_name::{OrAddress, OrName, RFC_822};
use x400::reasons::NonDelivery;

/// The gateway in force.
struct InForce {
    gateway: Gateway,
    /// O/R addresses that unauthenticated senders may write to.
    strangers: Vec<OrAddress>,
    /// `None`: return paths are not rewritten, and DSNs are not converted to reports.
    return_paths: Option<ReturnPaths>,
}

/// The configured gateway. `None` if nothing is converted.
pub(super) fn gateway_of(x400: &X400) -> Option<&Gateway> {
    in_force(x400).map(|made| &made.gateway)
}

fn in_force(x400: &X400) -> Option<&InForce> {
    let made = |told: &X400Gateway, tables: &GatewayTables| {
        let mut mappings = Mappings::default();
        // The files were checked when they were read.
        let _ = mappings.read(&tables.mappings, TableKind::Mapping);
        let _ = mappings.read(&tables.gateways, TableKind::Gateway);
        let gateway = Gateway {
            address: OrAddress::parse(&told.address.to_string()).unwrap_or_default(),
            domain: told.domain.as_str().into(),
            mappings,
        };
        let strangers = told.strangers.iter().map(part_of).collect();
        let return_paths = told.secret().map(|secret| ReturnPaths::new(secret));
        InForce { gateway, strangers, return_paths }
    };
    Some(x400.gateway.as_ref()?.made(made))
}

/// A partial O/R address, with any ADMD if none is given.
fn part_of(told: &mail::OrAddress) -> OrAddress {
    let mut part = OrAddress::parse(&told.to_string()).unwrap_or_default();
    if told.value("ADMD").is_none() {
        part.admd = None;
    }
    part
}

static BACK: Refusal =
    Refusal::permanent((7, 1), "Relaying from internet mail through X.400 to internet mail denied");
static NOT_FOR_STRANGERS: Refusal =
    Refusal::permanent((7, 1), "Relaying to this O/R address denied");
static NO_OR_ADDRESS: Refusal =
    Refusal::permanent((1, 3), "No X.400 O/R address for this recipient");
static NOT_A_REPORT: Refusal =
    Refusal::permanent((7, 1), "Only delivery reports accepted for this return path");

/// The refusal of an internet address at the gateway, for all clients or for those that may not relay. `None` if the
/// client may send to it.
pub(super) fn refusal(x400: &X400, mailbox: &Mailbox, may_relay: bool) -> Option<&'static Refusal> {
    let made = in_force(x400)?;
    if mailbox.is_or_address() || returned(made, mailbox).is_some() {
        return None;
    }
    match made.gateway.reach(mailbox.as_str()) {
        Reach::ByDomain(_) => None,
        Reach::ByLocalPart(address) => {
            let is_taken = may_relay || made.strangers.iter().any(|part| address.is_below(part));
            (!is_taken).then_some(&NOT_FOR_STRANGERS)
        }
        Reach::Back => Some(&BACK),
        Reach::Nowhere => Some(&NO_OR_ADDRESS),
    }
}

/// The O/R address for an internet address.
pub(super) fn behind(x400: &X400, mailbox: &Mailbox) -> Option<Mailbox> {
    let made = in_force(x400)?;
    if mailbox.is_or_address() || returned(made, mailbox).is_some() {
        return None;
    }
    match made.gateway.reach(mailbox.as_str()) {
        Reach::ByDomain(address) | Reach::ByLocalPart(address) => {
            names::mailbox(&OrName { address, directory_name: None })
        }
        Reach::Back | Reach::Nowhere => None,
    }
}

/// The original address of a return path made by this gateway.
fn returned(made: &InForce, mailbox: &Mailbox) -> Option<Returned> {
    made.return_paths.as_ref()?.read(mailbox)
}

/// Maximum number of authors of a message that is signed.
const AUTHORS_MAX: usize = 100;

/// Names, times and identifiers of one conversion.
pub(super) struct Converting<'a> {
    made: &'a InForce,
    domain: GlobalDomain,
    x400: &'a X400,
    now: UtcTime,
    local_id: String,
}

impl<'a> Converting<'a> {
    /// For a stored message. `None` without a gateway.
    pub(super) fn of(message: &Original, x400: &'a X400) -> Option<Converting<'a>> {
        Some(Converting {
            made: in_force(x400)?,
            domain: names::global_domain(&x400.domain),
            x400,
            // The time of arrival, so that each attempt has the same result.
            now: UtcTime::from(message.received_at),
            local_id: names::local_id(message.id, x400),
        })
    }

    /// The return path that replaces the originator of a message.
    fn return_path(&self, originator: Mailbox, message: &str) -> Mailbox {
        let made = self.made.return_paths.as_ref();
        made.and_then(|paths| paths.make(&originator, message)).unwrap_or(originator)
    }

    /// The O/R address of an originator or recipient in the queue. `None` if the gateway maps it.
    fn or_address(&self, mailbox: &Mailbox) -> Option<OrAddress> {
        or_address(mailbox).or_else(|| self.or_address_of(&returned(self.made, mailbox)?))
    }

    fn or_address_of(&self, returned: &Returned) -> Option<OrAddress> {
        self.made.gateway.to_or_address(returned.address.as_str(), Use::Other)
    }

    /// Failures for return paths, if the message does not come from a mail system.
    fn not_reports(&self, message: &Original, indexes: &[u32]) -> Vec<(u32, Failure)> {
        if message.envelope.reverse_path.is_none() || !message.is_from_stranger() {
            return Vec::new();
        }
        let is_return_path = |index: &u32| {
            let recipient = message.envelope.recipients.get(*index as usize);
            recipient.is_some_and(|one| returned(self.made, &one.mailbox).is_some())
        };
        let failure = || {
            let text = NOT_A_REPORT.text.to_string();
            Failure::local(Class::Permanent, NOT_A_REPORT.status, text)
        };
        indexes.iter().filter(|one| is_return_path(one)).map(|one| (*one, failure())).collect()
    }

    pub(super) fn here(&self) -> ConversionContext<'_> {
        ConversionContext {
            gateway: &self.made.gateway,
            domain: &self.domain,
            mta: &self.x400.mta,
            now: self.now,
            local_id: &self.local_id,
        }
    }
}

/// The internet mailbox of a P1 name, if it has one. Addresses below the gateway's domain, and those of other gateways,
/// have none.
fn mailbox(name: &OrName, x400: &X400) -> Option<Mailbox> {
    let gateway = gateway_of(x400)?;
    let is_mail = name.address.domain_defined(RFC_822).is_some();
    if is_mail && !gateway.is_ours(&name.address) {
        return None;
    }
    let mailbox = Mailbox::parse(&gateway.to_mail(&name.address)?, true).ok()?;
    let (_, domain) = mailbox.as_str().rsplit_once('@')?;
    (!domain.eq_ignore_ascii_case(&gateway.domain)).then_some(mailbox)
}

/// The mailbox of a P1 name in the queue: its O/R address if a route accepts that, otherwise the gateway's mapping.
pub(super) fn recipient(name: &OrName, config: &Config, x400: &X400) -> Mailbox {
    let address = names::mailbox_or_none(name);
    match config.route_of(&address, None) {
        Some(_) => address,
        None => mailbox(name, x400).unwrap_or(address),
    }
}

/// Converts a message, probe or report to internet mail. `None` if it did not come over X.400.
pub(super) fn as_mail(question: &ConversionRequest) -> Option<Result<MailConversion, Failure>> {
    let (kind, octets) = kept::read(question.original.kept_of_x400()?)?;
    Some(made_mail(kind, &octets, question))
}

fn made_mail(
    kind: ApduKind,
    octets: &[u8],
    question: &ConversionRequest,
) -> Result<MailConversion, Failure> {
    let x400 = question.config.of::<X400>().map(|x400| &**x400).ok_or_else(no_gateway)?;
    let converting = Converting::of(&question.original, x400).ok_or_else(no_gateway)?;
    let (here, limits) = (converting.here(), Limits::default());
    let mut subject = String::new();
    let mail = match kind {
        ApduKind::Probe => {
            return Ok(MailConversion::Nothing(Reply::new(
                250,
                (2, 1, 5),
                "a message would be delivered",
            )));
        }
        ApduKind::Report => {
            let envelope = ReportEnvelope::read(octets).map_err(|error| unread(&error))?;
            let content = ReportContent::read(&question.content, &limits);
            report_to_mail(&here, &envelope, &content.map_err(|error| unread(&error))?)
        }
        ApduKind::Message => {
            let envelope = TransferEnvelope::read(octets, EnvelopeKind::Message, &limits)
                .map_err(|error| unread(&error))?;
            // The result is the same for all attempts and recipients.
            let is_ours = |recipient: &mts::Recipient| {
                recipient.indicators.is_responsible() && mailbox(&recipient.name, x400).is_some()
            };
            let recipients: Vec<usize> = (0..)
                .zip(&envelope.recipients)
                .filter(|(_, recipient)| is_ours(recipient))
                .map(|(index, _)| index)
                .collect();
            subject = envelope.identifier.to_string();
            to_mail(&here, &envelope, &recipients, &question.content)
                .map_err(|error| not_converted(&error))?
        }
    };
    let parse = |address: &str| Mailbox::parse(address, true).ok();
    let originator = mail.originator.as_deref().and_then(parse);
    Ok(MailConversion::Message(Converted {
        reverse_path: originator.map(|originator| converting.return_path(originator, &subject)),
        // An identifier that is too long is left out. A DSN contains it in the returned header, too.
        envid: Envid::of_text(&mail.envid),
        is_signed: has_own_authors(&mail.message, converting.here().gateway),
        content: without_our_name(mail.message, &question.config.hostname).into(),
    }))
}

/// Returns true if all authors are X.400 users. An X.400 user can name any internet author, and that mail must not be
/// signed here.
fn has_own_authors(content: &[u8], gateway: &Gateway) -> bool {
    let from = mail::header::find(content, "From").map(|field| field.unfolded().into_owned());
    let all = from.and_then(|value| mail::address_list::read(&value));
    all.is_some_and(|all| {
        let is_own = |one: &Address| gateway.is_of_x400(&one.to_text());
        (1..=AUTHORS_MAX).contains(&all.len()) && all.iter().all(is_own)
    })
}

/// Renames Authentication-Results with this server's authserv-id in converted mail (RFC 8601 §5), as for SMTP.
fn without_our_name(mut content: Vec<u8>, hostname: &Domain) -> Vec<u8> {
    let (mut renamer, mut clean) = (AuthresRenamer::new(hostname.as_str()), Vec::new());
    for line in content.split_inclusive(|octet| *octet == b'\n') {
        if renamer.is_done() {
            break;
        }
        renamer.push(line, |piece| clean.extend_from_slice(piece));
    }
    renamer.finish(|piece| clean.extend_from_slice(piece));
    // A new name has the length of the old one, and the content after the header is unchanged.
    if let Some(header) = content.get_mut(..clean.len()) {
        header.copy_from_slice(&clean);
    }
    content
}

fn unread(error: &dyn std::fmt::Display) -> Failure {
    let text = format!("cannot read the X.400 message: {error}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 0), text)
}

fn no_gateway() -> Failure {
    let text = "no gateway between internet mail and X.400 configured";
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 3), text)
}

/// Converts internet mail to an APDU. `content` is the whole message; the next MTA becomes responsible for the
/// recipients of these indexes.
///
/// # Errors
/// The message can't be converted; the failure is for people.
pub(super) fn to_apdu(
    message: &Original,
    content: &[u8],
    indexes: &[u32],
    x400: &X400,
) -> Result<Departure, Failure> {
    let converting = Converting::of(message, x400);
    let converting = converting.ok_or_else(no_gateway)?;
    if let Some((prefix, content)) = report_of_dsn(message, content, &converting) {
        let content = ApduContent::Made(content);
        return Ok(Departure { prefix, content, refused: Vec::new() });
    }
    let parsed: Vec<Option<OrAddress>> = message
        .envelope
        .recipients
        .iter()
        .map(|recipient| converting.or_address(&recipient.mailbox))
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
        priority: message.priority.unwrap_or_default(),
    };
    let here = converting.here();
    let mut refused: Vec<(u32, Failure)> = to_x400::refused(&here, &envelope)
        .iter()
        .filter_map(|(index, why)| Some((u32::try_from(*index).ok()?, not_converted(why))))
        .collect();
    refused.extend(converting.not_reports(message, indexes));
    if !refused.is_empty() && refused.len() == indexes.len() {
        return Ok(Departure { prefix: Vec::new(), content: ApduContent::None, refused });
    }
    let made = to_x400(&here, &envelope, content);
    let (envelope, content) = made.map_err(|error| not_converted(&error))?;
    let prefix = message_prefix(&envelope.encode(), content.len() as u64);
    Ok(Departure { prefix, content: ApduContent::Made(Bytes::from(content)), refused })
}

/// The report for a DSN (RFC 2156 §5.1.8). `None` if it is not a DSN, or contains more than a report can.
fn report_of_dsn(
    message: &Original,
    content: &[u8],
    converting: &Converting<'_>,
) -> Option<(Vec<u8>, Bytes)> {
    let [recipient] = &message.envelope.recipients[..] else { return None };
    if message.envelope.reverse_path.is_some() {
        return None;
    }
    // Any sender can forge a DSN, but only a recipient of the message knows its return path.
    let returned = returned(converting.made, &recipient.mailbox)?;
    let destination = converting.or_address_of(&returned)?;
    let made = dsn_to_report(&converting.here(), &destination, content)?;
    let subject = made.subject?.to_string();
    converting.made.return_paths.as_ref().filter(|paths| paths.is_of(&returned, &subject))?;
    let (envelope, content) = made.report.filter(|_| !made.has_others)?;
    let content = content.encode();
    let prefix = report_prefix(&envelope.encode(), content.len() as u64);
    Some((prefix, Bytes::from(content)))
}

fn or_address(mailbox: &Mailbox) -> Option<OrAddress> {
    OrAddress::parse(mailbox.as_str()).ok().filter(|_| mailbox.is_or_address())
}

fn not_converted(error: &NotConverted) -> Failure {
    let NonDelivery { reason, diagnostic } = error.cause.non_delivery();
    let status = to_status(error.cause.non_delivery());
    let status = EnhancedStatus::new(5, status.subject, status.detail);
    let text = format!("it cannot be converted: {error}");
    Failure::not_converted(Unconverted { reason, diagnostic }, status, text)
}

#[cfg(test)]
mod tests;
