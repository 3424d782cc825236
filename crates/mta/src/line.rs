//! Waiting in line for what the process has little of: lookups, connections, mailbox writers,
//! memory to read into.
//!
//! Lack of our own is no failure of anybody's: who finds none waits here, over all shards, and in
//! turn. Of those who wait they come first who hold the least, and among equals whoever came
//! first; so everybody has one before anybody has a second. Who is not known to be well (a next
//! hop that has not greeted yet, a domain whose last lookup failed) can take a part only, so that
//! those who are always find some left.

mod state;
#[cfg(test)]
mod tests;
mod who;

pub use state::Parts;
use state::{Grant, Group, Head, Obstacle, State, Waiter};
pub use who::{Standing, Who};

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// A place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Those before it.
    pub before: u64,
    /// All who wait.
    pub waiting: u64,
}

/// An amount that is given out in turn.
#[derive(Debug)]
pub struct Line {
    state: Mutex<State>,
    /// Somebody waits for what others hold.
    short: AtomicBool,
    /// More than four fifths are taken, those not counted who were asked to go.
    tight: AtomicBool,
    waiting: AtomicU64,
}

impl Line {
    /// Nobody in it yet.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Line> {
        Arc::new(Line {
            state: Mutex::new(State::new(parts)),
            short: AtomicBool::new(false),
            tight: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
        })
    }

    /// Joins the line for `amount`. Of one that is larger than all there is, all is enough.
    #[must_use]
    pub fn join(self: &Arc<Line>, who: Who, standing: Standing, amount: u64) -> InLine {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting += 1;
        let group = state.groups.entry(who).or_insert_with(Group::new);
        group.waiters.push_back(Waiter { ticket, amount, waker: None });
        state.regroup(who, |group| group.standing = standing);
        self.serve(&mut state);
        InLine { line: Arc::clone(self), ticket: Some(ticket), who }
    }

    /// Where those of `who` stand, if any of them waits.
    #[must_use]
    pub fn place(&self, who: Who) -> Option<Place> {
        let state = self.lock();
        let group = state.groups.get(&who)?;
        let head = group.head(who)?;
        let before = |at: &BTreeSet<Head>| at.range(..head).count() as u64;
        Some(Place { before: state.heads.iter().map(before).sum(), waiting: state.waiting })
    }

    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How much is taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// How much there is.
    #[must_use]
    pub fn parts(&self) -> Parts {
        self.lock().parts
    }

    /// Sets how much there is, at a reload.
    pub fn set_parts(&self, parts: Parts) {
        let mut state = self.lock();
        state.parts = parts;
        self.serve(&mut state);
    }

    /// How much should be let go by those who hold something and do not use it.
    #[must_use]
    pub fn excess(&self) -> u64 {
        self.lock().excess()
    }

    /// More than four fifths are taken, or somebody waits: who holds something and does not use
    /// it should let go.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    /// Ready when the line [is tight](Line::is_tight).
    pub fn poll_tight(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if self.is_tight() {
            return Poll::Ready(());
        }
        if !state.watchers.iter().any(|known| known.will_wake(cx.waker())) {
            state.watchers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out what can be given out, and says how things stand.
    fn serve(&self, state: &mut State) {
        while let Some(head) = state.first_served() {
            state.grant(head);
        }
        let short = state.waits_for_all() > state.leaving;
        let tight = state.excess() > 0;
        self.short.store(short, Ordering::Relaxed);
        self.tight.store(tight, Ordering::Relaxed);
        self.waiting.store(state.waiting, Ordering::Relaxed);
        if tight {
            for watcher in state.watchers.drain(..) {
                watcher.wake();
            }
        }
    }

    fn release(&self, grant: Grant, leaving: bool) {
        let mut state = self.lock();
        state.count(grant, false);
        if leaving {
            state.leaving = state.leaving.saturating_sub(grant.amount);
        }
        state.regroup(grant.who, |group| group.held = group.held.saturating_sub(1));
        self.serve(&mut state);
    }
}

/// A place in the line; dropped, it is given up.
#[derive(Debug)]
pub struct InLine {
    line: Arc<Line>,
    /// `None` once the permit was handed over.
    ticket: Option<u64>,
    who: Who,
}

impl InLine {
    /// Whether its turn has come already.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.ticket.is_none_or(|ticket| self.line.lock().granted.contains_key(&ticket))
    }
}

