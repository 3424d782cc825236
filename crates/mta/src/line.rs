//! Waiting in line for what the process has little of: lookups, connections, mailbox writers,
//! memory to read into.
//!
//! Lack of our own is no failure of anybody's: who finds none waits here, over all shards, and in
//! turn. Of those who wait they come first who hold the least, and among equals whoever came
//! first; so everybody has one before anybody has a second. Who is not known to be well (a next
//! hop that has not greeted yet, a domain whose last lookup failed) can take a part only, so that
//! those who are always find some left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Who waits or holds: those of one name take turns with others, whatever their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who(u64);

impl Who {
    /// Number `number` of a shard.
    #[must_use]
    pub fn new(shard: u16, number: u32) -> Who {
        Who(u64::from(shard) << 32 | u64::from(number))
    }

    /// A next hop, on whatever shard.
    #[must_use]
    pub fn hop(number: u32) -> Who {
        Who(1 << 62 | u64::from(number))
    }

    /// Another than [`Who::new`] of the same numbers.
    #[must_use]
    pub fn other(shard: u16, number: u32) -> Who {
        Who(1 << 63 | Who::new(shard, number).0)
    }
}

/// What is known of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It was well the last time.
    Good,
    /// Nothing.
    Unknown,
    /// The last time was in vain.
    Doubtful,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// In all.
    pub max: u64,
    /// For those who are not known to be well, the doubtful included.
    pub unproven_max: u64,
    /// For the doubtful.
    pub doubtful_max: u64,
}

impl Parts {
    /// The same for all.
    #[must_use]
    pub fn equal(max: u64) -> Parts {
        Parts { max, unproven_max: max, doubtful_max: max }
    }
}

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

#[derive(Debug)]
struct State {
    parts: Parts,
    used: u64,
    /// Of what is used: by those not known to be well, and by the doubtful.
    unproven: u64,
    doubtful: u64,
    /// Of what is used: by those who were asked to go.
    leaving: u64,
    next_ticket: u64,
    groups: BTreeMap<Who, Group>,
    /// The first waiter of each group, by standing.
    heads: [BTreeSet<Head>; 3],
    /// Tickets whose turn came and who have not looked yet, with what they got.
    granted: BTreeMap<u64, Grant>,
    waiting: u64,
    /// Who is told when it becomes tight.
    watchers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    held: u32,
    ticket: u64,
    who: Who,
}

#[derive(Debug)]
struct Group {
    standing: Standing,
    /// Permits that it has.
    held: u32,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    amount: u64,
    waker: Option<Waker>,
}

/// What a permit counts as.
#[derive(Clone, Copy, Debug)]
struct Grant {
    who: Who,
    amount: u64,
    standing: Standing,
}

/// What keeps a waiter from its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    None,
    /// All is taken.
    All,
    /// The part that it may have is taken.
    Part,
}

