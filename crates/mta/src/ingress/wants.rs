//! What a message of a stranger needs, and all hosts of a recipient's route are known not to have: it is refused
//! before it is accepted, since a report of it would go to whoever the client says it is.

use super::draft::Draft;
use crate::known_hosts::Offers;
use crate::routing::Active;
use crate::schedule::resolution::host_groups;
use crate::seams::World;
use crate::services::Services;
use config::Destination;
use mail::{Mailbox, Refusal, RequireTls};

/// RFC 8689 §4.2.1.
const NO_REQUIRETLS: Refusal =
    Refusal::permanent((7, 30), "The next host does not offer REQUIRETLS").with_code(550);
/// RFC 6531 §3.6.
const NO_SMTPUTF8: Refusal =
    Refusal::permanent((6, 7), "The next host takes no internationalised addresses").with_code(553);
/// RFC 1870 §6.2.
const TOO_LARGE: Refusal =
    Refusal::permanent((3, 4), "The message is too large for the next host").with_code(552);

/// Whether the hosts of a route that names them are known, each of them, to lack something.
fn all_lack<W: World>(
    services: &Services<W>,
    (active, recipient): (&Active, &Mailbox),
    (demands, lacks): (bool, impl Fn(&Offers) -> bool),
) -> bool {
    let Some(route) = active.route_of(recipient) else { return false };
    // RFC 8689 §4.2.1: some routes are the end of the way.
    if demands && route.channel.tls_sources_required().is_none() {
        return false;
    }
    let Destination::Hosts(groups) = route.channel.destination() else { return false };
    let (now, known) = (services.now(), &services.shared.known_hosts);
    let groups = host_groups(groups);
    let mut hosts = groups.iter().flat_map(|group| &group.hosts).peekable();
    hosts.peek().is_some() && known.all_lack(now, hosts.map(|host| (&host.name, host.port)), lacks)
}

/// Whether an address has no form in ASCII (RFC 6531 §3.2).
fn needs_smtputf8(mailbox: &Mailbox) -> bool {
    !mailbox.as_str().is_ascii()
        && (!mailbox.local().is_ascii() || mailbox.domain().to_ascii().is_err())
}

/// Why a stranger's recipient is not taken, whose address its hosts are known not to take.
pub(super) fn of_recipient<W: World>(
    services: &Services<W>,
    active: &Active,
    recipient: &Mailbox,
) -> Option<Refusal> {
    (needs_smtputf8(recipient)
        && all_lack(services, (active, recipient), (false, |offers: &Offers| !offers.smtputf8)))
    .then_some(NO_SMTPUTF8)
}

/// Why a stranger's message is not taken, which some recipient's hosts are known not to take.
///
/// # Errors
/// The refusal.
pub(super) fn of_message<W: World>(
    services: &Services<W>,
    active: &Active,
    draft: &Draft,
) -> Result<(), Refusal> {
    if !draft.is_from_stranger || draft.envelope.reverse_path.is_none() {
        return Ok(());
    }
    let (bytes, sender) = (draft.facts.body_bytes, draft.envelope.reverse_path.as_ref());
    let is_senders_utf8 = sender.is_some_and(needs_smtputf8);
    for recipient in draft.envelope.recipients.iter().map(|recipient| &recipient.mailbox) {
        let place = (active, recipient);
        if draft.require_tls == RequireTls::Yes
            && all_lack(services, place, (true, |offers: &Offers| !offers.require_tls))
        {
            return Err(NO_REQUIRETLS);
        }
        if (is_senders_utf8 || needs_smtputf8(recipient))
            && all_lack(services, place, (false, |offers: &Offers| !offers.smtputf8))
        {
            return Err(NO_SMTPUTF8);
        }
        let is_smaller = |offers: &Offers| offers.size_max.is_some_and(|max| bytes > max);
        if services.shared.known_hosts.may_be_too_large(bytes)
            && all_lack(services, place, (false, is_smaller))
        {
            return Err(TOO_LARGE);
        }
    }
    Ok(())
}
