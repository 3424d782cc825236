//! What all shards know of tenants: how much of each is queued.

use crate::budget::Budget;
use config::{Tenant, Tenants};
use queue::{NamedLimit, TenantTerms};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What tenants have queued.
#[derive(Debug, Default)]
pub(crate) struct TenantQueues(Mutex<BTreeMap<Arc<str>, Arc<Budget>>>);

impl TenantQueues {
    /// The recipients that a tenant has queued, and may have.
    pub(crate) fn queued(&self, name: &Arc<str>, max: u32) -> Arc<Budget> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = known.get(name) {
            budget.set_max(u64::from(max));
            return Arc::clone(budget);
        }
        // Names may be as many as their mail is; those without any are forgotten.
        known.retain(|_, budget| budget.used() > 0 || budget.is_shared());
        let budget = Budget::new(u64::from(max));
        known.insert(Arc::clone(name), Arc::clone(&budget));
        budget
    }

    /// What a tenant may have, for a queue that counts its entries here.
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
