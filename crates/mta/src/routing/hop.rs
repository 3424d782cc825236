//! The next hop of a ready queue.

use super::hop_tls::HopTls;
use super::hosts::{HostGroup, HostStates};
use crate::encryption::Encryption;
use crate::event::Hop;
use config::{Destination, Route, Settings, Source};
use mail::{Domain, Mono};
use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// A next hop: route, channel, hosts and TLS policy.
#[derive(Debug)]
pub struct NextHop {
    /// The route's name, for events.
    pub route: Arc<str>,
    /// The channel and its settings.
    pub channel: Arc<dyn Settings>,
    /// Names of the classes of replies that are never final.
    pub defer_classes: Arc<[Box<str>]>,
    /// For smtp, lmtp and mx: hosts in order of preference, grouped by equal preference.
    pub hosts: Vec<HostGroup>,
    /// State of the hosts.
    pub states: HostStates,
    /// TLS requirements from DNSSEC and MTA-STS.
    pub tls: HopTls,
    /// The mailbox provider of the hosts, if shaping knows it.
    pub provider: Option<Arc<str>>,
    /// The egress source. `None` leaves the address to the system.
    pub source: Option<Arc<Source>>,
    /// The sender of its mail, where the login depends on it; empty for the null sender.
    pub sender: Option<Arc<str>>,
    /// Another route is used while no connection can be opened.
    pub has_fallback: bool,
    /// The EHLO name.
    pub hostname: Domain,
    /// The configuration has changed since.
    pub superseded: Cell<bool>,
    /// Time of an operator's last retry command. Failures observed before it are checked again.
    pub retried_at: Cell<Mono>,
    memory: OnceCell<Box<dyn Any>>,
}

impl NextHop {
    /// The next hop of `route` with these hosts, if it has any. `hostname` is our EHLO name.
    #[must_use]
    pub fn new(route: &Route, hosts: Vec<HostGroup>, tls: HopTls, hostname: Domain) -> NextHop {
        NextHop {
            route: Arc::clone(&route.name),
            channel: Arc::clone(&route.channel),
            defer_classes: Arc::clone(&route.defer_classes),
            hosts,
            states: HostStates::default(),
            tls,
            provider: None,
            source: None,
            sender: None,
            has_fallback: false,
            hostname,
            superseded: Cell::new(false),
            retried_at: Cell::new(Mono(0)),
            memory: OnceCell::new(),
        }
    }

    /// Sets the mailbox provider.
    #[must_use]
    pub fn of_provider(self, provider: Option<Arc<str>>) -> NextHop {
        NextHop { provider, ..self }
    }

    /// Sets the egress source, and the EHLO name that belongs to it.
    #[must_use]
    pub fn from_source(self, source: Option<Arc<Source>>) -> NextHop {
        let name = source.as_ref().and_then(|source| source.ehlo.clone());
        NextHop { hostname: name.unwrap_or(self.hostname), source, ..self }
    }

    /// Sets the only sender of its mail.
    #[must_use]
    pub fn of_sender(self, sender: Option<Arc<str>>) -> NextHop {
        NextHop { sender, ..self }
    }

    /// Sets if another route takes its mail while no connection can be opened.
    #[must_use]
    pub fn with_fallback(self, has_fallback: bool) -> NextHop {
        NextHop { has_fallback, ..self }
    }

    /// The channel's state for this hop, created on first use and kept for the life of the hop.
    ///
    /// # Panics
    /// If called with two different types, because a hop has one channel.
    #[must_use]
    pub fn memory<T: Default + 'static>(&self) -> &T {
        let memory = self.memory.get_or_init(|| Box::new(T::default()));
        match memory.downcast_ref() {
            Some(memory) => memory,
            None => unreachable!("the memory of a hop is of another type"),
        }
    }

    /// Returns true if connections of the two hops are interchangeable.
    pub fn is_like(&self, other: &NextHop) -> bool {
        // A new field of a route is part of the comparison, or named as state.
        let NextHop {
            route,
            channel,
            defer_classes,
            hosts,
            states: _,
            tls,
            provider,
            source,
            sender,
            has_fallback,
            hostname,
            superseded: _,
            retried_at: _,
            memory: _,
        } = self;
        *route == other.route
            && **channel == *other.channel
            && *defer_classes == other.defer_classes
            && *hosts == other.hosts
            && *tls == other.tls
            && *provider == other.provider
            && *source == other.source
            && *sender == other.sender
            && *has_fallback == other.has_fallback
            && *hostname == other.hostname
    }

    /// Returns true if the hosts are from MX records.
    pub fn is_by_mx(&self) -> bool {
        matches!(self.channel.destination(), Destination::Mx { .. })
    }

    /// Number of hosts.
    pub fn hosts_count(&self) -> usize {
        self.hosts.iter().map(|group| group.hosts.len()).sum()
    }

    /// The channel's name in events and `explain`.
    pub fn channel_name(&self) -> &'static str {
        self.channel.key()
    }

    /// The hop for events, with the `peer` and the encryption of the connection.
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
