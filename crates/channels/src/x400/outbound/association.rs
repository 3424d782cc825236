//! An outgoing association: transfers APDUs until the queue has no more for it.

use super::cargo::{Cargo, Here, PIECE_BYTES};
use super::opening::{self, OpenError, Opened};
use super::wire::P1Transport;
use super::{route_of, trouble};
use crate::x400::departure;
use crate::x400::gateway;
use crate::x400::kept::{Departure, RefusedRecipients};
use crate::x400::section::{X400, X400Mode, X400Peer};
use mail::{Failure, Mono, Reply};
use mta::delivery::{AttemptClock, AttemptContext, Idled, Slot};
use mta::event::Hop;
use mta::line::Permit;
use mta::message::Message;
#[cfg(feature = "planted")]
use mta::planted::Planted;
use mta::routing::hop::NextHop;
use mta::seams::{Stream as _, World};
use queue::{CloseReason, Take, TransactionWork};
use spool::LoadError;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use x400::association::{AbortReason, AssociationEnd, Event, ExceptionReason};
use x400::mixer::CONTENT_BYTES_MAX;

/// Maximum duration of an attempt, even with progress. A message of one gigabyte takes that long at 2 Mbit/s.
const ATTEMPT_MAX: Duration = Duration::from_secs(60 * 60);

/// Octets counted for a recipient when the time of a conversion is estimated.
const RECIPIENT_BYTES: usize = 256;

/// The subject of an attempt.
struct TransferAttempt<'a> {
    message: &'a Rc<Message>,
    work: &'a TransactionWork,
    /// Recipients left out of the APDU, by index. Their failures stand whatever the peer's reply.
    refused: &'a [(u32, Failure)],
}

/// An APDU built from a message.
struct Made {
    /// The message, without a content that was read back, so that its memory is freed once it is written.
    message: Rc<Message>,
    /// The APDU and the recipients left out, or the failure for all.
    outcome: Result<(Here, RefusedRecipients), Failure>,
}

/// An association and its state.
struct Association<W: World> {
    wire: P1Transport<W>,
    permit: Permit,
    event_hop: Arc<Hop>,
    place: Box<str>,
    settings: Arc<X400Peer>,
    carried: u32,
    /// Last field, so that the connection is closed before its slot is released.
    slot: Slot<W>,
}

/// Opens an association for the slot's ready queue, and works through the queue.
pub(super) async fn run<W: World>(slot: Slot<W>) {
    let hop = Rc::clone(slot.hop());
    let opened = match opening::open(&slot, &hop).await {
        Ok(opened) => opened,
        Err(OpenError::NotNeeded) => return slot.not_needed(),
        Err(OpenError::Later(failure)) => {
            slot.metrics().connections_failed.inc();
            return slot.open_failed(Arc::new(failure));
        }
    };
    slot.metrics().connections_opened.inc();
    slot.metrics().connections_open.inc();
    slot.opened();
    let Opened { wire, permit, event_hop, place } = opened;
    let settings = Arc::clone(&route_of(&hop).peer);
    let mut association =
        Association { wire, permit, event_hop, place, settings, carried: 0, slot };
    while let Some(work) = association.next_work(&hop).await {
        let busy = association.slot.busy();
        let carried = association.carry(work, &hop).await;
        drop(busy);
        association.wire.until = Mono::NEVER;
        if let Err(reason) = carried {
            association.slot.closing(reason);
            // The peer is sent the reason.
            association.wire.close(&association.slot).await;
            return;
        }
    }
    association.wire.machine.release(association.slot.now());
    association.wire.close(&association.slot).await;
}

impl<W: World> Drop for Association<W> {
    fn drop(&mut self) {
        self.slot.metrics().connections_open.dec();
    }
}

