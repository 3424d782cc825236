//! Delivery without a peer: a worker processes messages in turn, one recipient at a time.

use bytes::Bytes;
use config::Settings;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Reply};
use mta::delivery::{AttemptClock, AttemptContext, Slot};
use mta::line::Permit;
use mta::message::{Message, SentBy};
use mta::seams::World;
use mta::tables::NoEntry;
use queue::{Origin, Take, TransactionWork};
use smallvec::SmallVec;
use spool::LoadError;
use std::rc::Rc;

/// A successful delivery to a recipient.
pub(crate) struct Delivered {
    /// Shown as the reply in the event log.
    pub(crate) reply: Reply,
    /// Destination, for the event log.
    pub(crate) place: String,
}

/// A failed delivery to a recipient.
pub(crate) enum NotDelivered {
    /// The destination failed.
    Failed {
        failure: Failure,
        /// Destination, for the event log.
        place: String,
    },
    /// The destination can't be determined now, so the failure is not counted against any.
    Unknown {
        failure: Failure,
        /// The known part of the destination, for the event log.
        place: String,
    },
    /// The destination works, and decided so about this message.
    OfMessage {
        failure: Failure,
        /// Destination, for the event log.
        place: String,
    },
    /// The spool could not read the body.
    Unreadable(LoadError),
}

/// Result of a delivery attempt to one recipient.
pub(crate) type Attempt = Result<Delivered, NotDelivered>;

/// Works through the slot's ready queue until it is empty, or until other routes wait for their first worker. `deliver`
/// delivers the message to the recipient with the given index, in the turn of its origin, by the route's settings.
pub(crate) async fn run<W: World, S: Settings>(
    slot: Slot<W>,
    deliver: impl AsyncFn(&Slot<W>, &S, &Rc<Message>, (u32, Origin)) -> Attempt,
) {
    let permit = slot.worker().await;
    work_through(slot, Some(permit), deliver).await;
}

/// The same for a route with its own limit and long work, which must not occupy the shared workers.
pub(crate) async fn run_apart<W: World, S: Settings>(
    slot: Slot<W>,
    deliver: impl AsyncFn(&Slot<W>, &S, &Rc<Message>, (u32, Origin)) -> Attempt,
) {
    work_through(slot, None, deliver).await;
}

async fn work_through<W: World, S: Settings>(
    slot: Slot<W>,
    mut permit: Option<Permit>,
    deliver: impl AsyncFn(&Slot<W>, &S, &Rc<Message>, (u32, Origin)) -> Attempt,
) {
    let hop = Rc::clone(slot.hop());
    // Never `None`: the key of a route selects the channel that its settings belong to.
    let Some(settings) = hop.channel.of::<S>() else { return };
    slot.opened();
    loop {
        let work = match slot.take(0) {
            Take::Work(work) => work,
            Take::Wait | Take::Close => return,
        };
        slot.note_behind(&work);
        let _busy = slot.busy();
        if slot.is_stopping() {
            slot.give_back(&work);
            return;
        }
        deliver_each(&slot, settings, &work, &deliver).await;
        if permit.as_mut().is_some_and(Permit::must_go) {
            return;
        }
    }
}

async fn deliver_each<W: World, S: Settings>(
    slot: &Slot<W>,
    settings: &S,
    work: &TransactionWork,
    deliver: &impl AsyncFn(&Slot<W>, &S, &Rc<Message>, (u32, Origin)) -> Attempt,
) {
    let place = slot.place_to_load(work.id, work.origin);
    let Some(message) = slot.load_mail(place, work).await else { return };
    for entry in &work.entries {
        let index = entry.1;
        if message.envelope.recipients.get(index as usize).is_none() {
            continue;
        }
        let one = work.part(SmallVec::from_slice(&[*entry]));
        let begun = slot.now();
        let (result, place) = match deliver(slot, settings, &message, (index, work.origin)).await {
            Ok(Delivered { reply, place }) => {
                slot.accepted();
                (Ok(reply), place)
            }
            Err(NotDelivered::Failed { failure, place }) => {
                tell_bearing(slot, &failure);
                (Err(failure), place)
            }
            Err(NotDelivered::OfMessage { failure, place }) => {
                slot.accepted();
                (Err(failure), place)
            }
            Err(NotDelivered::Unknown { failure, place }) => (Err(failure), place),
            Err(NotDelivered::Unreadable(why)) => {
                slot.unreadable(&one, "body", &why);
                continue;
            }
        };
        let hop = slot.hop().event_hop(&place, None, None);
        let clock = AttemptClock { begun: Some(begun), opening_ms: 0 };
        let context = AttemptContext { hop, local: true, dsn_passed_on: false, clock };
        slot.conclude(&message, &one, vec![result], &context);
    }
}

