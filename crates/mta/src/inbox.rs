//! Messages to a shard from other threads.

use crate::commands::ControlRequest;
use crate::control::{ShardAnswer, Suspension};
use crate::event::ListedProblem;
pub use crate::ingress::{ALERT_EXPIRES_AFTER, GeneratedMessage, Purpose, QueuedOwn};
use config::Config;
use queue::lease::LeaseMessage;
use spool::{Completion, Ticket};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// A message to a shard from another thread.
#[derive(Debug)]
pub enum ShardMessage<A> {
    /// A connection to serve.
    Connection {
        accepted: A,
        peer: SocketAddr,
        /// Index into the configured listeners.
        listener: usize,
    },
    /// Completions from a commit thread.
    Completions(Vec<(Ticket, Completion)>),
    /// A lease message from another shard's queue.
    Lease {
        from: u16,
        message: LeaseMessage,
    },
    Control {
        request: Box<ControlRequest>,
        /// The receiver of the answer's parts.
        answer: mpsc::Sender<ShardAnswer>,
    },
    /// All suspensions, after a change by an operator.
    Suspensions(Arc<[Suspension]>),
    Reload(Arc<Config>),
    /// A problem of the list began, or is gone (`is_cleared`): for the events.
    Problem {
        problem: Box<ListedProblem>,
        is_cleared: bool,
    },
    /// A generated message.
    Own(Box<GeneratedMessage>),
    /// Answered at once, which proves that the shard turns its loop.
    AreYouAlive(oneshot::Sender<()>),
    /// Shutdown: transactions get `grace_ms`, then a 421 reply.
    Stop {
        grace_ms: u64,
        /// Notified when no work is in progress any more.
        done: oneshot::Sender<()>,
    },
}

/// The sending side of a shard's inbox, for threads that run no shard.
pub type ShardSender<A> = mpsc::UnboundedSender<ShardMessage<A>>;
