//! `[[route]]` as it is written.

use super::ReportsOverrideText;
use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where mail for some domains goes. Exactly one of CHANNELS.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct RouteText {
    /// A name for logs, metrics and events. Without it: `route-` and its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Recipient domains: `example.org` for that domain, `*.example.org` for everything below it.
    /// Without this key the route takes everything that no route before it took, and must be the
    /// last. Mail for a domain named here is accepted from everybody, for every local part: a next
    /// hop that then refuses recipients makes this server return mail to forged senders
    /// (backscatter). Name only domains whose next hop takes whatever it is sent, or stand behind
    /// a server that knows the recipients.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("items" = { "type": "string", "title": "domain" }))]
    pub domains: Option<Vec<String>>,
    /// Keys of `[retry]` that differ for this route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryOverrideText>,
    /// Keys of `[reports]` that differ for recipients of this route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reports: Option<ReportsOverrideText>,
    /// The tables of channels, by their keys.
    #[serde(flatten)]
    #[schemars(skip)]
    pub channels: toml::Table,
}

/// Keys of `[retry]` that differ for one route.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryOverrideText {
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: Option<f64>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 0.5))]
    pub jitter: Option<f64>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_after: Option<DurationText>,
}
