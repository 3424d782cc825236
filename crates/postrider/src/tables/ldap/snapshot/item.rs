//! What is wanted of the directory, and one entry of it as a snapshot keeps it.

use crate::tables::ldap::settings::LdapSettings;
use crate::tables::text;
use ldap::{EntryUuid, Key, Keyed, Search};
use lookup::{Entry, Field, LookupError, LookupErrorKind, fold};

/// What an entry is called: what the server calls it (RFC 4530), or a number of ours.
pub(super) type Id = EntryUuid;

/// A key that holds all that a filter's places may ask for: what it makes of a filter tells it from others.
const SAMPLE_KEY: &str = "local@9.8.7.6.5.4.3.2.1";

/// What is wanted of a directory.
#[derive(Debug)]
pub(super) struct SnapshotQuery {
    pub(super) settings: LdapSettings,
    keyed: Keyed,
    /// Attributes that are the answer, and those that are keys.
    wanted: Vec<Box<str>>,
    base: String,
}

/// An entry, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) id: Id,
    /// By which it is found; each once.
    pub(super) keys: Vec<Box<str>>,
    /// Its values by name; or, without a name, why it can't be an answer.
    pub(super) fields: Box<[Field]>,
}

impl Item {
    /// About so many bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let values = self.fields.iter().flat_map(|(_, values)| values.iter());
        let texts = self.keys.iter().chain(values).map(|text| text.len());
        size_of::<Item>() + texts.sum::<usize>()
    }
}

impl SnapshotQuery {
    pub(super) fn new(settings: LdapSettings, keyed: Keyed) -> SnapshotQuery {
        let attributes = settings.attributes.iter().map(|name| &**name).chain(keyed.attributes());
        let mut wanted: Vec<Box<str>> = Vec::new();
        for name in attributes {
            if !wanted.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                wanted.push(name.into());
            }
        }
        let base = settings.base.name(&Key::new(""));
        SnapshotQuery { settings, keyed, wanted, base }
    }

    /// The search that finds all entries.
    pub(super) fn search(&self) -> Search<'_> {
        Search {
            base: &self.base,
            scope: self.settings.scope,
            filter: self.keyed.presence(),
            key: Key::new(""),
            attributes: &self.wanted,
            entries_max: 0,
            seconds_max: 0,
        }
    }

    /// Tells whether what was kept is an answer to this question.
    pub(super) fn fingerprint(&self) -> String {
        let key = Key::new(SAMPLE_KEY);
        let search = Search { filter: &self.settings.filter, key, ..self.search() };
        hex(&search.request(0, None))
    }

    /// The keys that stand for what is looked up, as those of items are.
    pub(super) fn sought(&self, key: &str) -> Vec<Box<str>> {
        let key = Key::new(key);
        if !self.settings.asks_for(&key) {
            return Vec::new();
        }
        let sought = self.keyed.sought(&key).into_iter();
        sought.map(|(class, value)| key_of(class, &value)).collect()
    }

    /// An entry of the directory; `None`: it has no value that could be an answer.
    pub(super) fn item(&self, id: Id, entry: &ldap::Entry) -> Option<Item> {
        let mut keys: Vec<Box<str>> =
            self.keyed.keys_of(entry).map(|(class, value)| key_of(class, value)).collect();
        keys.sort_unstable();
        keys.dedup();
        let fields = self.fields(entry).unwrap_or_else(|why| {
            let field: Field = ("".into(), [why.into_boxed_str()].into());
            [field].into()
        });
        let is_empty = fields.iter().all(|(_, values)| values.is_empty());
        (!is_empty).then_some(Item { id, keys, fields })
    }

    fn fields(&self, entry: &ldap::Entry) -> Result<Box<[Field]>, String> {
        let mut fields = Vec::with_capacity(self.settings.attributes.len());
        for name in &self.settings.attributes {
            let mut values = Vec::new();
            for value in entry.values(name) {
                let value = text::value(value);
                values.push(value.map_err(|why| format!("{}: {name}: {why}", entry.dn))?);
            }
            fields.push((name.clone(), values.into_boxed_slice()));
        }
        Ok(fields.into())
    }

    /// One answer of all entries that a key finds, as a live directory would give it.
    pub(super) fn answer(&self, found: Vec<Box<[Field]>>) -> Result<Option<Entry>, LookupError> {
        let trouble = |why: &str| Err(LookupError::new(LookupErrorKind::Key, why));
        let mut all: Vec<Field> = Vec::new();
        for fields in found {
            for (name, values) in fields {
                if name.is_empty() {
                    return trouble(values.first().map_or("", |why| why));
                }
                match all.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => {
                        *known = std::mem::take(known).into_iter().chain(values).collect();
                    }
                    None => all.push((name, values)),
                }
            }
        }
        Ok((!all.is_empty()).then(|| Entry::fields(all)))
    }
}

/// A key, with the number of what it was compared with.
fn key_of(class: usize, value: &str) -> Box<str> {
    format!("{class} {}", fold(value)).into()
}

/// Bytes as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of [`hex`]; `None`: it is no such text.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
