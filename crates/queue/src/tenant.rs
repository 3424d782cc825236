//! Tenants: whose mail it is. They share contended next hops by weight, and each has rates of its own,
//! wherever its mail goes.
//!
//! A tenant borrows tokens of its rates as a ready queue does of its limits, one share for each shard. A
//! ready queue whose turn comes to a tenant without tokens parks it there; tokens that come let as many ready
//! queues go on, the one that was parked first before others.

use crate::lease::{LeaseOp, Place, SPARE_AFTER};
use crate::limits::Rate;
use crate::named_limit::{self, Borrows};
use crate::queue::Queue;
use crate::{NamedLimit, lease::Share};
use mail::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Tokens that nobody takes, while others are parked, are left for so long to whom they were meant for.
const UNTAKEN_AFTER: Duration = Duration::from_millis(100);

/// What a tenant may have.
#[derive(Clone, Debug)]
pub struct TenantTerms {
    /// Its part of a next hop that others use too, beside theirs; at least 1.
    pub weight: u32,
    /// Rates that it shares with nobody; connections are not looked at.
    pub rates: Vec<NamedLimit>,
    /// Its recipients that are queued, on all shards; counted here.
    pub queued: Arc<AtomicU64>,
}

impl Default for TenantTerms {
    fn default() -> TenantTerms {
        TenantTerms { weight: 1, rates: Vec::new(), queued: Arc::default() }
    }
}

/// A tenant on one shard.
pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    terms: TenantTerms,
    pub(crate) borrows: Borrows,
    /// Scheduled queues of its mail.
    references: u32,
    /// Its entries in any state.
    entries: u32,
    /// Its entries in ready queues.
    waiting: u32,
    /// Ready queues in which it is parked.
    parked: VecDeque<u32>,
    /// Tokens came since the last look: who is parked may go on.
    tokens_came: bool,
    /// When tokens that nobody has taken go to others that are parked.
    untaken_at: Mono,
    /// In the list of those to be looked at.
    dirty: bool,
}

impl Tenant {
    fn new(name: &Arc<str>) -> Tenant {
        Tenant {
            name: Arc::clone(name),
            terms: TenantTerms::default(),
            borrows: Borrows::new(),
            references: 0,
            entries: 0,
            waiting: 0,
            parked: VecDeque::new(),
            tokens_came: false,
            untaken_at: Mono::NEVER,
            dirty: false,
        }
    }

    pub(crate) fn weight(&self) -> u32 {
        self.terms.weight.max(1)
    }

    /// Messages that its rates let go now.
    fn tokens(&self) -> u32 {
        let rated = self.borrows.iter().filter(|b| b.is_rated());
        rated.map(|b| b.share.tokens).min().unwrap_or(u32::MAX)
    }

    /// The rate that lets nothing go now.
    pub(crate) fn used_up(&self) -> Option<&crate::named_limit::Borrowed> {
        self.borrows.iter().find(|b| b.is_rated() && b.share.tokens == 0)
    }

    fn adopt(&mut self, terms: TenantTerms, epoch: u32, shards: u16) {
        if !Arc::ptr_eq(&self.terms.queued, &terms.queued) {
            let entries = u64::from(self.entries);
            self.terms.queued.fetch_sub(entries, Ordering::Relaxed);
            terms.queued.fetch_add(entries, Ordering::Relaxed);
        }
        named_limit::adopt(&mut self.borrows, &terms.rates, epoch, shards);
        self.terms = terms;
    }

    /// Tokens that it could use besides those that it has, at the rate at place `at`.
    fn lack(&self, at: usize) -> u32 {
        let borrowed = &self.borrows[at];
        let rate = Rate::new(borrowed.terms.messages_per_second).filter(|_| borrowed.is_rated());
        let Some(rate) = rate else { return 0 };
        let (Share { tokens, tokens_asked, .. }, batch) = (&borrowed.share, rate.batch());
        if *tokens >= batch.div_ceil(2) || *tokens_asked > 0 {
            return 0;
        }
        self.waiting.min(batch).saturating_sub(*tokens)
    }
}

/// The tenants of one shard.
#[derive(Default)]
pub(crate) struct Tenants {
    pub(crate) table: crate::table::Table<Tenant>,
    names: BTreeMap<Arc<str>, u32>,
    /// Those to be looked at.
    dirty: VecDeque<u32>,
}

impl Tenants {
    pub(crate) fn is_any_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    fn mark(&mut self, number: u32) {
        if let Some(tenant) = self.table.get_mut(number)
            && !tenant.dirty
        {
            tenant.dirty = true;
            self.dirty.push_back(number);
        }
    }

