//! State of a semaphore: permits held, waiters, and the order of service.

use super::tree::{Full, ServiceOrder, Tree, Waiter};
use super::who::{FairKey, Path, STANDINGS, TrustLevel};
use mail::Mono;
use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// Maximum number of idle permits examined in a search for one to release.
const LOOKED_AT_MAX: usize = 64;

/// Limits of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemaphoreLimits {
    /// In total.
    pub max: u64,
    /// For one owner, or a holder without an owner. Permits taken while proven may exceed it.
    pub owner_max: u64,
    /// For one proven owner.
    pub good_owner_max: u64,
    /// For unproven holders, including the doubtful ones.
    pub unproven_max: u64,
    /// For doubtful holders.
    pub doubtful_max: u64,
}

impl SemaphoreLimits {
    /// The same limit for all.
    #[must_use]
    pub fn equal(max: u64) -> SemaphoreLimits {
        SemaphoreLimits {
            max,
            owner_max: max,
            good_owner_max: max,
            unproven_max: max,
            doubtful_max: max,
        }
    }
}

impl SemaphoreLimits {
    /// For unproven holders, including those that turned doubtful beyond their share: the proven ones keep at least a
    /// quarter.
    fn unproven_limit(&self) -> u64 {
        self.unproven_max.max(self.max - self.max / 4)
    }

    /// The limit of an owner, by trust level.
    fn of_owners(&self) -> [u64; 3] {
        [self.good_owner_max, self.owner_max, self.owner_max]
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) parts: SemaphoreLimits,
    pub(super) used: u64,
    /// Share of `used` that unproven holders have, and that doubtful ones have.
    pub(super) unproven: u64,
    pub(super) doubtful: u64,
    /// Share of `used` that holders have which were asked to release it.
    pub(super) leaving: u64,
    pub(super) next_ticket: u64,
    pub(super) tree: Tree,
    /// Permits of tickets that were served and not polled since.
    pub(super) granted: BTreeMap<u64, Grant>,
    /// Idle permits, by the start of their idle time.
    idle: BTreeMap<(Mono, u64), IdlePermit>,
    /// The same permits, by the widest owner of each.
    idle_of: BTreeSet<(u64, Mono, u64)>,
    pub(super) waiting: u64,
    /// Wakers for when it becomes tight.
    pub(super) watchers: Vec<Waker>,
}

/// A permit as it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) who: Path,
    pub(super) ticket: u64,
    pub(super) amount: u64,
    pub(super) standing: TrustLevel,
}

/// An idle permit.
#[derive(Debug)]
struct IdlePermit {
    grant: Grant,
    /// It was asked to release.
    asked: bool,
    waker: Option<Waker>,
}

/// The obstacle that keeps a waiter from being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    None,
    /// Everything is in use.
    All,
    /// The share of unproven holders is in use.
    Unproven,
    /// The share of doubtful holders is in use.
    Doubtful,
}

impl Obstacle {
    /// Returns true if only a share is in use, not everything.
    fn is_part(self) -> bool {
        matches!(self, Obstacle::Unproven | Obstacle::Doubtful)
    }

    /// Returns true if a release by a holder of this trust level reduces it.
    fn is_less_without(self, standing: TrustLevel) -> bool {
        match self {
            Obstacle::None | Obstacle::All => true,
            Obstacle::Unproven => standing != TrustLevel::Good,
            Obstacle::Doubtful => standing == TrustLevel::Doubtful,
        }
    }
}

/// The first waiter of one trust level.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) turn: ServiceOrder,
    pub(super) path: Path,
    pub(super) standing: TrustLevel,
    pub(super) obstacle: Obstacle,
}

impl State {
    /// No permit is held, and there are no waiters.
    pub(super) fn new(parts: SemaphoreLimits) -> State {
        State {
            parts,
            used: 0,
            unproven: 0,
            doubtful: 0,
            leaving: 0,
            next_ticket: 0,
            tree: Tree::new(parts.of_owners()),
            granted: BTreeMap::new(),
            idle: BTreeMap::new(),
            idle_of: BTreeSet::new(),
            waiting: 0,
            watchers: Vec::new(),
        }
    }

    pub(super) fn set_parts(&mut self, parts: SemaphoreLimits) {
        self.parts = parts;
        self.tree.set_owner_max(parts.of_owners());
    }

