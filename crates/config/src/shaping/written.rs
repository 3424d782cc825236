//! A shaping file as it is written.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ShapingText {
    /// What holds wherever neither the route nor anything below says otherwise.
    pub(super) default: PaceText,
    /// Mailbox providers, by names of yours.
    pub(super) provider: BTreeMap<String, ProviderText>,
    /// Single domains.
    pub(super) domain: BTreeMap<String, PaceText>,
}

/// The pace towards a set of hosts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct PaceText {
    /// Connections at once to a set of hosts by one route, over all shards.
    #[schemars(range(min = 1))]
    pub(super) max_connections: Option<u32>,
    /// Connections being opened at once.
    #[schemars(range(min = 1))]
    pub(super) max_opens: Option<u32>,
    /// Messages sent over one connection before it is closed. 0: no limit.
    pub(super) messages_per_connection: Option<u32>,
    /// Recipients in one transaction.
    #[schemars(range(min = 1))]
    pub(super) recipients_per_message: Option<u32>,
    /// Find out how many connections the peer likes.
    pub(super) adaptive: Option<bool>,
    /// Messages to a set of hosts by one route, over all shards; each of them holds.
    pub(super) rate: Option<Vec<String>>,
}

/// A mailbox provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ProviderText {
    /// Names of hosts, `*.` for those below. A domain is the provider's when all its MX hosts are.
    pub(super) mx: Option<Vec<String>>,
    /// Domains that are the provider's whatever their MX hosts are, `*.` for those below.
    pub(super) domains: Option<Vec<String>>,
    /// For all host sets of the provider together, from each source.
    pub(super) together: TogetherText,
    /// What is different from a source, by its name.
    pub(super) source: BTreeMap<String, PaceText>,
    #[serde(flatten)]
    pub(super) pace: PaceText,
}

/// What a provider's host sets share.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct TogetherText {
    /// Connections at once.
    #[schemars(range(min = 1))]
    pub(super) max_connections: Option<u32>,
    /// Messages; each of them holds.
    pub(super) rate: Option<Vec<String>>,
}
