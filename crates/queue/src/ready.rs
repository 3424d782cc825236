//! A ready queue: entries that may be sent to one next hop now, and the connections that carry them.

use crate::backlog::Backlog;
use crate::limits::{Gate, ReadyLimits, Window};
use crate::named_limit::{self, Borrowed, Borrows};
use crate::quota::Quota;
use crate::suspension::SuspensionState;
use crate::{Blocker, NamedLimit, ReadyKey, WaitingCount};
use mail::{Failure, Mono};
use std::sync::Arc;

pub(crate) struct Ready {
    pub(crate) key: ReadyKey,
    pub(crate) limits: ReadyLimits,
    /// Shares borrowed of the named limits.
    pub(crate) borrows: Borrows,
    /// Remaining allowance; `None`: unlimited.
    pub(crate) quota: Option<Box<Quota>>,
    /// The epoch in which its limits were set last.
    pub(crate) epoch: u32,
    /// Number of scheduled queues with an answer that names this one.
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
    /// True if the last connection attempt got as far as a greeting.
    pub(crate) last_opening: Option<bool>,
    pub(crate) gate: Gate,
    pub(crate) window: Window,
    /// An operator stopped it.
    pub(crate) standstill: SuspensionState,
    /// The next hop never accepts mail: waiting entries fail, then resolution starts again.
    pub(crate) refused: Option<Arc<Failure>>,
    /// In the list of queues to service.
    pub(crate) dirty: bool,
    /// In the list of queues to service at the end of the pause.
    pub(crate) stalled: bool,
    /// Last use, for dropping it.
    pub(crate) used: Mono,
    /// Its waiting entries, for other threads, while it is reported as suspended.
    pub(crate) waiting: Option<WaitingCount>,
}

impl Ready {
    pub(crate) fn new(key: ReadyKey, limits: ReadyLimits) -> Ready {
        Ready {
            key,
            window: Window::new(&limits, 0),
            limits,
            borrows: Borrows::new(),
            quota: None,
            epoch: 0,
            references: 0,
            backlog: Backlog::default(),
            opening: 0,
            open: 0,
            idle: 0,
            woken: 0,
            last_opening: None,
            gate: Gate::new(),
            standstill: SuspensionState::default(),
            refused: None,
            dirty: false,
            stalled: false,
            used: Mono(0),
            waiting: None,
        }
    }

    /// Connections that take a slot.
    pub(crate) fn connections(&self) -> u32 {
        self.open + self.opening
    }

    /// Connections that it may have now.
    pub(crate) fn allowed(&self) -> u32 {
        let window = if self.gate.shut { 1 } else { self.window.allowed() };
        let limited = self.borrows.iter().filter(|b| b.is_limited());
        limited.map(|b| b.share.usable()).fold(window, u32::min)
    }

    pub(crate) fn is_suspended(&self, now: Mono) -> bool {
        self.standstill.get().is_some()
            || self.quota.as_ref().is_some_and(|quota| quota.closed(now).is_some())
    }

    /// Reason why this ready queue may send nothing; `None` if it may send.
    pub(crate) fn out(&self, now: Mono) -> Option<Blocker> {
        let suspension = self.standstill.get().map(|of| Blocker::Suspended(Arc::clone(of)));
        suspension.or_else(|| self.used_up(now))
    }

    /// The pause of its source's allowance, if it is used up.
    pub(crate) fn used_up(&self, now: Mono) -> Option<Blocker> {
        let closed = self.quota.as_ref()?.closed(now)?;
        Some(Blocker::Allowance { why: Arc::clone(&closed.why), until: closed.until })
    }

    /// Recipients that it may send now.
    pub(crate) fn allowance(&self, now: Mono) -> u32 {
        self.quota.as_ref().map_or(u32::MAX, |quota| quota.left(now))
    }

    /// The lowest of the limits on connections; 0 if none.
    pub(crate) fn connections_max(&self) -> u32 {
        let limited = self.borrows.iter().filter(|b| b.is_limited());
        limited.map(|b| b.terms.connections_max).min().unwrap_or(0)
    }

    /// The limits on messages per second.
    pub(crate) fn rates(&self) -> impl Iterator<Item = &Borrowed> {
        self.borrows.iter().filter(|b| b.is_rated())
    }

    /// Messages that the rates allow now.
    pub(crate) fn tokens(&self) -> u32 {
        self.rates().map(|b| b.share.tokens).min().unwrap_or(u32::MAX)
    }

    /// Spends a token of each rate for a message.
    pub(crate) fn spend_token(&mut self) {
        for borrowed in self.borrows.iter_mut().filter(|b| b.is_rated()) {
            borrowed.share.tokens = borrowed.share.tokens.saturating_sub(1);
        }
    }

    /// Takes over limits that may have changed; whether they have.
    pub(crate) fn adopt(
        &mut self,
        limits: &ReadyLimits,
        shared: &[NamedLimit],
        epoch: u32,
        shards: u16,
    ) -> bool {
        let before = self.connections_max();
        let is_obeyed = |limit: &NamedLimit| self.borrows.iter().any(|b| b.obeys(limit));
        let same = shared.iter().all(is_obeyed)
            && self.borrows.iter().filter(|b| !b.retired).count() == shared.len();
        if same && self.limits == *limits && self.epoch == epoch {
            return false;
        }
        named_limit::adopt(&mut self.borrows, shared, epoch, shards);
        self.epoch = epoch;
        if self.limits != *limits || self.connections_max() != before {
            self.limits = limits.clone();
            self.window.adjust(limits, self.connections_max());
        }
        true
    }

    /// Returns true if unreferenced and empty.
    pub(crate) fn is_unused(&self) -> bool {
        self.references == 0
            && self.backlog.total() == 0
            && self.connections() == 0
            && self.borrows.iter().all(|b| b.share.is_home())
            && self.quota.as_ref().is_none_or(|quota| !quota.is_asked)
            && !self.dirty
            && !self.stalled
    }
}
