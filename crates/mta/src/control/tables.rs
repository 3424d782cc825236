//! Operator commands for lookup tables.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Lists the lookup tables and their state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableList {}

/// Looks up a key in a table, and reports the steps of the lookup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableGet {
    pub table: String,
    pub key: String,
}

/// Clears the cache of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFlush {
    pub table: String,
    /// Clears this key only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A lookup table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableItem {
    pub name: String,
    /// Its kind: the key in `[[table]]`.
    pub kind: String,
    /// The file, the tables that it combines, or the server.
    pub source: String,
    /// Number of keys, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// The error in a sentence; absent if the table works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// For a table that queries a server: health, cache, requests, latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<serde_json::Value>,
    /// For a table that is a copy of a server's entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<TableSnapshot>,
}

/// State of a table that copies a server's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSnapshot {
    /// Update mode: `paged` (read again completely), `synchronised` (the server notifies of changes).
    pub mode: String,
    /// The server; absent until the first query.
    pub server: Option<String>,
    /// Number of entries.
    pub entries: u64,
    /// Seconds since the copy was last known to equal the server's entries; absent without a copy.
    pub age_s: Option<u64>,
    /// Time at which entries last changed, and the change.
    pub changed: Option<String>,
}

impl fmt::Display for TableSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableSnapshot { mode, entries, age_s, changed, .. } = self;
        match age_s {
            Some(age_s) => write!(f, "{mode}, {age_s} s old, {entries} entries")?,
            None => write!(f, "{mode}, not read yet")?,
        }
        changed.as_ref().map_or(Ok(()), |changed| write!(f, ", changed {changed}"))
    }
}

/// The result of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableAnswer {
    pub table: String,
    /// The key as given.
    pub key: String,
    /// The value as one text; absent if the table does not have the key, or on an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Values by name, if the table has named values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, Vec<String>)>,
    /// The error, if there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The lookups that led to it, in order.
    pub steps: Vec<TableStep>,
}

/// One lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStep {
    pub table: String,
    /// The key after rewriting.
    pub key: String,
    /// Source of the answer: a file, a server, or the cache with the entry's age.
    pub from: String,
    /// The answer.
    pub said: String,
}
