//! Selections by operators, and answers of a running server.
//!
//! Both ends of the socket use these types; their JSON form is documented in `docs/control.md`. The commands are in
//! [`commands`](crate::commands).

mod census;
mod effect;
mod login;
mod scope;
mod selection;
mod summary;
mod suspension;
mod tables;
pub mod text;

use crate::overrides::Overrides;
use ::classes::ReplyClass;
pub use census::{CENSUS_STATES, Census, CensusRows, CountedRecipients};
pub use effect::{Effect, Lift, ShapingLift, ShapingList};
pub use login::{
    BlockedItem, LimitCount, LoginAllow, LoginBlocked, LoginItem, LoginList, LoginRevoke,
    LoginUnblock, Revocation,
};
use mail::{MessageId, Wall};
pub use scope::{HopSeen, Scope};
pub(crate) use selection::is_hop;
pub use selection::{Filter, QueuedRecipient, Select};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub(crate) use summary::Counting;
pub use summary::{AGE_BUCKETS, AgeGroup, Summary, SummaryRow};
pub(crate) use suspension::longest;
pub use suspension::{QueueResume, QueueSuspend, Suspension};
pub use tables::{
    TableAnswer, TableFlush, TableGet, TableItem, TableList, TableSnapshot, TableStep,
};

/// Maximum number of items in an answer to `list`, whatever the request.
pub const ITEMS_MAX: u32 = 100_000;
/// Maximum number of recipients in an item of a list.
pub const LISTED_RECIPIENTS_MAX: usize = 10;
/// Maximum number of octets kept of a failed dialogue.
pub const DIALOGUE_BYTES_MAX: usize = 4_096;
/// Version of the socket's protocol.
pub const PROTOCOL: u32 = 2;

/// A response: JSON lines on the socket, the last one `done` or `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum ControlResponse {
    Item(Box<QueueItem>),
    /// State of the server.
    Status(Status),
    /// Counts of queued mail.
    Summary(Box<Summary>),
    /// A lookup table.
    Table(Box<TableItem>),
    /// The result of a table lookup.
    TableAnswer(Box<TableAnswer>),
    /// A source.
    Source(Box<SourceItem>),
    /// An effect in force by a shaping rule.
    Effect(Box<Effect>),
    /// A login.
    Login(Box<LoginItem>),
    /// A client that failed to log in too often.
    Blocked(Box<BlockedItem>),
    /// Progress of a command; at most twice a second from each shard.
    Progress(Tally),
    /// The command succeeded.
    Done {
        /// Matching messages, shown or not.
        matched: u64,
        /// The changes made, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tally: Option<Tally>,
        /// A line for people, if needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The command failed, or succeeded in part.
    Error {
        /// Kind of error.
        code: ErrorCode,
        /// A sentence for people.
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message is not in the queue, or no recipient matched.
    NotFound,
    /// The request is invalid.
    BadRequest,
    /// The server can't execute it.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueItem {
    #[serde(with = "text::id")]
    pub id: MessageId,
    /// Reverse-path, empty for `<>`.
    pub sender: String,
    /// The reason why its record can't be read. Sender, size, client and the recipients' local parts are unknown then:
    /// sender and client are empty, the size is 0, and local parts are `?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    pub body_bytes: u64,
    /// Time of acceptance.
    #[serde(with = "text::wall")]
    pub received_at: Wall,
    /// Age at the time of the answer.
    pub age_ms: u64,
    /// Its shard.
    pub shard: u16,
    /// The reason of the hold, if it is on hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// MT-PRIORITY, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// Further properties, if it is not internet mail: as `headers` of its `received` event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Overrides by an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Overrides>,
    /// The client: address, then EHLO argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The client's authenticated login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Open recipients; in a list, the first ten.
    pub recipients: Vec<QueueRecipient>,
    /// The last failed dialogues with their next hops; not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogues: Vec<FailedDialogue>,
    /// Number of open recipients.
    #[serde(default)]
    pub recipients_open: u32,
    /// Recipients in its envelope, including settled ones.
    pub recipients_count: u32,
}

/// The last failed dialogue with a next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedDialogue {
    /// Channel and next hop: the ready queue's name.
    pub next_hop: String,
    /// The peer as `mx.example.com[192.0.2.1]:25`.
    pub peer: String,
    /// Time of its end.
    #[serde(with = "text::wall")]
    pub at: Wall,
    /// Commands and replies, a line each, after `> ` if sent and `< ` if received. `…` marks an omission.
    pub text: String,
}

/// An open recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRecipient {
    /// Index in the envelope.
    pub index: u32,
    pub address: String,
    pub state: RecipientState,
    /// The condition for which it waits.
    pub blocker: Blocker,
    /// Time from which it expires after one more try; for a failed recipient, the next try to report it. Absent while
    /// expiry is off: on hold, suspended, or with a doubtful clock.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Wall>,
    /// Attempts so far.
    pub attempts: u16,
    /// Time of the next known event, if any.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Wall>,
    /// Result of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Class of the reply, if a peer sent one.
    #[serde(with = "text::class_option", default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ReplyClass>,
    /// Name or pattern of the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Channel and next hop: the ready queue's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// Source that its ready queue sends from; absent for the default, and before it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// State of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipientState {
    /// Waits for its next try, or for its route to be resolved.
    Scheduled,
    /// Waits for its turn at the next hop.
    Ready,
    InFlight,
    /// On hold.
    Held,
    /// Failed; the report waits for disk space in the spool, or until the message's record can be read.
    Unreported,
}

