//! Who is at the other end.

use crate::event::Client;
use crate::seams::Encryption;
use config::Listener;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// What is known of a client while it is connected.
#[derive(Clone, Debug)]
pub struct Session {
    client: Arc<Client>,
    listener: Arc<Listener>,
    may_relay: bool,
}

impl Session {
    /// A client that has said nothing yet; `nothing` is the empty text.
    pub(super) fn new(
        peer: SocketAddr,
        listener: &Arc<Listener>,
        may_relay: bool,
        nothing: Arc<str>,
    ) -> Rc<Session> {
        let name = Arc::clone(&listener.name);
        let client = Client {
            address: peer,
            helo: nothing,
            listener: name,
            protocol: "",
            tls: None,
            certified: None,
            login: None,
        };
        Rc::new(Session { client: Arc::new(client), listener: Arc::clone(listener), may_relay })
    }

    /// As events name it: address, name, listener, protocol.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The settings of the listener that it came to.
    #[must_use]
    pub fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Whether it may send to any domain.
    #[must_use]
    pub fn may_relay(&self) -> bool {
        self.may_relay
    }

    /// The connection is encrypted from now on.
    pub(super) fn note_encrypted(self: &mut Rc<Session>, encryption: Encryption) {
        Arc::make_mut(&mut Rc::make_mut(self).client).tls = Some(encryption);
    }

    /// By its certificate the client is this user, who may send to any domain, or not.
    pub(super) fn note_certificate(self: &mut Rc<Session>, user: &str, may_relay: bool) {
        let session = Rc::make_mut(self);
        session.may_relay |= may_relay;
        Arc::make_mut(&mut session.client).certified = Some(user.into());
    }

    /// The client has proved to be this user, and may send to any domain.
    pub(super) fn note_login(self: &mut Rc<Session>, user: &str) {
        let session = Rc::make_mut(self);
        session.may_relay = true;
        Arc::make_mut(&mut session.client).login = Some(user.into());
    }

    /// The client called itself `helo`, and speaks `protocol` (RFC 3848).
    pub(super) fn introduce(self: &mut Rc<Session>, helo: &str, protocol: &'static str) {
        if &*self.client.helo == helo && self.client.protocol == protocol {
            return;
        }
        let helo = if &*self.client.helo == helo {
            Arc::clone(&self.client.helo)
        } else {
            Arc::from(helo)
        };
        let client = Arc::make_mut(&mut Rc::make_mut(self).client);
        (client.helo, client.protocol) = (helo, protocol);
    }
}
