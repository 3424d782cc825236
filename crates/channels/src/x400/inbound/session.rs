//! An association opened by a peer: feeds the state machine and handles its events.

use super::Shares;
use super::incoming::{Complete, Incoming};
use super::unbound::{UNBOUND_MAX, UNBOUND_PER_CLIENT_MAX, UnboundSlot};
use crate::x400::acceptance::Acceptance;
use crate::x400::peer::{Unwritten, is_its, our_identity};
use crate::x400::section::{X400, X400Peer};
use auth::digest::DIGEST_BYTES;
use bytes::Bytes;
use config::Listener;
use mail::{ContentFacts, MessageId, Mono, Refusal, Reply};
use mta::alarm::Alarm;
use mta::console::Quoted;
use mta::ingress::{Connection, Sender, Submitted, Transaction};
#[cfg(feature = "planted")]
use mta::planted::Planted;
use mta::pools::PoolId;
use mta::seams::{Net, Stream, World};
use mta::services::SCRATCH_BYTES;
use mta::stopping::{StopGuard, Stopping};
use mta::unheard::{TransferStart, TransferState};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use x400::association::{
    AbortReason, AssociationEnd, BindError, BindRequest, Event, ExceptionReason, Responder,
};

/// Delay of the refusal of a wrong name or password.
const REFUSAL_DELAY: Duration = Duration::from_secs(2);

/// Timeout for a peer that does not read the end of an association.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(60);

/// The peer sent the same APDU again before it was durable. It will retry, and then get an acknowledgement.
const BEING_STORED: Refusal =
    Refusal::transient((3, 2), "Same APDU from another association is being stored");

/// Too many unbound associations.
const GIVES_WAY: Refusal = Refusal::transient((7, 0), "X.400: too many unbound associations");
const UNKNOWN: Refusal = Refusal::permanent((7, 8), "X.400: invalid name or password");
const TOO_MANY_WRONG: Refusal =
    Refusal::transient((7, 0), "X.400: too many invalid names or passwords");

/// Never used: the machine completes only APDUs that it has begun.
const NOT_BEGUN: Refusal = Refusal::transient((3, 0), "APDU not read");
const TOO_MANY_UNREADABLE: Refusal =
    Refusal::transient((3, 2), "X.400: too many unreadable messages are held for an operator");

/// An incoming association.
pub(super) struct InboundAssociation<W: World> {
    pub(super) x400: Arc<X400>,
    pub(super) listener: Arc<Listener>,
    /// The transaction of an APDU that arrives, unless refused.
    pub(super) transaction: Option<Box<Transaction<W>>>,
    pub(super) connection: Connection<W>,
    stream: <W::Net as Net>::Stream,
    machine: Responder,
    unwritten: Unwritten,
    alarm: Alarm<W::Time>,
    /// The shard's read buffer.
    scratch: Rc<RefCell<Box<[u8]>>>,
    stopping: Rc<Stopping>,
    /// Slot of an unbound association.
    place: Option<UnboundSlot>,
    shares: Shares,
    /// The peer, once bound.
    pub(super) peer: Option<Arc<X400Peer>>,
    pub(super) incoming: Option<Incoming>,
    /// The APDU that arrives was refused for now, and the peer informed.
    pub(super) is_refused: bool,
    /// Held while an APDU arrives, so that a stop waits for it.
    busy: Option<StopGuard>,
    /// Start of the APDU that arrives.
    begun: TransferStart,
    /// Digest of the last acknowledged APDU, until the peer sends anything further.
    unheard: Option<[u8; DIGEST_BYTES]>,
}

/// Event that ended a wait.
enum Woken {
    Input(Bytes),
    /// The peer closed the connection.
    End,
    /// A deadline of the machine, or of the intake.
    Time,
    /// The server stops.
    Stop,
    /// The association is unbound, and its slot is needed for another one.
    GivenUp,
}

