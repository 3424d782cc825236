//! One SMTP or LMTP connection: transaction after transaction until the queue has none for it.

use super::content::{self, Wire, WriteError};
use super::encoding::{self, Encoding, Fit};
use super::host::Seat;
use super::opening::{self, OpenError};
use super::{NextHop, Slot};
use crate::config::{Channel, EightBit};
use crate::event::Hop;
use crate::line::{Permit, Who};
use crate::message::Message;
use crate::outcome::{self, Concluded};
use crate::seams::{Endpoint, Stream, World};
use crate::shard::{Busy, Shard};
use mail::{BodyType, Class, EnhancedStatus, Failure, Mono};
use queue::{CloseReason, EntryOutcome, Take, Work};
use smallvec::SmallVec;
use smtp::client::{ClientEvent, Outgoing, OutgoingRecipient, Output};
use spool::LoadError;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// An open connection with what its transactions share.
pub(super) struct Connection<W: World> {
    pub(super) shard: Rc<Shard<W>>,
    pub(super) wire: Wire<W>,
    pub(super) event_hop: Arc<Hop>,
    /// The host's address.
    pub(super) peer: Endpoint,
    /// Scratch for the pieces to write.
    pub(super) plan: Vec<Output>,
    /// Transactions so far.
    pub(super) carried: u32,
    /// Transactions whose outcome isn't known yet, the oldest first.
    pub(super) in_flight: VecDeque<InFlight>,
    /// The peer went away while nothing was asked of it: there is nobody to say QUIT to.
    pub(super) peer_closed: bool,
    /// It carries no further message from then on.
    pub(super) leave_at: Mono,
    /// Its place among the connections to its host, once it is open.
    pub(super) seat: Option<Seat<W>>,
    /// One of the connections that the process may have open.
    pub(super) permit: Permit,
}

/// A transaction that was started.
pub(super) struct InFlight {
    work: Work,
    message: Rc<Message>,
    /// How its body is made fit for the peer.
    encoding: Option<Rc<Encoding>>,
    /// The spool could not read its body to the end: the connection was cut there.
    unreadable: Option<LoadError>,
}

/// Counts an open connection while it lives.
struct OpenGauge<W: World>(Rc<Shard<W>>);

impl<W: World> Drop for OpenGauge<W> {
    fn drop(&mut self) {
        self.0.metrics.connections_open.dec();
    }
}

/// How a wait for work ended.
enum Idled {
    Woken,
    Timeout,
    Closed,
    /// The queue counts on this connection, and has to be told that it is gone.
    ClosedWhileWoken,
}

/// Opens a connection for the slot's ready queue and works it off.
pub(super) async fn run<W: World>(shard: Rc<Shard<W>>, mut slot: Slot<W>, hop: Rc<NextHop>) {
    let mut connection = match opening::open(&shard, slot.ready, &hop).await {
        Ok(connection) => connection,
        Err(OpenError::NotNeeded) => return slot.not_needed(),
        Err(OpenError::Later(failure)) => {
            shard.metrics.connections_failed.inc();
            return slot.open_failed(Arc::new(failure));
        }
        Err(OpenError::Never(failure)) => {
            shard.metrics.connections_failed.inc();
            return slot.refused(Arc::new(failure));
        }
    };
    shard.metrics.connections_opened.inc();
    shard.metrics.connections_open.inc();
    let _open = OpenGauge(Rc::clone(&shard));
    slot.opened();
    while let Some(work) = connection.next_work(&mut slot, &hop).await {
        let busy = Rc::clone(&shard);
        let _busy = Busy::new(&busy.stopping);
        if let Err(reason) = connection.carry(work, &hop, &slot).await {
            slot.closing(reason);
            return;
        }
    }
    if !connection.peer_closed {
        connection.quit().await;
    }
}

