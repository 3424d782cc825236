//! The reason why a queued message waits.

use crate::Suspension;
use mail::{Culprit, Domain, Failure, Mono};
use std::fmt;
use std::sync::Arc;

/// Places in line are counted up to this.
pub(crate) const PLACE_MAX: u32 = 1_000;

/// Reason for a pause of all egress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The limit of delivered recipients with an unsynced settle is reached.
    Unsettled,
    /// The spool cannot be written: deliveries could not be settled.
    Poisoned,
    /// The shard is stopping.
    Stopping,
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pause::Unsettled => "the disk: too many deliveries are not recorded yet",
            Pause::Poisoned => "the spool: it can't be written, so nothing is delivered",
            Pause::Stopping => "the next start: the server is stopping",
        })
    }
}

/// The reason why one entry waits. Its text follows "waiting for". Times inside are monotonic; [`Blocker::next`]
/// returns them, so that the caller can print wall-clock time after the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocker {
    /// Waits for its due time.
    Scheduled {
        /// The due time.
        due: Mono,
        /// True for an entry without attempts.
        first: bool,
    },
    /// Outside the sending window named by its sender.
    Hours {
        /// As the sender wrote them.
        window: Arc<str>,
        /// Start of the next window.
        until: Mono,
    },
    /// The next hop is being looked up.
    Resolving { domain: Domain },
    /// The next-hop lookup failed.
    ResolutionFailed {
        domain: Domain,
        /// Failure of the lookup.
        failure: Arc<Failure>,
        /// Time of the next lookup.
        until: Mono,
    },
    /// All connections that are allowed are in use.
    ConnectionSlots {
        /// The next hop as named in events and lists.
        next_hop: Arc<str>,
        /// Connections in use over all shards, as known to this shard.
        used: u32,
        /// The limit over all shards.
        max: u32,
        /// Entries before it in its list, counted up to 1,000.
        before: u32,
    },
    /// The connection window of the next hop is used up.
    Window {
        /// The next hop as named in events and lists, with its source.
        next_hop: Arc<str>,
        /// The window: the number of connections that the next hop takes at present.
        bears: u32,
        /// Entries before it in its list, counted up to 1,000.
        before: u32,
    },
    /// A connection is being opened.
    Opening {
        /// The next hop as named in events and lists, with its source.
        next_hop: Arc<str>,
    },
    /// The last connections failed; the next is opened later.
    OpenBackoff {
        /// The next hop as named in events and lists, with its source.
        next_hop: Arc<str>,
        /// The last failure, if known.
        failure: Option<Arc<Failure>>,
        /// Time of the next attempt.
        until: Mono,
    },
    /// The limit on messages per second is used up.
    Rate {
        /// The next hop as named in events and lists.
        next_hop: Arc<str>,
        /// Entries before it in its list, counted up to 1,000.
        before: u32,
        /// Expected time of its turn, as far as this shard knows.
        until: Mono,
    },
    /// The external allowance of its next hop is used up for now.
    Allowance {
        /// To follow "waiting for".
        why: Arc<str>,
        /// Time at which more may be allowed.
        until: Mono,
    },
    /// A request to the shard that owns the limit is pending.
    LeaseWait {
        /// The next hop as named in events and lists.
        next_hop: Arc<str>,
        /// Number of the shard that owns the limit.
        owner: u16,
        /// Entries before it in its list, counted up to 1,000.
        before: u32,
    },
    /// An operator holds it.
    Held {
        /// Reason given by the operator; may be empty.
        reason: Arc<str>,
    },
    /// An operator suspended a queue on its route.
    Suspended(Arc<Suspension>),
    /// All deliveries of the shard are paused.
    Paused(Pause),
    /// It is being delivered.
    InFlight,
    /// Open connections deliver the entries before it.
    Turn {
        /// The next hop as named in events and lists, with its source.
        next_hop: Arc<str>,
        /// Entries before it in its list, counted up to 1,000.
        before: u32,
    },
}

