//! The task that has all to do with policies: it reads those that were kept, fetches and renews, and
//! is the only one that writes. Shards look at what is in memory, and ask for the rest.

use super::cache::{Cache, EvictedPolicy, FetchBackoffs, PolicyCacheEntry};
use super::fetch::{FetchError, Fetcher};
use super::files::{self, UnreadPolicies};
use crate::kept_file::StateFiles;
use crate::mutex::lock;
use crate::world::clock::wall_now;
use auth::mta_sts::Policy;
use auth::tls_report::{self, Details, ResultType, TlsSession};
use mail::Mono;
use mta::lack;
use mta::line::{FairKey, FairSemaphore, Owner, Permit, SemaphoreLimits, Standings, TrustLevel};
use mta::metrics::PolicyMetrics;
use mta::pools::PoolId;
use mta::pressure::Pressures;
use mta::seams::TlsReports;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::Instant;

/// How often policies are looked for that nobody asks for and that are to be renewed, and how many are
/// renewed then: some 20,000 a day.
const ROUND: Duration = Duration::from_secs(30);
const RENEWED_IN_ROUND_MAX: usize = 8;

/// Domains without a policy that wait to be asked for one; beyond that mail waits for its next try.
const STRANGERS_MAX: usize = 1_024;

/// A fetch of which nothing has come for so long makes way for others, unless it has been silent before.
const SILENCE: Duration = Duration::from_secs(1);
/// Whose fetch has taken longer, or failed, lets others go first the next time.
const SLOW: Duration = Duration::from_millis(250);
/// Zones that are remembered for that.
const ZONES_MAX: usize = 4_096;

/// Times that a fetch is begun for which this machine lacks something, with a wait between.
const TRIES_MAX: u32 = 10;

/// The policy of a domain, if it has one; or why that is not known.
pub(super) type PolicyResult = Result<Option<Arc<Policy>>, String>;

/// What a shard asks for.
pub(super) struct PolicyFetchRequest {
    pub(super) domain: Box<str>,
    /// As the TXT record has it, if there is one.
    pub(super) id: Option<Box<str>>,
    pub(super) public_only: bool,
    /// Nobody waits for a renewal.
    pub(super) answer: Option<oneshot::Sender<PolicyResult>>,
}

/// What all shards see.
#[derive(Debug, Default)]
pub(super) struct SharedPolicies {
    pub(super) cache: Cache,
    pub(super) unread: UnreadPolicies,
}

/// `None` until those that were kept are read.
pub(super) type OptionalPolicies = Arc<Mutex<Option<SharedPolicies>>>;

/// Tells the operator.
pub(super) type PolicyReporter = Arc<dyn Fn(&str) + Send + Sync>;

/// Where policies come from.
pub(super) trait PolicySource: 'static {
    async fn fetch(&self, domain: &str, public_only: bool) -> Result<Policy, FetchError>;
}

impl PolicySource for Fetcher {
    async fn fetch(&self, domain: &str, public_only: bool) -> Result<Policy, FetchError> {
        Fetcher::fetch(self, domain, public_only).await
    }
}

/// What the task begins with.
pub(super) struct Seed<S> {
    pub(super) directory: PathBuf,
    pub(super) source: S,
    /// Fetches at once: for domains that have no policy yet, and for those that have one, whom strangers
    /// with slow web servers must not keep waiting.
    pub(super) strangers: usize,
    pub(super) known: usize,
    /// A route refuses private addresses.
    pub(super) public_only: bool,
    pub(super) shelf: OptionalPolicies,
    pub(super) metrics: Arc<PolicyMetrics>,
    /// Where fetches show how scarce they are.
    pub(super) pools: Arc<Pressures>,
    /// Who tells domains that their policies can't be had.
    pub(super) reports: Arc<dyn TlsReports + Send + Sync>,
    pub(super) report: PolicyReporter,
    pub(super) files: StateFiles,
}

