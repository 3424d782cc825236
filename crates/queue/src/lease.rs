//! Sharing of a named limit among the ready queues of all shards.
//!
//! Each named limit has one owning shard, found by hashing its name. The owner keeps a pool of connection slots and
//! rate tokens and lends them. Every ready queue that obeys the limit, on any shard, keeps a [`Share`] of borrowed
//! slots and tokens. Messages between two shards arrive in order and are never lost, but may be late. The invariant
//! follows: a ready queue never uses more than it holds, the owner counts everything held as lent, and the sum lent
//! never exceeds the limit.
//!
//! A ready queue that obeys several limits needs a slot of each for a connection. Slots are requested in the order of
//! the names, and no more of one limit than the limit before it has lent. No queue therefore holds a slot that another
//! one waits for while itself waiting for that other's slot. If a recall breaks this order, turns resolve it.
//!
//! Requests are absolute ("this many more are wanted"), so a new request replaces the last one known to the owner. The
//! borrower's count of outstanding requests is never larger than the owner's, because grants lower both. No request is
//! lost.
//!
//! An unlimited limit needs no pool and no messages; the same is true in a process with one shard.

use crate::limits::NamedLimit;
use crate::limits::Rate;
use mail::Mono;
use std::sync::Arc;
use std::time::Duration;

/// Time after which a borrower returns an unused slot or token.
pub(crate) const SPARE_AFTER: Duration = Duration::from_millis(500);
/// Duration of a borrower's turn if there are fewer slots than borrowers that want one.
pub(crate) const TURN: Duration = Duration::from_secs(1);

/// Message between the queues of two shards about a ready queue's or tenant's share of a named limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseMessage {
    pub(crate) limit: Arc<str>,
    /// The borrower, on the borrowing shard.
    pub(crate) place: BorrowerKey,
    pub(crate) op: LeaseOp,
}

/// A borrower on a shard, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BorrowerKey {
    Ready(u32),
    Tenant(u32),
}

/// A borrower: a ready queue or a tenant of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Borrower {
    pub(crate) shard: u16,
    pub(crate) place: BorrowerKey,
}

/// Request, grant, return or recall of slots and tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LeaseOp {
    /// To the owner: the slots and tokens still wanted, and the limit as this shard knows it.
    Ask { slots: u32, extra: u32, tokens: u32, terms: LimitTerms },
    /// To a borrower: additional slots and tokens.
    Grant { slots: u32, tokens: u32 },
    /// To the owner: slots and tokens that are no longer needed, or were recalled.
    Return { slots: u32, tokens: u32 },
    /// To a borrower: return this many slots as soon as their transactions end.
    Recall { slots: u32 },
}

/// The shared limits and their epoch, which each reload increments on every shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LimitTerms {
    pub(crate) epoch: u32,
    pub(crate) connections_max: u32,
    pub(crate) messages_per_second: f64,
}

impl LimitTerms {
    pub(crate) fn new(epoch: u32, limit: &NamedLimit) -> LimitTerms {
        LimitTerms {
            epoch,
            connections_max: limit.connections_max,
            messages_per_second: limit.messages_per_second,
        }
    }
}

/// FNV-1a hash of a name: equal in all processes.
pub(crate) fn hash_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The shard that owns a named limit.
pub(crate) fn owner_of(limit: &str, shards: u16) -> u16 {
    ((hash_of(limit) >> 32) % u64::from(shards.max(1))) as u16
}

/// Slots and tokens lent to a borrower.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    /// Connection slots held.
    pub(crate) slots: u32,
    /// Of these, recalled and not yet returned.
    pub(crate) owed: u32,
    /// Requested and not yet granted, as far as this side knows.
    pub(crate) asked: u32,
    /// Rate tokens held.
    pub(crate) tokens: u32,
    pub(crate) tokens_asked: u32,
    /// Start of the time with unused slots; `None` while all are in use.
    pub(crate) spare_since: Option<Mono>,
}

