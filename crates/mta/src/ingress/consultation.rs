//! Looks up a recipient in the tables that RCPT would consult, without a transaction, and its route for stages.

use super::admission::is_disabled;
use super::refusals;
use crate::conditions::{all_found, lookup_of};
use crate::routing::conditional::{candidates, find_routes};
use crate::routing::{Active, find};
use crate::seams::Tables;
use crate::tables::{self, FoundBy};
use config::{ConditionStep, Config, Decision, FoundRoutes, MailFacts, Route};
use lookup::{Entry, LookupError};
use mail::{Domain, Mailbox, Refusal, Wall};
use std::rc::Rc;
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

/// Routes found by tables and conditions, with each condition that was evaluated.
#[derive(Debug, Default)]
pub struct ConsultedRoutes {
    pub found: FoundRoutes,
    pub conditions: Vec<ConditionStep>,
    /// The refusal that RCPT would get because a lookup failed.
    pub refusal: Option<Refusal>,
}

/// Finds the recipient's routes in domain tables and by conditions, as RCPT does first. `may_relay`: the client may send
/// to any domain.
pub async fn consult_routes<T: Tables + Clone>(
    tables: &T,
    config: &Arc<Config>,
    (recipient, facts): (&Mailbox, &MailFacts<'_>),
    may_relay: bool,
) -> ConsultedRoutes {
    let mut consulted = ConsultedRoutes::default();
    let found = ask_routes(tables, config, (recipient, facts), may_relay, &mut consulted).await;
    // The step of a condition or the lookup shows the cause.
    consulted.refusal = found.err().map(|_trouble| refusals::NO_ANSWER);
    consulted
}

async fn ask_routes<T: Tables + Clone>(
    tables: &T,
    config: &Arc<Config>,
    (recipient, facts): (&Mailbox, &MailFacts<'_>),
    may_relay: bool,
    consulted: &mut ConsultedRoutes,
) -> Result<(), LookupError> {
    let domain = recipient.domain();
    consulted.found.in_tables = find::in_tables_of(tables, config, &domain).await?;
    if recipient.is_or_address() || domain.as_str().is_empty() {
        return Ok(());
    }
    let named = config.named(&domain, consulted.found.in_tables);
    let mut routes = config.conditional_routes();
    while let Some(route) = routes.next().filter(|one| named.is_none_or(|at| one.index < at)) {
        if consult_route(tables, route, (&domain, facts), may_relay, consulted).await? {
            consulted.found.by_conditions = Some(route.index);
            break;
        }
    }
    Ok(())
}

/// Evaluates all conditions of a route with the domain.
async fn consult_route<T: Tables + Clone>(
    tables: &T,
    route: &Route,
    (domain, facts): (&Domain, &MailFacts<'_>),
    may_relay: bool,
    consulted: &mut ConsultedRoutes,
) -> Result<bool, LookupError> {
    let Some(when) = &route.when else { return Ok(false) };
    if !route.domains.is_empty() && !route.domains.iter().any(|own| own.covers(domain)) {
        return Ok(false);
    }
    if let (Some(table), Ok(key)) = (&route.domains_table, domain.to_ascii())
        && tables::find(tables, table, &key).get().await?.is_none()
    {
        return Ok(false);
    }
    if !may_relay && !route.names_domains() {
        let text = "only for clients that may send to any domain".to_owned();
        consulted.conditions.push(ConditionStep { route: route.index, about: None, text });
        return Ok(false);
    }
    let mut found = Ok(true);
    for condition in when.each() {
        let holds = match condition.holds(facts) {
            Some(holds) => Ok(holds),
            None => {
                let lookup = lookup_of(condition, facts).into_iter().collect();
                all_found(tables.clone(), lookup).get().await
            }
        };
        let verdict = match &holds {
            Ok(true) => "holds",
            Ok(false) => "does not hold",
            Err(_) => "has no answer",
        };
        let text = format!("{verdict} for {}", facts.text(condition.about));
        let about = Some(condition.about);
        consulted.conditions.push(ConditionStep { route: route.index, about, text });
        if matches!(found, Ok(true)) {
            found = holds;
        }
    }
    // RCPT looks tables up only if all other conditions hold.
    let is_open = when.each().iter().all(|condition| condition.holds(facts) != Some(false));
    if is_open { found } else { Ok(false) }
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

/// Finds the routes of recipients of messages that are not stored yet.
#[derive(Debug)]
pub struct RouteFinder(Rc<Active>);

impl RouteFinder {
    #[must_use]
    pub fn new(config: &Config) -> RouteFinder {
        let config = Arc::new(config.clone());
        RouteFinder(Rc::new(Active::new(config, ("start", Wall(0)))))
    }

    /// The route by which the recipient in `facts` is delivered. `None` without a route. `may_relay`: the client may
    /// send to any domain.
    ///
    /// # Errors
    /// A table lookup failed.
    pub async fn find<T: Tables + Clone>(
        &self,
        tables: &T,
        facts: &MailFacts<'_>,
        may_relay: bool,
    ) -> Result<Option<Arc<Route>>, LookupError> {
        let (active, config) = (&self.0, &self.0.config);
        let Some(recipient) = facts.recipient else { return Ok(None) };
        if config.is_postmaster(recipient) {
            return Ok(config.routes.get(config.postmaster.route).cloned());
        }
        let domain = recipient.domain();
        let candidates = match active.may_have_conditions(&domain) {
            true => candidates(config, facts, &domain, may_relay),
            false => Vec::new(),
        };
        let found = find_routes(tables, active, domain.clone(), candidates).get().await?;
        let by_conditions = found.by_conditions.and_then(|at| config.routes.get(at));
        let by_domain = || config.route_for(&domain, found.in_tables).map(|(_, route)| route);
        Ok(by_conditions.or_else(by_domain).cloned())
    }
}
