//! `[[route]]` as it is written.

use super::{ReportsOverrideText, TableRefText};
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
    /// a server that knows the recipients, or give the route `recipients`. `{ table = "NAME" }`: the
    /// domains that a table has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<DomainsText>,
    /// What this route takes of O/R addresses (X.400), such as `"/O=Beta/PRMD=TestB/ADMD= /C=GB/"`: those with all
    /// these attributes, of C, ADMD, PRMD, O and OU1 to OU4. Wherever they stand in the file, the route with most
    /// attributes wins; a route without this key takes no O/R address. It leads to `x400` or `discard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("items" = { "type": "string", "title": "O/R address" }))]
    pub or_addresses: Option<Vec<String>>,
    /// The recipients that there are, by a table: others are refused with 550 5.1.1. It is asked for
    /// the whole address, then for the address without its `+tag`, then for `@domain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<TableRefText>,
    /// Other addresses that stand for a recipient, by a table: one or more with commas between them,
    /// which are looked up in turn. It is asked like `recipients`; an address that stands for itself
    /// is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<TableRefText>,
    /// Directories of lists: `:include:/path/of/file` in `aliases` stands for the addresses in a file
    /// below one of them, however deep. Without this key there are no such lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "directory" }))]
    pub include: Vec<String>,
    /// Whether what is sent on by this route for another recipient gets a sender of ours (`[srs]`). Without
    /// it: where no route names the domain, or an `mx` route does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srs: Option<bool>,
    /// The pool of sources that its mail is sent from. Without it: from whatever address the machine takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
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

/// The domains of a route.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DomainsText {
    /// These.
    List(#[schemars(extend("items" = { "type": "string", "title": "domain" }))] Vec<String>),
    /// Those that a table has.
    Table(TableRefText),
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
