//! A channel's handle: a connection slot of a ready queue, and the core's functions for it.

use super::Delivery;
use super::giving_up::{give_back, give_back_unnamed};
use super::outcome::{self, AttemptContext};
use super::{echoes, hearing};
use crate::answer::Decision;
use crate::console::Console;
use crate::known_hosts::KnownHosts;
use crate::line::{FairKey, Owner, Permit, PermitWaiter, TrustLevel};
use crate::message::{Message, SentBy};
use crate::metrics::Metrics;
use crate::own_fields::SignatureFields;
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::pressure::{BEHIND_AFTER, NOTED_EVERY};
use crate::routing::dane::{self, Dane};
use crate::routing::hop::NextHop;
use crate::routing::hosts::Host;
use crate::routing::lookup::{DnsRequester, InTurn};
use crate::schedule::hops::Out;
use crate::schedule::tls_domains::TlsDomain;
use crate::schedule::{hops, warmup};
use crate::seams::{Dns as _, DnsError, Endpoint, TlsReports, World};
use crate::stopping::StopGuard;
use bytes::Bytes;
use config::{Config, Source};
use mail::{Failure, Mailbox, MessageId, Mono, Reply, Step, Wall};
use queue::{CloseReason, EntryId, Origin, ReadyId, Take, TransactionWork};
use spool::{BlobId, LoadError};
use std::cell::{Cell, RefMut};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Interval at which all shards are notified that a hop answers.
const ANSWERS_TOLD_EVERY: Duration = Duration::from_secs(60);

/// A connection slot of a ready queue, released when dropped, however the task ends.
pub struct Slot<W: World> {
    pub(super) delivery: Rc<Delivery<W>>,
    pub(super) ready: ReadyId,
    hop: Rc<NextHop>,
    reason: CloseReason,
    held: bool,
    /// Time at which all shards were last notified that the hop answers.
    answered: Cell<Option<Mono>>,
    /// Time at which work waiting behind this one was last noted.
    behind: Cell<Option<Mono>>,
    /// Owner under which it takes scarce capacity: its hop, and the owners of the connected host.
    owned: Cell<Option<FairKey>>,
}

/// The end of a wait for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idled {
    /// There is work, or the server is shutting down.
    Woken,
    /// The wait timed out, or the process needs the connection for another hop.
    Timeout,
    /// The peer closed the connection, or sent unexpected octets.
    Closed,
    /// Closed, while the queue counts on this connection and must be notified.
    ClosedWhileWoken,
}

impl<W: World> Slot<W> {
    /// The slot that the queue has just reserved for `ready`, which leads to `hop`.
    pub(super) fn new(delivery: &Rc<Delivery<W>>, ready: ReadyId, hop: Rc<NextHop>) -> Slot<W> {
        let delivery = Rc::clone(delivery);
        let (answered, behind, owned) = (Cell::new(None), Cell::new(None), Cell::new(None));
        let reason = CloseReason::Normal;
        Slot { delivery, ready, hop, reason, held: true, answered, behind, owned }
    }

    /// The next hop of the ready queue.
    #[must_use]
    pub fn hop(&self) -> &Rc<NextHop> {
        &self.hop
    }

    /// The source can't send from this address to any next hop.
    pub fn note_source_out(&self, source: &Source, why: &str) {
        hops::note_out(&self.delivery.schedule, &source.name, Out::Source, why);
    }

    /// The source can't reach this next hop.
    pub fn note_way_out(&self, source: &Source, why: &str) {
        let schedule = &self.delivery.schedule;
        let key = schedule.queue().ready_key(self.ready).cloned();
        if let Some(key) = key {
            hops::note_out(schedule, &source.name, Out::Way(key), why);
        }
    }

    #[must_use]
    pub fn world(&self) -> &W {
        &self.delivery.services.world
    }

    /// Wall-clock time.
    #[must_use]
    pub fn wall(&self) -> Wall {
        self.delivery.services.wall()
    }

    #[must_use]
    pub fn now(&self) -> Mono {
        self.delivery.services.now()
    }

    /// Learnt properties of hosts.
    #[must_use]
    pub fn known_hosts(&self) -> &KnownHosts {
        &self.delivery.services.shared.known_hosts
    }

