//! Lookups in the tables of the configuration: rewriting keys, composing tables, and the keys of an address.

use crate::answer::Answer;
use crate::seams::{EntryLookup, Tables};
use config::{Composition, ENTRY_TEXT, Rewrite, TableEntry, TagDelimiters};
use lookup::{Entry, LookupError, LookupErrorKind};
use mail::{Class, EnhancedStatus, Failure, Mailbox, is_dot_string};
use std::borrow::Cow;
use std::iter;
use std::net::IpAddr;
use std::slice;
use std::sync::Arc;

/// Looks up a key in a table. Errors name the table.
pub fn find<T: Tables + Clone>(tables: &T, table: &Arc<TableEntry>, key: &str) -> EntryLookup {
    find_as(tables, table, key, KeyForm::AsWritten)
}

/// The form of an address in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// As written in a path, or not from an address.
    AsWritten,
    /// Without required quotes.
    Bare,
}

/// A key to look up, with its form: the form can't be derived from a text with two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupKey {
    pub text: String,
    pub form: KeyForm,
}

impl From<String> for LookupKey {
    fn from(text: String) -> LookupKey {
        LookupKey { text, form: KeyForm::AsWritten }
    }
}

impl LookupKey {
    /// An address with this local part, which is already unquoted.
    fn unquoted(local: &str, domain: &str) -> LookupKey {
        let form = if is_dot_string(local) { KeyForm::AsWritten } else { KeyForm::Bare };
        LookupKey { text: format!("{local}@{domain}"), form }
    }

    /// Another text with the same form.
    #[must_use]
    pub fn with(&self, text: impl Into<String>) -> LookupKey {
        LookupKey { text: text.into(), form: self.form }
    }

    /// Both texts, joined by the delimiter.
    #[must_use]
    pub fn pair(&self, delimiter: char, other: &LookupKey) -> LookupKey {
        let form = if self.form == KeyForm::Bare { self.form } else { other.form };
        LookupKey { text: format!("{}{delimiter}{}", self.text, other.text), form }
    }
}

fn find_as<T: Tables + Clone>(
    tables: &T,
    table: &Arc<TableEntry>,
    key: &str,
    form: KeyForm,
) -> EntryLookup {
    // A pattern would take a blank, a comma or an @ from within the quotes as a separator.
    if form == KeyForm::Bare && table.settings.has_patterns() {
        return Answer::Now(Ok(None));
    }
    let key = rewritten(table, key);
    match table.settings.composition() {
        None => match tables.find(table, &key) {
            Answer::Now(Ok(found)) => Answer::Now(Ok(found)),
            other => {
                let table = Arc::clone(table);
                let named = move |trouble: LookupError| {
                    LookupError::new(trouble.kind, format!("table {}: {trouble}", table.name))
                };
                other.then(|found| Answer::Now(found.map_err(named)))
            }
        },
        Some(Composition::First) => first(tables.clone(), Arc::clone(table), (key.into(), form), 0),
        Some(Composition::Union) => {
            union(tables.clone(), Arc::clone(table), (key.into(), form), Vec::new())
        }
    }
}

fn first<T: Tables + Clone>(
    tables: T,
    table: Arc<TableEntry>,
    key: (Box<str>, KeyForm),
    next: usize,
) -> EntryLookup {
    let Some(part) = table.parts.get(next) else { return Answer::Now(Ok(None)) };
    find_as(&tables, part, &key.0, key.1).then(move |found| match found {
        Ok(None) => first(tables, table, key, next + 1),
        other => Answer::Now(other),
    })
}

fn union<T: Tables + Clone>(
    tables: T,
    table: Arc<TableEntry>,
    key: (Box<str>, KeyForm),
    mut entries: Vec<Option<Arc<Entry>>>,
) -> EntryLookup {
    let Some(part) = table.parts.get(entries.len()) else {
        let all: Vec<&Entry> = entries.iter().flatten().map(|entry| &**entry).collect();
        let union = (!all.is_empty()).then(|| Arc::new(Entry::join(all)));
        return Answer::Now(Ok(union));
    };
    find_as(&tables, part, &key.0, key.1).then(move |found| match found {
        Ok(entry) => {
            entries.push(entry);
            union(tables, table, key, entries)
        }
        Err(trouble) => Answer::Now(Err(trouble)),
    })
}

