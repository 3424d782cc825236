//! A running relay: logs, shards, acceptors and what they share.

use crate::acme::Acme;
use crate::advisers::advisers;
use crate::certificates::Certificates;
use crate::commit_thread::Log;
use crate::console::ConsoleLog;
use crate::descriptors::Descriptors;
use crate::effects::KeptEffects;
use crate::event_log::EventLog;
use crate::kept_secret::{self, kept};
use crate::known_clients;
use crate::limited_work::awaited;
use crate::logs::{Distribution, ReadLog, RecoveredReceiver, open_disks, read_logs};
use crate::node_metrics::NodeMetrics;
use crate::orders::{Order, Orders};
use crate::own_mailbox;
use crate::poisoned;
use crate::problems::{ProblemFinder, ProblemList};
use crate::reload::Reloadable;
use crate::replacement::salt;
use crate::reply_classes;
use crate::secrets::WatchedSecrets;
use crate::shard_thread::{AcceptorSeed, Bound, Common, ShardSeed};
use crate::signing_keys::SigningKeys;
use crate::state_files::StateFiles;
use crate::suspensions::Suspensions;
use crate::tables::{Registry, TableNumbers};
use crate::tokens::Tokens;
use crate::world::clock::{Start, wall_now};
use crate::world::hashing::HashingThreads;
use crate::world::listening_socket::AcceptedSocket;
use crate::world::long_work::LongWork;
use crate::world::mailbox_files::{MailboxThreads, check_owners};
use ::classes::Classes;
use config::Config;
use mail::Wall;
use mta::clock::ClockDoubt;
use mta::console::{Console as _, Level};
use mta::control::{Effect, ShardPort, SourceItem};
use mta::custody::COMMIT_MAX;
use mta::event::{EventSettings, EventSink};
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::{LogMetrics, Metrics};
use mta::pools::PoolId;
use mta::pressure::{Pressures, Seen};
use mta::problems::{Found, Moment, ProblemKind};
use mta::shaping::Rules;
use mta::shared::Shared;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// How long transactions may go on after a stop was asked for.
pub(crate) const GRACE_MS: u64 = 4_500;

/// What is to be written at the end is waited for so long, where a disk does not answer.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// The same where it is known that the disk of a spool does not answer: what is left is done again after the next start.
const HANGING_GRACE_MS: u64 = 2_000;
const HANGING_CLOSE_MAX: Duration = Duration::from_millis(500);

/// Where a shard takes what others send it.
type Inbox = mpsc::UnboundedReceiver<ShardMessage<AcceptedSocket>>;

/// A running relay.
pub(crate) struct Node {
    shards: Vec<ShardSender<AcceptedSocket>>,
    threads: Vec<thread::JoinHandle<()>>,
    logs: Vec<Log>,
    events: Option<EventLog>,
    stop_accepting: watch::Sender<bool>,
    /// Where it listens, in the order of the configuration.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) metrics: NodeMetrics,
    pub(crate) started: Start,
    /// What an operator has stopped, and rules of shaping have set in force.
    pub(crate) orders: Orders,
    shared: Arc<Shared>,
    pub(crate) reloadable: Arc<Reloadable>,
}

