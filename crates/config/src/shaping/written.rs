//! A shaping file as it is written.

use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ShapingText {
    /// What holds wherever neither the route nor anything below says otherwise.
    pub(super) default: DefaultText,
    /// Mailbox providers, by names of yours.
    pub(super) provider: BTreeMap<String, ProviderText>,
    /// Single domains.
    pub(super) domain: BTreeMap<String, PaceText>,
}

/// Whoever has no provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct DefaultText {
    /// What rules slow a set of hosts down to.
    pub(super) backoff: TogetherText,
    /// What is done when its hosts say something.
    pub(super) rule: Vec<RuleText>,
    #[serde(flatten)]
    pub(super) pace: PaceText,
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
    /// What rules slow all its host sets down to, together.
    pub(super) backoff: TogetherText,
    /// What is done when its hosts say something.
    pub(super) rule: Vec<RuleText>,
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

/// One or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum TextsText {
    One(String),
    Several(Vec<String>),
}

/// A rule. What a later file leaves out is as it was.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct RuleText {
    /// Its name.
    pub(super) name: String,
    /// The reply's code: `421`, `45x`; one of several.
    pub(super) code: Option<TextsText>,
    /// The reply's enhanced status: `4.7.28`, `x.7.28`, `5.7.606-649`; one of several.
    pub(super) status: Option<TextsText>,
    /// A pattern on the reply with its codes, in one line, but for what we said ourselves.
    #[serde(rename = "match")]
    pub(super) matches: Option<String>,
    /// The reply's class.
    pub(super) class: Option<String>,
    /// The reply's kind.
    pub(super) kind: Option<String>,
    /// How often in how long: `3 in 10m`.
    pub(super) after: Option<String>,
    /// What is done.
    pub(super) action: Option<ActionText>,
    /// For how long, the first time.
    pub(super) lasts: Option<DurationText>,
    /// Until so much was delivered, if that is sooner.
    #[schemars(range(min = 1))]
    pub(super) until_delivered: Option<u32>,
    /// Whom it concerns.
    pub(super) scope: Option<ScopeText>,
}

/// What a rule does.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ActionText {
    /// By its name.
    Word(String),
    /// Other limits.
    Set(SetText),
}

/// Other limits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct SetText {
    /// Keys of a pace.
    pub(super) set: Option<PaceText>,
}

/// Whom a rule concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) enum ScopeText {
    /// The source whose mail was refused.
    #[serde(rename = "provider and source")]
    ProviderAndSource,
    /// All sources.
    #[serde(rename = "provider")]
    Provider,
}
