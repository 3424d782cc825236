//! Who is told of what.

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

/// Recipients of one message that are reported in one report.
#[derive(Debug)]
pub(super) struct ReportGroup {
    pub(super) reports: Arc<Reports>,
    /// Who answers for the list that they are on, and is told in the sender's place.
    pub(super) owner: Option<Owner>,
    /// The message has no sender: it is a report itself, perhaps, and comes to nothing. The
    /// postmaster is told.
    pub(super) is_notice: bool,
    pub(super) judged: Vec<RecipientResult>,
}

impl ReportGroup {
    /// What the report is about, above all.
    pub(super) fn wish(&self) -> Notify {
        let has = |wish| self.judged.iter().any(|judged| judged.verdict.wish() == wish);
        [Notify::FAILURE, Notify::DELAY]
            .into_iter()
            .find(|wish| has(*wish))
            .unwrap_or(Notify::SUCCESS)
    }

    /// Whom the report is addressed to, if to anybody.
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

    /// From whom those that it is about got the message.
    fn sender<'a>(&'a self, message: &'a Message) -> Option<&'a Mailbox> {
        let owner = self.owner.as_ref().map(|owner| &owner.address);
        owner.or(message.envelope.reverse_path.as_ref())
    }

    /// Whom it is sent to: an owner is an alias, and was looked up at the acceptance.
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

    /// Nobody would see it.
    fn is_void(&self, message: &Message) -> bool {
        self.reports.directory.is_none() && self.recipients(message).is_empty()
    }
}

/// Whether a report about this recipient is due.
pub(crate) fn is_due<W: World>(
    delivery: &Delivery<W>,
    message: &Message,
    judged: &RecipientResult,
) -> bool {
    let wish = judged.verdict.wish();
    if message.envelope.reverse_path.is_none() {
        // The usual message has a sender and none of this.
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

/// Whether a report would go to whoever a stranger named, for what the stranger asked for and no host has, or wrote
/// so that it fails: anybody could have reports sent to anybody so. What a host says itself is no such thing, and who
/// answers for a list, or has the reports of the route, was named by nobody but the operator.
fn is_bait(message: &Message, judged: &RecipientResult, reports: &Reports) -> bool {
    message.is_unvouched()
        && reports.to == ReportTo::Sender
        && message.owner_of(judged.index).is_none()
        && judged.failure().is_some_and(|failure| failure.reply.is_none() && is_of_words(failure))
}

/// Whether what the message is or asks for brought the failure about.
fn is_of_words(failure: &Failure) -> bool {
    match (&failure.culprit, (failure.status.subject, failure.status.detail)) {
        (Culprit::Conversion(_), _) => true,
        // A field says that it was delivered to the mailbox before; other loops are of hosts.
        (Culprit::Local, (4, 6)) => true,
        // SIZE, 8BITMIME, SMTPUTF8 and other forms; TLS all the way (RFC 8689 §4.2.1).
        (_, status) => matches!(status, (3, 4) | (6, _) | (7, 10 | 30)),
    }
}

/// Whether the postmaster is told of a message without a sender that failed. Not of those that
/// were sent to tell the postmaster.
fn is_noticed(active: &Active, message: &Message, index: u32) -> bool {
    let reports = reports_of(active, message, index);
    let recipient = message.envelope.recipients.get(index as usize);
    let address = reports.double_bounce_to.as_ref();
    address.is_some_and(|address| recipient.is_some_and(|r| r.mailbox != *address))
}

/// Divides what is reported, by report, from what isn't.
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

/// Why a report that is due is not made.
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