impl Node {
    /// Recovers the spool, starts the shards and listens.
    ///
    /// # Errors
    /// A sentence that names what could not be opened, read or bound.
    pub(crate) fn start(
        config: &Arc<Config>,
        shards: u16,
        console: &Arc<ConsoleLog>,
        progress: &dyn Fn(&str),
    ) -> Result<Node, String> {
        let (started, files) = (Start::now(), StateFiles::new(console));
        // First of all: what is wrong with them is told like mistakes of the configuration.
        let at = |name: &str| progress(&format!("table {name}"));
        let tables = Registry::open(config, started, console, &at).map_err(|all| all.join("\n"))?;
        progress("files of classes and shaping");
        let replies = reply_classes::read_with_rules(config).map_err(|all| all.join("\n"))?;
        progress("certificates and keys");
        let (certificates, keys) = open_keys(config, console)?;
        check_owners(config)?;
        let (senders, inboxes) = ways_in(shards);
        let metrics = NodeMetrics::new(shards, config.spool.paths.len());
        let descriptors = claim(config, shards, console);
        progress(&spools(config));
        let disks = open_disks(config, descriptors.log_files_max, progress)?;
        let clock = doubt_clock(config, console);
        let logs = read_logs(config, disks, progress, (&files, console))?;
        let events = start_events(config, &metrics, console)?;
        let shared = shared(config, clock, descriptors, &metrics, replies, (&files, console))?;
        let (suspensions, effects) = open_kept(config, &shared, console);
        let advisers =
            advisers(config, &metrics, descriptors, (&senders[0], &shared), (&files, console))?;
        let common = Common {
            config: Arc::clone(config),
            ports: logs.iter().map(ReadLog::port).collect(),
            shared,
            shards: senders.clone(),
            suspensions: suspensions.in_force(wall_now()),
            console: Arc::clone(console),
            started,
            store: MailboxThreads::start(&metrics.mailboxes, descriptors.mailbox_files_max),
            policies: advisers.policies,
            dmarc_reports: advisers.dmarc_reports,
            tls_reports: advisers.tls_reports,
            books: advisers.books,
            resolver: advisers.resolver,
            hashing: HashingThreads::new(),
            long_work: LongWork::new(),
            tables,
            certificates,
            peer_tls: advisers.peer_tls,
        };
        let (stop_accepting, when_bound, acceptor) = acceptors();
        let (distribution, receivers) = Distribution::new(shards);
        let received = inboxes.into_iter().zip(receivers);
        let threads = start_shards(&common, received, &metrics, events.as_ref(), acceptor)?;
        let logs = start_logs(&common, logs, distribution, &metrics, &files)?;
        let orders = Orders::start(suspensions, effects, senders.clone(), (&files, console))?;
        let others = hanging(&keys, &orders, events.as_ref());
        let problems = Arc::new(ProblemList::start(&common, &logs, others)?);
        let reloadable = reloadable(&common, keys, problems, &metrics, &files)?;
        Ok(Node {
            orders,
            shards: senders,
            threads,
            logs,
            events,
            stop_accepting,
            addresses: bound_addresses(&when_bound)?,
            metrics,
            started,
            shared: common.shared,
            reloadable: Arc::new(reloadable),
        })
    }

    /// Ways to put an operator's requests before the shards.
    pub(crate) fn shard_ports(&self) -> Vec<ShardPort> {
        let port = |shard: ShardSender<AcceptedSocket>| -> ShardPort {
            // A shard that has ended drops the answer's sender, which says enough.
            Box::new(move |request, answer| {
                let _ = shard.send(ShardMessage::Control { request: Box::new(request), answer });
            })
        };
        self.shards.iter().cloned().map(port).collect()
    }

    /// The tables in force.
    pub(crate) fn tables(&self) -> &Arc<Registry> {
        &self.reloadable.tables
    }

    /// Where the numbers of tables come from.
    pub(crate) fn table_numbers(&self) -> TableNumbers {
        let tables = Arc::clone(&self.reloadable.tables);
        TableNumbers::new(move || tables.numbers())
    }

    /// Sources, and how far those have come that warm up.
    pub(crate) fn sources(&self) -> Vec<SourceItem> {
        self.reloadable.books.warmups.sources()
    }

