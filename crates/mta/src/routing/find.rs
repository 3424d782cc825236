//! Looks up routes in domain tables, which may be remote.

use super::Active;
use crate::answer::Answer;
use crate::seams::Tables;
use crate::tables::find;
use config::{Config, Route};
use lookup::LookupError;
use mail::{Domain, Wall};
use queue::ScheduledKey;
use std::rc::Rc;
use std::sync::Arc;

/// The first route with a domain table that has the domain, if it precedes the route that the configuration names.
pub(crate) type InTables = Answer<'static, Result<Option<usize>, LookupError>>;

/// Looks up the domain in the domain tables.
pub(crate) fn in_tables<T: Tables + Clone>(
    tables: &T,
    active: &Rc<Active>,
    domain: &Domain,
) -> InTables {
    if active.domain_tables.is_empty() {
        return Answer::Now(Ok(None));
    }
    ask(tables.clone(), Rc::clone(active), domain.clone(), 0)
}

fn ask<T: Tables + Clone>(tables: T, active: Rc<Active>, domain: Domain, next: usize) -> InTables {
    let in_file = active.config.named(&domain, None);
    let table = active.domain_tables.get(next);
    let Some((route, table)) = table.filter(|(route, _)| in_file.is_none_or(|at| *route < at))
    else {
        active.learn(domain, None);
        return Answer::Now(Ok(None));
    };
    // A-labels and U-labels are the same name (RFC 5890 §2.3.2.1).
    let Ok(key) = domain.to_ascii() else { return Answer::Now(Ok(None)) };
    let route = *route;
    find(&tables, table, &key).then(move |found| match found {
        Ok(Some(_)) => {
            active.learn(domain, Some(route));
            Answer::Now(Ok(Some(route)))
        }
        Ok(None) => ask(tables, active, domain, next + 1),
        Err(trouble) => Answer::Now(Err(trouble)),
    })
}

/// As [`in_tables`], for a configuration that need not be active.
pub(crate) async fn in_tables_of<T: Tables + Clone>(
    tables: &T,
    config: &Arc<Config>,
    domain: &Domain,
) -> Result<Option<usize>, LookupError> {
    let active = Rc::new(Active::new(Arc::clone(config), ("start", Wall(0))));
    in_tables(tables, &active, domain).get().await
}

/// The route of a scheduled queue.
pub(crate) fn route_of_key<T: Tables + Clone>(
    tables: &T,
    active: &Rc<Active>,
    key: &ScheduledKey,
) -> Answer<'static, Result<Option<Arc<Route>>, LookupError>> {
    if active.domain_tables.is_empty() || active.chosen_route_of(key).is_some() {
        return Answer::Now(Ok(active.route_of_key(key).cloned()));
    }
    let (task, domain) = (Rc::clone(active), key.domain.clone());
    in_tables(tables, active, &key.domain).then(move |found| {
        let route = found.map(|at| task.config.route_for(&domain, at));
        Answer::Now(route.map(|route| route.map(|(_, route)| Arc::clone(route))))
    })
}
