//! What steering fields may say.

use mail::{Refusal, Wall};
use mta::steering::is_name;
use std::borrow::Cow;
use std::sync::Arc;

/// What is wrong with a steering field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// It is there twice.
    Twice,
    /// It is empty, too long, or no text.
    Unreadable,
    /// It is no name.
    NoName,
    /// It names no pool.
    NoPool,
    /// It is no priority.
    NoPriority,
    /// It is no time.
    NoTime,
    /// It is no window.
    NoWindow,
    /// It lies too far ahead.
    TooFar,
    /// It has passed, or lies before the time before which it may not be sent.
    TooEarly,
}

impl Mistake {
    /// What the client gets to hear, of the field of this name.
    pub(super) fn refusal(self, field: &str) -> Refusal {
        let text = match self {
            Mistake::Twice => "stands there more than once",
            Mistake::Unreadable => "is empty, too long, or no text",
            Mistake::NoName => "is no name: 1 to 128 printable characters but for < and > are one",
            Mistake::NoPool => "names no pool",
            Mistake::NoPriority => "is no priority: -9 to 9 are",
            Mistake::NoTime => "is no time: such as 2026-12-01T09:00:00+01:00 is one",
            Mistake::NoWindow => "is no window: such as mon-fri 09:00-17:00 Europe/Berlin is one",
            Mistake::TooFar => "lies more than a year ahead",
            Mistake::TooEarly => "lies before the time from which on the message may be sent",
        };
        let text = Cow::Owned(format!("{field} {text}"));
        Refusal { text, ..Refusal::permanent((6, 0), "").with_code(550) }
    }
}

/// The name of a tenant or campaign.
pub(super) fn name_of(text: &str) -> Result<Arc<str>, Mistake> {
    is_name(text).then(|| Arc::from(text)).ok_or(Mistake::NoName)
}

/// A time as RFC 3339 or RFC 5322 writes it.
pub(super) fn time_of(text: &str) -> Result<Wall, Mistake> {
    Wall::parse_rfc3339(text).or_else(|| Wall::parse_rfc5322(text)).ok_or(Mistake::NoTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_or_a_mistake() {
        assert_eq!(name_of("Spring sale, 2026").as_deref(), Ok("Spring sale, 2026"));
        assert_eq!(name_of("<reports>"), Err(Mistake::NoName));
    }

    #[test]
    fn refusals_name_the_field() {
        let reply = mail::Reply::from(Mistake::NoPool.refusal("X-Pool"));
        assert_eq!(reply.to_string(), "550 5.6.0 X-Pool names no pool");
    }
}
