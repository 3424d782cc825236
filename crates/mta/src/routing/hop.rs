//! Where a ready queue's messages go.

use super::hosts::{HostGroup, HostStates};
use super::lessons::Lessons;
use crate::config::Channel;
use crate::event::Hop;
use mail::Domain;
use std::cell::Cell;
use std::sync::Arc;

/// Where a ready queue's messages go, and how.
#[derive(Debug)]
pub(crate) struct NextHop {
    /// The route it comes from, as events name it.
    pub(crate) route: Arc<str>,
    /// How to deliver.
    pub(crate) channel: Channel,
    /// For smtp, lmtp and mx: hosts in the order in which they are tried, groups of equal
    /// preference together.
    pub(crate) hosts: Vec<HostGroup>,
    /// What is known about them.
    pub(crate) states: HostStates,
    /// What we call ourselves there.
    pub(crate) hostname: Domain,
    /// The configuration says something else by now.
    pub(crate) superseded: Cell<bool>,
    /// What its hosts' replies have taught.
    pub(crate) lessons: Lessons,
}

impl NextHop {
    /// Whether a connection to one is as good as a connection to the other.
    pub(crate) fn is_like(&self, other: &NextHop) -> bool {
        self.route == other.route
            && self.channel == other.channel
            && self.hosts == other.hosts
            && self.hostname == other.hostname
    }

    /// Whether there is more than one host.
    pub(crate) fn has_other_hosts(&self) -> bool {
        self.hosts.iter().map(|group| group.hosts.len()).sum::<usize>() > 1
    }

    /// The channel's name as events and `explain` show it.
    pub(crate) fn channel_name(&self) -> &'static str {
        self.channel.name()
    }

    /// What events call this hop, with `peer` at its other end.
    pub(crate) fn event_hop(&self, peer: &str) -> Arc<Hop> {
        Arc::new(Hop {
            route: Arc::clone(&self.route),
            channel: self.channel_name(),
            peer: Arc::from(peer),
        })
    }
}
