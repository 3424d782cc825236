//! A transaction: one incoming message, from MAIL or its equivalent to the final reply.

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
use crate::rate_limits::LimitCharges;
use crate::seams::World;
use mail::{Envelope, Recipient, Refusal, Reply};
use std::rc::Rc;

/// One transaction. Call [`Transaction::recipient`] and [`Transaction::keep`] for each recipient,
/// [`Transaction::reserve`], then send content through [`Transaction::intake`], and end with [`Transaction::submit`].
/// Dropping it ends it without a message.
///
/// It shares only the client's identity with its connection, so several may be open at once.
pub struct Transaction<W: World> {
    pub(super) ingress: Rc<Ingress<W>>,
    pub(super) session: Rc<Session>,
    pub(super) count: Rc<ClientCount<W>>,
    pub(super) stages: Stages,
    /// The transaction for stages and conditions of routes. `None` without either.
    pub(super) view: Option<Rc<TransactionView>>,
    /// The capabilities that the message needs of the next hop, from MAIL.
    pub(super) wants: Wants,
    /// The announced size of the content, from MAIL.
    size: Option<u64>,
    /// Its counts towards limits. `None` if none applies.
    pub(super) limits: Option<Box<LimitCharges>>,
    /// Recipients that were expanded or dropped.
    pub(super) resolutions: Resolutions,
    /// See [`Transaction::note_repeated`].
    repeated: usize,
    /// Queue slots reserved for its recipients.
    pub(super) slots: Share,
    /// The recipients' share of body memory. `None` before they draw on it.
    pub(super) envelope: Option<Share>,
    /// Approximate memory for recipients.
    pub(super) envelope_bytes: u64,
    pub(super) intake: Intake<W>,
}

impl<W: World> Transaction<W> {
    pub(super) fn new(
        ingress: &Rc<Ingress<W>>,
        (session, count): (&Rc<Session>, &Rc<ClientCount<W>>),
        stages: Stages,
        view: Option<Rc<TransactionView>>,
        (wants, size, limits): (Wants, Option<u64>, Option<Box<LimitCharges>>),
    ) -> Transaction<W> {
        let blob_bytes = ingress.router.active().config.spool.blob_bytes;
        Transaction {
            ingress: Rc::clone(ingress),
            session: Rc::clone(session),
            count: Rc::clone(count),
            stages,
            view,
            wants,
            size,
            limits,
            resolutions: Resolutions::default(),
            repeated: 0,
            slots: Share::none(&ingress.services.shared.queue_slots),
            envelope: None,
            envelope_bytes: 0,
            intake: Intake::new(&ingress.services, &ingress.custody, blob_bytes),
        }
    }

    /// Decides about a recipient. Several may be pending at once. Call [`Transaction::keep`] once one is accepted.
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
            check: Rc::clone(&self.ingress.mailbox_check),
            size: self.size,
        };
        asked.ask(recipient)
    }

    /// Notes the number of recipients that the client named again, for stages that count repetitions, too.
    pub fn note_repeated(&mut self, recipients: usize) {
        self.repeated = recipients;
    }

    /// Reserves queue slots for `recipients`, before the content is requested, so that a committed message always fits.
    ///
    /// # Errors
    /// No capacity, a spool that can't be written, or a refusal by a stage. The transaction stays open for more
    /// recipients.
    pub async fn reserve(&mut self, recipients: usize) -> Result<(), Refusal> {
        if self.ingress.custody.is_poisoned() {
            return Err(refusals::CANNOT_WRITE);
        }
        // Resets the arrangements of an earlier attempt that was refused.
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
            view.note_recipients(recipients.saturating_add(self.repeated));
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

    /// The sink for the content.
    #[must_use]
    pub fn intake(&mut self) -> &mut Intake<W> {
        &mut self.intake
    }

    /// Reserves more queue slots.
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

    /// Accounts for refused content and charges the client.
    pub(super) fn refuse_content(&self, envelope: &Envelope, refusal: Refusal) -> Refusal {
        let refused = content_refused(envelope, Reply::from(refusal.clone()));
        account(&self.ingress, self.session.client(), refused);
        // The result is not needed here: the limit is checked when the next transaction begins.
        let _ = self.count.charge(Rate::Refusals);
        refusal
    }
}

impl<W: World> Drop for Transaction<W> {
    fn drop(&mut self) {
        self.intake.reset();
    }
}
