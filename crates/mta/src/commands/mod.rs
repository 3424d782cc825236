//! What an operator can ask of a running server.
//!
//! A command of the shards is one file: its arguments, what it does on a shard, and the words of its answer. The
//! [`ControlPlane`] puts it before every shard and makes [`ControlResponse`](crate::control::ControlResponse)s of
//! what they answer. As JSON they are documented in `docs/control.md`.

mod command;
mod fail;
mod hold;
mod merge;
mod moving;
mod plane;
mod reading;
mod remove;
mod retry;

pub use fail::QueueFail;
pub use hold::{QueueHold, QueueRelease};
pub use moving::QueueMove;
pub use plane::{ControlPlane, NodeJob};
pub use reading::{QueueList, QueueShow, QueueSummary, QueueWhy};
pub use remove::QueueRemove;
pub use retry::QueueRetry;

use crate::control::{Lift, Scope, ShardAnswer, text};
use crate::operator::{Answer, Operator};
use crate::seams::World;
use command::{Command, Worded};
use mail::Wall;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tokio::sync::mpsc;

/// Makes the request of the commands that shards carry out, and of what the node does.
macro_rules! requests {
    (shards: $($command:ident),*; node: $($node:tt)*) => {
        /// A request: one JSON line on the socket.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
        pub enum ControlRequest {
            $($command($command),)*
            $($node)*
        }

        $(impl From<$command> for ControlRequest {
            fn from(command: $command) -> ControlRequest {
                ControlRequest::$command(command)
            }
        })*

        impl ControlRequest {
            /// The words of its answer; `None`: they are the node's.
            fn worded(&self) -> Option<&dyn Worded> {
                match self {
                    $(ControlRequest::$command(command) => Some(command),)*
                    _ => None,
                }
            }
        }

        async fn run<W: World>(
            request: ControlRequest,
            operator: &Rc<Operator<W>>,
            answer: &Answer,
        ) -> ShardAnswer {
            match request {
                $(ControlRequest::$command(command) => command.run(operator, answer).await,)*
                // What the node asks for when it is asked itself.
                ControlRequest::Status => {
                    ShardAnswer { status: Some(operator.status()), ..ShardAnswer::default() }
                }
                ControlRequest::Unrouted => {
                    operator.count_unrouted(answer).await;
                    ShardAnswer::default()
                }
                _ => ShardAnswer::default(),
            }
        }
    };
}

requests! {
    shards: QueueList, QueueShow, QueueWhy, QueueRetry, QueueHold, QueueRelease, QueueRemove, QueueFail, QueueMove,
        QueueSummary;
    node:
    /// Stops delivery, also of mail to come, until it is resumed.
    QueueSuspend {
        scope: Scope,
        /// Why, for whoever looks later.
        #[serde(default)]
        reason: String,
        /// When it ends by itself.
        #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
        until: Option<Wall>,
    },
    QueueResume {
        scope: Scope,
    },
    /// The clock is right: mail may be given up for its age again.
    TrustClock,
    /// Lookup tables, and how they are.
    TableList,
    /// What a table says of a key, and how it comes to say so.
    TableGet {
        /// Its name.
        table: String,
        /// The key.
        key: String,
    },
    /// Forgets what is cached of a table.
    TableFlush {
        /// Its name.
        table: String,
        /// Of this key only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Sources, and how far those have come that warm up.
    Sources,
    /// What rules of shaping have set in force.
    ShapingList,
    /// Ends what rules of shaping have set in force.
    ShapingLift {
        /// Which; without any field all.
        lift: Lift,
    },
    /// Reads the configuration again.
    Reload,
    /// How the server is.
    Status,
    /// How many queued recipients have no route. Asked by the server itself after a reload.
    #[serde(skip)]
    Unrouted,
}

/// Puts a request before one shard and must not block. The shard sends its answer in parts, the
/// last of which says so, or, when it is stopping, drops the sender; when nobody listens any more
/// it stops what it does. `Reload` and suspensions never come here.
pub type ShardPort = Box<dyn Fn(ControlRequest, mpsc::Sender<ShardAnswer>) + Send + Sync>;

/// Answers an operator on a shard, in a task of its own.
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
        // Nobody may be listening any more.
        let _ = parts.send(last).await;
    });
}

#[cfg(test)]
mod tests;
