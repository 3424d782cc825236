//! `[[source]]` and `[[pool]]` as they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From where mail is sent: an address of this machine, and what we call ourselves there.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SourceText {
    /// Its name, for pools, logs, metrics and events. Required.
    pub name: String,
    /// Its IPv4 address, one of this machine. Without it nothing is sent from here to IPv4 addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "IPv4 address"))]
    pub address: Option<String>,
    /// Its IPv6 address, one of this machine. Without it nothing is sent from here to IPv6 addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "IPv6 address"))]
    pub address6: Option<String>,
    /// Another machine that connects in this one's place: `"socks5://192.0.2.1:1080"` (RFC 1928, without a login), or
    /// `"haproxy://192.0.2.1:2525"`, which is told the addresses of both ends by the PROXY protocol, version 2.
    /// `address` and `address6` are that machine's then; by SOCKS5 they may be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "socks5://address:port"))]
    pub proxy: Option<String>,
    /// The name in EHLO: what the DNS calls the address, and leads back to it. Without it: `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ehlo: Option<String>,
    /// How many recipients each provider gets from it at first, for an address that nobody knows yet. Without it:
    /// as many as limits allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmupText>,
}

/// How an address that nobody knows yet begins to send. Recipients are counted by provider, where a shaping file
/// knows the hosts, else by the set of hosts, and by day in UTC. They are spread over the day; mail beyond goes from
/// other sources of the pool, or waits. See `docs/sources.md`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WarmupText {
    /// Nothing is sent from it before this day: `"2026-12-01"`. Required.
    #[schemars(extend("title" = "date"))]
    pub start: String,
    /// Recipients on the first day on which something is sent to a provider, the second, and so on; after the last
    /// there is no limit. Between 1 and 366 days. Required.
    pub per_day: Vec<u32>,
    /// A day is repeated if more than this share of the recipients that were tried on it were deferred or refused as
    /// blocked or rate limited (`docs/classes.md`).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub hold_above: f64,
}

impl Default for WarmupText {
    fn default() -> WarmupText {
        WarmupText { start: String::new(), per_day: Vec::new(), hold_above: 0.05 }
    }
}

/// Sources that mail is spread over.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolText {
    /// Its name, for routes. Required.
    pub name: String,
    /// Its sources, at least one. A message that is tried again goes from the same source, as long as that may
    /// send.
    pub sources: Vec<PoolSourceText>,
}

/// A source of a pool.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSourceText {
    /// Its name.
    pub name: String,
    /// Its part of the mail beside the others' weights.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
}

impl Default for PoolSourceText {
    fn default() -> PoolSourceText {
        PoolSourceText { name: String::new(), weight: 1 }
    }
}
