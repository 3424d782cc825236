//! `[[source]]` and `[[pool]]` as they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An egress source: local addresses to send from, and the EHLO name for them.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SourceText {
    /// Its name, for pools, logs, metrics and events. Required.
    pub name: String,
    /// IPv4 address of this machine. Default: nothing is sent from this source over IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "IPv4 address"))]
    pub address: Option<String>,
    /// IPv6 address of this machine. Default: nothing is sent from this source over IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "IPv6 address"))]
    pub address6: Option<String>,
    /// Proxy that opens the connections: `"socks5://192.0.2.1:1080"` (RFC 1928, without a login), or
    /// `"haproxy://192.0.2.1:2525"`, which receives both addresses by the PROXY protocol, version 2. `address` and
    /// `address6` are then addresses of the proxy; with SOCKS5 they may be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "socks5://address:port"))]
    pub proxy: Option<String>,
    /// Name in EHLO. It should be the DNS name of the address, and resolve to it. Default: `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ehlo: Option<String>,
    /// Warm-up of a new address: limits on the recipients that each provider gets from it. Default: no warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmupText>,
}

/// Warm-up of a new address. Recipients are counted by provider if a shaping file has the hosts, otherwise by set of
/// hosts, and by day in UTC. They are spread over the day. Mail beyond the limit goes from other sources of the pool,
/// or waits. See `docs/sources.md`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WarmupText {
    /// First day of sending: `"2026-12-01"`. Required.
    #[schemars(extend("title" = "date"))]
    pub start: String,
    /// Maximum number of recipients on the first day with mail to a provider, the second, and so on, for 1 to 366 days.
    /// After the last there is no limit. Required.
    pub per_day: Vec<u32>,
    /// Repeat a day if more than this share of its attempted recipients was deferred or rejected as blocked or rate
    /// limited (`docs/classes.md`).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub hold_above: f64,
}

impl Default for WarmupText {
    fn default() -> WarmupText {
        WarmupText { start: String::new(), per_day: Vec::new(), hold_above: 0.05 }
    }
}

/// A pool of sources that share mail.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolText {
    /// Its name, for routes. Required.
    pub name: String,
    /// Its sources, at least one. A retried message uses the same source, as long as that may send.
    pub sources: Vec<PoolSourceText>,
}

/// A source of a pool.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSourceText {
    /// Name of the source.
    pub name: String,
    /// Share of the mail, relative to the weights of the other sources.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
}

impl Default for PoolSourceText {
    fn default() -> PoolSourceText {
        PoolSourceText { name: String::new(), weight: 1 }
    }
}
