//! A client that speaks for another one.

use super::Entrance;
use super::limits::ClientCount;
use super::session::Session;
use crate::seams::World;
use auth::iprev;
use std::net::SocketAddr;
use std::sync::Arc;

impl<W: World> Entrance<W> {
    /// Whoever speaks from now on is this client, as one says who is believed: nothing holds that was
    /// decided about the one before, and no transaction goes on. Whether it may proceed is asked of
    /// [`Entrance::admit`] next. Its name need not be looked up if it is said.
    pub fn announce(&mut self, address: SocketAddr, name: Option<iprev::Outcome>) {
        self.abandon();
        let before = Arc::clone(self.session.client());
        let listener = Arc::clone(self.session.listener());
        // The one that is dropped here gives its place back.
        self.count = ClientCount::new(&self.ingress, self.count.socket, &listener, address.ip());
        let proxy = Some(before.proxy.unwrap_or(before.address.ip()));
        let nothing = self.ingress.router.nothing();
        let (may_relay, metrics) = (self.count.may_relay, &self.ingress.services.metrics);
        self.session = Session::new(address, proxy, &listener, may_relay, nothing, metrics);
        if let Some(name) = name {
            self.session.note_name(name);
        }
        if let Some(encryption) = before.tls {
            self.session.note_encrypted(encryption);
        }
    }

    /// The client is this user, as one says who is believed.
    pub fn note_login(&mut self, user: &str) {
        self.session.note_login(user);
        self.count.may_relay = true;
    }
}
