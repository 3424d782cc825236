//! Messages to a shard from other threads.

use crate::commands::ControlRequest;
use crate::control::{ShardAnswer, Suspension};
pub use crate::ingress::GeneratedMessage;
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
    /// From another shard's queue.
    Lease {
        from: u16,
        message: LeaseMessage,
    },
    Control {
        request: Box<ControlRequest>,
        /// The receiver of the answer's parts.
        answer: mpsc::Sender<ShardAnswer>,
    },
    /// An operator has suspended something, or resumed it: all that is suspended.
    Suspensions(Arc<[Suspension]>),
    Reload(Arc<Config>),
    /// A message of this server's own.
    Own(Box<GeneratedMessage>),
    /// Stop: transactions get `grace_ms`, then 421.
    Stop {
        grace_ms: u64,
        /// Notified when no work is in progress any more.
        done: oneshot::Sender<()>,
    },
}

/// The sending side of a shard's inbox, for threads that run no shard.
pub type ShardSender<A> = mpsc::UnboundedSender<ShardMessage<A>>;
