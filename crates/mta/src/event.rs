//! Message events for the event log and its consumers, one [`Event`] each time.
//!
//! Making an event is cheap on purpose: it shares the envelope, the client and the hop that its emitter holds already,
//! and nothing is formatted. [`json`] formats the lines later, outside the shard.

pub mod json;
mod settings;

pub use settings::{EventFile, EventSettings};

use crate::clients::asker_of;
use crate::encryption::Encryption;
use crate::overrides::Overrides;
use crate::rate_limits::settings::{LimitBy, Maximum, Over};
use ::classes::ReplyClassification;
use auth::checks::AuthSummary;
use auth::iprev;
use config::{MailFacts, Tenancy};
use lookup::Requester;
use mail::{Envelope, Failure, MessageId, Mono, Reply, RequireTls, Wall};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

/// Position in the spool of the record from which an event derives. Positions of one log only grow, so a reader can
/// skip events that it has processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(NonZeroU64);

impl Position {
    /// Bits of a sequence number beside the log's number; the spool uses 40.
    const SEQUENCE_BITS: u32 = 56;

    /// Position of a record in a log, packed into one integer, because events are moved often.
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

    /// The record in the log.
    #[must_use]
    pub fn sequence(self) -> u64 {
        (self.0.get() & ((1 << Position::SEQUENCE_BITS) - 1)) - 1
    }
}

/// The signatures of a message, each as `SELECTOR._domainkey.DOMAIN`; `None` if unsigned. A single pointer, because
/// events are moved often.
pub type Signed = Option<Arc<Vec<Box<str>>>>;

/// The configured header fields, with their values; `None` if the message has none. A single pointer, too.
pub type Headers = Option<Arc<Vec<(Arc<str>, Box<str>)>>>;

/// Addresses in RCPT that recipients were expanded from, by the recipient's index. A single pointer, too.
pub type Given = Option<Arc<Vec<(u32, Box<str>)>>>;

/// Indexes into the envelope's recipients.
pub type Recipients = SmallVec<[u32; 2]>;

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: Wall,
    /// The message; `None` if the rejection came before there was one.
    pub message: Option<EventMessage>,
    /// The recipients; empty if it concerns the message as a whole. Each gets its own line.
    pub recipients: Recipients,
    pub kind: Kind,
}

/// The message of an event.
#[derive(Clone, Debug)]
pub struct EventMessage {
    pub id: MessageId,
    /// The record from which the event derives, when it has one.
    pub position: Option<Position>,
    /// Sender and recipients; `None` if they are not in memory and not worth a read: then `body_bytes` is unknown, too.
    pub envelope: Option<Arc<Envelope>>,
    /// Time of acceptance; the event's delay counts from here.
    pub received_at: Wall,
    pub body_bytes: u64,
    /// Labels of the sender, if any.
    pub labels: Option<Box<Labels>>,
}

/// Labels by which senders find their mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    pub tenant: Option<Arc<str>>,
    pub campaign: Option<Arc<str>>,
    /// The requested pool.
    pub pool: Option<Arc<str>>,
}

/// The client of a message; made once per session and shared by its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address and port.
    pub address: SocketAddr,
    /// The proxy that reported the address, if the client is behind one.
    pub proxy: Option<IpAddr>,
    /// The name of its address in the DNS, after the lookup.
    pub name: OnceLock<iprev::IprevCheck>,
    /// Its EHLO argument; empty before EHLO.
    pub helo: Arc<str>,
    pub listener: Arc<str>,
    /// `ESMTP`, `ESMTPS`, `LMTP`, … (RFC 3848).
    pub protocol: &'static str,
    /// `None`: in the clear.
    pub tls: Option<Encryption>,
    /// Identity by its certificate, if that is accepted for authentication.
    pub certified: Option<Arc<str>>,
    /// The authenticated login.
    pub login: Option<Arc<str>>,
    /// The SASL mechanism of the login.
    pub mechanism: Option<&'static str>,
    /// The user id of a program of this machine.
    pub uid: Option<u32>,
}

impl Client {
    /// The name of its address, if it was looked up and resolves back to it.
    #[must_use]
    pub fn confirmed_name(&self) -> Option<&str> {
        self.name.get().and_then(|found| found.name.as_deref())
    }

    /// The client as requester of table lookups.
    #[must_use]
    pub fn requester(&self) -> Requester {
        asker_of(self.address.ip())
    }

    /// The facts about its mail that conditions may name, without sender and recipient.
    #[must_use]
    pub fn facts<'a>(&'a self, tenancy: Option<&'a Tenancy>) -> MailFacts<'a> {
        MailFacts {
            sender: None,
            recipient: None,
            login: self.login.as_deref(),
            client: Some(self.address.ip()),
            listener: Some(&self.listener),
            tenant: tenancy.map(|tenancy| &*tenancy.name),
        }
    }
}