/// The key by which an address was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The whole address.
    Address,
    /// The address without its tag.
    WithoutTag,
    /// `@` and the domain.
    Domain,
}

/// The entry of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAddress {
    pub entry: Arc<Entry>,
    pub by: FoundBy,
    /// The key in the table.
    pub key: String,
}

/// Looks up an address: the whole, else without its tag, else its domain.
pub fn find_address<T: Tables + Clone>(
    tables: &T,
    table: &Arc<TableEntry>,
    address: &Mailbox,
) -> Answer<'static, Result<Option<FoundAddress>, LookupError>> {
    let (by, keys): (Vec<_>, Vec<_>) = keys_of(address, KeyRules::of(table)).into_iter().unzip();
    find_first(tables, table, keys).then(move |found| {
        Answer::Now(found.map(|found| {
            let found = found?;
            Some(FoundAddress { by: *by.get(found.at)?, entry: found.entry, key: found.key })
        }))
    })
}

/// Returns true if a table has an entry for the address itself, or for it without its tag, and not only for its domain.
pub fn has_own_entry<T: Tables + Clone>(
    tables: &T,
    table: &Arc<TableEntry>,
    address: &Mailbox,
) -> Answer<'static, Result<bool, LookupError>> {
    find_address(tables, table, address).then(|found| {
        Answer::Now(found.map(|found| found.is_some_and(|found| found.by != FoundBy::Domain)))
    })
}

/// The reason for a missing entry of a recipient at delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoEntry {
    /// The table no longer has the recipient.
    Gone(Failure),
    /// The lookup failed.
    Unanswered {
        failure: Failure,
        /// The table works; only the value of this key is unusable.
        is_of_key: bool,
    },
}

/// The current entry of an accepted recipient, in the table of its route's recipients.
///
/// # Errors
/// The recipient is no longer in the table, or the table gives no answer.
pub async fn entry_of<T: Tables + Clone>(
    tables: &T,
    table: &Arc<TableEntry>,
    recipient: &Mailbox,
) -> Result<FoundAddress, NoEntry> {
    match find_address(tables, table, recipient).get().await {
        Ok(Some(found)) => Ok(found),
        // RFC 3463 §3.2: X.1.1 is an address that does not exist.
        Ok(None) => Err(NoEntry::Gone(Failure::local(
            Class::Permanent,
            EnhancedStatus::new(5, 1, 1),
            format!("{recipient} is no longer in table {}", table.name),
        ))),
        // RFC 3463 §3.5: X.4.3 is a directory that fails.
        Err(trouble) => Err(NoEntry::Unanswered {
            is_of_key: trouble.kind == LookupErrorKind::Key,
            failure: Failure::local(
                Class::Transient,
                EnhancedStatus::new(4, 4, 3),
                format!("no answer from {trouble}"),
            ),
        }),
    }
}

/// Prefix of the name of a list's owner.
const OWNER: &str = "owner-";

/// The owner of an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundOwner {
    pub address: Mailbox,
    /// The entry to which the owner's address expands.
    pub entry: Arc<Entry>,
}

/// The owner of an alias, if the same table has the address of the owner: `owner-` and the alias. A whole domain has no
/// owner, and a table with patterns is not searched, because it may match any name.
pub fn find_owner<T: Tables + Clone>(
    tables: &T,
    table: &Arc<TableEntry>,
    alias: &Mailbox,
    by: FoundBy,
) -> Answer<'static, Result<Option<FoundOwner>, LookupError>> {
    let owner =
        owner_of(alias, by, &table.tag_delimiters).filter(|_| !table.settings.has_patterns());
    let Some(address) = owner else { return Answer::Now(Ok(None)) };
    let whole = KeyRules { is_whole: true, tags: &table.tag_delimiters };
    let key = keys_of(&address, whole).pop().map(|(_, key)| key.text).unwrap_or_default();
    find(tables, table, &key).then(move |found| {
        Answer::Now(found.map(|found| found.map(|entry| FoundOwner { address, entry })))
    })
}

