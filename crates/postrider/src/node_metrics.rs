//! The metrics of a node, grouped by their source.

use mta::metrics::{
    ClassMetrics, EventMetrics, LogMetrics, MailboxMetrics, MetricSet, Metrics, PolicyMetrics,
    SendingMetrics,
};
use std::sync::Arc;

/// Metrics of a running node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeMetrics {
    /// One per shard.
    pub(crate) shards: Vec<Arc<Metrics>>,
    /// One per log.
    pub(crate) logs: Vec<Arc<LogMetrics>>,
    /// One per shard, and one of the writer.
    pub(crate) events: Vec<Arc<EventMetrics>>,
    pub(crate) mailboxes: Arc<MailboxMetrics>,
    pub(crate) policies: Arc<PolicyMetrics>,
    /// A set of each service that counts.
    pub(crate) services: Vec<Arc<dyn MetricSet>>,
    /// Over all shards.
    pub(crate) classes: Arc<ClassMetrics>,
    pub(crate) sending: Arc<SendingMetrics>,
}

impl NodeMetrics {
    /// All at nothing.
    pub(crate) fn new(shards: u16, logs: usize) -> NodeMetrics {
        NodeMetrics {
            shards: (0..shards).map(|_| Arc::default()).collect(),
            logs: (0..logs).map(|_| Arc::default()).collect(),
            events: (0..=shards).map(|_| Arc::default()).collect(),
            ..NodeMetrics::default()
        }
    }
}
