//! Delivery without a peer: a worker processes messages in turn, one recipient at a time.

use config::Settings;
use mail::{Class, EnhancedStatus, Failure, Reply};
use mta::delivery::{AttemptContext, Slot};
use mta::message::Message;
use mta::seams::World;
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
    let hop = Rc::clone(slot.hop());
    // Never `None`: the key of a route selects the channel that its settings belong to.
    let Some(settings) = hop.channel.of::<S>() else { return };
    let mut permit = slot.worker().await;
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
        if permit.must_go() {
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
        let (result, place, is_known) =
            match deliver(slot, settings, &message, (index, work.origin)).await {
                Ok(Delivered { reply, place }) => (Ok(reply), place, true),
                Err(NotDelivered::Failed { failure, place }) => (Err(failure), place, true),
                Err(NotDelivered::Unknown { failure, place }) => (Err(failure), place, false),
                Err(NotDelivered::Unreadable(why)) => {
                    slot.unreadable(&one, "body", &why);
                    continue;
                }
            };
        if is_known {
            tell_bearing(slot, &result);
        }
        let hop = slot.hop().event_hop(&place, None, None);
        let context = AttemptContext { hop, local: true, dsn_passed_on: false };
        slot.conclude(&message, &one, vec![result], &context);
    }
}

/// Reports to the slot whether this machine can deliver. A full or missing disk suspends the route, like a peer that
/// refuses everything, instead of deferring each message by itself. A series of mailboxes that can't be written does
/// the same, but later. A mailbox that is full, or that returns a message, counts as working.
fn tell_bearing<W: World>(slot: &Slot<W>, result: &Result<Reply, Failure>) {
    match result {
        // RFC 3463 §3.3: X.2 is the mailbox, X.2.2 a full one.
        Err(failure)
            if failure.class == Class::Transient
                && failure.status != EnhancedStatus::new(4, 2, 2) =>
        {
            slot.deferred(failure, failure.status.subject == 2);
        }
        _ => slot.accepted(),
    }
}
