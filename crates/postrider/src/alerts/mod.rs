//! `[alerts]`: reports of problems to operators, by mail or to a web server.
//!
//! A task reads the list of problems every second. For each receiver a [`plan::AlertPlan`] decides when an alert is due.
//! Mail goes through the reserve for alerts ([`mta::alert_reserve`]), and its result comes from the events.

mod letter;
mod plan;
mod results;
mod settings;
mod webhook;

use crate::console::ConsoleLog;
use crate::file_watch::{Bell, FileJobs};
use crate::kept_file::{StateFile, StateFiles};
use crate::mutex::lock;
use crate::services::{Adoption, CandidateConfig, EventTaker, Service, ServiceRuntime};
use crate::world::clock::{Start, wall_now};
use crate::world::listening_socket::AcceptedSocket;
use bytes::Bytes;
use config::Problem as Mistake;
use letter::Letter;
use mail::Mailbox;
use mta::console::{Console as _, Level};
use mta::inbox::{ALERT_EXPIRES_AFTER, GeneratedMessage, Purpose, ShardMessage, ShardSender};
use mta::metrics::{Grid, MetricSet};
use mta::problems::{ClockReading, Conditions, DetectedProblem, Problem};
use mta::shared::SharedState;
use plan::{ALERT_KIND, Alert, AlertPlan, AlertWay, StoredPlan};
use results::AlertResults;
pub(crate) use settings::AlertSettings;
use settings::Webhook;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Interval of the checks.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// Name of the state file.
const FILE: &str = "alerts.json";
/// Between two tries to write the state file.
const WRITE_EVERY: Duration = Duration::from_secs(60);
/// Timeout for the result of an alert by mail: it expires before.
const RESULT_TIMEOUT: Duration = ALERT_EXPIRES_AFTER.saturating_add(Duration::from_secs(3_600));
/// Subject of its console lines and events.
const ABOUT: &str = "alerts";

mta::metric_set! {
    /// Alerts.
    AlertMetrics:

    sent: Grid<AlertWay> = "alerts_sent" {} "Delivered alerts.";
    failed: Grid<AlertWay> = "alerts_failed" {} "Undelivered alerts.";
}

/// Sends alerts; clones are of one.
#[derive(Clone)]
pub(crate) struct Alerts(Arc<AlertService>);

struct AlertService {
    metrics: Arc<AlertMetrics>,
    results: Arc<AlertResults>,
    terms: Mutex<Option<Terms>>,
    /// Other terms are in force.
    adopted: Notify,
    /// Problems with alerts themselves, by receiver.
    troubles: Conditions,
    /// Number of the last message.
    number: AtomicU64,
    shared: Arc<SharedState>,
    started: Start,
    shard: ShardSender<AcceptedSocket>,
    runtime: ServiceRuntime,
    jobs: FileJobs,
    file: StateFile,
    path: Box<Path>,
    files: StateFiles,
    /// State to be written, if it has changed.
    unwritten: Mutex<Option<Vec<StoredPlan>>>,
    /// Rings for the write, once alerts were on.
    bell: OnceLock<Bell>,
    console: Arc<ConsoleLog>,
}

/// Settings in force.
#[derive(Clone, Debug)]
struct Terms {
    settings: AlertSettings,
    hostname: Box<str>,
    from: Mailbox,
}

/// A receiver of alerts.
#[derive(Clone, Debug)]
enum Receiver {
    Mail(Mailbox),
    Webhook(Webhook),
}

impl Receiver {
    fn way(&self) -> AlertWay {
        match self {
            Receiver::Mail(_) => AlertWay::Mail,
            Receiver::Webhook(_) => AlertWay::Webhook,
        }
    }

    /// For the console, the list of problems and the state file. The path of a URL may be a secret.
    fn name(&self) -> String {
        match self {
            Receiver::Mail(mailbox) => mailbox.to_string(),
            Receiver::Webhook(webhook) => format!("webhook {}", webhook.at.authority),
        }
    }
}

impl Terms {
    fn receivers(&self) -> impl Iterator<Item = Receiver> {
        let mail = self.settings.to.iter().cloned().map(Receiver::Mail);
        mail.chain(self.settings.webhook.clone().map(Receiver::Webhook))
    }
}

