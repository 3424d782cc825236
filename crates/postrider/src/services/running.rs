//! The services of a running relay: those that have rooms of their own, and the small ones.

use super::{Adoption, FileServices, Next, Service, Services};
use crate::acme::Acme;
use crate::commands::load;
use crate::console::ConsoleLog;
use crate::kept_secret;
use crate::known_clients;
use crate::node_metrics::NodeMetrics;
use crate::problems::ProblemList;
use crate::secrets::WatchedSecrets;
use crate::shard_thread::Common;
use crate::state_files::StateFiles;
use crate::tokens::Tokens;
use crate::world::listening_socket::AcceptedSocket;
use config::Problem;
use mta::inbox::{ShardMessage, ShardSender};
use mta::shared::Shared;
use std::path::PathBuf;
use std::sync::Arc;

/// What shards are not given.
pub(crate) struct Others<'a> {
    pub(crate) secrets: &'a WatchedSecrets,
    pub(crate) metrics: &'a NodeMetrics,
    pub(crate) files: &'a StateFiles,
}

/// Services that the start itself does not open. They are started before the shards, which ask some of them.
pub(crate) fn beside(common: &Common, others: &Others<'_>) -> Services {
    let (shared, console) = (&common.shared, &common.console);
    let numbers = (&others.metrics.acme, &shared.pressures);
    let directory = common.config.spool.paths[0].clone();
    Services::default()
        .with(Acme::new(&common.certificates, numbers, (others.files, console)))
        .with(common.dmarc_reports.clone())
        .with(common.tls_reports.clone())
        .with(Tokens::new(console))
        .with(others.secrets.clone())
        .with(KnownClients { directory, shared: Arc::clone(shared) })
        .with(common.books.greylist.clone())
        .with(common.books.warmups.clone())
}

/// All services, in the order in which they adopt a configuration: what mail needs first, the shards last.
pub(crate) fn services(
    common: &Common,
    files: &FileServices,
    beside: Services,
    problems: Arc<ProblemList>,
) -> Services {
    let directory = common.config.spool.paths[0].clone();
    files
        .services()
        .with(common.resolver.clone())
        .with(ReturnPaths(directory))
        .and(beside)
        .with(problems)
        .with(Arc::clone(&common.console))
        .with(Shards(common.shards.clone()))
}

/// Return paths of a gateway to X.400. The file in this directory is the server's own.
struct ReturnPaths(PathBuf);

impl Service for ReturnPaths {
    fn name(&self) -> &'static str {
        "the spool's directory"
    }

    /// What is wrong with the file was reported at the start.
    fn prepare(&self, next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        // It goes into the configuration, which is not in force yet.
        let _ = kept_secret::keep_return_paths(next.config, &self.0);
        Ok(Box::new(|| ()))
    }
}

/// Clients that logged in lately.
struct KnownClients {
    directory: PathBuf,
    shared: Arc<Shared>,
}

impl Service for KnownClients {
    fn name(&self) -> &'static str {
        "known clients"
    }

    fn prepare(&self, _next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        Ok(Box::new(|| ()))
    }

    fn finish(&self) {
        known_clients::close(&self.directory, &self.shared);
    }
}

impl Service for Arc<ProblemList> {
    fn name(&self) -> &'static str {
        "problems"
    }

    fn prepare(&self, next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (Arc::clone(self), Arc::clone(next.config));
        Ok(Box::new(move || this.adopt(&config)))
    }
}

impl Service for Arc<ConsoleLog> {
    fn name(&self) -> &'static str {
        "the console"
    }

    fn prepare(&self, next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, level) = (Arc::clone(self), load::level_of(next.config));
        Ok(Box::new(move || this.set_level(level)))
    }
}

/// The shards follow when all is there that they ask.
struct Shards(Vec<ShardSender<AcceptedSocket>>);

impl Service for Shards {
    fn name(&self) -> &'static str {
        "shards"
    }

    fn prepare(&self, next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        let (shards, config) = (self.0.clone(), Arc::clone(next.config));
        Ok(Box::new(move || {
            for shard in &shards {
                let _ = shard.send(ShardMessage::Reload(Arc::clone(&config)));
            }
        }))
    }
}
