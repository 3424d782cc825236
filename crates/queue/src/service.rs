//! Looking at a ready queue: whom to wake, what to open, what to borrow, what to give back.

use crate::lease::{LeaseMessage, Orders, Pool, SPARE_AFTER, Terms, Word};
use crate::queue::Queue;
use crate::{Action, ReadyId, ReadyKey, ReadyLimits};
use mail::Mono;

/// How far the decisions for one ready queue came.
struct Demand {
    /// Transactions that no connection is on its way for.
    unserved: u32,
    /// Of these, those that the rate allows now and no idle connection takes: each would like a
    /// connection of its own.
    unconnected: u32,
    /// No connection may be opened before.
    gated_until: Option<Mono>,
}

impl Queue {
    /// Decides everything about one ready queue and sets its timer.
    pub(crate) fn service(&mut self, now: Mono, number: u32) {
        let Some(queue) = self.ready.get_mut(number) else { return };
        queue.dirty = false;
        if self.paused.is_some() && queue.backlog.len() > 0 {
            self.stall(number);
        }
        self.settle_pool(now, number);
        self.borrow_tokens(now, number);
        let mut demand = self.wake(now, number);
        self.borrow_slots(now, number, &demand);
        self.open(now, number, &mut demand);
        self.close_excess(number);
        let spare = self.give_back(now, number, &demand);
        let queue = &mut self.ready[number];
        let mut next = spare;
        if demand.unserved > 0 {
            next = next.min(demand.gated_until.unwrap_or(Mono::NEVER));
        }
        if let Some(pool) = &queue.pool {
            next = next.min(pool.next_timeout());
        }
        self.ready_timers.set(number, next);
    }

    /// Remembers to look at a ready queue when the pause ends.
    pub(crate) fn stall(&mut self, number: u32) {
        let queue = &mut self.ready[number];
        if !queue.stalled {
            queue.stalled = true;
            self.stalled.push(number);
        }
    }

    fn settle_pool(&mut self, now: Mono, number: u32) {
        let queue = &mut self.ready[number];
        if let Some(pool) = &mut queue.pool
            && pool.next_timeout() <= now
        {
            let mut orders = Orders::new();
            pool.settle(now, &mut orders);
            self.obey(now, number, orders);
        }
    }

    /// Wakes idle connections for what they can take.
    fn wake(&mut self, now: Mono, number: u32) -> Demand {
        let queue = &mut self.ready[number];
        let waiting = match self.paused {
            Some(_) => 0,
            None => queue.backlog.transactions(queue.limits.recipients_per_message),
        };
        let coming = queue.woken + queue.opening;
        let unserved = waiting.saturating_sub(coming);
        let mut runnable = unserved;
        if queue.is_rated() {
            runnable = runnable.min(queue.share.tokens.saturating_sub(coming));
        }
        let wakes = runnable.min(queue.idle);
        queue.idle -= wakes;
        queue.woken += wakes;
        for _ in 0..wakes {
            self.actions.push_back(Action::Wake(ReadyId(number)));
        }
        let gated_until = Some(queue.gate.open_after).filter(|at| *at > now);
        Demand { unserved, unconnected: runnable - wakes, gated_until }
    }

    /// Opens connections as far as all limits allow.
    fn open(&mut self, now: Mono, number: u32, demand: &mut Demand) {
        let queue = &mut self.ready[number];
        if demand.gated_until.is_some() {
            return;
        }
        let opens_max = match queue.limits.opens_max {
            _ if queue.gate.probing => 1,
            0 => u32::MAX,
            max => max,
        };
        let opens = demand
            .unconnected
            .min(opens_max.saturating_sub(queue.opening))
            .min(queue.allowed().saturating_sub(queue.connections()));
        if opens > 0 {
            queue.opening += opens;
            queue.used = now;
            demand.unconnected -= opens;
        }
        for _ in 0..opens {
            self.actions.push_back(Action::Open(ReadyId(number)));
        }
    }

