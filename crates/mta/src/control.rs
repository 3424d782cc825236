//! What an operator can ask of a running server, and what it answers.
//!
//! A [`ControlRequest`] arrives at the [`ControlPlane`], which puts it before every shard, adds up
//! the [`ShardAnswer`]s and returns [`ControlResponse`]s. Both ends of the
//! socket use these types; as JSON they are documented in `docs/control.md`.

mod merge;
pub mod text;

use mail::{MessageId, Wall};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

/// Most items one `list` answers with, whatever was asked.
pub const ITEMS_MAX: u32 = 100_000;

/// A request: one JSON line on the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// What is queued, oldest first.
    QueueList {
        /// Which messages.
        #[serde(default)]
        filter: Filter,
        /// At most so many, after those that come first.
        limit: u32,
    },
    /// Everything known about one message.
    QueueShow {
        /// Which.
        #[serde(with = "text::id")]
        id: MessageId,
    },
    /// What each open recipient of one message waits for.
    QueueWhy {
        /// Which.
        #[serde(with = "text::id")]
        id: MessageId,
    },
    /// Makes recipients due now; those held stay held.
    QueueRetry {
        /// Which.
        select: Select,
    },
    /// Keeps messages from being tried until they are released.
    QueueHold {
        /// Which.
        select: Select,
        /// Why, for whoever looks later.
        reason: String,
    },
    /// Ends a hold.
    QueueRelease {
        /// Which.
        select: Select,
    },
    /// Removes messages; nobody is told.
    QueueRemove {
        /// Which.
        select: Select,
    },
    /// Reads the configuration again.
    Reload,
    /// How the server is.
    Status,
}

/// Which queued messages a command is about. The fields must all match; an empty filter matches
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Domain of a recipient that is still open, compared without case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The whole reverse-path; empty for `<>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// State of a recipient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RecipientState>,
}

/// What a changing command applies to. There is no default: everything must be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Select {
    /// One message.
    #[serde(with = "text::id")]
    Id(MessageId),
    /// All that match.
    Filter(Filter),
    /// All.
    All,
}

/// A response: JSON lines on the socket, the last one `done` or `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum ControlResponse {
    /// A queued message.
    Item(Box<QueueItem>),
    /// How the server is.
    Status(Status),
    /// The command was carried out.
    Done {
        /// Messages that matched, shown or not.
        matched: u64,
        /// A line for people, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// It was not, or not in full.
    Error {
        /// What kind of trouble.
        code: ErrorCode,
        /// A sentence for people.
        text: String,
    },
}

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// No such message in the queue, or nothing matched.
    NotFound,
    /// The request was not understood.
    BadRequest,
    /// The server could not do it.
    Failed,
}

/// A queued message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueItem {
    /// Its id.
    #[serde(with = "text::id")]
    pub id: MessageId,
    /// Reverse-path, empty for `<>`.
    pub sender: String,
    /// Why its record can't be read. Then sender, size, client and the recipients' local parts are
    /// not known: sender and client are left empty, the size is 0, `?` stands for local parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Bytes of content.
    pub body_bytes: u64,
    /// When it was accepted.
    #[serde(with = "text::wall")]
    pub received_at: Wall,
    /// How long ago that was when the server answered.
    pub age_ms: u64,
    /// The shard it lives on.
    pub shard: u16,
    /// Why it is held, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The client that handed it in: address, then EHLO argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Recipients that are still open.
    pub recipients: Vec<QueueRecipient>,
    /// Recipients in its envelope, those done with included.
    pub recipients_count: u32,
}

/// A recipient that is still open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRecipient {
    /// Index in the envelope.
    pub index: u32,
    /// The address.
    pub address: String,
    /// Where it stands.
    pub state: RecipientState,
    /// The one thing it waits for.
    pub blocker: Blocker,
    /// When it is given up if nothing changes; once it was given up, the next try to report it.
    #[serde(with = "text::wall")]
    pub expires_at: Wall,
    /// Attempts so far.
    pub attempts: u16,
    /// When it is due, if it waits for a time.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Wall>,
    /// How the last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Name or pattern of its route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Channel and next hop, as the ready queue is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
}

/// Where a recipient stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipientState {
    /// Waits for its time, or for its route to be found.
    Scheduled,
    /// May go, and waits for its turn at the next hop.
    Ready,
    /// Is being tried.
    InFlight,
    /// Waits for an operator.
    Held,
    /// Was given up, and the report about it waits for room in the spool, or for its record to be
    /// read.
    Unreported,
}

/// The one thing a recipient waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// For programs.
    pub kind: BlockerKind,
    /// For people, to follow "waiting for": `a connection slot of mx.example.com, 50/50 in use`.
    pub text: String,
    /// When it ends at the latest or is looked at again.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
}

/// Kinds of blockers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockerKind {
    /// The time of the next try.
    Time,
    /// Finding the route and next hop (DNS).
    Resolving,
    /// A place among the DNS lookups that may be under way at once.
    Lookup,
    /// Its turn among others for the same next hop.
    Turn,
    /// A connection slot.
    ConnectionSlot,
    /// A connection that is being opened, or a slot for opening one.
    Opening,
    /// A rate limit.
    Rate,
    /// The next hop is being left alone after failures.
    Backoff,
    /// The attempt that is running.
    Attempt,
    /// An operator.
    Operator,
    /// Memory to read its content into.
    Memory,
    /// The spool: a settle backlog, a poisoned log, no room for a report, or a record that can't be
    /// read.
    Spool,
    /// The server is stopping.
    Shutdown,
}