/// The target of an attempt; made once per connection and shared by its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The route's name or pattern, as `explain` shows it.
    pub route: Arc<str>,
    /// `smtp`, `lmtp`, `maildir`, `pipe`, `discard`, `x400`.
    pub channel: &'static str,
    /// The provider of the hosts, if shaping knows it.
    pub provider: Option<Arc<str>>,
    /// The source, if the route has a pool.
    pub source: Option<Arc<str>>,
    /// The peer as `mx.example.com[192.0.2.1]:25`, or the path of a maildir.
    pub peer: Arc<str>,
    /// `None`: in the clear, or local.
    pub tls: Option<Encryption>,
    /// The TLS policy: `opportunistic`, `dane`, …
    pub tls_policy: Option<&'static str>,
}

/// Declares the kinds of events, each with its value in the field `event`.
macro_rules! events {
    ($($(#[$doc:meta])* $kind:ident $({ $($field:tt)* })? $(( $($value:tt)* ))? = $name:literal,)*) => {
        /// Kind of an event, with its details.
        #[derive(Clone, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind $({ $($field)* })? $(( $($value)* ))?,)*
        }

        impl Kind {
            /// The value for each kind, in the order of `docs/events.md`.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The value in the field `event`.
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
    /// Accepted and durable: 250 was (or will be) sent.
    Received {
        client: Arc<Client>,
        /// Results of the sender checks.
        checked: AuthSummary,
        /// TLS requirement (REQUIRETLS, TLS-Required: No).
        require_tls: RequireTls,
        /// Signatures added here.
        signed: Signed,
        /// The configured header fields.
        headers: Headers,
        /// Addresses in RCPT that recipients were expanded from, by index; `None` if all were given themselves.
        given: Given,
    } = "received",
    /// Stored in a local mailbox (maildir, LMTP) or discarded by a route.
    Delivered(Box<Done>) = "delivered",
    /// The next hop accepted responsibility.
    Relayed(Box<Done>) = "relayed",
    /// Deferred; will be retried.
    Deferred(Box<FailedAttempt>) = "deferred",
    /// Failed permanently.
    Failed(Box<FailedAttempt>) = "failed",
    /// Expired.
    Expired(Box<FailedAttempt>) = "expired",
    /// A DSN about a delay was sent.
    Delayed(Box<FailedAttempt>) = "delayed",
    /// Accepted and discarded: 250 was sent.
    Discarded(Box<Discarded>) = "discarded",
    /// On hold for an operator.
    Held { reason: Arc<str> } = "held",
    /// Released by an operator.
    Released = "released",
    /// Removed by an operator.
    Removed = "removed",
    /// An operator moved it: the overrides in force now, which may be empty.
    Moved(Box<Overrides>) = "moved",
    /// A DSN about this message was queued.
    DsnQueued {
        /// Id of the DSN.
        dsn: MessageId,
        /// RFC 3464 §2.3.3: `failed`, `delayed`, `delivered`, `relayed`, `expanded`.
        action: &'static str,
    } = "dsn_queued",
    /// A DSN about this message was due and not sent.
    DsnSuppressed {
        /// As in [`Kind::DsnQueued`].
        action: &'static str,
        /// `off`: reports are off; `limit`: the sender's hourly limit is reached; `operator`: failed by an operator
        /// without a report.
        why: &'static str,
    } = "dsn_suppressed",
    /// A session, a recipient or a message was rejected at intake.
    Refused(Box<Refusal>) = "refused",
    /// A next hop, or a domain that can't be resolved, is suspended for a while.
    Suspended(Box<Suspension>) = "suspended",
    /// It accepts mail again, or was resolved.
    Resumed {
        target: Box<SuspendedTarget>,
        /// Number of pauses.
        step: u16,
    } = "resumed",
    /// A shaping rule took effect, or did again.
    Shaped(Box<ShapingEvent>) = "shaped",
    /// The effect of a rule ended; the reason: `time`, `delivered`, `lifted`, `rule`.
    Unshaped(Box<ShapingEvent>, &'static str) = "unshaped",
    /// A problem of the list began.
    Problem(Box<ListedProblem>) = "problem",
    /// A problem of the list is gone.
    ProblemCleared(Box<ListedProblem>) = "problem_cleared",
    /// A login, sender, domain or listener reached a `[[limit]]`.
    Limited(Box<LimitEvent>) = "limited",
    /// Events were lost, because the queue to the event log was full. The spool still has the records.
    Lost {
        count: u64,
        /// The first position among the lost events.
        first: Option<Position>,
    } = "lost",
}

/// A message that was accepted and discarded.
#[derive(Clone, Debug)]
pub struct Discarded {
    pub client: Arc<Client>,
    /// The reason.
    pub reason: Arc<str>,
}

/// A successful attempt.
#[derive(Clone, Debug)]
pub struct Done {
    pub hop: Arc<Hop>,
    /// The peer's reply, if the channel has one.
    pub reply: Option<Reply>,
    /// Attempts made, including this one.
    pub attempts: u16,
    pub times: AttemptTimes,
}

/// Parts of the time of an attempt, in milliseconds. The time before is the rest of the message's delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// The wait for a connection.
    pub waiting_ms: u32,
    /// Opening of the connection; 0 if an earlier message opened it.
    pub opening_ms: u32,
    /// The transaction.
    pub sending_ms: u32,
}

/// An attempt or a wait without success.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    /// The hop; `None` if it was not known yet.
    pub hop: Option<Arc<Hop>>,
    /// The reason; `None` if it is no longer known.
    pub failure: Option<Arc<Failure>>,
    /// Class of the failure, if it is a peer's reply.
    pub class: Option<ReplyClassification>,
    /// Attempts made, including this one.
    pub attempts: u16,
    /// Time of the next attempt, if any.
    pub next_try: Option<Wall>,
    pub times: AttemptTimes,
}

/// A next hop from one source, or a domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuspendedTarget {
    /// Channel, route and hosts, or the domain.
    pub next_hop: Arc<str>,
    /// The source of a pool; empty without one.
    pub source: Arc<str>,
}

impl fmt::Display for SuspendedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.next_hop)?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " from {}", self.source) }
    }
}

