//! How shards share the limits of one ready queue.
//!
//! Each ready queue has one owning shard, found by hashing its key. The owner keeps a pool of
//! connection slots and rate tokens and lends them; every shard, the owner's own ready queue
//! included, keeps a [`Share`] of what was lent to it. The messages between two shards arrive in
//! order and are never lost, but may be late. From that follows the invariant: what a shard uses
//! it holds, what it holds the owner has counted as lent, and what is lent never exceeds the limit.
//!
//! Asks are absolute ("so much more do I still want"), so a new one replaces what the owner knew.
//! The borrower's idea of what is still asked is never larger than the owner's, because grants
//! lower both; so no ask is ever forgotten.
//!
//! A queue without limits needs no pool and sends nothing; nor does a process of one shard.

use crate::ReadyKey;
use crate::limits::{Rate, ReadyLimits};
use mail::Mono;
use std::time::Duration;

/// How long a slot or token may lie unused at a borrower.
pub(crate) const SPARE_AFTER: Duration = Duration::from_millis(500);
/// With fewer slots than shards that want one, how long each keeps its turn.
pub(crate) const TURN: Duration = Duration::from_secs(1);

/// What one shard's queue says to another's about one ready queue.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseMessage {
    pub(crate) key: ReadyKey,
    pub(crate) word: Word,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// To the owner: so much is still wanted, and that is the limit as this shard knows it.
    Ask { slots: u32, extra: u32, tokens: u32, terms: Terms },
    /// To a borrower.
    Grant { slots: u32, tokens: u32 },
    /// To the owner: not needed any more, or recalled.
    Return { slots: u32, tokens: u32 },
    /// To a borrower: give back so many slots as soon as their transactions end.
    Recall { slots: u32 },
}

/// The shared limits, and how new they are: each reload counts one up on every shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) epoch: u32,
    pub(crate) connections_max: u32,
    pub(crate) messages_per_second: f64,
}

impl Terms {
    pub(crate) fn new(epoch: u32, limits: &ReadyLimits) -> Terms {
        Terms {
            epoch,
            connections_max: limits.connections_max,
            messages_per_second: limits.messages_per_second,
        }
    }
}

/// The shard that owns a ready queue's limits: FNV-1a of the key, the same in every process.
pub(crate) fn owner_of(key: &ReadyKey, shards: u16) -> u16 {
    let bytes = key.source.bytes().chain([0]).chain(key.next_hop.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash >> 32) % u64::from(shards.max(1))) as u16
}

/// What a shard was lent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    /// Connection slots held.
    pub(crate) slots: u32,
    /// Of these, recalled and not yet given back.
    pub(crate) owed: u32,
    /// Asked for and not yet granted, as far as this side knows.
    pub(crate) asked: u32,
    /// Rate tokens held.
    pub(crate) tokens: u32,
    pub(crate) tokens_asked: u32,
    /// Since when something lies unused; `None` while all is in use.
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
        // More than is held means that a return is under way already.
        self.owed = self.owed.saturating_add(slots).min(self.slots);
    }

    pub(crate) fn returned(&mut self, slots: u32) {
        self.slots -= slots;
        self.owed = self.owed.saturating_sub(slots).min(self.slots);
    }

    pub(crate) fn is_home(&self) -> bool {
        self.slots == 0 && self.tokens == 0 && self.asked == 0 && self.tokens_asked == 0
    }
}

#[derive(Clone, Debug)]
struct Party {
    shard: u16,
    lent: u32,
    recalled: u32,
    wants: u32,
    /// Taken gladly if it is free, once.
    extra: u32,
    tokens_wanted: u32,
    /// Since when it holds a slot.
    since: Mono,
}

/// The owner's side.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    terms: Terms,
    rate: Option<Rate>,
    /// By shard number; only those that have or want something.
    parties: Vec<Party>,
    /// The shard that was served last with a slot, and with tokens.
    slot_turn: u16,
    token_turn: u16,
    /// The limits changed since it was last settled.
    changed: bool,
}

/// To whom the owner says what.
pub(crate) type Orders = Vec<(u16, Word)>;

impl Pool {
    pub(crate) fn new(terms: Terms) -> Pool {
        Pool {
            rate: Rate::new(terms.messages_per_second),
            terms,
            parties: Vec::new(),
            slot_turn: 0,
            token_turn: 0,
            changed: false,
        }
    }

    /// Slots lent, the owner's own included.
    pub(crate) fn lent(&self) -> u32 {
        self.parties.iter().fold(0, |sum, p| sum.saturating_add(p.lent))
    }

    /// Nothing lent and nothing wanted.
    pub(crate) fn is_home(&self) -> bool {
        self.parties.is_empty()
    }

    /// When a token will be free, for `why`.
    pub(crate) fn next_token(&self) -> Option<Mono> {
        self.rate.as_ref().map(Rate::next)
    }

