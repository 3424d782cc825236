//! Sending windows of scheduled queues: the hours in which messages may be sent. The owner of the queue knows them. It
//! is queried when an entry is due and the last answer has expired ([`crate::Action::Hours`]).

mod window;

use mail::Mono;

/// State of a sending window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// Messages may go.
    pub is_open: bool,
    /// Until when that holds.
    pub until: Mono,
}

/// The last answer about a sending window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownHours {
    hours: Hours,
    /// A query is pending.
    asked: bool,
    /// Start of the current or last window.
    opened: Mono,
}

impl KnownHours {
    /// A state without an answer.
    pub(crate) fn new() -> KnownHours {
        let hours = Hours { is_open: false, until: Mono(0) };
        KnownHours { hours, asked: false, opened: Mono(0) }
    }

    /// Returns true if messages may be sent, as far as is known.
    pub(crate) fn are_open(&self, now: Mono) -> bool {
        self.hours.is_open && now < self.hours.until
    }

    /// End of the time without sending, if known.
    pub(crate) fn closed_until(&self, now: Mono) -> Option<Mono> {
        (!self.hours.is_open && now < self.hours.until).then_some(self.hours.until)
    }

    /// Start of the current or last window. Attempts before it do not count as last attempts.
    pub(crate) fn opened(&self) -> Mono {
        self.opened
    }

    /// Time of the next query or check; `NEVER` while an answer is pending.
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
        // An expired answer would be requested again for ever.
        let until = hours.until.max(Mono(now.0.saturating_add(1)));
        (self.hours, self.asked) = (Hours { until, ..hours }, false);
    }

    /// Marks the query as pending; false if it already was.
    pub(crate) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }
}
