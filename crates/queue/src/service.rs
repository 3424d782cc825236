//! Service of a ready queue: wakes and opens connections, borrows and returns slots and tokens.

use crate::lease::{BorrowerKey, LeaseOp, SPARE_AFTER};
use crate::named_limit::Borrowed;
use crate::queue::Queue;
use crate::{Action, ReadyId, SuspendedHop, SuspendedQueue};
use mail::Mono;
use std::time::Duration;

/// Maximum number of entries with an outdated route moved out in one pass.
const STALE_MAX: u32 = 256;

/// Intermediate result of servicing one ready queue.
struct Demand {
    /// Transactions without a connection, open or opening.
    unserved: u32,
    /// Of these, transactions that the rate allows now and no idle connection takes. Each could use a new connection.
    unconnected: u32,
    /// No connection may be opened before.
    gated_until: Option<Mono>,
}

/// A ready queue's outstanding request for a limit.
struct LeaseRequest {
    slots: u32,
    /// Slots wanted in addition, if free.
    extra: u32,
    tokens: u32,
}

/// Additional slots and tokens of a limit that a ready queue could use.
#[derive(Clone, Copy)]
struct LeaseDemand {
    slots: u32,
    /// True if any tokens are needed.
    tokens: bool,
}

impl LeaseDemand {
    /// An unlimited limit needs no loan.
    fn of(self, borrowed: &Borrowed) -> LeaseDemand {
        LeaseDemand {
            slots: if borrowed.is_limited() { self.slots } else { 0 },
            tokens: self.tokens && borrowed.is_rated(),
        }
    }
}

/// The unneeded part of a ready queue's share.
struct Spare {
    slots: u32,
    tokens: u32,
    /// A pending request is no longer needed.
    asks: bool,
}

impl Spare {
    fn of(borrowed: &Borrowed, connections: u32, wanted: LeaseDemand) -> Spare {
        let share = &borrowed.share;
        let needed =
            if borrowed.is_limited() { connections.saturating_add(wanted.slots) } else { 0 };
        Spare {
            slots: share.slots.saturating_sub(needed),
            tokens: if wanted.tokens { 0 } else { share.tokens },
            asks: share.asked > 0 && wanted.slots == 0 || share.tokens_asked > 0 && !wanted.tokens,
        }
    }

    fn is_any(&self) -> bool {
        self.slots > 0 || self.tokens > 0 || self.asks
    }
}

impl Queue {
    /// Serves a ready queue: decides on its connections, leases and state, and sets its timer.
    pub(crate) fn service(&mut self, now: Mono, number: u32) {
        let Some(queue) = self.ready.get_mut(number) else { return };
        queue.dirty = false;
        if self.paused.is_some() && queue.backlog.len() > 0 {
            self.stall(number);
        }
        self.send_back_stale(number);
        self.fail_refused(now, number);
        self.ask_allowance(now, number);
        self.borrow_tokens(now, number);
        let mut demand = self.wake(now, number);
        self.borrow_slots(now, number, &demand);
        self.open(now, number, &mut demand);
        self.close_excess(number);
        let mut next = self.give_back(now, number, &demand).min(self.spare_allowance(now, number));
        self.tell_suspended(now, number);
        if demand.unserved > 0 {
            next = next.min(demand.gated_until.unwrap_or(Mono::NEVER));
        }
        next = next.min(self.ask_standstill(now, number));
        self.ready_timers.set(number, next);
    }

    /// Queries the owner about the end of a suspension at its due time. Returns the time of the next check.
    fn ask_standstill(&mut self, now: Mono, number: u32) -> Mono {
        let standstill = &mut self.ready[number].standstill;
        if standstill.ask(now) {
            self.actions.push_back(Action::Standstill(SuspendedQueue::Ready(ReadyId(number))));
        }
        standstill.worth_a_look().unwrap_or(Mono::NEVER)
    }

    /// Reports each step of a back-off once, and its end.
    fn tell_suspended(&mut self, now: Mono, number: u32) {
        let queue = &mut self.ready[number];
        let gate = &mut queue.gate;
        let closed = gate.open_after > now && (queue.open == 0 || gate.shut);
        let deserted = queue.backlog.total() == 0 && queue.open + queue.opening == 0;
        if gate.step == 0 || deserted {
            queue.waiting = None;
            if std::mem::take(&mut gate.told) > 0 {
                let recovered = gate.step == 0;
                self.actions.push_back(Action::Resumed { ready: ReadyId(number), recovered });
            }
        } else if closed && gate.told != gate.step && queue.backlog.len() > 0 {
            gate.told = gate.step;
            self.actions.push_back(Action::Suspended(SuspendedHop {
                ready: ReadyId(number),
                step: gate.step,
                waiting: queue.waiting.get_or_insert_default().clone(),
                failure: gate.failure.clone(),
                until: gate.open_after,
            }));
        }
        if let Some(waiting) = &queue.waiting {
            waiting.set(queue.backlog.total());
        }
    }