impl Share {
    /// Slots that may be used.
    pub(crate) fn usable(&self) -> u32 {
        self.slots.saturating_sub(self.owed)
    }

    pub(crate) fn granted(&mut self, slots: u32, tokens: u32) {
        self.slots = self.slots.saturating_add(slots);
        self.asked = self.asked.saturating_sub(slots);
        self.tokens = self.tokens.saturating_add(tokens);
        self.tokens_asked = self.tokens_asked.saturating_sub(tokens);
    }

    pub(crate) fn recalled(&mut self, slots: u32) {
        // A recall of more than is held means that a return is already in transit.
        self.owed = self.owed.saturating_add(slots).min(self.slots);
    }

    pub(crate) fn returned(&mut self, slots: u32) {
        self.slots -= slots;
        self.owed = self.owed.saturating_sub(slots).min(self.slots);
    }

    /// End of the time for which unused slots and tokens are kept, `patience` after they were first seen unused;
    /// `Mono::NEVER` while all are in use.
    pub(crate) fn spare_until(&mut self, now: Mono, is_spare: bool, patience: Duration) -> Mono {
        if is_spare {
            *self.spare_since.get_or_insert(now) + patience
        } else {
            self.spare_since = None;
            Mono::NEVER
        }
    }

    /// Returns true if no slot or token is held or requested.
    pub(crate) fn is_home(&self) -> bool {
        self.slots == 0 && self.tokens == 0 && self.asked == 0 && self.tokens_asked == 0
    }
}

#[derive(Clone, Debug)]
struct Party {
    borrower: Borrower,
    lent: u32,
    recalled: u32,
    wants: u32,
    /// Taken gladly if it is free, once.
    extra: u32,
    tokens_wanted: u32,
    /// Time since which it holds a slot.
    since: Mono,
}

/// A named limit on its owning shard: loans, borrowers and outstanding requests.
#[derive(Clone, Debug)]
pub(crate) struct OwnedLimit {
    terms: LimitTerms,
    rate: Option<Rate>,
    /// Borrowers with a loan or a request, in order.
    parties: Vec<Party>,
    /// The borrowers served last with a slot and with tokens.
    slot_turn: Borrower,
    token_turn: Borrower,
    /// The limits changed since the last deal.
    changed: bool,
}

/// Messages of the owner to borrowers.
pub(crate) type Orders = Vec<(Borrower, LeaseOp)>;

impl OwnedLimit {
    pub(crate) fn new(terms: LimitTerms) -> OwnedLimit {
        OwnedLimit {
            rate: Rate::new(terms.messages_per_second),
            terms,
            parties: Vec::new(),
            slot_turn: Borrower { shard: 0, place: BorrowerKey::Ready(0) },
            token_turn: Borrower { shard: 0, place: BorrowerKey::Ready(0) },
            changed: false,
        }
    }

    /// Slots lent, the owner's own included.
    pub(crate) fn lent(&self) -> u32 {
        self.parties.iter().fold(0, |sum, p| sum.saturating_add(p.lent))
    }

    /// Returns true without loans and requests.
    pub(crate) fn is_home(&self) -> bool {
        self.parties.is_empty()
    }

    /// Time at which the next token is free, for `why`.
    pub(crate) fn next_token(&self) -> Option<Mono> {
        self.rate.as_ref().map(Rate::next)
    }

    pub(crate) fn adopt(&mut self, now: Mono, terms: LimitTerms) {
        // A shard that has not reloaded yet must not restore the old limits.
        if terms.epoch < self.terms.epoch {
            return;
        }
        if terms.messages_per_second != self.terms.messages_per_second {
            let before = self.rate.take();
            self.rate = Rate::new(terms.messages_per_second);
            if let (Some(rate), Some(before)) = (&mut self.rate, &before) {
                rate.inherit(now, before);
            }
        }
        self.changed |= self.terms != terms;
        self.terms = terms;
    }

