//! Certificates from an authority that is asked over ACME (RFC 8555): ordered, kept in the data directory,
//! renewed in time. One task processes one order after the other; tasks beside it answer the authority's
//! questions. What is there stays in use, whatever goes wrong.

mod challenges;
mod directory;
mod disk;
mod order;
mod responder;
mod schedule;
mod settings;
pub(crate) mod store;

pub(crate) use settings::Authority;

use crate::certificates::Certificates;
use crate::console::ConsoleLog;
use crate::https;
use crate::kept_file::StateFiles;
use crate::limited_listener::Pool;
use crate::mutex::lock;
use crate::secrets;
use crate::services::{Adoption, CandidateConfig, Service, ServiceRuntime, nothing_to_adopt};
use crate::world::clock::{seed_of, wall_now};
use challenges::Challenges;
use config::{Certificate, Config, Ordered, Problem, Secret};
use directory::AcmeClient;
use disk::DiskWork;
use mail::Random;
use mail::Wall;
use mta::console::{Console as _, Level};
use mta::metrics::{Grid, MetricSet};
use order::OrderError;
use responder::Responder;
use rustls::ClientConfig;
use schedule::{JITTER_RANGE, OrderAttempts, OrderEnd};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Issued, Store};
use tokio::sync::mpsc;

/// Connections at once where an authority sees that names are ours.
pub(crate) const CONNECTIONS_MAX: u32 = 64;

/// An order takes no longer, however many names it has.
const ORDER_MAX: Duration = Duration::from_secs(600);

/// Between two looks at what there is: the clock may jump, and files may go.
const LOOK_EVERY: Duration = Duration::from_secs(60);

mta::metric_set! {
    /// Of certificates that an authority is asked for (ACME).
    AcmeMetrics:

    orders: Grid<OrderEnd> = "acme_orders" {} "Certificate orders, by outcome.";
}

/// Orders certificates as long as it lives.
#[derive(Clone)]
pub(crate) struct Acme(Arc<AcmeInner>);

struct AcmeInner {
    state: Mutex<State>,
    certificates: Arc<Certificates>,
    read: Arc<AcmeFiles>,
    metrics: Arc<AcmeMetrics>,
    runtime: ServiceRuntime,
    files: StateFiles,
    pool: Pool,
    console: Arc<ConsoleLog>,
}

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    /// Sends to the task, which starts with the first ordered certificate.
    changes: Option<AcmeUpdateSender>,
}

/// Sends updates to the task.
type AcmeUpdateSender = mpsc::UnboundedSender<AcmeUpdate>;

/// A plan for the task.
struct AcmeUpdate {
    plan: Option<Plan>,
    /// Where answers are given; `None`: where they were.
    listener: Option<TcpListener>,
}

/// What a configuration wants.
#[derive(Clone)]
struct Plan {
    acme: Authority,
    store: Store,
    certificates: Vec<Certificate>,
    external: Option<(Box<str>, Secret)>,
    client: Arc<ClientConfig>,
}

impl Plan {
    /// `None`: nothing is ordered.
    ///
    /// # Errors
    /// All that is wrong with the files that it names.
    fn of(config: &Config) -> Result<Option<Plan>, Vec<Problem>> {
        let Some(acme) = config.of::<Authority>() else { return Ok(None) };
        let wrong = |key: &str, why: String| config.mistake_at(&format!("acme.{key}"), why);
        let external = acme.external_account.as_ref().map(|account| {
            let key = secrets::read_base64url(&account.key_file)
                .map_err(|why| wrong("external_account.key_file", why))?;
            Ok((account.key_id.clone(), key))
        });
        let client = https::client(acme.ca_file.as_deref()).map_err(|why| wrong("ca_file", why));
        let (external, client) = match (external.transpose(), client) {
            (Ok(external), Ok(client)) => (external, client),
            (external, client) => {
                return Err(external.err().into_iter().chain(client.err()).collect());
            }
        };
        let ordered = config.certificates.iter().filter(|one| one.ordered.is_some());
        Ok(Some(Plan {
            acme: acme.clone(),
            store: Store::new(&acme.store),
            certificates: ordered.cloned().collect(),
            external,
            client: Arc::new(client),
        }))
    }

    fn is_same(&self, other: &Plan) -> bool {
        self.acme == other.acme
            && self.external == other.external
            && jobs_of(self) == jobs_of(other)
    }
}

