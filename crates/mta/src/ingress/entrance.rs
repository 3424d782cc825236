//! What a protocol may ask of the core for one connection.

use super::account::{Refused, account, content_refused};
use super::commit::commit;
use super::decisions::{Asked, Grace, decided, decided_within};
use super::draft::{Additions, Draft};
use super::forwarding::leaving;
use super::intake::Intake;
use super::limits::ClientCount;
use super::recipients::{Applied, Dropped, Resolutions};
use super::rights::Rights;
use super::session::Session;
use super::stage::{Resolved, Stages, Transaction};
use super::wants::{self, Sender, Wants};
use super::{Ingress, refusals, room};
use crate::alarm::Alarm;
use crate::answer::{Answer, Decision};
use crate::budget::Share;
use crate::clients::Rate;
use crate::event::{self, Event, Kind};
use crate::meta::Owners;
use crate::pools::PoolId;
use crate::seams::World;
use crate::seats::{Rank, Seat};
use crate::steering::Steering;
use crate::stopping::Stopping;
use config::Listener;
use mail::{
    ContentFacts, Envelope, MessageId, Mono, Omitted, Recipient, Refusal, Reply, RequireTls, Wall,
};
use spool::RECIPIENTS_MAX;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What one connection may ask of the core. Dropping it drops what was begun, and ends the session.
///
/// A transaction goes through [`Entrance::sender`], [`Entrance::recipient`] and [`Entrance::keep`]
/// for each recipient, [`Entrance::reserve`], content through [`Entrance::intake`], and ends with
/// [`Entrance::submit`] or [`Entrance::abandon`].
pub struct Entrance<W: World> {
    pub(super) ingress: Rc<Ingress<W>>,
    pub(super) session: Rc<Session>,
    pub(super) rights: Rights,
    pub(super) count: ClientCount<W>,
    stages: Stages,
    /// `None` where there is no stage to be asked about it.
    transaction: Option<Rc<Transaction>>,
    /// What the message needs, as far as MAIL has shown it.
    pub(super) wants: Wants,
    /// Recipients that are not kept as they were given.
    pub(super) resolutions: Resolutions,
    /// The handshake that is under way.
    pub(super) handshake: Option<Seat>,
    /// Queue slots reserved for the transaction's recipients.
    pub(super) slots: Share,
    /// What the recipients draw of body memory.
    pub(super) envelope: Share,
    /// About what they take.
    pub(super) envelope_bytes: u64,
    pub(super) intake: Intake<W>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is durable and queued.
    Queued(MessageId),
    /// None of its recipients wanted anything kept.
    Discarded,
}