impl<W: World> Connection<W> {
    /// The next message for this connection; waits for one as long as idling is allowed. `None`:
    /// it is time to QUIT.
    async fn next_work(&mut self, slot: &mut Slot<W>, hop: &NextHop) -> Option<Work> {
        let idle = hop.channel.peer().map_or(Duration::ZERO, |peer| peer.idle_timeout);
        let until = self.shard.now() + idle;
        // Who has several goes when others wait for their first.
        if self.carried > 0 && self.permit.must_go() {
            return None;
        }
        loop {
            let now = self.shard.now();
            if hop.superseded.get() || now >= self.leave_at || self.has_carried_all() {
                return None;
            }
            let take = self.shard.queue.borrow_mut().take(now, slot.ready, self.carried);
            match take {
                Take::Work(work) => return Some(work),
                Take::Close => return None,
                Take::Wait if self.shard.stopping.until().is_some() => return None,
                Take::Wait => {}
            }
            match self.idle(slot, until).await {
                Idled::Woken => {}
                Idled::Timeout => {
                    slot.closing(CloseReason::Idle);
                    return None;
                }
                Idled::Closed => {
                    slot.closing(CloseReason::Idle);
                    self.peer_closed = true;
                    return None;
                }
                Idled::ClosedWhileWoken => {
                    self.peer_closed = true;
                    return None;
                }
            }
        }
    }

    /// Waits until woken or `until`, or until the peer goes.
    async fn idle(&mut self, slot: &Slot<W>, until: Mono) -> Idled {
        let shard = Rc::clone(&self.shard);
        let now = shard.now();
        let place = shard.idle.enter(slot.ready);
        shard.queue.borrow_mut().handle_idle(now, slot.ready);
        shard.pump();
        if shard.shared.connections.is_tight() {
            shard.idle.tell_entered();
        }
        let ended = poll_fn(|cx| {
            if place.poll_woken(cx).is_ready() {
                return Poll::Ready(Idled::Woken);
            }
            if place.is_asked_to_go() && self.permit.should_go() {
                return Poll::Ready(Idled::Timeout);
            }
            if self.poll_quiet(cx).is_ready() {
                return Poll::Ready(Idled::Closed);
            }
            self.wire.alarm.poll(cx, until).map(|()| Idled::Timeout)
        })
        .await;
        // Whoever is no longer in the list was woken, and must ask the queue again.
        match (shard.idle.leave(slot.ready, &place), ended) {
            (true, ended) => ended,
            (false, Idled::Closed) => Idled::ClosedWhileWoken,
            (false, _) => {
                self.permit.stay();
                Idled::Woken
            }
        }
    }