impl Blocker {
    /// The next time at which a change is certain; `None` if it depends on other events.
    #[must_use]
    pub fn next(&self) -> Option<Mono> {
        match self {
            Blocker::Scheduled { due: at, .. }
            | Blocker::ResolutionFailed { until: at, .. }
            | Blocker::Hours { until: at, .. }
            | Blocker::OpenBackoff { until: at, .. }
            | Blocker::Allowance { until: at, .. }
            | Blocker::Rate { until: at, .. } => Some(*at),
            Blocker::Suspended(suspension) => {
                Some(suspension.until).filter(|until| *until != Mono::NEVER)
            }
            Blocker::Resolving { .. }
            | Blocker::ConnectionSlots { .. }
            | Blocker::Window { .. }
            | Blocker::Opening { .. }
            | Blocker::LeaseWait { .. }
            | Blocker::Held { .. }
            | Blocker::Paused(_)
            | Blocker::InFlight
            | Blocker::Turn { .. } => None,
        }
    }
}

/// Number of entries before it, as part of a sentence.
struct QueuePosition(u32);

impl fmt::Display for QueuePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("first in line"),
            n if n >= PLACE_MAX => write!(f, "{n} or more before it"),
            n => write!(f, "{n} before it"),
        }
    }
}

/// A failure within a sentence of this server: a failure found locally needs no "this server".
struct FailurePhrase<'a>(&'a Failure);

impl fmt::Display for FailurePhrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.culprit {
            Culprit::Local | Culprit::Conversion(_) => f.write_str(&self.0.text),
            _ => self.0.fmt(f),
        }
    }
}