/// Of files that were damaged so many are named.
const LOST_MAX: usize = 8;

/// A file to be written, and those that go for it.
struct PolicyWrite {
    domain: Box<str>,
    cached: PolicyCacheEntry,
    gone: Vec<EvictedPolicy>,
}

struct PolicyFetcher<S> {
    seed: Seed<S>,
    strangers: Arc<FairSemaphore>,
    known: Arc<FairSemaphore>,
    /// Zones whose web servers were silent or slow, or had no policy, and those that answered.
    zones: RefCell<Standings<Owner>>,
    started: Instant,
    /// Fetches so far.
    begun: Cell<u32>,
    /// Renewals that nobody asks for go to public addresses only, as somebody wants it.
    public_only: Cell<bool>,
    failures: RefCell<FetchBackoffs>,
    /// Domains whose policies are fetched, or wait for that, with those who want to know.
    flights: RefCell<BTreeMap<Box<str>, Vec<oneshot::Sender<PolicyResult>>>>,
    changes: mpsc::UnboundedSender<PolicyWrite>,
}

/// Keeps policies until nobody can ask any more.
pub(super) async fn serve<S: PolicySource>(
    seed: Seed<S>,
    mut asks: mpsc::UnboundedReceiver<PolicyFetchRequest>,
) {
    let (changes, to_write) = mpsc::unbounded_channel();
    spawn_local(write_all(seed.directory.clone(), to_write, seed.files.clone()));
    let [strangers, known] = [seed.strangers, seed.known].map(|max| FairSemaphore::new(parts(max)));
    for line in [&strangers, &known] {
        seed.pools.register(PoolId::Policies, line);
    }
    let keeper = Rc::new(PolicyFetcher {
        strangers,
        known,
        zones: RefCell::new(Standings::new(ZONES_MAX)),
        started: Instant::now(),
        begun: Cell::new(0),
        public_only: Cell::new(seed.public_only),
        failures: RefCell::default(),
        flights: RefCell::default(),
        changes,
        seed,
    });
    keeper.read().await;
    let mut rounds = tokio::time::interval(ROUND);
    loop {
        tokio::select! {
            ask = asks.recv() => match ask {
                Some(ask) => keeper.take(ask),
                None => return,
            },
            _ = rounds.tick() => keeper.renew().await,
        }
    }
}

/// Of the zone that has most domains here, the last; `None`: no zone has two more than that of the domain that comes.
fn last_of_greediest<T>(flights: &BTreeMap<Box<str>, T>, comes: &str) -> Option<Box<str>> {
    let mut zones = BTreeMap::<Owner, (usize, &str)>::new();
    for domain in flights.keys() {
        let zone = zones.entry(Owner::zone(domain)).or_insert((0, domain));
        *zone = (zone.0 + 1, domain);
    }
    let own = zones.get(&Owner::zone(comes)).map_or(0, |zone| zone.0);
    let (count, last) = zones.into_values().max_by_key(|(count, _)| *count)?;
    (count > own + 1).then(|| last.into())
}

/// So many fetches at once, of which one zone has a quarter at most, and so have all those that were silent.
fn parts(fetches: usize) -> SemaphoreLimits {
    let max = fetches as u64;
    let quarter = max.div_ceil(4);
    SemaphoreLimits {
        owner_max: quarter,
        good_owner_max: quarter,
        doubtful_max: quarter,
        ..SemaphoreLimits::equal(max)
    }
}

/// Writes one change after the other, in the order in which they were made.
async fn write_all(
    directory: PathBuf,
    mut changes: mpsc::UnboundedReceiver<PolicyWrite>,
    files: StateFiles,
) {
    while let Some(PolicyWrite { domain, cached, gone }) = changes.recv().await {
        let (at, name) = (directory.clone(), domain.clone());
        let write = move || {
            let gone = gone.iter().map(|gone| &*gone.domain);
            files::write(&at, (&name, &cached), gone)
        };
        // What can't be written holds all the same, until the next start.
        match spawn_blocking(write).await {
            Ok(Err(error)) => {
                let why = format!("cannot store the policy of {domain}: {error}");
                files.unwritten("mta_sts", &directory, &why);
            }
            Ok(Ok(())) => files.written(&directory),
            Err(_) => {}
        }
    }
}