impl<W: World> InboundAssociation<W> {
    /// An association with a newly connected peer.
    pub(super) fn new(
        x400: Arc<X400>,
        (listener, shares): (Arc<Listener>, Shares),
        connection: Connection<W>,
        (stream, machine): (<W::Net as Net>::Stream, Responder),
    ) -> InboundAssociation<W> {
        InboundAssociation {
            machine,
            unwritten: Unwritten::default(),
            alarm: connection.alarm(),
            scratch: connection.scratch(),
            stopping: Rc::clone(connection.stopping()),
            place: None,
            shares,
            peer: None,
            incoming: None,
            is_refused: false,
            busy: None,
            begun: TransferStart::default(),
            unheard: None,
            x400,
            listener,
            transaction: None,
            connection,
            stream,
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(&mut self) {
        if let Err(refusal) = self.connection.admit().await {
            return self.connection.turn_away(Reply::from(refusal));
        }
        let client = self.client();
        if !self.x400.peers.iter().any(|peer| peer.is_known_at(client)) {
            self.place = self.shares.unbound.enter(client);
            if self.place.as_ref().is_some_and(UnboundSlot::has_displaced) {
                self.connection.note_turned_away(PoolId::Unbound);
            }
        }
        // An error here means that the peer closed the connection. An unfinished APDU is dropped with the session.
        let _ = self.serve().await;
        self.leave_unheard();
    }

    fn client(&self) -> IpAddr {
        self.connection.session().client().address.ip()
    }

    /// The peer has received the last acknowledgement.
    fn note_heard(&mut self) {
        if let (Some(peer), Some(digest)) = (&self.peer, self.unheard.take()) {
            self.connection.unheard().hear(&peer.name, &digest);
        }
    }

    /// The peer may not have received the last acknowledgement, or aborted before it.
    fn leave_unheard(&mut self) {
        if let (Some(peer), Some(digest)) = (&self.peer, self.unheard.take()) {
            self.connection.unheard().end(&peer.name, &digest);
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        let stopping = Rc::clone(&self.stopping);
        let mut stop = std::pin::pin!(stopping.listen());
        loop {
            while let Some(event) = self.machine.poll_event() {
                self.take(event).await;
            }
            self.flush().await?;
            if self.machine.is_closed() {
                return Ok(());
            }
            if let Err(refusal) = self.attend().await {
                self.refuse_for_now(&refusal);
                continue;
            }
            let woken = poll_fn(|cx| {
                if self.is_over() {
                    return Poll::Ready(Ok(Woken::Stop));
                }
                let _ = stopping.poll_woken(stop.as_mut(), cx);
                if self.poll_given_up(cx).is_ready() {
                    return Poll::Ready(Ok(Woken::GivenUp));
                }
                self.poll_input(cx)
            });
            let woken = woken.await?;
            let now = self.connection.now();
            match woken {
                Woken::Input(octets) => self.machine.handle_input(octets, now),
                Woken::End => self.machine.handle_eof(),
                Woken::Time => self.machine.handle_deadline(now),
                Woken::Stop => self.machine.abort(AbortReason::TemporaryProblem, now),
                Woken::GivenUp => {
                    self.give_up();
                    return Ok(());
                }
            }
        }
    }

    /// Returns true if the server stops and the session has nothing to finish, or the grace period is over.
    fn is_over(&self) -> bool {
        self.stopping
            .until()
            .is_some_and(|until| self.busy.is_none() || self.connection.now() >= until)
    }

    fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.place.as_mut().map_or(Poll::Pending, |place| place.poll_given_up(cx))
    }

    /// Closes the connection without a refusal, which an unbound peer would not read.
    fn give_up(&mut self) {
        let address = self.connection.session().client().address;
        let text = format_args!(
            "unbound association closed: at most {UNBOUND_MAX}, {UNBOUND_PER_CLIENT_MAX} of one \
             network client={address}"
        );
        self.connection.warn("x400", text);
        self.connection.turn_away(Reply::from(GIVES_WAY));
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Woken>> {
        let mut scratch = self.scratch.borrow_mut();
        match self.stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Woken::End)),
            Poll::Ready(Ok(n)) => {
                let octets = Bytes::copy_from_slice(scratch.get(..n).unwrap_or_default());
                return Poll::Ready(Ok(Woken::Input(octets)));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
        drop(scratch);
        let deadline = self.machine.next_deadline().unwrap_or(Mono::NEVER);
        let look = self.transaction.as_mut().map(|transaction| transaction.intake().next_look());
        let deadline = deadline.min(look.unwrap_or(Mono::NEVER));
        self.alarm.poll(cx, deadline).map(|()| Ok(Woken::Time))
    }

    /// Writes the machine's output. A peer that reads nothing is timed out.
    async fn flush(&mut self) -> io::Result<()> {
        self.unwritten.extend(self.machine.take_output());
        while !self.unwritten.is_empty() {
            // A closed machine has no deadline, but its last output may be unwritten.
            let last = self.connection.now() + LAST_WORDS_TIMEOUT;
            let deadline = self.machine.next_deadline().unwrap_or(last);
            let written =
                poll_fn(|cx| match self.stream.poll_write(cx, &self.unwritten.slices()) {
                    Poll::Pending => {
                        self.alarm.poll(cx, deadline).map(|()| Err(io::ErrorKind::TimedOut.into()))
                    }
                    Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    done => done,
                });
            let count = written.await?;
            self.unwritten.advance(count);
            self.machine.handle_written(self.connection.now());
        }
        Ok(())
    }

    async fn take(&mut self, event: Event) {
        match event {
            Event::Bind(request) => self.bind(&request).await,
            Event::ActivityStarted => self.begin().await,
            Event::Content(octets) => self.content(octets).await,
            Event::ApduComplete => self.complete().await,
            Event::ActivityDropped => {
                // The activity may also be dropped after its end: the APDU was durable then, but not acknowledged.
                self.leave_unheard();
                self.forget();
            }
            // This server sends nothing on associations opened by peers, and returns the turn.
            Event::TurnTaken => {
                self.note_heard();
                self.machine.give_turn(self.connection.now());
            }
            Event::TurnGiven => {}
            Event::Ended(end) => self.ended(&end),
            // Events of an initiator.
            Event::Bound(_) | Event::Acknowledged | Event::NotTaken(_) => {}
        }
    }

    /// Accepts known peers only.
    async fn bind(&mut self, request: &BindRequest) {
        let name = request.identity.name.as_deref().unwrap_or_default();
        let named = self.x400.peer_called(name.as_bytes());
        let is_its_place = named.is_some_and(|peer| peer.is_named_at(self.client()));
        let attempt = self.connection.begin_bind(name, is_its_place);
        let recognised = match &attempt {
            Some(_) => self.recognised(request),
            None => Err("too many invalid names or passwords within an hour"),
        };
        match (recognised, attempt) {
            (Ok(peer), mut attempt) => {
                attempt.iter_mut().for_each(|attempt| self.connection.note_proof(attempt));
                self.shares.unbound.note_bound(self.client());
                self.place = None;
                self.connection.introduce(&peer.their_name, "P1");
                self.connection.recognise_peer(&peer.name);
                self.machine.accept(&our_identity(&peer), self.connection.now());
                self.peer = Some(peer);
            }
            (Err(why), mut attempt) => {
                attempt.iter_mut().for_each(|attempt| self.connection.bind_failed(attempt));
                // An IA5String (X.411, MTAName).
                let shown = |c: char| if c.is_ascii_graphic() { c } else { '?' };
                let name: String = name.chars().map(shown).take(32).collect();
                let address = self.connection.session().client().address;
                self.connection.introduce(&name, "P1");
                let name = Quoted(&name);
                let text = format_args!("bind of {name} rejected: {why} client={address}");
                self.connection.warn("x400", text);
                let (refusal, error) = match attempt {
                    Some(_) => (UNKNOWN, BindError::Authentication),
                    None => (TOO_MANY_WRONG, BindError::Busy),
                };
                self.connection.turn_away(Reply::from(refusal));
                let until = self.connection.now() + REFUSAL_DELAY;
                poll_fn(|cx| match self.poll_given_up(cx) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => self.alarm.poll(cx, until),
                })
                .await;
                self.machine.refuse(error, self.connection.now());
            }
        }
    }

    /// Looks up the peer in the current configuration, so that a reload applies from the next message on. Returns false
    /// if it may send no more; the association then ends.
    fn is_still_peer(&mut self) -> bool {
        let Some(bound) = self.peer.clone() else { return false };
        let client = self.client();
        let config = self.connection.config();
        let found = config.of::<X400>().and_then(|x400| {
            let peer = x400.peer_called(bound.their_name.as_bytes())?;
            let is_same = peer.has_bound_as(&bound) && peer.may_bind_from(client);
            is_same.then(|| (Arc::clone(x400), Arc::clone(peer)))
        });
        if let Some((x400, peer)) = found {
            (self.x400, self.peer) = (x400, Some(peer));
            return true;
        }
        let text = format_args!(
            "association closed: peer {} was removed from the configuration, or its name, \
             password or address changed client={client}",
            bound.name
        );
        self.connection.warn("x400", text);
        self.machine.abort(AbortReason::TemporaryProblem, self.connection.now());
        false
    }

    fn recognised(&self, request: &BindRequest) -> Result<Arc<X400Peer>, &'static str> {
        let name = request.identity.name.as_deref().ok_or("no name")?;
        let peer = self.x400.peer_called(name.as_bytes()).ok_or("unknown name")?;
        if request.has_strong_credentials {
            return Err("credentials without a password");
        }
        if !peer.may_bind_from(self.client()) {
            return Err("address not allowed");
        }
        match is_its(&request.identity, peer) {
            true => Ok(Arc::clone(peer)),
            false => Err("wrong password"),
        }
    }

