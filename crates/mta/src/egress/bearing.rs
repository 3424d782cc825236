//! How a peer bears what it is given: what the outcomes of a transaction, and the end of a
//! connection, say of the host rather than of the message.

use super::NextHop;
use super::Slot;
use super::connection::Connection;
use super::host::is_put_off;
use crate::config::Channel;
use crate::seams::World;
use mail::{EnhancedStatus, Failure, Step};
use std::sync::Arc;

impl<W: World> Connection<W> {
    /// The recipients, by their places, that another host of the next hop is asked to take at once:
    /// this one put the transaction off, and stands behind the others from now on. None when all
    /// others stand behind, too.
    pub(super) fn next_host_takes(
        &mut self,
        outcomes: &[Result<mail::Reply, Failure>],
        hop: &NextHop,
    ) -> Vec<usize> {
        let put_off = |outcome: &Result<_, Failure>| outcome.as_ref().is_err_and(is_put_off);
        let is_put_off = match hop.channel {
            // Each recipient has a reply of its own behind the content (RFC 2033 §4.2).
            Channel::Lmtp(_) => outcomes.iter().all(put_off),
            _ => outcomes.iter().any(put_off),
        };
        let Some(seat) = self.seat.as_ref().filter(|_| is_put_off && hop.has_other_hosts()) else {
            return Vec::new();
        };
        // RFC 5321 §5.1: the other hosts are to be tried before the same one again.
        seat.put_off();
        let now = self.shard.now();
        self.leave_at = now;
        if !hop.states.has_one_in_front(now, &hop.hosts) {
            return Vec::new();
        }
        (0..outcomes.len()).filter(|index| put_off(&outcomes[*index])).collect()
    }

    /// Tells how the peer bore a transaction: taken, or refused as a whole for now. (421 is told
    /// when the peer goes.)
    pub(super) fn tell_bearing(&self, outcomes: &[Result<mail::Reply, Failure>], slot: &Slot<W>) {
        let now = self.shard.now();
        let mut queue = self.shard.queue.borrow_mut();
        if outcomes.iter().any(Result::is_ok) {
            return queue.handle_accepted(now, slot.ready);
        }
        let code = |failure: &Failure| failure.reply.as_ref().map_or(0, |reply| reply.code);
        let refused = |outcome: &Result<mail::Reply, Failure>| {
            outcome.as_ref().is_err_and(|failure| matches!(code(failure), 400..=420 | 422..=499))
        };
        if let Some(Err(failure)) = outcomes.first().filter(|_| outcomes.iter().all(refused)) {
            let of_recipients = failure.is_of_recipient();
            queue.handle_refused(now, slot.ready, Arc::new(failure.clone()), of_recipients);
        }
    }

    /// Says so if the peer went away for a reason that more connections won't help.
    pub(super) fn tell_throttled(&self, failure: Option<Failure>, slot: &Slot<W>) {
        let Some(failure) = failure else { return };
        let said_421 = failure.reply.as_ref().is_some_and(|reply| reply.code == 421);
        if said_421 && let Some(seat) = &self.seat {
            seat.crowded();
        }
        if said_421 || is_timeout_or_loss(&failure) {
            let (now, failure) = (self.shard.now(), Arc::new(failure));
            self.shard.queue.borrow_mut().handle_throttled(now, slot.ready, failure);
        }
    }

    /// The peer closed a kept connection before it could know of this transaction, or said 421 when
    /// it heard of it (which it may have said before): that is no fault of the message's, and a
    /// fresh connection may take it at once.
    pub(super) fn was_dead(&self, outcomes: &[Result<mail::Reply, Failure>]) -> bool {
        let is_of_session = |failure: &Failure| match &failure.reply {
            Some(reply) => reply.code == 421,
            None => is_timeout_or_loss(failure),
        };
        self.has_carried_before()
            && outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(is_of_session))
    }

    /// RFC 5321 §4.3.2: "bad sequence of commands" is no word about a MAIL on a connection that has
    /// carried others: the peer takes no more on it, and a fresh one may carry it at once.
    pub(super) fn is_spent(&self, outcomes: &[Result<mail::Reply, Failure>]) -> bool {
        let refused_mail = |failure: &Failure| {
            failure.step == Some(Step::MailFrom)
                && failure.reply.as_ref().is_some_and(|reply| reply.code == 503)
        };
        let is_refused = |outcome: &Result<_, Failure>| outcome.as_ref().is_err_and(refused_mail);
        self.has_carried_before() && outcomes.iter().all(is_refused)
    }

    /// Transactions besides the one that ended last and those in flight behind it.
    fn has_carried_before(&self) -> bool {
        self.carried as usize > 1 + self.in_flight.len()
    }
}

/// Tells how this machine bore a delivery of its own: a disk that is full or gone suspends the route, as
/// a peer that refuses everything does, instead of deferring each message by itself. So does, later,
/// mailbox after mailbox that can't be written.
pub(super) fn tell_local<W: World>(slot: &Slot<W>, result: &Result<mail::Reply, Failure>) {
    let now = slot.shard.now();
    let mut queue = slot.shard.queue.borrow_mut();
    match result {
        Ok(_) => queue.handle_accepted(now, slot.ready),
        Err(failure) => {
            // RFC 3463 §3.3: X.2 is the mailbox.
            let of_mailbox = failure.status.subject == 2;
            queue.handle_refused(now, slot.ready, Arc::new(failure.clone()), of_mailbox);
        }
    }
}

fn is_timeout_or_loss(failure: &Failure) -> bool {
    failure.status == EnhancedStatus::new(4, 4, 2)
}