    /// Metrics of the process.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.delivery.services.metrics
    }

    #[must_use]
    pub fn console(&self) -> &dyn Console {
        &*self.delivery.services.console
    }

    /// Read buffer, valid until the next await.
    #[must_use]
    pub fn scratch(&self) -> RefMut<'_, Box<[u8]>> {
        self.delivery.services.scratch.borrow_mut()
    }

    /// A number unique to this spool, which never changes.
    #[must_use]
    pub fn spool_salt(&self) -> u64 {
        self.delivery.services.shared.spool_salt
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.delivery.router.active().config)
    }

    /// Returns true once the server is shutting down: no new work is started.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.delivery.services.stopping.until().is_some()
    }

    /// While the guard exists, shutdown waits, within the grace period.
    #[must_use]
    pub fn busy(&self) -> StopGuard {
        self.delivery.services.stopping.guard()
    }

    /// Returns true if a simulation has planted this fault.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn has_planted(&self, fault: Planted) -> bool {
        self.delivery.services.has_planted(fault)
    }
}

/// State of the slot.
impl<W: World> Slot<W> {
    /// The connection is open.
    pub fn opened(&self) {
        let now = self.now();
        self.delivery.schedule.queue_mut().handle_opened(now, self.ready);
        self.delivery.schedule.note_opening(self.ready);
    }

    /// The connection failed: releases the slot with the reason.
    pub fn open_failed(mut self, failure: Arc<Failure>) {
        self.held = false;
        let now = self.now();
        let schedule = &self.delivery.schedule;
        schedule.queue_mut().handle_open_failed(now, self.ready, Arc::clone(&failure));
        schedule.note_opening(self.ready);
        hops::note_unreachable(schedule, (self.ready, &self.hop), &failure);
    }

    /// The host permanently refuses mail service: releases the slot, and fails all waiting mail.
    pub fn refused(mut self, failure: Arc<Failure>) {
        self.held = false;
        let now = self.now();
        self.delivery.schedule.queue_mut().handle_open_refused(now, self.ready, failure);
    }

    /// No connection is needed any more: releases the slot.
    pub fn not_needed(mut self) {
        self.held = false;
        let now = self.now();
        self.delivery.schedule.queue_mut().handle_open_not_needed(now, self.ready);
    }

    /// Sets the reason for closing.
    pub fn closing(&mut self, reason: CloseReason) {
        self.reason = reason;
    }

    /// Waits in line for a connection permit of the process, to a host at this address. `None` if the queue needs no
    /// connection any more, or a limit was lowered during the wait.
    pub async fn connection(&self, host: &str, peer: &Endpoint) -> Option<Permit> {
        let (schedule, shared) = (&self.delivery.schedule, &self.delivery.services.shared);
        // Always present: the hop is known as long as its ready queue.
        let who = self.owned(schedule.who(self.ready)?, host, peer);
        self.owned.set(Some(who));
        let standing = self.standing(who);
        #[cfg(feature = "planted")]
        let standing = match self.has_planted(Planted::KeepToItself) {
            true => TrustLevel::Unknown,
            false => standing,
        };
        let place = shared.connections.join(who, standing, 1);
        if place.is_served() {
            return Some(place.await);
        }
        let permit = place.await;
        schedule.queue().needs_opening(self.ready).then_some(permit)
    }

    /// Adds the owners of a host: its zone, and the network within that. Hosts named in the configuration have no
    /// owner.
    fn owned(&self, who: FairKey, host: &str, peer: &Endpoint) -> FairKey {
        match peer {
            Endpoint::Tcp(peer) if self.hop.is_by_mx() => {
                who.of(Owner::network(peer.ip())).within(Owner::zone(host))
            }
            Endpoint::Tcp(_) | Endpoint::Unix(_) => who,
        }
    }

    /// Notes the results of a transaction. A recipient or content that was accepted or permanently rejected shows that
    /// the peer works: it may then use the capacity reserved for proven hops.
    pub fn note_verdict(&self, permit: &mut Permit, outcomes: &[Result<Reply, Failure>]) {
        let is_final = |outcome: &Result<Reply, Failure>| match outcome {
            Ok(_) => true,
            Err(failure) => {
                let is_about_mail = matches!(
                    failure.step,
                    Some(Step::RcptTo | Step::Data | Step::Bdat | Step::FinalDot)
                );
                is_about_mail && failure.reply.as_ref().is_some_and(|reply| reply.code / 100 == 5)
            }
        };
        if !outcomes.iter().any(is_final) {
            return;
        }
        permit.prove();
        // The lock is shared by all shards, and is not locked for each message.
        let now = self.now();
        if self.answered.get().is_none_or(|at| now.since(at) >= ANSWERS_TOLD_EVERY) {
            self.answered.set(Some(now));
            self.note_standing(permit, TrustLevel::Good);
        }
    }