    pub(crate) fn adopt(&mut self, terms: Terms) {
        // A shard that has not reloaded yet must not bring the old limits back.
        if terms.epoch < self.terms.epoch {
            return;
        }
        if terms.messages_per_second != self.terms.messages_per_second {
            let before = self.rate.take();
            self.rate = Rate::new(terms.messages_per_second);
            if let (Some(rate), Some(before)) = (&mut self.rate, &before) {
                rate.inherit(before);
            }
        }
        self.changed |= self.terms != terms;
        self.terms = terms;
    }

    fn party(&mut self, shard: u16) -> &mut Party {
        let at = match self.parties.binary_search_by_key(&shard, |p| p.shard) {
            Ok(at) => at,
            Err(at) => {
                let party = Party {
                    shard,
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

    pub(crate) fn ask(&mut self, shard: u16, slots: u32, extra: u32, tokens: u32) {
        let party = self.party(shard);
        party.wants = slots;
        party.extra = extra;
        party.tokens_wanted = tokens;
    }

    pub(crate) fn take_back(&mut self, shard: u16, slots: u32, tokens: u32) {
        let party = self.party(shard);
        debug_assert!(slots <= party.lent);
        party.lent = party.lent.saturating_sub(slots);
        party.recalled = party.recalled.saturating_sub(slots).min(party.lent);
        if let Some(rate) = &mut self.rate {
            rate.refund(tokens);
        }
    }

    /// Serves whom it can and recalls what it must.
    pub(crate) fn settle(&mut self, now: Mono, orders: &mut Orders) {
        self.changed = false;
        self.grant_slots(now, orders);
        self.grant_tokens(now, orders);
        self.recall(now, orders);
        self.parties.retain(|p| p.lent > 0 || p.wants > 0 || p.tokens_wanted > 0);
    }

    /// When to settle again if nothing else happens.
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
    fn round(&self, turn: u16) -> impl Iterator<Item = usize> + use<> {
        let start = self.parties.partition_point(|p| p.shard <= turn);
        let count = self.parties.len();
        (0..count).map(move |i| (start + i) % count)
    }

    fn lend(&mut self, at: usize, now: Mono, slots: u32, orders: &mut Orders) {
        let party = &mut self.parties[at];
        if party.lent == 0 {
            party.since = now;
        }
        party.lent += slots;
        self.slot_turn = party.shard;
        grant(orders, party.shard, slots, 0);
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
            self.token_turn = self.parties[at].shard;
            grant(orders, self.token_turn, 0, tokens);
        }
    }

    /// Slots each may count on: an equal part of the limit.
    fn fair(&self) -> u32 {
        let active = self.parties.iter().filter(|p| p.lent > 0 || p.wants > 0).count() as u32;
        (self.terms.connections_max / active.max(1)).max(1)
    }

    /// Recalls that are still to be made because parties lack their fair part.
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
        // The limit was lowered: fairness comes after keeping it.
        self.recall_most(held.saturating_sub(self.terms.connections_max), 0, orders);
        self.recall_most(self.shortage(), self.fair(), orders);
        for _ in 0..self.turns_needed() {
            let holders = self.parties.iter_mut().rev().filter(|p| p.lent > p.recalled);
            let Some(party) = holders.min_by_key(|p| p.since) else { break };
            if now < party.since + TURN {
                break;
            }
            party.recalled += 1;
            // Of several slots one goes; the rest have a new turn.
            party.since = now;
            recall(orders, party.shard, 1);
        }
    }

    /// Recalls `count` slots from those that hold the most, as long as they hold more than `keep`.
    fn recall_most(&mut self, mut count: u32, keep: u32, orders: &mut Orders) {
        while count > 0 {
            // Ties go to the lowest shard, so that two runs agree.
            let most = self.parties.iter_mut().rev().max_by_key(|p| p.lent - p.recalled);
            let Some(party) = most.filter(|p| p.lent - p.recalled > keep) else { break };
            let slots = count.min((party.lent - party.recalled - keep).div_ceil(2));
            party.recalled += slots;
            count -= slots;
            recall(orders, party.shard, slots);
        }
    }
}

fn grant(orders: &mut Orders, shard: u16, slots: u32, tokens: u32) {
    for (to, word) in orders.iter_mut() {
        if let Word::Grant { slots: s, tokens: t } = word
            && *to == shard
        {
            *s += slots;
            *t += tokens;
            return;
        }
    }
    orders.push((shard, Word::Grant { slots, tokens }));
}

fn recall(orders: &mut Orders, shard: u16, more: u32) {
    for (to, word) in orders.iter_mut() {
        if let Word::Recall { slots } = word
            && *to == shard
        {
            *slots += more;
            return;
        }
    }
    orders.push((shard, Word::Recall { slots: more }));
}