    async fn begin(&mut self) {
        if !self.is_still_peer() {
            return;
        }
        // A peer that continues has received the acknowledgement.
        self.note_heard();
        self.begun = self.connection.unheard().begin();
        self.busy = Some(self.stopping.guard());
        self.is_refused = false;
        self.incoming = Some(Incoming::new());
        match self.connection.begin(Sender::default()).await {
            Ok(transaction) => self.transaction = Some(transaction),
            Err(refusal) => self.refuse_for_now(&refusal),
        }
    }

    /// Refuses the APDU for now. The peer keeps it and retries.
    pub(super) fn refuse_for_now(&mut self, refusal: &Refusal) {
        self.transaction = None;
        if std::mem::replace(&mut self.is_refused, true) {
            return;
        }
        let peer = self.peer.as_ref().map_or("", |peer| &peer.name);
        self.connection.warn("x400", format_args!("{} peer={peer}", refusal.text));
        self.machine.refuse_apdu(ExceptionReason::TemporarilyUnable, self.connection.now());
    }

    async fn complete(&mut self) {
        if self.is_refused {
            return;
        }
        let room = self.with_incoming(|incoming, rules, sink| incoming.finish(rules, sink));
        self.reserve(room).await;
        if self.is_refused {
            return;
        }
        let complete = self.incoming.take().and_then(Incoming::complete);
        let Some(Complete { acceptance, facts, digest }) = complete else {
            return self.refuse_for_now(&NOT_BEGUN);
        };
        if let Some(why) = acceptance.why_unreadable()
            && !self.may_be_held(why)
        {
            return self.refuse_for_now(&TOO_MANY_UNREADABLE);
        }
        #[cfg(feature = "planted")]
        if self.connection.has_planted(Planted::AcknowledgeApduEarly) {
            self.machine.acknowledge(self.connection.now());
            let _ = self.flush().await;
        }
        if !acceptance.envelope.recipients.is_empty()
            && let Err(refusal) = self.store(acceptance, facts, digest).await
        {
            return self.refuse_for_now(&refusal);
        }
        self.transaction = None;
        self.machine.acknowledge(self.connection.now());
        self.busy = None;
    }

