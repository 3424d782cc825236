//! Refuses a message from a client that may not relay if all hosts of a route are known not to offer a capability that
//! the message needs. Accepting it would create a bounce to a possibly forged sender. The check is made at MAIL for all
//! routes, at RCPT for the recipient's route, and after the content. Hosts with unknown capabilities pass.

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
    Refusal::permanent((7, 30), "REQUIRETLS not supported by the next hop").with_code(550);
/// RFC 6531 §3.6.
const NO_SMTPUTF8: Refusal =
    Refusal::permanent((6, 7), "SMTPUTF8 addresses not supported by the next hop").with_code(553);
/// RFC 6531 §3.6, after the content.
const NO_UTF8_HEADER: Refusal =
    Refusal::permanent((6, 7), "SMTPUTF8 header not supported by the next hop").with_code(554);
/// RFC 1870 §6.2.
const TOO_LARGE: Refusal =
    Refusal::permanent((3, 4), "Message too large for the next hop").with_code(552);
/// RFC 6152 §3.
const NO_8BITMIME: Refusal =
    Refusal::permanent((6, 3), "8-bit content not supported by the next hop").with_code(554);

/// With more routes the check for all routes is skipped.
const ROUTES_MAX: usize = 100;
/// Approximate size of the header fields that this server adds.
const PREFIX_BYTES_ABOUT: u64 = 4_096;

/// The parameters of MAIL.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// The reverse-path. `None` is `<>`.
    pub path: Option<Mailbox>,
    /// The announced size of the content.
    pub size: Option<u64>,
    /// REQUIRETLS (RFC 8689 §2).
    pub requires_tls: bool,
}

/// The capabilities that a message needs of the next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    require_tls: bool,
    /// For the sender.
    smtputf8: bool,
    /// For the header.
    utf8_header: bool,
    bytes: u64,
    /// The content is 8-bit.
    eight_bit: bool,
    /// The content is 8-bit and can't be encoded.
    unencodable: bool,
}

impl Wants {
    /// As far as known at MAIL.
    pub(super) fn of_sender(sender: &Sender) -> Wants {
        Wants {
            // A report is sent even without REQUIRETLS (RFC 8689 §5).
            require_tls: sender.requires_tls && sender.path.is_some(),
            smtputf8: sender.path.as_ref().is_some_and(needs_smtputf8),
            bytes: sender.size.unwrap_or(0),
            ..Wants::default()
        }
    }

    /// For a message that needs only REQUIRETLS.
    pub(super) fn of_require_tls() -> Wants {
        Wants { require_tls: true, ..Wants::default() }
    }

    /// The first capability that a host on this route lacks.
    fn lacked_by(&self, offers: &Offers, route: &Route) -> Option<Refusal> {
        // Not required on routes that deliver finally (RFC 8689 §4.2.1).
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

    /// The needed capability that no host of a route offers. `None` if at least one host may offer all.
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

    /// As `lacked_on`, for a recipient's route.
    fn lacked_for<W: World>(
        &self,
        services: &Services<W>,
        active: &Active,
        recipient: &Mailbox,
    ) -> Option<Refusal> {
        let wants = Wants { smtputf8: self.smtputf8 || needs_smtputf8(recipient), ..*self };
        wants.lacked_on(services, active.route_of(recipient)?)
    }

    /// The needed capability that no route open to the client offers.
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

    /// The needed capability that the hosts of a recipient do not offer, after expansion. Members of a list with an
    /// owner are skipped, since the owner gets their reports.
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

/// Returns true if an address has no ASCII form (RFC 6531 §3.2).
fn needs_smtputf8(mailbox: &Mailbox) -> bool {
    !mailbox.as_str().is_ascii()
        && (!mailbox.local().is_ascii() || mailbox.domain().to_ascii().is_err())
}

/// Checks the complete message of a client that may not relay.
///
/// # Errors
/// The refusal, or an error reading the content.
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
    // The content is scanned only if the result matters.
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
    // A report that can't be encoded is sent as it is, because its loss could not be reported.
    let unencodable = Wants { unencodable: has_sender, ..eight_bit };
    match lacked(unencodable) {
        Some(refusal) if !can_be_encoded(draft).await? => Err(refusal),
        _ => Ok(()),
    }
}

/// Size of the message as the next hop counts it (RFC 1870 §4). Exact only if it could exceed a known limit.
fn bytes_of<W: World>(ingress: &Ingress<W>, active: &Active, draft: &Draft) -> u64 {
    let services = &ingress.services;
    let about = draft.sent_bytes() + draft.added_fields().len() as u64 + PREFIX_BYTES_ABOUT;
    if !services.shared.known_hosts.may_be_too_large(about) {
        return 0;
    }
    draft.sent_bytes() + prefix_of(&active.config, draft, services.wall()).len() as u64
}

/// Returns true if the original header contains an octet above 0x7f.
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
