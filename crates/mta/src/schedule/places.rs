//! Where mail goes by a route: hosts that were found, and the ready queues towards them, one for each
//! source.
//!
//! Several scheduled queues may ask the same, where tenants or campaigns write to one domain. What was found out
//! for one serves the others for as long as it would have served itself.

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

/// Answers kept at once on a shard; with more, all are forgotten: they save work, nothing else.
const KNOWN_MAX: usize = 4096;

/// The hosts of a next hop, and how long they are taken for granted.
#[derive(Debug)]
pub(super) struct ResolvedHosts {
    pub(super) hosts: Vec<HostGroup>,
    pub(super) tls: HopTls,
    pub(super) fresh_until: Mono,
    /// The domain by which they are shaped, if they are.
    pub(super) shaped: Option<Domain>,
    /// Whom reports about TLS to these hosts are for.
    pub(super) reported: Option<TlsDomain>,
}

impl ResolvedHosts {
    /// Of hosts that the file or a table names.
    pub(super) fn of_file(hosts: Vec<HostGroup>, tls: HopTls) -> ResolvedHosts {
        ResolvedHosts { hosts, tls, fresh_until: Mono::NEVER, shaped: None, reported: None }
    }

    /// Of hosts that the DNS named.
    pub(super) fn is_by_dns(&self) -> bool {
        self.fresh_until < Mono::NEVER
    }

    /// The limits of what is sent there.
    pub(super) fn paced(&self, config: &Config, route: &Route, source: Option<&Source>) -> Paced {
        let hosts = self.hosts.iter().flat_map(|group| &group.hosts).map(|host| &*host.name);
        match &self.shaped {
            Some(domain) => config.paced((route, source), domain, hosts),
            None => Paced::of_route(route.channel.limits()),
        }
    }
}

/// A ready queue towards hosts that were found.
#[derive(Debug)]
pub(super) struct SourcePath {
    /// `None`: whatever address the machine takes.
    pub(super) source: Option<Arc<Source>>,
    pub(super) weight: u32,
    pub(super) key: ReadyKey,
    pub(super) usual: Usual,
}

/// Hosts that were found, and the ready queues towards them, at least one.
#[derive(Debug)]
pub(super) struct ResolvedHops {
    pub(super) found: ResolvedHosts,
    pub(super) each: Vec<SourcePath>,
    /// Whose hosts they are.
    pub(super) provider: Option<Arc<str>>,
}

/// All that decides where mail goes while the configuration stays.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResolutionKey {
    domain: Domain,
    /// Its place in the file.
    route: usize,
    pool: Option<Arc<str>>,
    require_tls: RequireTls,
}

impl ResolutionKey {
    /// That of a scheduled queue; `None` where no other has the same.
    pub(super) fn of(
        key: &ScheduledKey,
        route: &Route,
        pool: Option<&Arc<Pool>>,
    ) -> Option<ResolutionKey> {
        let is_anybodys = key.tenant.is_empty() && key.campaign.is_empty() && key.window.is_empty();
        (!is_anybodys).then(|| ResolutionKey {
            domain: key.domain.clone(),
            route: route.index,
            pool: pool.map(|pool| Arc::clone(&pool.name)),
            require_tls: key.require_tls,
        })
    }
}

/// What is known to a shard of where mail goes, by the configuration in force.
#[derive(Debug, Default)]
pub(crate) struct KnownPlaces {
    config: RefCell<Option<Arc<Config>>>,
    places: RefCell<BTreeMap<ResolutionKey, Rc<ResolvedHops>>>,
}

impl KnownPlaces {
    /// What was found out by this configuration, if it still holds.
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

    /// Forgets what was found out of these domains.
    pub(super) fn forget(&self, domains: &BTreeSet<&Domain>) {
        self.places.borrow_mut().retain(|question, _| !domains.contains(&question.domain));
    }

    /// Keeps what was found out.
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
