//! XCLIENT: proxies and content filters announce the client that they relay for.

use super::greeting;
use super::login::SaslExchange;
use super::session::SmtpSession;
use auth::iprev;
use mail::Refusal;
use mta::seams::World;
use smtp::server::{Need, Xclient, XclientName};
use std::net::SocketAddr;

impl<W: World> SmtpSession<W> {
    /// Offers XCLIENT to clients that the listener trusts.
    pub(super) fn offer_xclient(&mut self) {
        if self.is_believed() {
            self.machine.believe();
        }
    }

    /// Returns true if the client, as known now, may use XCLIENT. Behind a proxy the announced address is checked,
    /// because that client writes the next command.
    pub(super) fn is_believed(&self) -> bool {
        let client = self.connection.session().client().address.ip();
        self.settings.listener.protocol.may_speak_for_others(client)
    }

    /// The session now serves another client: all decisions about the previous one are made again.
    pub(super) async fn answer_xclient(&mut self, said: Xclient) -> Need {
        // Counted for the previous client.
        self.account_refusals();
        let known = self.connection.session().client().address;
        let address = match said.address {
            Some(address) => SocketAddr::new(address, said.port.unwrap_or(0)),
            None => SocketAddr::new(known.ip(), said.port.unwrap_or(known.port())),
        };
        self.transaction = None;
        self.connection.announce(address, said.name.as_ref().map(found_of));
        self.dialogue = SaslExchange::default();
        if let Err(refusal) = self.admit().await {
            return self.end_announced(refusal);
        }
        if let (Some(user), Some(submission)) = (&said.login, self.settings.submission.clone()) {
            let terms = self.terms(&submission);
            let noted = self.connection.note_login(&submission.logins, user, terms).await;
            if let Err(refusal) = noted {
                return self.end_announced(refusal.closing());
            }
        }
        let server = self.server();
        // A proxy that announces its own address has a client there, and that client sends the next command.
        let is_itself =
            said.address.is_some_and(|to| to.to_canonical() == known.ip().to_canonical());
        let is_believed = self.is_believed() && !is_itself;
        self.machine.answer_xclient(self.connection.now(), server, &said, is_believed);
        self.resume()
    }
}

impl<W: World> SmtpSession<W> {
    /// Refuses the announced client.
    fn end_announced(&mut self, refusal: Refusal) -> Need {
        let reply = greeting(&self.host(), refusal);
        self.connection.turn_away(reply.clone());
        // Replies to earlier commands may not be written yet.
        let mut output = std::mem::take(self.machine.output());
        self.turn_away(reply);
        output.append(self.machine.output());
        *self.machine.output() = output;
        self.resume()
    }
}

/// The announced name as the result of a lookup on this server.
fn found_of(name: &XclientName) -> iprev::IprevCheck {
    match name {
        XclientName::Is(name) => iprev::IprevCheck::of_name(name),
        XclientName::Unavailable => iprev::IprevCheck::without_name(iprev::IprevResult::PermError),
        XclientName::NotNow => iprev::IprevCheck::without_name(iprev::IprevResult::TempError),
    }
}
