//! All that a protocol may ask of the core for one connection.

use super::account::{RefusalRecord, account};
use super::decisions::{Grace, decided};
use super::limits::ClientCount;
use super::rights::Rights;
use super::session::Session;
use super::stage::{Stages, TransactionView};
use super::transaction::Transaction;
use super::wants::{Sender, Wants};
use super::{Ingress, refusals};
use crate::alarm::Alarm;
use crate::clients::Rate;
use crate::pools::PoolId;
use crate::seams::World;
use crate::seats::{Rank, Seat};
use crate::stopping::Stopping;
use config::Listener;
use mail::{Mono, Refusal, Reply, Wall};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One connection, as its protocol has it. Dropping it ends the session.
///
/// Messages come in transactions ([`Connection::begin`]), of which several may be under way at once.
pub struct Connection<W: World> {
    pub(super) ingress: Rc<Ingress<W>>,
    pub(super) session: Rc<Session>,
    pub(super) rights: Rights,
    /// Shared with the transactions, which are charged to the same client.
    pub(super) count: Rc<ClientCount<W>>,
    /// The handshake that is under way.
    pub(super) handshake: Option<Seat>,
}

impl<W: World> Connection<W> {
    pub(super) fn new(
        ingress: &Rc<Ingress<W>>,
        client: SocketAddr,
        proxy: Option<IpAddr>,
        socket: usize,
        listener: &Arc<Listener>,
    ) -> Connection<W> {
        let (services, router) = (&ingress.services, &ingress.router);
        let count = ClientCount::new(ingress, socket, listener, client.ip());
        services.metrics.sessions.inc();
        services.metrics.sessions_open.inc();
        Connection {
            rights: Rights::new(ingress.seen(), services.now(), proxy),
            session: Session::new(
                client,
                proxy,
                listener,
                count.may_relay(),
                router.nothing(),
                &services.metrics,
            ),
            count: Rc::new(count),
            handshake: None,
            ingress: Rc::clone(ingress),
        }
    }

    #[must_use]
    pub fn session(&self) -> &Rc<Session> {
        &self.session
    }

    /// The time of day.
    #[must_use]
    pub fn wall(&self) -> Wall {
        self.ingress.services.wall()
    }

    /// The client has proved to be this user, and may send to any domain: all that hangs on that follows.
    pub(super) fn take_for_user(&mut self, name: &str) {
        self.session.note_login(name);
        self.count.set_may_relay(true);
    }

    /// The session looks whether another has its place ([`Connection::poll_displaced`]), and gives way then.
    pub fn give_way(&self) {
        self.count.give_way();
    }

    /// Ready once another session has this one's place: it ends.
    pub fn poll_displaced(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.count.poll_displaced(cx)
    }

    /// Whether a transaction is under way: sessions without one give way first.
    pub fn note_busy(&self, is_busy: bool) {
        self.count.note_busy(is_busy);
    }

