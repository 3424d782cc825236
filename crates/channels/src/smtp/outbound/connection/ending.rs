//! The end of a transaction and of the connection: outcomes of recipients, the next host to try, and the reports about
//! the host to the queue.

use super::{Done, Finished, InFlight, OutboundConnection};
use crate::smtp::outbound::bearing::{self, HostHealth};
use crate::smtp::outbound::lacking::Made;
use crate::smtp::outbound::lesser::{self, Patience};
use crate::smtp::outbound::moves::TransactionId;
use crate::smtp::outbound::seat::Memory;
use crate::smtp::outbound::{opening, relay_of};
use mail::{Class, EnhancedStatus, Failure};
use mta::delivery::{AttemptContext, Slot};
use mta::message::Message;
use mta::routing::hop::NextHop;
use mta::routing::hosts::Others;
use mta::seams::World;
use queue::{CloseReason, TransactionWork};
use smallvec::SmallVec;
use smtp::client::{ClientEvent, Lesser};
use std::rc::Rc;
use std::sync::Arc;

impl<W: World> OutboundConnection<W> {
    /// Waits for the first outcome in flight, until another transaction may start.
    ///
    /// # Errors
    /// The reason for closing the connection; nothing is in flight then.
    pub(super) async fn finish_first(&mut self, hop: &Rc<NextHop>) -> Result<(), CloseReason> {
        let mut finished = Finished::default();
        loop {
            match self.next_event().await {
                ClientEvent::Done { outcomes, doubtful, answered, untried, lesson } => {
                    let done = Done { outcomes, doubtful, answered, untried, lesson };
                    self.finish(done, hop, &mut finished);
                }
                ClientEvent::Ready => return Ok(()),
                // Events of the opening.
                ClientEvent::StartTls
                | ClientEvent::Login
                | ClientEvent::Challenge(_)
                | ClientEvent::LoggedIn => {}
                ClientEvent::Closed(failure) => return Err(self.closed(failure, hop, &finished)),
            }
        }
    }

    /// Handles the outcome of the first transaction in flight.
    fn finish(&mut self, mut done: Done, hop: &Rc<NextHop>, finished: &mut Finished) {
        let Some(mut first) = self.in_flight.pop_front() else { return };
        if self.in_flight.is_empty() {
            // A waiting connection holds no message.
            self.dialogue.content = None;
        }
        if let Some(lesson) = done.lesson {
            hop.memory::<Memory>().lessons.learn(self.slot.now(), &self.peer, lesson);
        }
        if let Some(why) = &first.unreadable {
            self.slot.unreadable(&first.work, "body", why);
            finished.cut = true;
            return;
        }
        self.slot.leave_out_own(&first.message, &first.work, &mut done.outcomes);
        self.hear(&first, &done);
        if self.has_carried_before() && self.is_fit_for_another(&done) {
            self.slot.give_back(&first.work);
            finished.gave_back = true;
            return;
        }
        if done.doubtful {
            self.tell_doubtful(&first.message);
        }
        let has_wants = self.doubt(&mut done, &first, hop);
        // Only refusals need the sender, and to compute it may cost a signature.
        let is_taken = done.outcomes.iter().all(Result::is_ok);
        if !is_taken {
            let transcript = self.dialogue.transcript.borrow();
            let peer = &self.event_hop.peer;
            self.slot.keep_dialogue(|next_hop, at| transcript.dialogue(next_hop, peer, at));
        }
        let sender = first.work.entries.first().filter(|_| !is_taken);
        let sender = sender.and_then(|one| self.slot.reverse_path(&first.message, one.1));
        let bearing = HostHealth::of(&done.outcomes, sender.as_ref(), relay_of(hop).is_lmtp());
        let elsewhere = match has_wants {
            true => self.pass_over(&first.work, &bearing, hop),
            false => self.next_host_takes(&first.work, (&done, &bearing), hop, finished),
        };
        if elsewhere.is_empty() && !has_wants && !finished.goes_elsewhere {
            // A host's failure does not count against the next hop while another host is tried.
            bearing.tell(&done.outcomes, sender.as_ref(), (&self.slot, hop));
        }
        finished.concluded = true;
        let untried = joined(done.untried, elsewhere);
        let outcomes = give_back_untried(&self.slot, &mut first.work, done.outcomes, &untried);
        if !first.work.entries.is_empty() {
            self.conclude(&first, outcomes, hop);
        }
    }