impl<S: PolicySource> PolicyFetcher<S> {
    /// Looks at the policies.
    fn with<T>(&self, look: impl FnOnce(&mut SharedPolicies) -> T) -> T {
        look(lock(&self.seed.shelf).get_or_insert_default())
    }

    /// Those that were kept, as far as they can be read.
    async fn read(&self) {
        let directory = self.seed.directory.clone();
        let found = spawn_blocking(move || files::read_all(&directory)).await.unwrap_or_default();
        if let Some(error) = &found.error {
            (self.seed.report)(&format!("cannot read a stored policy: {error}"));
        }
        for path in found.lost.iter().take(LOST_MAX) {
            let why = format!("{} was damaged and removed", path.display());
            let so = "its policy is fetched again with the next mail";
            self.seed.files.lost("mta_sts", path, &why, so);
        }
        let now = wall_now();
        let count = self.with(|shelf| {
            for (domain, cached) in found.policies {
                // What was fetched meanwhile is newer.
                if !shelf.cache.has(&domain) {
                    shelf.cache.put(&domain, cached, now);
                }
            }
            shelf.unread = found.unread;
            shelf.cache.len()
        });
        self.seed.metrics.cached.set_u64(count as u64);
    }

    /// Goes round: nobody must need mail for a policy that is about to end (RFC 8461 §3.3).
    async fn renew(self: &Rc<Self>) {
        if self.with(|shelf| !shelf.unread.is_none()) {
            self.read().await;
        }
        let now = wall_now();
        let due = self.with(|shelf| shelf.cache.to_renew(now));
        let is_due = |domain: &str| {
            !self.failures.borrow().is_recent(domain, now)
                && !self.flights.borrow().contains_key(domain)
        };
        for domain in due.into_iter().filter(|domain| is_due(domain)).take(RENEWED_IN_ROUND_MAX) {
            let public_only = self.public_only.get();
            self.take(PolicyFetchRequest { domain, id: None, public_only, answer: None });
        }
    }

    /// Answers, or sees to it that there will be an answer.
    fn take(self: &Rc<Self>, ask: PolicyFetchRequest) {
        let now = wall_now();
        let PolicyFetchRequest { domain, id, public_only, answer } = ask;
        self.public_only.set(self.public_only.get() || public_only);
        let cached = self.with(|shelf| shelf.cache.get(&domain, now).cloned());
        let is_new = match &cached {
            Some(cached) => id.as_ref().is_some_and(|id| *id != cached.id),
            None => id.is_some(),
        };
        let is_due = is_new || cached.as_ref().is_some_and(|cached| cached.wants_renewal(now));
        let is_fetched = is_due && !self.failures.borrow().is_recent(&domain, now);
        let waiter = match is_new && is_fetched {
            true => answer,
            false => {
                tell(answer, || self.held(&domain));
                None
            }
        };
        if is_fetched {
            self.fly((domain, id), public_only, waiter, cached.is_some());
        }
    }

