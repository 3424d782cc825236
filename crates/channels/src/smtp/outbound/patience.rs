//! How long a connection is held for a peer that is silent, while others wait for one.

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

/// Whoever is silent for so long is doubtful, and gives way to others, unless it is known to answer.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(5);
/// The same before it has greeted, where nothing is known of it: it has a [second turn](Patience::was_hasty).
const MAKES_WAY_AFTER: Duration = Duration::from_millis(500);
/// Whoever is known to answer, and is silent for so long, is not known to any more.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a peer is left.
pub(super) const NEEDED: &str = "it is silent, and others need the connection";

/// What goes on with a peer.
#[derive(Debug)]
pub(super) struct Stir {
    /// When a whole reply of it was read, or it took something, last.
    at: Cell<Mono>,
    /// It has a content, or a part of one, and no reply to it was heard: whoever leaves it now may send
    /// that twice.
    is_committed: Cell<bool>,
    /// The peer waits for us: it is not silent meanwhile.
    waits_for_us: Cell<bool>,
}

impl Stir {
    pub(super) fn new(now: Mono) -> Rc<Stir> {
        let (is_committed, waits_for_us) = (Cell::new(false), Cell::new(false));
        Rc::new(Stir { at: Cell::new(now), is_committed, waits_for_us })
    }

    /// The peer has replied, or taken something. Octets of a reply are no reply: it may have as many as it likes.
    pub(super) fn note(&self, now: Mono) {
        self.at.set(now);
    }

    /// What we wait for ourselves, while the peer has nothing to answer to.
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

/// Watches over a wait for a peer.
pub(super) struct Patience<W: World> {
    alarm: Alarm<W::Time>,
    stir: Rc<Stir>,
    /// Since when the line knows that the connection is held in silence.
    idle: Option<Mono>,
    /// The peer has not greeted yet: nothing was asked of it.
    is_opening: bool,
    was_hasty: bool,
}

impl<W: World> Patience<W> {
    pub(super) fn new(slot: &Slot<W>, stir: Rc<Stir>) -> Patience<W> {
        let alarm = Alarm::new(slot.world().time().clone());
        Patience { alarm, stir, idle: None, is_opening: false, was_hasty: false }
    }

    /// With a peer that has not greeted yet.
    pub(super) fn of_opening(slot: &Slot<W>, stir: Rc<Stir>) -> Patience<W> {
        Patience { is_opening: true, ..Patience::new(slot, stir) }
    }

    /// Whether the peer was left sooner than others are, for nothing was known of it. It is to be tried once more at
    /// once, among those who were silent: it may only be slow, and it counts as no attempt.
    pub(super) fn was_hasty(&self) -> bool {
        self.was_hasty
    }

    /// What a wait for the peer gives; `None`: it is silent, and others need the connection more.
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
        // Who leaves is known to, until the connection is gone.
        match &output {
            Some(_) => self.go_on(permit),
            None => {
                self.was_hasty = self.is_hasty(permit);
                slot.note_left(permit);
            }
        }
        output
    }

    /// Whether the peer gives way sooner than others.
    fn is_hasty(&self, permit: &Permit) -> bool {
        self.is_opening && permit.standing() == TrustLevel::Unknown
    }

    /// The connection is used again.
    fn go_on(&mut self, permit: &mut Permit) {
        if self.idle.take().is_some() {
            permit.busy();
        }
    }

    /// Ready when the peer is to be left.
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
        // Whoever may not be left is only looked at for the silence.
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
            // The next look is a later one.
            cx.waker().wake_by_ref();
        }
        match self.idle {
            Some(_) => permit.poll_give_way(cx),
            None => Poll::Pending,
        }
    }
}
