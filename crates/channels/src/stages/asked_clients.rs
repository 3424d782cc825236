//! Clients that a rule or a service applies to (`clients`).

use mta::ingress::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Clients that a rule or a service applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum AskedClients {
    /// Clients that may not relay and have not logged in.
    #[default]
    Strangers,
    /// All clients.
    All,
}

impl AskedClients {
    /// Returns true if the client of a session belongs to these clients.
    pub(super) fn has(self, session: &Session) -> bool {
        self.has_client(!session.may_relay())
    }

    /// The same for a client that may not relay (`is_stranger`), or that may.
    pub(super) fn has_client(self, is_stranger: bool) -> bool {
        self == AskedClients::All || is_stranger
    }
}