    /// What rules of shaping have set in force.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.shared.rules.effects().into_iter().filter(Effect::is_in_force).collect()
    }

    /// An operator says that the clock is right.
    ///
    /// # Errors
    /// A sentence, if nobody doubted it.
    pub(crate) fn trust_clock(&self) -> Result<String, String> {
        if !self.shared.clock.is_doubted() {
            return Err("nobody doubts the clock".to_owned());
        }
        self.shared.clock.trust();
        Ok("the clock is taken to be right: mail that is too old is tried once more and then given \
            up"
        .to_owned())
    }

    /// Messages with at least one open recipient.
    pub(crate) fn message_count(&self) -> u64 {
        let count = |log: &Log| log.port.condition.live_count.load(Ordering::Relaxed);
        self.logs.iter().map(count).sum()
    }

    /// Finds what is wrong when called, for as long as anybody wants to know.
    pub(crate) fn problem_finder(&self) -> ProblemFinder {
        self.reloadable.problems.finder()
    }

    /// Waits until a log writes no more and it is time to start again: recovery makes one of it again. Why, in a
    /// sentence.
    pub(crate) fn end_of_logs(&self) -> impl Future<Output = String> + use<> {
        let logs = self.logs.iter().map(|log| Arc::clone(&log.status)).collect();
        let paths = self.reloadable.first.spool.paths.clone();
        poisoned::wait(logs, paths, (poisoned::GRACE, poisoned::LOOKED_EVERY))
    }

    /// A sentence about next hops that are left alone, if there are any.
    pub(crate) fn suspended_hops(&self) -> Option<String> {
        self.shared.suspensions.summary()
    }

    /// A sentence about name servers that do not answer, or next hops that are left alone, if there are
    /// any.
    pub(crate) fn suspension_finder(&self) -> Arc<dyn Fn() -> Option<String> + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.name_servers.trouble().or_else(|| shared.suspensions.summary()))
    }

    /// The pools, for their numbers.
    pub(crate) fn pressures(&self) -> &Arc<Pressures> {
        &self.shared.pressures
    }

    /// How long a stop lets transactions finish, and waits for what it closes.
    fn patience(&self) -> (u64, Duration) {
        let now = self.started.elapsed();
        let hangs = |log: &Log| {
            log.port.condition.commit.under_way(now).is_some_and(|time| time > COMMIT_MAX)
        };
        match self.logs.iter().any(hangs) || self.orders.under_way.oldest().is_some() {
            true => (HANGING_GRACE_MS, HANGING_CLOSE_MAX),
            false => (GRACE_MS, CLOSE_MAX),
        }
    }

    /// Stops: no new connections, transactions finish for a while, the rest gets 421, what was
    /// delivered is settled, the logs are closed. Whatever hangs is left as it is after some seconds.
    pub(crate) async fn stop(self, console: &Arc<ConsoleLog>) {
        let _ = self.stop_accepting.send(true);
        let (grace_ms, close_max) = self.patience();
        let mut waiting = Vec::new();
        for shard in &self.shards {
            let (done, stopped) = oneshot::channel();
            let _ = shard.send(ShardMessage::Stop { grace_ms, done });
            waiting.push(stopped);
        }
        let all = async {
            for stopped in waiting {
                // An error means that the shard has ended already.
                let _ = stopped.await;
            }
        };
        // It settles and says 421 after the grace.
        let shards_max = Duration::from_millis(grace_ms) + close_max;
        if timeout(shards_max, all).await.is_err() {
            console.line(Level::Error, "stop", format_args!("a shard hangs: it is not waited for"));
        }
        let _ = timeout(close_max, self.orders.give(Order::Keep)).await;
        let (logs, reloadable) = (self.logs, self.reloadable);
        drop(self.shards);
        let closed = awaited(close_max, move || {
            reloadable.dmarc_reports.finish();
            reloadable.tls_reports.finish();
            // While nobody else may have the spool directory.
            known_clients::close(&reloadable.first.spool.paths[0], &reloadable.shared);
            reloadable.books.close();
            logs.into_iter().for_each(Log::stop);
        });
        if closed.await.is_none() {
            let text = "the spool's disk hangs: what was not written yet is done again after the next start";
            console.line(Level::Error, "stop", format_args!("{text}"));
        }
        if let Some(events) = self.events {
            // It has a patience of its own.
            let hangs = close_max == HANGING_CLOSE_MAX;
            match awaited(Duration::MAX, move || events.finish(hangs)).await {
                Some(0) | None => {}
                Some(lost) => {
                    let text = "the event log takes nothing: events were not written";
                    console.line(Level::Error, "events", format_args!("{text} lost={lost}"));
                }
            }
        }
        // Shard threads end with the process: nothing they still hold matters now.
        drop(self.threads);
    }
}

