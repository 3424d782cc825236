//! What happens to messages, one [`Event`] each time, for the event log and whatever reads it.
//!
//! Making an event is cheap on purpose: it shares the envelope, the client and the hop that its
//! maker holds anyway, and nothing is formatted. [`json`] turns it into lines later, off the shard.

pub mod json;
mod settings;

pub use settings::{EventFile, EventSettings};

use crate::encryption::Encryption;
use crate::overrides::Overrides;
use ::classes::ReplyClassification;
use auth::checks::AuthSummary;
use auth::iprev;
use mail::{Envelope, Failure, MessageId, Mono, Reply, RequireTls, Wall};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

/// Where in the spool the record stands from which an event derives. Positions of one log only
/// grow, so a reader can tell what it has seen already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(NonZeroU64);

impl Position {
    /// What a sequence number takes beside the log's; they have 40 bits.
    const SEQUENCE_BITS: u32 = 56;

    /// A record of a log. In one word: events are moved around.
    #[must_use]
    pub fn new(log: u8, sequence: u64) -> Position {
        let most = (1 << Position::SEQUENCE_BITS) - 2;
        let packed = u64::from(log) << Position::SEQUENCE_BITS | (sequence.min(most) + 1);
        Position(NonZeroU64::new(packed).unwrap_or(NonZeroU64::MIN))
    }

    /// The log.
    #[must_use]
    pub fn log(self) -> u8 {
        (self.0.get() >> Position::SEQUENCE_BITS) as u8
    }

    /// The record within it.
    #[must_use]
    pub fn sequence(self) -> u64 {
        (self.0.get() & ((1 << Position::SEQUENCE_BITS) - 1)) - 1
    }
}

/// Who signed a message, each as `SELECTOR._domainkey.DOMAIN`; `None`: nobody. One pointer: events are
/// moved around.
pub type Signed = Option<Arc<Vec<Box<str>>>>;

/// Fields of a message's header that the configuration asks for, with their values; `None`: there are none. One
/// pointer, as above.
pub type Headers = Option<Arc<Vec<(Arc<str>, Box<str>)>>>;

/// Indexes into the envelope's recipients.
pub type Recipients = SmallVec<[u32; 2]>;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Wall,
    /// To which message; `None` for what was refused before it became one.
    pub message: Option<EventMessage>,
    /// To which of its recipients; empty where it concerns the message as a whole. Each becomes a
    /// line of its own.
    pub recipients: Recipients,
    pub kind: Kind,
}

/// The message an event is about.
#[derive(Clone, Debug)]
pub struct EventMessage {
    pub id: MessageId,
    /// The record from which the event derives, when it has one.
    pub position: Option<Position>,
    /// Sender and recipients; `None` where it is not in memory and not worth reading: then
    /// `body_bytes` is not known either.
    pub envelope: Option<Arc<Envelope>>,
    /// When it was accepted; the event's delay counts from here.
    pub received_at: Wall,
    pub body_bytes: u64,
    /// Whose mail it is, if anything was said of that.
    pub labels: Option<Box<Labels>>,
}

/// Names by which those who send find their mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Whose mail it is.
    pub tenant: Option<Arc<str>>,
    /// With what it waits.
    pub campaign: Option<Arc<str>>,
    /// The pool that was asked for.
    pub pool: Option<Arc<str>>,
}

/// Who handed in a message; made once per session and shared by its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address and port.
    pub address: SocketAddr,
    /// Who says that they are these, if the connection is another's.
    pub proxy: Option<IpAddr>,
    /// What its address is called in the DNS, once that was looked up.
    pub name: OnceLock<iprev::IprevCheck>,
    /// Its EHLO argument; empty before EHLO.
    pub helo: Arc<str>,
    pub listener: Arc<str>,
    /// `ESMTP`, `ESMTPS`, `LMTP`, … (RFC 3848).
    pub protocol: &'static str,
    /// `None`: in clear.
    pub tls: Option<Encryption>,
    /// Who it is by its certificate, if that counts.
    pub certified: Option<Arc<str>>,
    /// Who has logged in.
    pub login: Option<Arc<str>>,
}

impl Client {
    /// The name of its address, if that was looked up and leads back to it.
    #[must_use]
    pub fn confirmed_name(&self) -> Option<&str> {
        self.name.get().and_then(|found| found.name.as_deref())
    }
}

/// Where an attempt went; made once per connection and shared by its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The route's name or pattern, as `explain` shows it.
    pub route: Arc<str>,
    /// `smtp`, `lmtp`, `maildir`, `discard`, `x400`.
    pub channel: &'static str,
    /// Whose hosts they are, where shaping knows that.
    pub provider: Option<Arc<str>>,
    /// The source that it was sent from, where the route has a pool.
    pub source: Option<Arc<str>>,
    /// The peer as `mx.example.com[192.0.2.1]:25`, or the path of a maildir.
    pub peer: Arc<str>,
    /// `None`: in clear, or on this server.
    pub tls: Option<Encryption>,
    /// By which policy it is encrypted: `opportunistic`, `dane`, …
    pub tls_policy: Option<&'static str>,
}

