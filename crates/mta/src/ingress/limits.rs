//! How much a client may do: sessions at once, and what is counted by the minute.

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
    /// Nobody looked at it before: a burst of connections that will be turned away must not count
    /// while they wait for that, nor while they are told so.
    is_inside: Cell<bool>,
    /// It counts for the listener only.
    is_settled: Cell<bool>,
    /// While it is.
    seat: RefCell<Option<Seat>>,
    /// As the session has it: by `relay_from` of the listener, by a login or by a certificate.
    may_relay: Cell<bool>,
    /// The session gives way to others, as far as its client is not known.
    gives_way: Cell<bool>,
    /// By `exempt_from_limits` of the listener.
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

    /// The client has shown who it is: its sessions are no longer counted among those of its address, of which a
    /// stranger may have few.
    pub(super) fn settle(&self) {
        if self.is_inside.get() && !self.is_settled.replace(true) {
            self.ingress.services.shared.clients.settle(self.socket, self.ip);
        }
    }

    /// Whether the configuration exempts the client from limits.
    pub(super) fn is_exempt(&self) -> bool {
        self.is_exempt.get()
    }

    pub(super) fn listener(&self) -> Arc<Listener> {
        Arc::clone(&self.listener.borrow())
    }

    /// Its listener is configured like this now.
    pub(super) fn follow(&self, listener: &Arc<Listener>) {
        self.is_exempt.set(listener.is_exempt(self.ip));
        self.listener.replace(Arc::clone(listener));
    }

    /// The session is not let in. From now on it takes no place that another could have: strangers
    /// who hammer would hold what is kept from them until their connections are closed.
    pub(super) fn turn_away(&self) {
        let seat = self.seat.take();
        // Whoever has displaced it counts it no more.
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

/// One in so many sessions is kept for clients that may relay.
const RESERVED_PART: u32 = 10;
/// Clients that may relay may have so many times `max_sessions_per_address`.
const RELAY_SESSIONS_FACTOR: u32 = 20;

impl<W: World> ClientCount<W> {
    /// Counts the session, and says whether it may proceed.
    ///
    /// # Errors
    /// Why it is turned away.
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
        // Until its protocol says that it can give way.
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

    /// From now on the session gives way to others, as far as its client is not known.
    pub(super) fn give_way(&self) {
        self.gives_way.set(true);
        self.take_rank();
    }

    /// Its place is that of a client of whom so much is known as there is now.
    fn take_rank(&self) {
        if let Some(seat) = self.seat.borrow().as_ref().filter(|_| self.gives_way.get()) {
            seat.set_rank(self.rank());
        }
    }

    pub(super) fn may_relay(&self) -> bool {
        self.may_relay.get()
    }

    /// The session's client may send to any domain now, or may no longer: its limits and its place follow.
    pub(super) fn set_may_relay(&self, may_relay: bool) {
        if self.may_relay.replace(may_relay) != may_relay {
            self.take_rank();
        }
    }

    fn enter(&self) -> Result<(), Full> {
        let services = &self.ingress.services;
        services.shared.clients.enter(self.socket, self.ip, self.room(), services.now())
    }

    /// Has the oldest idle session of those that hold most give way.
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

    /// What is known of the client.
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

    /// A message of the client was accepted.
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

    /// For how many sessions there is room.
    fn room(&self) -> Room {
        let (listener, may_relay) = (self.listener.borrow(), self.may_relay());
        // What strangers can't take is there for those whom the server is for.
        let part =
            |max: u32, reserved: bool| if reserved { max - max / RESERVED_PART } else { max };
        let has_relay = self.ingress.router.active().config.has_relay();
        // Where peers bind, those whose addresses are known are of the house.
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

    /// What is allowed per minute of this; 0, which is no limit, for clients that may relay and for
    /// those that the configuration exempts.
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

    /// Counts one; `false`: one too many.
    pub(super) fn charge(&self, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rate);
        max == 0 || clients.charge(self.socket, self.ip, rate, max, self.ingress.services.now())
    }

    /// Counts what one that was counted has cost beyond that.
    pub(super) fn charge_more(&self, rate: Rate, more: usize) {
        let services = &self.ingress.services;
        let max = self.per_minute(rate);
        let more = (u32::try_from(more).unwrap_or(u32::MAX), max);
        if max > 0 && more.0 > 0 {
            services.shared.clients.charge_more(self.socket, self.ip, rate, more, services.now());
        }
    }

    /// What its network owes for recipients, to be looked at again later.
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

/// What the network of a client owes for recipients, members of lists included.
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
    /// Whether it is too much for one more.
    pub(super) fn is_due(&self) -> bool {
        let (clients, now) = (&self.services.shared.clients, self.services.now());
        clients.is_exhausted(self.socket, self.ip, Rate::Recipients, self.per_minute, now)
    }
}