fn owner_of(alias: &Mailbox, by: FoundBy, tags: &TagDelimiters) -> Option<Mailbox> {
    let local = alias.local();
    let local = match by {
        FoundBy::Address => local,
        FoundBy::WithoutTag => tags.split(local)?.0,
        FoundBy::Domain => return None,
    };
    let text = format!("{OWNER}{}@{}", local.to_lowercase(), alias.domain_str());
    Mailbox::parse(&text, true).ok().filter(|_| !local.starts_with('"'))
}

/// The entry of one of several keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    pub entry: Arc<Entry>,
    /// The key that was found.
    pub key: String,
    /// Its index among the keys.
    pub at: usize,
}

/// Looks up the first of these keys that the table has.
pub fn find_first<T: Tables + Clone>(
    tables: &T,
    table: &Arc<TableEntry>,
    keys: Vec<LookupKey>,
) -> Answer<'static, Result<Option<FoundKey>, LookupError>> {
    find_from(tables.clone(), Arc::clone(table), keys, 0)
}

fn find_from<T: Tables + Clone>(
    tables: T,
    table: Arc<TableEntry>,
    mut keys: Vec<LookupKey>,
    at: usize,
) -> Answer<'static, Result<Option<FoundKey>, LookupError>> {
    let Some(key) = keys.get(at) else { return Answer::Now(Ok(None)) };
    find_as(&tables, &table, &key.text, key.form).then(move |found| match found {
        Ok(Some(entry)) => {
            Answer::Now(Ok(Some(FoundKey { entry, key: keys.swap_remove(at).text, at })))
        }
        Ok(None) => find_from(tables, table, keys, at + 1),
        Err(trouble) => Answer::Now(Err(trouble)),
    })
}

/// The values of an entry by name; `value` is its whole text, if it has no field of this name.
#[must_use]
pub fn values_of<'e>(entry: &'e Entry, name: &str) -> &'e [Box<str>] {
    match entry.values(name) {
        [] if name.eq_ignore_ascii_case(ENTRY_TEXT) => slice::from_ref(&entry.text),
        values => values,
    }
}

/// The forms in which a table has addresses.
#[derive(Clone, Copy, Debug)]
pub struct KeyRules<'t> {
    /// No keys for parts of an address, as for tables with patterns.
    pub is_whole: bool,
    pub tags: &'t TagDelimiters,
}

impl KeyRules<'_> {
    #[must_use]
    pub fn of(table: &TableEntry) -> KeyRules<'_> {
        KeyRules { is_whole: table.settings.has_patterns(), tags: &table.tag_delimiters }
    }
}

/// The keys of an address, in the order of lookups: in lower case, the domain in A-labels.
#[must_use]
pub fn keys_of(address: &Mailbox, rules: KeyRules<'_>) -> Vec<(FoundBy, LookupKey)> {
    let KeyRules { is_whole: whole, tags } = rules;
    if let Some(address) = address.or_address() {
        let by = iter::once(FoundBy::Address).chain(iter::repeat(FoundBy::Domain));
        return by.zip(address.lookup_keys(whole).into_iter().map(LookupKey::from)).collect();
    }
    let domain = address.domain();
    let domain = domain.to_ascii().unwrap_or_else(|_| domain.as_str().to_owned());
    let local = address.local_unquoted().to_lowercase();
    let mut keys = Vec::with_capacity(3);
    // Postfix's files have quoted local parts as written; directories have them unquoted.
    if address.local().starts_with('"') {
        let written = address.local().to_lowercase();
        keys.push((FoundBy::Address, format!("{written}@{domain}").into()));
    }
    // Without a local part it would be the key of the whole domain.
    if !local.is_empty() {
        keys.push((FoundBy::Address, LookupKey::unquoted(&local, &domain)));
    }
    if whole {
        return keys;
    }
    if let Some((user, ..)) = tags.split(&local) {
        keys.push((FoundBy::WithoutTag, LookupKey::unquoted(user, &domain)));
    }
    keys.push((FoundBy::Domain, format!("@{domain}").into()));
    keys
}