    /// Ready when the peer says anything, or goes: it has no business to while nothing is asked.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        self.wire.stream.poll_read(cx, &mut byte).map(|_| ())
    }

    /// Performs a transaction, and others in flight with it for as long as there are any, and
    /// concludes their recipients.
    ///
    /// # Errors
    /// Why the connection must be closed.
    async fn carry(
        &mut self,
        work: Work,
        hop: &Rc<NextHop>,
        slot: &Slot<W>,
    ) -> Result<(), CloseReason> {
        self.begin(work, hop, slot).await?;
        while !self.in_flight.is_empty() {
            while self.in_flight.len() < self.in_flight_max(hop) && !self.has_carried_all() {
                let now = self.shard.now();
                let take = self.shard.queue.borrow_mut().take(now, slot.ready, self.carried);
                // What else the queue says it will say again when nothing is in flight.
                let Take::Work(work) = take else { break };
                self.begin(work, hop, slot).await?;
            }
            self.finish_first(hop, slot).await?;
        }
        Ok(())
    }

    /// As many transactions as the peer takes in a session (RFC 9422 §4.1).
    fn has_carried_all(&self) -> bool {
        self.wire.session.capabilities().mail_max.is_some_and(|max| self.carried >= max)
    }

    /// Leaves as many recipients in the transaction as the peer takes, and gives the others back.
    fn limit_recipients(&self, work: &mut Work, hop: &NextHop) {
        let offered = self.wire.session.capabilities().recipients_max.map(|max| max as usize);
        let learnt = hop.lessons.recipients_max(self.shard.now(), &self.peer);
        let max = offered.unwrap_or(usize::MAX).min(learnt.unwrap_or(usize::MAX)).max(1);
        if work.entries.len() > max {
            let rest = Work { id: work.id, entries: work.entries.drain(max..).collect() };
            give_back(&self.shard, &rest);
        }
    }

    fn in_flight_max(&self, hop: &NextHop) -> usize {
        let offered = self.wire.session.capabilities();
        match hop.channel.peer() {
            Some(peer) if offered.pipelining && offered.chunking => {
                peer.transactions_in_flight as usize
            }
            _ => 1,
        }
    }

    /// Starts a transaction, as soon as those in flight let it.
    async fn begin(
        &mut self,
        mut work: Work,
        hop: &Rc<NextHop>,
        slot: &Slot<W>,
    ) -> Result<(), CloseReason> {
        self.limit_recipients(&mut work, hop);
        let who = Who::new(self.shard.number, slot.ready.0);
        let place = self.shard.place_to_read(who, work.id);
        if place.as_ref().is_some_and(|place| !place.is_served()) {
            // Who waits for memory holds none.
            while !self.in_flight.is_empty() {
                if let Err(reason) = self.finish_first(hop, slot).await {
                    give_back(&self.shard, &work);
                    return Err(reason);
                }
            }
        }
        let message = match self.shard.message_in_turn(place, work.id).await {
            Ok(message) => message,
            Err(why) => {
                outcome::unreadable(&self.shard, &work, "record", &why);
                return Ok(());
            }
        };
        let mut outgoing = outgoing(&message, &work);
        if let Some((entry, ..)) = work.entries.first() {
            let expires = self.shard.queue.borrow().expiry(*entry);
            // What is too old by now is having its last try, which takes as long as it takes.
            let now = self.shard.now();
            outgoing.expires = expires.filter(|at| *at > now).unwrap_or(Mono::NEVER);
        }
        if outgoing.smtputf8 && outgoing.facts.has_8bit {
            match content::has_8bit_header(&self.shard, &message).await {
                Ok(is_so) => outgoing.header_is_8bit = is_so,
                Err(why) => {
                    outcome::unreadable(&self.shard, &work, "body", &why);
                    return Ok(());
                }
            }
        }
        let encoding = match self.encoding(&mut outgoing, &message, hop).await {
            Ok(encoding) => encoding,
            Err(why) => {
                outcome::unreadable(&self.shard, &work, "body", &why);
                return Ok(());
            }
        };
        while !self.wire.session.can_start(&outgoing) {
            if let Err(reason) = self.finish_first(hop, slot).await {
                give_back(&self.shard, &work);
                return Err(reason);
            }
        }
        self.carried += 1;
        self.shard.metrics.transactions.inc();
        self.wire.session.start(self.shard.now(), outgoing);
        self.in_flight.push_back(InFlight { work, message, encoding, unreadable: None });
        self.write().await;
        Ok(())
    }

    /// Makes the body fit for the peer, where the route has it encoded.
    async fn encoding(
        &self,
        outgoing: &mut Outgoing,
        message: &Message,
        hop: &NextHop,
    ) -> Result<Option<Rc<Encoding>>, LoadError> {
        if hop.channel.peer().is_none_or(|peer| peer.eight_bit != EightBit::Encode) {
            return Ok(None);
        }
        let takes_eight_bit = self.wire.session.capabilities().eight_bit_mime;
        match encoding::fit(&self.shard, message, takes_eight_bit).await? {
            Fit::AsItIs => Ok(None),
            Fit::Encoded(encoding) => {
                outgoing.facts = encoding.facts;
                if !takes_eight_bit {
                    outgoing.body = BodyType::SevenBit;
                    // What is left is in header fields, of which 8BITMIME doesn't speak.
                    outgoing.eight_bit_as_is = true;
                }
                Ok(Some(Rc::new(encoding)))
            }
            Fit::Unfit => {
                // There is nobody to tell that a report was lost; nearly every peer takes it.
                outgoing.eight_bit_as_is = outgoing.reverse_path.is_none();
                Ok(None)
            }
        }
    }

    /// Waits for the outcome of the first in flight, and until another may be started.
    ///
    /// # Errors
    /// Why the connection must be closed; nothing is in flight then.
    async fn finish_first(&mut self, hop: &Rc<NextHop>, slot: &Slot<W>) -> Result<(), CloseReason> {
        let (mut gave_back, mut concluded, mut cut) = (false, false, false);
        loop {
            match self.next_event().await {
                ClientEvent::Done { outcomes, doubtful, answered, untried, lesson } => {
                    let Some(mut first) = self.in_flight.pop_front() else { continue };
                    if let Some(lesson) = lesson {
                        hop.lessons.learn(self.shard.now(), &self.peer, lesson);
                    }
                    if let Some(why) = &first.unreadable {
                        outcome::unreadable(&self.shard, &first.work, "body", why);
                        cut = true;
                        continue;
                    }
                    let is_spent = self.is_spent(&outcomes);
                    if is_spent || !doubtful && !answered && self.was_dead(&outcomes) {
                        if is_spent {
                            self.leave_at = self.shard.now();
                        }
                        give_back(&self.shard, &first.work);
                        gave_back = true;
                        continue;
                    }
                    if doubtful {
                        self.tell_doubtful(&first.message);
                    }
                    let elsewhere = self.next_host_takes(&outcomes, hop);
                    if elsewhere.is_empty() {
                        // What one host says is not the next hop's word while another is to be asked.
                        self.tell_bearing(&outcomes, slot);
                    }
                    concluded = true;
                    let untried = joined(untried, elsewhere);
                    let outcomes =
                        give_back_untried(&self.shard, &mut first.work, outcomes, &untried);
                    if !first.work.entries.is_empty() {
                        self.conclude(&first, outcomes, hop);
                    }
                }
                ClientEvent::Ready => return Ok(()),
                ClientEvent::StartTls => {}
                // The kept connection was closed while nothing was asked of it; RFC 3463 §3.5: for
                // its age, or for the peer's load.
                ClientEvent::Closed(failure) if gave_back && !concluded => {
                    let of_load = |f: &Failure| f.reply.is_some() && f.status.subject != 4;
                    self.tell_throttled(failure.filter(of_load), slot);
                    return Err(CloseReason::Normal);
                }
                // By us, and no fault of the peer's.
                ClientEvent::Closed(_) if cut => return Err(CloseReason::Normal),
                // With QUIT: the peer has answered, and is only not to be trusted with more.
                ClientEvent::Closed(None) if concluded => return Err(CloseReason::Normal),
                ClientEvent::Closed(failure) => {
                    // Never without Done before it; kept from being lost if it were.
                    while let Some(first) = self.in_flight.pop_front() {
                        let outcomes = lost(&failure, first.work.entries.len());
                        self.conclude(&first, outcomes, hop);
                    }
                    self.tell_throttled(failure, slot);
                    return Err(CloseReason::Lost);
                }
            }
        }
    }

    fn conclude(
        &self,
        done: &InFlight,
        outcomes: Vec<Result<mail::Reply, Failure>>,
        hop: &NextHop,
    ) {
        let concluded = Concluded {
            hop: Arc::clone(&self.event_hop),
            // RFC 2033 §2: an LMTP server takes no responsibility to relay; it has delivered.
            local: hop.channel.is_local() || matches!(hop.channel, Channel::Lmtp(_)),
            dsn_passed_on: self.wire.session.capabilities().dsn,
        };
        outcome::conclude(&self.shard, &done.message, &done.work, outcomes, &concluded);
    }

    fn tell_doubtful(&self, message: &Message) {
        self.shard.metrics.doubtful.inc();
        let id = message.id;
        self.shard.console.info(
            "doubtful",
            format_args!("the reply to the final dot was lost, a duplicate may follow id={id}"),
        );
    }

    /// Says QUIT and waits for the answer, but not for long.
    async fn quit(&mut self) {
        self.wire.session.quit(self.shard.now());
        while !matches!(self.next_event().await, ClientEvent::Closed(_)) {}
    }

    /// Writes and reads until the session has something to tell.
    pub(super) async fn next_event(&mut self) -> ClientEvent {
        loop {
            if let Some(event) = self.wire.session.poll_event() {
                return event;
            }
            if self.write().await {
                continue;
            }
            if let Err(error) = poll_fn(|cx| self.poll_input(cx)).await {
                self.broken(&error);
            }
        }
    }

    /// Writes what the session has to say; whether there was anything.
    async fn write(&mut self) -> bool {
        self.wire.session.poll_output(&mut self.plan);
        if self.plan.is_empty() {
            return false;
        }
        let plan = std::mem::take(&mut self.plan);
        // Content is of the transaction that was started last.
        let last = self.in_flight.back();
        let (message, encoding) = match last {
            Some(last) => (Some(Rc::clone(&last.message)), last.encoding.clone()),
            None => (None, None),
        };
        let (message, encoding) = (message.as_deref(), encoding.as_deref());
        let written =
            content::write_plan(&self.shard, &mut self.wire, &plan, message, encoding).await;
        self.plan = plan;
        match written {
            Ok(()) => self.wire.session.handle_written(self.shard.now()),
            Err(WriteError::Io(error)) => self.broken(&error),
            Err(WriteError::Unreadable(why)) => self.cut(why),
        }
        true
    }

    /// Ends the session within a content whose rest can't be had: without the final dot, or the
    /// octets that BDAT announced, the peer has no message (RFC 5321 §4.1.1.4, RFC 3030 §2).
    fn cut(&mut self, why: LoadError) {
        self.wire.session.handle_broken(self.shard.now(), "the rest of a body can't be read");
        if let Some(last) = self.in_flight.back_mut() {
            last.unreadable = Some(why);
        }
    }

    fn broken(&mut self, error: &std::io::Error) {
        let now = self.shard.now();
        if error.kind() == std::io::ErrorKind::TimedOut && now >= self.wire.session.deadline() {
            self.wire.session.handle_timeout(now);
        } else {
            self.wire.session.handle_broken(now, &error.to_string());
        }
    }

    /// Feeds the session with what the peer sent, or with the passing of time.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut scratch = self.shard.scratch.borrow_mut();
        match self.wire.stream.poll_read(cx, &mut scratch) {
            Poll::Ready(Ok(0)) => {
                self.wire.session.handle_broken(self.shard.now(), "the peer closed the connection");
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Ok(n)) => {
                self.wire.session.handle_input(self.shard.now(), &scratch[..n]);
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
        if self.wire.alarm.poll(cx, self.wire.session.deadline()).is_ready() {
            self.wire.session.handle_timeout(self.shard.now());
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

fn lost(failure: &Option<Failure>, count: usize) -> Vec<Result<mail::Reply, Failure>> {
    let failure = failure.clone().unwrap_or_else(|| {
        Failure::local(
            Class::Transient,
            EnhancedStatus::new(4, 4, 2),
            "the session ended before the transaction",
        )
    });
    vec![Err(failure); count]
}

fn outgoing(message: &Message, work: &Work) -> Outgoing {
    let envelope = &message.envelope;
    let recipients = work
        .entries
        .iter()
        .filter_map(|(_, index, _)| envelope.recipients.get(*index as usize))
        .map(|recipient| OutgoingRecipient {
            mailbox: recipient.mailbox.clone(),
            notify: recipient.notify,
            orcpt: recipient.orcpt.clone(),
        })
        .collect();
    Outgoing {
        reverse_path: envelope.reverse_path.clone(),
        recipients,
        body: envelope.body,
        smtputf8: envelope.smtputf8,
        ret: envelope.ret,
        envid: envelope.envid.clone(),
        facts: message.facts,
        header_is_8bit: false,
        expires: Mono::NEVER,
        eight_bit_as_is: false,
        prefix_bytes: message.prefix.len() as u64,
    }
}

/// Gives back the recipients at `untried`, whose failure was only the transaction's, and leaves the
/// others in `work`, with their outcomes.
fn give_back_untried<W: World>(
    shard: &Shard<W>,
    work: &mut Work,
    outcomes: Vec<Result<mail::Reply, Failure>>,
    untried: &[usize],
) -> Vec<Result<mail::Reply, Failure>> {
    if untried.is_empty() {
        return outcomes;
    }
    let is_untried = |index: usize| untried.binary_search(&index).is_ok();
    let mut rest = Work { id: work.id, entries: SmallVec::new() };
    for (index, entry) in std::mem::take(&mut work.entries).into_iter().enumerate() {
        let whose = if is_untried(index) { &mut rest } else { &mut *work };
        whose.entries.push(entry);
    }
    give_back(shard, &rest);
    let outcomes = outcomes.into_iter().enumerate();
    outcomes.filter(|(index, _)| !is_untried(*index)).map(|(_, outcome)| outcome).collect()
}

/// Places of both kinds in their order, each once.
fn joined(mut places: Vec<usize>, more: Vec<usize>) -> Vec<usize> {
    places.extend(more);
    places.sort_unstable();
    places.dedup();
    places
}

/// Gives work back untouched: it was not this message's fault.
pub(super) fn give_back<W: World>(shard: &Shard<W>, work: &Work) {
    let now = shard.now();
    let mut queue = shard.queue.borrow_mut();
    for (entry, _, _) in &work.entries {
        queue.handle_outcome(now, *entry, EntryOutcome::Untried);
    }
}
