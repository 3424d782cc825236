//! A ready queue: what may go to one next hop now, and the connections that carry it.

use crate::ReadyKey;
use crate::backlog::Backlog;
use crate::lease::{Pool, Share, Terms};
use crate::limits::{Gate, ReadyLimits, Window};
use mail::Mono;

/// One ready queue.
pub(crate) struct Ready {
    pub(crate) key: ReadyKey,
    pub(crate) limits: ReadyLimits,
    pub(crate) terms: Terms,
    /// The shard that lends the limits.
    pub(crate) owner: u16,
    /// Scheduled queues whose answer names this one.
    pub(crate) references: u32,
    pub(crate) backlog: Backlog,
    /// Connections being opened.
    pub(crate) opening: u32,
    /// Open connections, busy or idle.
    pub(crate) open: u32,
    /// Open connections that wait for a wake.
    pub(crate) idle: u32,
    /// Woken or opened, and not yet back for work.
    pub(crate) woken: u32,
    pub(crate) gate: Gate,
    pub(crate) window: Window,
    pub(crate) share: Share,
    /// On the owning shard, once somebody asked.
    pub(crate) pool: Option<Box<Pool>>,
    /// In the list of those to be looked at.
    pub(crate) dirty: bool,
    /// In the list of those to be looked at when the pause ends.
    pub(crate) stalled: bool,
    /// Last use, for dropping it.
    pub(crate) used: Mono,
}

impl Ready {
    pub(crate) fn new(key: ReadyKey, limits: ReadyLimits, terms: Terms, owner: u16) -> Ready {
        Ready {
            key,
            window: Window::new(&limits),
            limits,
            terms,
            owner,
            references: 0,
            backlog: Backlog::default(),
            opening: 0,
            open: 0,
            idle: 0,
            woken: 0,
            gate: Gate::new(),
            share: Share::default(),
            pool: None,
            dirty: false,
            stalled: false,
            used: Mono(0),
        }
    }

    /// Connections that take a slot.
    pub(crate) fn connections(&self) -> u32 {
        self.open + self.opening
    }

    /// Connections that it may have now.
    pub(crate) fn allowed(&self) -> u32 {
        let leased = if self.limits.connections_max == 0 { u32::MAX } else { self.share.usable() };
        leased.min(self.window.allowed())
    }

    pub(crate) fn is_rated(&self) -> bool {
        self.limits.messages_per_second > 0.0
    }

    /// Takes over limits that may have changed.
    pub(crate) fn adopt(&mut self, limits: &ReadyLimits, epoch: u32) {
        self.terms = Terms::new(epoch, limits);
        if self.limits != *limits {
            self.limits = limits.clone();
            self.window.adjust(limits);
        }
        if let Some(pool) = &mut self.pool {
            pool.adopt(self.terms);
        }
    }

    /// Nothing hangs on it any more.
    pub(crate) fn is_unused(&self, now: Mono) -> bool {
        let pool_home = self
            .pool
            .as_ref()
            .is_none_or(|pool| pool.is_home() && pool.next_token().is_none_or(|at| at <= now));
        self.references == 0
            && self.backlog.len() == 0
            && self.connections() == 0
            && self.share.is_home()
            && pool_home
            && !self.dirty
            && !self.stalled
    }
}
