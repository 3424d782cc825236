//! The commands of the control socket.
//!
//! Each command for shards is one file: its arguments, its action on a shard, and the texts of its answer. The
//! [`ControlPlane`] sends it to all shards and merges their answers into
//! [`ControlResponse`](crate::control::ControlResponse)s. Commands for the whole node have their arguments here, or
//! next to their answers in [`control`](crate::control), and the program runs them. The JSON format is documented in
//! `docs/control.md`.

mod command;
mod fail;
mod hold;
mod merge;
mod moving;
mod node;
mod plane;
mod reading;
mod retry;

pub use fail::{QueueFail, QueueRemove};
pub use hold::{QueueHold, QueueRelease};
pub use moving::QueueMove;
pub use node::{
    NodeAnswer, NodeJob, QueueCensus, Reload, ServerStatus, ShardState, SpoolSnapshot, TrustClock,
    Unrouted,
};
pub use plane::ControlPlane;
pub use reading::{QueueList, QueueShow, QueueSummary, QueueWhy};
pub use retry::QueueRetry;

pub use crate::control::{
    LoginAllow, LoginBlocked, LoginList, LoginRevoke, LoginUnblock, QueueResume, QueueSuspend,
    ShapingLift, ShapingList, Sources, TableFlush, TableGet, TableList,
};

use crate::control::ShardAnswer;
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use command::{Command, Worded};
use node::NodeCommand;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tokio::sync::mpsc;

/// The target of a request.
enum RequestTarget<'a> {
    Shards(&'a dyn Worded),
    Node(&'a dyn NodeCommand, Box<NodeRequest>),
}

/// Generates the request types for shard commands and node commands.
macro_rules! requests {
    (
        shards: $($(#[$of_shards:meta])* $command:ident),*;
        node: $($(#[$of_node:meta])* $order:ident),*;
    ) => {
        /// A request: one JSON line on the socket.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
        pub enum ControlRequest {
            $($(#[$of_shards])* $command($command),)*
            $($(#[$of_node])* $order($order),)*
        }

        /// A request for the node.
        #[derive(Debug)]
        pub enum NodeRequest {
            $($order($order),)*
        }

        $(impl From<$command> for ControlRequest {
            fn from(command: $command) -> ControlRequest {
                ControlRequest::$command(command)
            }
        })*

        $(impl From<$order> for ControlRequest {
            fn from(command: $order) -> ControlRequest {
                ControlRequest::$order(command)
            }
        })*

        impl ControlRequest {
            fn kind(&self) -> RequestTarget<'_> {
                match self {
                    $(ControlRequest::$command(command) => RequestTarget::Shards(command),)*
                    $(ControlRequest::$order(order) => {
                        RequestTarget::Node(order, Box::new(NodeRequest::$order(order.clone())))
                    })*
                }
            }
        }

        async fn run<W: World>(
            request: ControlRequest,
            operator: &Rc<Operator<W>>,
            answer: &CommandReply,
        ) -> ShardAnswer {
            match request {
                $(ControlRequest::$command(command) => command.run(operator, answer).await,)*
                $(ControlRequest::$order(_) => ShardAnswer::default(),)*
            }
        }
    };
}

requests! {
    shards: QueueList, QueueShow, QueueWhy, QueueRetry, QueueHold, QueueRelease, QueueRemove, QueueFail, QueueMove,
        QueueSummary, #[serde(skip)] ShardState, #[serde(skip)] Unrouted, #[serde(skip)] QueueCensus;
    node: QueueSuspend, QueueResume, TrustClock, SpoolSnapshot, TableList, TableGet, TableFlush, Sources, ShapingList, ShapingLift,
        LoginList, LoginRevoke, LoginAllow, LoginBlocked, LoginUnblock, Reload, #[serde(rename = "status")] ServerStatus;
}

/// Sends a request to one shard, without blocking. The shard returns its answer in parts and marks the last one. A
/// stopping shard drops the sender. A dropped receiver ends the command.
pub type ShardPort = Box<dyn Fn(ControlRequest, mpsc::Sender<ShardAnswer>) + Send + Sync>;

/// Runs a request on a shard, in a separate task.
pub(crate) fn handle<W: World>(
    operator: &Rc<Operator<W>>,
    request: ControlRequest,
    parts: mpsc::Sender<ShardAnswer>,
) {
    let operator = Rc::clone(operator);
    operator.clone().spawn(async move {
        let answer = operator.answer_to(parts.clone());
        let mut last = run(request, &operator, &answer).await;
        (last.tally, last.is_last) = (answer.tally(), true);
        // The receiver may be gone.
        let _ = parts.send(last).await;
    });
}

#[cfg(test)]
mod tests;
