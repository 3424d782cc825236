//! The hours in which a scheduled queue's messages may be sent. What they are is not known here: whoever owns the
//! queue is asked when something is to be sent and the last answer no longer holds ([`crate::Action::Hours`]).

use mail::Mono;

/// Whether it is one of the hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// Messages may go.
    pub is_open: bool,
    /// Until when that holds.
    pub until: Mono,
}

/// What is known of the hours of a scheduled queue that has some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownHours {
    hours: Hours,
    /// They are asked for.
    asked: bool,
    /// When they began last.
    opened: Mono,
}

impl KnownHours {
    /// Nothing is known.
    pub(crate) fn new() -> KnownHours {
        let hours = Hours { is_open: false, until: Mono(0) };
        KnownHours { hours, asked: false, opened: Mono(0) }
    }

    /// Whether messages may go, as far as is known.
    pub(crate) fn are_open(&self, now: Mono) -> bool {
        self.hours.is_open && now < self.hours.until
    }

    /// Until when none may go, if that is known.
    pub(crate) fn closed_until(&self, now: Mono) -> Option<Mono> {
        (!self.hours.is_open && now < self.hours.until).then_some(self.hours.until)
    }

    /// When they began last: what was tried before was not tried since.
    pub(crate) fn opened(&self) -> Mono {
        self.opened
    }

    /// When it is worth a look at what waits; never before an answer.
    pub(crate) fn worth_a_look(&self) -> Mono {
        match (self.asked, self.hours.is_open) {
            (true, _) => Mono::NEVER,
            (false, true) => Mono(0),
            (false, false) => self.hours.until,
        }
    }

    /// Takes an answer.
    pub(crate) fn answer(&mut self, now: Mono, hours: Hours) {
        if hours.is_open && !self.hours.is_open {
            self.opened = now;
        }
        // An answer that no longer holds would be asked for again for ever.
        let until = hours.until.max(Mono(now.0.saturating_add(1)));
        (self.hours, self.asked) = (Hours { until, ..hours }, false);
    }

    /// They have to be asked for, which they are from now on; false: they are already.
    pub(crate) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }
}

/// The client network that a message of a stranger came from, and above it the networks that one customer may all have:
/// a number of 16 bits for each. Networks that have the same number, one of some thousands, share a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(u32);

impl Origin {
    /// A client that may relay, a user, or this server itself.
    pub const OURS: Origin = Origin(0);

    /// A stranger's; a site of 0 counts as 1.
    #[must_use]
    pub fn of(site: u16, network: u16) -> Origin {
        Origin(u32::from(site.max(1)) << 16 | u32::from(network))
    }

    /// Numbers of the site and of the network within it; `None`: it is ours.
    #[must_use]
    pub fn parts(self) -> Option<(u16, u16)> {
        let site = (self.0 >> 16) as u16;
        (site != 0).then_some((site, self.0 as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stranger_is_one_of_ours() {
        assert_eq!(Origin::OURS.parts(), None);
        assert_eq!(Origin::of(0, 0).parts(), Some((1, 0)));
        assert_eq!(Origin::of(u16::MAX, 7).parts(), Some((u16::MAX, 7)));
    }
}
