//! P1 listeners: peers bind and transfer messages.

mod access;
mod content;
mod incoming;
mod session;
mod unbound;

use super::settings::{P1Listener, P1Text};
use crate::x400::section::X400;
use config::{Config, Listener, ProtocolSection};
use mail::Mono;
use mta::ingress::{Connection, Handler, Protocol};
use mta::pools::PoolId;
use mta::pressure::Pressures;
use mta::seams::{Net, Task, World};
use session::InboundAssociation;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use unbound::Unbound;
use x400::association::{Responder, ResponderSettings};

/// Receives APDUs over P1 (X.419).
pub(crate) struct P1;

impl<W: World> Protocol<W> for P1 {
    fn name(&self) -> &'static str {
        P1Text::KIND
    }

    fn handler(
        &self,
        _config: &Config,
        listener: &Arc<Listener>,
        pools: &Pressures,
    ) -> Rc<dyn Handler<W>> {
        let told = listener.protocol.of::<P1Listener>();
        let x400 = told.map(|told| Arc::clone(&told.x400));
        let settings = ResponderSettings {
            t_selectors: told.map(|told| told.t_selectors.clone()).unwrap_or_default(),
            ..ResponderSettings::default()
        };
        let (listener, shares) = (Arc::clone(listener), Shares::default());
        pools.register(PoolId::Unbound, shares.unbound.count());
        Rc::new(P1Handler { x400, settings, listener, shares })
    }
}

/// Handler of a P1 listener.
#[derive(Debug)]
struct P1Handler {
    /// Always `Some`: listeners of this kind are created by this protocol's section.
    x400: Option<Arc<X400>>,
    /// Settings for incoming associations.
    settings: ResponderSettings,
    listener: Arc<Listener>,
    shares: Shares,
}

/// Limits of a shard for unbound associations and for unreadable APDUs of each peer.
#[derive(Clone, Debug, Default)]
struct Shares {
    unbound: Rc<Unbound>,
    unreadable: Rc<Unreadable>,
}

impl<W: World> Handler<W> for P1Handler {
    fn into_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }

    fn serve(self: Rc<Self>, connection: Connection<W>, stream: <W::Net as Net>::Stream) -> Task {
        let Some(x400) = self.x400.clone() else { return Box::pin(async {}) };
        let machine = Responder::new(self.settings.clone(), connection.now());
        let of = (Arc::clone(&self.listener), self.shares.clone());
        let mut session =
            Box::new(InboundAssociation::new(x400, of, connection, (stream, machine)));
        Box::pin(async move { session.run().await })
    }
}

/// Maximum number of unreadable APDUs of one peer held within an hour, for each shard. Further ones are refused, and
/// the peer keeps them.
const UNREADABLE_PER_HOUR: u32 = 100;
const HOUR: Duration = Duration::from_secs(3_600);

/// Number of APDUs held for each peer, and the start of the hour.
#[derive(Debug, Default)]
struct Unreadable(RefCell<BTreeMap<Arc<str>, (Mono, u32)>>);

impl Unreadable {
    /// Returns true if one more may be held.
    fn admit(&self, peer: &Arc<str>, now: Mono) -> bool {
        let mut known = self.0.borrow_mut();
        let (since, count) = known.entry(Arc::clone(peer)).or_insert((now, 0));
        if now >= *since + HOUR {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= UNREADABLE_PER_HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_its_own_and_an_hour_later_more() {
        let (unreadable, [one, other]) = (Unreadable::default(), ["a", "b"].map(Arc::from));
        let start = Mono(1);
        for _ in 0..UNREADABLE_PER_HOUR {
            assert!(unreadable.admit(&one, start));
        }
        assert!(!unreadable.admit(&one, start) && unreadable.admit(&other, start));
        assert!(!unreadable.admit(&one, start + HOUR - Duration::from_micros(1)));
        assert!(unreadable.admit(&one, start + HOUR));
    }
}
