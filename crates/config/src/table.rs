//! Named tables, and the settings of a kind of table.

use mail::TagDelimiters;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Settings of one table. Its owner knows the type.
pub trait TableSettings: Any + Debug + Send + Sync {
    /// Names of the tables that it is composed from.
    fn parts(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Names of the values in its answers, if named, for use in templates.
    fn fields(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Its composition from other tables; `None`: not composed.
    fn composition(&self) -> Option<Composition> {
        None
    }

    /// The name of the route with the next hop that it queries; `None`: none.
    fn asked_route(&self) -> Option<&str> {
        None
    }

    /// Only whole addresses are looked up, not their parts: its keys are patterns, or the server resolves parts itself.
    fn has_patterns(&self) -> bool {
        false
    }

    /// Answers may be derived from the key in a manner that hides the parts copied from it.
    fn builds_answers(&self) -> bool {
        false
    }

    /// Capability of its server to check passwords of found users.
    fn password_checks(&self) -> PasswordChecks {
        PasswordChecks::None
    }

    /// Returns true if the other settings are equal: cached answers then stay valid.
    fn is_like(&self, other: &dyn TableSettings) -> bool;
}

impl dyn TableSettings {
    /// The settings as their kind knows them; `None`: they are another kind's.
    #[must_use]
    pub fn of<T: TableSettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Capability of a server to check a user's password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordChecks {
    /// It can't be.
    None,
    /// In clear text.
    InClear,
    /// Encrypted, or within this machine.
    Sealed,
}

/// Composition of a table from other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composition {
    /// The answer of the first that has the key.
    First,
    /// The answers of all, with commas between them.
    Union,
}

/// One `[[table]]`.
#[derive(Clone, Debug)]
pub struct TableEntry {
    /// Unique.
    pub name: Arc<str>,
    /// The kind's key.
    pub kind: &'static str,
    /// Answers come from a server.
    pub is_remote: bool,
    /// Settings of the kind.
    pub settings: Arc<dyn TableSettings>,
    /// Its parts, in the order of its settings.
    pub parts: Vec<Arc<TableEntry>>,
    /// Changes to a key before the lookup, in this order.
    pub rewrite: Vec<Rewrite>,
    /// Characters that begin a tag in the local part of a key.
    pub tag_delimiters: TagDelimiters,
    /// Lifetimes of cached answers.
    pub cache: TableCache,
    /// Line of the file, from 1.
    pub line: u32,
}

/// The name by which templates have the whole text of an entry without named values.
pub const ENTRY_TEXT: &str = "value";

impl TableEntry {
    /// Returns true if this is the other table, or is composed from it.
    #[must_use]
    pub fn has(&self, other: &TableEntry) -> bool {
        self.name == other.name || self.parts.iter().any(|part| part.has(other))
    }

    /// Names of the values that each entry may have, for use in templates. For a composed table, those common to all
    /// parts.
    #[must_use]
    pub fn value_names(&self) -> Vec<&str> {
        if self.settings.composition() == Some(Composition::First)
            && let Some((first, others)) = self.parts.split_first()
        {
            let others: Vec<Vec<&str>> = others.iter().map(|part| part.value_names()).collect();
            let in_all = |name: &&str| {
                let is_it = |other: &&str| other.eq_ignore_ascii_case(name);
                others.iter().all(|names| names.iter().any(is_it))
            };
            return first.value_names().into_iter().filter(in_all).collect();
        }
        match self.settings.fields() {
            names if names.is_empty() => vec![ENTRY_TEXT],
            names => names,
        }
    }

    /// Returns true if the table, or a part, may derive an answer from the key in a manner that is not visible.
    #[must_use]
    pub fn builds_answers(&self) -> bool {
        self.settings.builds_answers() || self.parts.iter().any(|part| part.builds_answers())
    }

    /// Returns true if a lookup in the other table is equivalent.
    #[must_use]
    pub fn is_like(&self, other: &TableEntry) -> bool {
        self.name == other.name
            && self.rewrite == other.rewrite
            && self.settings.is_like(&*other.settings)
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(one, other)| one.is_like(other))
    }
}

pub use super::written::Rewrite;

/// Lifetimes of a remote table's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCache {
    /// An entry.
    pub positive: Duration,
    /// That the table has no entry.
    pub negative: Duration,
    /// Additional lifetime of an answer while no server gives a new one.
    pub stale: Duration,
    /// Maximum number of cached answers.
    pub entries_max: u32,
    /// Concurrent requests.
    pub requests_max: u32,
    /// Maximum number of waiting lookups; further ones fail.
    pub waiting_max: u32,
    /// Timeout of a lookup.
    pub timeout: Duration,
}