/// The services that alerts use.
pub(crate) struct AlertParts<'a> {
    pub(crate) shared: &'a Arc<SharedState>,
    pub(crate) started: Start,
    /// The shard that queues mail.
    pub(crate) shard: &'a ShardSender<AcceptedSocket>,
    pub(crate) runtime: &'a ServiceRuntime,
    pub(crate) jobs: &'a FileJobs,
    pub(crate) files: &'a StateFiles,
    pub(crate) console: &'a Arc<ConsoleLog>,
}

impl Alerts {
    /// Sends nothing before a configuration is adopted that has receivers. `spool` is the first spool directory.
    pub(crate) fn new(spool: &Path, parts: &AlertParts<'_>) -> Alerts {
        let AlertParts { shared, started, shard, runtime, jobs, files, console } = parts;
        Alerts(Arc::new(AlertService {
            metrics: Arc::default(),
            results: Arc::default(),
            terms: Mutex::default(),
            adopted: Notify::new(),
            troubles: shared.problems.conditions(ALERT_KIND),
            number: AtomicU64::new(0),
            shared: Arc::clone(shared),
            started: *started,
            shard: (*shard).clone(),
            runtime: (*runtime).clone(),
            jobs: (*jobs).clone(),
            file: StateFile::new(spool, FILE, "sent alerts"),
            path: spool.join(FILE).into(),
            files: (*files).clone(),
            unwritten: Mutex::default(),
            bell: OnceLock::new(),
            console: Arc::clone(console),
        }))
    }

    /// Starts the task, unless it runs.
    fn start(&self) -> Result<(), String> {
        let tasks = self.0.runtime.start()?;
        // Another reload may be at it, too.
        let _starting = lock(&self.0.terms);
        if self.0.bell.get().is_some() {
            return Ok(());
        }
        let stored = self.0.file.read::<StoredPlan>();
        if let Some(why) = &stored.lost {
            let so = "current problems are reported again";
            self.0.files.lost(ABOUT, &self.0.path, why, so);
        }
        let _ = self.0.bell.set(self.0.jobs.follow(&self.0, |service| service.write()));
        let service = Arc::clone(&self.0);
        tasks.spawn(move || run(service, stored.entries));
        Ok(())
    }
}

impl Service for Alerts {
    fn name(&self) -> &'static str {
        ABOUT
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Mistake>> {
        let settings = next.config.of::<AlertSettings>().cloned();
        let terms = settings.map(|settings| Terms {
            from: settings.from.clone().unwrap_or_else(|| next.config.postmaster.address.clone()),
            hostname: next.config.hostname.as_str().into(),
            settings,
        });
        if terms.is_some() && !next.is_check {
            self.start().map_err(|why| vec![next.config.mistake_at(ABOUT, why)])?;
        }
        let service = Arc::clone(&self.0);
        Ok(Box::new(move || {
            *lock(&service.terms) = terms;
            service.adopted.notify_one();
        }))
    }

    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        Some(Arc::clone(&self.0.metrics) as _)
    }

    fn events(&self, _shard: u16) -> Option<EventTaker> {
        Some(Arc::<AlertResults>::clone(&self.0.results))
    }

    fn finish(&self) {
        self.0.write();
    }
}

/// The alerts of all receivers, with the ends of pending ones.
struct Plans {
    by_receiver: BTreeMap<String, AlertPlan>,
    stored: Vec<StoredPlan>,
    ended: mpsc::UnboundedReceiver<(String, bool)>,
    end: mpsc::UnboundedSender<(String, bool)>,
}

async fn run(service: Arc<AlertService>, stored: Vec<StoredPlan>) {
    let (end, ended) = mpsc::unbounded_channel();
    let mut plans = Plans { by_receiver: BTreeMap::new(), stored, ended, end };
    loop {
        let terms = lock(&service.terms).clone();
        match terms {
            Some(terms) => plans.look(&service, &terms),
            None => plans.by_receiver.clear(),
        }
        tokio::select! {
            () = sleep(ASKED_EVERY) => {}
            () = service.adopted.notified() => {}
        }
    }
}