/// Declares the kinds of events, each with its word in the field `event`.
macro_rules! events {
    ($($(#[$doc:meta])* $kind:ident $({ $($field:tt)* })? $(( $($value:tt)* ))? = $name:literal,)*) => {
        /// What happened.
        #[derive(Clone, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind $({ $($field)* })? $(( $($value)* ))?,)*
        }

        impl Kind {
            /// The word of each kind, in the order of `docs/events.md`.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The word in the field `event`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Kind::$kind { .. } => $name,)*
                }
            }
        }
    };
}

events! {
    /// Accepted and durable: 250 was (or is about to be) sent.
    Received {
        client: Arc<Client>,
        /// What came of the checks of who sends.
        checked: AuthSummary,
        /// What it asks of TLS on its way.
        require_tls: RequireTls,
        /// Who signed it here.
        signed: Signed,
        /// What its header says.
        headers: Headers,
    } = "received",
    /// Stored in a mailbox here (maildir, LMTP) or discarded by a route that says so.
    Delivered(Box<Done>) = "delivered",
    /// The next hop took responsibility.
    Relayed(Box<Done>) = "relayed",
    /// Not now; will be tried again.
    Deferred(Box<FailedAttempt>) = "deferred",
    /// Failed for good.
    Failed(Box<FailedAttempt>) = "failed",
    /// Given up for its age.
    Expired(Box<FailedAttempt>) = "expired",
    /// The sender was told that delivery takes longer.
    Delayed(Box<FailedAttempt>) = "delayed",
    /// Accepted, and nothing was kept: 250 was sent.
    Discarded(Box<Discarded>) = "discarded",
    /// Waits for an operator.
    Held { reason: Arc<str> } = "held",
    /// An operator let it go on.
    Released = "released",
    /// An operator removed it.
    Removed = "removed",
    /// An operator moved it: what is chosen for it from now on, which may be nothing.
    Moved(Box<Overrides>) = "moved",
    /// A notification about this message was queued.
    DsnQueued {
        /// The notification's own id.
        dsn: MessageId,
        /// RFC 3464 §2.3.3: `failed`, `delayed`, `delivered`, `relayed`, `expanded`.
        action: &'static str,
    } = "dsn_queued",
    /// A notification about this message was due, and is not made.
    DsnSuppressed {
        /// As of [`Kind::DsnQueued`].
        action: &'static str,
        /// `off`: reports are off; `limit`: the sender had enough of them in the hour; `operator`: it was failed
        /// silently.
        why: &'static str,
    } = "dsn_suppressed",
    /// A session, a recipient or a message was refused at intake.
    Refused(Box<Refusal>) = "refused",
    /// A next hop, or a domain that can't be looked up, is left alone for a while.
    Suspended(Box<Suspension>) = "suspended",
    /// It takes mail again, or was found.
    Resumed {
        /// Channel and hosts, or the domain.
        target: Arc<str>,
        /// Pauses that there were.
        step: u16,
    } = "resumed",
    /// A rule of shaping took effect, or did again.
    Shaped(Box<ShapingEvent>) = "shaped",
    /// What a rule did is over; why: `time`, `delivered`, `lifted`, `rule`.
    Unshaped(Box<ShapingEvent>, &'static str) = "unshaped",
    /// Events were lost: the queue to the event log was full. The spool still has the records.
    Lost {
        count: u64,
        /// The position of the first of them that had one.
        first: Option<Position>,
    } = "lost",
}

/// Something that nobody was to get.
#[derive(Clone, Debug)]
pub struct Discarded {
    pub client: Arc<Client>,
    /// Why nothing was kept.
    pub reason: Arc<str>,
}

/// An attempt that succeeded.
#[derive(Clone, Debug)]
pub struct Done {
    pub hop: Arc<Hop>,
    /// What the peer said, where there is one that speaks.
    pub reply: Option<Reply>,
    /// Attempts made, this one counted.
    pub attempts: u16,
}

/// An attempt or a wait that did not succeed.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    /// Where it was to go; `None` before that was known.
    pub hop: Option<Arc<Hop>>,
    /// Why; `None` where it is no longer known.
    pub failure: Option<Arc<Failure>>,
    /// What it means, where it is a peer's words.
    pub class: Option<ReplyClassification>,
    /// Attempts made, this one counted.
    pub attempts: u16,
    /// When the next attempt is due, if there is one.
    pub next_try: Option<Wall>,
}

/// A pause that somebody is given after failures.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// Channel and hosts of the next hop, or the domain that can't be looked up.
    pub target: Arc<str>,
    /// The how-manieth pause in a row, from 1.
    pub step: u16,
    /// Recipients that wait for it.
    pub recipients: u64,
    /// What happened last, if it is known.
    pub failure: Option<Arc<Failure>>,
    /// When it is tried again.
    pub next_try: Wall,
}