    /// Passes the host's replies for recipients to shaping rules. Recipients beyond the transaction's limit are left
    /// out.
    fn hear(&mut self, first: &InFlight, done: &Done) {
        let InFlight { message, work, .. } = first;
        self.slot.note_verdict(&mut self.permit, &done.outcomes);
        if done.untried.is_empty() {
            return self.slot.heard((message, work), &done.outcomes);
        }
        let outcomes = done.outcomes.iter().zip(&work.entries).enumerate();
        let tried = outcomes.filter(|(index, _)| done.untried.binary_search(index).is_err());
        let (outcomes, entries): (Vec<_>, SmallVec<_>) =
            tried.map(|(_, (outcome, entry))| (outcome.clone(), *entry)).unzip();
        self.slot.heard((message, &work.part(entries)), &outcomes);
    }

    /// Turns refusals that are no verdict on the message into temporary failures. Returns true if some need a feature
    /// that another host may have.
    fn doubt(&mut self, done: &mut Done, first: &InFlight, hop: &NextHop) -> bool {
        if done.outcomes.iter().flatten().count() == done.outcomes.len() {
            return false;
        }
        let lesser = self.dialogue.wire.session.lesser();
        let age = self.slot.wall().since(first.message.received_at);
        let mut has_wants = false;
        opening::note_offers(&self.slot, self.seat.host(), &self.dialogue.wire.session);
        for (outcome, (_, _, attempts)) in done.outcomes.iter_mut().zip(&first.work.entries) {
            let Err(failure) = outcome else { continue };
            if failure.class == Class::Transient {
                continue;
            }
            let taken = std::mem::replace(failure, unknown());
            let is_own = taken.reply.is_none();
            *failure = if lesser::is_want(&taken) && (is_own || lesser.is_none()) {
                let (bytes, of) = (first.message.content_bytes(), transaction(&first.work));
                let made = if is_own { Made::Shown } else { Made::Said };
                if !is_own || lesser.is_none() {
                    let lacking = &hop.memory::<Memory>().lacking;
                    lacking.note(self.slot.now(), of, (self.seat.host(), made));
                }
                let known = (self.slot.now(), self.slot.known_hosts());
                let failure = lesser::of_one_host(taken, bytes, (hop, of), known);
                has_wants |= failure.class == Class::Transient;
                failure
            } else if let Some(lesser) = lesser {
                let patience = Patience { age, attempts: *attempts };
                let doubted = lesser::doubted(taken, lesser, patience);
                // The next session may offer more, and tries TLS again: in clear the reply would be the same.
                self.leave_at = self.slot.now();
                if lesser == Lesser::InClear && doubted.class == Class::Transient {
                    hop.memory::<Memory>().tls.doubt(&self.peer);
                }
                doubted
            } else {
                taken
            };
        }
        has_wants
    }

    /// Returns true if a transaction on a connection that has carried transactions before failed because of that
    /// connection. A fresh one may carry it at once.
    fn is_fit_for_another(&mut self, done: &Done) -> bool {
        if bearing::is_spent(&done.outcomes) {
            self.leave_at = self.slot.now();
            return true;
        }
        !done.doubtful && !done.answered && bearing::was_dead(&done.outcomes)
    }