/// How the server is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Program version.
    pub version: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Messages with at least one open recipient.
    #[serde(default)]
    pub messages: u64,
    /// One per shard.
    pub shards: Vec<ShardStatus>,
    /// Trouble, in sentences; empty when all is well.
    pub problems: Vec<String>,
}

/// How a shard is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardStatus {
    /// Its number.
    pub shard: u16,
    /// Client sessions open.
    pub sessions: u64,
    /// Connections to next hops open.
    pub connections: u64,
    /// Queued recipients.
    pub recipients: u64,
    /// Of these, held.
    pub held: u64,
    /// Of these, being tried.
    pub in_flight: u64,
    /// Of these, given up while there is no room in the spool for the report.
    #[serde(default)]
    pub unreported: u64,
}

/// Puts a request before one shard and must not block. The shard sends its answer or, when it is
/// stopping, drops the sender; nobody may be listening any more. `Reload` never comes here.
pub type ShardPort = Box<dyn Fn(ControlRequest, oneshot::Sender<ShardAnswer>) + Send + Sync>;

/// What a shard answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardAnswer {
    /// `QueueList`: its oldest that match, at most `limit`, in ascending order of
    /// (`received_at`, `id`). `QueueShow`, `QueueWhy`: the message if it is here.
    pub items: Vec<QueueItem>,
    /// Messages that matched, including those that `limit` kept out; for commands, messages
    /// changed.
    pub matched: u64,
    /// `Status`.
    pub status: Option<ShardStatus>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// A request that concerns the node rather than its shards.
#[derive(Debug)]
pub enum NodeJob {
    /// Read the configuration again: `Ok` says what changed, `Err` why the old one stays.
    Reload(oneshot::Sender<Result<String, String>>),
    /// Version, uptime, problems; the shards are filled in by the asker.
    Status(oneshot::Sender<Status>),
}

/// Puts requests before the shards and merges what they answer.
pub struct ControlPlane {
    shards: Vec<ShardPort>,
    node: mpsc::Sender<NodeJob>,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// `shards` in order of their numbers.
    #[must_use]
    pub fn new(shards: Vec<ShardPort>, node: mpsc::Sender<NodeJob>) -> ControlPlane {
        ControlPlane { shards, node }
    }

    /// Carries out a request. The last response is `Done` or `Error`; one message per item.
    pub async fn handle(&self, request: ControlRequest) -> Vec<ControlResponse> {
        match request {
            ControlRequest::Reload => self.reload().await,
            ControlRequest::Status => self.status().await,
            ControlRequest::QueueList { filter, limit } => {
                let request = ControlRequest::QueueList { filter, limit: limit.min(ITEMS_MAX) };
                let answers = self.ask_shards(&request).await;
                merge::responses(&request, answers)
            }
            request => {
                let answers = self.ask_shards(&request).await;
                merge::responses(&request, answers)
            }
        }
    }

    async fn reload(&self) -> Vec<ControlResponse> {
        let (answer, answered) = oneshot::channel();
        let sent = self.node.send(NodeJob::Reload(answer)).await.is_ok();
        let outcome = if sent { answered.await.ok() } else { None };
        vec![match outcome {
            Some(Ok(text)) => ControlResponse::Done { matched: 0, text: Some(text) },
            Some(Err(text)) => ControlResponse::Error { code: ErrorCode::Failed, text },
            None => stopping(),
        }]
    }

    async fn status(&self) -> Vec<ControlResponse> {
        let (answer, answered) = oneshot::channel();
        let sent = self.node.send(NodeJob::Status(answer)).await.is_ok();
        let Some(mut status) = (if sent { answered.await.ok() } else { None }) else {
            return vec![stopping()];
        };
        for (shard, answer) in self.ask_shards(&ControlRequest::Status).await.iter().enumerate() {
            match (&answer.status, &answer.error) {
                (Some(of_shard), _) => status.shards.push(of_shard.clone()),
                (None, error) => {
                    let error = error.as_deref().unwrap_or("no answer");
                    status.problems.push(format!("shard {shard}: {error}"));
                }
            }
        }
        vec![ControlResponse::Status(status), ControlResponse::Done { matched: 0, text: None }]
    }

    /// Asks all shards at once; one answer each, in order.
    async fn ask_shards(&self, request: &ControlRequest) -> Vec<ShardAnswer> {
        let mut waiting = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let (answer, answered) = oneshot::channel();
            shard(request.clone(), answer);
            waiting.push(answered);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for answered in waiting {
            let answer = answered.await.ok();
            answers.push(answer.unwrap_or_else(|| ShardAnswer {
                error: Some("it is stopping".to_owned()),
                ..ShardAnswer::default()
            }));
        }
        answers
    }
}

fn stopping() -> ControlResponse {
    ControlResponse::Error { code: ErrorCode::Failed, text: "the server is stopping".to_owned() }
}
