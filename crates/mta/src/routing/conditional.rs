//! Finds the route with conditions (`when`) that takes a recipient.
//!
//! The result for a queued recipient is part of its scheduled queue's key, because only the message shows it. Mail for
//! one domain waits in a queue for each of these routes. Results of an earlier configuration are found again when the
//! recipient falls due, so that a reload affects queued mail.

use super::Active;
use super::find;
use crate::answer::Answer;
use crate::conditions::{ConditionLookup, all_found, lookups_of};
use crate::facts::ClientAddress;
use crate::message::{Message, SentBy};
use crate::seams::Tables;
use config::{Config, FoundRoutes, MailFacts, Route};
use lookup::LookupError;
use mail::{Domain, Wall};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::Arc;

/// A route that takes the recipient if its lookups find something.
#[derive(Debug)]
pub(crate) struct Candidate {
    route: usize,
    lookups: Vec<ConditionLookup>,
}

/// The routes with conditions that may take a recipient, up to the first that surely does. `may_relay`: its client may
/// send to any domain.
pub(crate) fn candidates(
    config: &Config,
    facts: &MailFacts<'_>,
    domain: &Domain,
    may_relay: bool,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for route in config.conditional_routes() {
        if !may_relay && !route.names_domains() {
            continue;
        }
        if !route.domains.is_empty() && !route.domains.iter().any(|own| own.covers(domain)) {
            continue;
        }
        let Some(when) = &route.when else { continue };
        let Some(mut lookups) = lookups_of(when, facts) else { continue };
        if let Some(table) = &route.domains_table {
            // A-labels and U-labels are the same name (RFC 5890 §2.3.2.1).
            let Ok(key) = domain.to_ascii() else { continue };
            lookups.insert(0, (Arc::clone(table), vec![key.into()]));
        }
        let is_sure = lookups.is_empty();
        found.push(Candidate { route: route.index, lookups });
        if is_sure {
            break;
        }
    }
    found
}

/// The first route that takes a recipient by conditions, before the one that names its domain, and the one with the
/// domain in its table.
pub(crate) fn find_routes<T: Tables + Clone>(
    tables: &T,
    active: &Rc<Active>,
    domain: Domain,
    candidates: Vec<Candidate>,
) -> Answer<'static, Result<FoundRoutes, LookupError>> {
    let (task, tables_too) = (Rc::clone(active), tables.clone());
    find::in_tables(tables, active, &domain).then(move |in_tables| {
        let in_tables = match in_tables {
            Ok(in_tables) => in_tables,
            Err(trouble) => return Answer::Now(Err(trouble)),
        };
        let named = task.config.named(&domain, in_tables);
        let mut candidates = candidates;
        candidates.retain(|one| named.is_none_or(|named| one.route < named));
        first_of(tables_too, candidates).then(move |found| {
            Answer::Now(found.map(|by_conditions| FoundRoutes { in_tables, by_conditions }))
        })
    })
}

fn first_of<T: Tables + Clone>(
    tables: T,
    mut candidates: Vec<Candidate>,
) -> Answer<'static, Result<Option<usize>, LookupError>> {
    if candidates.is_empty() {
        return Answer::Now(Ok(None));
    }
    let Candidate { route, lookups } = candidates.remove(0);
    all_found(tables.clone(), lookups).then(move |holds| match holds {
        Ok(true) => Answer::Now(Ok(Some(route))),
        Ok(false) => first_of(tables, candidates),
        Err(trouble) => Answer::Now(Err(trouble)),
    })
}

/// Facts about a recipient of a message, as conditions see them.
pub(crate) fn facts_of(message: &Message, index: u32) -> MailFacts<'_> {
    let kept = message.kept();
    let recipient = message.envelope.recipients.get(index as usize);
    MailFacts {
        sender: message.envelope.reverse_path.as_ref(),
        recipient: recipient.map(|recipient| &recipient.mailbox),
        login: kept.login(),
        client: kept.client().and_then(ClientAddress::ip),
        listener: kept.listener(),
        tenant: kept.tenant(),
    }
}

/// The route choice for a queued recipient, for its scheduled queue's key. `route`: the recipient's own route, or empty.
pub(crate) fn choose<T: Tables + Clone>(
    tables: &T,
    active: &Rc<Active>,
    message: &Message,
    (index, route): (u32, &str),
) -> Answer<'static, Result<Arc<str>, LookupError>> {
    if let Some(route) = active.fixed_route(route) {
        let sender = sender_of(message, index).filter(|_| needs_sender(&active.config, route));
        return Answer::Now(Ok(active.choices.write(None, sender)));
    }
    let facts = facts_of(message, index);
    let domain = facts.recipient.map(|recipient| recipient.domain());
    let domain = domain.filter(|domain| active.may_have_choices(domain));
    let Some(domain) = domain else { return Answer::Now(Ok(Arc::from(""))) };
    let may_relay = !message.kept().is_from_stranger();
    let candidates = candidates(&active.config, &facts, &domain, may_relay);
    let (task, to) = (Rc::clone(active), domain.clone());
    let sender = sender_of(message, index).map(str::to_owned);
    find_routes(tables, active, domain, candidates).then(move |found| {
        let choice = found.map(|found| {
            let by_conditions = found.by_conditions.and_then(|at| task.config.routes.get(at));
            let by_domain = || task.config.route_for(&to, found.in_tables).map(|(_, route)| route);
            let route = by_conditions.or_else(by_domain);
            let needs_it = route.is_some_and(|route| needs_sender(&task.config, route));
            task.choices.write(found.by_conditions, sender.as_deref().filter(|_| needs_it))
        });
        Answer::Now(choice)
    })
}