/// What is ordered, wherever in the file it stands.
fn jobs_of(plan: &Plan) -> Vec<(&PathBuf, Option<Ordered>, Vec<String>)> {
    let job = |one: &'_ Certificate| one.names.iter().map(ToString::to_string).collect();
    plan.certificates.iter().map(|one| (&one.chain, one.ordered, job(one))).collect()
}

impl Acme {
    /// Orders nothing before a configuration is adopted.
    pub(crate) fn new(
        certificates: &Arc<Certificates>,
        pool: Pool,
        runtime: &ServiceRuntime,
        (read, files, console): (&Arc<AcmeFiles>, &StateFiles, &Arc<ConsoleLog>),
    ) -> Acme {
        Acme(Arc::new(AcmeInner {
            state: Mutex::default(),
            certificates: Arc::clone(certificates),
            read: Arc::clone(read),
            metrics: Arc::default(),
            runtime: runtime.clone(),
            files: files.clone(),
            pool,
            console: Arc::clone(console),
        }))
    }
}

impl Service for Acme {
    fn name(&self) -> &'static str {
        "ordered certificates"
    }

    /// Reads the files that the configuration names, and binds its address.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let prepared = self.0.prepare(next.config)?;
        let inner = Arc::clone(&self.0);
        Ok(match prepared {
            Some((changes, change)) => Box::new(move || inner.adopt(&changes, change)),
            None => nothing_to_adopt(),
        })
    }

    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        Some(Arc::clone(&self.0.metrics) as _)
    }
}

/// The files that `[acme]` names, for those that look whether a configuration can be used, and for those that order.
#[derive(Default)]
pub(crate) struct AcmeFiles {
    /// What was read last, and for which configuration.
    read: Mutex<Option<(Arc<Config>, Option<Plan>)>>,
}

impl AcmeFiles {
    /// What a configuration wants: each is read once.
    fn plan(&self, config: &Arc<Config>) -> Result<Option<Plan>, Vec<Problem>> {
        match lock(&self.read).take() {
            Some((read, plan)) if Arc::ptr_eq(&read, config) => Ok(plan),
            _ => Plan::of(config),
        }
    }
}

impl Service for Arc<AcmeFiles> {
    fn name(&self) -> &'static str {
        "files of the ACME account"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let plan = Plan::of(next.config)?;
        *lock(&self.read) = Some((Arc::clone(next.config), plan));
        Ok(nothing_to_adopt())
    }
}

impl AcmeInner {
    /// Returns the update and its sender; `None`: nothing changes.
    fn prepare(
        &self,
        config: &Arc<Config>,
    ) -> Result<Option<(AcmeUpdateSender, AcmeUpdate)>, Vec<Problem>> {
        let plan = self.read.plan(config)?;
        let mut state = lock(&self.state);
        let listener = match (&state.plan, &plan) {
            (None, None) => return Ok(None),
            (Some(old), Some(new)) if old.is_same(new) => return Ok(None),
            (_, None) => None,
            (old, Some(new)) => {
                let place = |plan: &Plan| (plan.acme.challenge, plan.acme.address);
                let is_moved = old.as_ref().map(place) != Some(place(new));
                let (challenge, address) = place(new);
                let bound = is_moved.then(|| responder::bind(challenge, address)).transpose();
                bound.map_err(|why| vec![config.mistake_at("acme.address", why)])?
            }
        };
        let changes = match &state.changes {
            Some(changes) => changes.clone(),
            None => {
                let started = self.start();
                let started = started.map_err(|why| vec![config.mistake_at("acme", why)])?;
                state.changes.insert(started).clone()
            }
        };
        Ok(Some((changes, AcmeUpdate { plan, listener })))
    }

    /// Does from now on what was prepared.
    fn adopt(&self, changes: &AcmeUpdateSender, change: AcmeUpdate) {
        let mut state = lock(&self.state);
        if let (Some(plan), Some(listener)) = (&change.plan, &change.listener)
            && let Ok(address) = listener.local_addr()
        {
            let challenge = plan.acme.challenge.as_str();
            let text = format_args!("answering {challenge} challenges on {address}");
            self.console.line(Level::Info, "acme", text);
        }
        state.plan.clone_from(&change.plan);
        // The task ends with the process.
        let _ = changes.send(change);
    }