/// Pools that only the program has show themselves.
fn show_pools(common: &Common) {
    let pools = &common.shared.pressures;
    let tables = Arc::downgrade(&common.tables);
    let questions = move |_: Moment| tables.upgrade().map(|all| all.pressure()).unwrap_or_default();
    pools.keep(PoolId::TableQuestions, Seen(questions));
    pools.keep(PoolId::Passwords, common.hashing.gauge());
    pools.keep(PoolId::Logins, common.tables.logins.gauge());
}

/// Kinds of problems of what only the start has at hand: files that hang.
fn hanging(
    (keys, secrets): &Keys,
    orders: &Orders,
    events: Option<&EventLog>,
) -> Vec<Arc<dyn ProblemKind>> {
    let works = [&keys.under_way, &secrets.under_way, &orders.under_way];
    let mut kinds: Vec<Arc<dyn ProblemKind>> = Vec::new();
    kinds.extend(works.map(|work| Arc::new(work.clone()) as Arc<dyn ProblemKind>));
    kinds.extend(events.map(|events| events.writing() as Arc<dyn ProblemKind>));
    kinds
}

/// What a reload changes.
fn reloadable(
    common: &Common,
    (signing_keys, secrets): Keys,
    problems: Arc<ProblemList>,
    metrics: &NodeMetrics,
    files: &StateFiles,
) -> Result<Reloadable, String> {
    show_pools(common);
    let common = common.clone();
    let (config, console) = (common.config, common.console);
    common.shared.problems.register(Arc::new(signing_keys.troubles.clone()));
    common.shared.problems.register(Arc::new(secrets.troubles.clone()));
    let numbers = (&metrics.acme, &common.shared.pressures);
    Ok(Reloadable {
        acme: Acme::open(&config, &common.certificates, numbers, (files, &console))?,
        shards: common.shards,
        shared: common.shared,
        tables: common.tables,
        certificates: common.certificates,
        signing_keys,
        secrets,
        dmarc_reports: common.dmarc_reports,
        tls_reports: common.tls_reports,
        books: common.books,
        resolver: common.resolver,
        tokens: Tokens::start(&config, &console)?,
        problems,
        first: config,
    })
}

/// Where mail is kept, for people.
fn spools(config: &Config) -> String {
    let paths: Vec<_> = config.spool.paths.iter().map(|path| path.display().to_string()).collect();
    format!("the spool in {}", paths.join(", "))
}

/// What acceptors are started with, how they are stopped, and where they say what they are bound to.
fn acceptors() -> (watch::Sender<bool>, std_mpsc::Receiver<Bound>, AcceptorSeed) {
    let (stop_accepting, stop) = watch::channel(false);
    let (bound, when_bound) = std_mpsc::channel();
    (stop_accepting, when_bound, AcceptorSeed { bound, stop })
}

/// A way into each shard, and what it takes from there.
fn ways_in(shards: u16) -> (Vec<ShardSender<AcceptedSocket>>, Vec<Inbox>) {
    (0..shards).map(|_| mpsc::unbounded_channel()).unzip()
}

/// Where the first shard listens, once it does.
fn bound_addresses(when_bound: &std_mpsc::Receiver<Bound>) -> Result<Vec<SocketAddr>, String> {
    let ended = |_| "the first shard ended before it listened".to_owned();
    when_bound.recv().map_err(ended)?.map_err(|error| error.to_string())
}