    /// Whether the client may relay, or was a user lately.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.count.rank() == Rank::Privileged
    }

    /// Somebody was refused or put off for want of some of this, or left it to others.
    pub fn note_turned_away(&self, pool: PoolId) {
        self.ingress.services.note_turned_away(pool);
    }

    /// The client called itself `helo`, and speaks `protocol` (RFC 3848).
    pub fn introduce(&mut self, helo: &str, protocol: &'static str) {
        self.session.introduce(helo, protocol);
    }

    #[must_use]
    pub fn now(&self) -> Mono {
        self.ingress.services.now()
    }

    /// A timer that is not set.
    #[must_use]
    pub fn alarm(&self) -> Alarm<W::Time> {
        Alarm::new(self.ingress.services.world.time().clone())
    }

    /// The shard's read buffer, for whoever reads, until it waits.
    #[must_use]
    pub fn scratch(&self) -> Rc<RefCell<Box<[u8]>>> {
        Rc::clone(&self.ingress.services.scratch)
    }

    /// Whether the shard stops.
    #[must_use]
    pub fn stopping(&self) -> &Rc<Stopping> {
        &self.ingress.services.stopping
    }

    /// Whether the session may proceed.
    ///
    /// # Errors
    /// Why it may not: the protocol says so, calls [`Connection::turn_away`] and ends the session.
    pub async fn admit(&mut self) -> Result<(), Refusal> {
        if self.ingress.rules(self.count.socket).is_none_or(|rules| rules.is_withdrawn()) {
            return Err(refusals::WITHDRAWN);
        }
        self.count.admit()?;
        for stage in &*self.ingress.stages(self.count.socket) {
            decided(&self.ingress.services, stage.connect(&self.session), Grace::None).await?;
        }
        Ok(())
    }

    /// The session was not let in, and the client told `reply`.
    pub fn turn_away(&mut self, reply: Reply) {
        self.count.turn_away();
        self.ingress.services.metrics.sessions_refused.inc();
        let refused =
            RefusalRecord { step: "connect", sender: None, recipient: None, login: None, reply };
        account(&self.ingress, self.session.client(), refused);
    }

    /// The client spoke before it was greeted, which was put into the account.
    pub fn note_early_talker(&self) {
        self.ingress.services.metrics.early_talkers.inc();
    }

    /// Puts a refusal into the account, and charges the client with it.
    pub fn account(&self, refused: RefusalRecord) {
        account(&self.ingress, self.session.client(), refused);
        // Beyond the limit there is nothing more to count: it is looked at where it is too late.
        let _ = self.count.charge(Rate::Refusals);
    }

    /// Begins a transaction, if the reverse-path may send at all. The spool's state is looked at here already, so
    /// that a client learns early that it is in vain. In a place of its own: a session without one keeps no room for it.
    ///
    /// # Errors
    /// Why not.
    pub async fn begin(&self, sender: Sender) -> Result<Box<Transaction<W>>, Refusal> {
        if self.ingress.custody.is_poisoned() {
            return Err(refusals::CANNOT_WRITE);
        }
        if self.count.is_exhausted(Rate::Refusals) {
            return Err(refusals::REFUSALS);
        }
        if !self.count.charge(Rate::Messages) {
            return Err(refusals::MESSAGES);
        }
        let wants = Wants::of_sender(&sender);
        if !self.session.may_relay()
            && let Some(refusal) = self.lacked_everywhere(wants)
        {
            return Err(refusal);
        }
        let stages = self.ingress.stages(self.count.socket);
        if stages.is_empty() {
            return Ok(self.transaction(stages, None, wants));
        }
        let serial = self.ingress.next_transaction();
        let Sender { path, size, requires_tls: _ } = sender;
        let view = TransactionView::new(&self.session, path, size, serial);
        for stage in &*stages {
            decided(&self.ingress.services, stage.sender(&view), Grace::None).await?;
        }
        Ok(self.transaction(stages, Some(view), wants))
    }

    fn transaction(
        &self,
        stages: Stages,
        view: Option<Rc<TransactionView>>,
        wants: Wants,
    ) -> Box<Transaction<W>> {
        let of_client = (&self.session, &self.count);
        Box::new(Transaction::new(&self.ingress, of_client, stages, view, wants))
    }

    /// Whether a message may go from here by TLS all the way (RFC 8689): some host may take it so.
    #[must_use]
    pub fn may_require_tls(&self) -> bool {
        self.lacked_everywhere(Wants::of_require_tls()).is_none()
    }

    fn lacked_everywhere(&self, wants: Wants) -> Option<Refusal> {
        let active = self.ingress.router.active();
        wants.lacked_everywhere(&self.ingress.services, &active, self.session.may_relay())
    }
}

impl<W: World> Drop for Connection<W> {
    fn drop(&mut self) {
        self.ingress.services.metrics.sessions_open.dec();
        self.ingress.count_end();
    }
}
