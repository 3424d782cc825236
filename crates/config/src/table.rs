//! Named tables, and what a kind of table is told.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// What one table is told. Its owner knows the type.
pub trait TableSettings: Any + Debug + Send + Sync {
    /// Names of the tables that it is made of.
    fn parts(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Names of the values that its answers have, where they have names: what templates may use.
    fn fields(&self) -> Vec<&str> {
        Vec::new()
    }

    /// How it is made of those; `None`: it is not.
    fn composition(&self) -> Option<Composition> {
        None
    }

    /// The name of the route whose next hop it asks; `None`: it asks none.
    fn asked_route(&self) -> Option<&str> {
        None
    }

    /// It is asked for whole addresses only, not for their parts: its keys are patterns, or whoever has
    /// the answers knows by himself what parts stand for.
    fn has_patterns(&self) -> bool {
        false
    }

    /// Whoever has the answers may make them of the key: what a text of it is parted by is then not known.
    fn builds_answers(&self) -> bool {
        false
    }

    /// Whether the server that it asks can be asked for passwords of users whom it finds.
    fn password_checks(&self) -> PasswordChecks {
        PasswordChecks::None
    }

    /// Whether the other settings say the same: what was learnt by them then stays true.
    fn is_like(&self, other: &dyn TableSettings) -> bool;
}

impl dyn TableSettings {
    /// The settings as their kind knows them; `None`: they are another kind's.
    #[must_use]
    pub fn of<T: TableSettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// How a server is asked whether a password is a user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordChecks {
    /// It can't be.
    None,
    /// In a way that others can read.
    InClear,
    /// Encrypted, or within this machine.
    Sealed,
}

/// How a table is made of others.
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
    /// Answers come from elsewhere.
    pub is_remote: bool,
    /// What the kind is told.
    pub settings: Arc<dyn TableSettings>,
    /// The tables that it is made of, in the order of its settings.
    pub parts: Vec<Arc<TableEntry>>,
    /// What is done to a key before it is looked up, in this order.
    pub rewrite: Vec<Rewrite>,
    /// How long answers count.
    pub cache: TableCache,
    /// Line of the file, from 1.
    pub line: u32,
}

/// The name by which templates have the whole text of an entry without named values.
pub const ENTRY_TEXT: &str = "value";

impl TableEntry {
    /// Names of the values that each of its entries may have: what templates may use. Of a table that
    /// is made of others, those that all of them have.
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

    /// Returns true if an answer may be made of the key, in a way that does not show, by the table or one of
    /// those that it is made of.
    #[must_use]
    pub fn builds_answers(&self) -> bool {
        self.settings.builds_answers() || self.parts.iter().any(|part| part.builds_answers())
    }

    /// Whether whoever asks the other for a key asks the same.
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

/// How long the answers of a remote table count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCache {
    /// An entry.
    pub positive: Duration,
    /// That the table has no entry.
    pub negative: Duration,
    /// So long beyond that an answer serves while no server gives a new one.
    pub stale: Duration,
    /// Answers that are kept.
    pub entries_max: u32,
    /// Requests under way at once.
    pub requests_max: u32,
    /// Questions that wait for an answer; beyond it there is none.
    pub waiting_max: u32,
    /// How long a question waits for its answer.
    pub timeout: Duration,
}