/// Has users of whom nothing is stored shown the same salts at each start, and messages in mailboxes the
/// same names. What can't be kept is for this start.
fn keep_salts(config: &Config, shared: Shared, files: &StateFiles) -> Result<Shared, String> {
    let directory = &config.spool.paths[0];
    let mut fresh = [0; 8];
    fresh.copy_from_slice(&salt()?[..8]);
    let names = kept(directory, kept_secret::SPOOL_SALT, fresh);
    if let Some(why) = names.trouble {
        let so = "a message that was being delivered at the last stop may be there twice";
        files.lost("mailboxes", &directory.join(kept_secret::SPOOL_SALT), &why, so);
    }
    let shared = shared.with_spool_salt(u64::from_le_bytes(names.bytes));
    if config.listeners.iter().any(|listener| listener.needs_login()) {
        let secret = kept_secret::login_salts(directory);
        if let Some(why) = secret.trouble {
            let so =
                "salts of unknown users change: copy the file from a server with the same users";
            files.lost("logins", &directory.join(kept_secret::LOGIN_SALTS), &why, so);
        }
        shared.salts.set_secret(secret.bytes);
    }
    if let Some(why) = kept_secret::keep_return_paths(config, directory) {
        let so = "DSNs about earlier mail of the gateway become messages";
        files.lost("x400", &directory.join(kept_secret::LOGIN_SALTS), &why, so);
    }
    Ok(shared)
}

/// What an operator has suspended, and what rules of shaping do. Where the first can't be known all delivery is
/// suspended.
fn open_kept(
    config: &Config,
    shared: &Arc<Shared>,
    console: &ConsoleLog,
) -> (Suspensions, KeptEffects) {
    let now = wall_now();
    let (suspensions, lost) = Suspensions::open(&config.spool.paths[0], now);
    if let Some(why) = lost {
        let text = format!("all delivery is suspended: {why}");
        console.line(Level::Error, "suspensions", format_args!("{text}"));
        let step =
            "look at what was suspended, suspend it again, then `postrider queue resume --all`";
        let found = Found::warning(suspensions.shown(), text).next_step(step);
        shared.problems.conditions("state_file").set(found, now);
    }
    (suspensions, KeptEffects::open(config, shared, console))
}

/// What all shards share.
fn shared(
    config: &Config,
    clock: ClockDoubt,
    descriptors: Descriptors,
    metrics: &NodeMetrics,
    (classes, rules): (Arc<Classes>, Rules),
    (files, console): (&StateFiles, &Arc<ConsoleLog>),
) -> Result<Arc<Shared>, String> {
    let shards = u16::try_from(metrics.shards.len()).unwrap_or(u16::MAX);
    let shared = Shared::new(config, shards)
        .with_metrics(Arc::clone(&metrics.classes), Arc::clone(&metrics.sending))
        .with_logs(metrics.logs.clone())
        .with_clock(clock)
        .with_connections(descriptors.sessions_max, descriptors.egress_max)
        .with_lookups(descriptors.lookups_max);
    shared.problems.register(Arc::new(files.conditions().clone()));
    shared.set_classes(classes);
    shared.rules.set_rules(rules);
    let shared = keep_salts(config, shared, files)?;
    let shared = Arc::new(shared);
    own_mailbox::watch(&shared, console);
    if config.spool.durability != config::Durability::Memory {
        known_clients::open(&config.spool.paths[0], &shared, files);
    }
    Ok(shared)
}

/// Starts the threads of each log, which hand what it held to the shards.
fn start_logs(
    common: &Common,
    logs: Vec<ReadLog>,
    mut distribution: Distribution,
    metrics: &NodeMetrics,
    files: &StateFiles,
) -> Result<Vec<Log>, String> {
    let Common { config, console, shards, started, .. } = common;
    let start = |(log, metrics): (ReadLog, &Arc<LogMetrics>)| {
        log.start(config, &mut distribution, shards, (metrics, *started), (files, console))
    };
    let logs = logs.into_iter().zip(&metrics.logs).map(start).collect::<Result<_, _>>()?;
    distribution.finish();
    Ok(logs)
}