    fn start(&self) -> Result<AcmeUpdateSender, String> {
        let tasks = self.runtime.start()?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let orderer = Orderer {
            certificates: Arc::clone(&self.certificates),
            metrics: Arc::clone(&self.metrics),
            files: self.files.clone(),
            pool: self.pool.clone(),
            console: Arc::clone(&self.console),
            challenges: Challenges::default(),
            disk: Arc::default(),
            random: Random::new(seed_of(u16::MAX)),
        };
        tasks.spawn(move || orderer.run(receiver));
        Ok(sender)
    }
}

/// The state of the task.
struct Orderer {
    certificates: Arc<Certificates>,
    metrics: Arc<AcmeMetrics>,
    files: StateFiles,
    pool: Pool,
    console: Arc<ConsoleLog>,
    challenges: Challenges,
    disk: Arc<DiskWork>,
    random: Random,
}

/// A certificate that is ordered again and again.
struct Job {
    path: PathBuf,
    names: Vec<String>,
    ordered: Ordered,
    tries: OrderAttempts,
    /// What was issued and could not be stored: nothing else is ordered for that.
    unstored: Option<(Vec<u8>, Issued)>,
}

impl Job {
    fn new(certificate: &Certificate, ordered: Ordered, plan: &Plan, files: &StateFiles) -> Job {
        let path = certificate.chain.clone();
        let last = plan.store.ordered(&path).unwrap_or_else(|(at, why)| {
            let file = store::ordered_path(&path);
            files.lost("acme", &file, &why, "its time of order is taken from the file");
            Some(at)
        });
        Job {
            names: certificate.names.iter().map(ToString::to_string).collect(),
            ordered,
            tries: OrderAttempts::after_restart(last, plan.acme.retry, wall_now()),
            unstored: None,
            path,
        }
    }

    /// Returns the time of the next order. `issued`: the current certificate.
    fn due(&self, issued: Option<&Issued>, plan: &Plan, now: Wall) -> Wall {
        let wanted = issued.map_or(Wall(0), |it| it.wanted(&self.names, &plan.acme.directory));
        self.tries.next(wanted, now)
    }

