//! What an operator can ask of lookup tables.

use serde::{Deserialize, Serialize};

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