/// The sender that determines the login for a recipient; empty for the null sender.
fn sender_of(message: &Message, index: u32) -> Option<&str> {
    match message.sent_by(index) {
        SentBy::Owner(address) => Some(address),
        SentBy::Sender | SentBy::Rewritten => Some(message.sender()),
    }
}

/// Returns true if the login on a route, or on its fallbacks, depends on the sender.
pub(super) fn needs_sender(config: &Config, route: &Route) -> bool {
    let mut next = Some(route);
    while let Some(route) = next {
        if route.channel.has_logins_by_sender() {
            return true;
        }
        next = route.fallback.and_then(|index| config.routes.get(index)).map(|route| &**route);
    }
    false
}

/// Route choices of one configuration as text: its fingerprint, the route's index if a route takes the mail by
/// conditions, and the sender if the login depends on it.
#[derive(Debug)]
pub(super) struct RouteChoices {
    /// Empty if no choice is needed.
    fingerprint: Arc<str>,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteChoice<'a> {
    /// The route that takes the mail by its conditions.
    pub(super) route: Option<usize>,
    /// The sender if the login depends on it; empty for the null sender.
    pub(super) sender: Option<&'a str>,
}

impl RouteChoices {
    /// `since`: time of the start or reload. Tables in conditions are asked again after each.
    pub(super) fn new(config: &Config, since: Wall) -> RouteChoices {
        if !config.has_conditional_routes() && !config.has_logins_by_sender() {
            return RouteChoices { fingerprint: Arc::from("") };
        }
        let mut hasher = DefaultHasher::new();
        for route in &config.routes {
            (route.index, &*route.name).hash(&mut hasher);
            route.domains.iter().for_each(|domain| domain.to_string().hash(&mut hasher));
            let table = route.domains_table.as_ref().map(|table| &*table.name);
            let when = route.when.as_ref();
            (table, when.map(ToString::to_string)).hash(&mut hasher);
            (route.channel.has_logins_by_sender(), route.fallback).hash(&mut hasher);
            let has_tables = when.is_some_and(|when| table.is_some() || when.have_tables());
            has_tables.then_some(since.0).hash(&mut hasher);
        }
        RouteChoices { fingerprint: format!("{:016x}", hasher.finish()).into() }
    }

    /// Returns true if the route or the login depends on more than the domain.
    pub(super) fn are_needed(&self) -> bool {
        !self.fingerprint.is_empty()
    }

    fn write(&self, route: Option<usize>, sender: Option<&str>) -> Arc<str> {
        if route.is_none() && sender.is_none() {
            return Arc::clone(&self.fingerprint);
        }
        let route = route.map(|route| format!(" {route}")).unwrap_or_default();
        let sender = sender.map(|sender| format!("\n{sender}")).unwrap_or_default();
        format!("{}{route}{sender}", self.fingerprint).into()
    }

    /// The choice, if it was made by this configuration.
    pub(super) fn read<'c>(&self, choice: &'c str) -> Option<RouteChoice<'c>> {
        let rest = choice.strip_prefix(&*self.fingerprint).filter(|_| self.are_needed())?;
        let (route, sender) = match rest.split_once('\n') {
            Some((route, sender)) => (route, Some(sender)),
            None => (rest, None),
        };
        let route = match route.strip_prefix(' ') {
            Some(route) => Some(route.parse().ok()?),
            None if route.is_empty() => None,
            None => return None,
        };
        Some(RouteChoice { route, sender })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_is_read_by_its_configuration_only() {
        let choices = RouteChoices { fingerprint: Arc::from("0123456789abcdef") };
        for (route, sender) in
            [(None, None), (Some(7), None), (None, Some("")), (Some(0), Some("a b\"@x.test"))]
        {
            let text = choices.write(route, sender);
            assert_eq!(choices.read(&text), Some(RouteChoice { route, sender }), "{text}");
            let other = RouteChoices { fingerprint: Arc::from("fedcba9876543210") };
            let none = RouteChoices { fingerprint: Arc::from("") };
            assert_eq!((other.read(&text), none.read(&text)), (None, None));
        }
        assert_eq!(choices.read(""), None);
    }
}
