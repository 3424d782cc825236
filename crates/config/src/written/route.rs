//! `[[route]]` as it is written.

use super::{ReportsOverrideText, TableRefText};
use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A table of aliases.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AliasesText {
    /// Name of a `[[table]]`.
    pub table: String,
    /// Domain of members without one (`jo`). Default: the domain of the alias if it is local, else `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "domain"))]
    pub origin: Option<String>,
}

/// Destination of mail for some domains. Exactly one of CHANNELS.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct RouteText {
    /// Name for logs, metrics and events. Default: `route-` and its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Recipient domains: `example.org` for that domain, `*.example.org` for its subdomains, or `{ table = "NAME" }`
    /// for the domains in a table. Default: all domains that no earlier route has; a route without this key and without
    /// `when` must be the last. An empty list is for a route that is only a `fallback`.
    ///
    /// Mail for these domains is accepted from all clients, for every local part. If the next hop then rejects a
    /// recipient, this server has to bounce the mail to a sender that is often forged (backscatter). To avoid this, set
    /// `recipients`, or name only domains with a next hop that accepts all recipients, or that are behind a server that
    /// knows the recipients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<DomainsText>,
    /// Conditions beside `domains`, all of which must hold: by sender, login, client, listener, tenant or recipient. The
    /// first route in the file that matches is used, also for queued mail after a reload. A route with `when` and
    /// without `domains` takes mail only from clients that may send to any domain, and reports of this server. Members
    /// of aliases in mail from other clients use the routes without `when`, or with `domains`. See `docs/routing.md`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<WhenText>,
    /// O/R addresses (X.400) of this route, for example `"/O=Beta/PRMD=TestB/ADMD= /C=GB/"`: those with all these
    /// attributes, out of C, ADMD, PRMD, O and OU1 to OU4. The route with the most matching attributes is used,
    /// regardless of the order. A route without this key accepts no O/R addresses. The route must lead to `x400` or
    /// `discard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("items" = { "type": "string", "title": "O/R address" }))]
    pub or_addresses: Option<Vec<String>>,
    /// Table of valid recipients. All other recipients are rejected with 550 5.1.1. Lookups are for the whole address,
    /// then without its `+tag`, then for `@domain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<TableRefText>,
    /// Table of aliases: one or more addresses, separated by commas, that replace the recipient and are looked up in
    /// turn. Lookups are as for `recipients`. An address in its own entry is kept. `origin` is the domain of members
    /// without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<AliasesText>,
    /// Directories for lists: `:include:/path/of/file` in `aliases` is replaced by the addresses in a file below one of
    /// these directories, at any depth. Default: `:include:` is not available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "directory" }))]
    pub include: Vec<String>,
    /// Rewrite the sender of mail forwarded by this route (`[srs]`). Default: true if no route names the domain, or an
    /// `mx` route does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srs: Option<bool>,
    /// Name of the route for mail while no host of this one can be reached (Postfix's `smtp_fallback_relay`): if no
    /// connection can be opened, or the DNS gives no answer. Rejected recipients do not use it. A fallback may have a
    /// fallback. Hosts are tried again after the times of `retry`. Default: mail waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Classes of refusals, for example `["reputation"]`. On this route 5yz replies of these classes are temporary: the mail
    /// is retried until it expires. Only for `smtp`, `lmtp` and `mx`: other peers send no SMTP replies. Default: none. See
    /// `docs/classes.md`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "class" }))]
    pub defer_classes: Vec<String>,
    /// Pool of sources to send from. Default: the address that the operating system chooses.
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
    /// A list of domains.
    List(#[schemars(extend("items" = { "type": "string", "title": "domain" }))] Vec<String>),
    /// The domains in a table.
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

/// Conditions of a section. All that are set must hold; a list holds if one of its entries matches. Instead of a list,
/// `{ table = "NAME" }` holds if the table has an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WhenText {
    /// Envelope senders: addresses (in any case, also with a tag), `@example.org` for a domain, `@*.example.org` for its
    /// subdomains, and `<>` for the null sender of bounces and other reports. Table lookups are for the whole address, then
    /// without its tag (`recipient_delimiter`), then for `@domain`; for the null sender, `<>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senders: Option<WhenList>,
    /// Recipients, in the form of `senders`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<WhenList>,
    /// Users that sent the message after a login. Case is ignored. Table lookups are for the user's one name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logins: Option<WhenList>,
    /// Networks of clients: `192.0.2.0/24`, `2001:db8::1`. Table lookups are for the address, then for its networks
    /// (`192.0.2`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<WhenList>,
    /// Names of listeners that accepted the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listeners: Option<WhenList>,
    /// Tenants of the message. While a recipient is accepted, the tenant is that of the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<WhenList>,
}

/// The values with which a condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WhenList {
    /// A list of values.
    List(#[schemars(extend("items" = { "type": "string", "title": "value" }))] Vec<String>),
    /// The keys of a table.
    Table(TableRefText),
}