    /// Marks a ready queue for service at the end of the pause.
    pub(crate) fn stall(&mut self, number: u32) {
        let queue = &mut self.ready[number];
        if !queue.stalled {
            queue.stalled = true;
            self.stalled.push(number);
        }
    }

    /// After a reload: returns entries with a changed next hop for a new lookup, without waiting for a connection.
    fn send_back_stale(&mut self, number: u32) {
        if self.ready[number].epoch == self.epoch {
            return;
        }
        for _ in 0..STALE_MAX {
            let Some(pick) = self.ready[number].backlog.pick() else { return };
            if self.is_on_its_way(pick.slot) {
                return;
            }
            self.reschedule(pick.slot);
        }
        self.mark(number);
    }

    /// The next hop never accepts mail: waiting entries fail.
    fn fail_refused(&mut self, now: Mono, number: u32) {
        for _ in 0..STALE_MAX {
            let queue = &mut self.ready[number];
            let Some(failure) = queue.refused.clone() else { return };
            let Some(pick) = queue.backlog.pick() else {
                queue.refused = None;
                return;
            };
            if self.is_on_its_way(pick.slot) {
                let detail = self.leave_with_detail(now, pick.slot);
                self.actions.push_back(Action::Failed(detail, failure));
            } else {
                self.reschedule(pick.slot);
            }
        }
        self.mark(number);
    }

    /// Wakes idle connections for sendable transactions.
    fn wake(&mut self, now: Mono, number: u32) -> Demand {
        let queue = &mut self.ready[number];
        let waiting = if self.paused.is_some() || queue.is_suspended(now) || queue.refused.is_some()
        {
            0
        } else {
            queue.backlog.transactions(queue.limits.recipients_per_message)
        };
        let coming = queue.woken + queue.opening;
        let unserved = waiting.saturating_sub(coming);
        let may_go = queue.tokens().min(queue.allowance(now));
        let runnable = unserved.min(may_go.saturating_sub(coming));
        let wakes = runnable.min(queue.idle);
        queue.idle -= wakes;
        queue.woken += wakes;
        for _ in 0..wakes {
            self.actions.push_back(Action::Wake(ReadyId(number)));
        }
        let gated_until = Some(queue.gate.open_after).filter(|at| *at > now);
        Demand { unserved, unconnected: runnable - wakes, gated_until }
    }

    /// Opens connections up to the limits.
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

    /// Returns true if entries could be sent given tokens.
    pub(crate) fn uses_tokens(&self, now: Mono, number: u32) -> bool {
        let queue = &self.ready[number];
        let stuck = queue.open == 0 && queue.gate.open_after > now;
        self.paused.is_none() && !queue.is_suspended(now) && !stuck && queue.backlog.len() > 0
    }

    /// Requests rate tokens if too few are left for the waiting entries.
    fn borrow_tokens(&mut self, now: Mono, number: u32) {
        if self.ready[number].rates().next().is_none() || !self.uses_tokens(now, number) {
            return;
        }
        for at in 0..self.ready[number].borrows.len() {
            let queue = &self.ready[number];
            let borrowed = &queue.borrows[at];
            let waiting = queue.backlog.transactions(queue.limits.recipients_per_message);
            let wanted = borrowed.lack_of_tokens(waiting, self.config.shard);
            if wanted > 0 {
                let asked = LeaseRequest { slots: borrowed.share.asked, extra: 0, tokens: wanted };
                self.ask(now, number, at, asked);
            }
        }
    }

    /// Requests connection slots if too few are left for the waiting entries.
    fn borrow_slots(&mut self, now: Mono, number: u32, demand: &Demand) {
        let queue = &self.ready[number];
        if demand.unconnected == 0 || demand.gated_until.is_some() {
            return;
        }
        let wanted = queue.connections().saturating_add(demand.unconnected);
        let mut target = if queue.gate.probing { 1 } else { wanted.min(queue.window.allowed()) };
        for at in 0..self.ready[number].borrows.len() {
            let borrowed = &self.ready[number].borrows[at];
            if !borrowed.is_limited() {
                continue;
            }
            let (max, share) = (borrowed.terms.connections_max, &borrowed.share);
            target = target.min(max);
            let lack = target.saturating_sub(share.usable());
            if lack > share.asked {
                // Requests a quarter of the limit in advance, if free, so that growing demand does not need a request
                // per connection. The owner's own queue does not need this.
                let local = borrowed.owner == self.config.shard;
                let extra = if local { 0 } else { (max / 4).saturating_sub(target) };
                let asked = LeaseRequest { slots: lack, extra, tokens: share.tokens_asked };
                self.ask(now, number, at, asked);
            }
            // Requests no more of the next limit than this one allows.
            target = target.min(self.ready[number].borrows[at].share.usable());
        }
    }

