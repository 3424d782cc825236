//! Resolved next hops of a route: hosts, and the ready queues for them, one per egress source.
//!
//! Several scheduled queues may have the same resolution, for example those of different tenants or campaigns for one
//! domain. A cached resolution serves each until it expires.

use super::shaped::Usual;
use super::tls_domains::TlsDomain;
use crate::routing::hop_tls::HopTls;
use crate::routing::hosts::HostGroup;
use config::shaping::Paced;
use config::{Config, Pool, Route, Source};
use mail::{Domain, Mono, RequireTls};
use queue::{ReadyKey, ScheduledKey};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of cached resolutions per shard. A full cache is cleared, which costs only repeated work.
const KNOWN_MAX: usize = 4096;

/// The hosts of a next hop, with their expiry.
#[derive(Debug)]
pub(super) struct ResolvedHosts {
    pub(super) hosts: Vec<HostGroup>,
    pub(super) tls: HopTls,
    pub(super) fresh_until: Mono,
    /// The domain for shaping rules, if they apply.
    pub(super) shaped: Option<Domain>,
    /// The domain for TLS reports about these hosts.
    pub(super) reported: Option<TlsDomain>,
}

impl ResolvedHosts {
    /// For hosts from the configuration or a table.
    pub(super) fn of_file(hosts: Vec<HostGroup>, tls: HopTls) -> ResolvedHosts {
        ResolvedHosts { hosts, tls, fresh_until: Mono::NEVER, shaped: None, reported: None }
    }

    /// Returns true if the hosts are from the DNS.
    pub(super) fn is_by_dns(&self) -> bool {
        self.fresh_until < Mono::NEVER
    }

    /// The limits for these hosts.
    pub(super) fn paced(&self, config: &Config, route: &Route, source: Option<&Source>) -> Paced {
        let hosts = self.hosts.iter().flat_map(|group| &group.hosts).map(|host| &*host.name);
        match &self.shaped {
            Some(domain) => config.paced((route, source), domain, hosts),
            None => Paced::of_route(route.channel.limits()),
        }
    }
}

/// A ready queue for resolved hosts.
#[derive(Debug)]
pub(super) struct SourcePath {
    /// `None` leaves the address to the system.
    pub(super) source: Option<Arc<Source>>,
    pub(super) weight: u32,
    pub(super) key: ReadyKey,
    pub(super) usual: Usual,
}

/// Resolved hosts with their ready queues, at least one.
#[derive(Debug)]
pub(super) struct ResolvedHops {
    pub(super) found: ResolvedHosts,
    pub(super) each: Vec<SourcePath>,
    /// The mailbox provider of the hosts.
    pub(super) provider: Option<Arc<str>>,
}

/// All facts that determine a resolution within one configuration.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResolutionKey {
    domain: Domain,
    /// Index in the configuration.
    route: usize,
    pool: Option<Arc<str>>,
    require_tls: RequireTls,
}

impl ResolutionKey {
    /// The key of a scheduled queue. `None` if no other queue can share it.
    pub(super) fn of(
        key: &ScheduledKey,
        route: &Route,
        pool: Option<&Arc<Pool>>,
    ) -> Option<ResolutionKey> {
        let is_anybodys = key.tenant.is_empty()
            && key.campaign.is_empty()
            && key.window.is_empty()
            && key.choice.is_empty();
        (!is_anybodys && !route.channel.has_logins_by_sender()).then(|| ResolutionKey {
            domain: key.domain.clone(),
            route: route.index,
            pool: pool.map(|pool| Arc::clone(&pool.name)),
            require_tls: key.require_tls,
        })
    }
}

/// Cache of resolutions on a shard, for the active configuration.
#[derive(Debug, Default)]
pub(crate) struct KnownPlaces {
    config: RefCell<Option<Arc<Config>>>,
    places: RefCell<BTreeMap<ResolutionKey, Rc<ResolvedHops>>>,
}

impl KnownPlaces {
    /// The cached resolution, if it belongs to this configuration and has not expired.
    pub(super) fn get(
        &self,
        now: Mono,
        config: &Arc<Config>,
        question: &ResolutionKey,
    ) -> Option<Rc<ResolvedHops>> {
        let known = self.config.borrow();
        known.as_ref().filter(|known| Arc::ptr_eq(known, config))?;
        let places = self.places.borrow();
        places.get(question).filter(|places| now < places.found.fresh_until).map(Rc::clone)
    }

    /// Forgets the resolutions of these domains.
    pub(super) fn forget(&self, domains: &BTreeSet<&Domain>) {
        self.places.borrow_mut().retain(|question, _| !domains.contains(&question.domain));
    }

    /// Caches a resolution.
    pub(super) fn keep(
        &self,
        now: Mono,
        config: &Arc<Config>,
        question: ResolutionKey,
        places: &Rc<ResolvedHops>,
    ) {
        let mut known = self.places.borrow_mut();
        let mut of = self.config.borrow_mut();
        if !of.as_ref().is_some_and(|of| Arc::ptr_eq(of, config)) {
            known.clear();
            *of = Some(Arc::clone(config));
        }
        if known.len() >= KNOWN_MAX {
            known.retain(|_, places| now < places.found.fresh_until);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(question, Rc::clone(places));
    }
}
