//! An SMTP or LMTP connection: performs transactions until the queue has no more for it.

mod ending;

use super::dialogue::SmtpDialogue;
use super::encoding::{self, Encoding, Fit};
use super::held::HeldContent;
use super::opening::{self, OpenError, Opened};
use super::patience::{NEEDED, Patience};
use super::seat::{Memory, Seat};
use super::tls_result::TlsResult;
use super::{content, dialogue, relay_of};
use config::EightBit;
use mail::{BodyType, Failure, Mono};
use mta::delivery::{AttemptClock, Idled, Slot};
use mta::event::Hop;
use mta::line::{Permit, PermitWaiter};
use mta::message::{Message, SentBy};
use mta::routing::hop::NextHop;
use mta::seams::{Endpoint, World};
use queue::{CloseReason, Origin, Take, TransactionWork};
use smtp::client::{ClientEvent, HostQuirk, Outgoing, RequireTls};
use spool::LoadError;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// An open connection and the state that its transactions share.
struct OutboundConnection<W: World> {
    dialogue: SmtpDialogue<W>,
    event_hop: Arc<Hop>,
    peer: Endpoint,
    /// TLS authenticated the host.
    is_authenticated: bool,
    /// Duration of its opening in milliseconds, until the first transaction takes it.
    opening_ms: u32,
    /// Number of transactions so far.
    carried: u32,
    /// Transactions without an outcome so far, the oldest first.
    in_flight: VecDeque<InFlight>,
    /// The peer closed an idle connection, so QUIT is not sent.
    peer_closed: bool,
    /// Time after which it carries no further message.
    leave_at: Mono,
    /// It carries one message only, because a host of the same preference was skipped for that message.
    is_detour: bool,
    /// All addresses of its host.
    addresses: Rc<[Endpoint]>,
    /// Counts the connection at its host.
    seat: Seat<W::Time>,
    /// Permit for a connection of the process.
    permit: Permit,
    /// Time limits for a silent peer.
    patience: Patience<W>,
    /// TLS result for reports, if the session counts.
    tls_result: Option<Box<TlsResult>>,
    /// Last field, so that the connection is closed before its slot is released.
    slot: Slot<W>,
}

/// A started transaction.
struct InFlight {
    work: TransactionWork,
    message: Rc<Message>,
    clock: AttemptClock,
    /// The spool could not read all of its body, and the connection was cut.
    unreadable: Option<LoadError>,
}

/// See [`ClientEvent::Done`].
struct Done {
    outcomes: Vec<Result<mail::Reply, Failure>>,
    doubtful: bool,
    answered: bool,
    untried: Vec<usize>,
    lesson: Option<HostQuirk>,
}

/// Results of transactions since the last wait.
#[derive(Default)]
struct Finished {
    /// A transaction was requeued for another connection.
    gave_back: bool,
    /// A transaction has its outcome.
    concluded: bool,
    /// The host failed, and another host or address is tried before it.
    goes_elsewhere: bool,
    /// The content of a transaction was cut off because the spool could not read it.
    cut: bool,
}

/// Opens a connection for the slot's ready queue, and works through the queue.
pub(super) async fn run<W: World>(slot: Slot<W>) {
    let (hop, begun) = (Rc::clone(slot.hop()), slot.now());
    // // Boxed: the future is large, and the connection lives much longer.
    let opened = match Box::pin(opening::open(&slot, &hop)).await {
        Ok(opened) => opened,
        Err(OpenError::NotNeeded) => return slot.not_needed(),
        Err(OpenError::Later(failure)) => {
            slot.metrics().connections_failed.inc();
            return slot.open_failed(Arc::new(failure));
        }
        Err(OpenError::Never(failure)) => {
            slot.metrics().connections_failed.inc();
            return slot.refused(Arc::new(failure));
        }
    };
    slot.metrics().connections_opened.inc();
    slot.metrics().connections_open.inc();
    slot.opened();
    let opening = slot.now().since(begun);
    let mut connection = OutboundConnection::new(slot, opened, opening);
    while let Some(work) = connection.next_work(&hop).await {
        let _busy = connection.slot.busy();
        if let Err(reason) = connection.carry(work, &hop).await {
            connection.slot.closing(reason);
            return;
        }
    }
    if !connection.peer_closed {
        connection.dialogue.quit(&connection.slot).await;
    }
}