impl Line {
    /// Nobody in it yet.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Line> {
        Arc::new(Line {
            state: Mutex::new(State {
                parts,
                used: 0,
                unproven: 0,
                doubtful: 0,
                leaving: 0,
                next_ticket: 0,
                groups: BTreeMap::new(),
                heads: Default::default(),
                granted: BTreeMap::new(),
                waiting: 0,
                watchers: Vec::new(),
            }),
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

    /// How many wait.
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

impl State {
    /// Changes something about a group and keeps its place among the heads right.
    fn regroup(&mut self, who: Who, change: impl FnOnce(&mut Group)) {
        let Some(group) = self.groups.get_mut(&who) else { return };
        // Whoever joined just now is no head yet: to remove what is not there does no harm.
        if let Some(head) = group.head(who) {
            self.heads[group.standing as usize].remove(&head);
        }
        change(group);
        match group.head(who) {
            Some(head) => {
                self.heads[group.standing as usize].insert(head);
            }
            None if group.held == 0 => {
                self.groups.remove(&who);
            }
            None => {}
        }
    }

    fn obstacle(&self, standing: Standing, held: u32, amount: u64) -> Obstacle {
        // Something always fits, or what is larger than its part would wait for ever.
        let fits = |used: u64, max: u64| used == 0 || used.saturating_add(amount) <= max;
        let Parts { max, unproven_max, doubtful_max } = self.parts;
        // While it is not known to be well, a second one must leave room for others' first.
        let unproven_max = if held > 0 { unproven_max / 2 } else { unproven_max };
        let part = match standing {
            Standing::Good => true,
            Standing::Unknown => fits(self.unproven, unproven_max),
            Standing::Doubtful => {
                fits(self.unproven, unproven_max) && fits(self.doubtful, doubtful_max)
            }
        };
        match (part, fits(self.used, max)) {
            (false, _) => Obstacle::Part,
            (true, false) => Obstacle::All,
            (true, true) => Obstacle::None,
        }
    }

    /// What keeps the first of a standing from its turn.
    fn first(&self, standing: Standing) -> Option<(Head, Obstacle)> {
        let head = *self.heads[standing as usize].first()?;
        let amount = self.groups.get(&head.who)?.waiters.front()?.amount;
        Some((head, self.obstacle(standing, head.held, amount)))
    }

    fn firsts(&self) -> impl Iterator<Item = (Head, Obstacle)> {
        [Standing::Good, Standing::Unknown, Standing::Doubtful]
            .into_iter()
            .filter_map(|standing| self.first(standing))
    }

    /// Whose turn it is. While the first of all waits for what is all taken, nobody passes it.
    fn first_served(&self) -> Option<Head> {
        let firsts = self.firsts().filter(|(_, obstacle)| *obstacle != Obstacle::Part);
        let (head, obstacle) = firsts.min_by_key(|(head, _)| (head.held, head.ticket))?;
        (obstacle == Obstacle::None).then_some(head)
    }

    /// How much those wait for who may have it as soon as others let go.
    fn waits_for_all(&self) -> u64 {
        let mut lacking = 0_u64;
        for standing in [Standing::Good, Standing::Unknown, Standing::Doubtful] {
            if let Some((_, Obstacle::All)) = self.first(standing) {
                let heads = self.heads[standing as usize].len() as u64;
                lacking = lacking.saturating_add(match standing {
                    Standing::Good => heads,
                    _ => heads.min(self.parts.unproven_max.saturating_sub(self.unproven)),
                });
            }
        }
        lacking
    }

    /// What lies above four fifths or is waited for, without what those hold who are leaving.
    fn excess(&self) -> u64 {
        let above = self.used.saturating_sub(self.parts.max / 5 * 4);
        above.max(self.waits_for_all()).saturating_sub(self.leaving)
    }

    fn grant(&mut self, head: Head) {
        let mut granted = None;
        self.regroup(head.who, |group| {
            granted = group.waiters.pop_front().map(|waiter| (waiter, group.standing));
            group.held += 1;
        });
        let Some((waiter, standing)) = granted else { return };
        self.waiting = self.waiting.saturating_sub(1);
        let grant = Grant { who: head.who, amount: waiter.amount, standing };
        self.count(grant, true);
        self.granted.insert(waiter.ticket, grant);
        if let Some(waker) = waiter.waker {
            waker.wake();
        }
    }

    /// Counts what a grant takes, or gives back.
    fn count(&mut self, grant: Grant, taken: bool) {
        let add = |sum: &mut u64| {
            *sum = if taken {
                sum.saturating_add(grant.amount)
            } else {
                sum.saturating_sub(grant.amount)
            };
        };
        add(&mut self.used);
        if grant.standing != Standing::Good {
            add(&mut self.unproven);
        }
        if grant.standing == Standing::Doubtful {
            add(&mut self.doubtful);
        }
    }
}

impl Group {
    fn new() -> Group {
        Group { standing: Standing::Unknown, held: 0, waiters: VecDeque::new() }
    }

    fn head(&self, who: Who) -> Option<Head> {
        let first = self.waiters.front()?;
        Some(Head { held: self.held, ticket: first.ticket, who })
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

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Doubtful, Good, Unknown};

    fn poll(waiting: &mut InLine) -> Option<Permit> {
        match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    fn take(line: &Arc<Line>, who: u32, standing: Standing) -> Option<Permit> {
        poll(&mut line.join(Who::new(0, who), standing, 1))
    }

    #[test]
    fn everybody_has_one_before_anybody_has_a_second() {
        let line = Line::new(Parts::equal(3));
        let mut held: Vec<_> = (0..3).filter_map(|_| take(&line, 1, Good)).collect();
        assert_eq!(held.len(), 3);
        let mut fourth = line.join(Who::new(0, 1), Good, 1);
        let mut others: Vec<_> = (2..5).map(|who| line.join(Who::new(0, who), Good, 1)).collect();
        assert_eq!(line.place(Who::new(0, 1)), Some(Place { before: 3, waiting: 4 }));
        assert_eq!(line.place(Who::new(0, 3)), Some(Place { before: 1, waiting: 4 }));
        held.pop();
        assert!(poll(&mut fourth).is_none(), "it has two, the others none");
        let first = poll(&mut others[0]).expect("came first");
        assert!(poll(&mut others[1]).is_none());
        held.pop();
        let second = poll(&mut others[1]).expect("its turn");
        // One who gives up leaves no gap.
        let third = others.pop();
        drop(third);
        drop(first);
        assert!(poll(&mut fourth).is_some());
        drop((second, held, others));
        assert_eq!((line.used(), line.waiting()), (0, 0));
        assert!(line.lock().groups.is_empty(), "nobody is remembered");
    }

    #[test]
    fn the_doubtful_and_the_unknown_leave_some_for_the_good() {
        let parts = Parts { max: 8, unproven_max: 4, doubtful_max: 1 };
        let line = Line::new(parts);
        let doubtful = take(&line, 1, Doubtful).expect("one may");
        assert!(take(&line, 2, Doubtful).is_none());
        let mut unknown: Vec<_> = (3..8).filter_map(|who| take(&line, who, Unknown)).collect();
        assert_eq!(unknown.len(), 3);
        let mut waits = line.join(Who::new(0, 9), Unknown, 1);
        let good: Vec<_> = (0..4).filter_map(|_| take(&line, 20, Good)).collect();
        assert_eq!(good.len(), 4);
        assert!(poll(&mut waits).is_none());
        // Proven, one does not count with the unknown any more; but all are taken.
        unknown[0].prove();
        assert!(poll(&mut waits).is_none());
        drop(good);
        assert!(poll(&mut waits).is_some());
        drop((doubtful, unknown, waits));
        assert_eq!(line.lock().unproven, 0);
    }

    #[test]
    fn a_second_of_somebody_unknown_leaves_room_for_the_first_of_others() {
        let line = Line::new(Parts { max: 100, unproven_max: 8, doubtful_max: 8 });
        let tarpits = (0..30).map(|n| n / 10);
        let held: Vec<_> = tarpits.filter_map(|who| take(&line, who, Unknown)).collect();
        assert!(held.len() <= 6, "{}", held.len());
        let mut newcomer = take(&line, 50, Unknown).expect("at once");
        newcomer.prove();
        assert!((0..20).all(|_| take(&line, 50, Good).is_some()));
    }

    #[test]
    fn who_has_much_lets_go_for_who_has_nothing() {
        let line = Line::new(Parts::equal(4));
        let mut held: Vec<_> = (0..4).filter_map(|_| take(&line, 1, Good)).collect();
        assert!(!held[0].must_go(), "nobody waits");
        let mut waits = line.join(Who::new(0, 2), Good, 1);
        assert!(held[0].must_go());
        assert!(!held[1].must_go(), "one is enough");
        held.remove(0);
        let mut other = poll(&mut waits).expect("its turn");
        assert!(!other.must_go());
        let mut third = line.join(Who::new(0, 2), Good, 1);
        assert!(held[0].must_go(), "three against one");
        held.remove(0);
        let _third = poll(&mut third).expect("two each");
        let _fourth = line.join(Who::new(0, 2), Good, 1);
        assert!(!held[0].must_go(), "it would be one against three");
    }

    #[test]
    fn who_is_idle_goes_when_four_fifths_are_taken() {
        let line = Line::new(Parts::equal(10));
        let mut held: Vec<_> = (0..8).filter_map(|who| take(&line, who, Good)).collect();
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(!line.is_tight() && !held[0].should_go());
        assert!(line.poll_tight(cx).is_pending());
        held.extend(take(&line, 9, Good));
        assert!(line.poll_tight(cx).is_ready());
        assert!(held[0].should_go());
        assert!(!held[1].should_go(), "one is enough");
        held[0].stay();
        assert!(held[1].should_go(), "unless it stays");
    }

    #[test]
    fn what_is_larger_than_all_there_is_has_its_turn_alone() {
        let line = Line::new(Parts::equal(10));
        let mut large = poll(&mut line.join(Who::new(0, 1), Good, 50)).expect("alone");
        let mut small = line.join(Who::new(0, 2), Good, 1);
        assert!(poll(&mut small).is_none());
        large.shrink(4);
        assert!(poll(&mut small).is_some());
        let mut large = line.join(Who::new(0, 3), Good, 50);
        assert!(poll(&mut large).is_none());
        assert!(take(&line, 4, Good).is_none(), "and nobody passes it");
    }
}