/// The condition for which a recipient waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// For programs.
    pub kind: BlockerKind,
    /// For people, to follow "waiting for": `a connection slot of mx.example.com, 50/50 in use`.
    pub text: String,
    /// Time of the next known event, if any.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockerKind {
    /// The time of the next try, or the sender's release time.
    Time,
    /// Resolution of route and next hop (DNS).
    Resolving,
    /// A permit for a DNS lookup.
    Lookup,
    /// Its turn among the mail for the same next hop.
    Turn,
    ConnectionSlot,
    /// A connection in progress, or a slot for one.
    Opening,
    /// A permit of the process for a connection, or for a mailbox worker.
    Descriptor,
    Rate,
    /// The next hop is suspended after failures.
    Backoff,
    /// The running attempt.
    Attempt,
    /// An operator, to release it.
    Operator,
    /// An operator, to resume its suspension, or everything.
    Suspended,
    /// Memory for its content.
    Memory,
    /// The spool: a settle backlog, a poisoned log, no disk space for a report, or an unreadable record.
    Spool,
    /// The server is shutting down.
    Shutdown,
}

/// State of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    /// Version of the socket's protocol.
    #[serde(default)]
    pub protocol: u32,
    /// Uptime in milliseconds.
    pub uptime_ms: u64,
    /// Messages with at least one open recipient.
    #[serde(default)]
    pub messages: u64,
    /// One per shard.
    pub shards: Vec<ShardStatus>,
    /// Problems as sentences; empty without problems.
    pub problems: Vec<String>,
    /// The problems with kind, severity, subject, next step and start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problem_list: Vec<Problem>,
    /// Suspensions by operators.
    #[serde(default)]
    pub suspensions: Vec<Suspension>,
}

/// State of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardStatus {
    pub shard: u16,
    /// Open client sessions.
    pub sessions: u64,
    /// Open connections to next hops.
    pub connections: u64,
    /// Queued recipients.
    pub recipients: u64,
    /// On hold.
    pub held: u64,
    /// In flight.
    pub in_flight: u64,
    /// Failed recipients among these, with no disk space in the spool for the report.
    #[serde(default)]
    pub unreported: u64,
}

/// Maximum number of parts of a shard's answer that wait for their reader.
pub const PARTS_MAX: usize = 4;

/// An answer of a shard, or a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardAnswer {
    /// `QueueList`: the oldest matching messages, at most `limit`, in ascending order of (`received_at`, `id`), over
    /// all parts. `QueueShow`, `QueueWhy`: the message if it is on this shard.
    pub items: Vec<QueueItem>,
    /// The changes made so far, including those of earlier parts.
    pub tally: Tally,
    /// `Status`.
    pub status: Option<ShardStatus>,
    /// `QueueSummary`.
    pub summary: Option<Box<Summary>>,
    /// `QueueCensus`.
    pub census: Option<Box<Census>>,
    /// The error, if one occurred.
    pub error: Option<String>,
    /// The reason why the request is invalid: then every shard reports it, and nothing was changed.
    pub refused: Option<String>,
    /// The last part.
    pub is_last: bool,
}

/// The changes made by a command, on one shard or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Matching messages, shown or not; for commands, changed messages.
    pub messages: u64,
    /// Changed recipients, for commands that change recipients.
    pub recipients: u64,
    /// Recipients not changed, because they are on hold.
    pub held: u64,
    /// Recipients not changed, because they are in flight.
    pub in_flight: u64,
    /// Recipients examined so far.
    pub seen: u64,
    /// Recipients to examine.
    pub total: u64,
}

impl Tally {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            messages: self.messages.saturating_add(other.messages),
            recipients: self.recipients.saturating_add(other.recipients),
            held: self.held.saturating_add(other.held),
            in_flight: self.in_flight.saturating_add(other.in_flight),
            seen: self.seen.saturating_add(other.seen),
            total: self.total.saturating_add(other.total),
        }
    }
}

/// Severity of a problem.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Mail is rejected or not delivered: `/healthz` fails.
    #[default]
    Error,
    /// Mail continues, or some mail waits; an operator should look.
    Warning,
    /// Mail continues; an operator need not look at once, and `/healthz` stays `ok`.
    Notice,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        }
    }
}

/// A current problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Kind of problem: `log`, `mailboxes`, `state_file`.
    pub kind: String,
    pub severity: Severity,
    /// The subject: a path, a name; empty if there is only one.
    pub about: String,
    /// A sentence.
    pub text: String,
    /// The recommended action.
    pub next_step: String,
    /// Start, as far as known.
    #[serde(with = "text::wall")]
    pub since: Wall,
}

/// Maximum number of courses of one source in an answer: those of the last days, and among these the largest.
pub const SHOWN_COURSES_MAX: usize = 1_000;

/// Lists the sources, and the progress of warm-ups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {}

/// A source of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceItem {
    pub name: String,
    /// It has a warm-up plan.
    #[serde(default)]
    pub warms_up: bool,
    /// Warm-up courses by provider or set of hosts to which mail was sent; a part if there are more than a thousand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub courses: Vec<WarmupItem>,
    /// Number of courses.
    #[serde(default)]
    pub courses_count: u64,
}

/// Progress of a source's warm-up with a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmupItem {
    /// The provider, or the set of hosts.
    pub towards: String,
    /// Day of the warm-up, from 1.
    pub stage: u32,
    /// Number of days of the plan.
    pub stages: u32,
    /// Maximum number of recipients on that day; absent after the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The UTC day of the counts.
    pub date: String,
    /// Recipients granted on that day.
    pub used: u32,
    pub tried: u32,
    pub delivered: u32,
    /// Recipients deferred or rejected as blocked or rate limited.
    pub held: u32,
}
