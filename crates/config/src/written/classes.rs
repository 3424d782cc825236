//! `[classes]` as it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What peers' refusals mean: each gets a class, which events, metrics and `postrider queue` name. See
/// `docs/classes.md`; `postrider classify` shows what becomes of a reply.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClassesText {
    /// Files with rules that go before those that are built in, in order. Read at the start and at each
    /// reload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "path" }))]
    pub files: Vec<String>,
}
