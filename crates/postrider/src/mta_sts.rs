//! What domains promise of TLS to their hosts (MTA-STS, RFC 8461): fetched when it is asked for first,
//! kept in the data directory, renewed before it ends.

mod cache;
mod fetch;
mod files;
mod keeper;

use crate::console::ConsoleLog;
use crate::kept_file::StateFiles;
use crate::mutex::lock;
use crate::services::ServiceRuntime;
use crate::tls_reports::TlsReporting;
use crate::world::clock::wall_now;
use crate::world::resolver::Resolver;
use auth::mta_sts::Policy;
use cache::PolicyCacheEntry;
use fetch::{FetchError, Fetcher};
use keeper::{OptionalPolicies, PolicyFetchRequest, PolicyResult, Seed};
use mta::console::{Console as _, Level};
use mta::metrics::PolicyMetrics;
use mta::pressure::Pressures;
use mta::seams::{Policies, PolicyQuestion, Unfetched};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The directory of policies in the first spool directory.
const NAME: &str = "mta-sts";

/// Of the policies that are fetched at once, this part is for domains that have one already.
const KNOWN_PART: usize = 4;

/// How long mail waits for a policy, here and in the line for a fetch; then for its next try.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The same where an older policy holds; then it goes by that one.
const CHANGED_WAIT_MAX: Duration = Duration::from_secs(10);

/// The policies of domains; clones are of one cache.
#[derive(Clone)]
pub(crate) struct MtaSts(Arc<PolicyService>);

struct PolicyService {
    directory: PathBuf,
    resolver: Resolver,
    /// Fetches at once.
    fetches_max: usize,
    shelf: OptionalPolicies,
    runtime: ServiceRuntime,
    /// To the task that fetches. Without a route that wants policies there is none.
    asks: Mutex<Option<mpsc::UnboundedSender<PolicyFetchRequest>>>,
    metrics: Arc<PolicyMetrics>,
    pools: Arc<Pressures>,
    reports: TlsReporting,
    files: StateFiles,
    console: Arc<ConsoleLog>,
}

/// The policy of a domain as its web server has it now.
///
/// # Errors
/// What went wrong, in words.
pub(crate) async fn fetch_now(resolver: Resolver, domain: &str) -> Result<Policy, String> {
    Fetcher::new(resolver).fetch(domain, false).await.map_err(|error| match error {
        FetchError::Lack(why) | FetchError::Failed(_, why) => why,
    })
}

impl MtaSts {
    /// Keeps policies below the first spool directory.
    pub(crate) fn new(
        spool: &Path,
        (resolver, fetches_max): (Resolver, usize),
        (metrics, pools): (&Arc<PolicyMetrics>, &Arc<Pressures>),
        reports: TlsReporting,
        (runtime, files, console): (&ServiceRuntime, StateFiles, Arc<ConsoleLog>),
    ) -> MtaSts {
        MtaSts(Arc::new(PolicyService {
            directory: spool.join(NAME),
            resolver,
            fetches_max,
            runtime: runtime.clone(),
            shelf: OptionalPolicies::default(),
            asks: Mutex::default(),
            metrics: Arc::clone(metrics),
            pools: Arc::clone(pools),
            reports,
            files,
            console,
        }))
    }

    /// Starts the task that keeps them, if that has not been done; `public_only`: a route refuses private
    /// addresses.
    ///
    /// # Errors
    /// A sentence, when the system gives no thread.
    pub(crate) fn start(&self, public_only: bool) -> Result<(), String> {
        self.keeper(public_only).map(drop)
    }

    fn keeper(
        &self,
        public_only: bool,
    ) -> Result<mpsc::UnboundedSender<PolicyFetchRequest>, String> {
        let inner = &*self.0;
        let mut asks = lock(&inner.asks);
        if let Some(asks) = &*asks {
            return Ok(asks.clone());
        }
        let known = (inner.fetches_max / KNOWN_PART).max(1);
        let console = Arc::clone(&inner.console);
        let seed = Seed {
            directory: inner.directory.clone(),
            source: Fetcher::new(inner.resolver.clone()),
            strangers: inner.fetches_max.saturating_sub(known).max(1),
            known,
            public_only,
            shelf: Arc::clone(&inner.shelf),
            metrics: Arc::clone(&inner.metrics),
            pools: Arc::clone(&inner.pools),
            reports: Arc::new(inner.reports.clone()),
            report: Arc::new(move |text: &str| {
                console.line(Level::Warn, "mta_sts", format_args!("{text}"));
            }),
            files: inner.files.clone(),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        inner.runtime.start()?.spawn(move || keeper::serve(seed, receiver));
        *asks = Some(sender.clone());
        Ok(sender)
    }

    /// What is in memory for a domain that has mail.
    fn held(&self, domain: &str) -> Option<PolicyCacheEntry> {
        let mut shelf = lock(&self.0.shelf);
        shelf.as_mut()?.cache.used(domain, wall_now()).cloned()
    }

    /// Asks the task. What there is to wait for.
    fn ask(
        &self,
        question: PolicyQuestion<'_>,
        waits: bool,
    ) -> Result<oneshot::Receiver<PolicyResult>, String> {
        let (answer, answered) = oneshot::channel();
        let PolicyQuestion { domain, id, public_only } = question;
        let (domain, id, answer) = (domain.into(), id.map(Into::into), waits.then_some(answer));
        let ended = |_| "the thread that fetches policies has ended".to_owned();
        self.keeper(public_only)?
            .send(PolicyFetchRequest { domain, id, public_only, answer })
            .map_err(ended)?;
        Ok(answered)
    }
}

impl Policies for MtaSts {
    async fn mta_sts(
        &self,
        question: PolicyQuestion<'_>,
    ) -> Result<Option<Arc<Policy>>, Unfetched> {
        let held = self.held(question.domain);
        // RFC 8461 §5.1: a record that has gone does not end a policy, its age does.
        let is_of_id = |cached: &PolicyCacheEntry| question.id.is_none_or(|id| *cached.id == *id);
        if let Some(cached) = held.as_ref().filter(|cached| is_of_id(cached)) {
            if cached.wants_renewal(wall_now()) {
                // It holds, whatever comes of that.
                let _ = self.ask(question, false);
            }
            return Ok(Some(Arc::clone(&cached.policy)));
        }
        let wait = if held.is_some() { CHANGED_WAIT_MAX } else { WAIT_MAX };
        let answer = match self.ask(question, true) {
            Ok(answered) => match tokio::time::timeout(wait, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err("the thread that fetches policies has ended".to_owned()),
                Err(_) => Err(format!("no policy within {wait:?}")),
            },
            Err(why) => Err(why),
        };
        match (answer, held) {
            (Err(_), Some(cached)) => Ok(Some(cached.policy)),
            (answer, _) => answer.map_err(Unfetched),
        }
    }
}
