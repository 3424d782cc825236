//! Slots and tokens of named limits in transfer between owners and borrowers.

use crate::Action;
use crate::lease::{Borrower, BorrowerKey, LeaseMessage, LeaseOp, LimitTerms, Orders, OwnedLimit};
use crate::named_limit::{Borrowed, Borrows, Limit};
use crate::queue::Queue;
use mail::Mono;
use std::sync::Arc;

impl Queue {
    /// The pool of a limit that this shard owns.
    pub(crate) fn pool(&self, name: &str) -> Option<&OwnedLimit> {
        let number = self.limit_names.get(name)?;
        self.limits.get(*number).map(|limit| &limit.pool)
    }

    fn borrows_of(&self, place: BorrowerKey) -> Option<&Borrows> {
        match place {
            BorrowerKey::Ready(number) => self.ready.get(number).map(|queue| &queue.borrows),
            BorrowerKey::Tenant(number) => {
                self.tenants.table.get(number).map(|tenant| &tenant.borrows)
            }
        }
    }

    fn borrows_of_mut(&mut self, place: BorrowerKey) -> Option<&mut Borrows> {
        match place {
            BorrowerKey::Ready(number) => {
                self.ready.get_mut(number).map(|queue| &mut queue.borrows)
            }
            BorrowerKey::Tenant(number) => {
                self.tenants.table.get_mut(number).map(|tenant| &mut tenant.borrows)
            }
        }
    }

    /// Sends a message about limit number `at` of a ready queue or tenant to the limit's owner.
    pub(crate) fn send_to_owner(&mut self, now: Mono, place: BorrowerKey, at: usize, op: LeaseOp) {
        let Some(borrowed) = self.borrows_of(place).and_then(|borrows| borrows.get(at)) else {
            return;
        };
        let (limit, owner) = (Arc::clone(&borrowed.name), borrowed.owner);
        if owner == self.config.shard {
            let borrower = Borrower { shard: owner, place };
            self.handle_borrower(now, &limit, borrower, op);
        } else {
            self.send(owner, LeaseMessage { limit, place, op });
        }
    }

    /// Handles a message returned by another shard's queue as [`Action::Lease`]. Messages of a shard must arrive in
    /// order and without loss.
    pub fn handle_lease(&mut self, now: Mono, from_shard: u16, message: LeaseMessage) {
        let LeaseMessage { limit, place, op } = message;
        match op {
            LeaseOp::Ask { .. } | LeaseOp::Return { .. } => {
                let borrower = Borrower { shard: from_shard, place };
                self.handle_borrower(now, &limit, borrower, op);
            }
            LeaseOp::Grant { .. } | LeaseOp::Recall { .. } => {
                self.handle_owner(&limit, from_shard, place, op);
            }
        }
    }

    /// A borrower requests or returns slots and tokens.
    fn handle_borrower(&mut self, now: Mono, name: &Arc<str>, borrower: Borrower, op: LeaseOp) {
        let number = match (self.limit_names.get(name), &op) {
            (Some(number), _) => *number,
            (None, LeaseOp::Ask { terms, .. }) => self.own_limit(name, *terms),
            // Nothing is lent of an unknown limit.
            (None, _) => return,
        };
        let limit = &mut self.limits[number];
        limit.used = now;
        match op {
            LeaseOp::Ask { slots, extra, tokens, terms } => {
                limit.pool.adopt(now, terms);
                limit.pool.ask(borrower, slots, extra, tokens);
            }
            LeaseOp::Return { slots, tokens } => limit.pool.take_back(borrower, slots, tokens),
            LeaseOp::Grant { .. } | LeaseOp::Recall { .. } => {}
        }
        self.deal_limit(now, number);
    }

    fn own_limit(&mut self, name: &Arc<str>, terms: LimitTerms) -> u32 {
        let limit = Limit { name: Arc::clone(name), pool: OwnedLimit::new(terms), used: Mono(0) };
        let number = self.limits.insert(limit);
        self.limit_names.insert(Arc::clone(name), number);
        number
    }

    /// Deals one limit and sends the resulting grants and recalls.
    pub(crate) fn deal_limit(&mut self, now: Mono, number: u32) {
        let Some(limit) = self.limits.get_mut(number) else { return };
        let mut orders = Orders::new();
        limit.pool.deal(now, &mut orders);
        self.limit_timers.set(number, limit.pool.next_timeout());
        if orders.is_empty() {
            return;
        }
        let name = Arc::clone(&limit.name);
        for (borrower, op) in orders {
            if borrower.shard == self.config.shard {
                self.handle_owner(&name, borrower.shard, borrower.place, op);
            } else {
                let message = LeaseMessage { limit: Arc::clone(&name), place: borrower.place, op };
                self.send(borrower.shard, message);
            }
        }
    }

    /// Handles a grant or recall by the owner of a limit.
    fn handle_owner(&mut self, name: &Arc<str>, owner: u16, place: BorrowerKey, op: LeaseOp) {
        let borrows = self.borrows_of_mut(place);
        let borrowed = borrows.and_then(|b| b.iter_mut().find(|b| b.name == *name));
        match (borrowed, op) {
            (Some(borrowed), LeaseOp::Grant { slots, tokens }) => {
                borrowed.share.granted(slots, tokens);
            }
            (Some(borrowed), LeaseOp::Recall { slots }) => borrowed.share.recalled(slots),
            // The borrower is gone: return the grant.
            (None, LeaseOp::Grant { slots, tokens }) => {
                let op = LeaseOp::Return { slots, tokens };
                return self.send(owner, LeaseMessage { limit: Arc::clone(name), place, op });
            }
            _ => return,
        }
        match place {
            BorrowerKey::Ready(ready) => self.mark(ready),
            BorrowerKey::Tenant(number) => self.hasten_tenant(number),
        }
    }

    fn send(&mut self, shard: u16, message: LeaseMessage) {
        self.actions.push_back(Action::Lease { shard, message });
    }

    /// Sends changed terms of a borrower's limits to their owners.
    pub(crate) fn tell_terms(&mut self, now: Mono, place: BorrowerKey) {
        for at in 0..self.borrows_of(place).map_or(0, Borrows::len) {
            let Some(borrowed) = self.borrows_of(place).and_then(|borrows| borrows.get(at)) else {
                return;
            };
            let Borrowed { owner, terms, share, name, retired } = borrowed;
            let terms = *terms;
            if *owner == self.config.shard {
                if let Some(&number) = self.limit_names.get(name) {
                    self.limits[number].pool.adopt(now, terms);
                    self.limit_timers.hasten(number, now);
                }
            } else if !retired && !share.is_home() {
                let (slots, tokens) = (share.asked, share.tokens_asked);
                self.send_to_owner(now, place, at, LeaseOp::Ask { slots, extra: 0, tokens, terms });
            }
        }
    }

    /// Drops a limit without recent borrowers.
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
