//! One message on its way in, from MAIL or its like to the final reply.

use super::account::{account, content_refused};
use super::decisions::{Grace, RecipientResolver, decided};
use super::intake::Intake;
use super::limits::ClientCount;
use super::recipients::Resolutions;
use super::session::Session;
use super::stage::{Resolved, Stages, TransactionView};
use super::wants::Wants;
use super::{Ingress, refusals};
use crate::answer::{Answer, Decision};
use crate::budget::Share;
use crate::clients::Rate;
use crate::pools::PoolId;
use crate::seams::World;
use mail::{Envelope, Recipient, Refusal, Reply};
use std::rc::Rc;

/// One transaction: [`Transaction::recipient`] and [`Transaction::keep`] for each recipient, [`Transaction::reserve`],
/// content through [`Transaction::intake`], and [`Transaction::submit`] at its end. Dropped, it ends without a message.
///
/// It needs no more of its connection than who is there: others may be under way beside it.
pub struct Transaction<W: World> {
    pub(super) ingress: Rc<Ingress<W>>,
    pub(super) session: Rc<Session>,
    pub(super) count: Rc<ClientCount<W>>,
    pub(super) stages: Stages,
    /// What stages see of it. `None` where there is no stage to be asked.
    pub(super) view: Option<Rc<TransactionView>>,
    /// What the message needs, as far as MAIL has shown it.
    pub(super) wants: Wants,
    /// Recipients that are not kept as they were given.
    pub(super) resolutions: Resolutions,
    /// Queue slots reserved for its recipients.
    pub(super) slots: Share,
    /// What the recipients draw of body memory; `None`: nothing yet.
    pub(super) envelope: Option<Share>,
    /// About what they take.
    pub(super) envelope_bytes: u64,
    pub(super) intake: Intake<W>,
}

impl<W: World> Transaction<W> {
    pub(super) fn new(
        ingress: &Rc<Ingress<W>>,
        (session, count): (&Rc<Session>, &Rc<ClientCount<W>>),
        stages: Stages,
        view: Option<Rc<TransactionView>>,
        wants: Wants,
    ) -> Transaction<W> {
        let blob_bytes = ingress.router.active().config.spool.blob_bytes;
        Transaction {
            ingress: Rc::clone(ingress),
            session: Rc::clone(session),
            count: Rc::clone(count),
            stages,
            view,
            wants,
            resolutions: Resolutions::default(),
            slots: Share::none(&ingress.services.shared.queue_slots),
            envelope: None,
            envelope_bytes: 0,
            intake: Intake::new(&ingress.services, &ingress.custody, blob_bytes),
        }
    }

    /// Whether this client may send to this recipient, and what becomes of it. Several may be open
    /// at once; whoever asked about one says [`Transaction::keep`] when it is taken.
    #[must_use]
    pub fn recipient(&self, recipient: &Recipient) -> Decision<'static, Resolved> {
        if self.count.is_exhausted(Rate::Refusals) {
            return Answer::Now(Err(refusals::REFUSALS));
        }
        let asked = RecipientResolver {
            services: Rc::clone(&self.ingress.services),
            active: self.ingress.router.active(),
            session: Rc::clone(&self.session),
            stages: Rc::clone(&self.stages),
            view: self.view.clone(),
            debt: self.count.debt(),
        };
        asked.ask(recipient)
    }

    /// Makes room in the queue for `recipients` that were kept, before content is asked for, so that
    /// what is committed always fits.
    ///
    /// # Errors
    /// When there is none, or nothing can be written, or a stage wants no content. The transaction stays open, for
    /// more recipients.
    pub async fn reserve(&mut self, recipients: usize) -> Result<(), Refusal> {
        if self.ingress.custody.is_poisoned() {
            return Err(refusals::CANNOT_WRITE);
        }
        // One that was refused before leaves nothing for this one.
        self.slots.clear();
        self.intake.clear_arrangements();
        if self.session.listener().takes_internet_mail() {
            self.intake.end_header();
        }
        let kept = self.resolutions.count_kept(recipients);
        self.take_slots(kept as u64)?;
        if kept == 0 {
            self.intake.discard();
        }
        if let Some(view) = &self.view {
            for (place, stage) in self.stages.iter().enumerate() {
                decided(&self.ingress.services, stage.data(view), Grace::OfTransactions).await?;
                if let Some(observer) = stage.observe(view) {
                    self.intake.observe(place, observer);
                }
                if let Some(name) = stage.speaks_as(view) {
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

    /// Takes slots of the queue for so many recipients more.
    pub(super) fn take_slots(&mut self, count: u64) -> Result<(), Refusal> {
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

    /// Refuses the content, for the account and at the client's cost.
    pub(super) fn refuse_content(&self, envelope: &Envelope, refusal: Refusal) -> Refusal {
        let refused = content_refused(envelope, Reply::from(refusal.clone()));
        account(&self.ingress, self.session.client(), refused);
        // Beyond the limit there is nothing more to count: it is looked at where it is too late.
        let _ = self.count.charge(Rate::Refusals);
        refusal
    }
}

impl<W: World> Drop for Transaction<W> {
    fn drop(&mut self) {
        self.intake.reset();
    }
}