    /// Wakes idle connections that must go: they find [`crate::Take::Close`].
    fn close_excess(&mut self, number: u32) {
        let queue = &mut self.ready[number];
        let excess = queue.connections().saturating_sub(queue.allowed());
        let closing = excess.saturating_sub(queue.woken).min(queue.idle);
        queue.idle -= closing;
        queue.woken += closing;
        for _ in 0..closing {
            self.actions.push_back(Action::Wake(ReadyId(number)));
        }
    }

    /// Whether something could go if there were tokens.
    fn uses_tokens(&self, now: Mono, number: u32) -> bool {
        let queue = &self.ready[number];
        let stuck = queue.open == 0 && queue.gate.open_after > now;
        self.paused.is_none() && !stuck && queue.backlog.len() > 0
    }

    /// Asks for rate tokens when fewer than half a batch are left for what waits.
    fn borrow_tokens(&mut self, now: Mono, number: u32) {
        let queue = &self.ready[number];
        let share = &queue.share;
        if !queue.is_rated() || !self.uses_tokens(now, number) {
            return;
        }
        let batch = crate::limits::Rate::new(queue.limits.messages_per_second)
            .map_or(1, |rate| rate.batch());
        if share.tokens >= batch.div_ceil(2) || share.tokens_asked > 0 {
            return;
        }
        let waiting = queue.backlog.transactions(queue.limits.recipients_per_message);
        let wanted = waiting.min(batch).saturating_sub(share.tokens);
        if wanted > 0 {
            self.ask(now, number, queue.share.asked, 0, wanted);
        }
    }

    /// Asks for connection slots if there are too few for what waits.
    fn borrow_slots(&mut self, now: Mono, number: u32, demand: &Demand) {
        let queue = &self.ready[number];
        let max = queue.limits.connections_max;
        if max == 0 || demand.unconnected == 0 || demand.gated_until.is_some() {
            return;
        }
        let target = if queue.gate.probing {
            1
        } else {
            let target = queue.connections().saturating_add(demand.unconnected);
            target.min(max).min(queue.window.allowed())
        };
        let lack = target.saturating_sub(queue.share.usable());
        if lack <= queue.share.asked {
            return;
        }
        // A quarter of the limit in advance if it is free, so that a growing need does not ask
        // for each connection; the owner's own queue is near enough to do that.
        let local = queue.owner == self.config.shard;
        let extra = if local { 0 } else { (max / 4).saturating_sub(target) };
        self.ask(now, number, lack, extra, queue.share.tokens_asked);
    }

    fn ask(&mut self, now: Mono, number: u32, slots: u32, extra: u32, tokens: u32) {
        let queue = &mut self.ready[number];
        queue.share.asked = slots;
        queue.share.tokens_asked = tokens;
        let terms = queue.terms;
        self.tell_owner(now, number, Word::Ask { slots, extra, tokens, terms });
    }

    /// Gives back what was recalled and is free, and what lies unused. Says when to look again.
    fn give_back(&mut self, now: Mono, number: u32, demand: &Demand) -> Mono {
        let uses_tokens = self.uses_tokens(now, number);
        let queue = &mut self.ready[number];
        let local = queue.owner == self.config.shard;
        let share = &mut queue.share;
        let used = queue.opening + queue.open;
        let free = share.slots.saturating_sub(used);
        let wanted = if demand.gated_until.is_some() { 0 } else { demand.unconnected };
        let unlimited = queue.limits.connections_max == 0;
        let spare = if unlimited { share.slots } else { free.saturating_sub(wanted) };
        let spare_tokens = if uses_tokens { 0 } else { share.tokens };
        let spare_asks = share.asked > 0 && wanted == 0 || share.tokens_asked > 0 && !uses_tokens;
        let mut back = (free.min(share.owed), 0);
        let mut withdraw = false;
        let mut next = Mono::NEVER;
        if spare > 0 || spare_tokens > 0 || spare_asks {
            let since = *share.spare_since.get_or_insert(now);
            if local || unlimited || now >= since + SPARE_AFTER {
                back = (back.0.max(spare), spare_tokens);
                withdraw = spare_asks;
                share.spare_since = None;
            } else {
                next = since + SPARE_AFTER;
            }
        } else {
            share.spare_since = None;
        }
        if withdraw {
            let slots = if wanted == 0 { 0 } else { queue.share.asked };
            let tokens = if uses_tokens { queue.share.tokens_asked } else { 0 };
            self.ask(now, number, slots, 0, tokens);
        }
        if back != (0, 0) {
            let share = &mut self.ready[number].share;
            share.returned(back.0);
            share.tokens -= back.1;
            self.tell_owner(now, number, Word::Return { slots: back.0, tokens: back.1 });
        }
        next
    }

