//! How a peer bears what it is given: what the outcomes of a transaction, and the end of a
//! connection, say of the host rather than of the message.

use super::relay_of;
use super::seat::{self, Seat};
use mail::{EnhancedStatus, Failure, Reply, Step};
use mta::delivery::Slot;
use mta::routing::hop::NextHop;
use mta::seams::World;

/// What became of one recipient of a transaction.
type Outcome = Result<Reply, Failure>;

/// Whether the peer put a recipient off together with its transaction: another host may take it.
pub(super) fn puts_off(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(seat::is_put_off)
}

/// Whether the peer put a transaction off.
pub(super) fn is_put_off(outcomes: &[Outcome], hop: &NextHop) -> bool {
    match relay_of(hop).is_lmtp() {
        // Each recipient has a reply of its own behind the content (RFC 2033 §4.2).
        true => outcomes.iter().all(puts_off),
        false => outcomes.iter().any(puts_off),
    }
}

/// Tells how the peer bore a transaction: taken, or refused as a whole for now. (421 is told when
/// the peer goes.)
pub(super) fn tell_bearing<W: World>(outcomes: &[Outcome], slot: &Slot<W>) {
    if outcomes.iter().any(Result::is_ok) {
        return slot.accepted();
    }
    let code = |failure: &Failure| failure.reply.as_ref().map_or(0, |reply| reply.code);
    let refused = |outcome: &Outcome| {
        outcome.as_ref().is_err_and(|failure| matches!(code(failure), 400..=420 | 422..=499))
    };
    if let Some(Err(failure)) = outcomes.first().filter(|_| outcomes.iter().all(refused)) {
        slot.deferred(failure, failure.is_of_recipient());
    }
}

/// Says so if the peer went away for a reason that more connections won't help.
pub(super) fn tell_throttled<W: World>(
    seat: &Seat<W::Time>,
    failure: Option<Failure>,
    slot: &Slot<W>,
) {
    let Some(failure) = failure else { return };
    let said_421 = failure.reply.as_ref().is_some_and(|reply| reply.code == 421);
    if said_421 {
        seat.crowded();
    }
    if said_421 || is_timeout_or_loss(&failure) {
        slot.throttled(failure);
    }
}

/// On a connection that has carried others: the peer closed it before it could know of this
/// transaction, or said 421 when it heard of it (which it may have said before). That is no fault of
/// the message's, and a fresh connection may take it at once.
pub(super) fn was_dead(outcomes: &[Outcome]) -> bool {
    let is_of_session = |failure: &Failure| match &failure.reply {
        Some(reply) => reply.code == 421,
        None => is_timeout_or_loss(failure),
    };
    outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(is_of_session))
}

/// RFC 5321 §4.3.2: "bad sequence of commands" is no word about a MAIL on a connection that has
/// carried others: the peer takes no more on it, and a fresh one may carry it at once.
pub(super) fn is_spent(outcomes: &[Outcome]) -> bool {
    let refused_mail = |failure: &Failure| {
        failure.step == Some(Step::MailFrom)
            && failure.reply.as_ref().is_some_and(|reply| reply.code == 503)
    };
    outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(refused_mail))
}

fn is_timeout_or_loss(failure: &Failure) -> bool {
    failure.status == EnhancedStatus::new(4, 4, 2)
}