impl<W: World> Association<W> {
    /// The next message. Waits for one up to the idle timeout. `None`: the association should be released.
    async fn next_work(&mut self, hop: &NextHop) -> Option<TransactionWork> {
        let until = self.slot.now() + self.settings.idle_timeout;
        // A next hop with several connections gives one to a next hop that waits for its first.
        if self.carried > 0 && self.permit.must_go() {
            return None;
        }
        loop {
            if hop.superseded.get() {
                return None;
            }
            match self.slot.take(self.carried) {
                Take::Work(work) => return Some(work),
                Take::Close => return None,
                Take::Wait if self.slot.is_stopping() => return None,
                Take::Wait => {}
            }
            let (stream, alarm) = (&mut self.wire.stream, &mut self.wire.alarm);
            let end = |cx: &mut Context<'_>| {
                // The peer should send nothing between transfers.
                let mut octet = [0];
                match stream.poll_read(cx, &mut octet) {
                    Poll::Ready(_) => Poll::Ready(Idled::Closed),
                    Poll::Pending => alarm.poll(cx, until).map(|()| Idled::Timeout),
                }
            };
            match self.slot.idle(&mut self.permit, end).await {
                Idled::Woken => {}
                Idled::Timeout => {
                    self.slot.closing(CloseReason::Idle);
                    return None;
                }
                Idled::Closed => {
                    self.slot.closing(CloseReason::Idle);
                    self.wire.machine.handle_eof();
                    return None;
                }
                Idled::ClosedWhileWoken => {
                    self.wire.machine.handle_eof();
                    return None;
                }
            }
        }
    }

    /// Transfers a message, and concludes its recipients.
    ///
    /// # Errors
    /// The reason for which the association can't be used further.
    async fn carry(&mut self, work: TransactionWork, hop: &NextHop) -> Result<(), CloseReason> {
        let Made { message, outcome } = match self.make(&work, hop).await {
            Ok(made) => made,
            Err((what, why)) => {
                self.slot.unreadable(&work, what, &why);
                return Ok(());
            }
        };
        let (here, refused) = match outcome {
            Ok(sent) => sent,
            Err(failure) => {
                let told = TransferAttempt { message: &message, work: &work, refused: &[] };
                self.conclude(&told, Err(failure), true);
                return Ok(());
            }
        };
        let told = TransferAttempt { message: &message, work: &work, refused: &refused };
        if let Some((_, failure)) = refused.first()
            && refused.len() == work.entries.len()
        {
            self.conclude(&told, Err(failure.clone()), true);
            return Ok(());
        }
        self.carried += 1;
        self.slot.metrics().transactions.inc();
        self.wire.until = self.attempt_end(&work);
        let cargo = Cargo::new(here, self.slot.now());
        match self.send(cargo, &work, hop).await {
            Ok(early) => self.hear(&told, early).await,
            Err(why) => {
                self.slot.unreadable(&work, "body", &why);
                self.wire.machine.abort(AbortReason::LocalSystemProblem, self.slot.now());
                self.wire.close(&self.slot).await;
                Err(CloseReason::Normal)
            }
        }
    }

    /// Waits for the peer's reply to a message, and concludes its recipients. `early` is a reply sent before the peer
    /// had all octets.
    async fn hear(
        &mut self,
        told: &TransferAttempt<'_>,
        mut early: Option<Event>,
    ) -> Result<(), CloseReason> {
        loop {
            let event = match early.take() {
                Some(event) => event,
                None => self.wire.next_event(&self.slot).await,
            };
            #[cfg(feature = "planted")]
            let event = match event {
                Event::Acknowledged
                    if self.carried == 1
                        && self.slot.has_planted(Planted::DoubtAcknowledgement) =>
                {
                    Event::NotTaken(ExceptionReason::TemporarilyUnable)
                }
                event => event,
            };
            match event {
                Event::Acknowledged => {
                    let reply = Reply::new(250, (2, 0, 0), "acknowledged");
                    self.conclude(told, Ok(reply), false);
                    return Ok(());
                }
                Event::NotTaken(reason) => {
                    let failure = trouble::not_taken(&self.place, reason);
                    let is_of_message = reason != ExceptionReason::TemporarilyUnable;
                    self.conclude(told, Err(failure), is_of_message);
                    return Ok(());
                }
                Event::Ended(end) => {
                    let failure = trouble::ended(&self.place, &end, &self.settings);
                    // Some peers abort for a message that they can't read or route.
                    let is_of_message = matches!(end, AssociationEnd::AbortedByPeer { .. });
                    self.conclude(told, Err(failure.clone()), is_of_message);
                    if !is_of_message {
                        self.slot.throttled(failure);
                    }
                    return Err(CloseReason::Normal);
                }
                // Events of a responder, and turns, which this server does not give.
                Event::Bind(_)
                | Event::Bound(_)
                | Event::ActivityStarted
                | Event::Content(_)
                | Event::ApduComplete
                | Event::ActivityDropped
                | Event::TurnTaken
                | Event::TurnGiven => {}
            }
        }
    }

    /// The deadline of an attempt that starts now, whatever its progress. It ends when the message expires, which must
    /// be reported then. An expired message has its last attempt.
    fn attempt_end(&self, work: &TransactionWork) -> Mono {
        let now = self.slot.now();
        let expiries = work.entries.iter().filter_map(|(entry, ..)| self.slot.expiry(*entry));
        expiries.filter(|at| *at > now).fold(now + ATTEMPT_MAX, Mono::min)
    }

    /// Returns true if the octets sent differ from those received.
    fn is_converted(&self, message: &Message) -> bool {
        let is_rewritten =
            || self.settings.mode == X400Mode::X4101984 && departure::is_report(message);
        message.kept_of_x400().is_none() || is_rewritten()
    }

    /// Reads a message and builds its APDU.
    ///
    /// # Errors
    /// The unreadable part, and the error.
    async fn make(
        &self,
        work: &TransactionWork,
        hop: &NextHop,
    ) -> Result<Made, (&'static str, LoadError)> {
        let of_record = |why| ("record", why);
        let place = self.slot.place_to_load(work.id, work.origin);
        let message = self.slot.load_in_turn(place, work.id).await.map_err(of_record)?;
        let (room, message) = match self.is_converted(&message) {
            true => {
                let place = self.slot.place_to_convert(&message, work.origin);
                let both = self.slot.room_in_turn(place, message, work.origin).await;
                let (room, message) = both.map_err(of_record)?;
                (Some(room), message)
            }
            false => (None, message),
        };
        let departure = self.departure(&message, work, &route_of(hop).x400).await;
        let departure = departure.map_err(|why| ("body", why))?;
        let known = match message.memory {
            Some(_) => Rc::new(message.without_content()),
            None => Rc::clone(&message),
        };
        let outcome = departure.map(|mut departure| {
            let refused = std::mem::take(&mut departure.refused);
            (Here::new(departure, message, room), refused)
        });
        Ok(Made { message: known, outcome })
    }

    /// The APDU of a message: as received, or converted from internet mail.
    async fn departure(
        &self,
        message: &Message,
        work: &TransactionWork,
        x400: &Arc<X400>,
    ) -> Result<Result<Departure, Failure>, LoadError> {
        let indexes: Vec<u32> = work.entries.iter().map(|(_, index, _)| *index).collect();
        #[cfg(feature = "planted")]
        let indexes = match self.slot.has_planted(Planted::KeepResponsibility) {
            true => (0..).take(message.envelope.recipients.len()).collect(),
            false => indexes,
        };
        if !self.is_converted(message) {
            return Ok(departure::departure(message, &indexes, x400, self.settings.mode));
        }
        let mut content = message.prefix.to_vec();
        let gather = |piece: &[u8]| {
            content.extend_from_slice(piece);
            (content.len() > CONTENT_BYTES_MAX).then_some(())
        };
        // A longer content is refused by the conversion.
        let _ = self.slot.for_each_piece(message, gather).await?;
        let (original, x400) = (message.original(), Arc::clone(x400));
        let bytes = (content.len() + RECIPIENT_BYTES * message.envelope.recipients.len()) as u64;
        let convert = move || match original.kept_of_x400() {
            Some(_) => departure::report_to_1984(&original, &content, &x400),
            None => gateway::to_apdu(&original, &content, &indexes, &x400),
        };
        Ok(self.slot.convert_in_turn(bytes, convert).await.unwrap_or_else(Err))
    }

    /// Passes an APDU to the machine, piece by piece. Returns an event that occurred before the peer had all octets.
    async fn send(
        &mut self,
        mut cargo: Cargo,
        work: &TransactionWork,
        hop: &NextHop,
    ) -> Result<Option<Event>, LoadError> {
        self.wire.machine.begin_transfer(cargo.bytes(), self.slot.now());
        let (mut offset, mut ahead) = (0, 0);
        while offset < cargo.bytes() {
            if ahead >= PIECE_BYTES {
                let more = Some(&mut cargo);
                if let Some(event) = self.wire.next_event_or_room(&self.slot, more).await {
                    return Ok(Some(event));
                }
                ahead = 0;
            }
            if !cargo.is_here() {
                let made = self.make(work, hop).await.map_err(|(_, why)| why)?;
                cargo.put(made.outcome.ok().map(|(here, _)| here), self.slot.now())?;
                self.slot.metrics().conversions_again.add(u64::from(cargo.is_made()));
            }
            let piece = cargo.piece(&self.slot, offset).await?;
            offset += piece.len() as u64;
            ahead += piece.len();
            self.wire.machine.push_content(piece, self.slot.now());
        }
        Ok(None)
    }

    /// Concludes recipients. `is_of_message` is set if a failure may concern this message only.
    fn conclude(
        &self,
        told: &TransferAttempt<'_>,
        outcome: Result<Reply, Failure>,
        is_of_message: bool,
    ) {
        match &outcome {
            Ok(_) => self.slot.accepted(),
            Err(failure) if failure.class == mail::Class::Transient => {
                self.slot.deferred(failure, is_of_message);
            }
            Err(_) => {}
        }
        let entries = told.work.entries.iter();
        let outcomes: Vec<Result<Reply, Failure>> = entries
            .map(|(_, index, _)| match told.refused.iter().find(|(refused, _)| refused == index) {
                Some((_, failure)) => Err(failure.clone()),
                None => outcome.clone(),
            })
            .collect();
        self.slot.heard((told.message, told.work), &outcomes);
        // The MTA that accepts an APDU reports on its delivery (X.411 §14.3.4).
        let hop = Arc::clone(&self.event_hop);
        let clock = AttemptClock::default();
        let context = AttemptContext { hop, local: false, dsn_passed_on: true, clock };
        self.slot.conclude(told.message, told.work, outcomes, &context);
    }
}