    fn tell_owner(&mut self, now: Mono, number: u32, word: Word) {
        let queue = &self.ready[number];
        if queue.owner == self.config.shard {
            self.hear(now, number, self.config.shard, word);
        } else {
            let message = LeaseMessage { key: queue.key.clone(), word };
            self.actions.push_back(Action::Lease { shard: queue.owner, message });
        }
    }

    /// Takes a message that another shard's queue gave out as [`Action::Lease`]. Those of one
    /// shard must come in the order in which they were given out, and none may be lost.
    pub fn handle_lease(&mut self, now: Mono, from_shard: u16, message: LeaseMessage) {
        let LeaseMessage { key, word } = message;
        let number = match self.ready_names.get(&key) {
            Some(number) => *number,
            None => self.ready_for_others(now, &key, &word),
        };
        self.ready[number].used = now;
        self.hear(now, number, from_shard, word);
    }

    /// A ready queue that has no messages here, only limits to lend.
    fn ready_for_others(&mut self, now: Mono, key: &ReadyKey, word: &Word) -> u32 {
        let mut limits = ReadyLimits {
            connections_max: 0,
            opens_max: 0,
            messages_per_connection: 0,
            messages_per_second: 0.0,
            recipients_per_message: 0,
            adaptive: false,
        };
        if let Word::Ask { terms, .. } = word {
            limits.connections_max = terms.connections_max;
            limits.messages_per_second = terms.messages_per_second;
        }
        self.intern_ready(now, key, &limits)
    }

    fn hear(&mut self, now: Mono, number: u32, from: u16, word: Word) {
        let queue = &mut self.ready[number];
        match word {
            Word::Grant { slots, tokens } => {
                queue.share.granted(slots, tokens);
                return self.mark(number);
            }
            Word::Recall { slots } => {
                queue.share.recalled(slots);
                return self.mark(number);
            }
            Word::Ask { slots, extra, tokens, terms } => {
                let pool = queue.pool.get_or_insert_with(|| Box::new(Pool::new(terms)));
                pool.adopt(terms);
                pool.ask(from, slots, extra, tokens);
            }
            Word::Return { slots, tokens } => {
                let own = Terms::new(queue.terms.epoch, &queue.limits);
                let pool = queue.pool.get_or_insert_with(|| Box::new(Pool::new(own)));
                pool.take_back(from, slots, tokens);
            }
        }
        let mut orders = Orders::new();
        if let Some(pool) = &mut queue.pool {
            pool.settle(now, &mut orders);
            let next = pool.next_timeout();
            self.ready_timers.hasten(number, next);
        }
        self.obey(now, number, orders);
    }

    /// Passes on what the pool decided.
    fn obey(&mut self, now: Mono, number: u32, orders: Orders) {
        for (shard, word) in orders {
            if shard == self.config.shard {
                self.hear(now, number, shard, word);
            } else {
                let message = LeaseMessage { key: self.ready[number].key.clone(), word };
                self.actions.push_back(Action::Lease { shard, message });
            }
        }
    }
}