    /// Notes that the peer of a connection has been silent for long.
    pub fn note_silence(&self, permit: &mut Permit) {
        permit.doubt();
        self.note_left(permit);
    }

    /// A connection was closed because its peer was silent while other hops waited.
    pub fn note_left(&self, permit: &Permit) {
        self.answered.set(None);
        self.note_standing(permit, TrustLevel::Doubtful);
    }

    /// Shares a trust level with all shards.
    fn note_standing(&self, permit: &Permit, standing: TrustLevel) {
        self.delivery.schedule.note_standing(self.ready, standing);
        if self.hop.is_by_mx() {
            let shared = &self.delivery.services.shared;
            if shared.known_hops.note_host(permit.owners(), standing, self.now()) {
                for line in [&shared.connections, &shared.reads, &shared.conversions] {
                    line.doubt_all(permit.owners());
                }
            }
        }
    }

    /// Waits for one of the process's worker permits for mailbox writes and discards.
    pub async fn worker(&self) -> Permit {
        self.delivery.services.shared.workers.join(self.who(), TrustLevel::Good, 1).await
    }

    /// Notes work that waited too long for a worker: other work waits behind it.
    pub fn note_behind(&self, work: &TransactionWork) {
        let now = self.now();
        let is_due = self.behind.get().is_none_or(|at| now.since(at) >= NOTED_EVERY);
        if now.since(work.since) < BEHIND_AFTER || !is_due {
            return;
        }
        let Some(count) = self.delivery.schedule.queue().behind_connections(self.ready) else {
            return;
        };
        self.behind.set(Some(now));
        let services = &self.delivery.services;
        services.shared.behind_workers.note(services.number, self.ready, count, now);
    }

    /// The key of this slot's ready queue in lines shared by the shards.
    fn who(&self) -> FairKey {
        FairKey::new(self.delivery.services.number, self.ready.0)
    }

    /// Looks up the addresses of a host with an ASCII name, when the lookup's turn comes.
    ///
    /// # Errors
    /// There is no address, or no answer.
    pub async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, Failure> {
        match self.dns().addresses(&host.name).await {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) | Err(DnsError::NoRecords | DnsError::NoSuchDomain) => Err(host.no_address()),
            Err(error) => Err(host.no_answer(error.to_string())),
        }
    }

    /// Looks up the TLSA records of a host of this hop, when the lookup's turn comes.
    ///
    /// # Errors
    /// As [`dane::look_up`]; never [`DnsError::Lack`].
    pub async fn dane(&self, host: &str, port: u16) -> Result<Dane, DnsError> {
        dane::look_up(&self.dns(), host, port).await
    }

    fn dns(&self) -> InTurn<W> {
        let services = &self.delivery.services;
        let who = FairKey::other(services.number, self.ready.0);
        InTurn::new(services, DnsRequester { who, tenant: None, in_trouble: false })
    }
}

/// TLS reports (RFC 8460).
impl<W: World> Slot<W> {
    /// The TLS report service; `None` if it is off.
    #[must_use]
    pub fn tls_reports(&self) -> Option<&dyn TlsReports> {
        Some(self.world().tls_reports()).filter(|reports| reports.is_on())
    }

    /// Domains with waiting mail for this connection.
    #[must_use]
    pub fn waiting_domains(&self) -> Vec<Rc<TlsDomain>> {
        let schedule = &self.delivery.schedule;
        let queue = schedule.queue();
        schedule.tls_domains.all(self.ready, |scheduled| queue.has_some_at(scheduled, self.ready))
    }

    /// The domain of a recipient in flight, if TLS reports cover it.
    #[must_use]
    pub fn domain_of(&self, entry: EntryId) -> Option<Rc<TlsDomain>> {
        let schedule = &self.delivery.schedule;
        let scheduled = schedule.queue().scheduled_of(entry)?;
        schedule.tls_domains.get(self.ready, scheduled)
    }
}

/// Work.
impl<W: World> Slot<W> {
    /// The next message for a connection that has carried `carried` messages.
    #[must_use]
    pub fn take(&self, carried: u32) -> Take {
        self.delivery.schedule.take(self.ready, carried)
    }

