//! The core's interface for protocol handlers: one client connection.

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
use crate::console::Quoted;
use crate::event::{NotedSession, SessionEnd};
use crate::login_registry::LoginTicket;
use crate::pools::PoolId;
use crate::rate_limits::LimitCharges;
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

/// A client connection as the protocol handler sees it. Dropping it ends the session.
///
/// Messages come in transactions ([`Connection::begin`]), and several may be open at once.
pub struct Connection<W: World> {
    pub(super) ingress: Rc<Ingress<W>>,
    pub(super) session: Rc<Session>,
    pub(super) rights: Rights,
    /// Shared with the transactions, which charge the same client.
    pub(super) count: Rc<ClientCount<W>>,
    /// Its place among the sessions of its login. `None` before a login.
    pub(super) ticket: Option<LoginTicket>,
    /// The permit of the running TLS handshake.
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
                (&services.metrics, &services.shared.outages),
            ),
            count: Rc::new(count),
            ticket: None,
            handshake: None,
            ingress: Rc::clone(ingress),
        }
    }

    #[must_use]
    pub fn session(&self) -> &Rc<Session> {
        &self.session
    }

    /// The wall-clock time.
    #[must_use]
    pub fn wall(&self) -> Wall {
        self.ingress.services.wall()
    }

    /// The client has proved to be this user and may send to any domain. Sets all that depends on that.
    pub(super) fn take_for_user(&mut self, name: &str) {
        self.session.note_login(name);
        self.count.set_may_relay(true);
    }

    /// The same for a user of a login source.
    ///
    /// # Errors
    /// An operator has revoked the login. The reply is that of a wrong password, so that clients ask for another one.
    pub(super) fn enter_as(&mut self, name: &str) -> Result<(), Refusal> {
        let services = &self.ingress.services;
        self.ticket = services.shared.logins.enter(name);
        if self.ticket.is_some() {
            self.take_for_user(name);
            return Ok(());
        }
        services.metrics.login_failures.inc();
        let (client, user) = (self.session.client(), Quoted(name));
        let (address, listener) = (client.address, &client.listener);
        let text = format_args!("revoked login client={address} listener={listener} user={user}");
        services.console.warn("logins", text);
        Err(refusals::WRONG_PASSWORD)
    }

    /// Ready once an operator has revoked the login of this session, which then ends.
    pub fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ticket.as_mut().map_or(Poll::Pending, |ticket| ticket.poll_revoked(cx))
    }

    /// Lets another session displace this one from now on: the session watches [`Connection::poll_displaced`] and ends
    /// if it is displaced.
    pub fn give_way(&self) {
        self.count.give_way();
    }

    /// Ready once another session has displaced this one, which then ends.
    pub fn poll_displaced(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.count.poll_displaced(cx)
    }

    /// Notes if a transaction is open. Sessions without one are displaced first.
    pub fn note_busy(&self, is_busy: bool) {
        self.count.note_busy(is_busy);
    }

    /// Returns true if the client may relay, or had a successful login lately.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.count.rank() == Rank::Privileged
    }

    /// Counts a client that was refused or deferred because this pool was exhausted, or that gave its permit to another
    /// one.
    pub fn note_turned_away(&self, pool: PoolId) {
        self.ingress.services.note_turned_away(pool);
    }

    /// Notes the client's EHLO name and the `with` protocol for Received (RFC 3848).
    pub fn introduce(&mut self, helo: &str, protocol: &'static str) {
        self.session.introduce(helo, protocol);
    }

    #[must_use]
    pub fn now(&self) -> Mono {
        self.ingress.services.now()
    }

    /// A new alarm that is not set.
    #[must_use]
    pub fn alarm(&self) -> Alarm<W::Time> {
        Alarm::new(self.ingress.services.world.time().clone())
    }

    /// The shard's read buffer. May not be borrowed across an await.
    #[must_use]
    pub fn scratch(&self) -> Rc<RefCell<Box<[u8]>>> {
        Rc::clone(&self.ingress.services.scratch)
    }

    /// The shard's shutdown state.
    #[must_use]
    pub fn stopping(&self) -> &Rc<Stopping> {
        &self.ingress.services.stopping
    }

    /// Runs the checks for a new session: connection limits, then the stages.
    ///
    /// # Errors
    /// The refusal. The protocol handler sends it, calls [`Connection::turn_away`] and ends the session.
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

    /// The session was refused with `reply`.
    pub fn turn_away(&mut self, reply: Reply) {
        self.count.turn_away();
        self.ingress.services.metrics.sessions_refused.inc();
        let (sender, recipient, login, mechanism) = (None, None, None, None);
        let refused = RefusalRecord { step: "connect", sender, recipient, login, mechanism, reply };
        account(&self.ingress, self.session.client(), refused);
    }

    /// Returns true if a log has begin and end of sessions.
    #[must_use]
    pub fn is_session_logged(&self) -> bool {
        self.ingress.services.events.takes_sessions()
    }

    /// Logs the begin of the session, or its end.
    pub fn log_session(&self, ended: Option<SessionEnd>) {
        let (at, client) = (self.wall(), Arc::clone(self.session.client()));
        self.ingress.services.events.note_session(NotedSession { at, client, ended });
    }

    /// Counts a client that sent data before the greeting.
    pub fn note_early_talker(&self) {
        self.ingress.services.metrics.early_talkers.inc();
    }

    /// Accounts for a refusal and charges it to the client.
    pub fn account(&self, refused: RefusalRecord) {
        account(&self.ingress, self.session.client(), refused);
        // The result is not needed here: the limit is checked when the next transaction begins.
        let _ = self.count.charge(Rate::Refusals);
    }

    /// Begins a transaction, if the reverse-path is accepted. Checks the spool's state too, so that a client learns of
    /// a failure before it sends content. The transaction is boxed: a session without one then uses no memory for it.
    ///
    /// # Errors
    /// The refusal.
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
        let (wants, announced) = (Wants::of_sender(&sender), sender.size);
        if !self.session.may_relay()
            && let Some(refusal) = self.lacked_everywhere(wants)
        {
            return Err(refusal);
        }
        let stages = self.ingress.stages(self.count.socket);
        let has_conditions = self.ingress.router.active().config.has_conditional_routes();
        if stages.is_empty() && !has_conditions {
            let limits = self.count_message(sender.path.as_ref()).await?;
            return Ok(self.transaction(stages, None, (wants, announced, limits)));
        }
        let serial = self.ingress.next_transaction();
        let Sender { path, size, requires_tls: _ } = sender;
        let view = TransactionView::new(&self.session, path, size, serial);
        for stage in &*stages {
            decided(&self.ingress.services, stage.sender(&view), Grace::None).await?;
        }
        let limits = self.count_message(view.sender.as_ref()).await?;
        Ok(self.transaction(stages, Some(view), (wants, announced, limits)))
    }

    fn transaction(
        &self,
        stages: Stages,
        view: Option<Rc<TransactionView>>,
        from_mail: (Wants, Option<u64>, Option<Box<LimitCharges>>),
    ) -> Box<Transaction<W>> {
        let of_client = (&self.session, &self.count);
        Box::new(Transaction::new(&self.ingress, of_client, stages, view, from_mail))
    }

    /// Returns true if at least one configured destination can be reached with REQUIRETLS (RFC 8689).
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