    /// Adds a waiter, and returns its ticket.
    pub(super) fn join(&mut self, who: FairKey, standing: TrustLevel, amount: u64) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        self.tree.join(who, standing, Waiter { ticket, amount, waker: None });
        ticket
    }

    /// The obstacle to `amount` for this trust level, if the owner holds `held` permits.
    pub(super) fn obstacle(&self, standing: TrustLevel, held: u32, amount: u64) -> Obstacle {
        // One request always fits, or a request larger than its share would wait for ever.
        let fits = |used: u64, max: u64| used == 0 || used.saturating_add(amount) <= max;
        // An unproven owner's second permit must leave half of the share for first permits of other owners.
        let part_of = |max: u64| if held > 0 { max / 2 } else { max };
        let fits_unproven = || {
            fits(self.unproven_in_part(), part_of(self.parts.unproven_max))
                && fits(self.unproven, self.parts.unproven_limit())
        };
        let doubtful_max = part_of(self.parts.doubtful_max);
        if standing == TrustLevel::Doubtful && !fits(self.doubtful, doubtful_max) {
            // First, since a doubtful holder is also counted in the share of the unproven.
            Obstacle::Doubtful
        } else if standing != TrustLevel::Good && !fits_unproven() {
            Obstacle::Unproven
        } else if !fits(self.used, self.parts.max) {
            Obstacle::All
        } else {
            Obstacle::None
        }
    }

    /// The used part of the unproven holders' share. Permits that turned doubtful beyond the doubtful share, and can't
    /// be recalled, do not reduce the share of unknown holders.
    fn unproven_in_part(&self) -> u64 {
        self.unproven.saturating_sub(self.doubtful) + self.doubtful.min(self.parts.doubtful_max)
    }

    /// The first waiter of each trust level that is within its owner's limit, with its obstacle.
    pub(super) fn firsts(&self) -> impl Iterator<Item = First> {
        STANDINGS.into_iter().filter_map(|standing| {
            let (turn, path) = self.tree.first(standing)?;
            let obstacle = self.obstacle(standing, turn.held, turn.amount);
            Some(First { turn, path, standing, obstacle })
        })
    }

    /// The waiter to serve next. While the first of all waits because everything is in use, no other waiter passes it.
    pub(super) fn first_served(&self) -> Option<First> {
        let firsts = self.firsts().filter(|first| !first.obstacle.is_part());
        let first = firsts.min_by_key(|first| (first.turn.held, first.turn.since))?;
        (first.obstacle == Obstacle::None).then_some(first)
    }

    /// Number of owners with waiters that will be served as soon as permits are released.
    pub(super) fn waits_for_all(&self) -> u64 {
        let mut lacking = 0_u64;
        for first in self.firsts().filter(|first| first.obstacle == Obstacle::All) {
            let owners = self.tree.owners_waiting(first.standing);
            lacking = lacking.saturating_add(match first.standing {
                TrustLevel::Good => owners,
                _ => owners.min(self.parts.unproven_max.saturating_sub(self.unproven_in_part())),
            });
        }
        lacking
    }

    /// The amount in use above four fifths, or waited for, less the amount that is being released.
    pub(super) fn excess(&self) -> u64 {
        let above = self.used.saturating_sub(self.parts.max / 5 * 4);
        above.max(self.waits_for_all()).saturating_sub(self.leaving)
    }

    pub(super) fn grant(&mut self, first: First) {
        let who = first.path;
        let Some((waiter, standing)) = self.tree.pop(who) else { return };
        self.waiting = self.waiting.saturating_sub(1);
        let grant = Grant { who, ticket: waiter.ticket, amount: waiter.amount, standing };
        self.count(grant, true);
        self.tree.hold(who, waiter.amount, self.next_ticket);
        self.next_ticket += 1;
        self.granted.insert(waiter.ticket, grant);
        if let Some(waker) = waiter.waker {
            waker.wake();
        }
    }

    /// Returns a grant to the semaphore.
    pub(super) fn give_back(&mut self, grant: Grant) {
        self.count(grant, false);
        self.tree.let_go(grant.who, grant.amount);
    }

    /// Changes the amount or the trust level of a grant.
    pub(super) fn change(&mut self, from: Grant, to: Grant) {
        self.count(from, false);
        self.count(to, true);
        self.tree.resize(from.who, from.amount, to.amount);
        if from.standing != to.standing {
            self.tree.set_standing(to.who, to.standing);
        }
    }

    /// Counts a grant as used, or as released.
    fn count(&mut self, grant: Grant, taken: bool) {
        let add = |sum: &mut u64| {
            *sum = if taken {
                sum.saturating_add(grant.amount)
            } else {
                sum.saturating_sub(grant.amount)
            };
        };
        add(&mut self.used);
        if grant.standing != TrustLevel::Good {
            add(&mut self.unproven);
        }
        if grant.standing == TrustLevel::Doubtful {
            add(&mut self.doubtful);
        }
    }
}

