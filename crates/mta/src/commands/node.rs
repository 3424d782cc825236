//! Commands for the whole node, which the program runs. Some also query the shards.

use super::command::{Command, Worded};
use super::merge::MergedAnswer;
use super::{
    ControlRequest, LoginAllow, LoginBlocked, LoginList, LoginRevoke, LoginUnblock, NodeRequest,
    QueueResume, QueueSuspend, ShapingLift, ShapingList, Sources, TableFlush, TableGet, TableList,
};
use crate::control::{ControlResponse, ErrorCode, ShardAnswer};
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tokio::sync::oneshot;

/// A node command.
pub(super) trait NodeCommand: Send + Sync {
    /// The query for the shards after the node has run the command.
    fn of_shards(&self) -> Option<ControlRequest> {
        None
    }

    /// Adds the shards' answers to the responses.
    fn add(&self, _gathering: MergedAnswer, _responses: &mut [ControlResponse]) {}
}

/// A request for the node, with the channel for its responses.
#[derive(Debug)]
pub struct NodeJob {
    pub request: NodeRequest,
    pub answer: NodeAnswer,
}

/// The channel for the responses. If dropped, the client gets the error that the server is stopping.
#[derive(Debug)]
pub struct NodeAnswer(oneshot::Sender<Vec<ControlResponse>>);

impl NodeAnswer {
    pub(super) fn new() -> (NodeAnswer, oneshot::Receiver<Vec<ControlResponse>>) {
        let (answer, answered) = oneshot::channel();
        (NodeAnswer(answer), answered)
    }

    /// Sends items.
    pub fn items(self, items: impl IntoIterator<Item = ControlResponse>) {
        let done = ControlResponse::Done { matched: 0, tally: None, text: None };
        self.send(items.into_iter().chain([done]).collect());
    }

    /// Sends one sentence: the result or the error.
    pub fn told(self, told: Result<String, String>) {
        self.send(vec![match told {
            Ok(text) => ControlResponse::Done { matched: 0, tally: None, text: Some(text) },
            Err(text) => ControlResponse::Error { code: ErrorCode::Failed, text },
        }]);
    }

    /// Sends the error that the requested object does not exist.
    pub fn not_found(self, text: String) {
        self.send(vec![ControlResponse::Error { code: ErrorCode::NotFound, text }]);
    }

    fn send(self, responses: Vec<ControlResponse>) {
        // The client may have disconnected.
        let _ = self.0.send(responses);
    }
}

impl NodeCommand for QueueSuspend {}
impl NodeCommand for QueueResume {}
impl NodeCommand for TableList {}
impl NodeCommand for TableGet {}
impl NodeCommand for TableFlush {}
impl NodeCommand for Sources {}
impl NodeCommand for ShapingList {}
impl NodeCommand for ShapingLift {}
impl NodeCommand for LoginList {}
impl NodeCommand for LoginRevoke {}
impl NodeCommand for LoginAllow {}
impl NodeCommand for LoginBlocked {}
impl NodeCommand for LoginUnblock {}

/// Confirms that the clock is right: mail may expire by age again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustClock {}

impl NodeCommand for TrustClock {}

/// Gathers the files of the spool in each of its directories, for a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolSnapshot {}

impl NodeCommand for SpoolSnapshot {}

/// Reloads the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {}

impl NodeCommand for Reload {
    /// Shards process messages in order, so they count with the new configuration.
    fn of_shards(&self) -> Option<ControlRequest> {
        Some(Unrouted {}.into())
    }

    fn add(&self, gathering: MergedAnswer, responses: &mut [ControlResponse]) {
        let Some(ControlResponse::Done { text: Some(text), .. }) = responses.last_mut() else {
            return;
        };
        match gathering.tally.recipients {
            0 => {}
            1 => text.push_str("\n1 queued recipient has no route now and waits"),
            n => text.push_str(&format!("\n{n} queued recipients have no route now and wait")),
        }
    }
}

/// The state of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {}

impl NodeCommand for ServerStatus {
    fn of_shards(&self) -> Option<ControlRequest> {
        Some(ShardState {}.into())
    }

    fn add(&self, mut gathering: MergedAnswer, responses: &mut [ControlResponse]) {
        let Some(ControlResponse::Status(status)) = responses.first_mut() else { return };
        gathering.shards.sort_by_key(|shard| shard.shard);
        status.shards = gathering.shards;
        status.problems.extend(gathering.errors);
    }
}

/// The state of a shard. Only for the server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardState {}

impl Worded for ShardState {}

impl Command for ShardState {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, _: &CommandReply) -> ShardAnswer {
        ShardAnswer { status: Some(operator.status()), ..ShardAnswer::default() }
    }
}

/// The number of queued recipients without a route. Only for the server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrouted {}

impl Worded for Unrouted {}

impl Command for Unrouted {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        operator.count_unrouted(answer).await;
        ShardAnswer::default()
    }
}

/// Counts of the queue for metrics. Only for the server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCensus {}

impl Worded for QueueCensus {}

impl Command for QueueCensus {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        let census = Some(Box::new(operator.census(answer).await));
        ShardAnswer { census, ..ShardAnswer::default() }
    }
}
