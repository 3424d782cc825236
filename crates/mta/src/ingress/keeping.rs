//! Adds recipients and their expansions to a transaction.

use super::decisions::kept_by;
use super::stage::{ExpandedRecipient, Resolved};
use super::{Transaction, refusals};
use crate::budget::Share;
use crate::clients::Rate;
use crate::seams::World;
use mail::{Mailbox, Recipient, Refusal};

/// Step by which recipients draw on the body memory budget. The first step is free, like a small body.
const ENVELOPE_STEP_BYTES: u64 = 16 * 1024;

impl<W: World> Transaction<W> {
    /// Adds a recipient to the transaction with its resolution.
    ///
    /// # Errors
    /// The recipient is refused after all: a limit, memory, or a missing capability of the next hop.
    pub fn keep(&mut self, recipient: &Recipient, resolved: Resolved) -> Result<(), Refusal> {
        self.resolutions.admit(&resolved)?;
        if !self.count.charge(Rate::Recipients) {
            return Err(refusals::RECIPIENTS);
        }
        self.hold_recipient(recipient)?;
        let resolved = match resolved {
            Resolved::Replaced(others) => self.keep_others(recipient, others)?,
            other => other,
        };
        if !self.session.may_relay()
            && let Some(refusal) = self.lacked(&recipient.mailbox, &resolved)
        {
            return Err(refusal);
        }
        self.count_recipient()?;
        self.resolutions.add(&recipient.mailbox, resolved);
        Ok(())
    }

    /// The capability that all hosts of a recipient are known not to offer, as a refusal.
    fn lacked(&self, given: &Mailbox, resolved: &Resolved) -> Option<Refusal> {
        let active = self.ingress.router.active();
        self.wants.lacked_by_those(&self.ingress.services, &active, (given, resolved))
    }

    /// The expanded recipients, except those with a route that discards mail.
    fn keep_others(
        &mut self,
        of: &Recipient,
        others: Box<[ExpandedRecipient]>,
    ) -> Result<Resolved, Refusal> {
        // The client is charged for each expanded recipient: each costs a lookup and a delivery.
        self.count.charge_more(Rate::Recipients, others.len().saturating_sub(1));
        let active = self.ingress.router.active();
        let (mut kept, mut dropped) = (Vec::with_capacity(others.len()), None);
        for other in others {
            let (listener, may_relay) = (self.session.listener(), self.session.may_relay());
            let Some(route) = active.route_of(&other.recipient.mailbox) else {
                if may_relay && active.may_have_conditions(&other.recipient.mailbox.domain()) {
                    // A route takes it by its conditions when it falls due.
                    self.hold_recipient(&other.recipient)?;
                    kept.push(other);
                    continue;
                }
                return Err(refusals::NO_ROUTE);
            };
            let (rcpt, member) = (&of.mailbox, &other.recipient.mailbox);
            let refused = active.config.refuses_member(listener, may_relay, rcpt, member, route);
            if let Some(refusal) = refused {
                return Err(refusal);
            }
            match kept_by(Some(route)) {
                Resolved::Kept => {
                    self.hold_recipient(&other.recipient)?;
                    kept.push(other);
                }
                why => dropped = Some(why),
            }
        }
        Ok(dropped.filter(|_| kept.is_empty()).unwrap_or_else(|| Resolved::Replaced(kept.into())))
    }

    /// The refusal for an address to which a stage wants to send a copy, if it may not get one.
    pub(super) fn refuses_copy(&self, to: &Mailbox) -> Option<Refusal> {
        let active = self.ingress.router.active();
        let route = active.route_of(to)?;
        let (listener, may_relay) = (self.session.listener(), self.session.may_relay());
        active.config.refuses_copy(listener, may_relay, to, route)
    }

    /// Reserves memory for a recipient.
    fn hold_recipient(&mut self, recipient: &Recipient) -> Result<(), Refusal> {
        let text =
            recipient.mailbox.as_str().len() + recipient.orcpt.as_ref().map_or(0, |o| o.len());
        // The record, its texts and its entry in the index.
        self.envelope_bytes += (size_of::<Recipient>() + text + 64) as u64;
        let held = self.envelope.as_ref().map_or(0, Share::amount);
        if self.envelope_bytes <= held + ENVELOPE_STEP_BYTES {
            return Ok(());
        }
        let memory = &self.ingress.services.shared.body_memory;
        let share = self.envelope.get_or_insert_with(|| Share::none(memory));
        if share.try_grow(ENVELOPE_STEP_BYTES) { Ok(()) } else { Err(refusals::NO_MEMORY) }
    }
}
