//! Budgets shared by all shards: body memory, queue slots, sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limited amount that is reserved and released.
#[derive(Debug)]
pub struct Budget {
    used: Arc<AtomicU64>,
    max: AtomicU64,
}

impl Budget {
    /// A budget of `max`.
    #[must_use]
    pub fn new(max: u64) -> Arc<Budget> {
        Arc::new(Budget { used: Arc::default(), max: AtomicU64::new(max) })
    }

    /// Reserves `amount`, unless that would exceed the limit.
    #[must_use]
    pub fn try_take(&self, amount: u64) -> bool {
        self.try_take_up_to(amount, self.max())
    }

    /// Reserves `amount`, unless more than `max` would be reserved then.
    fn try_take_up_to(&self, amount: u64, max: u64) -> bool {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        if before.saturating_add(amount) <= max {
            return true;
        }
        self.used.fetch_sub(amount, Ordering::Relaxed);
        false
    }

    /// Reserves `amount` regardless of the limit: for existing items (recovered messages, DSNs).
    pub fn take(&self, amount: u64) {
        self.used.fetch_add(amount, Ordering::Relaxed);
    }

    /// Releases a reserved amount.
    pub fn give_back(&self, amount: u64) {
        let before = self.used.fetch_sub(amount, Ordering::Relaxed);
        debug_assert!(before >= amount, "gave back {amount} of {before}");
    }

    /// The reserved amount.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The counter of the reserved amount, for other counting code.
    #[must_use]
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.used)
    }

    /// Returns true if other code counts, too.
    pub(crate) fn is_shared(self: &Arc<Budget>) -> bool {
        Arc::strong_count(self) > 1 || Arc::strong_count(&self.used) > 1
    }

    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the limit, at a reload.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }
}

/// An amount reserved from a budget, released when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    amount: u64,
}

impl Share {
    /// An empty share.
    #[must_use]
    pub fn none(budget: &Arc<Budget>) -> Share {
        Share { budget: Arc::clone(budget), amount: 0 }
    }

    /// Reserves `amount` more, if it is available.
    #[must_use]
    pub fn try_grow(&mut self, amount: u64) -> bool {
        let taken = self.budget.try_take(amount);
        if taken {
            self.amount += amount;
        }
        taken
    }

    /// Reserves `amount` more, except from the last tenth of the budget, which is for clients that may relay.
    #[must_use]
    pub fn try_grow_as_stranger(&mut self, amount: u64) -> bool {
        let max = self.budget.max();
        let taken = self.budget.try_take_up_to(amount, max - max.div_ceil(10));
        if taken {
            self.amount += amount;
        }
        taken
    }

    /// Reserves `amount` more regardless of the limit: for messages with a reserve of their own.
    pub(crate) fn grow(&mut self, amount: u64) {
        self.budget.take(amount);
        self.amount += amount;
    }

    /// The amount that it holds.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Releases all but `amount`.
    pub fn shrink_to(&mut self, amount: u64) {
        let excess = self.amount.saturating_sub(amount);
        self.amount -= excess;
        self.budget.give_back(excess);
    }

    /// Moves `amount`, at most the whole, to another share.
    #[must_use]
    pub fn split_off(&mut self, amount: u64) -> Share {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Share { budget: Arc::clone(&self.budget), amount }
    }

    /// Releases the whole amount now.
    pub fn clear(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.amount));
    }

    /// Hands the amount over to the caller, which must release it later.
    #[must_use]
    pub fn keep(mut self) -> u64 {
        std::mem::take(&mut self.amount)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_return_what_they_took() {
        let budget = Budget::new(10);
        let mut share = Share::none(&budget);
        assert!(share.try_grow(10));
        assert!(!share.try_grow(1), "at the limit");
        share.shrink_to(11);
        assert_eq!(budget.used(), 10);
        share.shrink_to(7);
        assert_eq!((budget.used(), share.amount()), (7, 7));
        drop(share);
        assert_eq!(budget.used(), 0);
        let mut share = Share::none(&budget);
        assert!(share.try_grow(4));
        assert_eq!(share.keep(), 4);
        assert_eq!(budget.used(), 4);
        budget.give_back(4);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_last_tenth_is_not_for_strangers() {
        let budget = Budget::new(20);
        let (mut stranger, mut known) = (Share::none(&budget), Share::none(&budget));
        assert!(stranger.try_grow_as_stranger(17) && stranger.try_grow_as_stranger(1));
        assert!(!stranger.try_grow_as_stranger(1), "at the limit");
        assert!(known.try_grow(2) && !known.try_grow(1));
        stranger.shrink_to(16);
        assert!(!stranger.try_grow_as_stranger(1) && known.try_grow(2), "what others hold counts");
    }
}
