//! Looks up a recipient in the tables that RCPT would consult, without a transaction.

use super::admission::is_disabled;
use super::refusals;
use crate::routing::find;
use crate::seams::Tables;
use crate::tables::{self, FoundBy};
use config::{Config, Decision};
use lookup::{Entry, LookupError};
use mail::{Mailbox, Refusal};
use std::sync::Arc;

/// Table entries for a recipient.
#[derive(Debug, Default)]
pub struct Consulted {
    /// The alias entry, if the recipient is an alias.
    pub alias: Option<Arc<Entry>>,
    /// The owner of the alias, which becomes the envelope sender for its members.
    pub owner: Option<Mailbox>,
    /// The entry in the `recipients` table of its route.
    pub entry: Option<Arc<Entry>>,
    /// The refusal that RCPT would get although a route accepts the address.
    pub refusal: Option<Refusal>,
}

/// The first route with a domain table that has the recipient's domain, as RCPT looks it up first.
///
/// # Errors
/// A table lookup failed.
pub async fn consult_route<T: Tables + Clone>(
    tables: &T,
    config: &Arc<Config>,
    recipient: &Mailbox,
) -> Result<Option<usize>, Refusal> {
    let found = find::in_tables_of(tables, config, &recipient.domain()).await;
    found.map_err(|_trouble| refusals::NO_ANSWER)
}

/// Looks up the recipient in its route's tables, in the order of RCPT after the access rules. Alias members are not
/// expanded.
pub async fn consult<T: Tables + Clone>(
    tables: &T,
    config: &Config,
    decision: Decision,
    recipient: &Mailbox,
) -> Consulted {
    let mut consulted = Consulted::default();
    if let Err(_trouble) = ask(tables, config, recipient, decision, &mut consulted).await {
        consulted.refusal = Some(refusals::NO_ANSWER);
    }
    consulted
}

async fn ask<T: Tables + Clone>(
    tables: &T,
    config: &Config,
    recipient: &Mailbox,
    decision: Decision,
    consulted: &mut Consulted,
) -> Result<(), LookupError> {
    let route = decision.route().and_then(|route| config.routes.get(route));
    let Some(route) = route.filter(|_| decision.is_accepted()) else { return Ok(()) };
    // The postmaster always has a mailbox, whatever the tables hold (RFC 5321 §4.5.1).
    let is_postmaster = matches!(decision, Decision::Postmaster { .. });
    let recipient = if is_postmaster { &config.postmaster.address } else { recipient };
    if let Some(aliases) = route.aliases.as_ref().filter(|_| !is_postmaster) {
        let found = tables::find_address(tables, aliases, recipient).get().await?;
        let mut goes_before = false;
        if let (Some(FoundBy::Domain), Some(table)) =
            (found.as_ref().map(|found| found.by), &route.recipients)
        {
            goes_before = tables::has_own_entry(tables, table, recipient).get().await?;
        }
        if let Some(found) = found.filter(|_| !goes_before) {
            consulted.alias = Some(found.entry);
            let owner = tables::find_owner(tables, aliases, recipient, found.by).get().await?;
            consulted.owner = owner.map(|owner| owner.address);
            return Ok(());
        }
    }
    if let Some(table) = &route.recipients {
        let found = tables::find_address(tables, table, recipient).get().await?;
        consulted.entry = found.map(|found| found.entry);
        consulted.refusal = match &consulted.entry {
            _ if is_postmaster => None,
            None => Some(refusals::NO_SUCH_RECIPIENT),
            Some(entry) => is_disabled(entry).then_some(refusals::MAILBOX_DISABLED),
        };
    }
    Ok(())
}
