//! Which recipients get a message from a rewritten sender: those to whom it is sent on for others.

use super::{Ingress, refusals};
use crate::routing::find;
use crate::seams::World;
use config::{Destination, Route};
use mail::{Envelope, Refusal};

/// Of the recipients that stand for others, `instead`, those whose mail leaves our domains, or whose
/// route says so, if the sender is of none of ours: their next hop might refuse mail that the sender's domain doesn't send itself.
///
/// # Errors
/// A table gives no answer.
pub(super) async fn leaving<W: World>(
    ingress: &Ingress<W>,
    envelope: &Envelope,
    mut instead: Vec<u32>,
) -> Result<Vec<u32>, Refusal> {
    let active = ingress.router.active();
    let sender = envelope.reverse_path.as_ref().filter(|_| active.srs.is_some());
    let Some(sender) = sender.filter(|_| !instead.is_empty()) else { return Ok(Vec::new()) };
    instead.retain(|index| {
        let recipient = envelope.recipients.get(*index as usize);
        let route = recipient.and_then(|recipient| active.route_of(&recipient.mailbox));
        route.is_some_and(|route| {
            !route.channel.is_local() && route.srs.unwrap_or_else(|| !names_ours(route))
        })
    });
    let domain = sender.domain();
    if instead.is_empty() || domain == active.config.hostname {
        return Ok(Vec::new());
    }
    let in_tables = find::in_tables(ingress.services.world.tables(), &active, &domain).get().await;
    let console = &*ingress.services.console;
    let at = in_tables.map_err(|trouble| refusals::no_answer(console, &trouble))?;
    let route = active.config.route_for(&domain, at);
    let is_ours = route.is_some_and(|(_, route)| names_ours(route));
    Ok(if is_ours { Vec::new() } else { instead })
}

/// Whether the domains that it names are ours: what goes where their MX leads may be anybody's.
fn names_ours(route: &Route) -> bool {
    !route.is_catch_all() && !matches!(route.channel.destination(), Destination::Mx { .. })
}
