//! The client of a session, as stages see it.

use crate::event::Client;
use crate::metrics::Metrics;
use crate::outages::Outages;
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

/// Facts about a connected client.
#[derive(Clone, Debug)]
pub struct Session {
    client: Arc<Client>,
    listener: Arc<Listener>,
    may_relay: bool,
    /// The SASL mechanism of the login.
    mechanism: Option<&'static str>,
    attached: Attached,
    presence: Rc<Presence>,
    metrics: Arc<Metrics>,
    outages: Arc<Outages>,
}

/// Notifies waiters when the session is dropped.
#[derive(Debug, Default)]
struct Presence(RefCell<Vec<oneshot::Sender<()>>>);

/// A stage's state for the session.
#[derive(Clone, Default)]
struct Attached(OnceCell<Rc<dyn Any>>);

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}

impl Session {
    /// A new client, possibly behind a proxy. `nothing` is a shared empty string.
    pub(super) fn new(
        address: SocketAddr,
        proxy: Option<IpAddr>,
        listener: &Arc<Listener>,
        may_relay: bool,
        nothing: Arc<str>,
        (metrics, outages): (&Arc<Metrics>, &Arc<Outages>),
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
            mechanism: None,
            uid: None,
        };
        Rc::new(Session {
            client: Arc::new(client),
            listener: Arc::clone(listener),
            may_relay,
            mechanism: None,
            attached: Attached::default(),
            presence: Rc::default(),
            metrics: Arc::clone(metrics),
            outages: Arc::clone(outages),
        })
    }

    /// The client for events: address, name, listener, protocol.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The settings of its listener.
    #[must_use]
    pub fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Returns true if the client may send to any domain.
    #[must_use]
    pub fn may_relay(&self) -> bool {
        self.may_relay
    }

    /// Notes the reverse DNS result for the client's address. Only the first call counts.
    pub fn note_name(&self, found: iprev::IprevCheck) {
        let _ = self.client.name.set(found);
    }

    /// The SASL mechanism of the login: `PLAIN`, `SCRAM-SHA-256`, …
    #[must_use]
    pub fn mechanism(&self) -> Option<&'static str> {
        self.mechanism
    }

    /// A stage's state for the session, created by `make` on first use. `None` if another stage has set state.
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

    /// The shard's metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The book of failing services.
    #[must_use]
    pub fn outages(&self) -> &Outages {
        &self.outages
    }

    /// Notes the SASL mechanism of the login.
    pub(super) fn note_mechanism(self: &mut Rc<Session>, mechanism: &'static str) {
        let session = Rc::make_mut(self);
        session.mechanism = Some(mechanism);
        Arc::make_mut(&mut session.client).mechanism = Some(mechanism);
    }

    /// Adopts the listener's new configuration and the relay right.
    pub(super) fn follow(self: &mut Rc<Session>, listener: &Arc<Listener>, may_relay: bool) {
        let session = Rc::make_mut(self);
        session.listener = Arc::clone(listener);
        session.may_relay = may_relay;
    }

    /// Drops the stage's state, so that the client is checked again.
    pub(super) fn forget_attached(self: &mut Rc<Session>) {
        Rc::make_mut(self).attached = Attached::default();
    }

    /// Forgets the client's certificate. Returns true if it had one that identified a user.
    pub(super) fn forget_certificate(self: &mut Rc<Session>) -> bool {
        if self.client.certified.is_none() {
            return false;
        }
        Arc::make_mut(&mut Rc::make_mut(self).client).certified = None;
        true
    }

    /// Notes that the connection is encrypted.
    pub(super) fn note_encrypted(self: &mut Rc<Session>, encryption: Encryption) {
        Arc::make_mut(&mut Rc::make_mut(self).client).tls = Some(encryption);
    }

    /// Notes the user identified by the client certificate. `may_relay` grants the relay right.
    pub(super) fn note_certificate(self: &mut Rc<Session>, user: &str, may_relay: bool) {
        let session = Rc::make_mut(self);
        session.may_relay |= may_relay;
        Arc::make_mut(&mut session.client).certified = Some(user.into());
    }

    /// Notes the login, which grants the relay right.
    pub(super) fn note_login(self: &mut Rc<Session>, user: &str) {
        let session = Rc::make_mut(self);
        session.may_relay = true;
        Arc::make_mut(&mut session.client).login = Some(user.into());
    }

    /// Notes the user id of a program of this machine.
    pub(super) fn note_uid(self: &mut Rc<Session>, uid: u32) {
        Arc::make_mut(&mut Rc::make_mut(self).client).uid = Some(uid);
    }

    /// Notes the EHLO name and the `with` protocol (RFC 3848).
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