/// The keys of a client's address, in the order of lookups: the address, then its networks.
#[must_use]
pub fn keys_of_client(client: IpAddr, rules: KeyRules<'_>) -> Vec<LookupKey> {
    let ip = client.to_canonical();
    let keys = if rules.is_whole { vec![ip.to_string()] } else { networks(ip) };
    keys.into_iter().map(LookupKey::from).collect()
}

/// An address and its enclosing networks in the form of access(5): `192.0.2`, `2001:db8:0`.
fn networks(ip: IpAddr) -> Vec<String> {
    let delimiter = if ip.is_ipv4() { '.' } else { ':' };
    let mut keys = vec![ip.to_string()];
    while let Some((network, _)) = keys.last().and_then(|last| last.rsplit_once(delimiter)) {
        keys.push(network.to_owned());
    }
    keys.retain(|key| !key.is_empty());
    keys
}

/// A key after the rewriting of its table.
#[must_use]
pub fn rewritten<'a>(table: &TableEntry, key: &'a str) -> Cow<'a, str> {
    rewritten_by(&table.rewrite, &table.tag_delimiters, key)
}

fn rewritten_by<'a>(steps: &[Rewrite], tags: &TagDelimiters, key: &'a str) -> Cow<'a, str> {
    let mut key = Cow::Borrowed(key);
    for step in steps {
        let (local, domain) = match key.rsplit_once('@') {
            Some((local, domain)) => (local, Some(domain)),
            None => (&*key, None),
        };
        key = Cow::Owned(match (step, domain) {
            (Rewrite::Lower, _) => key.to_lowercase(),
            (Rewrite::DropTag, domain) => {
                let user = tags.split(local).map_or(local, |(user, ..)| user);
                domain.map_or_else(|| user.to_owned(), |domain| format!("{user}@{domain}"))
            }
            (Rewrite::Domain, Some(domain)) => domain.to_owned(),
            (Rewrite::Local, Some(_)) => local.to_owned(),
            (Rewrite::Domain | Rewrite::Local, None) => continue,
        });
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_the_name_of_the_list() {
        let owner = |address: &str, by| {
            let owner =
                owner_of(&Mailbox::parse(address, true).unwrap(), by, &TagDelimiters::default());
            owner.map(|owner| owner.to_string())
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(owner("Staff@x.test", FoundBy::Address), named("owner-staff@x.test"));
        assert_eq!(owner("a+b@x.test", FoundBy::Address), named("owner-a+b@x.test"));
        assert_eq!(owner("a+b@x.test", FoundBy::WithoutTag), named("owner-a@x.test"));
        assert_eq!(owner("a@x.test", FoundBy::Domain), None);
        assert_eq!(owner("\"a b\"@x.test", FoundBy::Address), None);
    }

    #[test]
    fn clients_are_looked_up_by_ever_larger_networks() {
        let of = |ip: &str, is_whole| {
            let rules = KeyRules { is_whole, tags: &TagDelimiters::default() };
            let keys = keys_of_client(ip.parse().unwrap(), rules).into_iter();
            keys.map(|key| key.text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("192.0.2.17", false), "192.0.2.17 192.0.2 192.0 192");
        assert_eq!(of("::ffff:192.0.2.17", false), "192.0.2.17 192.0.2 192.0 192");
        assert_eq!(of("2001:db8::1", false), "2001:db8::1 2001:db8: 2001:db8 2001");
        assert_eq!(of("::1", false), "::1 :");
        assert_eq!(of("192.0.2.17", true), "192.0.2.17");
    }

    #[test]
    fn keys_go_from_the_whole_address_to_its_domain() {
        let keys = |address: &str, whole| {
            let keys = keys_of(
                &Mailbox::parse(address, true).unwrap(),
                KeyRules { is_whole: whole, tags: &TagDelimiters::default() },
            );
            keys.into_iter().map(|(_, key)| key.text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            keys("Jo+News@Example.ORG", false),
            "jo+news@example.org jo@example.org @example.org"
        );
        assert_eq!(keys("jo+news@example.org", true), "jo+news@example.org");
        assert_eq!(keys("+x@example.org", false), "+x@example.org @example.org");
        assert_eq!(
            keys("\"a b\"@b\u{fc}cher.example", false),
            "\"a b\"@xn--bcher-kva.example a b@xn--bcher-kva.example @xn--bcher-kva.example"
        );
        assert_eq!(keys("\"\"@example.org", false), "\"\"@example.org @example.org");
    }

    #[test]
    fn a_key_without_the_quotes_that_it_would_need_says_so() {
        let bare = |address: &str| {
            let keys = keys_of(
                &Mailbox::parse(address, true).unwrap(),
                KeyRules { is_whole: false, tags: &TagDelimiters::default() },
            )
            .into_iter();
            let bare = keys.filter(|(_, key)| key.form == KeyForm::Bare);
            bare.map(|(_, key)| key.text).collect::<Vec<_>>().join(" ")
        };
        for (address, expected) in [
            ("jo+x@example.org", ""),
            ("\"jo\"@example.org", ""),
            ("\"a,b\"@example.org", "a,b@example.org"),
            ("\"a b+c\"@example.org", "a b+c@example.org a b@example.org"),
            ("\"a+b c\"@example.org", "a+b c@example.org"),
            ("\"1.2.3.4,a\"@example.org", "1.2.3.4,a@example.org"),
            ("\"a@x.test\"@example.org", "a@x.test@example.org"),
        ] {
            assert_eq!(bare(address), expected, "{address}");
        }
        let plain = LookupKey::from("a".to_owned());
        let unquoted = LookupKey::unquoted("b c", "d");
        assert_eq!(plain.pair(',', &plain).form, KeyForm::AsWritten);
        assert_eq!(plain.pair(',', &unquoted).form, KeyForm::Bare);
        assert_eq!(unquoted.pair(',', &plain), unquoted.with("b c@d,a"));
    }

    #[test]
    fn an_entry_has_values_by_name_or_its_text() {
        let texts = |values: &[Box<str>]| values.join("|");
        let text = Entry::text("a b");
        assert_eq!(texts(values_of(&text, "value")), "a b");
        assert_eq!(texts(values_of(&text, "other")), "");
        let field = |name: &str, values: &[&str]| {
            (Box::from(name), values.iter().map(|value| Box::from(*value)).collect())
        };
        let one = Entry::fields([field("mailHost", &["x", "y"])]);
        assert_eq!(texts(values_of(&one, "mailhost")), "x|y");
        assert_eq!(texts(values_of(&one, "value")), "x,y");
        let named = Entry::fields([field("a", &["x"]), field("Value", &["y"])]);
        assert_eq!(texts(values_of(&named, "value")), "y");
    }

    #[test]
    fn rewriting_goes_step_by_step() {
        let all = [Rewrite::Lower, Rewrite::DropTag];
        let tags = TagDelimiters::default();
        let by =
            |steps: &[Rewrite], key: &'static str| rewritten_by(steps, &tags, key).into_owned();
        assert_eq!(by(&all, "Jo+x@Example.ORG"), "jo@example.org");
        assert_eq!(by(&[Rewrite::DropTag], "jo+x"), "jo");
        assert_eq!(by(&[Rewrite::Domain], "a@b@c.test"), "c.test");
        assert_eq!(by(&[Rewrite::Local], "a@b.test"), "a");
        assert_eq!(by(&[Rewrite::Domain], "c.test"), "c.test");
        assert_eq!(by(&[], "C"), "C");
    }
}
