//! What domains promise of TLS to their hosts (MTA-STS, RFC 8461): fetched when it is asked for first,
//! kept in the data directory.

mod cache;
mod fetch;

use crate::console::ConsoleLog;
use crate::mutex::lock;
use crate::world::{Resolver, wall_now};
use auth::mta_sts::Policy;
use cache::{Cache, Cached};
use fetch::Fetcher;
use mail::Wall;
use mta::console::{Console as _, Level};
use mta::metrics::PolicyMetrics;
use mta::seams::Policies;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;

/// The directory of policies in the first spool directory.
const NAME: &str = "mta-sts";

/// Policies that are fetched at once; who asks for more waits.
const FETCHES_MAX: usize = 64;

/// RFC 8461 §3.3: a policy that can't be fetched is not asked for again for so long.
const FAILURE_LASTS_MS: u64 = 300_000;

/// Failures that are remembered; then all are forgotten.
const FAILURES_MAX: usize = 10_000;

/// The policies of domains; clones are of one cache.
#[derive(Clone)]
pub(crate) struct MtaSts(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    fetcher: Fetcher,
    /// Opened when it is asked for first: without a route that wants policies there is none.
    cache: Mutex<Option<Cache>>,
    /// By domain.
    failures: Mutex<BTreeMap<Box<str>, Failure>>,
    fetches: Semaphore,
    metrics: Arc<PolicyMetrics>,
    console: Arc<ConsoleLog>,
}

/// The policy of a domain as its web server has it now.
///
/// # Errors
/// What went wrong, in words.
pub(crate) async fn fetch_now(resolver: Resolver, domain: &str) -> Result<Policy, String> {
    Fetcher::new(resolver).fetch(domain).await.map(|(_, policy)| policy)
}

/// A policy that could not be fetched.
struct Failure {
    /// Of the TXT record that it was wanted for.
    id: Box<str>,
    /// It is not asked for again until then.
    until: Wall,
}

impl MtaSts {
    /// Keeps policies below the first spool directory.
    pub(crate) fn new(
        spool: &Path,
        resolver: Resolver,
        metrics: &Arc<PolicyMetrics>,
        console: Arc<ConsoleLog>,
    ) -> MtaSts {
        MtaSts(Arc::new(Inner {
            directory: spool.join(NAME),
            fetcher: Fetcher::new(resolver),
            cache: Mutex::default(),
            failures: Mutex::default(),
            fetches: Semaphore::new(FETCHES_MAX),
            metrics: Arc::clone(metrics),
            console,
        }))
    }

    fn cache(&self) -> MutexGuard<'_, Option<Cache>> {
        let mut cache = lock(&self.0.cache);
        if cache.is_none() {
            let opened = Cache::open(&self.0.directory, wall_now());
            self.0.metrics.cached.set_u64(opened.len() as u64);
            *cache = Some(opened);
        }
        cache
    }

    fn cached(&self, domain: &str) -> Option<Cached> {
        self.cache().as_ref().and_then(|cache| cache.get(domain, wall_now()))
    }

    /// Fetches a policy, and keeps it.
    async fn fetch(&self, domain: &str, id: &str) -> Option<Arc<Policy>> {
        let inner = &*self.0;
        // It is never closed.
        let permit = inner.fetches.acquire().await;
        let fetched = inner.fetcher.fetch(domain).await;
        drop(permit);
        match fetched {
            Ok((text, policy)) => {
                inner.metrics.fetches.inc();
                lock(&inner.failures).remove(domain);
                let policy = Arc::new(policy);
                self.keep(domain, id, &text, &policy).await;
                Some(policy)
            }
            Err(why) => {
                inner.metrics.fetches_failed.inc();
                let text = format_args!("cannot fetch the policy of {domain}: {why}");
                inner.console.line(Level::Warn, "mta_sts", text);
                let mut failures = lock(&inner.failures);
                if failures.len() >= FAILURES_MAX {
                    failures.clear();
                }
                let until = Wall(wall_now().0 + FAILURE_LASTS_MS);
                failures.insert(domain.into(), Failure { id: id.into(), until });
                None
            }
        }
    }

    /// In memory and on disk. What can't be written holds all the same, until the next start.
    async fn keep(&self, domain: &str, id: &str, text: &[u8], policy: &Arc<Policy>) {
        let cached = Cached { id: id.into(), fetched: wall_now(), policy: Arc::clone(policy) };
        let change = match &mut *self.cache() {
            Some(cache) => cache.insert(domain, cached, text),
            None => return,
        };
        let directory = self.0.directory.clone();
        let written = tokio::task::spawn_blocking(move || change.write(&directory)).await;
        if let Ok(Err(error)) = written {
            let text = format_args!("cannot keep the policy of {domain}: {error}");
            self.0.console.line(Level::Warn, "mta_sts", text);
        }
        let count = self.cache().as_ref().map_or(0, Cache::len);
        self.0.metrics.cached.set_u64(count as u64);
    }

    fn failed_lately(&self, domain: &str, id: &str) -> bool {
        let failures = lock(&self.0.failures);
        let failure = failures.get(domain);
        failure.is_some_and(|failure| *failure.id == *id && wall_now() < failure.until)
    }
}

impl Policies for MtaSts {
    async fn mta_sts(&self, domain: &str, id: Option<&str>) -> Option<Arc<Policy>> {
        let cached = self.cached(domain);
        // RFC 8461 §5.1: a record that has gone does not end a policy, its age does.
        let Some(id) = id else { return cached.map(|cached| cached.policy) };
        let is_current = |cached: &Cached| *cached.id == *id && !cached.wants_renewal(wall_now());
        if cached.as_ref().is_some_and(is_current) || self.failed_lately(domain, id) {
            return cached.map(|cached| cached.policy);
        }
        match self.fetch(domain, id).await {
            Some(policy) => Some(policy),
            None => cached.map(|cached| cached.policy),
        }
    }
}
