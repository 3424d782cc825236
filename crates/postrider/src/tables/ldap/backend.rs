//! Answers from a directory.

use super::directory::{LdapDirectory, SearchQuery};
use super::groups::Groups;
use super::settings::LdapSettings;
use crate::tables::text;
use ldap::Key;
use lookup::{Answers, Backend, Entry, Fetch, LookupError, LookupErrorKind};
use std::rc::Rc;
use std::sync::Arc;

/// A directory, for a thread with a `LocalSet`.
pub(super) struct LdapBackend {
    directory: Rc<LdapDirectory>,
}

impl LdapSettings {
    /// The driver, for the table thread.
    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        Box::new(LdapBackend::new(Arc::new(self.clone())))
    }
}

impl LdapBackend {
    pub(super) fn new(settings: Arc<LdapSettings>) -> LdapBackend {
        LdapBackend { directory: Rc::new(LdapDirectory::new(settings)) }
    }

    /// Open connections.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.directory.pool.connections()
    }

    async fn answer(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let directory = &self.directory;
        let key = Key::new(key);
        let LdapSettings { base, scope, filter, attributes, members, .. } = &*directory.settings;
        if !directory.settings.asks_for(&key) {
            return Ok(None);
        }
        let name = base.name(&key);
        let question = SearchQuery { base: &name, scope: *scope, filter, key };
        let Some(found) = directory.search(question).await? else {
            if base.has_parts() {
                return Ok(None);
            }
            let text = format!("the directory has no base entry \"{name}\"");
            return Err(LookupError::new(LookupErrorKind::Wrong, text));
        };
        let leaves = if members.is_empty() {
            found
        } else {
            Groups::new(Rc::clone(directory)).leaves(found).await?
        };
        entry(attributes, &leaves)
    }
}

impl Backend for LdapBackend {
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(async move {
            let mut answers = Answers::with_capacity(keys.len());
            for key in keys {
                answers.push(self.answer(key).await);
            }
            answers
        })
    }

    fn server(&self) -> Option<String> {
        self.directory.pool.server()
    }
}

/// The values of these attributes, of all entries; `None` without any value.
fn entry(attributes: &[Box<str>], found: &[ldap::Entry]) -> Result<Option<Entry>, LookupError> {
    let mut fields = Vec::with_capacity(attributes.len());
    for name in attributes {
        let mut values: Vec<Box<str>> = Vec::new();
        for entry in found {
            for value in entry.values(name) {
                let value = text::value(value).map_err(|LookupError { kind, text }| {
                    LookupError::new(kind, format!("{}: {name}: {text}", entry.dn))
                })?;
                values.push(value);
            }
        }
        fields.push((name.clone(), values.into_boxed_slice()));
    }
    let is_empty = fields.iter().all(|(_, values)| values.is_empty());
    Ok((!is_empty).then(|| Entry::fields(fields)))
}
