//! What a line knows: who holds how much, who waits, and whose turn it is.

use super::who::{Standing, Who};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;
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

#[derive(Debug)]
pub(super) struct State {
    pub(super) parts: Parts,
    pub(super) used: u64,
    /// Of what is used: by those not known to be well, and by the doubtful.
    pub(super) unproven: u64,
    pub(super) doubtful: u64,
    /// Of what is used: by those who were asked to go.
    pub(super) leaving: u64,
    pub(super) next_ticket: u64,
    pub(super) groups: BTreeMap<Who, Group>,
    /// The first waiter of each group, by standing.
    pub(super) heads: [BTreeSet<Head>; 3],
    /// Tickets whose turn came and who have not looked yet, with what they got.
    pub(super) granted: BTreeMap<u64, Grant>,
    pub(super) waiting: u64,
    /// Who is told when it becomes tight.
    pub(super) watchers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head {
    pub(super) held: u32,
    pub(super) ticket: u64,
    pub(super) who: Who,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) standing: Standing,
    /// Permits that it has.
    pub(super) held: u32,
    pub(super) waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) amount: u64,
    pub(super) waker: Option<Waker>,
}

/// What a permit counts as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) who: Who,
    pub(super) amount: u64,
    pub(super) standing: Standing,
}

/// What keeps a waiter from its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    None,
    /// All is taken.
    All,
    /// The part that it may have is taken.
    Part,
}

impl State {
    /// Nobody holds anything, and nobody waits.
    pub(super) fn new(parts: Parts) -> State {
        State {
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
        }
    }

    /// Changes something about a group and keeps its place among the heads right.
    pub(super) fn regroup(&mut self, who: Who, change: impl FnOnce(&mut Group)) {
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

    pub(super) fn obstacle(&self, standing: Standing, held: u32, amount: u64) -> Obstacle {
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
    pub(super) fn first(&self, standing: Standing) -> Option<(Head, Obstacle)> {
        let head = *self.heads[standing as usize].first()?;
        let amount = self.groups.get(&head.who)?.waiters.front()?.amount;
        Some((head, self.obstacle(standing, head.held, amount)))
    }

    pub(super) fn firsts(&self) -> impl Iterator<Item = (Head, Obstacle)> {
        [Standing::Good, Standing::Unknown, Standing::Doubtful]
            .into_iter()
            .filter_map(|standing| self.first(standing))
    }

    /// Whose turn it is. While the first of all waits for what is all taken, nobody passes it.
    pub(super) fn first_served(&self) -> Option<Head> {
        let firsts = self.firsts().filter(|(_, obstacle)| *obstacle != Obstacle::Part);
        let (head, obstacle) = firsts.min_by_key(|(head, _)| (head.held, head.ticket))?;
        (obstacle == Obstacle::None).then_some(head)
    }

    /// How much those wait for who may have it as soon as others let go.
    pub(super) fn waits_for_all(&self) -> u64 {
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
    pub(super) fn excess(&self) -> u64 {
        let above = self.used.saturating_sub(self.parts.max / 5 * 4);
        above.max(self.waits_for_all()).saturating_sub(self.leaving)
    }

    pub(super) fn grant(&mut self, head: Head) {
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
    pub(super) fn count(&mut self, grant: Grant, taken: bool) {
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
    pub(super) fn new() -> Group {
        Group { standing: Standing::Unknown, held: 0, waiters: VecDeque::new() }
    }

    pub(super) fn head(&self, who: Who) -> Option<Head> {
        let first = self.waiters.front()?;
        Some(Head { held: self.held, ticket: first.ticket, who })
    }
}
