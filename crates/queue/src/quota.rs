//! Allowance of a ready queue in recipients, counted outside of the queue.

use mail::Mono;
use std::sync::Arc;

/// The allowance left to a ready queue.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    /// Recipients that may go.
    left: u32,
    /// Time at which the rest is void.
    until: Mono,
    /// A request is pending.
    pub(crate) is_asked: bool,
    closed: Option<QuotaPause>,
    /// Serial of the allowance: refunds to a void one are ignored.
    serial: u32,
}

/// No allowance is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaPause {
    /// To follow "waiting for".
    pub(crate) why: Arc<str>,
    pub(crate) until: Mono,
}

impl Quota {
    /// An empty quota.
    pub(crate) fn new(serial: u32) -> Quota {
        Quota { left: 0, until: Mono::NEVER, is_asked: false, closed: None, serial }
    }

    /// Serial of the current allowance.
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Recipients that may go.
    pub(crate) fn left(&self, now: Mono) -> u32 {
        if self.until <= now { 0 } else { self.left }
    }

    /// Uses up part of the allowance.
    pub(crate) fn spend(&mut self, recipients: u32) {
        self.left = self.left.saturating_sub(recipients);
    }

    /// Refunds one recipient of the allowance with this serial.
    pub(crate) fn refund(&mut self, serial: u32) {
        if serial == self.serial {
            self.left = self.left.saturating_add(1);
        }
    }

    /// Adds an allowance of this many recipients until `until`. A new end starts a new allowance with the number
    /// `serial`.
    pub(crate) fn grant(&mut self, now: Mono, recipients: u32, until: Mono, serial: u32) {
        let before = self.left(now);
        let serial = if until == self.until { self.serial } else { serial };
        *self = Quota { left: before.saturating_add(recipients), until, ..Quota::new(serial) };
    }

    /// No allowance until the end of this pause.
    pub(crate) fn close(&mut self, closed: QuotaPause) {
        self.is_asked = false;
        self.closed = Some(closed);
    }

    /// The pause in force, if any.
    pub(crate) fn closed(&self, now: Mono) -> Option<&QuotaPause> {
        self.closed.as_ref().filter(|closed| closed.until > now)
    }

    /// Removes and returns the unused rest.
    pub(crate) fn take(&mut self, now: Mono) -> u32 {
        let left = self.left(now);
        self.left = 0;
        left
    }

    /// Time of the next change without a call.
    pub(crate) fn changes_at(&self, now: Mono) -> Mono {
        let closed = self.closed(now).map_or(Mono::NEVER, |closed| closed.until);
        if self.left(now) > 0 { closed.min(self.until) } else { closed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_void_at_its_end() {
        let mut quota = Quota::new(1);
        quota.grant(Mono(0), 5, Mono(100), 2);
        quota.spend(2);
        assert_eq!((quota.left(Mono(99)), quota.left(Mono(100))), (3, 0));
        quota.grant(Mono(100), 1, Mono(200), 3);
        assert_eq!(quota.left(Mono(150)), 1, "nothing of the day before");
        assert_eq!(quota.changes_at(Mono(150)), Mono(200));
        quota.spend(9);
        assert_eq!((quota.take(Mono(150)), quota.changes_at(Mono(150))), (0, Mono::NEVER));
    }

    #[test]
    fn it_is_closed_until_then_and_open_again_with_a_grant() {
        let mut quota = Quota::new(1);
        quota.is_asked = true;
        quota.close(QuotaPause { why: "x".into(), until: Mono(10) });
        assert!(quota.closed(Mono(9)).is_some() && quota.closed(Mono(10)).is_none());
        assert_eq!(quota.changes_at(Mono(9)), Mono(10));
        assert!(!quota.is_asked);
        quota.grant(Mono(5), 1, Mono(100), 2);
        assert!(quota.closed(Mono(6)).is_none());
    }

    #[test]
    fn what_did_not_go_comes_back_to_the_allowance_that_it_was_of() {
        let mut quota = Quota::new(1);
        quota.grant(Mono(0), 5, Mono(100), 2);
        let of = quota.serial();
        quota.spend(5);
        quota.refund(of);
        quota.refund(of + 1);
        assert_eq!(quota.left(Mono(99)), 1);
        quota.grant(Mono(50), 1, Mono(100), 3);
        assert_eq!((quota.serial(), quota.left(Mono(99))), (of, 2), "the same day");
        quota.grant(Mono(100), 1, Mono(200), 4);
        quota.refund(of);
        assert_eq!(quota.left(Mono(150)), 1, "nothing of the day before");
    }
}