/// Starts the thread of each shard; the first one listens. `received` has the inbox of each, and where
/// it receives what the logs held.
fn start_shards(
    common: &Common,
    received: impl Iterator<Item = (Inbox, RecoveredReceiver)>,
    metrics: &NodeMetrics,
    events: Option<&EventLog>,
    acceptor: AcceptorSeed,
) -> Result<Vec<thread::JoinHandle<()>>, String> {
    let mut acceptor = Some(acceptor);
    let start = |((number, metrics), (inbox, recovered)): ((u16, &Arc<Metrics>), _)| {
        let queue = events.and_then(|log| log.queue(usize::from(number)));
        let seed = ShardSeed {
            number,
            common: common.clone(),
            inbox,
            recovered,
            events: queue.map(|queue| queue as Arc<dyn EventSink + Send + Sync>),
            metrics: Arc::clone(metrics),
            acceptor: acceptor.take(),
        };
        seed.start()
    };
    (0..).zip(&metrics.shards).zip(received).map(start).collect()
}

/// Compares the clock with the newest record of the spool: the moment at which a file of it was
/// last written to.
fn doubt_clock(config: &Config, console: &ConsoleLog) -> ClockDoubt {
    let is_record = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.ends_with(".segment") || name.ends_with(".blob")
    };
    let written = |entry: std::fs::DirEntry| entry.metadata().and_then(|meta| meta.modified()).ok();
    let newest = config
        .spool
        .paths
        .iter()
        .filter_map(|path| std::fs::read_dir(path).ok())
        .flatten()
        .flatten()
        .filter(is_record)
        .filter_map(written)
        .filter_map(|at| at.duration_since(std::time::UNIX_EPOCH).ok())
        .max()
        .map(|since| Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)));
    let now = wall_now();
    let doubt = ClockDoubt::new(newest, now);
    if let Some(problem) = doubt.problem(now) {
        console.line(Level::Error, "clock", format_args!("{problem}"));
    }
    doubt
}

/// After the spool is open: the log usually lies in its directory, which only the spool may make, with
/// its mode, and whose errors are told as the spool's.
fn start_events(
    config: &Config,
    metrics: &NodeMetrics,
    console: &Arc<ConsoleLog>,
) -> Result<Option<EventLog>, String> {
    let Some(options) = config.of::<EventSettings>().map(|events| &events.file) else {
        return Ok(None);
    };
    let console = Arc::clone(console);
    let report = Box::new(move |text: &str| {
        console.line(Level::Warn, "events", format_args!("{text}"));
    });
    EventLog::start(options, &metrics.events, report)
        .map(Some)
        .map_err(|error| format!("cannot start a thread: {error}"))
}

/// Keys that sign, and files with logins.
type Keys = (Arc<SigningKeys>, WatchedSecrets);

/// Certificates and keys, as they are in files now.
fn open_keys(
    config: &Arc<Config>,
    console: &Arc<ConsoleLog>,
) -> Result<(Arc<Certificates>, Keys), String> {
    let secrets = WatchedSecrets::new(console);
    secrets.watch(config)?;
    let signing_keys = SigningKeys::open(config, console)?;
    Ok((Certificates::open(config, console)?, (signing_keys, secrets)))
}

/// Takes as many descriptors as there may be, and says where those are fewer than the configuration counts on.
fn claim(config: &Config, shards: u16, console: &ConsoleLog) -> Descriptors {
    let descriptors = Descriptors::claim(config, shards);
    let max = descriptors.sessions_max;
    for listener in config.listeners.iter().filter(|l| l.max_sessions == 0 || l.max_sessions > max)
    {
        let (name, wanted) = (&listener.name, listener.max_sessions);
        console.line(
            Level::Warn,
            "descriptors",
            format_args!(
                "listener {name} may have {wanted} sessions, but the limit of open files leaves \
                 {max}: raise it (LimitNOFILE=, ulimit -Hn)"
            ),
        );
    }
    descriptors
}
