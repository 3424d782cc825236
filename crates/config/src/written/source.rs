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