    /// Returns true if one more unreadable APDU may be held for an operator, and logs the hold.
    fn may_be_held(&self, why: &str) -> bool {
        let Some(peer) = &self.peer else { return false };
        let is_admitted = self.shares.unreadable.admit(&peer.name, self.connection.now());
        if is_admitted {
            self.connection.warn("x400", format_args!("held for an operator: {why}"));
        }
        is_admitted
    }

    /// Makes the APDU durable, unless it is so already and the peer missed the acknowledgement.
    async fn store(
        &mut self,
        acceptance: Acceptance,
        facts: ContentFacts,
        digest: [u8; DIGEST_BYTES],
    ) -> Result<(), Refusal> {
        let peer = self.peer.as_ref().map(|peer| Arc::clone(&peer.name)).unwrap_or_default();
        match self.claim(&peer, &digest) {
            TransferState::BeingStored => return Err(BEING_STORED),
            TransferState::Heard(id) => {
                let what = "late transfer, already resent and acknowledged";
                self.tell_of_resend(&peer, id, what);
                return Ok(());
            }
            TransferState::Stored(id) => {
                self.tell_of_resend(&peer, id, "resent an acknowledged APDU");
            }
            TransferState::New => {
                let submitted = self.submit(acceptance, facts).await;
                let unheard = self.connection.unheard();
                match submitted {
                    Ok(Submitted::Queued(id)) => unheard.store(&peer, &digest, id),
                    nothing => {
                        unheard.forget(&peer, &digest);
                        return nothing.map(drop);
                    }
                }
            }
        }
        self.unheard = Some(digest);
        Ok(())
    }

