//! Time limits for silent peers while other next hops wait for a connection.

use mail::Mono;
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::line::{Permit, TrustLevel};
use mta::seams::World;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Silence after which a peer is doubtful and its connection is released for waiting ones, unless the peer is known to
/// answer.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(5);
/// The same before the greeting of an unknown peer, which gets a [second attempt](Patience::was_hasty).
const MAKES_WAY_AFTER: Duration = Duration::from_millis(500);
/// Silence after which a peer is no longer known to answer.
const SILENCE: Duration = Duration::from_secs(30);

/// Reason for which a peer is left.
pub(super) const NEEDED: &str = "no reply, and other next hops wait for the connection";

/// Progress of the dialogue with a peer.
#[derive(Debug)]
pub(super) struct Stir {
    /// Time of the last complete reply, or of the last data accepted by the peer.
    at: Cell<Mono>,
    /// The peer has received content, at least in part, and not replied yet. A disconnect now could cause a duplicate.
    is_committed: Cell<bool>,
    /// The peer waits for this server, and does not count as silent.
    waits_for_us: Cell<bool>,
}

impl Stir {
    pub(super) fn new(now: Mono) -> Rc<Stir> {
        let (is_committed, waits_for_us) = (Cell::new(false), Cell::new(false));
        Rc::new(Stir { at: Cell::new(now), is_committed, waits_for_us })
    }

    /// The peer has sent a whole reply, or accepted data. A partial reply does not count, since it can be arbitrarily
    /// long.
    pub(super) fn note(&self, now: Mono) {
        self.at.set(now);
    }

    /// Awaits local work during which the peer owes no reply.
    pub(super) async fn waited_for<F: Future>(
        &self,
        now: impl FnOnce() -> Mono,
        ours: F,
    ) -> F::Output {
        self.waits_for_us.set(true);
        let output = ours.await;
        self.waits_for_us.set(false);
        self.note(now());
        output
    }

    pub(super) fn commit(&self, is_committed: bool) {
        self.is_committed.set(is_committed);
    }
}

/// Limits a wait for a peer.
pub(super) struct Patience<W: World> {
    alarm: Alarm<W::Time>,
    stir: Rc<Stir>,
    /// Start of the silence, once reported to the line.
    idle: Option<Mono>,
    /// The peer has not greeted yet, and has received no command.
    is_opening: bool,
    was_hasty: bool,
}

impl<W: World> Patience<W> {
    pub(super) fn new(slot: &Slot<W>, stir: Rc<Stir>) -> Patience<W> {
        let alarm = Alarm::new(slot.world().time().clone());
        Patience { alarm, stir, idle: None, is_opening: false, was_hasty: false }
    }

    /// For a peer that has not greeted yet.
    pub(super) fn of_opening(slot: &Slot<W>, stir: Rc<Stir>) -> Patience<W> {
        Patience { is_opening: true, ..Patience::new(slot, stir) }
    }

    /// Returns true if an unknown peer was left early. It is tried once more at once, in competition with silent peers
    /// only. It may just be slow, and the early attempt does not count.
    pub(super) fn was_hasty(&self) -> bool {
        self.was_hasty
    }

    /// Awaits output of the peer. `None`: it is silent, and other next hops need the connection more.
    pub(super) async fn wait<F: Future>(
        &mut self,
        slot: &Slot<W>,
        permit: &mut Permit,
        waiting: F,
    ) -> Option<F::Output> {
        let mut waiting = pin!(waiting);
        let output = poll_fn(|cx| match waiting.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_leave(slot, permit, cx).map(|()| None),
        });
        let output = output.await;
        // The line counts a connection that is being left until it is closed.
        match &output {
            Some(_) => self.go_on(permit),
            None => {
                self.was_hasty = self.is_hasty(permit);
                slot.note_left(permit);
            }
        }
        output
    }

    /// Returns true if the peer's connection is released early.
    fn is_hasty(&self, permit: &Permit) -> bool {
        self.is_opening && permit.standing() == TrustLevel::Unknown
    }

    /// Reports that the connection is in use again.
    fn go_on(&mut self, permit: &mut Permit) {
        if self.idle.take().is_some() {
            permit.busy();
        }
    }

    /// Ready when the connection must be closed.
    fn poll_leave(
        &mut self,
        slot: &Slot<W>,
        permit: &mut Permit,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.stir.waits_for_us.get() {
            self.go_on(permit);
            return Poll::Pending;
        }
        let (since, is_committed) = (self.stir.at.get(), self.stir.is_committed.get());
        if is_committed || self.idle.is_some_and(|idle| idle != since) {
            self.go_on(permit);
        }
        let standing = permit.standing();
        let doubted_at = match standing {
            TrustLevel::Good => since + SILENCE,
            TrustLevel::Unknown | TrustLevel::Doubtful => since + GIVES_WAY_AFTER,
        };
        // A connection that must not be closed is checked for silence only.
        let is_watched = is_committed || self.idle.is_some();
        let look_at = match !is_watched && self.is_hasty(permit) {
            true => since + MAKES_WAY_AFTER,
            false => doubted_at,
        };
        let is_over = is_watched && standing == TrustLevel::Doubtful;
        if !is_over && self.alarm.poll(cx, look_at).is_ready() {
            if slot.now() >= doubted_at {
                slot.note_silence(permit);
            }
            if !is_committed {
                permit.idle(since);
                self.idle = Some(since);
            }
            // The next deadline is later.
            cx.waker().wake_by_ref();
        }
        match self.idle {
            Some(_) => permit.poll_give_way(cx),
            None => Poll::Pending,
        }
    }
}