    fn party(&mut self, borrower: Borrower) -> &mut Party {
        let at = match self.parties.binary_search_by_key(&borrower, |p| p.borrower) {
            Ok(at) => at,
            Err(at) => {
                let party = Party {
                    borrower,
                    lent: 0,
                    recalled: 0,
                    wants: 0,
                    extra: 0,
                    tokens_wanted: 0,
                    since: Mono(0),
                };
                self.parties.insert(at, party);
                at
            }
        };
        &mut self.parties[at]
    }

    pub(crate) fn ask(&mut self, borrower: Borrower, slots: u32, extra: u32, tokens: u32) {
        let party = self.party(borrower);
        party.wants = slots;
        party.extra = extra;
        party.tokens_wanted = tokens;
    }

    pub(crate) fn take_back(&mut self, borrower: Borrower, slots: u32, tokens: u32) {
        let party = self.party(borrower);
        debug_assert!(slots <= party.lent);
        party.lent = party.lent.saturating_sub(slots);
        party.recalled = party.recalled.saturating_sub(slots).min(party.lent);
        if let Some(rate) = &mut self.rate {
            rate.refund(tokens);
        }
    }

    /// Grants outstanding requests as far as possible, and recalls slots where needed.
    pub(crate) fn deal(&mut self, now: Mono, orders: &mut Orders) {
        self.changed = false;
        self.grant_slots(now, orders);
        self.grant_tokens(now, orders);
        self.recall(now, orders);
        self.parties.retain(|p| p.lent > 0 || p.wants > 0 || p.tokens_wanted > 0);
    }

    /// Time of the next [`OwnedLimit::deal`] without other events.
    pub(crate) fn next_timeout(&self) -> Mono {
        if self.changed {
            return Mono(0);
        }
        let mut next = Mono::NEVER;
        if self.parties.iter().any(|p| p.tokens_wanted > 0) {
            next = self.rate.as_ref().map_or(Mono(0), Rate::next);
        }
        if self.turns_needed() > 0 {
            let holders = self.parties.iter().filter(|p| p.lent > p.recalled);
            next = next.min(holders.map(|p| p.since + TURN).min().unwrap_or(Mono::NEVER));
        }
        next
    }

    fn free(&self) -> u32 {
        match self.terms.connections_max {
            0 => u32::MAX / 2,
            max => max.saturating_sub(self.lent()),
        }
    }

    /// Places in `parties`, beginning after `turn`.
    fn round(&self, turn: Borrower) -> impl Iterator<Item = usize> + use<> {
        let start = self.parties.partition_point(|p| p.borrower <= turn);
        let count = self.parties.len();
        (0..count).map(move |i| (start + i) % count)
    }

    fn lend(&mut self, at: usize, now: Mono, slots: u32, orders: &mut Orders) {
        let party = &mut self.parties[at];
        if party.lent == 0 {
            party.since = now;
        }
        party.lent += slots;
        self.slot_turn = party.borrower;
        grant(orders, party.borrower, slots, 0);
    }

    fn grant_slots(&mut self, now: Mono, orders: &mut Orders) {
        let mut free = self.free();
        while free > 0 {
            let waiting = self.parties.iter().filter(|p| p.wants > 0).count() as u32;
            if waiting == 0 {
                break;
            }
            let portion = (free / waiting).max(1);
            for at in self.round(self.slot_turn) {
                let slots = self.parties[at].wants.min(portion).min(free);
                if slots > 0 {
                    self.parties[at].wants -= slots;
                    free -= slots;
                    self.lend(at, now, slots, orders);
                }
            }
        }
        for at in 0..self.parties.len() {
            let extra = std::mem::take(&mut self.parties[at].extra).min(free / 2);
            if extra > 0 {
                free -= extra;
                self.lend(at, now, extra, orders);
            }
        }
    }