    /// The session has ended. Returns the reason for the queue.
    fn closed(
        &mut self,
        failure: Option<Failure>,
        hop: &Rc<NextHop>,
        finished: &Finished,
    ) -> CloseReason {
        if finished.gave_back && !finished.concluded {
            // The kept connection was closed while idle: for its age or the peer's load (RFC 3463 §3.5).
            let of_load = |f: &Failure| f.reply.is_some() && f.status.subject != 4;
            bearing::tell_throttled(&self.seat, failure.filter(of_load), &self.slot);
            return CloseReason::Normal;
        }
        // Closed by this server for a local reason, or with QUIT: the peer has replied, but its session can't be used
        // further.
        if finished.cut || failure.is_none() && finished.concluded {
            return CloseReason::Normal;
        }
        // Never happens without a `Done` event, but the transactions must not be lost.
        while let Some(first) = self.in_flight.pop_front() {
            let outcomes = lost(&failure, first.work.entries.len());
            self.conclude(&first, outcomes, hop);
        }
        if finished.goes_elsewhere {
            // A host's failure does not count against the next hop while another host is tried.
            return CloseReason::Normal;
        }
        bearing::tell_throttled(&self.seat, failure, &self.slot);
        CloseReason::Lost
    }

    fn conclude(
        &self,
        done: &InFlight,
        outcomes: Vec<Result<mail::Reply, Failure>>,
        hop: &NextHop,
    ) {
        let context = AttemptContext {
            hop: Arc::clone(&self.event_hop),
            // RFC 2033 §2: an LMTP server does not relay; it has delivered.
            local: relay_of(hop).is_lmtp(),
            dsn_passed_on: self.dialogue.wire.session.capabilities().dsn,
            clock: done.clock,
        };
        self.slot.conclude(&done.message, &done.work, outcomes, &context);
    }

    /// The indices of recipients for which another host is tried at once. This host can't accept the message, and is
    /// not otherwise at fault.
    fn pass_over(
        &mut self,
        work: &TransactionWork,
        bearing: &HostHealth,
        hop: &NextHop,
    ) -> Vec<usize> {
        let others = hop.hosts_count().saturating_sub(1);
        if others == 0 {
            return Vec::new();
        }
        self.seat.pass_over(Others::All);
        self.leave_at = self.slot.now();
        let memory = hop.memory::<Memory>();
        if memory.moves.allow(self.leave_at, transaction(work), others) {
            return bearing.may_go_elsewhere(true);
        }
        memory.avoided.avoid(self.leave_at, transaction(work), (&self.peer, Others::All));
        Vec::new()
    }

    /// The indices of recipients for which another host or address of the next hop is tried at once. This one ended the
    /// transaction without a verdict, and is tried after the other hosts from now on.
    ///
    /// Empty if all alternatives failed or were tried, or if this host may have accepted the message. The next attempt
    /// then starts with another host.
    fn next_host_takes(
        &mut self,
        work: &TransactionWork,
        (done, bearing): (&Done, &HostHealth),
        hop: &NextHop,
        finished: &mut Finished,
    ) -> Vec<usize> {
        #[cfg(feature = "planted")]
        if self.slot.has_planted(mta::planted::Planted::StayAtHost) {
            return Vec::new();
        }
        let (now, memory) = (self.slot.now(), hop.memory::<Memory>());
        if bearing.has_verdict() {
            self.seat.well();
            memory.addresses.well(&self.peer);
        }
        let is_of_host = bearing.is_of_host();
        if is_of_host {
            memory.addresses.failed(now, &self.peer);
        }
        let hosts = hop.hosts_count().saturating_sub(1);
        let addresses = if is_of_host { self.addresses.len().saturating_sub(1) } else { 0 };
        if hosts + addresses == 0 {
            return Vec::new();
        }
        if is_of_host {
            self.stand_behind(done);
        }
        let has_another = self.seat.has_another_host()
            || is_of_host && memory.addresses.has_another(now, &self.addresses, &self.peer);
        finished.goes_elsewhere |= is_of_host && has_another;
        let was_tried = work.entries.first().is_some_and(|(_, _, attempts)| *attempts > 0);
        let elsewhere = bearing.may_go_elsewhere(was_tried);
        if !elsewhere.is_empty()
            && has_another
            && !done.doubtful
            && memory.moves.allow(now, transaction(work), hosts + addresses)
        {
            self.leave_at = now;
            if !is_of_host {
                self.seat.pass_over(Others::Well);
            }
            return elsewhere;
        }
        if is_of_host {
            memory.avoided.avoid(now, transaction(work), (&self.peer, Others::Well));
        }
        Vec::new()
    }

