//! Tenants, the owners of mail. They share contended next hops by weight, and each has its own rates across all next
//! hops.
//!
//! A tenant borrows tokens of its rates as a ready queue borrows from its limits, with one share per shard. A ready
//! queue that selects a tenant without tokens parks it there. As many ready queues resume as tokens arrive, in the
//! order of parking.

use crate::NamedLimit;
use crate::named_limit::{self, Borrows};
use mail::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Weight and rates of a tenant.
#[derive(Clone, Debug)]
pub struct TenantTerms {
    /// Its weight at a contended next hop; at least 1.
    pub weight: u32,
    /// Rates of this tenant alone; connections are ignored.
    pub rates: Vec<NamedLimit>,
    /// Number of its queued recipients on all shards; updated here.
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
    /// Number of scheduled queues for its mail.
    pub(crate) references: u32,
    /// Its entries in any state.
    entries: u32,
    /// Its entries in ready queues.
    pub(crate) waiting: u32,
    /// Ready queues in which its entries are parked.
    pub(crate) parked: VecDeque<u32>,
    /// Tokens arrived since the last check: parked ready queues may resume.
    pub(crate) tokens_came: bool,
    /// Time at which unused tokens pass to other parked ready queues.
    pub(crate) untaken_at: Mono,
    /// In the list of tenants to service.
    pub(crate) dirty: bool,
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

    /// Messages that its rates allow now.
    pub(crate) fn tokens(&self) -> u32 {
        let rated = self.borrows.iter().filter(|b| b.is_rated());
        rated.map(|b| b.share.tokens).min().unwrap_or(u32::MAX)
    }

    /// The rate that is used up now.
    pub(crate) fn used_up(&self) -> Option<&crate::named_limit::Borrowed> {
        self.borrows.iter().find(|b| b.is_rated() && b.share.tokens == 0)
    }

    pub(crate) fn adopt(&mut self, terms: TenantTerms, epoch: u32, shards: u16) {
        if !Arc::ptr_eq(&self.terms.queued, &terms.queued) {
            let entries = u64::from(self.entries);
            self.terms.queued.fetch_sub(entries, Ordering::Relaxed);
            terms.queued.fetch_add(entries, Ordering::Relaxed);
        }
        named_limit::adopt(&mut self.borrows, &terms.rates, epoch, shards);
        self.terms = terms;
    }
}

/// All tenants of a shard.
#[derive(Default)]
pub(crate) struct Tenants {
    pub(crate) table: crate::slab::Table<Tenant>,
    pub(crate) names: BTreeMap<Arc<str>, u32>,
    /// Tenants to service.
    pub(crate) dirty: VecDeque<u32>,
}

impl Tenants {
    pub(crate) fn is_any_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(crate) fn mark(&mut self, number: u32) {
        if let Some(tenant) = self.table.get_mut(number)
            && !tenant.dirty
        {
            tenant.dirty = true;
            self.dirty.push_back(number);
        }
    }

    /// Returns a tenant's number for a new scheduled queue.
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

    /// An entry enters a ready queue; its tenant pays for it.
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

    /// Charges a message to a tenant: takes a token of each of its rates.
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

    /// Returns true if a tenant may send a message now.
    pub(crate) fn may_send(&self, number: u32) -> bool {
        let tenant = &self.table[number];
        tenant.borrows.is_empty() || tenant.tokens() > 0
    }
}
