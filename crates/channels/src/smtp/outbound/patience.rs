//! How long a connection is held for a peer that is silent, while others wait for one.

use mail::Mono;
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::line::{Permit, Standing};
use mta::seams::World;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Whoever is silent for so long gives way to others, unless it is known to answer.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(5);
/// Whoever is silent for so long is not known to answer any more.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a peer is left.
pub(super) const NEEDED: &str = "it is silent, and others need the connection";

/// What goes on with a peer.
#[derive(Debug)]
pub(super) struct Stir {
    /// When something was heard of it, or it took something, last.
    at: Cell<Mono>,
    /// It has a content, or a part of one, and no reply to it was heard: whoever leaves it now may send
    /// that twice.
    is_committed: Cell<bool>,
}

impl Stir {
    pub(super) fn new(now: Mono) -> Rc<Stir> {
        Rc::new(Stir { at: Cell::new(now), is_committed: Cell::new(false) })
    }

    /// The peer has said or taken something.
    pub(super) fn note(&self, now: Mono) {
        self.at.set(now);
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
}

impl<W: World> Patience<W> {
    pub(super) fn new(slot: &Slot<W>, stir: Rc<Stir>) -> Patience<W> {
        Patience { alarm: Alarm::new(slot.world().time().clone()), stir, idle: None }
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
        if output.is_some() {
            self.go_on(permit);
        }
        output
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
        let (since, is_committed) = (self.stir.at.get(), self.stir.is_committed.get());
        if is_committed || self.idle.is_some_and(|idle| idle != since) {
            self.go_on(permit);
        }
        // Whoever may not be left is only looked at for the silence.
        let is_watched = is_committed || self.idle.is_some();
        let is_doubted = permit.standing() == Standing::Doubtful;
        let look_at = match is_watched || permit.standing() == Standing::Good {
            true => since + SILENCE,
            false => since + GIVES_WAY_AFTER,
        };
        let is_over = is_watched && is_doubted;
        if !is_over && self.alarm.poll(cx, look_at).is_ready() {
            if slot.now() >= since + SILENCE {
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