    /// The reverse-path for a recipient: the owner of a list, or a rewritten local sender (SRS) for forwarded mail. The
    /// rewritten sender contains the day of acceptance, so that each try has the same one.
    #[must_use]
    pub fn reverse_path(&self, message: &Message, index: u32) -> Option<Mailbox> {
        let sender = message.envelope.reverse_path.as_ref()?;
        let other = match message.sent_by(index) {
            SentBy::Sender => None,
            SentBy::Rewritten => {
                let active = self.delivery.router.active();
                active.srs.as_ref().and_then(|srs| srs.forward(sender, message.received_at))
            }
            // It was valid when it was written.
            SentBy::Owner(owner) => Mailbox::parse(owner, true).ok(),
        };
        Some(other.unwrap_or_else(|| sender.clone()))
    }

    /// Requeues untried recipients, in their turn.
    pub fn give_back(&self, work: &TransactionWork) {
        give_back(&self.delivery, work);
    }

    /// Requeues recipients of which no peer has received one: they don't count against a source's warm-up.
    pub fn give_back_unnamed(&self, work: &TransactionWork) {
        give_back_unnamed(&self.delivery, work);
    }

    /// Time at which a recipient in flight expires, if it can.
    #[must_use]
    pub fn expiry(&self, entry: EntryId) -> Option<Mono> {
        self.delivery.schedule.queue().expiry(entry)
    }

    /// Waits with an open connection until it is woken for work, or until `end` is ready; `permit` is the connection's.
    pub async fn idle(
        &self,
        permit: &mut Permit,
        mut end: impl FnMut(&mut Context<'_>) -> Poll<Idled>,
    ) -> Idled {
        let (schedule, now) = (&self.delivery.schedule, self.now());
        let place = schedule.idle.enter(self.ready);
        schedule.queue_mut().handle_idle(now, self.ready);
        if self.delivery.services.shared.connections.is_tight() {
            schedule.idle.tell_entered();
        }
        let ended = poll_fn(|cx| {
            if place.poll_woken(cx).is_ready() {
                return Poll::Ready(Idled::Woken);
            }
            if place.is_asked_to_go() && permit.should_go() {
                return Poll::Ready(Idled::Timeout);
            }
            end(cx)
        })
        .await;
        // A connection that is no longer in the list was woken, and must ask the queue again.
        match (schedule.idle.leave(self.ready, &place), ended) {
            (true, ended) => ended,
            (false, Idled::Closed) => Idled::ClosedWhileWoken,
            (false, _) => {
                permit.stay();
                Idled::Woken
            }
        }
    }

    /// A place in the line for memory to load a message into, if it must be loaded.
    #[must_use]
    pub fn place_to_load(&self, id: MessageId, origin: Origin) -> Option<PermitWaiter> {
        self.delivery.custody.messages.place_to_load(|| self.who_reads(origin), id)
    }

    /// The message, from memory, or from the spool when its turn comes. The caller must hold no message that was read
    /// from the spool, or all callers could wait for each other.
    ///
    /// # Errors
    /// The spool's error.
    pub async fn load_in_turn(
        &self,
        place: Option<PermitWaiter>,
        id: MessageId,
    ) -> Result<Rc<Message>, LoadError> {
        self.delivery.custody.messages.load_in_turn(place, id).await
    }

    /// A place in the line for memory to convert a message in: for its content, the parsed form and the result.
    #[must_use]
    pub fn place_to_convert(&self, message: &Message, origin: Origin) -> PermitWaiter {
        let bytes = message.sent_body_bytes().saturating_mul(3);
        let (who, standing) = self.who_reads(origin);
        self.delivery.services.shared.conversions.join(who, standing, bytes)
    }

    /// The key under which memory is taken. Next hops have their shares over all shards, and so do the zones and
    /// networks of their hosts.
    fn who_reads(&self, origin: Origin) -> (FairKey, TrustLevel) {
        let hop = || self.delivery.schedule.who(self.ready).unwrap_or_else(|| self.who());
        let who = self.owned.get().unwrap_or_else(hop);
        (who.for_origin(origin), self.standing(who))
    }

    /// The trust level of the hop, or else that of its host's owners.
    fn standing(&self, who: FairKey) -> TrustLevel {
        match self.delivery.schedule.standing(self.ready) {
            TrustLevel::Unknown => {
                self.delivery.services.shared.known_hops.standing_of_host(who.owners(), self.now())
            }
            known => known,
        }
    }

    /// The fields to place above a locally generated message.
    pub(super) fn fields_above(&self, content: &Bytes) -> Decision<'static, SignatureFields> {
        (self.delivery.above)(content)
    }

