//! Looks up addresses as Postfix's canonical(5) and generic(5) do.

use config::{Config, DomainPattern, TableEntry, TagDelimiters};
use lookup::{EntryText, LookupError, fold};
use mail::{Domain, Mailbox};
use mta::seams::Tables;
use mta::tables::{FoundBy, FoundKey, KeyRules, LookupKey, find_first, keys_of};
use std::fmt;
use std::sync::Arc;

/// Lookups for one address: the result is looked up again, as in Postfix, until it stays the same.
pub(super) const NESTING_MAX: usize = 10;

/// The reason for which an address stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MapError {
    /// No answer of the table.
    Lookup(LookupError),
    /// The table has an entry that is no address.
    NoAddress(String),
    /// The entries lead in a circle, or too far.
    Loop,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Lookup(trouble) => trouble.fmt(f),
            MapError::NoAddress(text) => write!(f, "{text:?} is not an address"),
            MapError::Loop => write!(f, "more than {NESTING_MAX} lookups: a loop"),
        }
    }
}

/// Names that an address without a domain stands for.
#[derive(Debug)]
pub(super) struct OwnNames {
    /// Domain of results without one.
    origin: Domain,
    /// Domains in which the local part alone is a key.
    local: Vec<DomainPattern>,
}

impl OwnNames {
    /// The host name, and the domains that routes to this machine name.
    pub(super) fn of(config: &Config) -> OwnNames {
        let routes = config.routes.iter().filter(|route| route.channel.is_local());
        let local = routes.flat_map(|route| route.domains.iter().cloned()).collect();
        OwnNames { origin: config.hostname.clone(), local }
    }

    fn has(&self, domain: &Domain) -> bool {
        *domain == self.origin || self.local.iter().any(|pattern| pattern.covers(domain))
    }
}

/// Returns true if rules may replace the address. The bare postmaster stays one (RFC 5321 §4.5.1), and O/R addresses have
/// another form.
pub(super) fn is_changeable(address: &Mailbox) -> bool {
    address.has_domain() && !address.is_or_address()
}

/// The new address. `None`: the table does not change it. `smtputf8`: the address may have characters beyond ASCII.
///
/// # Errors
/// The address stays as it is.
pub(super) async fn rewritten<T: Tables + Clone>(
    (tables, table): (&T, &Arc<TableEntry>),
    names: &OwnNames,
    address: &Mailbox,
    smtputf8: bool,
) -> Result<Option<Mailbox>, MapError> {
    let mut current = address.clone();
    for _ in 0..NESTING_MAX {
        let keys = keys(table, names, &current);
        let found = find_first(tables, table, keys.iter().map(|(_, key)| key.clone()).collect());
        let Some(found) = found.get().await.map_err(MapError::Lookup)? else {
            return Ok((current != *address).then_some(current));
        };
        let by = keys.get(found.at).map_or(FoundBy::Address, |(by, _)| *by);
        let next = result((&found, by), names, &table.tag_delimiters, &current);
        let is_fit = |next: &Mailbox| smtputf8 || !next.needs_smtputf8();
        let next =
            next.filter(is_fit).ok_or_else(|| MapError::NoAddress(found.entry.text.to_string()))?;
        if next.is_same(&current) {
            return Ok((next != *address).then_some(next));
        }
        current = next;
    }
    Err(MapError::Loop)
}

/// `user+tag@domain`, `user@domain`, in own domains `user+tag` and `user`, and `@domain`. A table of patterns has the
/// whole address only.
fn keys(table: &TableEntry, names: &OwnNames, address: &Mailbox) -> Vec<(FoundBy, LookupKey)> {
    let is_whole = table.settings.has_patterns();
    let mut keys = keys_of(address, KeyRules { is_whole, tags: &table.tag_delimiters });
    if is_whole || !names.has(&address.domain()) {
        return keys;
    }
    let local = address.local_unquoted().to_lowercase();
    let at = keys.iter().position(|(by, _)| *by == FoundBy::Domain).unwrap_or(keys.len());
    let user = table.tag_delimiters.split(&local);
    let user = user.map(|(user, ..)| (FoundBy::WithoutTag, user.to_owned()));
    let own = [(FoundBy::Address, local.clone())].into_iter().chain(user);
    drop(keys.splice(at..at, own.map(|(by, text)| (by, LookupKey::from(text)))));
    keys
}