impl Plans {
    /// Sends the alerts that are due.
    fn look(&mut self, service: &Arc<AlertService>, terms: &Terms) {
        let receivers: BTreeMap<String, Receiver> =
            terms.receivers().map(|receiver| (receiver.name(), receiver)).collect();
        self.by_receiver.retain(|name, plan| receivers.contains_key(name) || plan.is_pending());
        let mut is_changed = false;
        while let Ok((name, is_delivered)) = self.ended.try_recv() {
            if let Some(plan) = self.by_receiver.get_mut(&name) {
                plan.conclude(is_delivered);
                is_changed = true;
            }
        }
        let (now, problems) = (wall_now(), service.problems(terms));
        for (name, receiver) in receivers {
            let stored = self.stored.iter().position(|stored| stored.receiver == name);
            let stored = stored.map(|at| self.stored.swap_remove(at));
            let plan = self.by_receiver.entry(name.clone()).or_insert_with(|| match stored {
                Some(stored) => AlertPlan::restored(receiver.way(), stored),
                None => AlertPlan::new(receiver.way()),
            });
            let Some(alert) = plan.poll(now, &problems, terms.settings.every) else { continue };
            is_changed = true;
            let (service, terms, end) = (Arc::clone(service), terms.clone(), self.end.clone());
            // A disk or a server that hangs delays this receiver only.
            tokio::task::spawn_local(async move {
                let is_delivered = service.deliver(&terms, &receiver, &alert).await;
                let _ = end.send((name, is_delivered));
            });
        }
        if is_changed {
            let plans = self.by_receiver.iter();
            service.keep(plans.filter_map(|(name, plan)| plan.stored(name)).collect());
        }
    }
}

impl AlertService {
    /// The problems that are reported.
    fn problems(&self, terms: &Terms) -> Vec<Problem> {
        let now = ClockReading { mono: self.started.elapsed(), wall: wall_now() };
        let all = self.shared.problems.ask_for_reports(now).into_iter().map(|one| one.problem);
        all.filter(|problem| terms.settings.severity.includes(problem.severity)).collect()
    }

    /// Delivers an alert, and returns true if that succeeded.
    async fn deliver(&self, terms: &Terms, receiver: &Receiver, alert: &Alert) -> bool {
        let (name, way) = (receiver.name(), receiver.way());
        let delivered = match receiver {
            Receiver::Mail(to) => self.mail(terms, to, alert).await,
            Receiver::Webhook(webhook) => {
                webhook::post(webhook, letter::json(alert, &terms.hostname, wall_now())).await
            }
        };
        match delivered {
            Ok(()) => {
                self.metrics.sent[way].inc();
                self.troubles.clear(&name);
                self.console.line(Level::Info, ABOUT, format_args!("delivered to={name}"));
                true
            }
            Err(why) => {
                self.metrics.failed[way].inc();
                let text = format!("an alert to {name} was not delivered: {why}");
                self.console.line(Level::Warn, ABOUT, format_args!("{text}"));
                let found = DetectedProblem::warning(name, text)
                    .next_step("correct the receiver or its server; the next alert clears this");
                self.troubles.set(found, wall_now());
                false
            }
        }
    }

    /// Queues an alert, and waits for the result of its delivery.
    async fn mail(&self, terms: &Terms, to: &Mailbox, alert: &Alert) -> Result<(), String> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let (hostname, from, now) = (&*terms.hostname, &terms.from, wall_now());
        let content = Letter { hostname, from, to, now, number }.compose(alert);
        let (answer, answered) = oneshot::channel();
        let own = GeneratedMessage {
            sender: None,
            recipients: vec![to.clone()],
            content: Bytes::from(content),
            about: Arc::from(ABOUT),
            purpose: Purpose::Alert,
            answer,
        };
        self.results.begin();
        let _ = self.shard.send(ShardMessage::Own(Box::new(own)));
        let queued = answered.await.unwrap_or_else(|_| Err("the server stops".to_owned()));
        let result = self.results.submitted(queued.as_ref().ok().copied());
        let id = queued?.id;
        self.console.line(Level::Info, ABOUT, format_args!("queued to={to} id={id}"));
        let Some(result) = result else { return Ok(()) };
        match timeout(RESULT_TIMEOUT, result).await {
            Ok(Ok(true)) => Ok(()),
            _ => Err(format!("its message {id} failed")),
        }
    }

    /// Has the state written.
    fn keep(&self, plans: Vec<StoredPlan>) {
        *lock(&self.unwritten) = Some(plans);
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    /// Writes changed state, on a thread that may wait for the disk.
    fn write(&self) -> Duration {
        let unwritten = lock(&self.unwritten).take();
        if let Some(plans) = unwritten {
            let written = self.file.content(&plans).and_then(|content| self.file.put(&content));
            match written {
                Ok(()) => self.files.written(&self.path),
                Err(why) => {
                    self.files.unwritten(ABOUT, &self.path, &why);
                    lock(&self.unwritten).get_or_insert(plans);
                }
            }
        }
        WRITE_EVERY
    }
}