    /// Sends a request to the owner of the limit at position `at`; it replaces the earlier request.
    fn ask(&mut self, now: Mono, number: u32, at: usize, asked: LeaseRequest) {
        let LeaseRequest { slots, extra, tokens } = asked;
        let borrowed = &mut self.ready[number].borrows[at];
        borrowed.share.asked = slots;
        borrowed.share.tokens_asked = tokens;
        let terms = borrowed.terms;
        self.send_to_owner(
            now,
            BorrowerKey::Ready(number),
            at,
            LeaseOp::Ask { slots, extra, tokens, terms },
        );
    }

    /// Returns recalled slots that are free, and unused slots and tokens. Returns the time of the next check.
    fn give_back(&mut self, now: Mono, number: u32, demand: &Demand) -> Mono {
        let slots = if demand.gated_until.is_some() { 0 } else { demand.unconnected };
        let mut wanted = LeaseDemand { slots, tokens: self.uses_tokens(now, number) };
        let mut barred = false;
        let mut next = Mono::NEVER;
        for at in 0..self.ready[number].borrows.len() {
            next = next.min(self.give_back_of(now, number, at, wanted, barred));
            let queue = &self.ready[number];
            if queue.borrows[at].is_limited() {
                // Requests no more of the next limit than this one allows.
                let usable = queue.borrows[at].share.usable();
                wanted.slots = wanted.slots.min(usable.saturating_sub(queue.connections()));
                barred |= usable == 0;
            }
        }
        self.ready[number].borrows.retain(|b| !b.retired || !b.share.is_home());
        next
    }

    /// Returns unneeded slots and tokens of the limit at position `at`. Recalled ones are returned at once; unused ones
    /// after a while. Unused ones are also returned at once if this shard lends them, if the limit no longer exists, or
    /// if an earlier limit lends nothing (`barred`). Otherwise one ready queue after another could keep a last slot
    /// just after losing its turn at the earlier limit, and the slot would serve none.
    fn give_back_of(
        &mut self,
        now: Mono,
        number: u32,
        at: usize,
        wanted: LeaseDemand,
        barred: bool,
    ) -> Mono {
        let queue = &mut self.ready[number];
        let connections = queue.connections();
        let borrowed = &mut queue.borrows[at];
        let wanted = wanted.of(borrowed);
        let spare = Spare::of(borrowed, connections, wanted);
        let is_ours = borrowed.owner == self.config.shard;
        let at_once = is_ours || barred || !borrowed.is_limited();
        let share = &mut borrowed.share;
        let recalled = share.owed.min(share.slots.saturating_sub(connections));
        let patience = if at_once { Duration::ZERO } else { SPARE_AFTER };
        let due = share.spare_until(now, spare.is_any(), patience);
        if due > now {
            self.hand_back(now, number, at, recalled, 0);
            return due;
        }
        share.spare_since = None;
        let (asked, tokens_asked) = (share.asked, share.tokens_asked);
        if spare.asks {
            let slots = if wanted.slots == 0 { 0 } else { asked };
            let tokens = if wanted.tokens { tokens_asked } else { 0 };
            self.ask(now, number, at, LeaseRequest { slots, extra: 0, tokens });
        }
        self.hand_back(now, number, at, recalled.max(spare.slots), spare.tokens);
        Mono::NEVER
    }

    /// Returns slots and tokens to the owner of the limit at place `at`.
    fn hand_back(&mut self, now: Mono, number: u32, at: usize, slots: u32, tokens: u32) {
        if slots == 0 && tokens == 0 {
            return;
        }
        let share = &mut self.ready[number].borrows[at].share;
        share.returned(slots);
        share.tokens -= tokens;
        #[cfg(feature = "planted")]
        if self.loses_leases && self.ready[number].borrows[at].owner != self.config.shard {
            return;
        }
        self.send_to_owner(now, BorrowerKey::Ready(number), at, LeaseOp::Return { slots, tokens });
    }
}
