//! What runs beside the shards, as a list: a further service is a file of its own and a line here.

mod deliveries;
mod drop_pickup;
mod files;
mod places;
mod runtime;
mod service;
mod small;

use crate::acme::Acme;
use crate::alerts::{AlertParts, Alerts};
use crate::console::ConsoleLog;
use crate::file_watch::FileJobs;
use crate::kept_file::StateFiles;
use crate::limited_listener::Pool;
use crate::problems::ProblemList;
use crate::secrets::{self, WatchedSecrets};
use crate::shard_thread::ShardContext;
use crate::tokens::Tokens;
use config::{Config, ConfigErrors};
use deliveries::Deliveries;
use drop_pickup::DropPickup;
pub(crate) use files::{FileServices, RightsAtStart};
use mta::pools::PoolId;
pub(crate) use runtime::{ServiceRuntime, TaskSpawner};
pub(crate) use service::{
    Adoption, CandidateConfig, EventTaker, Prepared, Service, Services, nothing_to_adopt,
};
use small::{KnownClients, ReturnPaths, Shards};
use std::sync::Arc;

/// What shards are not given.
pub(crate) struct ServiceContext<'a> {
    pub(crate) secrets: &'a WatchedSecrets,
    pub(crate) kept: (&'a StateFiles, &'a FileJobs, &'a Arc<ConsoleLog>),
    pub(crate) named: &'a FileServices,
}

/// Services that the start itself does not open. They are started before the shards, which ask some of them.
pub(crate) fn beside(common: &ShardContext, others: &ServiceContext<'_>) -> Services {
    let (shared, named, (files, jobs, console)) = (&common.shared, others.named, others.kept);
    let directory = common.config.spool.paths[0].clone();
    let pressures = Arc::clone(&shared.pressures);
    let alerts = AlertParts {
        shared,
        started: common.started,
        shard: &common.shards[0],
        runtime: &named.runtime,
        jobs,
        files,
        console,
    };
    let alerts = Alerts::new(&directory, &alerts);
    let pool = Pool { id: PoolId::Challenges, pressures, started: common.started };
    Services::default()
        .with(Acme::new(&common.certificates, pool, &named.runtime, (&named.acme, files, console)))
        .with(Deliveries::new(console))
        .with(alerts)
        .with(DropPickup::new(console))
        .with(common.dmarc_reports.clone())
        .with(common.tls_reports.clone())
        .with(Tokens::new(&named.runtime, console))
        .with(others.secrets.clone())
        .with(KnownClients { directory, shared: Arc::clone(shared) })
        .with(common.books.greylist.clone())
        .with(common.books.warmups.clone())
        .with(common.books.limits.clone())
}

/// All services, in the order in which they adopt a configuration: what mail needs first, the shards last.
pub(crate) fn services(
    common: &ShardContext,
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

impl Services {
    /// Reads the secrets of a configuration into it, and has all services prepare it.
    ///
    /// # Errors
    /// All mistakes, those of the files that were read with it, too. Nothing has changed then.
    pub(crate) fn prepare_all(
        &self,
        (mut config, of_files): (Config, Option<ConfigErrors>),
        progress: &dyn Fn(&str),
        is_check: bool,
    ) -> Result<Prepared, ConfigErrors> {
        let mut mistakes = secrets::read(&mut config, progress);
        let config = Arc::new(config);
        let is_shaped = of_files.is_none();
        match self.prepare(&CandidateConfig { config: &config, progress, is_check, is_shaped }) {
            Ok(adoptions) if mistakes.is_empty() && is_shaped => {
                return Ok(Prepared { config, adoptions });
            }
            Ok(_) => {}
            Err(others) => mistakes.extend(others),
        }
        let mistakes = config.errors(mistakes);
        Err(match of_files {
            Some(of_files) => mistakes.and(of_files),
            None => mistakes,
        })
    }
}