impl<W: World> Entrance<W> {
    pub(super) fn new(
        ingress: &Rc<Ingress<W>>,
        client: SocketAddr,
        proxy: Option<IpAddr>,
        socket: usize,
        listener: &Arc<Listener>,
    ) -> Entrance<W> {
        let (services, router) = (&ingress.services, &ingress.router);
        let count = ClientCount::new(ingress, socket, listener, client.ip());
        let blob_bytes = router.active().config.spool.blob_bytes;
        services.metrics.sessions.inc();
        services.metrics.sessions_open.inc();
        Entrance {
            rights: Rights::new(ingress.seen(), services.now(), proxy),
            session: Session::new(
                client,
                proxy,
                listener,
                count.may_relay(),
                router.nothing(),
                &services.metrics,
            ),
            count,
            stages: ingress.stages(socket),
            transaction: None,
            wants: Wants::default(),
            resolutions: Resolutions::default(),
            handshake: None,
            slots: Share::none(&services.shared.queue_slots),
            envelope: Share::none(&services.shared.body_memory),
            envelope_bytes: 0,
            intake: Intake::new(services, &ingress.custody, blob_bytes),
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

    /// The session looks whether another has its place ([`Entrance::poll_displaced`]), and gives way then.
    pub fn give_way(&self) {
        self.count.give_way();
    }

    /// Ready once another session has this one's place: it ends.
    pub fn poll_displaced(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
    /// Why it may not: the protocol says so, calls [`Entrance::turn_away`] and ends the session.
    pub async fn admit(&mut self) -> Result<(), Refusal> {
        if self.ingress.rules(self.count.socket).is_none_or(|rules| rules.is_withdrawn()) {
            return Err(refusals::WITHDRAWN);
        }
        self.count.admit()?;
        for stage in &*self.stages {
            decided(&self.ingress.services, stage.connect(&self.session), Grace::None).await?;
        }
        Ok(())
    }

    /// The session was not let in, and the client told `reply`.
    pub fn turn_away(&mut self, reply: Reply) {
        self.count.turn_away();
        self.ingress.services.metrics.sessions_refused.inc();
        let refused =
            Refused { step: "connect", sender: None, recipient: None, login: None, reply };
        account(&self.ingress, self.session.client(), refused);
    }

    /// The client spoke before it was greeted, which was put into the account.
    pub fn note_early_talker(&self) {
        self.ingress.services.metrics.early_talkers.inc();
    }

    /// Puts a refusal into the account, and charges the client with it.
    pub fn account(&self, refused: Refused) {
        account(&self.ingress, self.session.client(), refused);
        // Beyond the limit there is nothing more to count: it is looked at where it is too late.
        let _ = self.count.charge(Rate::Refusals);
    }

    /// A transaction begins: whether the reverse-path may send at all. The spool's state is looked
    /// at here already, so that a client learns early that it is in vain.
    ///
    /// # Errors
    /// Why not.
    pub async fn sender(&mut self, sender: Sender) -> Result<(), Refusal> {
        if self.ingress.custody.is_poisoned() {
            return Err(refusals::CANNOT_WRITE);
        }
        if self.count.is_exhausted(Rate::Refusals) {
            return Err(refusals::REFUSALS);
        }
        if !self.count.charge(Rate::Messages) {
            return Err(refusals::MESSAGES);
        }
        self.wants = Wants::of_sender(&sender);
        if !self.session.may_relay()
            && let Some(refusal) = self.lacked_everywhere(self.wants)
        {
            return Err(refusal);
        }
        self.stages = self.ingress.stages(self.count.socket);
        if self.stages.is_empty() {
            return Ok(());
        }
        let serial = self.ingress.next_transaction();
        let Sender { path, size, .. } = sender;
        let transaction = Transaction::new(&self.session, path, size, serial);
        for stage in &*self.stages {
            decided(&self.ingress.services, stage.sender(&transaction), Grace::None).await?;
        }
        self.transaction = Some(transaction);
        Ok(())
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

    /// Whether this client may send to this recipient, and what becomes of it. Several may be open
    /// at once; whoever asked about one says [`Entrance::keep`] when it is taken.
    #[must_use]
    pub fn recipient(&self, recipient: &Recipient) -> Decision<'static, Resolved> {
        if self.count.is_exhausted(Rate::Refusals) {
            return Answer::Now(Err(refusals::REFUSALS));
        }
        let asked = Asked {
            services: Rc::clone(&self.ingress.services),
            active: self.ingress.router.active(),
            session: Rc::clone(&self.session),
            stages: Rc::clone(&self.stages),
            transaction: self.transaction.clone(),
            debt: self.count.debt(),
        };
        asked.ask(recipient)
    }

    /// Makes room in the queue for `recipients` that were kept, before content is asked for, so that
    /// what is committed always fits.
    ///
    /// # Errors
    /// When there is none, or nothing can be written, or a stage wants no content.
    pub async fn reserve(&mut self, recipients: usize) -> Result<(), Refusal> {
        if self.ingress.custody.is_poisoned() {
            return Err(refusals::CANNOT_WRITE);
        }
        // A refused DATA leaves the transaction open, for more recipients and another DATA: that one finds
        // nothing of it.
        self.slots.clear();
        self.intake.clear_arrangements();
        let rules = self.ingress.rules(self.count.socket);
        let handler = rules.as_ref().and_then(|rules| rules.handler.as_ref());
        if handler.is_some_and(|handler| handler.takes_internet_mail()) {
            self.intake.end_header();
        }
        let kept = self.resolutions.count_kept(recipients);
        self.take_slots(kept as u64)?;
        if kept == 0 {
            self.intake.discard();
        }
        if let Some(transaction) = &self.transaction {
            for (place, stage) in self.stages.iter().enumerate() {
                let decision = stage.data(transaction);
                decided(&self.ingress.services, decision, Grace::OfTransactions).await?;
                if let Some(observer) = stage.observe(transaction) {
                    self.intake.observe(place, observer);
                }
                if let Some(name) = stage.speaks_as(transaction) {
                    self.intake.rename_forged(name);
                }
            }
        }
        Ok(())
    }

    /// Where the content goes.
    #[must_use]
    pub fn intake(&mut self) -> &mut Intake<W> {
        &mut self.intake
    }

    /// The content is complete: makes the message durable and queues it. `requires_tls`: its client asks
    /// for TLS all the way (RFC 8689 §2); `steering`: what it says of how it is to be sent.
    ///
    /// # Errors
    /// Why it is not taken, which is in the account already. Nothing is kept.
    pub async fn submit(
        &mut self,
        envelope: Envelope,
        facts: ContentFacts,
        requires_tls: bool,
        steering: Steering,
    ) -> Result<Submitted, Refusal> {
        let ingress = Rc::clone(&self.ingress);
        // All of it may have come in one read, which no guard was held for.
        let _busy = ingress.services.stopping.guard();
        let header = self.intake.header();
        if header.received_count > self.session.listener().max_hops as usize {
            return Err(self.refuse_content(&envelope, refusals::LOOP));
        }
        let content = match self.intake.finish().await {
            Ok(content) => content,
            Err(refusal) => return Err(self.refuse_content(&envelope, refusal)),
        };
        let client = Arc::clone(self.session.client());
        let is_from_stranger = !self.session.may_relay();
        let mut draft = Box::new(Draft {
            content,
            envelope,
            facts: self.intake.facts_of(facts),
            client,
            is_from_stranger,
            // RFC 8689 §4.1: whoever sends it; it is their own message that may then go in clear.
            require_tls: RequireTls::of(requires_tls, header.asks_for_no_tls),
            steering,
            tenants: Arc::clone(&ingress.router.active().config.tenants),
            tenancy: None,
            forwarded: Vec::new(),
            owners: Owners::new(),
            additions: Additions::default(),
            hides_client: false,
            given: Vec::new(),
            discarded: None,
            omitted: Omitted::default(),
            contents: Rc::clone(&ingress) as _,
            memory: None,
            tenant_room: None,
        });
        let (id, body_bytes) = (draft.id(), draft.facts.body_bytes);
        let Applied { dropped, instead, owners, given } =
            self.resolutions.apply(&mut draft.envelope);
        (draft.owners, draft.given) = (owners, given);
        let completed = self.complete(&mut draft, instead).await;
        ingress.services.metrics.note_checked(&draft.additions.checked);
        if let Err(refusal) = completed {
            draft.forget_blob();
            return Err(self.refuse_content(&draft.envelope, refusal));
        }
        let slots = Share::none(&ingress.services.shared.queue_slots);
        let slots = std::mem::replace(&mut self.slots, slots);
        let submitted = if draft.envelope.recipients.is_empty() {
            Ok(Submitted::Discarded)
        } else if let Some(reason) = draft.discarded.take() {
            draft.forget_blob();
            self.tell_dropped(Dropped::all(draft.envelope, reason), id, body_bytes);
            Ok(Submitted::Discarded)
        } else {
            let committed = commit(&ingress, draft, slots).await;
            committed.map(Submitted::Queued).inspect(|_| self.count.prove())
        };
        if let (Ok(_), Some(dropped)) = (&submitted, dropped) {
            self.tell_dropped(dropped, id, body_bytes);
        }
        self.let_envelope_go();
        submitted
    }

    /// All that is decided about the whole; `instead` are the recipients that stand for others and have
    /// no owner.
    async fn complete(&mut self, draft: &mut Draft, instead: Vec<u32>) -> Result<(), Refusal> {
        let ingress = Rc::clone(&self.ingress);
        draft.steering.check()?;
        if !instead.is_empty() {
            let leaving = leaving(&ingress, &draft.envelope, instead);
            let leaving = Answer::later(leaving);
            draft.forwarded = decided(&ingress.services, leaving, Grace::OfTransactions).await?;
        }
        if let Some(transaction) = self.transaction.take() {
            self.pass_stages(&transaction, draft).await?;
        }
        if draft.discarded.is_some() {
            return Ok(());
        }
        wants::of_message(&ingress, draft).await?;
        let services = &ingress.services;
        draft.additions.hold_room = room::reserve_held(services, draft, "")?;
        room::reserve_own_mailbox(services, &ingress.router.active().config, draft)
    }

    /// Asks the stages about the whole, if anybody is to get it.
    async fn pass_stages(
        &mut self,
        transaction: &Rc<Transaction>,
        draft: &mut Draft,
    ) -> Result<(), Refusal> {
        if draft.envelope.recipients.is_empty() {
            return Ok(());
        }
        draft.additions = transaction.take_additions();
        draft.choose_tenant(None)?;
        for recipient in std::mem::take(&mut draft.additions.recipients) {
            if let Some(refusal) = self.refuses_copy(&recipient.mailbox) {
                return Err(refusal);
            }
            draft.add_recipient(recipient);
        }
        let mut observers = self.intake.take_observers().into_iter().peekable();
        for (place, stage) in self.stages.iter().enumerate() {
            let observer = observers.next_if(|(of, _)| *of == place).map(|(_, observer)| observer);
            let decision = stage.content(transaction, draft, observer);
            let (services, time) = (&self.ingress.services, stage.content_time_max());
            decided_within(services, decision, Grace::OfTransactions, time).await?;
            if draft.discarded.is_some() {
                break;
            }
        }
        let count = draft.envelope.recipients.len();
        if count > RECIPIENTS_MAX {
            return Err(refusals::TOO_MANY_RECIPIENTS);
        }
        self.take_slots((count as u64).saturating_sub(self.slots.amount()))?;
        self.reserve_for_tenant(draft)
    }

    /// Takes slots of the queue for so many recipients more.
    fn take_slots(&mut self, count: u64) -> Result<(), Refusal> {
        let (services, shared) = (&self.ingress.services, &self.ingress.services.shared);
        let is_taken = match self.session.may_relay() || self.count.is_exempt() {
            true => self.slots.try_grow(count),
            false => {
                let ip = self.session.client().address.ip();
                shared.crowding.take(&shared.queue_slots, &mut self.slots, ip, count)
            }
        };
        if is_taken {
            return Ok(());
        }
        services.metrics.queue_full.inc();
        services.note_turned_away(PoolId::Queue);
        Err(refusals::QUEUE_FULL)
    }

    /// Room among what its tenant may have queued.
    fn reserve_for_tenant(&mut self, draft: &mut Draft) -> Result<(), Refusal> {
        let services = &self.ingress.services;
        let Some(tenancy) = &draft.tenancy else { return Ok(()) };
        let Some(max) = tenancy.tenant.queued_max else { return Ok(()) };
        let mut room = Share::none(&services.shared.tenants.queued(&tenancy.name, max));
        if !room.try_grow(draft.envelope.recipients.len() as u64) {
            services.metrics.tenant_queue_full.inc();
            return Err(refusals::TENANT_FULL);
        }
        draft.tenant_room = Some(room);
        Ok(())
    }

    /// Tells of recipients for which nothing was kept.
    fn tell_dropped(&self, dropped: Dropped, id: MessageId, body_bytes: u64) {
        let services = &self.ingress.services;
        let at = services.wall();
        for (reason, recipients) in dropped.reasons {
            let client = Arc::clone(self.session.client());
            let envelope = Some(Arc::clone(&dropped.envelope));
            let message = event::Message {
                id,
                position: None,
                envelope,
                received_at: at,
                body_bytes,
                labels: None,
            };
            services.events.emit(Event {
                at,
                message: Some(message),
                recipients: recipients.into(),
                kind: Kind::Discarded(Box::new(event::Discarded { client, reason })),
            });
        }
    }

    /// Ends the transaction with a refusal of its content.
    pub(super) fn refuse_content(&mut self, envelope: &Envelope, refusal: Refusal) -> Refusal {
        self.abandon();
        self.account(content_refused(envelope, Reply::from(refusal.clone())));
        refusal
    }

    fn let_envelope_go(&mut self) {
        self.intake.reset();
        self.envelope_bytes = 0;
        self.envelope.clear();
        self.resolutions.clear();
    }

    /// The transaction ended without a message.
    pub fn abandon(&mut self) {
        self.slots.clear();
        self.transaction = None;
        self.let_envelope_go();
    }
}

impl<W: World> Drop for Entrance<W> {
    fn drop(&mut self) {
        self.abandon();
        self.ingress.services.metrics.sessions_open.dec();
        self.ingress.count_end();
    }
}
