//! From complete content to a message that is durable and queued, or discarded.

use super::commit::commit;
use super::decisions::{Grace, decided, decided_within};
use super::draft::Draft;
use super::foreign::NativeMessage;
use super::forwarding::leaving;
use super::recipients::{Applied, Dropped};
use super::stage::{Stage, TransactionView};
use super::transaction::Transaction;
use super::{refusals, room, wants};
use crate::answer::Answer;
use crate::budget::Share;
use crate::event::{self, Event, Kind};
use crate::facts::SentFrom;
use crate::seams::World;
use crate::steering::Steering;
use mail::{ContentFacts, Envelope, MessageId, Refusal, RequireTls};
use spool::RECIPIENTS_MAX;
use std::rc::Rc;
use std::sync::Arc;

/// A complete message from the protocol handler.
#[derive(Debug)]
pub struct Submission {
    /// The envelope. Its recipients are the kept ones.
    pub envelope: Envelope,
    /// Facts about the content as received.
    pub facts: ContentFacts,
    /// The client requested REQUIRETLS (RFC 8689 §2).
    pub requires_tls: bool,
    /// Delivery options from the protocol.
    pub steering: Steering,
    /// `None` for internet mail.
    pub foreign: Option<NativeMessage>,
}

impl Submission {
    /// Internet mail with defaults for everything but the envelope.
    #[must_use]
    pub fn new(envelope: Envelope, facts: ContentFacts) -> Submission {
        let steering = Steering::default();
        Submission { envelope, facts, requires_tls: false, steering, foreign: None }
    }
}

/// The result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Durable and queued.
    Queued(MessageId),
    /// Accepted, but discarded for all recipients.
    Discarded,
}

impl<W: World> Transaction<W> {
    /// Submits the content for the reserved recipients: runs the stages, makes the message durable and queues it. The
    /// transaction then ends.
    ///
    /// # Errors
    /// The refusal, already accounted for. No data of the message is kept.
    pub async fn submit(&mut self, submission: Submission) -> Result<Submitted, Refusal> {
        let ingress = Rc::clone(&self.ingress);
        // If all content arrived in one read, the protocol handler held no guard.
        let _busy = ingress.services.stopping.guard();
        let submitted = match self.draft(submission).await {
            Ok(draft) => self.submit_draft(draft).await,
            Err((envelope, refusal)) => {
                self.intake.reset();
                Err(self.refuse_content(&envelope, refusal))
            }
        };
        if let (Ok(_), Some(limits)) = (&submitted, &mut self.limits) {
            limits.keep();
        }
        // Released now, since the protocol handler may drop the transaction later.
        self.limits = None;
        self.slots.clear();
        self.envelope = None;
        self.intake.reset();
        submitted
    }

    /// The message as received.
    async fn draft(&mut self, submission: Submission) -> Result<Box<Draft>, (Envelope, Refusal)> {
        let Submission { envelope, facts, requires_tls, steering, foreign } = submission;
        // Foreign content has no header.
        let header = match &foreign {
            Some(_) => None,
            None => Some(self.intake.header()),
        };
        let hops = header.map_or(0, |header| header.received_count);
        if hops > self.session.listener().max_hops as usize {
            return Err((envelope, refusals::LOOP));
        }
        let content = match self.intake.finish().await {
            Ok(content) => content,
            Err(refusal) => return Err((envelope, refusal)),
        };
        let (client, contents) = (Arc::clone(self.session.client()), Rc::clone(&self.ingress) as _);
        let facts = self.intake.facts_of(facts);
        let mut draft = Box::new(Draft::new(content, envelope, facts, client, contents));
        draft.is_from_stranger = !self.session.may_relay();
        // `TLS-Required: No` is accepted from every sender (RFC 8689 §4.1): it affects only their own message.
        let asks_for_none = header.is_some_and(|header| header.asks_for_no_tls);
        draft.require_tls = RequireTls::of(requires_tls, asks_for_none);
        draft.steering = steering;
        match foreign {
            Some(foreign) => draft.take_foreign(foreign),
            None => draft.tenants = Arc::clone(&self.ingress.router.active().config.tenants),
        }
        Ok(draft)
    }

    async fn submit_draft(&mut self, mut draft: Box<Draft>) -> Result<Submitted, Refusal> {
        let ingress = Rc::clone(&self.ingress);
        let (id, body_bytes) = (draft.id(), draft.facts.body_bytes);
        let Applied { dropped, instead, records } = self.resolutions.apply(&mut draft.envelope);
        if let Some(records) = records {
            draft.records = records;
        }
        let completed = self.complete(&mut draft, instead).await;
        ingress.services.metrics.count_checked(&draft.additions.checked);
        if let Err(refusal) = completed {
            draft.rejoin();
            return Err(self.refuse_content(&draft.envelope, refusal));
        }
        let slots = Share::none(&ingress.services.shared.queue_slots);
        let slots = std::mem::replace(&mut self.slots, slots);
        let submitted = if draft.envelope.recipients.is_empty() {
            Ok(Submitted::Discarded)
        } else if let Some(reason) = draft.discarded.take() {
            draft.rejoin();
            self.tell_dropped(Dropped::all(draft.envelope, reason), id, body_bytes);
            Ok(Submitted::Discarded)
        } else {
            let committed = commit(&ingress, draft, slots).await;
            committed.map(Submitted::Queued).inspect(|_| self.count.prove())
        };
        if let (Ok(_), Some(dropped)) = (&submitted, dropped) {
            self.tell_dropped(dropped, id, body_bytes);
        }
        submitted
    }

