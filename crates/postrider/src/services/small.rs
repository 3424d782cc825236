//! Services that are no more than a few lines each.

use super::{Adoption, CandidateConfig, Service, nothing_to_adopt};
use crate::console::ConsoleLog;
use crate::kept_secret;
use crate::known_clients;
use crate::problems::ProblemList;
use crate::world::listening_socket::AcceptedSocket;
use config::Problem;
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::MetricSet;
use mta::shared::SharedState;
use std::path::PathBuf;
use std::sync::Arc;

/// Return paths of a gateway to X.400. The file in this directory is the server's own.
pub(super) struct ReturnPaths(pub(super) PathBuf);

impl Service for ReturnPaths {
    fn name(&self) -> &'static str {
        "the spool's directory"
    }

    /// What is wrong with the file was reported at the start.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        // It goes into the configuration, which is not in force yet.
        let _ = kept_secret::keep_return_paths(next.config, &self.0);
        Ok(nothing_to_adopt())
    }
}

/// Clients that logged in lately.
pub(super) struct KnownClients {
    pub(super) directory: PathBuf,
    pub(super) shared: Arc<SharedState>,
}

impl Service for KnownClients {
    fn name(&self) -> &'static str {
        "known clients"
    }

    fn prepare(&self, _next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        Ok(nothing_to_adopt())
    }

    fn finish(&self) {
        known_clients::close(&self.directory, &self.shared);
    }
}

impl Service for Arc<ProblemList> {
    fn name(&self) -> &'static str {
        "problems"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (Arc::clone(self), Arc::clone(next.config));
        Ok(Box::new(move || this.adopt(&config)))
    }
}

impl Service for Arc<ConsoleLog> {
    fn name(&self) -> &'static str {
        "the console"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (Arc::clone(self), Arc::clone(next.config));
        Ok(Box::new(move || this.follow(&config)))
    }

    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        Some(ConsoleLog::metrics(self))
    }
}

/// The shards follow when all is there that they ask.
pub(super) struct Shards(pub(super) Vec<ShardSender<AcceptedSocket>>);

impl Service for Shards {
    fn name(&self) -> &'static str {
        "shards"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (shards, config) = (self.0.clone(), Arc::clone(next.config));
        Ok(Box::new(move || {
            for shard in &shards {
                let _ = shard.send(ShardMessage::Reload(Arc::clone(&config)));
            }
        }))
    }
}
