//! Who is at the other end.

use crate::event::Client;
use crate::metrics::Metrics;
use crate::seams::Encryption;
use auth::iprev;
use config::Listener;
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// What is known of a client while it is connected.
#[derive(Clone, Debug)]
pub struct Session {
    client: Arc<Client>,
    listener: Arc<Listener>,
    may_relay: bool,
    /// How it has logged in.
    mechanism: Option<&'static str>,
    attached: Attached,
    presence: Rc<Presence>,
    metrics: Arc<Metrics>,
}

/// Calls those who wait for the end of a session when it goes.
#[derive(Debug, Default)]
struct Presence(RefCell<Vec<oneshot::Sender<()>>>);

/// What a stage keeps for a session.
#[derive(Clone, Default)]
struct Attached(OnceCell<Rc<dyn Any>>);

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}

impl Session {
    /// A client that has said nothing yet, behind a proxy perhaps; `nothing` is the empty text.
    pub(super) fn new(
        address: SocketAddr,
        proxy: Option<IpAddr>,
        listener: &Arc<Listener>,
        may_relay: bool,
        nothing: Arc<str>,
        metrics: &Arc<Metrics>,
    ) -> Rc<Session> {
        let name = Arc::clone(&listener.name);
        let client = Client {
            address,
            proxy,
            name: OnceLock::new(),
            helo: nothing,
            listener: name,
            protocol: "",
            tls: None,
            certified: None,
            login: None,
        };
        Rc::new(Session {
            client: Arc::new(client),
            listener: Arc::clone(listener),
            may_relay,
            mechanism: None,
            attached: Attached::default(),
            presence: Rc::default(),
            metrics: Arc::clone(metrics),
        })
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

    /// What was found of the name of the client's address; what was found first counts.
    pub fn note_name(&self, found: iprev::IprevCheck) {
        let _ = self.client.name.set(found);
    }

    /// How the client has logged in: `PLAIN`, `SCRAM-SHA-256`, …
    #[must_use]
    pub fn mechanism(&self) -> Option<&'static str> {
        self.mechanism
    }

    /// What a stage keeps for the session, to its end; `make` makes it, the first time. `None`: another
    /// stage keeps something.
    pub fn attached<T: Any>(&self, make: impl FnOnce() -> Rc<T>) -> Option<Rc<T>> {
        let attached = self.attached.0.get_or_init(|| make());
        Rc::clone(attached).downcast().ok()
    }

    /// Ready once the session has ended.
    pub fn when_gone(&self) -> impl Future<Output = ()> + 'static {
        let (call, called) = oneshot::channel::<()>();
        self.presence.0.borrow_mut().push(call);
        async move {
            let _ = called.await;
        }
    }

    /// Numbers of the shard.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// It was this mechanism by which the client has logged in.
    pub(super) fn note_mechanism(self: &mut Rc<Session>, mechanism: &'static str) {
        Rc::make_mut(self).mechanism = Some(mechanism);
    }

    /// Its listener is configured like this now, and lets the client send to any domain, or not.
    pub(super) fn follow(self: &mut Rc<Session>, listener: &Arc<Listener>, may_relay: bool) {
        let session = Rc::make_mut(self);
        session.listener = Arc::clone(listener);
        session.may_relay = may_relay;
    }

    /// What was asked about the client counts no more: it is asked anew.
    pub(super) fn forget_attached(self: &mut Rc<Session>) {
        Rc::make_mut(self).attached = Attached::default();
    }

    /// The client has shown no certificate that counts; returns true if it had.
    pub(super) fn forget_certificate(self: &mut Rc<Session>) -> bool {
        if self.client.certified.is_none() {
            return false;
        }
        Arc::make_mut(&mut Rc::make_mut(self).client).certified = None;
        true
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