    /// The number of the tenant of a new scheduled queue.
    pub(crate) fn refer(&mut self, name: &Arc<str>) -> u32 {
        let number = match self.names.get(name) {
            Some(number) => *number,
            None => {
                let number = self.table.insert(Tenant::new(name));
                self.names.insert(Arc::clone(name), number);
                number
            }
        };
        self.table[number].references += 1;
        number
    }

    /// A scheduled queue of a tenant is dropped.
    pub(crate) fn drop_reference(&mut self, number: u32) {
        let Some(tenant) = self.table.get_mut(number) else { return };
        tenant.references -= 1;
        self.mark(number);
    }

    pub(crate) fn count_in(&mut self, number: u32) {
        let tenant = &mut self.table[number];
        tenant.entries += 1;
        tenant.terms.queued.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_out(&mut self, number: u32) {
        let tenant = &mut self.table[number];
        tenant.entries -= 1;
        tenant.terms.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// An entry comes to a ready queue; its tenant has to pay for it.
    pub(crate) fn arrive(&mut self, number: u32) {
        self.table[number].waiting += 1;
    }

    /// An entry has left a ready queue.
    pub(crate) fn depart(&mut self, number: u32) {
        let tenant = &mut self.table[number];
        tenant.waiting -= 1;
        if tenant.waiting == 0 && !tenant.borrows.is_empty() {
            self.mark(number);
        }
    }

    /// A message of a tenant goes: it takes a token of each of its rates.
    pub(crate) fn spend(&mut self, number: u32) {
        let tenant = &mut self.table[number];
        if tenant.borrows.is_empty() {
            return;
        }
        for borrowed in tenant.borrows.iter_mut().filter(|b| b.is_rated()) {
            borrowed.share.tokens = borrowed.share.tokens.saturating_sub(1);
        }
        self.mark(number);
    }

    /// Whether a tenant may send a message now.
    pub(crate) fn may_send(&self, number: u32) -> bool {
        let tenant = &self.table[number];
        tenant.borrows.is_empty() || tenant.tokens() > 0
    }
}

impl Queue {
    /// What a tenant may have from now on; no more than others where nothing is said.
    pub fn set_tenant(&mut self, now: Mono, name: &Arc<str>, terms: TenantTerms) {
        let Some(&number) = self.tenants.names.get(name) else { return };
        let (epoch, shards) = (self.epoch, self.config.shards);
        self.tenants.table[number].adopt(terms, epoch, shards);
        self.tell_terms(now, Place::Tenant(number));
        self.tenants.mark(number);
    }

    /// Whether a tenant has, or had lately, mail on this shard.
    #[must_use]
    pub fn knows_tenant(&self, name: &str) -> bool {
        self.tenants.names.contains_key(name)
    }

    /// The tenants that have, or had lately, mail on this shard.
    pub fn tenants(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.tenants.table.iter().map(|(_, tenant)| &tenant.name)
    }

    /// A tenant may not send from a ready queue until tokens come.
    pub(crate) fn park_tenant(&mut self, ready: u32, number: u32) {
        let queue = &mut self.ready[ready];
        if !queue.backlog.is_parked(number) {
            queue.backlog.park(number);
            self.tenants.table[number].parked.push_back(ready);
        }
        self.tenants.mark(number);
    }

    /// Tokens came.
    pub(crate) fn hasten_tenant(&mut self, number: u32) {
        if let Some(tenant) = self.tenants.table.get_mut(number) {
            tenant.tokens_came = true;
        }
        self.tenants.mark(number);
    }

    /// Looks at one of the tenants of which something has changed.
    pub(crate) fn service_dirty_tenant(&mut self, now: Mono) {
        if let Some(number) = self.tenants.dirty.pop_front() {
            self.service_tenant(now, number);
        }
    }

    /// Borrows what a tenant lacks, lets go on who may, and gives back what nobody needs.
    pub(crate) fn service_tenant(&mut self, now: Mono, number: u32) {
        let Some(tenant) = self.tenants.table.get_mut(number) else { return };
        tenant.dirty = false;
        for at in 0..tenant.borrows.len() {
            let lack = self.tenants.table[number].lack(at);
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
        self.send_to_owner(now, Place::Tenant(number), at, op);
    }

    /// As many ready queues go on as there are tokens, all when nothing waits. Says when to look again.
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

    /// Tokens that lie unused go back. Says when to look again.
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
                self.send_to_owner(now, Place::Tenant(number), at, op);
            }
        }
        self.tenants.table[number].borrows.retain(|b| !b.retired || !b.share.is_home());
        next
    }

    /// Drops a tenant of which nothing is left.
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
