//! `[[tenant]]` as it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose mail it is, where several send: what each may have.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantText {
    /// Its name, for logs, metrics, events and steering fields; `"*"` is every tenant that is not listed, each
    /// with limits of its own. Required.
    pub name: String,
    /// Users whose mail is always its: they may use no other tenant, and others that log in may not use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "user" }))]
    pub logins: Vec<String>,
    /// The pool that its mail is sent from, instead of the route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its part of a next hop that other tenants send to as well, beside their weights.
    #[schemars(range(min = 1, max = 1_000))]
    pub weight: u32,
    /// How fast it may send, over all next hops: rates such as `"500/s"`, `"50/m"`, `"5_000/h"`, `"20_000/d"`,
    /// each spread evenly; all of them hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "rate" }))]
    pub rate: Vec<String>,
    /// How many of its recipients may be queued; what comes beyond is answered with 452 4.3.1. Without it only
    /// `spool.queue_recipients_max` holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queued_max: Option<u32>,
    /// What becomes of its mail when nobody signs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<Unsigned>,
}

impl Default for TenantText {
    fn default() -> TenantText {
        TenantText {
            name: String::new(),
            logins: Vec::new(),
            pool: None,
            weight: 1,
            rate: Vec::new(),
            queued_max: None,
            unsigned: None,
        }
    }
}

/// What becomes of mail that nobody signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unsigned {
    /// It is sent as it is.
    #[default]
    Send,
    /// 550 5.7.20.
    Refuse,
}