    /// Fetches, unless that is done already: one fetch is for all who want to know.
    fn fly(
        self: &Rc<Self>,
        (domain, id): (Box<str>, Option<Box<str>>),
        public_only: bool,
        waiter: Option<oneshot::Sender<PolicyResult>>,
        is_known: bool,
    ) {
        let mut flights = self.flights.borrow_mut();
        if let Some(waiters) = flights.get_mut(&domain) {
            waiters.extend(waiter);
            return;
        }
        if !is_known && flights.len() >= STRANGERS_MAX {
            let too_many = || Err("too many policies of domains wait to be fetched".to_owned());
            let Some(last) = last_of_greediest(&flights, &domain) else {
                tell(waiter, too_many);
                return;
            };
            for waiter in flights.remove(&last).unwrap_or_default() {
                let _ = waiter.send(too_many());
            }
        }
        flights.insert(domain.clone(), waiter.into_iter().collect());
        let keeper = Rc::clone(self);
        spawn_local(async move {
            let line = if is_known { &keeper.known } else { &keeper.strangers };
            let fetched = keeper.fetch_in_turn(line, &domain, public_only).await;
            // It left its place in the line to others.
            let Some(fetched) = fetched else { return };
            let answer = keeper.note((&domain, id.as_deref()), fetched);
            let waiters = keeper.flights.borrow_mut().remove(&domain).unwrap_or_default();
            for waiter in waiters {
                let _ = waiter.send(answer.clone());
            }
        });
    }

    /// Fetches, when its turn comes; `None`: nobody waits for it any more. What has given nothing for a while makes
    /// way for others, and has a second turn among zones that were silent. In that it has all its time: no domain goes
    /// without its policy for want of ours.
    async fn fetch_in_turn(
        &self,
        line: &Arc<FairSemaphore>,
        domain: &str,
        public_only: bool,
    ) -> Option<Result<Policy, FetchError>> {
        let (who, zone) = (self.who(domain), Owner::zone(domain));
        let standing = match self.zones.borrow().of(zone, self.now()) {
            TrustLevel::Doubtful => TrustLevel::Doubtful,
            // That one domain has its policy says nothing of others below the zone.
            TrustLevel::Good | TrustLevel::Unknown => TrustLevel::Unknown,
        };
        let mut permit = line.join(who, standing, 1).await;
        let mut began = Instant::now();
        let fetched = loop {
            if !self.flights.borrow().contains_key(domain) {
                return None;
            }
            if permit.standing() == TrustLevel::Doubtful {
                break self.fetch(domain, public_only).await;
            }
            let first = self.fetch_or_make_way(&mut permit, domain, public_only).await;
            if let Some(fetched) = first {
                break fetched;
            }
            self.doubt(line, zone);
            drop(permit);
            permit = line.join(who, TrustLevel::Doubtful, 1).await;
            began = Instant::now();
        };
        match &fetched {
            Ok(_) if began.elapsed() < SLOW => {
                self.zones.borrow_mut().note_answer(zone, self.now());
            }
            Err(FetchError::Lack(_)) => {}
            Ok(_) | Err(FetchError::Failed(..)) => self.doubt(line, zone),
        }
        Some(fetched)
    }

    /// Others go before a zone from now on.
    fn doubt(&self, line: &FairSemaphore, zone: Owner) {
        self.zones.borrow_mut().note_silence(zone, self.now());
        line.doubt(zone);
    }

    /// What is fetched; `None`: others need its place, and it was silent.
    async fn fetch_or_make_way(
        &self,
        permit: &mut Permit,
        domain: &str,
        public_only: bool,
    ) -> Option<Result<Policy, FetchError>> {
        let mut fetching = pin!(self.fetch(domain, public_only));
        if let Ok(fetched) = tokio::time::timeout(SILENCE, fetching.as_mut()).await {
            return Some(fetched);
        }
        permit.idle(self.now());
        poll_fn(|cx| match fetching.as_mut().poll(cx) {
            Poll::Ready(fetched) => Poll::Ready(Some(fetched)),
            Poll::Pending => permit.poll_give_way(cx).map(|()| None),
        })
        .await
    }

    fn now(&self) -> Mono {
        Mono(0) + self.started.elapsed()
    }

    /// Who fetches: zones take turns, whatever the number of their domains.
    fn who(&self, domain: &str) -> FairKey {
        self.begun.set(self.begun.get().wrapping_add(1));
        FairKey::new(0, self.begun.get()).of(Owner::zone(domain))
    }