/// To follow "waiting for": `a connection slot of smtp:mx.example.com, 50/50 in use, 3 before it`.
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::Scheduled { first: false, .. } => f.write_str("its next try"),
            Blocker::Scheduled { first: true, .. } => {
                f.write_str("the time that its sender set: not before")
            }
            Blocker::Hours { window, .. } => write!(f, "its window, {window}, to open"),
            Blocker::Resolving { domain } => {
                write!(f, "the next-hop lookup for {domain}")
            }
            Blocker::ResolutionFailed { domain, failure, .. } => {
                write!(f, "a next hop for {domain}; the lookup failed: {}", FailurePhrase(failure))
            }
            Blocker::ConnectionSlots { next_hop, used, max, before } => {
                let before = QueuePosition(*before);
                write!(f, "a connection slot of {next_hop}, {used}/{max} in use, {before}")
            }
            Blocker::Window { next_hop, bears, before } => {
                let before = QueuePosition(*before);
                write!(
                    f,
                    "a connection slot of {next_hop}, {bears}/{bears} of its adaptive limit in use, \
                     {before}"
                )
            }
            Blocker::Opening { next_hop } => {
                write!(f, "a connection to {next_hop}, which is being opened")
            }
            Blocker::OpenBackoff { next_hop, failure: Some(failure), .. } => {
                write!(
                    f,
                    "a connection to {next_hop}; the last attempt failed: {}",
                    FailurePhrase(failure)
                )
            }
            Blocker::OpenBackoff { next_hop, failure: None, .. } => {
                write!(f, "a connection to {next_hop}; the last ones were lost")
            }
            Blocker::Rate { next_hop, before, .. } => {
                write!(f, "the message rate limit of {next_hop}, {}", QueuePosition(*before))
            }
            Blocker::Allowance { why, .. } => f.write_str(why),
            Blocker::LeaseWait { next_hop, owner, before } => {
                let before = QueuePosition(*before);
                write!(f, "a connection slot from shard {owner} for {next_hop}, {before}")
            }
            Blocker::Held { reason } if reason.is_empty() => {
                f.write_str("an operator to release it")
            }
            Blocker::Held { reason } => write!(f, "an operator to release it: {reason}"),
            Blocker::Suspended(suspension) => suspension.fmt(f),
            Blocker::Paused(pause) => pause.fmt(f),
            Blocker::InFlight => f.write_str("the end of the attempt in progress"),
            Blocker::Turn { next_hop, before } => {
                write!(f, "its turn at {next_hop}, {}", QueuePosition(*before))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::{Class, EnhancedStatus};

    /// The sentences of `rows`, to be read aloud; the only moment that any of them may name is `NEXT`.
    fn assert_follow_waiting_for(rows: &[(Blocker, &str)]) {
        for (blocker, sentence) in rows {
            assert_eq!(blocker.to_string(), *sentence, "waiting for {blocker}");
            assert!(blocker.next().is_none_or(|next| next == NEXT), "{blocker:?}");
        }
    }

    const NEXT: Mono = Mono(7);

    fn hop() -> Arc<str> {
        Arc::from("smtp:mx.example.com:25")
    }

    #[test]
    fn a_next_hop_that_is_waited_for_follows_waiting_for() {
        let domain = || Domain::parse("example.com").expect("a domain");
        let failure = |text: &str| {
            Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 4, 1), text))
        };
        let until = NEXT;
        assert_follow_waiting_for(&[
            (Blocker::Scheduled { due: NEXT, first: false }, "its next try"),
            (
                Blocker::Scheduled { due: NEXT, first: true },
                "the time that its sender set: not before",
            ),
            (
                Blocker::Hours { window: Arc::from("mon 09:00-10:00 UTC"), until },
                "its window, mon 09:00-10:00 UTC, to open",
            ),
            (Blocker::Resolving { domain: domain() }, "the next-hop lookup for example.com"),
            (
                Blocker::ResolutionFailed {
                    domain: domain(),
                    failure: failure("no route leads there since noon"),
                    until,
                },
                "a next hop for example.com; the lookup failed: no route leads there since noon",
            ),
            (
                Blocker::ConnectionSlots { next_hop: hop(), used: 50, max: 50, before: 3 },
                "a connection slot of smtp:mx.example.com:25, 50/50 in use, 3 before it",
            ),
            (
                Blocker::Window { next_hop: hop(), bears: 2, before: 0 },
                "a connection slot of smtp:mx.example.com:25, 2/2 of its adaptive limit in use, \
                 first in line",
            ),
            (
                Blocker::Opening { next_hop: hop() },
                "a connection to smtp:mx.example.com:25, which is being opened",
            ),
            (
                Blocker::OpenBackoff { next_hop: hop(), failure: Some(failure("refused")), until },
                "a connection to smtp:mx.example.com:25; the last attempt failed: refused",
            ),
            (
                Blocker::OpenBackoff { next_hop: hop(), failure: None, until },
                "a connection to smtp:mx.example.com:25; the last ones were lost",
            ),
            (
                Blocker::Rate { next_hop: hop(), before: 1_000, until },
                "the message rate limit of smtp:mx.example.com:25, 1000 or more before it",
            ),
        ]);
    }

    #[test]
    fn what_else_is_waited_for_follows_waiting_for() {
        let suspension = |reason: &str| {
            let (what, reason) = (Arc::from("the domain example.com"), Arc::from(reason));
            Arc::new(Suspension { what, reason, is_operators: true, until: NEXT })
        };
        assert_follow_waiting_for(&[
            (
                Blocker::Allowance { why: Arc::from("warm-up of source ip-1"), until: NEXT },
                "warm-up of source ip-1",
            ),
            (
                Blocker::LeaseWait { next_hop: hop(), owner: 3, before: 1 },
                "a connection slot from shard 3 for smtp:mx.example.com:25, 1 before it",
            ),
            (
                Blocker::Held { reason: Arc::from("looks like spam") },
                "an operator to release it: looks like spam",
            ),
            (Blocker::Held { reason: Arc::from("") }, "an operator to release it"),
            (
                Blocker::Suspended(suspension("they asked for it")),
                "an operator to resume the domain example.com: they asked for it",
            ),
            (Blocker::Suspended(suspension("")), "an operator to resume the domain example.com"),
            (
                Blocker::Paused(Pause::Unsettled),
                "the disk: too many deliveries are not recorded yet",
            ),
            (
                Blocker::Paused(Pause::Poisoned),
                "the spool: it can't be written, so nothing is delivered",
            ),
            (Blocker::Paused(Pause::Stopping), "the next start: the server is stopping"),
            (Blocker::InFlight, "the end of the attempt in progress"),
            (
                Blocker::Turn { next_hop: hop(), before: 12 },
                "its turn at smtp:mx.example.com:25, 12 before it",
            ),
        ]);
    }
}
