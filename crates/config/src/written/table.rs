//! `[[table]]` as it is written.

use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named lookup table for other sections: `{ table = "users" }`. Exactly one of TABLES sets its kind.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct TableText {
    /// Name for references. Required.
    pub name: String,
    /// Changes to a key before the lookup, in this order.
    pub rewrite: Vec<Rewrite>,
    /// Cache and limits of lookups. Only for tables with a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<TableCacheText>,
    /// The tables of kinds, by their keys.
    #[serde(flatten)]
    #[schemars(skip)]
    pub kinds: toml::Table,
}

/// Change to a key before the lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rewrite {
    /// Convert to lower case.
    Lower,
    /// Remove the `+tag` of the local part.
    DropTag,
    /// Use only the domain of an address.
    Domain,
    /// Use only the local part of an address.
    Local,
}

/// Cache and limits of lookups in a table with a server.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TableCacheText {
    /// Time for which an entry is cached.
    pub positive: DurationText,
    /// Time for which a missing entry is cached.
    pub negative: DurationText,
    /// Additional time for which a cached answer is used if the server gives no new one.
    pub stale: DurationText,
    /// Maximum number of cached answers. The least recently used ones are dropped.
    #[schemars(range(min = 1))]
    pub max_entries: u32,
    /// Maximum number of concurrent requests. Default: 16; 64 for `ldap`, with several requests per connection.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    /// Maximum number of waiting lookups. Further ones fail with a temporary error.
    #[schemars(range(min = 1))]
    pub max_waiting: u32,
    /// Timeout for a lookup as a whole.
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
    /// Name of a `[[table]]`.
    pub table: String,
}
