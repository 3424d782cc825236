//! Decides which forwarded recipients need a rewritten sender (SRS), and which domains are local.

use super::{Ingress, refusals};
use crate::routing::{Active, find};
use crate::seams::{Tables, World};
use config::Config;
use lookup::{LookupError, Requester};
use mail::{Domain, Envelope, Refusal, Wall};
use std::rc::Rc;
use std::sync::Arc;

/// Selects from the forwarded recipients `instead` those that need a rewritten sender: those with mail that leaves the
/// local domains, unless `srs` of their route decides otherwise. Senders in local domains are never rewritten. For
/// other senders a next hop may reject the mail, because it does not come from the sender's domain (SPF).
///
/// # Errors
/// A table lookup failed.
pub(super) async fn leaving<W: World>(
    ingress: &Ingress<W>,
    (envelope, requester): (&Envelope, Requester),
    mut instead: Vec<u32>,
) -> Result<Vec<u32>, Refusal> {
    let active = ingress.router.active();
    let sender = envelope.reverse_path.as_ref().filter(|_| active.srs.is_some());
    let Some(sender) = sender.filter(|_| !instead.is_empty()) else { return Ok(Vec::new()) };
    instead.retain(|index| {
        let recipient = envelope.recipients.get(*index as usize);
        let route = recipient.and_then(|recipient| active.route_of(&recipient.mailbox));
        route.is_some_and(|route| {
            !route.channel.is_local() && route.srs.unwrap_or_else(|| !route.names_local_domains())
        })
    });
    if instead.is_empty() {
        return Ok(Vec::new());
    }
    let tables = ingress.services.world.tables(requester);
    let is_ours = is_ours(&tables, &active, &sender.domain()).await;
    let console = &*ingress.services.console;
    let is_ours = is_ours.map_err(|trouble| refusals::no_answer(console, &trouble))?;
    Ok(if is_ours { Vec::new() } else { instead })
}

/// Returns true if a domain is local: our hostname, or a domain that a route names.
async fn is_ours<T: Tables + Clone>(
    tables: &T,
    active: &Rc<Active>,
    domain: &Domain,
) -> Result<bool, LookupError> {
    if *domain == active.config.hostname {
        return Ok(true);
    }
    let at = find::in_tables(tables, active, domain).get().await?;
    Ok(active.config.route_for(domain, at).is_some_and(|(_, route)| route.names_local_domains()))
}

/// The local domains of a configuration: its `hostname` and all domains that routes name, except those of `mx` routes.
pub struct OwnDomains {
    active: Rc<Active>,
}

impl OwnDomains {
    #[must_use]
    pub fn new(config: &Config) -> OwnDomains {
        let active = Active::new(Arc::new(config.clone()), ("start", Wall(0)));
        OwnDomains { active: Rc::new(active) }
    }

    /// Returns true if the domain is local.
    ///
    /// # Errors
    /// A table lookup failed.
    pub async fn has<T: Tables + Clone>(
        &self,
        tables: &T,
        domain: &Domain,
    ) -> Result<bool, LookupError> {
        is_ours(tables, &self.active, domain).await
    }
}