/// What a rule of shaping did.
#[derive(Clone, Debug)]
pub struct ShapingEvent {
    /// Its name.
    pub rule: String,
    /// Its line, `shaping.toml:7`.
    pub place: String,
    /// `backoff`, `set`, `suspend`, …
    pub action: &'static str,
    /// Whom it concerns.
    pub provider: Option<String>,
    /// The next hop, where that is no provider's.
    pub next_hop: Option<String>,
    pub source: Option<String>,
    pub tenant: Option<String>,
    pub campaign: Option<String>,
    /// The how-manieth time in a row, from 1.
    pub step: u16,
    /// When it ends, or was to.
    pub until: Wall,
    /// Who said what, in one line.
    pub peer: String,
    pub reply: String,
}

/// Something that intake turned away.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub client: Arc<Client>,
    /// At which step: `connect`, `AUTH`, `MAIL`, `RCPT`, `DATA`, `content`.
    pub step: &'static str,
    /// Reverse-path, if it was known (empty for `<>`).
    pub sender: Option<Box<str>>,
    /// The recipient, where one was refused.
    pub recipient: Option<Box<str>>,
    /// Who wanted to log in, where that failed.
    pub login: Option<Box<str>>,
    pub reply: Reply,
    /// Refusals before this one that [`RefusalMeter`] kept out of the log.
    pub unlogged: u64,
}

/// Takes events. Must not block and must not do I/O: it is called between two messages.
pub trait EventSink {
    /// Takes one. When there is no room for it, it is counted and dropped.
    fn emit(&self, event: Event);

    /// Whether anyone listens; when not, callers need not make events at all.
    fn is_on(&self) -> bool {
        true
    }
}

/// For `events = "off"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn emit(&self, _event: Event) {}

    fn is_on(&self) -> bool {
        false
    }
}

/// Keeps every event, for tests and simulations.
impl EventSink for RefCell<Vec<Event>> {
    fn emit(&self, event: Event) {
        self.borrow_mut().push(event);
    }
}

/// Decides which refusals are logged one by one, so that a flood of them (a dictionary attack)
/// fills no disk: a bucket of `burst` tokens that refills at `per_second`. One per shard.
#[derive(Clone, Debug)]
pub struct RefusalMeter {
    per_second: u64,
    burst: u64,
    /// In millionths of a token.
    level: u64,
    refilled: Mono,
    unlogged: u64,
}

const TOKEN: u64 = 1_000_000;

impl RefusalMeter {
    /// A full bucket. `burst` is at least 1.
    #[must_use]
    pub fn new(per_second: u32, burst: u32, now: Mono) -> RefusalMeter {
        let burst = u64::from(burst.max(1));
        RefusalMeter {
            per_second: u64::from(per_second),
            burst,
            level: burst * TOKEN,
            refilled: now,
            unlogged: 0,
        }
    }

    /// `Some(unlogged)` when this refusal shall be logged: how many were not since the last one
    /// that was.
    pub fn admit(&mut self, now: Mono) -> Option<u64> {
        // µs elapsed × tokens per second = millionths of a token.
        let elapsed = now.0.saturating_sub(self.refilled.0);
        let refill = elapsed.saturating_mul(self.per_second);
        self.level = self.level.saturating_add(refill).min(self.burst * TOKEN);
        self.refilled = self.refilled.max(now);
        if self.level < TOKEN {
            self.unlogged += 1;
            return None;
        }
        self.level -= TOKEN;
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_logged_at_the_rate_and_counted() {
        let mut meter = RefusalMeter::new(10, 3, Mono(0));
        let mut logged = 0;
        let mut unlogged = 0;
        // 1,000 refusals a second for 10 seconds.
        for n in 0..10_000 {
            if let Some(skipped) = meter.admit(Mono(n * 1_000)) {
                logged += 1;
                unlogged += skipped;
            }
        }
        assert!((100..=103).contains(&logged), "{logged}");
        let last = meter.admit(Mono(20_000_000)).unwrap();
        assert_eq!(logged + unlogged + last, 10_000);
    }

    #[test]
    fn a_position_is_what_it_was_made_of_and_in_its_order() {
        for (log, sequence) in [(0, 0), (0, 1), (7, (1 << 40) - 1), (255, 3)] {
            let position = Position::new(log, sequence);
            assert_eq!((position.log(), position.sequence()), (log, sequence));
        }
        assert!(Position::new(0, 9) < Position::new(1, 0));
        assert!(Position::new(1, 0) < Position::new(1, 1));
    }

    #[test]
    fn an_event_is_small_enough_to_move_around() {
        assert!(size_of::<Event>() <= 128, "{}", size_of::<Event>());
    }
}