/// Permits that are held without use.
impl State {
    pub(super) fn idle(&mut self, since: Mono, grant: Grant) {
        self.idle.insert((since, grant.ticket), IdlePermit { grant, asked: false, waker: None });
        self.idle_of.insert((grant.who[0], since, grant.ticket));
    }

    /// An idle permit is used again, or released.
    pub(super) fn busy(&mut self, since: Mono, ticket: u64) {
        let Some(idle) = self.idle.remove(&(since, ticket)) else { return };
        self.idle_of.remove(&(idle.grant.who[0], since, ticket));
        if idle.asked {
            self.leaving = self.leaving.saturating_sub(idle.grant.amount);
        }
    }

    /// Returns true if this idle permit was asked to release; `waker` is woken when it is.
    pub(super) fn is_asked(&mut self, since: Mono, ticket: u64, waker: &Waker) -> bool {
        let Some(idle) = self.idle.get_mut(&(since, ticket)) else { return false };
        if !idle.asked {
            idle.waker = Some(waker.clone());
        }
        idle.asked
    }

    /// Asks the oldest idle permits to release if their owner holds more than a waiter's owner, unless enough are being
    /// released.
    pub(super) fn ask_idle(&mut self) {
        if self.idle.is_empty() || self.waiting == 0 {
            return;
        }
        self.ask_idle_of_full();
        let firsts: Vec<First> =
            self.firsts().filter(|first| first.obstacle != Obstacle::None).collect();
        for first in firsts {
            if self.leaving >= first.turn.amount {
                return;
            }
            let helps = |idle: &IdlePermit| {
                let counts = first.obstacle.is_less_without(idle.grant.standing);
                let (his, its) = self.tree.held_apart(idle.grant.who, first.path);
                counts && !idle.asked && his > its
            };
            let looked_at = self.idle.iter().take(LOOKED_AT_MAX);
            let found = looked_at.filter(|(_, idle)| helps(idle)).map(|(key, _)| *key).next();
            found.into_iter().for_each(|key| self.ask(key));
        }
    }

    /// Recalls idle permits within an owner that has reached its limit: they are released for waiters of the same
    /// owner, which can get permits only from it.
    fn ask_idle_of_full(&mut self) {
        let full: Vec<Full> = self.tree.full().take(LOOKED_AT_MAX).collect();
        for first in full {
            let obstacle = self.obstacle(first.standing, first.held, first.amount);
            let owner = first.path[0];
            let idle = self.idle_of.range((owner, Mono(0), 0)..=(owner, Mono(u64::MAX), u64::MAX));
            let idle = idle.take(LOOKED_AT_MAX).map(|(_, since, ticket)| (*since, *ticket));
            let (mut leaving, mut found) = (0_u64, None);
            for key in idle {
                let Some(idle) = self.idle.get(&key) else { continue };
                let Grant { who, amount, standing, .. } = idle.grant;
                let (his, its) = self.tree.held_apart(who, first.path);
                if idle.asked && first.has(who) {
                    leaving = leaving.saturating_add(amount);
                } else if found.is_none()
                    && first.has(who)
                    && obstacle.is_less_without(standing)
                    && his > its
                {
                    found = Some(key);
                }
            }
            if leaving < first.lacking {
                found.into_iter().for_each(|key| self.ask(key));
            }
        }
    }

    /// Asks an idle permit to release.
    fn ask(&mut self, key: (Mono, u64)) {
        let Some(idle) = self.idle.get_mut(&key) else { return };
        idle.asked = true;
        self.leaving = self.leaving.saturating_add(idle.grant.amount);
        if let Some(waker) = idle.waker.take() {
            waker.wake();
        }
    }
}
