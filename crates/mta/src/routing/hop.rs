//! Where a ready queue's messages go.

use super::hop_tls::HopTls;
use super::hosts::{HostGroup, HostStates};
use crate::encryption::Encryption;
use crate::event::Hop;
use config::{Destination, Route, Settings, Source};
use mail::{Domain, Mono};
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// Where a ready queue's messages go, and how.
#[derive(Debug)]
pub struct NextHop {
    /// The route it comes from, as events name it.
    pub route: Arc<str>,
    /// How to deliver: what the channel was told.
    pub channel: Arc<dyn Settings>,
    /// For smtp, lmtp and mx: hosts in the order in which they are tried, groups of equal
    /// preference together.
    pub hosts: Vec<HostGroup>,
    /// What is known about them.
    pub states: HostStates,
    /// What others than the file say of TLS to them.
    pub tls: HopTls,
    /// Whose hosts they are, where shaping knows that.
    pub provider: Option<Arc<str>>,
    /// What its mail is sent from; `None`: whatever address the machine takes.
    pub source: Option<Arc<Source>>,
    /// What we call ourselves there.
    pub hostname: Domain,
    /// The configuration says something else by now.
    pub superseded: Cell<bool>,
    /// When an operator had its mail tried last: troubles that were learnt before are doubted.
    pub retried_at: Cell<Mono>,
    memory: OnceCell<Box<dyn Any>>,
}

impl NextHop {
    /// Where `route` leads: to these hosts, if it leads to any, with `tls`. We call ourselves
    /// `hostname` there.
    #[must_use]
    pub fn new(route: &Route, hosts: Vec<HostGroup>, tls: HopTls, hostname: Domain) -> NextHop {
        NextHop {
            route: Arc::clone(&route.name),
            channel: Arc::clone(&route.channel),
            hosts,
            states: HostStates::default(),
            tls,
            provider: None,
            source: None,
            hostname,
            superseded: Cell::new(false),
            retried_at: Cell::new(Mono(0)),
            memory: OnceCell::new(),
        }
    }

    /// The same, whose hosts are this provider's.
    #[must_use]
    pub fn of_provider(self, provider: Option<Arc<str>>) -> NextHop {
        NextHop { provider, ..self }
    }

    /// The same, to which mail is sent from `source`.
    #[must_use]
    pub fn from_source(self, source: Option<Arc<Source>>) -> NextHop {
        let name = source.as_ref().and_then(|source| source.ehlo.clone());
        NextHop { hostname: name.unwrap_or(self.hostname), source, ..self }
    }

    /// What the channel remembers of this hop, for as long as the hop is known. There is one
    /// memory, of the type that is asked for first.
    ///
    /// # Panics
    /// When it is asked for by another type: a hop has one channel.
    #[must_use]
    pub fn memory<T: Default + 'static>(&self) -> &T {
        let memory = self.memory.get_or_init(|| Box::new(T::default()));
        match memory.downcast_ref() {
            Some(memory) => memory,
            None => unreachable!("the memory of a hop is of another type"),
        }
    }

    /// Whether a connection to one is as good as a connection to the other.
    pub fn is_like(&self, other: &NextHop) -> bool {
        self.route == other.route
            && *self.channel == *other.channel
            && self.hosts == other.hosts
            && self.tls == other.tls
            && self.provider == other.provider
            && self.source == other.source
            && self.hostname == other.hostname
    }

    /// Whether the DNS named its hosts.
    pub fn is_by_mx(&self) -> bool {
        matches!(self.channel.destination(), Destination::Mx { .. })
    }

    /// How many hosts there are.
    pub fn hosts_count(&self) -> usize {
        self.hosts.iter().map(|group| group.hosts.len()).sum()
    }

    /// The channel's name as events and `explain` show it.
    pub fn channel_name(&self) -> &'static str {
        self.channel.key()
    }

    /// What events call this hop, with `peer` at its other end, and how the connection to that is
    /// encrypted, by which policy.
    pub fn event_hop(
        &self,
        peer: &str,
        tls: Option<Encryption>,
        tls_policy: Option<&'static str>,
    ) -> Arc<Hop> {
        Arc::new(Hop {
            route: Arc::clone(&self.route),
            channel: self.channel_name(),
            provider: self.provider.clone(),
            source: self.source.as_ref().map(|source| Arc::clone(&source.name)),
            peer: Arc::from(peer),
            tls,
            tls_policy,
        })
    }
}
