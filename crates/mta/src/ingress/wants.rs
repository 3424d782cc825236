//! What a message of a stranger needs, and all hosts of a recipient's route are known not to have: it is refused
//! before it is accepted, since a report of it would go to whoever the client says it is. That is at MAIL where no
//! route has it, at RCPT where the recipient's has not, and behind the content for what only that shows. What is
//! not known is taken.

use super::Ingress;
use super::commit::prefix_of;
use super::draft::Draft;
use super::stage::Resolved;
use crate::facts::SentFrom;
use crate::known_hosts::Offers;
use crate::routing::Active;
use crate::schedule::resolution::host_groups;
use crate::seams::World;
use crate::services::Services;
use crate::srs::RewrittenSenders;
use config::{Destination, EightBit, Route};
use mail::transfer_encoding::Survey;
use mail::{HeaderScan, Mailbox, Refusal, RequireTls};

/// RFC 8689 §4.2.1.
const NO_REQUIRETLS: Refusal =
    Refusal::permanent((7, 30), "The next host does not offer REQUIRETLS").with_code(550);
/// RFC 6531 §3.6.
const NO_SMTPUTF8: Refusal =
    Refusal::permanent((6, 7), "The next host takes no internationalised addresses").with_code(553);
/// RFC 6531 §3.6: behind the content.
const NO_UTF8_HEADER: Refusal =
    Refusal::permanent((6, 7), "The next host takes no internationalised header").with_code(554);
/// RFC 1870 §6.2.
const TOO_LARGE: Refusal =
    Refusal::permanent((3, 4), "The message is too large for the next host").with_code(552);
/// RFC 6152 §3.
const NO_8BITMIME: Refusal =
    Refusal::permanent((6, 3), "The next host takes no 8-bit content as this is").with_code(554);

/// Of more routes than this it is not known whether none has something.
const ROUTES_MAX: usize = 100;
/// About what this server adds in front of a content.
const PREFIX_BYTES_ABOUT: u64 = 4_096;

/// What a client says at MAIL of the message that comes.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// The reverse-path; `None` is `<>`.
    pub path: Option<Mailbox>,
    /// How many octets of content come, if that was said.
    pub size: Option<u64>,
    /// It asks for TLS all the way (RFC 8689 §2).
    pub requires_tls: bool,
}

/// What a message needs of a host that it goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    require_tls: bool,
    /// For its sender.
    smtputf8: bool,
    /// For its header.
    utf8_header: bool,
    bytes: u64,
    /// It is 8-bit.
    eight_bit: bool,
    /// It is, and stays so: it can't be encoded.
    unencodable: bool,
}

impl Wants {
    /// As far as MAIL shows it.
    pub(super) fn of_sender(sender: &Sender) -> Wants {
        Wants {
            // RFC 8689 §5: a report goes anyhow.
            require_tls: sender.requires_tls && sender.path.is_some(),
            smtputf8: sender.path.as_ref().is_some_and(needs_smtputf8),
            bytes: sender.size.unwrap_or(0),
            ..Wants::default()
        }
    }

    /// Of a message that asks for TLS all the way, and for nothing else.
    pub(super) fn of_require_tls() -> Wants {
        Wants { require_tls: true, ..Wants::default() }
    }

    /// Why a host with these offers can't have it by a route.
    fn lacked_by(&self, offers: &Offers, route: &Route) -> Option<Refusal> {
        // RFC 8689 §4.2.1: some routes are the end of the way.
        let is_demanded = self.require_tls && route.channel.tls_sources_required().is_some();
        let is_8bit = match route.channel.eight_bit() {
            EightBit::Encode => self.unencodable,
            EightBit::Fail => self.eight_bit,
            EightBit::AsIs => false,
        };
        if is_demanded && !offers.require_tls {
            Some(NO_REQUIRETLS)
        } else if self.smtputf8 && !offers.smtputf8 {
            Some(NO_SMTPUTF8)
        } else if self.utf8_header && !offers.smtputf8 {
            Some(NO_UTF8_HEADER)
        } else if is_8bit && !offers.eight_bit_mime {
            Some(NO_8BITMIME)
        } else {
            offers.size_max.filter(|max| self.bytes > *max).map(|_| TOO_LARGE)
        }
    }

    /// Why no host of a route can have it; `None`: one can, or may.
    fn lacked_on<W: World>(&self, services: &Services<W>, route: &Route) -> Option<Refusal> {
        let known = &services.shared.known_hosts;
        let is_usual = Wants { bytes: 0, ..*self } == Wants::default();
        if is_usual && !known.may_be_too_large(self.bytes) {
            return None;
        }
        let Destination::Hosts(groups) = route.channel.destination() else { return None };
        let (now, mut first) = (services.now(), None);
        for host in host_groups(groups).iter().flat_map(|group| &group.hosts) {
            let offers = known.offers(now, &host.name, host.port)?;
            let lacked = self.lacked_by(&offers, route)?;
            first.get_or_insert(lacked);
        }
        first
    }

    /// The same for a recipient's route.
    fn lacked_for<W: World>(
        &self,
        services: &Services<W>,
        active: &Active,
        recipient: &Mailbox,
    ) -> Option<Refusal> {
        let wants = Wants { smtputf8: self.smtputf8 || needs_smtputf8(recipient), ..*self };
        wants.lacked_on(services, active.route_of(recipient)?)
    }

