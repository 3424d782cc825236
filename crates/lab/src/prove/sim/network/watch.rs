//! What may be open towards a set of addresses, and whether it was more.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Hosts that the DNS named together. (Each has one name and one address.)
pub type HostSet = BTreeSet<IpAddr>;

/// A limit on connections towards a set of addresses.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) addresses: Vec<SocketAddr>,
    /// Of the connections that come from there only; `None`: of all.
    pub(super) from: Option<IpAddr>,
    /// Of one ready queue.
    pub(super) max: u32,
    /// Until then this limit holds: what was being opened when it was lowered is opened.
    pub(super) before: (u64, u32),
    /// From when on and until when no more than so many are opened, whatever else is allowed.
    pub(super) cap: Option<((u64, u64), u32)>,
    /// Ready queues that use these addresses.
    pub(super) queues: Queues,
    /// Routes that have gone elsewhere: since when, and for which domains they are.
    pub(super) left: Vec<(u64, Vec<String>)>,
    pub(super) open: u32,
    /// The first time that there were too many: how many, and how many were allowed.
    pub(super) exceeded: Option<(u32, u32)>,
}

/// How many ready queues there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// The configuration names the hosts.
    One,
    /// The DNS names them; so many sets until now.
    Named(u32),
}

impl Watch {
    /// Whether a connection from `from` to `to` counts.
    pub(super) fn counts(&self, from: IpAddr, to: &SocketAddr) -> bool {
        self.addresses.contains(to) && self.from.is_none_or(|own| own == from)
    }

    /// From now on `max` holds, and until `grace_us` later what was allowed before, and `more` besides.
    pub(super) fn limit(&mut self, now_us: u64, max: u32, more: u32, grace_us: u64) {
        let before = self.allowed_each(now_us);
        self.before = (now_us + grace_us, before.saturating_add(more).max(max));
        self.max = max;
    }

    /// What one ready queue may have.
    pub(super) fn allowed_each(&self, now_us: u64) -> u32 {
        let (until_us, before) = self.before;
        if now_us < until_us { self.max.max(before) } else { self.max }
    }

    /// What all of them together may have.
    pub(super) fn allowed(&self, now_us: u64) -> u32 {
        let queues = match self.queues {
            Queues::One => 1,
            Queues::Named(count) => count,
        };
        let allowed = queues * self.allowed_each(now_us);
        match self.cap {
            Some(((from_us, until_us), max)) if (from_us..until_us).contains(&now_us) => {
                allowed.min(max)
            }
            _ => allowed,
        }
    }
}
