//! Fair semaphores for scarce resources of the process: lookups, connections, mailbox writers, memory for reads.
//!
//! Exhaustion of a local resource is no failure of a message or a peer: work waits in line, over all shards.
//!
//! - Order: the owner with the fewest permits comes first, and within an owner the holder with the fewest. Equals take
//!   turns: a served holder is behind all current waiters. Each holder thus gets a first permit before any gets a
//!   second, and a zone with a thousand names counts as one owner.
//! - Limits: no owner gets more than its share. Unproven holders (a next hop that has not accepted or rejected mail
//!   yet, a domain with a failed last lookup) get only a part of the permits. Proven ones thus always find some.
//! - Trust: silence makes a holder doubtful, and a permit held during silence is recalled for waiters.

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

/// A position in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPosition {
    /// Number of waiters before it.
    pub before: u64,
    /// All waiters.
    pub waiting: u64,
}

/// A limited amount that is shared fairly.
#[derive(Debug)]
pub struct FairSemaphore {
    state: Mutex<State>,
    /// A waiter needs permits that are in use.
    short: AtomicBool,
    /// More than four fifths are in use, not counting permits that were recalled.
    tight: AtomicBool,
    waiting: AtomicU64,
}

impl FairSemaphore {
    /// With these limits, and no holders.
    #[must_use]
    pub fn new(parts: SemaphoreLimits) -> Arc<FairSemaphore> {
        Arc::new(FairSemaphore {
            state: Mutex::new(State::new(parts)),
            short: AtomicBool::new(false),
            tight: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
        })
    }

    /// Joins the line for `amount`, cut to the total.
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

    /// Like [`FairSemaphore::join`] without waiting: `None` if it is not served at once.
    #[must_use]
    pub fn try_take(
        self: &Arc<FairSemaphore>,
        who: FairKey,
        standing: TrustLevel,
        amount: u64,
    ) -> Option<Permit> {
        self.join(who, standing, amount).served()
    }

    /// The position of the first waiter of `who`, if any.
    #[must_use]
    pub fn place(&self, who: FairKey) -> Option<WaitPosition> {
        let state = self.lock();
        Some(WaitPosition { before: state.tree.before(who.path)?, waiting: state.waiting })
    }

    /// Marks waiters of `owner` as doubtful if their trust level was unknown: work that an attacker queued earlier is
    /// not served before work that it queues later.
    pub fn doubt(&self, owner: Owner) {
        self.doubt_all(owner.alone());
    }

