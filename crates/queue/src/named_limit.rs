//! Named limits: what several ready queues share, whatever makes them differ.
//!
//! By default each route has one for every set of hosts, so that domains with the same hosts in
//! another order share connections and rate; providers, sources and tenants are further names on
//! the same ready queues. A ready queue obeys all the limits that it names.

use crate::Action;
use crate::lease::{Borrower, LeaseMessage, Orders, Pool, Share, Terms, Word, owner_of};
use crate::queue::Queue;
use mail::Mono;
use smallvec::SmallVec;
use std::sync::Arc;

/// A limit that ready queues share by its name, over all shards together. 0 means no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedLimit {
    /// Its name, as `why` shows it.
    pub name: Arc<str>,
    /// Connections at once, those included that are being opened.
    pub connections_max: u32,
    /// Messages per second.
    pub messages_per_second: f64,
}

/// The owner's side of a named limit.
pub(crate) struct Limit {
    pub(crate) name: Arc<str>,
    pub(crate) pool: Pool,
    /// Last use, for dropping it.
    pub(crate) used: Mono,
}

/// A ready queue's side of a named limit.
#[derive(Clone, Debug)]
pub(crate) struct Borrowed {
    pub(crate) name: Arc<str>,
    pub(crate) terms: Terms,
    /// The shard that lends.
    pub(crate) owner: u16,
    pub(crate) share: Share,
    /// The ready queue does not obey it any more: what was lent goes back.
    pub(crate) retired: bool,
}

impl Borrowed {
    pub(crate) fn is_limited(&self) -> bool {
        !self.retired && self.terms.connections_max > 0
    }

    pub(crate) fn is_rated(&self) -> bool {
        !self.retired && self.terms.messages_per_second > 0.0
    }

    /// Whether this is what it says.
    pub(crate) fn obeys(&self, limit: &NamedLimit) -> bool {
        !self.retired
            && self.name == limit.name
            && self.terms.connections_max == limit.connections_max
            && self.terms.messages_per_second == limit.messages_per_second
    }
}

/// What a ready queue borrows of its limits, in the order of their names: who needs several asks
/// in this order.
pub(crate) type Borrows = SmallVec<[Borrowed; 1]>;

/// Makes `borrows` obey `limits`, as they are in `epoch`, and no others.
pub(crate) fn adopt(borrows: &mut Borrows, limits: &[NamedLimit], epoch: u32, shards: u16) {
    for borrowed in borrows.iter_mut() {
        borrowed.retired = !limits.iter().any(|limit| limit.name == borrowed.name);
    }
    for limit in limits {
        let terms = Terms::new(epoch, limit);
        match borrows.binary_search_by(|b| b.name.cmp(&limit.name)) {
            Ok(at) => borrows[at].terms = terms,
            Err(at) => borrows.insert(
                at,
                Borrowed {
                    name: Arc::clone(&limit.name),
                    terms,
                    owner: owner_of(&limit.name, shards),
                    share: Share::default(),
                    retired: false,
                },
            ),
        }
    }
    borrows.retain(|b| !b.retired || !b.share.is_home());
}

impl Queue {
    /// The pool of a limit that this shard owns.
    pub(crate) fn pool(&self, name: &str) -> Option<&Pool> {
        let number = self.limit_names.get(name)?;
        self.limits.get(*number).map(|limit| &limit.pool)
    }

    /// Says something about the limit at place `at` of a ready queue to whoever lends it.
    pub(crate) fn tell_owner(&mut self, now: Mono, ready: u32, at: usize, word: Word) {
        let borrowed = &self.ready[ready].borrows[at];
        let (limit, owner) = (Arc::clone(&borrowed.name), borrowed.owner);
        if owner == self.config.shard {
            let borrower = Borrower { shard: owner, ready };
            self.hear_borrower(now, &limit, borrower, word);
        } else {
            self.send(owner, LeaseMessage { limit, ready, word });
        }
    }

    /// Takes a message that another shard's queue gave out as [`Action::Lease`]. Those of one
    /// shard must come in the order in which they were given out, and none may be lost.
    pub fn handle_lease(&mut self, now: Mono, from_shard: u16, message: LeaseMessage) {
        let LeaseMessage { limit, ready, word } = message;
        match word {
            Word::Ask { .. } | Word::Return { .. } => {
                let borrower = Borrower { shard: from_shard, ready };
                self.hear_borrower(now, &limit, borrower, word);
            }
            Word::Grant { .. } | Word::Recall { .. } => {
                self.hear_owner(&limit, from_shard, ready, word);
            }
        }
    }

