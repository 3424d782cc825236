//! Users of this machine as clients, and the senders of their messages.

use crate::originate::SenderRules;
use mail::{Domain, Mailbox, Refusal, is_dot_string};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of a user makes no address.
const NO_ADDRESS: Refusal =
    Refusal::permanent((1, 7), "Sender address rejected: user name is not an address")
        .with_code(553);

/// Users of this machine, as a listener knows them.
#[derive(Debug)]
pub(super) struct LocalUsers {
    pub(super) socket: PathBuf,
    /// Directory of messages from the time when the server is down.
    pub(super) drop: Option<PathBuf>,
    pub(super) trusted: Box<[String]>,
    pub(super) hostname: Domain,
    pub(super) senders: Arc<SenderRules>,
}

impl LocalUsers {
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The sender of a user's message. `named` is the one that the client gave.
    ///
    /// # Errors
    /// The user's name makes no address.
    pub(super) fn sender(
        &self,
        user: &str,
        named: Option<Mailbox>,
    ) -> Result<Option<Mailbox>, Refusal> {
        // Reports of mail programs have the null sender (RFC 8098 §3); no user owns it.
        let Some(named) = named else { return Ok(None) };
        if self.trusted.iter().any(|trusted| trusted == user) {
            return Ok(Some(named));
        }
        let own = self.address_of(user).ok_or(NO_ADDRESS)?;
        Ok(Some(if own.is_same(&named) { named } else { own }))
    }

    fn address_of(&self, user: &str) -> Option<Mailbox> {
        let origin = self.senders.origin.as_deref().unwrap_or(self.hostname.as_str());
        let quoted = user.replace('\\', "\\\\").replace('"', "\\\"");
        let text = match is_dot_string(user) {
            true => format!("{user}@{origin}"),
            false => format!("\"{quoted}\"@{origin}"),
        };
        Mailbox::parse(&text, true).ok()
    }
}