/// A problem of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedProblem {
    pub kind: String,
    pub severity: &'static str,
    /// The subject; empty if there is only one.
    pub about: String,
    pub text: String,
    /// The recommended action.
    pub next_step: String,
    pub since: Wall,
}

/// A pause of deliveries after failures.
#[derive(Clone, Debug)]
pub struct Suspension {
    /// The next hop and its source, or the domain that can't be resolved.
    pub target: SuspendedTarget,
    /// Number of pauses in a row, from 1.
    pub step: u16,
    /// Waiting recipients.
    pub recipients: u64,
    /// The last failure, if known.
    pub failure: Option<Arc<Failure>>,
    /// Time of the next try.
    pub next_try: Wall,
}

/// The effect of a shaping rule.
#[derive(Clone, Debug)]
pub struct ShapingEvent {
    pub rule: String,
    /// Its line: `shaping.toml:7`.
    pub place: String,
    /// `backoff`, `set`, `suspend`, …
    pub action: &'static str,
    /// The provider concerned.
    pub provider: Option<String>,
    /// The next hop, if it has no provider.
    pub next_hop: Option<String>,
    pub source: Option<String>,
    pub tenant: Option<String>,
    pub campaign: Option<String>,
    /// Number of effects in a row, from 1.
    pub step: u16,
    /// Its end, or its planned end.
    pub until: Wall,
    /// The peer, and its reply on one line.
    pub peer: String,
    pub reply: String,
}

/// A limit that was reached.
#[derive(Clone, Debug)]
pub struct LimitEvent {
    pub by: LimitBy,
    /// The login, sender, domain or listener.
    pub value: Arc<str>,
    pub maximum: Maximum,
    pub over: Over,
    /// The client with the first message or recipient beyond the limit.
    pub client: Arc<Client>,
}

/// A rejection at intake.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub client: Arc<Client>,
    /// The step: `connect`, `AUTH`, `MAIL`, `RCPT`, `DATA`, `content`.
    pub step: &'static str,
    /// Reverse-path, if known (empty for `<>`).
    pub sender: Option<Box<str>>,
    /// The rejected recipient, if any.
    pub recipient: Option<Box<str>>,
    /// The claimed login, if authentication failed.
    pub login: Option<Box<str>>,
    /// The SASL mechanism, if authentication failed.
    pub mechanism: Option<&'static str>,
    pub reply: Reply,
    /// Earlier rejections that [`RefusalMeter`] did not log.
    pub unlogged: u64,
}

/// Receives events. Must not block and must not do I/O: it is called between two messages.
pub trait EventSink {
    /// Emits an event. If the queue is full, the event is counted and dropped.
    fn emit(&self, event: Event);

    /// Returns true if events are written; if not, callers need not create them.
    fn is_on(&self) -> bool {
        true
    }

    /// Returns true if begin and end of sessions are written.
    fn takes_sessions(&self) -> bool {
        false
    }

    /// Notes begin or end of a session. The event log has neither.
    fn note_session(&self, _noted: NotedSession) {}
}

/// Begin or end of a client's session, for logs.
#[derive(Clone, Debug)]
pub struct NotedSession {
    pub at: Wall,
    pub client: Arc<Client>,
    /// `None`: it begins.
    pub ended: Option<SessionEnd>,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub why: SessionEndReason,
    /// The last command in capitals; `CONNECT` before the first, `END-OF-MESSAGE` after content.
    pub after: &'static str,
    /// Commands by name, as Postfix writes them: ` ehlo=1 mail=1 rcpt=0/1 commands=2/3`.
    pub commands: Box<str>,
}

/// The reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEndReason {
    /// QUIT, or a refusal of the whole session.
    Closed,
    /// The client closed the connection without QUIT.
    Lost,
    Timeout,
    TooManyErrors,
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

/// Stores every event, for tests and simulations.
impl EventSink for RefCell<Vec<Event>> {
    fn emit(&self, event: Event) {
        self.borrow_mut().push(event);
    }
}

/// Rate limit for logging rejections one by one, so that a flood (a dictionary attack) does not fill the disk: a bucket
/// of `burst` tokens that refills at `per_second`. One per shard.
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

    /// Returns `Some(unlogged)` if this rejection is due to be logged, with the number of unlogged ones since the last
    /// logged one.
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
        // 1,000 rejections per second for 10 seconds.
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