impl<W: World> Drop for OutboundConnection<W> {
    fn drop(&mut self) {
        self.slot.metrics().connections_open.dec();
    }
}

impl<W: World> OutboundConnection<W> {
    /// A connection without transactions so far.
    fn new(slot: Slot<W>, opened: Opened<W>, opening: Duration) -> OutboundConnection<W> {
        OutboundConnection {
            patience: Patience::new(&slot, Rc::clone(&opened.dialogue.stir)),
            dialogue: opened.dialogue,
            event_hop: opened.event_hop,
            peer: opened.peer,
            is_authenticated: opened.is_authenticated,
            opening_ms: u32::try_from(opening.as_millis()).unwrap_or(u32::MAX),
            carried: 0,
            in_flight: VecDeque::new(),
            peer_closed: false,
            leave_at: opened.leave_at,
            is_detour: opened.is_detour,
            addresses: opened.addresses,
            seat: opened.seat,
            permit: opened.permit,
            tls_result: opened.tls_result,
            slot,
        }
    }

    /// The next message for this connection. Waits for one up to the idle timeout. `None`: the connection should be
    /// closed with QUIT.
    async fn next_work(&mut self, hop: &NextHop) -> Option<TransactionWork> {
        let until = self.slot.now() + relay_of(hop).peer.idle_timeout.get();
        // // A next hop with several connections gives one to a next hop that waits for its first.
        if self.carried > 0 && self.permit.must_go() {
            return None;
        }
        loop {
            let now = self.slot.now();
            let has_gone_astray = self.is_detour && self.carried > 0;
            if hop.superseded.get()
                || now >= self.leave_at
                || has_gone_astray
                || self.has_carried_all()
            {
                return None;
            }
            match self.slot.take(self.carried) {
                Take::Work(work) => return Some(work),
                Take::Close => return None,
                Take::Wait if self.slot.is_stopping() => return None,
                Take::Wait => {}
            }
            match self.idle(until).await {
                Idled::Woken => {}
                Idled::Timeout => {
                    self.slot.closing(CloseReason::Idle);
                    return None;
                }
                Idled::Closed => {
                    self.slot.closing(CloseReason::Idle);
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

    /// Waits until woken, until `until`, or until the peer closes the connection.
    async fn idle(&mut self, until: Mono) -> Idled {
        let (dialogue, permit) = (&mut self.dialogue, &mut self.permit);
        let end = |cx: &mut Context<'_>| match dialogue.poll_quiet(cx) {
            Poll::Ready(()) => Poll::Ready(Idled::Closed),
            Poll::Pending => dialogue.wire.alarm.poll(cx, until).map(|()| Idled::Timeout),
        };
        self.slot.idle(permit, end).await
    }

    /// Performs a transaction, together with further ones in flight as long as the queue has any, and concludes their
    /// recipients.
    ///
    /// # Errors
    /// The reason for closing the connection.
    async fn carry(&mut self, work: TransactionWork, hop: &Rc<NextHop>) -> Result<(), CloseReason> {
        self.begin(work, hop).await?;
        loop {
            self.begin_others(hop).await?;
            // // Transactions in flight may have ended while later ones waited for memory, and the later ones may have
            // been // unreadable. The peer owes no reply then.
            if self.in_flight.is_empty() {
                return Ok(());
            }
            self.finish_first(hop).await?;
        }
    }

    /// Starts further transactions beside those in flight, up to the limits.
    async fn begin_others(&mut self, hop: &Rc<NextHop>) -> Result<(), CloseReason> {
        while !self.in_flight.is_empty()
            && self.in_flight.len() < self.in_flight_max(hop)
            && !self.has_carried_all()
        {
            let take = self.slot.take(self.carried);
            // // `Wait` and `Close` are returned again once nothing is in flight.
            let Take::Work(work) = take else { break };
            self.begin(work, hop).await?;
        }
        Ok(())
    }

    /// Returns true if the session has carried as many transactions as the peer accepts (RFC 9422 §4.1).
    fn has_carried_all(&self) -> bool {
        self.dialogue.wire.session.capabilities().mail_max.is_some_and(|max| self.carried >= max)
    }

    /// Limits the transaction to the number of recipients that the peer accepts, and requeues the remaining ones.
    fn limit_recipients(&self, work: &mut TransactionWork, hop: &NextHop) {
        let offered =
            self.dialogue.wire.session.capabilities().recipients_max.map(|max| max as usize);
        let learnt = hop.memory::<Memory>().lessons.recipients_max(self.slot.now(), &self.peer);
        let max = offered.unwrap_or(usize::MAX).min(learnt.unwrap_or(usize::MAX)).max(1);
        if work.entries.len() > max {
            let rest = work.entries.drain(max..).collect();
            self.slot.give_back_unnamed(&work.part(rest));
        }
    }

    /// Limits the transaction to recipients with the same reverse-path as the first, and requeues the remaining ones. A
    /// transaction has one reverse-path.
    fn keep_one_sender(&self, message: &Message, work: &mut TransactionWork) {
        let mut senders = work.entries.iter().map(|(_, index, _)| message.sent_by(*index));
        let Some(first) = senders.next() else { return };
        if senders.all(|other| other == first) {
            return;
        }
        let (same, others) = std::mem::take(&mut work.entries)
            .into_iter()
            .partition(|(_, index, _)| message.sent_by(*index) == first);
        work.entries = same;
        self.slot.give_back_unnamed(&work.part(others));
    }

    /// Limits the transaction to the number of recipient domains that the peer accepts (RFC 9422 §4.3), beginning with
    /// the first recipient's. The remaining recipients are requeued.
    fn limit_domains(&self, message: &Message, work: &mut TransactionWork, hop: &NextHop) {
        let offered = self.dialogue.wire.session.capabilities().domains_max.map(|max| max as usize);
        let learnt = hop.memory::<Memory>().lessons.domains_max(self.slot.now(), &self.peer);
        let max = offered.unwrap_or(usize::MAX).min(learnt.unwrap_or(usize::MAX)).max(1);
        if max == usize::MAX || work.entries.len() <= max {
            return;
        }
        let recipients = &message.envelope.recipients;
        let domain = |index: u32| recipients.get(index as usize).map(|one| one.mailbox.domain());
        let mut domains = Vec::new();
        let (kept, rest) =
            std::mem::take(&mut work.entries).into_iter().partition(|(_, index, _)| {
                let domain = domain(*index);
                if !domains.contains(&domain) && domains.len() < max {
                    domains.push(domain.clone());
                }
                domains.contains(&domain)
            });
        work.entries = kept;
        if !rest.is_empty() {
            self.slot.give_back_unnamed(&work.part(rest));
        }
    }

    fn in_flight_max(&self, hop: &NextHop) -> usize {
        let offered = self.dialogue.wire.session.capabilities();
        match offered.pipelining && offered.chunking {
            true => relay_of(hop).named.transactions_in_flight as usize,
            false => 1,
        }
    }

    /// A position in the queue for memory, if the message must be read. A connection that waits for memory holds none.
    ///
    /// # Errors
    /// The reason for closing the connection; nothing is in flight then.
    async fn place_to_load(
        &mut self,
        work: &TransactionWork,
        hop: &Rc<NextHop>,
    ) -> Result<Option<PermitWaiter>, CloseReason> {
        let mut place = self.slot.place_to_load(work.id, work.origin);
        // // While the peer is silent, the previous content may be released and then waits to be read back.
        while place.is_some() && self.dialogue.content.is_some() && !self.in_flight.is_empty() {
            drop(place);
            self.finish_first(hop).await?;
            place = self.slot.place_to_load(work.id, work.origin);
        }
        if place.as_ref().is_some_and(|place| !place.is_served()) {
            self.finish_all(hop).await?;
        }
        Ok(place)
    }

    /// Waits for all transactions in flight.
    async fn finish_all(&mut self, hop: &Rc<NextHop>) -> Result<(), CloseReason> {
        while !self.in_flight.is_empty() {
            self.finish_first(hop).await?;
        }
        Ok(())
    }

    /// The message as internet mail. `None`: its work is concluded or deferred.
    ///
    /// # Errors
    /// The reason for closing the connection; nothing is in flight then.
    async fn load(
        &mut self,
        work: &TransactionWork,
        hop: &Rc<NextHop>,
    ) -> Result<Option<Rc<Message>>, CloseReason> {
        let place = self.place_to_load(work, hop).await?;
        let message = match self.slot.load_in_turn(place, work.id).await {
            Ok(message) => message,
            Err(why) => {
                self.slot.unreadable(work, "record", &why);
                return Ok(None);
            }
        };
        if !self.slot.has_to_convert(&message) {
            return Ok(Some(message));
        }
        // // As for reading: the previous content may be released, and a connection that waits for memory holds none.
        while self.dialogue.content.is_some() && !self.in_flight.is_empty() {
            self.finish_first(hop).await?;
        }
        let place = self.slot.place_to_convert(&message, work.origin);
        if !place.is_served() {
            self.finish_all(hop).await?;
        }
        Ok(self.slot.convert_mail(place, message, work).await)
    }

    /// Starts a transaction, once those in flight permit it.
    async fn begin(
        &mut self,
        mut work: TransactionWork,
        hop: &Rc<NextHop>,
    ) -> Result<(), CloseReason> {
        self.limit_recipients(&mut work, hop);
        let message = match self.load(&work, hop).await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.slot.give_back_unnamed(&work);
                return Err(reason);
            }
        };
        self.keep_one_sender(&message, &mut work);
        self.limit_domains(&message, &mut work, hop);
        if self.is_avoided(&work, hop) {
            self.slot.give_back_unnamed(&work);
            return Ok(());
        }
        let mut outgoing = self.outgoing(&message, &work, hop);
        if outgoing.smtputf8 && outgoing.facts.has_8bit {
            match content::has_8bit_header(&self.slot, &message).await {
                Ok(is_so) => outgoing.header_is_8bit = is_so,
                Err(why) => {
                    self.slot.unreadable(&work, "body", &why);
                    return Ok(());
                }
            }
        }
        let encoding = match self.encoding(&mut outgoing, &message, hop).await {
            Ok(encoding) => encoding,
            Err(why) => {
                self.slot.unreadable(&work, "body", &why);
                return Ok(());
            }
        };
        while !self.dialogue.wire.session.can_start(&outgoing) {
            if let Err(reason) = self.finish_first(hop).await {
                self.slot.give_back_unnamed(&work);
                return Err(reason);
            }
        }
        // The opening stays with the first transaction.
        if self.carried > 0 && self.in_flight.is_empty() {
            self.dialogue.transcript.borrow_mut().clear();
        }
        self.carried += 1;
        self.slot.metrics().transactions.inc();
        if let Some(result) = &mut self.tls_result {
            result.carry(&self.slot, &self.dialogue.wire.stream, &work);
        }
        self.dialogue.wire.session.start(self.slot.now(), outgoing);
        let message = self.hold((message, work.origin), encoding);
        let opening_ms = std::mem::take(&mut self.opening_ms);
        let clock = AttemptClock { begun: Some(self.slot.now()), opening_ms };
        self.in_flight.push_back(InFlight { work, message, clock, unreadable: None });
        self.dialogue.write(&self.slot).await;
        self.note_unreadable();
        Ok(())
    }

    /// Transaction parameters for the session.
    fn outgoing(
        &self,
        message: &Rc<Message>,
        work: &TransactionWork,
        hop: &Rc<NextHop>,
    ) -> Outgoing {
        let mut outgoing = dialogue::outgoing(message, work, self.slot.wall());
        outgoing.require_tls = self.require_tls(message, hop);
        if let Some((entry, index, _)) = work.entries.first() {
            outgoing.reverse_path = self.slot.reverse_path(message, *index);
            if matches!(message.sent_by(*index), SentBy::Owner(_)) {
                // They belong to the sender, and reports go to the owner of the list (RFC 3461 §5.2.7.3).
                (outgoing.ret, outgoing.envid) = (None, None);
            }
            let expires = self.slot.expiry(*entry);
            // // An expired message has its last attempt, which has no time limit.
            let now = self.slot.now();
            outgoing.expires = expires.filter(|at| *at > now).unwrap_or(Mono::NEVER);
        }
        outgoing
    }

    /// Holds the content until it is written. Returns the message without a content that was read back, so that its
    /// memory is freed then.
    fn hold(
        &mut self,
        (message, origin): (Rc<Message>, Origin),
        encoding: Option<Rc<Encoding>>,
    ) -> Rc<Message> {
        let known = match message.memory {
            Some(_) => Rc::new(message.without_content()),
            None => Rc::clone(&message),
        };
        let now = self.slot.now();
        self.dialogue.stir.note(now);
        self.dialogue.stir.commit(!self.in_flight.is_empty());
        self.dialogue.content = Some(HeldContent::new((message, origin), encoding, now));
        known
    }

    /// RFC 8689 §4.2.1. DSNs are sent without REQUIRETLS if need be (§5), and so is mail at its last hop (LMTP).
    fn require_tls(&self, message: &Message, hop: &NextHop) -> RequireTls {
        if message.require_tls() != mail::RequireTls::Yes {
            return RequireTls::Off;
        }
        let goes_anyhow = message.envelope.reverse_path.is_none() || relay_of(hop).is_lmtp();
        match (goes_anyhow, self.is_authenticated) {
            (false, _) => RequireTls::Always,
            (true, true) => RequireTls::WhereOffered,
            (true, false) => RequireTls::Off,
        }
    }

    /// Encodes the body for the peer, if the route permits.
    async fn encoding(
        &self,
        outgoing: &mut Outgoing,
        message: &Message,
        hop: &NextHop,
    ) -> Result<Option<Rc<Encoding>>, LoadError> {
        if relay_of(hop).peer.eight_bit != EightBit::Encode {
            return Ok(None);
        }
        let takes_eight_bit = self.dialogue.wire.session.capabilities().eight_bit_mime;
        match encoding::fit(&self.slot, message, takes_eight_bit).await? {
            Fit::AsItIs => Ok(None),
            Fit::Encoded(encoding) => {
                outgoing.facts = encoding.facts;
                if !takes_eight_bit {
                    outgoing.body = BodyType::SevenBit;
                    // // The remaining 8-bit octets are in header fields, which 8BITMIME does not cover.
                    outgoing.eight_bit_as_is = true;
                }
                Ok(Some(Rc::new(encoding)))
            }
            Fit::Unfit => {
                // // A lost DSN can't be reported to a sender, and nearly all peers accept 8-bit DSNs.
                outgoing.eight_bit_as_is = outgoing.reverse_path.is_none();
                Ok(None)
            }
        }
    }

    /// The next event of the session.
    async fn next_event(&mut self) -> ClientEvent {
        let (dialogue, slot) = (&mut self.dialogue, &self.slot);
        let waiting = dialogue.next_event(slot);
        let event = match self.patience.wait(slot, &mut self.permit, waiting).await {
            Some(event) => event,
            // No content was sent yet, so this equals a lost connection.
            None => {
                dialogue.wire.session.handle_broken(slot.now(), NEEDED);
                dialogue.next_event(slot).await
            }
        };
        self.note_unreadable();
        event
    }

    /// Records that the content of the last started transaction was cut off, if so.
    fn note_unreadable(&mut self) {
        if let Some(why) = self.dialogue.take_unreadable()
            && let Some(last) = self.in_flight.back_mut()
        {
            last.unreadable = Some(why);
        }
    }
}
