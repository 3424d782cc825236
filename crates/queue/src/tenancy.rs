//! Transfer of tenants' tokens to the ready queues that wait for them.

use crate::TenantTerms;
use crate::lease::{BorrowerKey, LeaseOp, SPARE_AFTER};
use crate::queue::Queue;
use mail::Mono;
use std::sync::Arc;
use std::time::Duration;

/// Time for which unused tokens stay reserved for their ready queue while other ready queues are parked.
const UNTAKEN_AFTER: Duration = Duration::from_millis(100);

impl Queue {
    /// Sets the terms of a tenant; by default all tenants have the same weight.
    pub fn set_tenant(&mut self, now: Mono, name: &Arc<str>, terms: TenantTerms) {
        let Some(&number) = self.tenants.names.get(name) else { return };
        let (epoch, shards) = (self.epoch, self.config.shards);
        self.tenants.table[number].adopt(terms, epoch, shards);
        self.tell_terms(now, BorrowerKey::Tenant(number));
        self.tenants.mark(number);
    }

    /// Returns true if a tenant has, or recently had, mail on this shard.
    #[must_use]
    pub fn knows_tenant(&self, name: &str) -> bool {
        self.tenants.names.contains_key(name)
    }

    /// The tenants that have, or had lately, mail on this shard.
    pub fn tenants(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.tenants.table.iter().map(|(_, tenant)| &tenant.name)
    }

    /// Parks a tenant at a ready queue until tokens arrive.
    pub(crate) fn park_tenant(&mut self, ready: u32, number: u32) {
        let queue = &mut self.ready[ready];
        if !queue.backlog.is_parked(number) {
            queue.backlog.park(number);
            self.tenants.table[number].parked.push_back(ready);
        }
        self.tenants.mark(number);
    }

    /// Tokens arrived.
    pub(crate) fn hasten_tenant(&mut self, number: u32) {
        if let Some(tenant) = self.tenants.table.get_mut(number) {
            tenant.tokens_came = true;
        }
        self.tenants.mark(number);
    }

    /// Services one of the changed tenants.
    pub(crate) fn service_dirty_tenant(&mut self, now: Mono) {
        if let Some(number) = self.tenants.dirty.pop_front() {
            self.service_tenant(now, number);
        }
    }

    /// Borrows missing tokens, resumes parked ready queues, and returns unneeded tokens.
    pub(crate) fn service_tenant(&mut self, now: Mono, number: u32) {
        let Some(tenant) = self.tenants.table.get_mut(number) else { return };
        tenant.dirty = false;
        for at in 0..tenant.borrows.len() {
            let tenant = &self.tenants.table[number];
            let lack = tenant.borrows[at].lack_of_tokens(tenant.waiting, self.config.shard);
            if lack > 0 {
                self.ask_for_tokens(now, number, at, lack);
            }
        }
        let mut next = self.unpark(now, number);
        next = next.min(self.give_back_tokens(now, number));
        self.tenant_timers.set(number, next);
        self.tidy_tenant(number);
    }

    fn ask_for_tokens(&mut self, now: Mono, number: u32, at: usize, tokens: u32) {
        let borrowed = &mut self.tenants.table[number].borrows[at];
        borrowed.share.tokens_asked = tokens;
        let terms = borrowed.terms;
        let op = LeaseOp::Ask { slots: 0, extra: 0, tokens, terms };
        self.send_to_owner(now, BorrowerKey::Tenant(number), at, op);
    }

    /// Resumes as many ready queues as tokens are available, all if none needs tokens. Returns the time of the next
    /// check.
    fn unpark(&mut self, now: Mono, number: u32) -> Mono {
        let tenant = &mut self.tenants.table[number];
        let may_go = std::mem::take(&mut tenant.tokens_came) || tenant.untaken_at <= now;
        let going = match tenant.waiting {
            0 => tenant.parked.len(),
            _ if may_go => tenant.parked.len().min(tenant.tokens() as usize),
            _ => 0,
        };
        let going: Vec<u32> = tenant.parked.drain(..going).collect();
        let are_left = !tenant.parked.is_empty() && tenant.tokens() > 0;
        tenant.untaken_at = match are_left {
            true if tenant.untaken_at > now => tenant.untaken_at.min(now + UNTAKEN_AFTER),
            true => now + UNTAKEN_AFTER,
            false => Mono::NEVER,
        };
        let next = tenant.untaken_at;
        for ready in going {
            if let Some(queue) = self.ready.get_mut(ready) {
                queue.backlog.unpark(number);
            }
            self.mark(ready);
        }
        next
    }

    /// Returns unused tokens to their owner. Returns the time of the next check.
    fn give_back_tokens(&mut self, now: Mono, number: u32) -> Mono {
        let mut next = Mono::NEVER;
        for at in 0..self.tenants.table[number].borrows.len() {
            let tenant = &mut self.tenants.table[number];
            let is_wanted = tenant.waiting > 0 && tenant.borrows[at].is_rated();
            let borrowed = &mut tenant.borrows[at];
            let at_once = borrowed.retired || borrowed.owner == self.config.shard;
            let patience = if at_once { Duration::ZERO } else { SPARE_AFTER };
            let share = &mut borrowed.share;
            let is_spare = !is_wanted && (share.tokens > 0 || share.tokens_asked > 0);
            let due = share.spare_until(now, is_spare, patience);
            if due > now {
                next = next.min(due);
                continue;
            }
            share.spare_since = None;
            let tokens = std::mem::take(&mut share.tokens);
            if std::mem::take(&mut share.tokens_asked) > 0 {
                self.ask_for_tokens(now, number, at, 0);
            }
            if tokens > 0 {
                let op = LeaseOp::Return { slots: 0, tokens };
                self.send_to_owner(now, BorrowerKey::Tenant(number), at, op);
            }
        }
        self.tenants.table[number].borrows.retain(|b| !b.retired || !b.share.is_home());
        next
    }

    /// Drops an unused tenant.
    fn tidy_tenant(&mut self, number: u32) {
        let tenant = &self.tenants.table[number];
        let is_home = tenant.borrows.iter().all(|b| b.share.is_home());
        if tenant.references > 0 || !tenant.parked.is_empty() || !is_home || tenant.dirty {
            return;
        }
        let name = Arc::clone(&tenant.name);
        self.tenant_timers.set(number, Mono::NEVER);
        self.tenants.names.remove(&name);
        self.tenants.table.remove(number);
    }
}
