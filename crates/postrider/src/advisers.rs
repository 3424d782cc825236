//! Whom shards ask about next hops, strangers and sources, and who tells others of what came of it.

use crate::console::ConsoleLog;
use crate::descriptors::Descriptors;
use crate::dmarc_reports::{Dmarc, DmarcReporting};
use crate::file_watch::FileJobs;
use crate::greylist::Greylisting;
use crate::kept_file::StateFiles;
use crate::mta_sts::MtaSts;
use crate::node_metrics::NodeMetrics;
use crate::peer_tls::PeerTls;
use crate::rate_limits::KeptCounts;
use crate::services::ServiceRuntime;
use crate::tls_reports::{Tls, TlsReporting};
use crate::warmup::StoredWarmups;
use crate::world::listening_socket::AcceptedSocket;
use crate::world::resolver::Resolver;
use config::{Config, Route};
use mta::console::{Console as _, Level};
use mta::inbox::ShardSender;
use mta::pressure::Pressures;
use mta::shared::SharedState;
use std::path::Path;
use std::sync::Arc;

/// Who is asked where mail goes and how it is encrypted, who is told of that, and whether a stranger came
/// before.
pub(crate) struct SharedServices {
    pub(crate) resolver: Resolver,
    pub(crate) policies: MtaSts,
    pub(crate) dmarc_reports: DmarcReporting,
    pub(crate) tls_reports: TlsReporting,
    pub(crate) books: PersistentState,
    pub(crate) peer_tls: Arc<PeerTls>,
}

/// What is remembered of others, each in a file of its own.
#[derive(Clone)]
pub(crate) struct PersistentState {
    pub(crate) greylist: Greylisting,
    pub(crate) warmups: StoredWarmups,
    pub(crate) limits: KeptCounts,
}

impl PersistentState {
    fn new(
        directory: &Path,
        shared: &SharedState,
        (jobs, console): (&FileJobs, &Arc<ConsoleLog>),
    ) -> PersistentState {
        let problems = &shared.problems;
        let kept = (jobs.watch(), console);
        PersistentState {
            limits: KeptCounts::new(
                &shared.rate_limits,
                directory,
                problems.conditions("state_file"),
                kept,
            ),
            greylist: Greylisting::new(directory, problems.conditions("state_file"), kept),
            warmups: StoredWarmups::new(
                directory,
                problems.conditions("state_file"),
                (jobs, console),
            ),
        }
    }
}

/// Those; what they have to say by mail, this shard queues.
///
/// # Errors
/// A sentence, when the system gives no thread.
pub(crate) fn advisers(
    config: &Config,
    metrics: &NodeMetrics,
    descriptors: Descriptors,
    (shard, shared, runtime): (&ShardSender<AcceptedSocket>, &SharedState, &ServiceRuntime),
    (files, jobs, console): (&StateFiles, &FileJobs, &Arc<ConsoleLog>),
) -> Result<SharedServices, String> {
    let resolver = Resolver::following(&config.dns, jobs.watch(), console);
    let peer_tls = Arc::<PeerTls>::default();
    warn_of_no_dnssec(config, &resolver, console);
    let told = (runtime, jobs, files, console);
    let (dmarc_reports, tls_reports) =
        reporting(&config.spool.paths[0], &resolver, (shard, &peer_tls), told);
    let fetches = (resolver.clone(), descriptors.fetches_max);
    let numbers = (metrics, &shared.pressures, &tls_reports);
    let policies = policies(config, fetches, numbers, (runtime, files, console))?;
    let books = PersistentState::new(&config.spool.paths[0], shared, (jobs, console));
    Ok(SharedServices { resolver, policies, dmarc_reports, tls_reports, books, peer_tls })
}

/// Who is asked what domains promise of TLS.
///
/// # Errors
/// A sentence, when the system gives no thread.
fn policies(
    config: &Config,
    fetches: (Resolver, usize),
    (metrics, pools, reports): (&NodeMetrics, &Arc<Pressures>, &TlsReporting),
    (runtime, files, console): (&ServiceRuntime, &StateFiles, &Arc<ConsoleLog>),
) -> Result<MtaSts, String> {
    let (spool, told) = (&config.spool.paths[0], (runtime, files.clone(), Arc::clone(console)));
    let numbers = (&metrics.policies, pools);
    let policies = MtaSts::new(spool, fetches, numbers, reports.clone(), told);
    let sources = config.routes.iter().map(|route| route.channel.tls_sources());
    let mut sources = sources.filter(|sources| sources.mta_sts).peekable();
    if sources.peek().is_some() {
        policies.start(sources.any(|sources| sources.public_only))?;
    }
    Ok(policies)
}

/// Who tells owners of domains of mail in their name and of TLS to their hosts, by mail that this shard queues.
fn reporting(
    spool: &Path,
    resolver: &Resolver,
    (shard, peer_tls): (&ShardSender<AcceptedSocket>, &Arc<PeerTls>),
    told: (&ServiceRuntime, &FileJobs, &StateFiles, &Arc<ConsoleLog>),
) -> (DmarcReporting, TlsReporting) {
    let dmarc = DmarcReporting::new(Dmarc, spool, resolver.clone(), shard.clone(), told);
    let kind = Tls { metrics: Arc::default(), peer_tls: Arc::clone(peer_tls) };
    let tls = TlsReporting::new(kind, spool, resolver.clone(), shard.clone(), told);
    (dmarc, tls)
}

/// Says that TLSA records are asked for in vain.
pub(crate) fn warn_of_no_dnssec(config: &Config, resolver: &Resolver, console: &ConsoleLog) {
    let wants = |route: &&Arc<Route>| route.channel.tls_sources().dane;
    if let Some(route) = config.routes.iter().find(wants)
        && let Some(why) = resolver.why_insecure()
    {
        let text =
            format_args!("TLSA records are ignored, but route {} uses DANE: {why}", route.name);
        console.line(Level::Warn, "dnssec", text);
    }
}