impl Future for InLine {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let line = Arc::clone(&self.line);
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let mut state = line.lock();
        if let Some(grant) = state.granted.remove(&ticket) {
            drop(state);
            self.ticket = None;
            return Poll::Ready(Permit { line, grant, leaving: false });
        }
        let group = state.groups.get_mut(&self.who);
        if let Some(waiter) =
            group.and_then(|group| group.waiters.iter_mut().find(|waiter| waiter.ticket == ticket))
        {
            waiter.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.line.lock();
        if let Some(grant) = state.granted.remove(&ticket) {
            drop(state);
            return self.line.release(grant, false);
        }
        state.waiting = state.waiting.saturating_sub(1);
        state.regroup(self.who, |group| group.waiters.retain(|waiter| waiter.ticket != ticket));
        self.line.serve(&mut state);
    }
}

/// What somebody got; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    line: Arc<Line>,
    grant: Grant,
    leaving: bool,
}

impl Permit {
    /// Its holder is well: it counts with the good ones from now on, and so do those of its name
    /// who wait.
    pub fn prove(&mut self) {
        if self.grant.standing == Standing::Good {
            return;
        }
        let mut state = self.line.lock();
        state.count(self.grant, false);
        self.grant.standing = Standing::Good;
        state.count(self.grant, true);
        state.regroup(self.grant.who, |group| group.standing = Standing::Good);
        self.line.serve(&mut state);
    }

    /// Gives back all but `amount`.
    pub fn shrink(&mut self, amount: u64) {
        let mut state = self.line.lock();
        state.count(self.grant, false);
        self.grant.amount = self.grant.amount.min(amount);
        state.count(self.grant, true);
        self.line.serve(&mut state);
    }

    /// Whether its holder, who has use for it, must let it go nevertheless, because somebody
    /// waits who holds at least two less. Who is told so must.
    pub fn must_go(&mut self) -> bool {
        if self.leaving || !self.line.short.load(Ordering::Relaxed) {
            return self.leaving;
        }
        let line = Arc::clone(&self.line);
        let mut state = line.lock();
        let mine = state.groups.get(&self.grant.who).map_or(0, |group| group.held);
        let waits = |(head, obstacle): (Head, Obstacle)| {
            obstacle == Obstacle::All && head.held.saturating_add(1) < mine
        };
        let go = state.waits_for_all() > state.leaving && state.firsts().any(waits);
        self.leave_if(&mut state, go)
    }

    /// Whether its holder, who has no use for it at the moment, should let it go. Who is told so
    /// must, or [stay](Permit::stay).
    pub fn should_go(&mut self) -> bool {
        if self.leaving || !self.line.is_tight() {
            return self.leaving;
        }
        let line = Arc::clone(&self.line);
        let mut state = line.lock();
        let go = state.excess() > 0;
        self.leave_if(&mut state, go)
    }

    /// Its holder has use for it again, and does not go after all.
    pub fn stay(&mut self) {
        if std::mem::take(&mut self.leaving) {
            let mut state = self.line.lock();
            state.leaving = state.leaving.saturating_sub(self.grant.amount);
            self.line.serve(&mut state);
        }
    }

    fn leave_if(&mut self, state: &mut State, go: bool) -> bool {
        if go {
            self.leaving = true;
            state.leaving = state.leaving.saturating_add(self.grant.amount);
            self.line.serve(state);
        }
        go
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.line.release(self.grant, self.leaving);
    }
}