    /// The authority is about to see an order.
    async fn note_ordered(
        &mut self,
        disk: &DiskWork,
        store: &Store,
        now: Wall,
    ) -> Result<(), String> {
        self.tries.ordered = Some(now);
        let (store, path) = (store.clone(), self.path.clone());
        let noted = disk.run(move || store.put_ordered(&path, now)).await;
        noted.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

impl Orderer {
    async fn run(mut self, mut changes: mpsc::UnboundedReceiver<AcmeUpdate>) {
        let disk = Arc::clone(&self.disk);
        let mut plan: Option<Arc<Plan>> = None;
        let mut responder: Option<Responder> = None;
        loop {
            let Err(Some(change)) = disk.unless(changes.recv(), self.work(plan.as_ref())).await
            else {
                return;
            };
            plan = change.plan.map(Arc::new);
            if let (Some(plan), Some(listener)) = (&plan, change.listener) {
                let started =
                    Responder::start(plan.acme.challenge, listener, &self.challenges, &self.pool);
                if let Err(error) = &started {
                    let text = format_args!("cannot answer challenges: {error}");
                    self.console.line(Level::Error, "acme", text);
                }
                responder = started.ok();
            }
            if plan.is_none() {
                responder = None;
            }
            // Held, not read.
            let _ = &responder;
        }
    }

    /// Processes due orders until the plan changes.
    async fn work(&mut self, plan: Option<&Arc<Plan>>) {
        let Some(plan) = plan else { return std::future::pending().await };
        self.put_aside_damaged(plan).await;
        let mut jobs = self.jobs(plan).await;
        loop {
            let paths: Vec<_> = jobs.iter().map(|job| job.path.clone()).collect();
            let read = move || paths.iter().map(|path| Issued::read(path)).collect::<Vec<_>>();
            let issued = self.disk.run(read).await;
            let now = wall_now();
            let next = jobs.iter_mut().zip(&issued);
            let next = next.map(|(job, issued)| (job.due(issued.as_ref(), plan, now), job));
            let next = next.min_by_key(|(due, _)| *due);
            match next {
                Some((due, job)) if due <= now => self.order(plan, job).await,
                Some((due, _)) => tokio::time::sleep(due.since(now).min(LOOK_EVERY)).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the jobs of a plan, with their state from files.
    async fn jobs(&self, plan: &Arc<Plan>) -> Vec<Job> {
        let (plan, files) = (Arc::clone(plan), self.files.clone());
        let read = move || {
            let all = plan.certificates.iter();
            all.filter_map(|one| Some(Job::new(one, one.ordered?, &plan, &files))).collect()
        };
        self.disk.run(read).await
    }

    /// Moves a damaged account aside. The next order creates another one.
    async fn put_aside_damaged(&self, plan: &Arc<Plan>) {
        let (plan, files) = (Arc::clone(plan), self.files.clone());
        self.disk.run(move || put_aside_damaged(&plan, &files)).await;
    }

    /// Obtains a certificate, or uses the one that could not be stored last, and stores it.
    async fn obtain(
        &self,
        plan: &Arc<Plan>,
        job: &mut Job,
        directory: &AcmeClient,
    ) -> Result<Issued, OrderError> {
        let (content, issued) = match job.unstored.take() {
            Some(unstored) => unstored,
            None => {
                self.put_aside_damaged(plan).await;
                let order = order::obtain(plan, job, directory, (&self.challenges, &self.disk));
                let late = tokio::time::sleep(ORDER_MAX);
                let late = self.disk.unless(late, order).await;
                late.unwrap_or_else(|()| {
                    Err(OrderError::Refused(format!("order not finished within {ORDER_MAX:?}")))
                })?
            }
        };
        let (store, path) = (plan.store.clone(), job.path.clone());
        let put = move || (store.put_certificate(&path, &content), content);
        let (put, content) = self.disk.run(put).await;
        put.map(|()| issued.clone()).map_err(|error| {
            let path = job.path.display();
            let why = format!("issued, but cannot be stored in {path}: {error}");
            job.unstored = Some((content, issued));
            OrderError::Refused(why)
        })
    }

    /// Processes one order and logs its result.
    async fn order(&mut self, plan: &Arc<Plan>, job: &mut Job) {
        let directory = AcmeClient::new(&plan.client);
        let stored = self.obtain(plan, job, &directory).await;
        let now = wall_now();
        let ending = match &stored {
            Ok(_) => OrderEnd::Issued,
            Err(OrderError::Refused(_)) => OrderEnd::Refused,
            Err(OrderError::Unreached(_)) => OrderEnd::Unreached,
        };
        self.metrics.orders[ending].inc();
        let pauses = (plan.acme.retry, directory.pause());
        job.tries.note(ending, now, pauses, self.random.below(JITTER_RANGE));
        let (names, host, path) = (job.names.join(", "), plan.acme.host(), job.path.clone());
        match stored {
            Ok(issued) => {
                let ends = issued.ends;
                let text =
                    format_args!("{host} has issued the certificate for {names} until {ends}");
                self.console.line(Level::Info, "acme", text);
                let certificates = Arc::clone(&self.certificates);
                self.disk.run(move || certificates.read_anew(&path)).await;
            }
            Err(OrderError::Refused(why) | OrderError::Unreached(why)) => {
                let issued = self.disk.run(move || Issued::read(&path)).await;
                let next = job.due(issued.as_ref(), plan, now);
                let text = format_args!(
                    "no certificate for {names} from {host}: {why}; next try at {next}"
                );
                self.console.line(level_of(issued.as_ref(), now), "acme", text);
            }
        }
    }
}

/// Puts an account aside that is damaged.
fn put_aside_damaged(plan: &Plan, files: &StateFiles) {
    let url = &plan.acme.directory;
    let Some(why) = order::wrong_account(plan) else { return };
    let path = plan.store.account_file(url);
    let moved = match plan.store.put_account_aside(url) {
        Ok(aside) => format!("moved to {}", aside.display()),
        Err(error) => format!("it cannot be moved aside: {error}"),
    };
    let why = format!("the account in {} is damaged: {why}; {moved}", path.display());
    files.lost("acme", &path, &why, "the next order creates another account");
}

/// Level of a failed order: a warning while the current certificate is valid.
fn level_of(issued: Option<&Issued>, now: Wall) -> Level {
    match issued {
        Some(issued) if issued.ends > now => Level::Warn,
        _ => Level::Error,
    }
}
