//! How much a client may do: sessions at once, and what is counted by the minute.

use super::{Ingress, refusals};
use crate::clients::{Full, Rate, Room};
use crate::seams::World;
use config::Listener;
use mail::Refusal;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Counts a session of one client address at one listener while it lives.
pub(super) struct ClientCount<W: World> {
    ingress: Rc<Ingress<W>>,
    /// The index of the socket.
    pub(super) socket: usize,
    listener: Arc<Listener>,
    ip: IpAddr,
    /// Nobody looked at it before: a burst of connections that will be turned away must not count
    /// while they wait for that, nor while they are told so.
    is_inside: bool,
    /// It counts for the listener only.
    is_settled: bool,
    /// By `relay_from` of the listener, or by a login.
    pub(super) may_relay: bool,
    /// By `exempt_from_limits` of the listener.
    is_exempt: bool,
}

impl<W: World> ClientCount<W> {
    pub(super) fn new(
        ingress: &Rc<Ingress<W>>,
        socket: usize,
        listener: &Arc<Listener>,
        ip: IpAddr,
    ) -> ClientCount<W> {
        let may_relay = listener.relay_network(ip).is_some();
        let is_exempt = listener.is_exempt(ip);
        ClientCount {
            ingress: Rc::clone(ingress),
            socket,
            listener: Arc::clone(listener),
            ip,
            is_inside: false,
            is_settled: false,
            may_relay,
            is_exempt,
        }
    }

    /// The client has shown who it is: its sessions are no longer counted among those of its address, of which a
    /// stranger may have few.
    pub(super) fn settle(&mut self) {
        if self.is_inside && !std::mem::replace(&mut self.is_settled, true) {
            self.ingress.services.shared.clients.settle(self.socket, self.ip);
        }
    }

    pub(super) fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Its listener is configured like this now.
    pub(super) fn follow(&mut self, listener: &Arc<Listener>) {
        self.is_exempt = listener.is_exempt(self.ip);
        self.listener = Arc::clone(listener);
    }

    /// The session is not let in. From now on it takes no place that another could have: strangers
    /// who hammer would hold what is kept from them until their connections are closed.
    pub(super) fn turn_away(&mut self) {
        if std::mem::take(&mut self.is_inside) {
            let services = &self.ingress.services;
            let clients = &services.shared.clients;
            match self.is_settled {
                true => clients.leave_settled(self.socket),
                false => clients.leave(self.socket, self.ip, services.now()),
            }
        }
    }
}

impl<W: World> Drop for ClientCount<W> {
    fn drop(&mut self) {
        self.turn_away();
    }
}

/// One in so many sessions is kept for clients that may relay.
const RESERVED_PART: u32 = 10;
/// Clients that may relay may have so many times `max_sessions_per_address`.
const RELAY_SESSIONS_FACTOR: u32 = 20;

impl<W: World> ClientCount<W> {
    /// Counts the session, and says whether it may proceed.
    ///
    /// # Errors
    /// Why it is turned away.
    pub(super) fn admit(&mut self) -> Result<(), Refusal> {
        let services = &self.ingress.services;
        if services.stopping.until().is_some() {
            return Err(refusals::SHUTTING_DOWN);
        }
        let clients = &services.shared.clients;
        clients.enter(self.socket, self.ip, self.room(), services.now()).map_err(
            |full| match full {
                Full::Server => refusals::SESSIONS,
                Full::Client => refusals::SESSIONS_OF_CLIENT,
            },
        )?;
        self.is_inside = true;
        if !self.charge(Rate::Connections) {
            return Err(refusals::CONNECTIONS);
        }
        if self.is_exhausted(Rate::Refusals) {
            return Err(refusals::REFUSED_BEFORE);
        }
        Ok(())
    }

    /// For how many sessions there is room.
    fn room(&self) -> Room {
        let (listener, may_relay) = (&self.listener, self.may_relay);
        // What strangers can't take is there for those whom the server is for.
        let part =
            |max: u32, reserved: bool| if reserved { max - max / RESERVED_PART } else { max };
        let has_relay = self.ingress.router.active().config.has_relay();
        // Where peers bind, those whose addresses are known are of the house.
        let has_peers = !listener.protocol.takes_internet_mail();
        let is_stranger = !(may_relay || has_peers && self.is_exempt);
        let is_kept = !listener.relay_from.is_empty() || has_peers;
        let each = listener.max_sessions_per_address;
        Room {
            all: part(
                self.ingress.services.shared.sessions_max,
                is_stranger && (has_relay || has_peers),
            ),
            listener: part(listener.max_sessions, is_stranger && is_kept),
            client: match (self.is_exempt, may_relay) {
                (true, _) => 0,
                (false, true) => each.saturating_mul(RELAY_SESSIONS_FACTOR),
                (false, false) => each,
            },
        }
    }

    /// What is allowed per minute of this; 0, which is no limit, for clients that may relay and for
    /// those that the configuration exempts.
    fn per_minute(&self, rate: Rate) -> u32 {
        let listener = &self.listener;
        let max = match rate {
            Rate::Connections => listener.connections_per_minute,
            Rate::Messages => listener.messages_per_minute,
            Rate::Recipients => listener.recipients_per_minute,
            Rate::Refusals => listener.refusals_per_minute,
        };
        if self.may_relay || self.is_exempt { 0 } else { max }
    }

    /// Counts one; `false`: one too many.
    pub(super) fn charge(&self, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rate);
        max == 0 || clients.charge(self.socket, self.ip, rate, max, self.ingress.services.now())
    }

    pub(super) fn is_exhausted(&self, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rate);
        max > 0
            && clients.is_exhausted(self.socket, self.ip, rate, max, self.ingress.services.now())
    }
}
