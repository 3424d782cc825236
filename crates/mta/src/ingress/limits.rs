//! Client limits: concurrent sessions and rates per minute.

use super::{Ingress, refusals};
use crate::clients::{Full, Rate, Room};
use crate::login_failures::LoginSubject;
use crate::pools::PoolId;
use crate::seams::World;
use crate::seats::{Rank, Seat};
use crate::services::Services;
use config::Listener;
use mail::Refusal;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Counts a session of one client address at one listener while it lives.
pub(super) struct ClientCount<W: World> {
    ingress: Rc<Ingress<W>>,
    /// The index of the socket.
    pub(super) socket: usize,
    listener: RefCell<Arc<Listener>>,
    ip: IpAddr,
    /// False until the session is admitted and after it is refused. A burst of connections that will be refused must
    /// not count while they wait for admission or for their reply.
    is_inside: Cell<bool>,
    /// Counted for the listener, but no longer for the address.
    is_settled: Cell<bool>,
    /// Set while the session is admitted.
    seat: RefCell<Option<Seat>>,
    /// Copy of the session's relay right: by `relay_from`, by a login or by a certificate.
    may_relay: Cell<bool>,
    /// Other sessions may displace this one, unless its client is known.
    gives_way: Cell<bool>,
    /// Set by `exempt_from_limits` of the listener.
    is_exempt: Cell<bool>,
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
            listener: RefCell::new(Arc::clone(listener)),
            ip,
            is_inside: Cell::new(false),
            is_settled: Cell::new(false),
            seat: RefCell::new(None),
            may_relay: Cell::new(may_relay),
            gives_way: Cell::new(false),
            is_exempt: Cell::new(is_exempt),
        }
    }

    /// Excludes the session from `max_sessions_per_address` once the client has authenticated.
    pub(super) fn settle(&self) {
        if self.is_inside.get() && !self.is_settled.replace(true) {
            self.ingress.services.shared.clients.settle(self.socket, self.ip);
        }
    }

    /// Returns true if the configuration exempts the client from limits.
    pub(super) fn is_exempt(&self) -> bool {
        self.is_exempt.get()
    }

    pub(super) fn listener(&self) -> Arc<Listener> {
        Arc::clone(&self.listener.borrow())
    }

    /// Adopts the listener's new configuration after a reload.
    pub(super) fn follow(&self, listener: &Arc<Listener>) {
        self.is_exempt.set(listener.is_exempt(self.ip));
        self.listener.replace(Arc::clone(listener));
    }

    /// Ends the count before the connection is closed. A flood of refused unauthenticated clients would otherwise hold
    /// all permits until their connections close.
    pub(super) fn turn_away(&self) {
        let seat = self.seat.take();
        // A session that was displaced has been uncounted already.
        let is_counted = seat.is_none_or(|seat| seat.leave());
        if self.is_inside.take() && is_counted {
            let services = &self.ingress.services;
            let clients = &services.shared.clients;
            match self.is_settled.get() {
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

/// One in this many sessions is reserved for clients that may relay.
const RESERVED_PART: u32 = 10;
/// Factor by which clients that may relay may exceed `max_sessions_per_address`.
const RELAY_SESSIONS_FACTOR: u32 = 20;

impl<W: World> ClientCount<W> {
    /// Counts the session and checks the limits for new ones.
    ///
    /// # Errors
    /// The limit that is exceeded.
    pub(super) fn admit(&self) -> Result<(), Refusal> {
        let services = &self.ingress.services;
        if services.stopping.until().is_some() {
            return Err(refusals::SHUTTING_DOWN);
        }
        let entered = match self.enter() {
            Err(full @ (Full::Server | Full::Listener)) if self.displace_another(full) => {
                self.enter()
            }
            entered => entered,
        };
        entered.map_err(|full| match full {
            Full::Server | Full::Listener => {
                services.note_turned_away(PoolId::Sessions);
                refusals::SESSIONS
            }
            Full::Client => refusals::SESSIONS_OF_CLIENT,
        })?;
        let seats = &self.ingress.services.shared.seats;
        // Not displaceable before its protocol allows it ([`ClientCount::give_way`]).
        self.seat.replace(Some(seats.sit(self.socket, self.ip, Rank::Privileged)));
        self.is_inside.set(true);
        if !self.charge(Rate::Connections) {
            return Err(refusals::CONNECTIONS);
        }
        if self.is_exhausted(Rate::Refusals) {
            return Err(refusals::REFUSED_BEFORE);
        }
        Ok(())
    }

    /// Lets other sessions displace this one from now on, unless its client is known.
    pub(super) fn give_way(&self) {
        self.gives_way.set(true);
        self.take_rank();
    }

    /// Updates the rank of the seat from the facts known about the client.
    fn take_rank(&self) {
        if let Some(seat) = self.seat.borrow().as_ref().filter(|_| self.gives_way.get()) {
            seat.set_rank(self.rank());
        }
    }

    pub(super) fn may_relay(&self) -> bool {
        self.may_relay.get()
    }

    /// Sets the relay right, which changes limits and rank.
    pub(super) fn set_may_relay(&self, may_relay: bool) {
        if self.may_relay.replace(may_relay) != may_relay {
            self.take_rank();
        }
    }

    fn enter(&self) -> Result<(), Full> {
        let services = &self.ingress.services;
        services.shared.clients.enter(self.socket, self.ip, self.room(), services.now())
    }

    /// Displaces the oldest idle session of the clients with most sessions.
    fn displace_another(&self, full: Full) -> bool {
        let (services, rank) = (&self.ingress.services, self.rank());
        let is_anywhere = full == Full::Server;
        let displaced = services.shared.seats.make_room(self.socket, self.ip, rank, is_anywhere);
        if let Some((socket, ip)) = displaced {
            services.shared.clients.leave(socket, ip, services.now());
            services.metrics.sessions_displaced.inc();
            services.note_turned_away(PoolId::Sessions);
        }
        displaced.is_some()
    }

    /// The client's rank.
    pub(super) fn rank(&self) -> Rank {
        let (shared, now) = (&self.ingress.services.shared, self.ingress.services.now());
        if self.may_relay() || shared.known_clients.knows_client(LoginSubject::client(self.ip)) {
            return Rank::Privileged;
        }
        match shared.clients.is_proven(self.socket, self.ip, now) {
            true => Rank::Proven,
            false => Rank::Unproven,
        }
    }

    /// Notes that a message of the client was accepted.
    pub(super) fn prove(&self) {
        if self.may_relay() {
            return;
        }
        let (shared, now) = (&self.ingress.services.shared, self.ingress.services.now());
        if shared.clients.prove(self.socket, self.ip, now) {
            self.take_rank();
        }
    }

    pub(super) fn poll_displaced(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.seat.borrow_mut().as_mut().map_or(Poll::Pending, |seat| seat.poll_displaced(cx))
    }

    pub(super) fn note_busy(&self, is_busy: bool) {
        if let Some(seat) = &*self.seat.borrow() {
            seat.set_busy(is_busy);
        }
    }

    /// The session limits for this client.
    fn room(&self) -> Room {
        let (listener, may_relay) = (self.listener.borrow(), self.may_relay());
        // Reserves a part for clients that may relay.
        let part =
            |max: u32, reserved: bool| if reserved { max - max / RESERVED_PART } else { max };
        let has_relay = self.ingress.router.active().config.has_relay();
        // On listeners where peers bind, clients with a configured address are local.
        let has_peers = !listener.takes_internet_mail();
        let is_stranger = !(may_relay || has_peers && self.is_exempt());
        let is_kept = !listener.relay_from.is_empty() || has_peers;
        let each = listener.max_sessions_per_address;
        Room {
            all: part(
                self.ingress.services.shared.sessions_max,
                is_stranger && (has_relay || has_peers),
            ),
            listener: part(listener.max_sessions, is_stranger && is_kept),
            client: match (self.is_exempt(), may_relay) {
                (true, _) => 0,
                (false, true) => each.saturating_mul(RELAY_SESSIONS_FACTOR),
                (false, false) => each,
            },
        }
    }

    /// The limit per minute. 0, no limit, for clients that may relay and for those that the configuration exempts.
    fn per_minute(&self, rate: Rate) -> u32 {
        let listener = self.listener.borrow();
        let max = match rate {
            Rate::Connections => listener.connections_per_minute,
            Rate::Messages => listener.messages_per_minute,
            Rate::Recipients => listener.recipients_per_minute,
            Rate::Refusals => listener.refusals_per_minute,
        };
        if self.may_relay() || self.is_exempt() { 0 } else { max }
    }

    /// Counts one. Returns false if that exceeds the limit.
    pub(super) fn charge(&self, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rate);
        max == 0 || clients.charge(self.socket, self.ip, rate, max, self.ingress.services.now())
    }

    /// Counts the additional cost of an item that was charged before.
    pub(super) fn charge_more(&self, rate: Rate, more: usize) {
        let services = &self.ingress.services;
        let max = self.per_minute(rate);
        let more = (u32::try_from(more).unwrap_or(u32::MAX), max);
        if max > 0 && more.0 > 0 {
            services.shared.clients.charge_more(self.socket, self.ip, rate, more, services.now());
        }
    }

    /// The network's charge for recipients, to be checked again later.
    pub(super) fn debt(&self) -> Debt<W> {
        let services = Rc::clone(&self.ingress.services);
        let per_minute = self.per_minute(Rate::Recipients);
        Debt { services, socket: self.socket, ip: self.ip, per_minute }
    }

    pub(super) fn is_exhausted(&self, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rate);
        max > 0
            && clients.is_exhausted(self.socket, self.ip, rate, max, self.ingress.services.now())
    }
}

/// The charge of a client's network for recipients, list members included.
pub(super) struct Debt<W: World> {
    services: Rc<Services<W>>,
    socket: usize,
    ip: IpAddr,
    per_minute: u32,
}

impl<W: World> Clone for Debt<W> {
    fn clone(&self) -> Debt<W> {
        Debt { services: Rc::clone(&self.services), ..*self }
    }
}

impl<W: World> Debt<W> {
    /// Returns true if the limit is exhausted.
    pub(super) fn is_due(&self) -> bool {
        let (clients, now) = (&self.services.shared.clients, self.services.now());
        clients.is_exhausted(self.socket, self.ip, Rate::Recipients, self.per_minute, now)
    }
}
