//! What an operator can ask of lookup tables.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Lookup tables, and how they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableList {}

/// What a table says of a key, and how it comes to say so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableGet {
    /// Its name.
    pub table: String,
    pub key: String,
}

/// Forgets what is cached of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFlush {
    /// Its name.
    pub table: String,
    /// Of this key only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A lookup table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableItem {
    /// Its name.
    pub name: String,
    /// Its kind: the key in `[[table]]`.
    pub kind: String,
    /// The file that it was made of, the tables that it is made of, or the server that answers.
    pub source: String,
    /// How many keys it has, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// What is wrong with it, in a sentence; absent when it is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Of a table whose answers come from a server: health, cache, requests, latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<serde_json::Value>,
    /// Of a table that is a copy of what a server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<TableSnapshot>,
}

/// How a copy of what a server has is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSnapshot {
    /// How it is kept: `paged` (all is read again and again), `synchronised` (the server tells of
    /// changes).
    pub mode: String,
    /// The server that it is a copy of; absent until it was asked.
    pub server: Option<String>,
    /// Entries in it.
    pub entries: u64,
    /// Seconds since the server was last seen to be as the copy is; absent without a copy.
    pub age_s: Option<u64>,
    /// When entries were last seen to have changed, and what had.
    pub changed: Option<String>,
}

impl fmt::Display for TableSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableSnapshot { mode, entries, age_s, changed, .. } = self;
        match age_s {
            Some(age_s) => write!(f, "{mode}, {age_s} s old, {entries} entries")?,
            None => write!(f, "{mode}, never read yet")?,
        }
        changed.as_ref().map_or(Ok(()), |changed| write!(f, ", changed {changed}"))
    }
}

/// What a table says of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableAnswer {
    /// The table that was asked.
    pub table: String,
    /// The key, as it was asked.
    pub key: String,
    /// The answer in one text; absent when the table does not have the key, or there is trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Values by name, where the table has such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, Vec<String>)>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The lookups that led to it, in their order.
    pub steps: Vec<TableStep>,
}

/// One lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStep {
    /// The table.
    pub table: String,
    /// The key, rewritten as the table wants it.
    pub key: String,
    /// Where the answer was had: a file, a server, or the cache and how old it was there.
    pub from: String,
    /// What it was.
    pub said: String,
}
