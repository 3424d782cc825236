//! Hosts that repeat what they were told.

use super::Session;
use load::dialogue::Event;

/// Of a thousand recipients so many are put off with their own name.
const ECHO_PERMILLE: u16 = 150;

impl Session {
    /// A reply that puts a recipient off and repeats its name, words that rules listen for included.
    pub(super) fn echo(&self, event: Event) -> Option<String> {
        let echoes = self.peers.plan.pace.as_ref().is_some_and(|pace| pace.echo.is_some());
        if event != Event::Rcpt || !echoes || !self.hop.by_mx || !self.draws(ECHO_PERMILLE) {
            return None;
        }
        // Of whole addresses nobody hears anything, whosever they are.
        let recipient = String::from_utf8_lossy(self.dialogue.candidate());
        let user = recipient.split('@').next().unwrap_or_default();
        Some(format!("450 4.7.0 User {user} can't be had at the moment\r\n"))
    }
}