    /// Like [`FairSemaphore::doubt`], for all owners of a holder.
    pub(crate) fn doubt_all(&self, owners: Owners) {
        let mut state = self.lock();
        state.tree.doubt(owners);
        self.serve(&mut state);
    }

    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The owner with the largest amount, by its name (empty if unknown), and that amount; `None` if no permit is held.
    #[must_use]
    pub fn most(&self) -> Option<(Name, u64)> {
        self.lock().tree.most()
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// The limits.
    #[must_use]
    pub fn parts(&self) -> SemaphoreLimits {
        self.lock().parts
    }

    /// Changes the limits, at a reload.
    pub fn set_parts(&self, parts: SemaphoreLimits) {
        let mut state = self.lock();
        state.set_parts(parts);
        self.serve(&mut state);
    }

    /// The amount that holders of unused permits should release.
    #[must_use]
    pub fn excess(&self) -> u64 {
        self.lock().excess()
    }

    /// Returns true if more than four fifths are in use, or if there are waiters: holders of unused permits should then
    /// release them.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    /// Ready when [`FairSemaphore::is_tight`] returns true.
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

    /// Serves waiters, and updates the flags.
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

/// A waiter for a permit. Dropping it leaves the line.
#[derive(Debug)]
pub struct PermitWaiter {
    line: Arc<FairSemaphore>,
    /// `None` after the permit was returned.
    ticket: Option<u64>,
    who: Path,
}

impl PermitWaiter {
    /// Returns true if it was served.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.ticket.is_none_or(|ticket| self.line.lock().granted.contains_key(&ticket))
    }

    /// The permit, if it was served; otherwise it leaves the line.
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

/// A permit; released when dropped.
#[derive(Debug)]
pub struct Permit {
    line: Arc<FairSemaphore>,
    grant: Grant,
    leaving: bool,
    /// Start of the idle time, as known to the line.
    idle: Option<Mono>,
}

impl Permit {
    fn new(line: &Arc<FairSemaphore>, grant: Grant) -> Permit {
        Permit { line: Arc::clone(line), grant, leaving: false, idle: None }
    }

    #[must_use]
    pub fn amount(&self) -> u64 {
        self.grant.amount
    }

    /// The owners of the holder; its own key twice if it has none.
    pub(crate) fn owners(&self) -> Owners {
        let [wide, narrow, _] = self.grant.who;
        [wide, narrow]
    }

    /// The trust level under which it counts.
    #[must_use]
    pub fn standing(&self) -> TrustLevel {
        self.grant.standing
    }

    /// Marks the holder as proven; its other waiters then count as proven, too.
    pub fn prove(&mut self) {
        self.count_as(TrustLevel::Good);
    }

    /// Marks the holder as doubtful; its other waiters then count as doubtful, too.
    pub fn doubt(&mut self) {
        self.count_as(TrustLevel::Doubtful);
    }

    fn count_as(&mut self, standing: TrustLevel) {
        if self.grant.standing != standing {
            let line = Arc::clone(&self.line);
            self.change(&mut line.lock(), Grant { standing, ..self.grant });
        }
    }

    /// Releases it, and joins the line for another amount.
    #[must_use]
    pub fn exchange(self, amount: u64) -> PermitWaiter {
        let (line, Grant { who, standing, .. }) = (Arc::clone(&self.line), self.grant);
        // Before the release: until then the semaphore has the names of its owners.
        let ticket = Some(line.lock().join(FairKey::known(who), standing, amount));
        drop(self);
        PermitWaiter { line, ticket, who }
    }

    /// Releases all but `amount`.
    pub fn shrink(&mut self, amount: u64) {
        let line = Arc::clone(&self.line);
        let amount = self.grant.amount.min(amount);
        self.change(&mut line.lock(), Grant { amount, ..self.grant });
    }

    /// Adds `more` if the limits allow it and no waiter needs it.
    #[must_use]
    pub fn try_grow(&mut self, more: u64) -> bool {
        let Grant { who, standing, amount, .. } = self.grant;
        let line = Arc::clone(&self.line);
        let mut state = line.lock();
        // The limits for a further permit apply.
        let fits = state.waits_for_all() == 0
            && state.tree.fits(who, standing, more)
            && state.obstacle(standing, 1, more) == Obstacle::None;
        if fits {
            self.change(&mut state, Grant { amount: amount.saturating_add(more), ..self.grant });
        }
        fits
    }

    fn change(&mut self, state: &mut State, to: Grant) {
        // Its entries as idle or leaving must match the new grant.
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

    /// The permit is idle since `since`: its holder waits for a silent peer. It may now be recalled by
    /// [`Permit::poll_give_way`].
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

    /// The permit is used again.
    pub fn busy(&mut self) {
        if let Some(since) = self.idle.take() {
            let mut state = self.line.lock();
            state.busy(since, self.grant.ticket);
            self.line.serve(&mut state);
        }
    }

    /// Ready if an idle permit must be released for a waiter that holds less.
    pub fn poll_give_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(since) = self.idle else { return Poll::Pending };
        match self.line.lock().is_asked(since, self.grant.ticket, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Returns true if a permit in use must be released for a waiter that holds at least two less. The caller must
    /// release it then.
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

    /// Returns true if an unused permit should be released. The caller must release it then, or call [`Permit::stay`].
    pub fn should_go(&mut self) -> bool {
        if self.leaving || !self.line.is_tight() {
            return self.leaving;
        }
        let line = Arc::clone(&self.line);
        let mut state = line.lock();
        let go = state.excess() > 0;
        self.leave_if(&mut state, go)
    }

    /// The permit is used again, and is not released after all.
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