    /// Why nothing of it can go anywhere: no route that the client may use has a host for it.
    pub(super) fn lacked_everywhere<W: World>(
        &self,
        services: &Services<W>,
        active: &Active,
        may_relay: bool,
    ) -> Option<Refusal> {
        let config = &active.config;
        if config.routes.len() > ROUTES_MAX {
            return None;
        }
        let leads_on = config.of::<RewrittenSenders>().is_some()
            || config.routes.iter().any(|route| route.aliases.is_some());
        let may_use = |route: &&std::sync::Arc<Route>| {
            let is_out = route.is_catch_all() && !route.channel.is_local();
            !route.is_built_in() && (may_relay || leads_on || !is_out)
        };
        let mut first = None;
        for route in config.routes.iter().filter(may_use) {
            let lacked = self.lacked_on(services, route)?;
            first.get_or_insert(lacked);
        }
        first
    }

    /// Why a recipient's hosts can't have it, whatever stands for it. A list's owner gets the reports about its
    /// members.
    pub(super) fn lacked_by_those<W: World>(
        &self,
        services: &Services<W>,
        active: &Active,
        (given, resolved): (&Mailbox, &Resolved),
    ) -> Option<Refusal> {
        match resolved {
            Resolved::Kept => self.lacked_for(services, active, given),
            Resolved::Dropped(_) => None,
            Resolved::Replaced(others) => {
                let mut others = others.iter().filter(|other| other.owner.is_none());
                others.find_map(|other| self.lacked_for(services, active, &other.recipient.mailbox))
            }
        }
    }
}

/// Whether an address has no form in ASCII (RFC 6531 §3.2).
fn needs_smtputf8(mailbox: &Mailbox) -> bool {
    !mailbox.as_str().is_ascii()
        && (!mailbox.local().is_ascii() || mailbox.domain().to_ascii().is_err())
}

/// Why a stranger's message is not taken, which some recipient's hosts are known not to take.
///
/// # Errors
/// The refusal; or its content can't be read.
pub(super) async fn of_message<W: World>(
    ingress: &Ingress<W>,
    draft: &Draft,
) -> Result<(), Refusal> {
    if !draft.is_from_stranger {
        return Ok(());
    }
    let services = &ingress.services;
    let active = ingress.router.active();
    let has_sender = draft.envelope.reverse_path.is_some();
    let wants = Wants {
        require_tls: has_sender && draft.require_tls == RequireTls::Yes,
        smtputf8: draft.envelope.reverse_path.as_ref().is_some_and(needs_smtputf8),
        bytes: bytes_of(ingress, &active, draft),
        ..Wants::default()
    };
    let lacked = |wants: Wants| {
        let recipients = draft.envelope.recipients.iter().zip(0..);
        let is_owned = |index| {
            let record = draft.records.get(index);
            record.is_some_and(|record| matches!(record.from, SentFrom::Owner(_)))
        };
        let mut own = recipients.filter(|(_, index)| !is_owned(*index));
        own.find_map(|(one, _)| wants.lacked_for(services, &active, &one.mailbox))
    };
    if let Some(refusal) = lacked(wants) {
        return Err(refusal);
    }
    if !draft.facts.has_8bit {
        return Ok(());
    }
    // What is asked of a content is asked only where it matters.
    let utf8_header = Wants { utf8_header: draft.envelope.smtputf8, ..wants };
    if let Some(refusal) = lacked(utf8_header)
        && has_8bit_header(draft).await?
    {
        return Err(refusal);
    }
    let eight_bit = Wants { eight_bit: true, ..wants };
    if let Some(refusal) = lacked(eight_bit) {
        return Err(refusal);
    }
    // There is nobody to tell that a report was lost: it goes as it is.
    let unencodable = Wants { unencodable: has_sender, ..eight_bit };
    match lacked(unencodable) {
        Some(refusal) if !can_be_encoded(draft).await? => Err(refusal),
        _ => Ok(()),
    }
}

/// Octets of the message as the next host counts them (RFC 1870 §4), as exactly as it may matter.
fn bytes_of<W: World>(ingress: &Ingress<W>, active: &Active, draft: &Draft) -> u64 {
    let services = &ingress.services;
    let about = draft.sent_bytes() + draft.added_fields().len() as u64 + PREFIX_BYTES_ABOUT;
    if !services.shared.known_hosts.may_be_too_large(about) {
        return 0;
    }
    draft.sent_bytes() + prefix_of(&active.config, draft, services.wall()).len() as u64
}

/// Whether the header that the message came with has an octet above 0x7f.
async fn has_8bit_header(draft: &Draft) -> Result<bool, Refusal> {
    let (mut scan, mut offset) = (HeaderScan::default(), 0);
    while offset < draft.sent_bytes() {
        let piece = draft.read(offset).await?;
        if let Some(found) = scan.push(&piece) {
            return Ok(found);
        }
        offset += piece.len().max(1) as u64;
    }
    Ok(false)
}

async fn can_be_encoded(draft: &Draft) -> Result<bool, Refusal> {
    let (mut survey, mut offset) = (Survey::new(false), 0);
    while offset < draft.sent_bytes() {
        let piece = draft.read(offset).await?;
        survey.push(&piece);
        offset += piece.len().max(1) as u64;
    }
    Ok(survey.finish().is_ok())
}