    /// Runs all decisions about the whole message. `instead` are the expanded recipients without a list owner.
    async fn complete(&mut self, draft: &mut Draft, instead: Vec<u32>) -> Result<(), Refusal> {
        let ingress = Rc::clone(&self.ingress);
        if !draft.is_foreign {
            draft.steering.check()?;
        }
        if !instead.is_empty() {
            let of = (&draft.envelope, self.session.client().requester());
            let leaving = Answer::later(leaving(&ingress, of, instead));
            for index in decided(&ingress.services, leaving, Grace::OfTransactions).await? {
                draft.records.get_mut(index).from = SentFrom::Rewritten;
            }
        }
        if let Some(view) = self.view.take() {
            self.pass_stages(&view, draft).await?;
        }
        if draft.discarded.is_some() {
            return Ok(());
        }
        if let Some(reason) = self.exceeds() {
            draft.hold(&reason);
            draft.twins.iter_mut().for_each(|twin| twin.hold(&reason));
        }
        self.reserve_room(draft).await?;
        for twin in &mut draft.twins {
            self.reserve_room(twin).await?;
        }
        // Last, because a refusal after it would not give it back.
        let (active, services) = (ingress.router.active(), &ingress.services);
        room::reserve_own_mailbox(services, &active.config, draft)?;
        let mut twins = draft.twins.iter();
        twins.try_for_each(|twin| room::reserve_own_mailbox(services, &active.config, twin))
    }

    /// The last decisions about one message.
    async fn reserve_room(&self, draft: &mut Draft) -> Result<(), Refusal> {
        wants::of_message(&self.ingress, draft).await?;
        draft.additions.hold_room = room::reserve_held(&self.ingress.services, draft)?;
        Ok(())
    }

    /// Passes the message through the stages, unless no recipient is left.
    async fn pass_stages(
        &mut self,
        view: &Rc<TransactionView>,
        draft: &mut Draft,
    ) -> Result<(), Refusal> {
        if draft.envelope.recipients.is_empty() {
            return Ok(());
        }
        draft.additions = view.take_additions();
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
            // A stage that splits the message changes all parts itself.
            let is_split = !draft.twins.is_empty();
            let decision = stage.content(view, draft, observer);
            let (services, time) = (&self.ingress.services, stage.content_time_max());
            decided_within(services, decision, Grace::OfTransactions, time).await?;
            if draft.discarded.is_some() {
                break;
            }
            if is_split {
                self.pass_twins(&**stage, view, draft).await?;
            }
        }
        let count = draft.recipients_count();
        if count > RECIPIENTS_MAX {
            return Err(refusals::TOO_MANY_RECIPIENTS);
        }
        self.take_slots((count as u64).saturating_sub(self.slots.amount()))?;
        self.reserve_for_tenant(draft)?;
        draft.twins.iter_mut().try_for_each(|twin| self.reserve_for_tenant(twin))
    }

    /// Passes messages that an earlier stage split off through a stage. Its observer sees their own content.
    async fn pass_twins(
        &self,
        stage: &dyn Stage,
        view: &Rc<TransactionView>,
        draft: &mut Draft,
    ) -> Result<(), Refusal> {
        for twin in &mut draft.twins {
            let mut observer = stage.observe(view);
            let mut offset = 0;
            while let Some(observer) = &mut observer {
                let piece = twin.read(offset).await?;
                if piece.is_empty() {
                    break;
                }
                observer.push(&piece);
                offset += piece.len() as u64;
            }
            let (services, time) = (&self.ingress.services, stage.content_time_max());
            let decision = stage.content(view, twin, observer);
            decided_within(services, decision, Grace::OfTransactions, time).await?;
        }
        Ok(())
    }

    /// Reserves capacity in the tenant's `queued_max`.
    fn reserve_for_tenant(&self, draft: &mut Draft) -> Result<(), Refusal> {
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

    /// Emits events for discarded recipients.
    fn tell_dropped(&self, dropped: Dropped, id: MessageId, body_bytes: u64) {
        let services = &self.ingress.services;
        let at = services.wall();
        let Dropped { envelope, reasons } = dropped;
        for (reason, recipients) in reasons {
            let client = Arc::clone(self.session.client());
            let message = event::EventMessage {
                id,
                position: None,
                envelope: Some(Arc::clone(&envelope)),
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
}