    async fn submit(
        &mut self,
        acceptance: Acceptance,
        facts: ContentFacts,
    ) -> Result<Submitted, Refusal> {
        let Some(transaction) = &mut self.transaction else { return Err(NOT_BEGUN) };
        transaction.submit(acceptance.into_submission(facts)).await
    }

    fn tell_of_resend(&self, peer: &str, id: MessageId, what: &str) {
        let text = format_args!("{what}: no second copy peer={peer} id={id}");
        self.connection.warn("x400", text);
    }

    fn claim(&self, peer: &str, digest: &[u8]) -> TransferState {
        #[cfg(feature = "planted")]
        if self.connection.has_planted(Planted::StoreResends) {
            return TransferState::New;
        }
        self.connection.unheard().claim(peer, digest, self.begun)
    }

    /// Drops the APDU that was arriving.
    fn forget(&mut self) {
        self.incoming = None;
        self.is_refused = false;
        self.busy = None;
        self.transaction = None;
    }

    fn ended(&mut self, end: &AssociationEnd) {
        if *end == AssociationEnd::Released {
            self.note_heard();
        }
        self.forget();
        if is_worth_a_line(end) {
            let peer = self.peer.as_ref().map_or("", |peer| &peer.name);
            let address = self.connection.session().client().address;
            self.connection
                .warn("x400", format_args!("association {end} peer={peer} client={address}"));
        }
    }
}

/// Returns true if the end of an association should be logged. A regular end or a lost connection is not.
pub(crate) fn is_worth_a_line(end: &AssociationEnd) -> bool {
    match end {
        AssociationEnd::Released | AssociationEnd::Lost | AssociationEnd::AbortedByUs(_) => false,
        AssociationEnd::Refused(_)
        | AssociationEnd::AbortedByPeer { .. }
        | AssociationEnd::Violation(_)
        | AssociationEnd::TimedOut(_) => true,
    }
}