/// The address of an entry: `@domain` keeps the local part, a name alone gets our host name, and a tag that was left out
/// of the key is added again.
fn result(
    (found, by): (&FoundKey, FoundBy),
    names: &OwnNames,
    tags: &TagDelimiters,
    address: &Mailbox,
) -> Option<Mailbox> {
    let text = found.entry.text.trim();
    if let Some(domain) = text.strip_prefix('@') {
        return Mailbox::parse(&format!("{}@{domain}", address.local()), true).ok();
    }
    let whole = match text.contains('@') {
        true => Mailbox::parse(text, true),
        false => Mailbox::parse(&format!("{text}@{}", names.origin), true),
    };
    let whole = whole.ok().filter(|whole| whole.has_domain())?;
    let tag = tags.split(address.local()).filter(|_| by == FoundBy::WithoutTag);
    match tag.filter(|_| !whole.local().starts_with('"')) {
        None => Some(whole),
        Some((_, delimiter, tag)) => {
            let local = format!("{}{delimiter}{tag}", whole.local());
            Mailbox::parse(&format!("{local}@{}", whole.domain_str()), true).ok()
        }
    }
}

/// Checks an entry when its table is read.
///
/// # Errors
/// A description of the error.
pub(crate) fn check_entry(entry: &EntryText<'_>) -> Result<(), String> {
    let text = entry.text.trim();
    // The text after a group of a pattern is known for each address only.
    if entry.goes_on {
        return Ok(());
    }
    let is_address = match text.strip_prefix('@') {
        Some(domain) => Domain::parse(domain).is_ok(),
        None if text.contains('@') => Mailbox::parse(text, true).is_ok_and(|it| it.has_domain()),
        None => Mailbox::parse(&format!("{text}@x.example"), true).is_ok(),
    };
    if is_address { Ok(()) } else { Err(format!("{text:?} is not an address")) }
}

/// Checks that the entry of a whole address does not lead back to it. `find` is the text of a key.
///
/// # Errors
/// It leads in a circle.
pub(crate) fn check_circle(
    key: &str,
    find: &dyn Fn(&str) -> Option<Box<str>>,
) -> Result<(), String> {
    let mut current = fold(key).into_owned();
    for _ in 0..NESTING_MAX {
        let Some(text) = find(&current) else { return Ok(()) };
        let next = fold(text.trim()).into_owned();
        if next == current || next.starts_with('@') {
            return Ok(());
        }
        current = next;
    }
    Err(format!("leads in a circle, or over more than {NESTING_MAX} entries"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_an_address_a_domain_or_a_name() {
        let check = |text| {
            check_entry(&EntryText { key: Some("a@x.test"), text, goes_on: false, so_far: None })
        };
        for good in ["jo", "jo@x.test", "@x.test", " \"a b\"@x.test ", "jo@\u{e9}.test"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "@", "no address", "a@b@", "@x..test", "<jo@x.test>", "a@x.test, b@x.test"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(
            check_entry(&EntryText { key: None, text: "$1 of", goes_on: true, so_far: None })
                .is_ok()
        );
    }

    #[test]
    fn circles_are_found_and_entries_for_the_address_itself_are_none() {
        let entries = [
            ("a@x.test", "b@x.test"),
            ("b@x.test", "A@X.test"),
            ("c@x.test", "C@x.test"),
            ("d@x.test", "c@x.test"),
            ("e@x.test", "@y.test"),
            ("f@x.test", "f"),
        ];
        let find =
            |key: &str| entries.iter().find(|(of, _)| *of == key).map(|(_, text)| Box::from(*text));
        let circle = |key: &&str| check_circle(key, &find).is_err();
        let found: Vec<&str> = entries.iter().map(|(key, _)| *key).filter(circle).collect();
        assert_eq!(found, ["a@x.test", "b@x.test"]);
        let chain = |key: &str| {
            let n: u32 = key.parse().ok()?;
            (n > 0).then(|| (n - 1).to_string().into())
        };
        assert!(check_circle("9", &chain).is_ok(), "nine lookups and one that finds nothing");
        assert!(check_circle("10", &chain).is_err());
    }
}