    /// Fetches, also while this machine lacks something for a moment.
    async fn fetch(&self, domain: &str, public_only: bool) -> Result<Policy, FetchError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let fetched = self.seed.source.fetch(domain, public_only).await;
            if tries == TRIES_MAX || !matches!(fetched, Err(FetchError::Lack(_))) {
                return fetched;
            }
            tokio::time::sleep(lack::WAIT).await;
        }
    }

    /// Remembers what came of a fetch.
    fn note(
        &self,
        (domain, id): (&str, Option<&str>),
        fetched: Result<Policy, FetchError>,
    ) -> PolicyResult {
        let (metrics, now) = (&self.seed.metrics, wall_now());
        let why = match fetched {
            Ok(policy) => {
                metrics.fetches.inc();
                self.failures.borrow_mut().forget(domain);
                let policy = Arc::new(policy);
                self.keep(domain, (id, Arc::clone(&policy)));
                return Ok(Some(policy));
            }
            Err(FetchError::Failed(result, why)) => {
                metrics.fetches_failed.inc();
                self.tell(domain, result, &why);
                self.failures.borrow_mut().record(domain, now);
                (self.seed.report)(&format!("cannot fetch the policy of {domain}: {why}"));
                None
            }
            // The domain is not to blame, and whether it has a policy is not known.
            Err(FetchError::Lack(why)) => {
                (self.seed.report)(&format!("cannot fetch the policy of {domain}: {why}"));
                Some(why)
            }
        };
        match (self.held(domain), why) {
            (Ok(None), Some(why)) => Err(why),
            (held, _) => held,
        }
    }

    /// Has the domain told, if anybody is. Each fetch that fails counts once, however much mail asked for it.
    fn tell(&self, domain: &str, result: ResultType, why: &str) {
        let reports = &self.seed.reports;
        if !reports.is_on() {
            return;
        }
        let failure = Some(Details::new(result).because(why));
        reports.note(TlsSession {
            domain: domain.into(),
            policy: tls_report::Policy::sts(None),
            failure,
        });
    }

    /// In memory and on disk.
    fn keep(&self, domain: &str, fetched: (Option<&str>, Arc<Policy>)) {
        let now = wall_now();
        let (cached, gone, count) = self.with(|shelf| {
            if let UnreadPolicies::Of(domains) = &mut shelf.unread {
                domains.remove(domain);
            }
            let (cached, gone) = shelf.cache.fetched(domain, fetched, now);
            (cached, gone, shelf.cache.len())
        });
        let metrics = &self.seed.metrics;
        metrics.cached.set_u64(count as u64);
        for gone in gone.iter().filter(|gone| gone.was_enforced) {
            metrics.evicted.inc();
            let domain = &gone.domain;
            (self.seed.report)(&format!("the policy of {domain} is evicted: too many policies"));
        }
        let _ = self.changes.send(PolicyWrite { domain: domain.into(), cached, gone });
    }

    /// What is known of a domain without a fetch.
    fn held(&self, domain: &str) -> PolicyResult {
        self.with(|shelf| shelf.held(domain))
    }
}

impl SharedPolicies {
    /// What is known of a domain.
    fn held(&self, domain: &str) -> PolicyResult {
        match self.cache.get(domain, wall_now()) {
            Some(cached) => Ok(Some(Arc::clone(&cached.policy))),
            None if self.unread.has(domain) => Err("its stored policy cannot be read".to_owned()),
            None => Ok(None),
        }
    }
}

fn tell(waiter: Option<oneshot::Sender<PolicyResult>>, answer: impl FnOnce() -> PolicyResult) {
    if let Some(waiter) = waiter {
        // Who waited may have gone.
        let _ = waiter.send(answer());
    }
}

#[cfg(test)]
#[path = "keeper/tests.rs"]
mod tests;
