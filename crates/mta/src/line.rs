//! Waiting in line for what the process has little of: lookups, connections, mailbox writers,
//! memory to read into.
//!
//! Lack of our own is no failure of anybody's: who finds none waits here, over all shards, and in
//! turn. Of those who wait they come first whose owner holds the least, of one owner's they who hold
//! the least, and equals take turns: whoever was served is behind all who wait already. So everybody has
//! one before anybody has a second, and a zone with a thousand names is one of them. No owner has more than its share. Who is
//! not known to be well (a next hop that has accepted or rejected nothing yet, a domain whose last
//! lookup failed) can take a part only, so that those who are always find some left. Standing is
//! lost by silence, and what is held in silence gives way to those who wait.

mod standings;
mod state;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(test)]
mod turns;
mod who;

pub use standings::{GOOD_FOR, Standings};
pub use state::SemaphoreLimits;
use state::{Grant, Obstacle, State};
pub(crate) use who::Owners;
use who::Path;
pub use who::{FairKey, Name, Owner, TrustLevel, zone_of};

use mail::Mono;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// A place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPosition {
    /// Those before it.
    pub before: u64,
    /// All who wait.
    pub waiting: u64,
}

/// An amount that is given out in turn.
#[derive(Debug)]
pub struct FairSemaphore {
    state: Mutex<State>,
    /// Somebody waits for what others hold.
    short: AtomicBool,
    /// More than four fifths are taken, those not counted who were asked to go.
    tight: AtomicBool,
    waiting: AtomicU64,
}

impl FairSemaphore {
    /// Nobody in it yet.
    #[must_use]
    pub fn new(parts: SemaphoreLimits) -> Arc<FairSemaphore> {
        Arc::new(FairSemaphore {
            state: Mutex::new(State::new(parts)),
            short: AtomicBool::new(false),
            tight: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
        })
    }

    /// Joins the line for `amount`. Of one that is larger than all there is, all is enough.
    #[must_use]
    pub fn join(
        self: &Arc<FairSemaphore>,
        who: FairKey,
        standing: TrustLevel,
        amount: u64,
    ) -> PermitWaiter {
        let mut state = self.lock();
        let ticket = state.join(who, standing, amount);
        self.serve(&mut state);
        PermitWaiter { line: Arc::clone(self), ticket: Some(ticket), who: who.path }
    }

    /// The same for one who does not wait: what is left now, if it is his turn at once.
    #[must_use]
    pub fn try_take(
        self: &Arc<FairSemaphore>,
        who: FairKey,
        standing: TrustLevel,
        amount: u64,
    ) -> Option<Permit> {
        self.join(who, standing, amount).served()
    }

    /// Where those of `who` stand, if any of them waits.
    #[must_use]
    pub fn place(&self, who: FairKey) -> Option<WaitPosition> {
        let state = self.lock();
        Some(WaitPosition { before: state.tree.before(who.path)?, waiting: state.waiting })
    }

    /// Whoever belongs to `owner` and waits is doubtful from now on, as far as nothing was known of him: whom strangers
    /// brought before is served no sooner than whom they bring after.
    pub fn doubt(&self, owner: Owner) {
        self.doubt_all(owner.alone());
    }

    /// The same of all owners of somebody.
    pub(crate) fn doubt_all(&self, owners: Owners) {
        let mut state = self.lock();
        state.tree.doubt(owners);
        self.serve(&mut state);
    }

    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The owner that holds most, as people call it (nothing, if nobody knows), and how much; `None`: nobody
    /// holds anything.
    #[must_use]
    pub fn most(&self) -> Option<(Name, u64)> {
        self.lock().tree.most()
    }

    /// How much is taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// How much there is.
    #[must_use]
    pub fn parts(&self) -> SemaphoreLimits {
        self.lock().parts
    }

    /// Sets how much there is, at a reload.
    pub fn set_parts(&self, parts: SemaphoreLimits) {
        let mut state = self.lock();
        state.set_parts(parts);
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
        while let Some(first) = state.first_served() {
            state.grant(first);
        }
        state.ask_idle();
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

    fn release(&self, grant: Grant, leaving: bool, idle: Option<Mono>) {
        let mut state = self.lock();
        if let Some(since) = idle {
            state.busy(since, grant.ticket);
        }
        if leaving {
            state.leaving = state.leaving.saturating_sub(grant.amount);
        }
        state.give_back(grant);
        self.serve(&mut state);
    }
}

/// A place in the line; dropped, it is given up.
#[derive(Debug)]
pub struct PermitWaiter {
    line: Arc<FairSemaphore>,
    /// `None` once the permit was handed over.
    ticket: Option<u64>,
    who: Path,
}

impl PermitWaiter {
    /// Whether its turn has come already.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.ticket.is_none_or(|ticket| self.line.lock().granted.contains_key(&ticket))
    }

    /// What it got, if its turn has come; else it gives up.
    fn served(mut self) -> Option<Permit> {
        let grant = self.line.lock().granted.remove(&self.ticket?)?;
        self.ticket = None;
        Some(Permit::new(&self.line, grant))
    }
}

