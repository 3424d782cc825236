//! Tree of owners and holders, with the order of service below each owner.

use super::who::{FairKey, LEVELS, Name, Owners, Path, STANDINGS, TrustLevel};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

/// Key of a tree node: the length of a path's prefix, and the path.
type TreeNodeKey = (usize, Path);

/// Order of service among the children of a node: fewest permits first, equals in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceOrder {
    pub(super) held: u32,
    /// Start of the wait: the arrival of its first waiter, or the time when it was last served. A holder with many
    /// waiters is thus behind all that came before it was last served.
    pub(super) since: u64,
    pub(super) amount: u64,
    child: u64,
}

/// A waiter.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) amount: u64,
    pub(super) waker: Option<Waker>,
}

/// The first waiter of each child that is within its limit, by trust level.
type Heads = [BTreeSet<ServiceOrder>; 3];

#[derive(Debug, Default)]
struct Node {
    /// Time of the last service, as a ticket number.
    served: u64,
    /// Number of permits, and their amount.
    held: u32,
    used: u64,
    /// Of an owner: its name for people.
    name: Name,
    /// Of an owner.
    heads: Heads,
    /// Of a holder.
    waiters: VecDeque<Waiter>,
    standing: Option<TrustLevel>,
    /// Its entries in the parent's heads.
    entered: [Option<ServiceOrder>; 3],
    /// For an owner: a waiter of this trust level would exceed the owner's limit.
    is_full: [bool; 3],
}

impl Node {
    fn is_empty(&self) -> bool {
        self.held == 0 && self.waiters.is_empty() && self.heads.iter().all(BTreeSet::is_empty)
    }

    /// The start of the wait, and the amount, of the first waiter below it (or its own) with a trust level.
    fn first(&self, standing: usize) -> Option<(u64, u64)> {
        let (since, amount) = match self.heads[standing].first() {
            Some(head) => (head.since, head.amount),
            None => {
                let own = self.standing.is_some_and(|own| own as usize == standing);
                let waiter = self.waiters.front().filter(|_| own)?;
                (waiter.ticket, waiter.amount)
            }
        };
        Some((since.max(self.served), amount))
    }
}

/// An owner at its limit, and its first waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full {
    key: TreeNodeKey,
    pub(super) path: Path,
    pub(super) standing: TrustLevel,
    /// Number of permits of the widest owner.
    pub(super) held: u32,
    pub(super) amount: u64,
    /// The amount that must be released below the limit for this waiter.
    pub(super) lacking: u64,
}

impl Full {
    /// Returns true if the permit of this holder counts for that limit.
    pub(super) fn has(&self, who: Path) -> bool {
        key(who, self.key.0) == self.key
    }
}

/// All holders and waiters.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<TreeNodeKey, Node>,
    heads: Heads,
    /// Owners at their limit with waiters of this trust level.
    full: BTreeSet<(TreeNodeKey, TrustLevel)>,
    /// The limit of an owner, by trust level.
    owner_max: [u64; 3],
}

fn key(path: Path, depth: usize) -> TreeNodeKey {
    let mut names = [0; LEVELS];
    names[..depth].copy_from_slice(&path[..depth]);
    (depth, names)
}

impl Tree {
    pub(super) fn new(owner_max: [u64; 3]) -> Tree {
        let (nodes, heads, full) = Default::default();
        Tree { nodes, heads, full, owner_max }
    }

    pub(super) fn set_owner_max(&mut self, owner_max: [u64; 3]) {
        self.owner_max = owner_max;
        let holders: Vec<Path> =
            self.nodes.keys().filter(|key| key.0 == LEVELS).map(|key| key.1).collect();
        for path in holders {
            self.refresh(path);
        }
    }

    pub(super) fn join(&mut self, who: FairKey, standing: TrustLevel, waiter: Waiter) {
        let node = self.nodes.entry(key(who.path, LEVELS)).or_default();
        node.waiters.push_back(waiter);
        node.standing = Some(standing);
        self.refresh(who.path);
        for (n, name) in who.names.into_iter().enumerate() {
            if let Some(node) = self.nodes.get_mut(&key(who.path, n + 1))
                && !name.is_empty()
            {
                node.name = name;
            }
        }
    }

    /// The widest owner with the largest amount; `None` if no permit is held.
    pub(super) fn most(&self) -> Option<(Name, u64)> {
        let owners = self.nodes.range((1, [0; LEVELS])..(2, [0; LEVELS]));
        let most = owners.max_by_key(|(_, node)| node.used)?.1;
        (most.used > 0).then_some((most.name, most.used))
    }

