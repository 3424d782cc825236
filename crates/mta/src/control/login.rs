//! Logins: those in use, those that an operator has revoked, and clients that failed too often.

use super::text;
use mail::Wall;
use serde::{Deserialize, Serialize};

/// Lists logins with open sessions, with a limit reached, or revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginList {}

/// Revokes a login: closes its sessions, and refuses new ones until it is allowed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginRevoke {
    pub login: String,
    /// The reason, for later readers.
    #[serde(default)]
    pub reason: String,
}

/// Ends a revocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginAllow {
    pub login: String,
}

/// Lists the clients that may not log in after too many failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginBlocked {}

/// Forgets the failed logins of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginUnblock {
    /// An IP address: of IPv6, its /64.
    pub address: std::net::IpAddr,
}

/// A revoked login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    pub login: String,
    /// The reason, as the operator gave it.
    #[serde(default)]
    pub reason: String,
    #[serde(with = "text::wall")]
    pub since: Wall,
}

/// A login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginItem {
    pub login: String,
    /// Open sessions.
    pub sessions: u64,
    /// Counts of its `[[limit]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<LimitCount>,
    /// Time at which it reached a limit that still applies.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub limited_since: Option<Wall>,
    /// The revocation, if it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revocation>,
}

/// Accepted messages or recipients in a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitCount {
    /// `messages` or `recipients`.
    pub unit: String,
    pub period_s: u32,
    pub count: u32,
}

/// A client that may not log in now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedItem {
    /// An IPv4 address, or the first one of an IPv6 /64.
    pub address: std::net::IpAddr,
    /// Time of its next attempt.
    #[serde(with = "text::wall")]
    pub until: Wall,
}