/// The failure of a recipient without a table entry.
pub(crate) fn without_entry(why: NoEntry, place: &str) -> NotDelivered {
    let place = place.to_owned();
    match why {
        NoEntry::Gone(failure) => NotDelivered::Failed { failure, place },
        NoEntry::Unanswered { failure, .. } => NotDelivered::Unknown { failure, place },
    }
}

/// Reports to the slot whether this machine can deliver. A full or missing disk suspends the route, like a peer that
/// refuses everything, instead of deferring each message by itself. A series of mailboxes that can't be written does
/// the same, but later. A mailbox that is full, or that returns a message, counts as working.
fn tell_bearing<W: World>(slot: &Slot<W>, failure: &Failure) {
    // RFC 3463 §3.3: X.2 is the mailbox, X.2.2 a full one.
    match failure.class == Class::Transient && failure.status != EnhancedStatus::new(4, 2, 2) {
        true => slot.deferred(failure, failure.status.subject == 2),
        false => slot.accepted(),
    }
}

/// The fields above a delivered message: Return-Path (RFC 5321 §4.4), Delivered-To for loop detection, and this server's
/// own.
pub(crate) fn fields_at_delivery(message: &Message, index: u32, recipient: &Mailbox) -> Bytes {
    let sender = match message.sent_by(index) {
        SentBy::Owner(owner) => owner,
        SentBy::Sender | SentBy::Rewritten => message.sender(),
    };
    let mut top = format!("Return-Path: <{sender}>\r\nDelivered-To: {recipient}\r\n").into_bytes();
    top.extend_from_slice(&message.prefix);
    Bytes::from(top)
}

/// The start of a body without the Return-Path fields that it arrived with. At final delivery there is exactly one, and
/// mail readers would take an old one for ours (RFC 5321 §4.4). `None` if the message was delivered to this
/// recipient before.
pub(crate) fn as_delivered(start: &Bytes, recipient: &Mailbox) -> Option<Vec<Bytes>> {
    let mut pieces = Vec::with_capacity(1);
    let mut kept = 0;
    for field in mail::header::fields(start) {
        if field.is("Return-Path") {
            pieces.push(start.slice(kept..field.range.start));
            kept = field.range.end;
        } else if field.is("Delivered-To")
            && field.unfolded().eq_ignore_ascii_case(recipient.as_str().as_bytes())
        {
            return None;
        }
    }
    pieces.push(start.slice(kept..));
    Some(pieces)
}

/// RFC 3463 §3.5: X.4.6 is a loop.
pub(crate) fn looped(recipient: &Mailbox) -> Failure {
    let text = format!("mail loop: the message was already delivered to {recipient}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 4, 6), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipient() -> Mailbox {
        Mailbox::parse("you@here.test", false).unwrap()
    }

    #[test]
    fn a_return_path_that_came_along_does_not_stay() {
        let kept = |text: &'static str| {
            let pieces = as_delivered(&Bytes::from_static(text.as_bytes()), &recipient());
            pieces.map(|pieces| String::from_utf8(pieces.concat()).unwrap())
        };
        assert_eq!(
            kept(
                "Return-Path: <a@b>\r\nSubject: x\r\nreturn-path : <c@d>\r\n (more)\r\nTo: y\r\n\r\n\
                 Return-Path: <in@the.body>\r\n"
            )
            .as_deref(),
            Some("Subject: x\r\nTo: y\r\n\r\nReturn-Path: <in@the.body>\r\n")
        );
        assert_eq!(kept("Subject: x\r\n\r\nbody").as_deref(), Some("Subject: x\r\n\r\nbody"));
        assert_eq!(kept("").as_deref(), Some(""));
    }

    #[test]
    fn what_was_in_this_mailbox_before_is_known() {
        let loops = |text: &'static str| {
            as_delivered(&Bytes::from_static(text.as_bytes()), &recipient()).is_none()
        };
        assert!(loops("Subject: x\r\nDelivered-To: you@here.test\r\n\r\n"));
        assert!(loops("delivered-to:\r\n You@HERE.test \r\n\r\n"));
        assert!(!loops("Delivered-To: me@here.test\r\nX-Delivered-To: you@here.test\r\n\r\n"));
        assert!(!loops("Subject: x\r\n\r\nDelivered-To: you@here.test\r\n"));
    }
}