    /// The first waiter of a trust level within its owners' limits.
    pub(super) fn first(&self, standing: TrustLevel) -> Option<(ServiceOrder, Path)> {
        let turn = *self.heads[standing as usize].first()?;
        let mut path = [0; LEVELS];
        path[0] = turn.child;
        Some((turn, self.first_below((1, path), standing)?))
    }

    /// The first waiter of a trust level below a node.
    fn first_below(&self, (depth, mut path): TreeNodeKey, standing: TrustLevel) -> Option<Path> {
        for depth in depth..LEVELS {
            let node = self.nodes.get(&key(path, depth))?;
            path[depth] = node.heads[standing as usize].first()?.child;
        }
        Some(path)
    }

    /// Owners at their limit, with the first waiter of each trust level.
    pub(super) fn full(&self) -> impl Iterator<Item = Full> {
        self.full.iter().filter_map(|&(key, standing)| {
            let node = self.nodes.get(&key)?;
            let path = self.first_below(key, standing)?;
            let (_, amount) = node.first(standing as usize)?;
            let max = self.owner_max[standing as usize];
            let lacking = node.used.saturating_add(amount).saturating_sub(max);
            let held = self.nodes.get(&self::key(path, 1)).map_or(0, |widest| widest.held);
            Some(Full { key, path, standing, held, amount, lacking })
        })
    }

    /// Number of the widest owners with waiters of this trust level.
    pub(super) fn owners_waiting(&self, standing: TrustLevel) -> u64 {
        self.heads[standing as usize].len() as u64
    }

    /// Removes the first waiter of this holder.
    pub(super) fn pop(&mut self, who: Path) -> Option<(Waiter, TrustLevel)> {
        let node = self.nodes.get_mut(&key(who, LEVELS))?;
        Some((node.waiters.pop_front()?, node.standing?))
    }

    /// Removes a waiter that no longer waits.
    pub(super) fn give_up(&mut self, who: Path, ticket: u64) {
        if let Some(node) = self.nodes.get_mut(&key(who, LEVELS)) {
            node.waiters.retain(|waiter| waiter.ticket != ticket);
        }
        self.refresh(who);
    }

    pub(super) fn waiter(&mut self, who: Path, ticket: u64) -> Option<&mut Waiter> {
        let node = self.nodes.get_mut(&key(who, LEVELS))?;
        node.waiters.iter_mut().find(|waiter| waiter.ticket == ticket)
    }

    pub(super) fn set_standing(&mut self, who: Path, standing: TrustLevel) {
        if let Some(node) = self.nodes.get_mut(&key(who, LEVELS)) {
            node.standing = Some(standing);
        }
        self.refresh(who);
    }

    /// Marks waiters of these owners as doubtful if their trust level was unknown.
    pub(super) fn doubt(&mut self, owners: Owners) {
        let is_theirs = |path: &Path| owners.iter().zip(path).any(|(owner, of)| owner == of);
        let unknown = |node: &Node| node.standing == Some(TrustLevel::Unknown);
        let holders = self.nodes.range((LEVELS, [0; LEVELS])..);
        let waiting = holders.filter(|((_, path), node)| {
            !node.waiters.is_empty() && unknown(node) && is_theirs(path)
        });
        let waiting: Vec<Path> = waiting.map(|((_, path), _)| *path).collect();
        for path in waiting {
            self.set_standing(path, TrustLevel::Doubtful);
        }
    }

    /// Adds a permit of this amount at ticket `now`.
    pub(super) fn hold(&mut self, who: Path, amount: u64, now: u64) {
        for depth in 1..=LEVELS {
            let node = self.nodes.entry(key(who, depth)).or_default();
            node.served = now;
            node.held = node.held.saturating_add(1);
            node.used = node.used.saturating_add(amount);
        }
        self.refresh(who);
    }

    /// Removes a permit of this amount.
    pub(super) fn let_go(&mut self, who: Path, amount: u64) {
        for depth in 1..=LEVELS {
            if let Some(node) = self.nodes.get_mut(&key(who, depth)) {
                node.held = node.held.saturating_sub(1);
                node.used = node.used.saturating_sub(amount);
            }
        }
        self.refresh(who);
    }

