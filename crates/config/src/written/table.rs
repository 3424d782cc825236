//! `[[table]]` as it is written.

use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A lookup table with a name, which other sections refer to: `{ table = "users" }`. Exactly one of
/// TABLES says where its answers come from.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct TableText {
    /// The name by which others refer to it. Required.
    pub name: String,
    /// What is done to a key before it is looked up, in this order.
    pub rewrite: Vec<Rewrite>,
    /// How long answers count, and how a server is asked. For tables whose answers come from
    /// elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<TableCacheText>,
    /// The tables of kinds, by their keys.
    #[serde(flatten)]
    #[schemars(skip)]
    pub kinds: toml::Table,
}

/// What is done to a key before it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rewrite {
    /// In lower case.
    Lower,
    /// Without the `+tag` of the local part.
    DropTag,
    /// Of an address the domain alone.
    Domain,
    /// Of an address the local part alone.
    Local,
}

/// How long answers of a table count, and how its server is asked.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TableCacheText {
    /// How long an entry counts.
    pub positive: DurationText,
    /// How long it counts that the table has no entry.
    pub negative: DurationText,
    /// How long beyond that an answer still serves while no server gives a new one.
    pub stale: DurationText,
    /// How many answers are kept; those that were used least go first.
    #[schemars(range(min = 1))]
    pub max_entries: u32,
    /// Requests that are under way at once. Without it 16, and 64 for `ldap`, whose connections carry many.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    /// Questions that wait for an answer; beyond it the answer is "try again later".
    #[schemars(range(min = 1))]
    pub max_waiting: u32,
    /// How long a question waits for its answer, all in all.
    pub timeout: DurationText,
}

impl Default for TableCacheText {
    fn default() -> TableCacheText {
        TableCacheText {
            positive: "5m".into(),
            negative: "1m".into(),
            stale: "1h".into(),
            max_entries: 100_000,
            max_requests: None,
            max_waiting: 10_000,
            timeout: "20s".into(),
        }
    }
}

/// A reference to a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableRefText {
    /// The name of a `[[table]]`.
    pub table: String,
}
