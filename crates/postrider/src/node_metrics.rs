//! What a node counts, by who counts it.

use config::Config;
use mta::metrics::{
    AcmeMetrics, ClassMetrics, EventMetrics, LogMetrics, MailboxMetrics, Metrics, PolicyMetrics,
    SendingMetrics, TlsReportMetrics,
};
use std::sync::Arc;

/// Numbers of a running node, for whoever shows them.
#[derive(Clone)]
pub(crate) struct NodeMetrics {
    pub(crate) shards: Vec<Arc<Metrics>>,
    pub(crate) logs: Vec<Arc<LogMetrics>>,
    pub(crate) events: Arc<EventMetrics>,
    pub(crate) mailboxes: Arc<MailboxMetrics>,
    pub(crate) policies: Arc<PolicyMetrics>,
    pub(crate) acme: Arc<AcmeMetrics>,
    pub(crate) tls_reports: Arc<TlsReportMetrics>,
    /// Over all shards.
    pub(crate) classes: Arc<ClassMetrics>,
    pub(crate) sending: Arc<SendingMetrics>,
}

impl NodeMetrics {
    /// All at nothing.
    pub(crate) fn new(config: &Config, shards: u16) -> NodeMetrics {
        NodeMetrics {
            shards: (0..shards).map(|_| Arc::default()).collect(),
            logs: config.spool.paths.iter().map(|_| Arc::default()).collect(),
            events: Arc::default(),
            mailboxes: Arc::default(),
            policies: Arc::default(),
            acme: Arc::default(),
            tls_reports: Arc::default(),
            classes: Arc::default(),
            sending: Arc::default(),
        }
    }
}