    /// Changes the amount of a permit.
    pub(super) fn resize(&mut self, who: Path, from: u64, to: u64) {
        for depth in 1..=LEVELS {
            if let Some(node) = self.nodes.get_mut(&key(who, depth)) {
                node.used = node.used.saturating_sub(from).saturating_add(to);
            }
        }
        self.refresh(who);
    }

    /// Returns true if the amount is within the limits of all owners.
    pub(super) fn fits(&self, who: Path, standing: TrustLevel, amount: u64) -> bool {
        (1..LEVELS).all(|depth| {
            let node = self.nodes.get(&key(who, depth));
            node.is_none_or(|node| self.may_have(node, standing as usize, amount))
        })
    }

    fn may_have(&self, node: &Node, standing: usize, amount: u64) -> bool {
        node.used == 0 || node.used.saturating_add(amount) <= self.owner_max[standing]
    }

    /// The numbers of permits of two holders, at the highest level at which their owners differ.
    pub(super) fn held_apart(&self, one: Path, other: Path) -> (u32, u32) {
        let depth = (1..=LEVELS).find(|&depth| key(one, depth) != key(other, depth));
        let held = |who: Path| {
            let node = self.nodes.get(&key(who, depth.unwrap_or(LEVELS)));
            node.map_or(0, |node| node.held)
        };
        (held(one), held(other))
    }

    /// Number of waiters before the first waiter of this holder, under any owner; `None` if it has no waiter.
    pub(super) fn before(&self, name: Path) -> Option<u64> {
        let holders = self.nodes.range((LEVELS, [0; LEVELS])..);
        let is_it = |path: &Path| path[LEVELS - 1] == name[LEVELS - 1];
        let mut waiting =
            holders.filter(|((_, path), node)| is_it(path) && !node.waiters.is_empty());
        let who = waiting.next()?.0.1;
        let holder = self.nodes.get(&key(who, LEVELS))?;
        let (mut since, amount) = holder.first(holder.standing? as usize)?;
        let mut sum = 0_u64;
        for depth in (1..=LEVELS).rev() {
            let node = self.nodes.get(&key(who, depth));
            let (held, served) = node.map_or((0, 0), |node| (node.held, node.served));
            since = since.max(served);
            let turn = ServiceOrder { held, since, amount, child: who[depth - 1] };
            let above = match depth {
                1 => Some(&self.heads),
                _ => self.nodes.get(&key(who, depth - 1)).map(|node| &node.heads),
            };
            let count = |heads: &Heads| -> usize {
                heads.iter().map(|of_one| of_one.range(..turn).count()).sum()
            };
            sum = sum.saturating_add(above.map_or(0, count) as u64);
        }
        Some(sum)
    }

    /// Returns true if there are no holders and no waiters.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let heads_are_empty = self.heads.iter().all(BTreeSet::is_empty);
        self.nodes.is_empty() && heads_are_empty && self.full.is_empty()
    }

    /// Updates the order of a holder and its owners after a change.
    fn refresh(&mut self, path: Path) {
        for depth in (1..=LEVELS).rev() {
            let own = key(path, depth);
            let Some(node) = self.nodes.get(&own) else { continue };
            let mut is_full = [false; 3];
            let turns = [0, 1, 2].map(|standing| {
                let (since, amount) = node.first(standing)?;
                let turn = ServiceOrder { held: node.held, since, amount, child: path[depth - 1] };
                // At its limit, an owner waits for its own permits, and must not block other owners.
                is_full[standing] = depth < LEVELS && !self.may_have(node, standing, amount);
                (!is_full[standing]).then_some(turn)
            });
            let (was, was_full, is_empty) = (node.entered, node.is_full, node.is_empty());
            for standing in
                STANDINGS.into_iter().filter(|s| was_full[*s as usize] != is_full[*s as usize])
            {
                match is_full[standing as usize] {
                    true => self.full.insert((own, standing)),
                    false => self.full.remove(&(own, standing)),
                };
            }
            let above = match depth {
                1 => &mut self.heads,
                _ => &mut self.nodes.entry(key(path, depth - 1)).or_default().heads,
            };
            for (standing, (was, is)) in was.into_iter().zip(turns).enumerate() {
                if was != is {
                    was.map(|turn| above[standing].remove(&turn));
                    above[standing].extend(is);
                }
            }
            if is_empty {
                self.nodes.remove(&own);
            } else if let Some(node) = self.nodes.get_mut(&own) {
                (node.entered, node.is_full) = (turns, is_full);
            }
        }
    }
}