impl Future for PermitWaiter {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let line = Arc::clone(&self.line);
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let mut state = line.lock();
        if let Some(grant) = state.granted.remove(&ticket) {
            drop(state);
            self.ticket = None;
            return Poll::Ready(Permit::new(&line, grant));
        }
        if let Some(waiter) = state.tree.waiter(self.who, ticket) {
            waiter.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for PermitWaiter {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.line.lock();
        if let Some(grant) = state.granted.remove(&ticket) {
            drop(state);
            return self.line.release(grant, false, None);
        }
        state.waiting = state.waiting.saturating_sub(1);
        state.tree.give_up(self.who, ticket);
        self.line.serve(&mut state);
    }
}

/// What somebody got; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    line: Arc<FairSemaphore>,
    grant: Grant,
    leaving: bool,
    /// Since when it is not used, as the line knows.
    idle: Option<Mono>,
}

impl Permit {
    fn new(line: &Arc<FairSemaphore>, grant: Grant) -> Permit {
        Permit { line: Arc::clone(line), grant, leaving: false, idle: None }
    }

    /// How much it is.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.grant.amount
    }

    /// Whom its holder belongs to; himself twice if nobody.
    pub(crate) fn owners(&self) -> Owners {
        let [wide, narrow, _] = self.grant.who;
        [wide, narrow]
    }

    /// What its holder counts as.
    #[must_use]
    pub fn standing(&self) -> TrustLevel {
        self.grant.standing
    }

    /// Its holder is well: it counts with the good ones from now on, and so do those of its name
    /// who wait.
    pub fn prove(&mut self) {
        self.count_as(TrustLevel::Good);
    }

    /// Its holder is silent: it counts with the doubtful ones from now on, and so do those of its
    /// name who wait.
    pub fn doubt(&mut self) {
        self.count_as(TrustLevel::Doubtful);
    }

    fn count_as(&mut self, standing: TrustLevel) {
        if self.grant.standing != standing {
            let line = Arc::clone(&self.line);
            self.change(&mut line.lock(), Grant { standing, ..self.grant });
        }
    }

    /// Gives it back, and joins the line for another amount.
    #[must_use]
    pub fn exchange(self, amount: u64) -> PermitWaiter {
        let (line, Grant { who, standing, .. }) = (Arc::clone(&self.line), self.grant);
        // Before it is given back: until then the line knows how its owners are called.
        let ticket = Some(line.lock().join(FairKey::known(who), standing, amount));
        drop(self);
        PermitWaiter { line, ticket, who }
    }

    /// Gives back all but `amount`.
    pub fn shrink(&mut self, amount: u64) {
        let line = Arc::clone(&self.line);
        let amount = self.grant.amount.min(amount);
        self.change(&mut line.lock(), Grant { amount, ..self.grant });
    }

    /// Takes so much more, if there is that much left for its holder, and nobody waits for it.
    #[must_use]
    pub fn try_grow(&mut self, more: u64) -> bool {
        let Grant { who, standing, amount, .. } = self.grant;
        let line = Arc::clone(&self.line);
        let mut state = line.lock();
        // One who holds something already is no newcomer.
        let fits = state.waits_for_all() == 0
            && state.tree.fits(who, standing, more)
            && state.obstacle(standing, 1, more) == Obstacle::None;
        if fits {
            self.change(&mut state, Grant { amount: amount.saturating_add(more), ..self.grant });
        }
        fits
    }

    fn change(&mut self, state: &mut State, to: Grant) {
        // What it counts as while it is idle, or is asked to go, must be what it is.
        if let Some(since) = self.idle {
            state.busy(since, self.grant.ticket);
            state.idle(since, to);
        }
        if self.leaving {
            state.leaving = state.leaving.saturating_sub(self.grant.amount);
            state.leaving = state.leaving.saturating_add(to.amount);
        }
        state.change(self.grant, to);
        self.grant = to;
        self.line.serve(state);
    }

    /// It is held without use since a moment: its holder waits for somebody who is silent. It may
    /// be asked to [give way](Permit::poll_give_way) from now on.
    pub fn idle(&mut self, since: Mono) {
        if self.idle == Some(since) {
            return;
        }
        self.busy();
        let mut state = self.line.lock();
        state.idle(since, self.grant);
        self.idle = Some(since);
        self.line.serve(&mut state);
    }

    /// There is use for it again.
    pub fn busy(&mut self) {
        if let Some(since) = self.idle.take() {
            let mut state = self.line.lock();
            state.busy(since, self.grant.ticket);
            self.line.serve(&mut state);
        }
    }

    /// Ready when its holder, who waits in silence, must let it go because somebody waits who
    /// holds less.
    pub fn poll_give_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(since) = self.idle else { return Poll::Pending };
        match self.line.lock().is_asked(since, self.grant.ticket, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Whether its holder, who has use for it, must let it go nevertheless, because somebody
    /// waits who holds at least two less. Who is told so must.
    pub fn must_go(&mut self) -> bool {
        if self.leaving || !self.line.short.load(Ordering::Relaxed) {
            return self.leaving;
        }
        let line = Arc::clone(&self.line);
        let mut state = line.lock();
        let go = state.waits_for_all() > state.leaving
            && state.firsts().any(|first| {
                let (its, mine) = state.tree.held_apart(first.path, self.grant.who);
                first.obstacle == Obstacle::All && its.saturating_add(1) < mine
            });
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
        self.line.release(self.grant, self.leaving, self.idle.take());
    }
}
