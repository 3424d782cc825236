//! What a ready queue may send of an allowance that is counted elsewhere, in recipients.

use mail::Mono;
use std::sync::Arc;

/// What it has of it.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    /// Recipients that may go.
    left: u32,
    /// What is left then is void.
    until: Mono,
    /// More was asked for, and there is no answer yet.
    pub(crate) is_asked: bool,
    closed: Option<Closed>,
}

/// There is nothing to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// To follow "waiting for".
    pub(crate) why: Arc<str>,
    pub(crate) until: Mono,
}

impl Quota {
    /// Nothing yet.
    pub(crate) fn new() -> Quota {
        Quota { left: 0, until: Mono::NEVER, is_asked: false, closed: None }
    }

    /// Recipients that may go.
    pub(crate) fn left(&self, now: Mono) -> u32 {
        if self.until <= now { 0 } else { self.left }
    }

    /// So many go.
    pub(crate) fn spend(&mut self, recipients: u32) {
        self.left = self.left.saturating_sub(recipients);
    }

    /// The answer: so many recipients, until then.
    pub(crate) fn grant(&mut self, now: Mono, recipients: u32, until: Mono) {
        let before = self.left(now);
        *self = Quota { left: before.saturating_add(recipients), until, ..Quota::new() };
    }

    /// The answer: nothing, for so long.
    pub(crate) fn close(&mut self, closed: Closed) {
        self.is_asked = false;
        self.closed = Some(closed);
    }

    /// Why nothing goes, if that is known.
    pub(crate) fn closed(&self, now: Mono) -> Option<&Closed> {
        self.closed.as_ref().filter(|closed| closed.until > now)
    }

    /// Takes what is left, which nobody needs.
    pub(crate) fn take(&mut self, now: Mono) -> u32 {
        let left = self.left(now);
        self.left = 0;
        left
    }

    /// When it is another by itself.
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
        let mut quota = Quota::new();
        quota.grant(Mono(0), 5, Mono(100));
        quota.spend(2);
        assert_eq!((quota.left(Mono(99)), quota.left(Mono(100))), (3, 0));
        quota.grant(Mono(100), 1, Mono(200));
        assert_eq!(quota.left(Mono(150)), 1, "nothing of the day before");
        assert_eq!(quota.changes_at(Mono(150)), Mono(200));
        quota.spend(9);
        assert_eq!((quota.take(Mono(150)), quota.changes_at(Mono(150))), (0, Mono::NEVER));
    }

    #[test]
    fn it_is_closed_until_then_and_open_again_with_a_grant() {
        let mut quota = Quota::new();
        quota.is_asked = true;
        quota.close(Closed { why: "x".into(), until: Mono(10) });
        assert!(quota.closed(Mono(9)).is_some() && quota.closed(Mono(10)).is_none());
        assert_eq!(quota.changes_at(Mono(9)), Mono(10));
        assert!(!quota.is_asked);
        quota.grant(Mono(5), 1, Mono(100));
        assert!(quota.closed(Mono(6)).is_none());
    }
}