    /// RFC 5321 §5.1: all other hosts are tried before the same one again.
    fn stand_behind(&mut self, done: &Done) {
        let is_put_off = |failure: &Failure| {
            let reply = failure.reply.as_ref();
            reply.is_some_and(|reply| reply.code / 100 == 4 && reply.code != 421)
        };
        let outcomes = done.outcomes.iter();
        match outcomes.filter_map(|outcome| outcome.as_ref().err()).any(is_put_off) {
            true => self.seat.put_off(),
            false => self.seat.broke_off(),
        }
        self.leave_at = self.slot.now();
    }

    /// Returns true if the last attempt of a transaction ended here without a verdict, no other host was tried since,
    /// and an alternative exists. The connection is then closed.
    pub(super) fn is_avoided(&mut self, work: &TransactionWork, hop: &NextHop) -> bool {
        let (now, memory) = (self.slot.now(), hop.memory::<Memory>());
        let has_another = || {
            self.seat.has_another_host()
                || memory.addresses.has_another(now, &self.addresses, &self.peer)
        };
        let others = memory.avoided.avoided_for(now, transaction(work), &self.peer);
        match others {
            Some(Others::Well) if has_another() => memory.addresses.failed(now, &self.peer),
            // A connection opened for this transaction has tried the other hosts first.
            Some(Others::All) if self.carried > 0 => {}
            _ => return false,
        }
        self.seat.pass_over(others.unwrap_or(Others::Well));
        self.leave_at = now;
        true
    }

    /// Returns true if the connection carried transactions before the last one and those in flight.
    fn has_carried_before(&self) -> bool {
        self.carried as usize > 1 + self.in_flight.len()
    }

    fn tell_doubtful(&self, message: &Message) {
        self.slot.metrics().doubtful.inc();
        let id = message.id;
        self.slot.console().info(
            "doubtful",
            format_args!("reply to the final dot lost, a duplicate may follow id={id}"),
        );
    }
}

fn transaction(work: &TransactionWork) -> TransactionId {
    (work.id, work.entries.first().map_or(0, |(_, index, _)| *index))
}

/// Placeholder for a failure that is being replaced.
fn unknown() -> Failure {
    Failure::local(Class::Transient, EnhancedStatus::new(4, 0, 0), "")
}

fn lost(failure: &Option<Failure>, count: usize) -> Vec<Result<mail::Reply, Failure>> {
    let failure = failure.clone().unwrap_or_else(|| {
        Failure::local(
            Class::Transient,
            EnhancedStatus::new(4, 4, 2),
            "the session ended during the transaction",
        )
    });
    vec![Err(failure); count]
}

/// Requeues the recipients at `untried`, which failed only with the transaction. The remaining ones stay in `work`,
/// with their outcomes.
fn give_back_untried<W: World>(
    slot: &Slot<W>,
    work: &mut TransactionWork,
    outcomes: Vec<Result<mail::Reply, Failure>>,
    untried: &[usize],
) -> Vec<Result<mail::Reply, Failure>> {
    if untried.is_empty() {
        return outcomes;
    }
    let is_untried = |index: usize| untried.binary_search(&index).is_ok();
    let mut rest = work.part(SmallVec::new());
    for (index, entry) in std::mem::take(&mut work.entries).into_iter().enumerate() {
        let whose = if is_untried(index) { &mut rest } else { &mut *work };
        whose.entries.push(entry);
    }
    slot.give_back(&rest);
    let outcomes = outcomes.into_iter().enumerate();
    outcomes.filter(|(index, _)| !is_untried(*index)).map(|(_, outcome)| outcome).collect()
}

/// Merges indices in order, without duplicates.
fn joined(mut places: Vec<usize>, more: Vec<usize>) -> Vec<usize> {
    places.extend(more);
    places.sort_unstable();
    places.dedup();
    places
}
