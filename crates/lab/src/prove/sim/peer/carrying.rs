//! For whom a connection carries mail, and since when.

use super::Session;
use load::dialogue::Event;

impl Session {
    /// The judges of connections and memory learn of a transaction.
    pub(super) fn note_carried(&self, event: Event, connection: u64) {
        let network = &self.peers.network;
        match event {
            Event::Mail => {
                let at_us = network.written_by_client_at(connection, self.taken_bytes);
                network.note_mail(connection, at_us.unwrap_or(0));
                let sender = String::from_utf8_lossy(self.dialogue.candidate());
                self.peers.account.note_mail(&sender);
            }
            Event::Rcpt => {
                let recipient = String::from_utf8_lossy(self.dialogue.candidate());
                let domain = recipient.rsplit('@').next().unwrap_or_default();
                network.note_domain(connection, domain);
            }
            Event::Message => network.note_content(connection),
            _ => {}
        }
    }
}
