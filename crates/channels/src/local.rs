//! Delivery without a peer: a worker takes message after message, and delivers to one recipient at a
//! time.

use config::Settings;
use mail::{Class, EnhancedStatus, Failure, Reply};
use mta::delivery::{AttemptContext, Slot};
use mta::message::Message;
use mta::seams::World;
use queue::{Origin, Take, TransactionWork};
use smallvec::SmallVec;
use spool::LoadError;
use std::rc::Rc;

/// A recipient was delivered to.
pub(crate) struct Delivered {
    /// What the event log shows as the answer.
    pub(crate) reply: Reply,
    /// Where to, for the event log.
    pub(crate) place: String,
}

/// A recipient was not delivered to.
pub(crate) enum NotDelivered {
    /// The place failed.
    Failed {
        failure: Failure,
        /// Which place, for the event log.
        place: String,
    },
    /// Which place it would be can't be known now: that says nothing of any place.
    Unknown {
        failure: Failure,
        /// What is known of it, for the event log.
        place: String,
    },
    /// The spool could not read the body.
    Unreadable(LoadError),
}

/// What became of one recipient.
pub(crate) type Attempt = Result<Delivered, NotDelivered>;

/// Works off the slot's ready queue until it is empty, or until others wait for their first
/// worker. `deliver` takes the message to the recipient of the given index, in the turn of its origin, as the route's
/// settings have it.
pub(crate) async fn run<W: World, S: Settings>(
    slot: Slot<W>,
    deliver: impl AsyncFn(&Slot<W>, &S, &Rc<Message>, (u32, Origin)) -> Attempt,
) {
    let hop = Rc::clone(slot.hop());
    // Always its own: the key of a route says whose the settings are.
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

/// Tells how this machine bore a delivery: a disk that is full or gone suspends the route, as a peer
/// that refuses everything does, instead of deferring each message by itself. So does, later,
/// mailbox after mailbox that can't be written. One that has no room, or returns a message, works.
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
