//! Evaluates conditions (`when`), with lookups in tables where they name some.

use crate::answer::Answer;
use crate::seams::Tables;
use crate::tables::{KeyRules, LookupKey, find_first, keys_of, keys_of_client};
use config::{Condition, ConditionSubject, ConditionValues, Conditions, MailFacts, TableEntry};
use lookup::LookupError;
use std::sync::Arc;

/// The null sender as a key, as in Postfix's tables.
const NULL_SENDER: &str = "<>";

/// A lookup that decides a condition: it holds if the table has one of the keys.
pub(crate) type ConditionLookup = (Arc<TableEntry>, Vec<LookupKey>);

/// The lookups that remain if all conditions without one hold; `None`: one does not hold.
pub(crate) fn lookups_of(
    conditions: &Conditions,
    facts: &MailFacts<'_>,
) -> Option<Vec<ConditionLookup>> {
    let mut lookups = Vec::new();
    for condition in conditions.each() {
        match condition.holds(facts) {
            Some(true) => {}
            Some(false) => return None,
            None => lookups.extend(lookup_of(condition, facts)),
        }
    }
    Some(lookups)
}

/// The lookup of a condition with a table.
pub(crate) fn lookup_of(condition: &Condition, facts: &MailFacts<'_>) -> Option<ConditionLookup> {
    let ConditionValues::Table(table) = &condition.values else { return None };
    Some((Arc::clone(table), keys(condition.about, facts, KeyRules::of(table))))
}

fn keys(about: ConditionSubject, facts: &MailFacts<'_>, rules: KeyRules<'_>) -> Vec<LookupKey> {
    let addresses = |address| keys_of(address, rules).into_iter().map(|(_, key)| key).collect();
    let name = |name: Option<&str>| name.map(str::to_owned).map(LookupKey::from);
    match about {
        ConditionSubject::Sender => match facts.sender {
            Some(sender) => addresses(sender),
            None => vec![NULL_SENDER.to_owned().into()],
        },
        ConditionSubject::Recipient => facts.recipient.map(addresses).unwrap_or_default(),
        ConditionSubject::Client => {
            facts.client.map(|client| keys_of_client(client, rules)).unwrap_or_default()
        }
        ConditionSubject::Login => name(facts.login).into_iter().collect(),
        ConditionSubject::Listener => name(facts.listener).into_iter().collect(),
        ConditionSubject::Tenant => name(facts.tenant).into_iter().collect(),
    }
}

/// Returns true if each table has one of its keys; asked one after another, until one has none.
pub(crate) fn all_found<T: Tables + Clone>(
    tables: T,
    mut lookups: Vec<ConditionLookup>,
) -> Answer<'static, Result<bool, LookupError>> {
    if lookups.is_empty() {
        return Answer::Now(Ok(true));
    }
    let (table, keys) = lookups.remove(0);
    find_first(&tables, &table, keys).then(move |found| match found {
        Ok(Some(_)) => all_found(tables, lookups),
        Ok(None) => Answer::Now(Ok(false)),
        Err(trouble) => Answer::Now(Err(trouble)),
    })
}

/// Returns true if all conditions hold.
pub fn all_hold<T: Tables + Clone>(
    tables: &T,
    conditions: &Conditions,
    facts: &MailFacts<'_>,
) -> Answer<'static, Result<bool, LookupError>> {
    match lookups_of(conditions, facts) {
        Some(lookups) => all_found(tables.clone(), lookups),
        None => Answer::Now(Ok(false)),
    }
}

/// The first condition that does not hold, for explanations.
///
/// # Errors
/// A table lookup failed.
pub async fn first_unmet<'c, T: Tables + Clone>(
    tables: &T,
    conditions: &'c Conditions,
    facts: &MailFacts<'_>,
) -> Result<Option<&'c Condition>, LookupError> {
    for condition in conditions.each() {
        let holds = match condition.holds(facts) {
            Some(holds) => holds,
            None => {
                let lookup = lookup_of(condition, facts).into_iter().collect();
                all_found(tables.clone(), lookup).get().await?
            }
        };
        if !holds {
            return Ok(Some(condition));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Mailbox;

    #[test]
    fn condition_is_looked_up_by_its_fact() {
        let sender = Mailbox::parse("Jo+news@Example.ORG", true).unwrap();
        let facts = MailFacts {
            sender: Some(&sender),
            client: Some("::ffff:192.0.2.7".parse().unwrap()),
            login: Some("Jo"),
            ..MailFacts::default()
        };
        let of = |about, facts: &MailFacts<'_>, is_whole| {
            let rules = KeyRules { is_whole, tags: &config::TagDelimiters::default() };
            let keys = keys(about, facts, rules).into_iter().map(|key| key.text);
            keys.collect::<Vec<_>>().join(" ")
        };
        let addresses = "jo+news@example.org jo@example.org @example.org";
        assert_eq!(of(ConditionSubject::Sender, &facts, false), addresses);
        assert_eq!(of(ConditionSubject::Sender, &facts, true), "jo+news@example.org");
        assert_eq!(of(ConditionSubject::Sender, &MailFacts::default(), false), "<>");
        let networks = "192.0.2.7 192.0.2 192.0 192";
        assert_eq!(of(ConditionSubject::Client, &facts, false), networks);
        assert_eq!(of(ConditionSubject::Client, &facts, true), "192.0.2.7");
        assert_eq!(of(ConditionSubject::Login, &facts, false), "Jo");
        assert_eq!(of(ConditionSubject::Recipient, &facts, false), "");
        assert_eq!(of(ConditionSubject::Tenant, &facts, false), "");
    }
}
