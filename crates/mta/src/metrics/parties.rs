//! Delivery outcomes per provider, source and tenant.

use super::{Counter, Description, Metric, MetricSet, Value, WarmupMetrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of counted parties of one kind; the rest is counted as [`OTHERS`].
const NAMES_MAX: usize = 10_000;
/// Maximum number of exported parties: those with the most mail.
const SHOWN_MAX: usize = 1_000;
/// The name for all parties beyond [`NAMES_MAX`].
const OTHERS: &str = "(others)";

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Sent,
    Deferred,
    Failed,
}

/// The parties of some mail, as far as known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartyLabels<'a> {
    pub(crate) provider: Option<&'a str>,
    pub(crate) source: Option<&'a str>,
    pub(crate) tenant: Option<&'a str>,
}

/// Parties with their names.
pub type NamedParties = Vec<(Arc<str>, Arc<PartyMetrics>)>;

/// Sources with a warm-up, with their names.
pub type NamedWarmups = Vec<(Arc<str>, Arc<WarmupMetrics>)>;

/// Recipients of one party.
#[derive(Debug)]
pub struct PartyMetrics {
    /// Descriptions in the order of [`AttemptOutcome`].
    descriptions: &'static [Description<'static>; 3],
    counters: [Counter; 3],
}

impl PartyMetrics {
    fn total(&self) -> u64 {
        self.counters.iter().map(Counter::get).sum()
    }
}

impl MetricSet for PartyMetrics {
    fn each(&self, show: &mut dyn FnMut(&Description<'_>, Value)) {
        for (description, counter) in self.descriptions.iter().zip(&self.counters) {
            show(description, counter.read());
        }
    }
}

const fn description(name: &'static str, help: &'static str) -> Description<'static> {
    Description { name, labels: &[], help }
}

static OF_PROVIDERS: [Description<'static>; 3] = [
    description("provider_sent", "Recipients accepted by a provider of the shaping files."),
    description("provider_deferred", "Attempts deferred by a provider, per recipient."),
    description("provider_failed", "Recipients failed at a provider."),
];
static OF_SOURCES: [Description<'static>; 3] = [
    description("source_sent", "Recipients delivered from an egress source of a pool."),
    description(
        "source_deferred",
        "Delivery attempts from an egress source that were deferred, per recipient.",
    ),
    description("source_failed", "Recipients failed at a delivery attempt from an egress source."),
];
static OF_TENANTS: [Description<'static>; 3] = [
    description(
        "tenant_sent",
        "Recipients of a tenant's mail that were relayed or delivered; the 1,000 tenants with the \
         most mail are shown.",
    ),
    description(
        "tenant_deferred",
        "Attempts for a tenant's mail that were deferred, per recipient.",
    ),
    description("tenant_failed", "Recipients of a tenant's mail that failed."),
];

/// Parties of one kind, by name.
#[derive(Debug)]
struct PartyCounters {
    descriptions: &'static [Description<'static>; 3],
    known: Mutex<BTreeMap<Arc<str>, Arc<PartyMetrics>>>,
}

impl PartyCounters {
    fn new(descriptions: &'static [Description<'static>; 3]) -> PartyCounters {
        PartyCounters { descriptions, known: Mutex::default() }
    }

    fn note(&self, name: &str, came: AttemptOutcome, recipients: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(party) = known.get(name) {
            return party.counters[came as usize].add(recipients);
        }
        let name = if known.len() < NAMES_MAX { name } else { OTHERS };
        let party = known.entry(Arc::from(name)).or_insert_with(|| {
            let counters = Default::default();
            Arc::new(PartyMetrics { descriptions: self.descriptions, counters })
        });
        party.counters[came as usize].add(recipients);
    }

    fn shown(&self) -> NamedParties {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.iter().map(|(n, m)| (Arc::clone(n), Arc::clone(m))).collect();
        drop(known);
        all.sort_by_key(|(_, party)| std::cmp::Reverse(party.total()));
        all.truncate(SHOWN_MAX);
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

/// Delivery outcomes by party, over all shards. Mail without parties costs nothing.
#[derive(Debug)]
pub struct SendingMetrics {
    providers: PartyCounters,
    sources: PartyCounters,
    tenants: PartyCounters,
    warmups: Mutex<BTreeMap<Arc<str>, Arc<WarmupMetrics>>>,
}

impl Default for SendingMetrics {
    fn default() -> SendingMetrics {
        SendingMetrics {
            providers: PartyCounters::new(&OF_PROVIDERS),
            sources: PartyCounters::new(&OF_SOURCES),
            tenants: PartyCounters::new(&OF_TENANTS),
            warmups: Mutex::default(),
        }
    }
}

impl SendingMetrics {
    /// Counts the outcome of recipients.
    pub(crate) fn note(&self, concerned: PartyLabels<'_>, came: AttemptOutcome, recipients: u64) {
        let PartyLabels { provider, source, tenant } = concerned;
        let named = [(&self.providers, provider), (&self.sources, source), (&self.tenants, tenant)];
        for (parties, name) in named {
            if let Some(name) = name {
                parties.note(name, came, recipients);
            }
        }
    }

    /// The label of each kind of party, and the parties with the most mail, by name.
    #[must_use]
    pub fn shown(&self) -> [(&'static str, NamedParties); 3] {
        [
            ("provider", self.providers.shown()),
            ("source", self.sources.shown()),
            ("tenant", self.tenants.shown()),
        ]
    }

    /// The metrics of a source with a warm-up.
    #[must_use]
    pub fn warmup(&self, source: &Arc<str>) -> Arc<WarmupMetrics> {
        let mut known = self.warmups.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match known.len() < NAMES_MAX || known.contains_key(source) {
            true => Arc::clone(source),
            false => Arc::from(OTHERS),
        };
        Arc::clone(known.entry(name).or_default())
    }

    /// All sources with a warm-up since the start, by name.
    #[must_use]
    pub fn warmups(&self) -> NamedWarmups {
        let known = self.warmups.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(name, metrics)| (Arc::clone(name), Arc::clone(metrics))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tenant: &str) -> PartyLabels<'_> {
        PartyLabels { tenant: Some(tenant), ..PartyLabels::default() }
    }

    #[test]
    fn the_busiest_are_shown_and_names_are_bounded() {
        let metrics = SendingMetrics::default();
        for n in 0..=NAMES_MAX {
            metrics.note(of(&format!("t{n}")), AttemptOutcome::Sent, 1);
        }
        metrics.note(of("t7"), AttemptOutcome::Failed, 5);
        metrics.note(of("one more"), AttemptOutcome::Deferred, 9);
        metrics.note(PartyLabels::default(), AttemptOutcome::Sent, 9);
        let [(_, providers), (_, sources), (label, tenants)] = metrics.shown();
        assert!(providers.is_empty() && sources.is_empty());
        assert_eq!((label, tenants.len()), ("tenant", SHOWN_MAX));
        let total = |name: &str| tenants.iter().find(|(n, _)| **n == *name).map(|(_, m)| m.total());
        assert_eq!((total("t7"), total(OTHERS), total("one more")), (Some(6), Some(10), None));
        assert_eq!(metrics.tenants.known.lock().unwrap().len(), NAMES_MAX + 1);
    }
}
