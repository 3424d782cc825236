//! Which recipients get a message from a rewritten sender: those to whom it is sent on for others; and
//! which domains are ours.

use super::{Ingress, refusals};
use crate::routing::{Active, find};
use crate::seams::{Tables, World};
use config::{Config, Destination, Route};
use lookup::LookupError;
use mail::{Domain, Envelope, Refusal, Wall};
use std::rc::Rc;
use std::sync::Arc;

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
    if instead.is_empty() {
        return Ok(Vec::new());
    }
    let is_ours = is_ours(ingress.services.world.tables(), &active, &sender.domain()).await;
    let console = &*ingress.services.console;
    let is_ours = is_ours.map_err(|trouble| refusals::no_answer(console, &trouble))?;
    Ok(if is_ours { Vec::new() } else { instead })
}

/// Whether a domain is ours: this server's name, or one that a route names.
async fn is_ours<T: Tables + Clone>(
    tables: &T,
    active: &Rc<Active>,
    domain: &Domain,
) -> Result<bool, LookupError> {
    if *domain == active.config.hostname {
        return Ok(true);
    }
    let at = find::in_tables(tables, active, domain).get().await?;
    Ok(active.config.route_for(domain, at).is_some_and(|(_, route)| names_ours(route)))
}

/// The domains that are ours by one configuration: its `hostname`, and those that a route names, but for
/// those of `mx` routes.
pub struct OwnDomains<T> {
    tables: T,
    active: Rc<Active>,
}

impl<T: Tables + Clone> OwnDomains<T> {
    pub fn new(tables: &T, config: &Config) -> OwnDomains<T> {
        let active = Active::new(Arc::new(config.clone()), ("start", Wall(0)));
        OwnDomains { tables: tables.clone(), active: Rc::new(active) }
    }

    /// Whether this domain is ours.
    ///
    /// # Errors
    /// A table gives no answer.
    pub async fn has(&self, domain: &Domain) -> Result<bool, LookupError> {
        is_ours(&self.tables, &self.active, domain).await
    }
}

/// Whether the domains that it names are ours: what goes where their MX leads may be anybody's.
fn names_ours(route: &Route) -> bool {
    !route.is_catch_all() && !matches!(route.channel.destination(), Destination::Mx { .. })
}