    fn grant_tokens(&mut self, now: Mono, orders: &mut Orders) {
        for at in self.round(self.token_turn) {
            let wanted = self.parties[at].tokens_wanted;
            if wanted == 0 {
                continue;
            }
            let waiting = self.parties.iter().filter(|p| p.tokens_wanted > 0).count() as u32;
            let tokens = match &mut self.rate {
                None => wanted,
                Some(rate) => {
                    let available = rate.available(now);
                    let tokens = wanted.min(rate.batch()).min(available.div_ceil(waiting.max(1)));
                    rate.spend(now, tokens);
                    tokens
                }
            };
            if tokens == 0 {
                break;
            }
            self.parties[at].tokens_wanted = wanted - tokens;
            self.token_turn = self.parties[at].borrower;
            grant(orders, self.token_turn, 0, tokens);
        }
    }

    /// The number of slots guaranteed to each borrower: an equal share of the limit.
    fn fair(&self) -> u32 {
        let active = self.parties.iter().filter(|p| p.lent > 0 || p.wants > 0).count() as u32;
        (self.terms.connections_max / active.max(1)).max(1)
    }

    /// Number of slots still to recall because parties have less than their fair share.
    fn shortage(&self) -> u32 {
        if self.terms.connections_max == 0 || self.free() > 0 {
            return 0;
        }
        let fair = self.fair();
        let lacking = |p: &Party| p.wants.min(fair.saturating_sub(p.lent - p.recalled));
        let lack: u32 = self.parties.iter().map(lacking).sum();
        lack.saturating_sub(self.parties.iter().map(|p| p.recalled).sum())
    }

    /// Recalls that only taking turns can satisfy.
    fn turns_needed(&self) -> u32 {
        let fair = self.fair();
        let above = |p: &Party| (p.lent - p.recalled).saturating_sub(fair);
        self.shortage().saturating_sub(self.parties.iter().map(above).sum())
    }

    fn recall(&mut self, now: Mono, orders: &mut Orders) {
        if self.terms.connections_max == 0 {
            return;
        }
        let held: u32 = self.parties.iter().map(|p| p.lent - p.recalled).sum();
        // After the limit was lowered, keeping it takes precedence over fairness.
        self.recall_most(held.saturating_sub(self.terms.connections_max), 0, orders);
        self.recall_most(self.shortage(), self.fair(), orders);
        for _ in 0..self.turns_needed() {
            let holders = self.parties.iter_mut().rev().filter(|p| p.lent > p.recalled);
            let Some(party) = holders.min_by_key(|p| p.since) else { break };
            if now < party.since + TURN {
                break;
            }
            party.recalled += 1;
            // One slot at a time is recalled; the rest begin a new turn.
            party.since = now;
            recall(orders, party.borrower, 1);
        }
    }

    /// Recalls `count` slots from the borrowers that hold most, but none from those that hold no more than `keep`.
    fn recall_most(&mut self, mut count: u32, keep: u32, orders: &mut Orders) {
        while count > 0 {
            // Ties go to the lowest number, so that two runs agree.
            let most = self.parties.iter_mut().rev().max_by_key(|p| p.lent - p.recalled);
            let Some(party) = most.filter(|p| p.lent - p.recalled > keep) else { break };
            let slots = count.min((party.lent - party.recalled - keep).div_ceil(2));
            party.recalled += slots;
            count -= slots;
            recall(orders, party.borrower, slots);
        }
    }
}

fn grant(orders: &mut Orders, borrower: Borrower, slots: u32, tokens: u32) {
    for (to, op) in orders.iter_mut() {
        if let LeaseOp::Grant { slots: s, tokens: t } = op
            && *to == borrower
        {
            *s += slots;
            *t += tokens;
            return;
        }
    }
    orders.push((borrower, LeaseOp::Grant { slots, tokens }));
}

fn recall(orders: &mut Orders, borrower: Borrower, more: u32) {
    for (to, op) in orders.iter_mut() {
        if let LeaseOp::Recall { slots } = op
            && *to == borrower
        {
            *slots += more;
            return;
        }
    }
    orders.push((borrower, LeaseOp::Recall { slots: more }));
}
