//! Recipients of reports, and rules for when a report is sent.

use crate::delivery::Delivery;
use crate::delivery::verdict::{RecipientResult, is_wanted};
use crate::event::Kind;
use crate::facts::{KeptOwner, Owner};
use crate::message::Message;
use crate::routing::Active;
use crate::routing::addresses::reports_of;
use crate::seams::World;
use config::{ReportTo, Reports};
use mail::{Culprit, Failure, Mailbox, Notify};
use std::rc::Rc;
use std::sync::Arc;

/// The recipients of one message in one report.
#[derive(Debug)]
pub(super) struct ReportGroup {
    pub(super) reports: Arc<Reports>,
    /// The owner of the list that the recipients are on; gets the report in place of the sender.
    pub(super) owner: Option<Owner>,
    /// The message has a null reverse-path: it is a DSN itself, perhaps, and was not delivered. The report goes to the
    /// postmaster.
    pub(super) is_notice: bool,
    pub(super) judged: Vec<RecipientResult>,
}

impl ReportGroup {
    /// The report's main subject: failure, else delay, else success.
    pub(super) fn wish(&self) -> Notify {
        let has = |wish| self.judged.iter().any(|judged| judged.verdict.wish() == wish);
        [Notify::FAILURE, Notify::DELAY]
            .into_iter()
            .find(|wish| has(*wish))
            .unwrap_or(Notify::SUCCESS)
    }

    /// The address in the report's `To`, if any.
    pub(super) fn address<'a>(&'a self, message: &'a Message) -> Option<&'a Mailbox> {
        if self.is_notice {
            return self.reports.double_bounce_to.as_ref();
        }
        match &self.reports.to {
            ReportTo::Sender => self.sender(message),
            ReportTo::Address(address) => Some(address),
            ReportTo::Nobody => self.reports.copy_to.as_ref(),
        }
    }

    /// The sender for the recipients in this group: the list's owner or the reverse-path.
    fn sender<'a>(&'a self, message: &'a Message) -> Option<&'a Mailbox> {
        let owner = self.owner.as_ref().map(|owner| &owner.address);
        owner.or(message.envelope.reverse_path.as_ref())
    }

    /// The envelope recipients of the report. An owner is an alias, and was expanded when the message was accepted.
    pub(super) fn recipients(&self, message: &Message) -> Vec<Mailbox> {
        let first = self.address(message);
        let owner = self.owner.as_ref().filter(|owner| first == Some(&owner.address));
        let mut to: Vec<Mailbox> = match owner {
            Some(owner) => owner.reports_to.to_vec(),
            None => first.into_iter().cloned().collect(),
        };
        let copy =
            self.reports.copy_to.as_ref().filter(|copy| !self.is_notice && !to.contains(copy));
        to.extend(copy.cloned());
        to
    }

    /// Returns true if the report would have no recipient.
    fn is_void(&self, message: &Message) -> bool {
        self.reports.directory.is_none() && self.recipients(message).is_empty()
    }
}

/// Returns true if a report about this recipient is due.
pub(crate) fn is_due<W: World>(
    delivery: &Delivery<W>,
    message: &Message,
    judged: &RecipientResult,
) -> bool {
    let wish = judged.verdict.wish();
    if message.envelope.reverse_path.is_none() {
        // Null reverse-path; the message of a usual sender skips these lookups.
        return judged.is_given_up()
            && is_noticed(&delivery.router.active(), message, judged.index);
    }
    if !is_wanted(message, judged.index, wish) {
        return false;
    }
    let active = delivery.router.active();
    let reports = reports_of(&active, message, judged.index);
    if is_bait(message, judged, reports) {
        return false;
    }
    let is_to_stranger = message.is_from_stranger() && message.owner_of(judged.index).is_none();
    wish != Notify::DELAY || !is_to_stranger || reports.delays_to_strangers
}

/// Returns true if the report would be backscatter. An unauthenticated client chose its recipient, and could cause the
/// failure at will: by requesting an unsupported extension or by malformed content. A host's own reply can't be caused
/// in this manner, and the owner of a list or the route's report address is chosen by the operator alone.
fn is_bait(message: &Message, judged: &RecipientResult, reports: &Reports) -> bool {
    message.is_unvouched()
        && reports.to == ReportTo::Sender
        && message.owner_of(judged.index).is_none()
        && judged.failure().is_some_and(|failure| failure.reply.is_none() && is_of_words(failure))
}

/// Returns true if the message's content or requested extensions caused the failure.
fn is_of_words(failure: &Failure) -> bool {
    match (&failure.culprit, (failure.status.subject, failure.status.detail)) {
        (Culprit::Conversion(_), _) => true,
        // A Delivered-To field shows that the mailbox got the message before; other loops are between hosts.
        (Culprit::Local, (4, 6)) => true,
        // SIZE, 8BITMIME, SMTPUTF8 and other forms; REQUIRETLS (RFC 8689 §4.2.1).
        (_, status) => matches!(status, (3, 4) | (6, _) | (7, 10 | 30)),
    }
}

/// Returns true if the postmaster gets a notice about a failed message with a null reverse-path. False for messages to
/// the notice address itself.
fn is_noticed(active: &Active, message: &Message, index: u32) -> bool {
    let reports = reports_of(active, message, index);
    let recipient = message.envelope.recipients.get(index as usize);
    let address = reports.double_bounce_to.as_ref();
    address.is_some_and(|address| recipient.is_some_and(|r| r.mailbox != *address))
}

/// Splits results into groups, one per report, and results without a report.
pub(super) fn sort<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Message,
    judged: Vec<RecipientResult>,
) -> (Vec<ReportGroup>, Vec<RecipientResult>) {
    let active = delivery.router.active();
    let (due, mut rest): (Vec<RecipientResult>, Vec<RecipientResult>) =
        judged.into_iter().partition(|judged| is_due(delivery, message, judged));
    let is_notice = message.envelope.reverse_path.is_none();
    let mut groups: Vec<ReportGroup> = Vec::new();
    for judged in due {
        let reports = reports_of(&active, message, judged.index);
        let owner = message.owner_of(judged.index);
        let is_of = |group: &ReportGroup| {
            let address = group.owner.as_ref().map(|owner| owner.address.as_str());
            Arc::ptr_eq(&group.reports, reports) && address == owner.map(|owner| owner.address)
        };
        match groups.iter_mut().find(|group| is_of(group)) {
            Some(group) => group.judged.push(judged),
            None => groups.push(ReportGroup {
                reports: Arc::clone(reports),
                owner: owner.and_then(KeptOwner::read),
                is_notice,
                judged: vec![judged],
            }),
        }
    }
    groups.retain_mut(|group| {
        let Some(why) = why_not(delivery, message, group) else { return true };
        delivery.services.metrics.dsns_suppressed.inc();
        let action = super::action_name(group.wish());
        super::tell(delivery, message, Kind::DsnSuppressed { action, why }, None);
        rest.append(&mut group.judged);
        false
    });
    (groups, rest)
}

/// The reason for which a due report is not written, if any.
fn why_not<W: World>(
    delivery: &Delivery<W>,
    message: &Message,
    group: &ReportGroup,
) -> Option<&'static str> {
    if group.is_void(message) {
        return Some("off");
    }
    let max = group.reports.per_sender_per_hour;
    let sender = group.sender(message).filter(|_| message.is_from_stranger())?;
    let is_admitted =
        max == 0 || delivery.services.shared.reports.admit(sender, delivery.services.now(), max);
    (!is_admitted).then_some("limit")
}
