//! Queue usage of tenants, shared by all shards.

use crate::budget::Budget;
use config::{Tenant, Tenants};
use queue::{NamedLimit, TenantTerms};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of names below which none is removed.
const NAMES_KEPT: usize = 1_024;

/// Queued recipients by tenant.
#[derive(Debug, Default)]
pub(crate) struct TenantQueues(Mutex<Queued>);

#[derive(Debug, Default)]
struct Queued {
    by_name: BTreeMap<Arc<str>, Arc<Budget>>,
    /// Number of tenants left after the last removal of unused ones.
    left: usize,
}

impl Queued {
    /// Names are bounded by the amount of mail: unused ones are removed each time the number has doubled.
    fn tidy(&mut self) {
        if self.by_name.len() < NAMES_KEPT.max(self.left.saturating_mul(2)) {
            return;
        }
        self.by_name.retain(|_, budget| budget.used() > 0 || budget.is_shared());
        self.left = self.by_name.len();
    }
}

impl TenantQueues {
    /// A tenant's budget of queued recipients.
    pub(crate) fn queued(&self, name: &Arc<str>, max: u32) -> Arc<Budget> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = known.by_name.get(name) {
            budget.set_max(u64::from(max));
            return Arc::clone(budget);
        }
        known.tidy();
        let budget = Budget::new(u64::from(max));
        known.by_name.insert(Arc::clone(name), Arc::clone(&budget));
        budget
    }

    /// The limits of a tenant, with the counter for its queue entries.
    pub(crate) fn terms(&self, tenants: &Tenants, name: &Arc<str>) -> TenantTerms {
        let Some(tenant) = tenants.named(name) else { return TenantTerms::default() };
        let queued = self.queued(name, tenant.queued_max.unwrap_or(u32::MAX)).counter();
        TenantTerms { weight: tenant.weight, rates: rates(name, tenant), queued }
    }
}

fn rates(name: &str, tenant: &Tenant) -> Vec<NamedLimit> {
    let limit = |rate: &config::shaping::Rate| NamedLimit {
        name: format!("tenant {name} at {rate}").into(),
        connections_max: 0,
        messages_per_second: rate.per_second(),
    };
    tenant.rates.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_mail_are_forgotten_and_others_never() {
        let queues = TenantQueues::default();
        let name = |n: usize| -> Arc<str> { format!("t{n}").into() };
        let busy = queues.queued(&name(0), 7);
        busy.take(3);
        let counted = queues.queued(&name(1), 7).counter();
        for n in 2..10 * NAMES_KEPT {
            let _ = queues.queued(&name(n), 7);
            assert!(queues.0.lock().unwrap().by_name.len() <= NAMES_KEPT);
        }
        drop(busy);
        assert_eq!(queues.queued(&name(0), 9).used(), 3, "its mail is still there");
        assert_eq!(queues.queued(&name(0), 9).max(), 9, "a reload reaches it");
        counted.store(5, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(queues.queued(&name(1), 7).used(), 5, "a queue counts it");
    }
}