    /// The shard's deliveries.
    pub(super) fn delivery(&self) -> &Delivery<W> {
        &self.delivery
    }

    /// The next piece of a body in a file.
    ///
    /// # Errors
    /// It cannot be read, or is not as written.
    pub async fn load_blob(
        &self,
        message: &Message,
        blob: BlobId,
        offset: u64,
    ) -> Result<Bytes, LoadError> {
        self.delivery.custody.messages.load_blob(message, blob, offset).await
    }

    /// Passes a body to `take`, piece by piece, until it returns a value.
    ///
    /// # Errors
    /// The body can't be read.
    pub async fn for_each_piece<T>(
        &self,
        message: &Message,
        take: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        self.delivery.custody.messages.for_each_piece(message, take).await
    }
}

/// Results.
impl<W: World> Slot<W> {
    /// Concludes the attempt of `work`; `outcomes` are in the order of its entries.
    pub fn conclude(
        &self,
        message: &Rc<Message>,
        work: &TransactionWork,
        mut outcomes: Vec<Result<Reply, Failure>>,
        context: &AttemptContext,
    ) {
        self.leave_out_own(message, work, &mut outcomes);
        // Reports are about the original message.
        let message = message.converted_from.as_ref().map_or(message, |from| &from.message);
        hearing::soften(&self.delivery, self.hop(), &mut outcomes);
        warmup::note(&self.delivery.schedule, self.ready, &outcomes);
        outcome::conclude(&self.delivery, message, work, outcomes, context);
    }

    /// Removes our own strings of the transaction from a host's replies, for all code that matches their text.
    pub fn leave_out_own(
        &self,
        message: &Message,
        work: &TransactionWork,
        outcomes: &mut [Result<Reply, Failure>],
    ) {
        echoes::leave_out(&self.delivery, self.ready, (message, work), outcomes);
    }

    /// Matches a host's replies to a transaction against the shaping rules, whatever else is done with them.
    pub fn heard(&self, of: (&Message, &TransactionWork), outcomes: &[Result<Reply, Failure>]) {
        hearing::outcomes(&self.delivery, self.ready, of, outcomes);
    }

    /// Matches a host's rejection of a connection against the shaping rules. Returns true if a rule now suspends the
    /// destination: then the reply is no reason to bounce mail.
    #[must_use]
    pub fn heard_opening(&self, failure: &mut Failure) -> bool {
        echoes::leave_out_greeting(&self.delivery, self.ready, failure);
        hearing::opening(&self.delivery, self.ready, self.hop(), failure)
    }

    /// Handles a message with a part (its `record` or its `body`) that can't be read from the spool: not the peer's
    /// fault, and retried.
    pub fn unreadable(&self, work: &TransactionWork, part: &str, why: &LoadError) {
        outcome::unreadable(&self.delivery, work, part, why);
    }

    /// Notes that the next hop accepted a message.
    pub fn accepted(&self) {
        self.delivery.schedule.queue_mut().handle_accepted(self.now(), self.ready);
    }

    /// Notes that the next hop deferred a whole transaction; `of_recipients`: the recipients alone may be the reason,
    /// as with greylisting.
    pub fn deferred(&self, failure: &Failure, of_recipients: bool) {
        let (now, failure) = (self.now(), Arc::new(failure.clone()));
        let mut queue = self.delivery.schedule.queue_mut();
        queue.handle_refused(now, self.ready, failure, of_recipients);
    }

    /// Notes that the next hop asks for fewer connections, or can't serve more.
    pub fn throttled(&self, failure: Failure) {
        let (now, failure) = (self.now(), Arc::new(failure));
        self.delivery.schedule.queue_mut().handle_throttled(now, self.ready, failure);
    }
}

impl<W: World> Drop for Slot<W> {
    fn drop(&mut self) {
        if self.held {
            let now = self.now();
            self.delivery.schedule.queue_mut().handle_closed(now, self.ready, self.reason);
            #[cfg(feature = "planted")]
            if self.has_planted(Planted::ReleaseSlotTwice) {
                self.delivery.schedule.queue_mut().handle_closed(now, self.ready, self.reason);
            }
        }
    }
}