    /// Somebody who borrows asks, or gives back.
    fn hear_borrower(&mut self, now: Mono, name: &Arc<str>, borrower: Borrower, word: Word) {
        let number = match (self.limit_names.get(name), &word) {
            (Some(number), _) => *number,
            (None, Word::Ask { terms, .. }) => self.own_limit(name, *terms),
            // Nothing was lent of what nobody knows.
            (None, _) => return,
        };
        let limit = &mut self.limits[number];
        limit.used = now;
        match word {
            Word::Ask { slots, extra, tokens, terms } => {
                limit.pool.adopt(terms);
                limit.pool.ask(borrower, slots, extra, tokens);
            }
            Word::Return { slots, tokens } => limit.pool.take_back(borrower, slots, tokens),
            Word::Grant { .. } | Word::Recall { .. } => {}
        }
        self.settle_limit(now, number);
    }

    fn own_limit(&mut self, name: &Arc<str>, terms: Terms) -> u32 {
        let limit = Limit { name: Arc::clone(name), pool: Pool::new(terms), used: Mono(0) };
        let number = self.limits.insert(limit);
        self.limit_names.insert(Arc::clone(name), number);
        number
    }

    /// Lends and recalls what is to be lent and recalled now.
    pub(crate) fn settle_limit(&mut self, now: Mono, number: u32) {
        let Some(limit) = self.limits.get_mut(number) else { return };
        let mut orders = Orders::new();
        limit.pool.settle(now, &mut orders);
        self.limit_timers.set(number, limit.pool.next_timeout());
        if orders.is_empty() {
            return;
        }
        let name = Arc::clone(&limit.name);
        for (borrower, word) in orders {
            if borrower.shard == self.config.shard {
                self.hear_owner(&name, borrower.shard, borrower.ready, word);
            } else {
                let message =
                    LeaseMessage { limit: Arc::clone(&name), ready: borrower.ready, word };
                self.send(borrower.shard, message);
            }
        }
    }

    /// The owner of a limit lends to a ready queue of this shard, or wants something back.
    fn hear_owner(&mut self, name: &Arc<str>, owner: u16, ready: u32, word: Word) {
        let borrows = self.ready.get_mut(ready).map(|queue| &mut queue.borrows);
        let borrowed = borrows.and_then(|b| b.iter_mut().find(|b| b.name == *name));
        match (borrowed, word) {
            (Some(borrowed), Word::Grant { slots, tokens }) => {
                borrowed.share.granted(slots, tokens);
            }
            (Some(borrowed), Word::Recall { slots }) => borrowed.share.recalled(slots),
            // Whoever wanted it is gone.
            (None, Word::Grant { slots, tokens }) => {
                let word = Word::Return { slots, tokens };
                return self.send(owner, LeaseMessage { limit: Arc::clone(name), ready, word });
            }
            _ => return,
        }
        self.mark(ready);
    }

    fn send(&mut self, shard: u16, message: LeaseMessage) {
        self.actions.push_back(Action::Lease { shard, message });
    }

    /// Tells the owners of a ready queue's limits what changed about them.
    pub(crate) fn tell_terms(&mut self, now: Mono, ready: u32) {
        for at in 0..self.ready[ready].borrows.len() {
            let Borrowed { owner, terms, share, name, retired } = &self.ready[ready].borrows[at];
            let terms = *terms;
            if *owner == self.config.shard {
                if let Some(&number) = self.limit_names.get(name) {
                    self.limits[number].pool.adopt(terms);
                    self.limit_timers.hasten(number, now);
                }
            } else if !retired && !share.is_home() {
                let (slots, tokens) = (share.asked, share.tokens_asked);
                self.tell_owner(now, ready, at, Word::Ask { slots, extra: 0, tokens, terms });
            }
        }
    }

    /// Drops a limit of which nobody has borrowed anything for long.
    pub(crate) fn tidy_limit(&mut self, now: Mono, number: u32) {
        let Some(limit) = self.limits.get(number) else { return };
        let is_home = limit.pool.is_home() && limit.pool.next_token().is_none_or(|at| at <= now);
        if !is_home || now < limit.used + self.config.forget_after {
            return;
        }
        let name = Arc::clone(&limit.name);
        self.limit_timers.set(number, Mono::NEVER);
        self.limit_names.remove(&name);
        self.limits.remove(number);
    }
}
