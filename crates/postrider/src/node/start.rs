//! The start of a relay, in the order in which things need each other.

use super::{Node, StartError};
use crate::advisers::SharedServices;
use crate::advisers::advisers;
use crate::commands::load::{self, LoadedConfig};
use crate::commit_thread::Log;
use crate::console::ConsoleLog;
use crate::descriptors::Descriptors;
use crate::effects::EffectStore;
use crate::event_log::EventLog;
use crate::file_watch::{FileJobs, FileWatch};
use crate::handed_sockets::OpenedListeners;
use crate::kept_file::StateFiles;
use crate::kept_secret::{self, kept};
use crate::known_clients;
use crate::logs::{Distribution, ReadLog, RecoveredReceiver, open_disks, read_logs};
use crate::node_metrics::NodeMetrics;
use crate::orders::Orders;
use crate::own_mailbox;
use crate::problems::ProblemList;
use crate::reload::Reloadable;
use crate::replacement::salt;
use crate::revoked_logins::RevokedLogins;
use crate::secrets::WatchedSecrets;
use crate::services::{
    EventTaker, FileServices, RightsAtStart, ServiceContext, Services, beside, services,
};
use crate::shard_thread::{AcceptorSeed, BoundAddresses, ShardContext, ShardSeed};
use crate::signing_keys::SigningKeys;
use crate::suspensions::Suspensions;
use crate::world::clock::{Start, wall_now};
use crate::world::hashing::HashingThreads;
use crate::world::listening_socket::AcceptedSocket;
use crate::world::long_work::LongWork;
use crate::world::mailbox_files::MailboxThreads;
use config::Config;
use mail::Wall;
use mta::clock::ClockDoubt;
use mta::console::{Console as _, Level};
use mta::control::Suspension;
use mta::custody::LogPort;
use mta::event::EventSettings;
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::{LogMetrics, Metrics};
use mta::pools::PoolId;
use mta::problems::{DetectedProblem, ProblemKind};
use mta::shared::SharedState;
use mta::watched::Watched;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use tokio::sync::mpsc;

/// Receives the messages of other threads to a shard.
type Inbox = mpsc::UnboundedReceiver<ShardMessage<AcceptedSocket>>;

impl Node {
    /// Recovers the spool, starts the shards and listens.
    ///
    /// # Errors
    /// What could not be opened, read or bound.
    pub(crate) fn start(
        read: LoadedConfig,
        shards: u16,
        (opened, rights, console): (OpenedListeners, RightsAtStart, &Arc<ConsoleLog>),
        progress: &dyn Fn(&str),
    ) -> Result<Node, StartError> {
        let (started, files) = (Start::now(), StateFiles::new(console));
        // Start these first: their errors are errors of the configuration.
        let named = FileServices::with_rights(started, console, rights);
        let config = &named.services().prepare_all(read, progress, false)?.adopt();
        let watch = FileWatch::start()?;
        named.watch(&watch);
        let secrets = WatchedSecrets::new(&watch, console);
        let (senders, inboxes) = ways_in(shards);
        let mut metrics = NodeMetrics::new(shards, config.spool.paths.len());
        let descriptors = claim(config, shards, console);
        progress(&spools(config));
        let disks = open_disks(config, descriptors.log_files_max, progress)?;
        let clock = doubt_clock(config, console);
        let logs = read_logs(config, disks, progress, (&files, console))?;
        let shared = shared(config, clock, descriptors, &metrics, (&files, &watch, console))?;
        let events = start_events(config, &metrics, console)?;
        named.replies.hand_to(&shared);
        let (lists, effects) = open_kept(config, &shared, (&files, console));
        let jobs = FileJobs::at(&watch, &config.spool.paths[0]);
        let (first, kept) = ((&senders[0], &*shared, &named.runtime), (&files, &jobs, console));
        let advisers = advisers(config, &metrics, descriptors, first, kept)?;
        let suspended = lists.0.in_force(wall_now());
        let ports = logs.iter().map(ReadLog::port).collect();
        let own = ShardResources { ports, shared, suspended, shards: senders.clone(), started };
        let common = common(config, &named, own, (advisers, &metrics, descriptors), console);
        common.store.watch(&watch);
        let others = ServiceContext { secrets: &secrets, kept, named: &named };
        let beside = beside(&common, &others);
        // Errors of binding and of system calls are not errors of the file.
        beside.start(config, progress).map_err(|errors| load::one_line(&errors))?;
        let (stop_accepting, when_bound, acceptor) = acceptors(opened);
        let (distribution, receivers) = Distribution::new(shards);
        let received = inboxes.into_iter().zip(receivers);
        let takers = (&beside, events.as_ref());
        let threads = start_shards(&common, received, &metrics, takers, acceptor)?;
        let logs = start_logs(&common, logs, distribution, &metrics, &files)?;
        let reached = (senders.clone(), &common.shared.logins);
        let orders = Orders::start(lists, effects, reached, kept);
        let others = hanging((&named.signing_keys, &secrets), &orders, events.as_ref());
        let problems =
            Arc::new(ProblemList::start(&common, (&logs, &metrics.shards), &watch, others));
        show_pools(&common, (&named.signing_keys, &secrets));
        let services = services(&common, &named, beside, Arc::clone(&problems));
        metrics.services = services.metrics();
        let reloadable = Arc::new(Reloadable { first: Arc::clone(config), services });
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
            tables: common.tables,
            certificates: common.certificates,
            warmups: common.books.warmups,
            programs: common.programs,
            problems,
            reloadable,
        })
    }
}

/// Resources created at the start for the shards only.
struct ShardResources {
    ports: Vec<Arc<LogPort>>,
    shared: Arc<SharedState>,
    suspended: Arc<[Suspension]>,
    shards: Vec<ShardSender<AcceptedSocket>>,
    started: Start,
}

/// The context of all shards.
fn common(
    config: &Arc<Config>,
    named: &FileServices,
    own: ShardResources,
    (advisers, metrics, descriptors): (SharedServices, &NodeMetrics, Descriptors),
    console: &Arc<ConsoleLog>,
) -> ShardContext {
    ShardContext {
        config: Arc::clone(config),
        ports: own.ports,
        shared: own.shared,
        shards: own.shards,
        suspensions: own.suspended,
        console: Arc::clone(console),
        started: own.started,
        store: MailboxThreads::start(&metrics.mailboxes, descriptors.mailbox_files_max),
        policies: advisers.policies,
        dmarc_reports: advisers.dmarc_reports,
        tls_reports: advisers.tls_reports,
        books: advisers.books,
        resolver: advisers.resolver,
        hashing: HashingThreads::new(),
        long_work: LongWork::new(),
        programs: named.programs.clone(),
        tables: Arc::clone(&named.tables),
        certificates: Arc::clone(&named.certificates),
        peer_tls: advisers.peer_tls,
    }
}

/// Pools and problems that only the program has show themselves.
fn show_pools(
    common: &ShardContext,
    (signing_keys, secrets): (&Arc<SigningKeys>, &WatchedSecrets),
) {
    common.shared.problems.register(Arc::clone(signing_keys) as _);
    common.shared.problems.register(Arc::new(secrets.troubles.clone()));
    let pools = &common.shared.pressures;
    pools.keep(PoolId::TableQuestions, common.tables.gauge());
    pools.keep(PoolId::Passwords, common.hashing.gauge());
    pools.keep(PoolId::Logins, common.tables.logins.gauge());
}

/// Problem kinds for files that hang, which only the start can register.
fn hanging(
    (keys, secrets): (&SigningKeys, &WatchedSecrets),
    orders: &Orders,
    events: Option<&EventLog>,
) -> Vec<Arc<dyn ProblemKind>> {
    let works = [&keys.under_way, &secrets.under_way, &orders.under_way];
    let mut kinds: Vec<Arc<dyn ProblemKind>> = Vec::new();
    kinds.extend(works.map(|work| Arc::new(work.clone()) as Arc<dyn ProblemKind>));
    kinds.extend(events.map(|events| events.writing() as Arc<dyn ProblemKind>));
    kinds
}

/// The spool directories, for people.
fn spools(config: &Config) -> String {
    let paths: Vec<_> = config.spool.paths.iter().map(|path| path.display().to_string()).collect();
    format!("the spool in {}", paths.join(", "))
}

/// The seed of the acceptors, their stop flag, and the channel for their bound addresses.
fn acceptors(
    opened: OpenedListeners,
) -> (Watched<bool>, std_mpsc::Receiver<BoundAddresses>, AcceptorSeed) {
    let stop_accepting = Watched::new(false);
    let stop = stop_accepting.follow();
    let (bound, when_bound) = std_mpsc::channel();
    (stop_accepting, when_bound, AcceptorSeed { bound, stop, opened })
}

/// The sender and the inbox of each shard.
fn ways_in(shards: u16) -> (Vec<ShardSender<AcceptedSocket>>, Vec<Inbox>) {
    (0..shards).map(|_| mpsc::unbounded_channel()).unzip()
}

/// The addresses of the first shard, once it listens.
fn bound_addresses(
    when_bound: &std_mpsc::Receiver<BoundAddresses>,
) -> Result<Vec<SocketAddr>, String> {
    let ended = |_| "the first shard ended before it listened".to_owned();
    when_bound.recv().map_err(ended)?.map_err(|error| error.to_string())
}

/// Keeps the salts of unknown users and the names of messages in mailboxes equal over restarts. Values that cannot be
/// stored are valid for this start only.
fn keep_salts(
    config: &Config,
    shared: SharedState,
    files: &StateFiles,
) -> Result<SharedState, String> {
    let directory = &config.spool.paths[0];
    let mut fresh = [0; 8];
    fresh.copy_from_slice(&salt()?[..8]);
    let names = kept(directory, kept_secret::SPOOL_SALT, fresh);
    if let Some(why) = names.trouble {
        let so = "a message in delivery at the last stop may be delivered twice";
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

/// Loads suspensions, revoked logins and effects of shaping rules. If the suspensions cannot be loaded, all delivery is suspended.
fn open_kept(
    config: &Config,
    shared: &Arc<SharedState>,
    (files, console): (&StateFiles, &Arc<ConsoleLog>),
) -> ((Suspensions, RevokedLogins), EffectStore) {
    let now = wall_now();
    let (mut suspensions, lost) = Suspensions::open(&config.spool.paths[0], now);
    if let Some(why) = lost {
        let text = format!("all delivery is suspended: {why}");
        console.line(Level::Error, "suspensions", format_args!("{text}"));
        let step = "restore the suspensions, then run `postrider queue resume --all`";
        let found = DetectedProblem::warning(suspensions.list().shown(), text).next_step(step);
        shared.problems.conditions("state_file").set(found, now);
    }
    let revoked = open_revoked(config, shared, files);
    ((suspensions, revoked), EffectStore::open(config, shared, console))
}

/// Loads the revoked logins, and puts them in force. Lost ones may log in again: refusing all logins would do more harm.
fn open_revoked(config: &Config, shared: &SharedState, files: &StateFiles) -> RevokedLogins {
    let directory = &config.spool.paths[0];
    let (mut revoked, lost) = RevokedLogins::open(directory);
    if let Some(why) = lost {
        let so = "revoked logins may log in again: revoke them anew";
        let path = revoked.list().shown();
        files.lost("logins", Path::new(&path), &why, so);
    }
    shared.logins.adopt(revoked.all());
    revoked
}

/// The state shared by all shards.
fn shared(
    config: &Config,
    clock: ClockDoubt,
    descriptors: Descriptors,
    metrics: &NodeMetrics,
    (files, watch, console): (&StateFiles, &FileWatch, &Arc<ConsoleLog>),
) -> Result<Arc<SharedState>, String> {
    let shards = u16::try_from(metrics.shards.len()).unwrap_or(u16::MAX);
    let shared = SharedState::new(config, shards)
        .with_metrics(Arc::clone(&metrics.classes), Arc::clone(&metrics.sending))
        .with_logs(metrics.logs.clone())
        .with_clock(clock)
        .with_connections(descriptors.sessions_max, descriptors.egress_max)
        .with_lookups(descriptors.lookups_max);
    shared.problems.register(Arc::new(files.conditions().clone()));
    let shared = keep_salts(config, shared, files)?;
    let shared = Arc::new(shared);
    own_mailbox::watch(&shared, watch, console);
    if config.spool.durability != config::Durability::Memory {
        known_clients::open(&config.spool.paths[0], &shared, files, watch);
    }
    Ok(shared)
}

/// Starts the threads of each log, which distribute its messages to the shards.
fn start_logs(
    common: &ShardContext,
    logs: Vec<ReadLog>,
    mut distribution: Distribution,
    metrics: &NodeMetrics,
    files: &StateFiles,
) -> Result<Vec<Log>, String> {
    let ShardContext { config, console, shards, started, .. } = common;
    let start = |(log, metrics): (ReadLog, &Arc<LogMetrics>)| {
        log.start(config, &mut distribution, shards, (metrics, *started), (files, console))
    };
    let logs = logs.into_iter().zip(&metrics.logs).map(start).collect::<Result<_, _>>()?;
    distribution.finish();
    Ok(logs)
}

/// Starts the thread of each shard; the first one listens. `received` has the inbox of each, and its receiver of
/// recovered messages.
fn start_shards(
    common: &ShardContext,
    received: impl Iterator<Item = (Inbox, RecoveredReceiver)>,
    metrics: &NodeMetrics,
    takers: (&Services, Option<&EventLog>),
    acceptor: AcceptorSeed,
) -> Result<Vec<thread::JoinHandle<()>>, String> {
    let mut acceptor = Some(acceptor);
    let start = |((number, metrics), (inbox, recovered)): ((u16, &Arc<Metrics>), _)| {
        let seed = ShardSeed {
            number,
            common: common.clone(),
            inbox,
            recovered,
            events: event_takers(takers, number),
            metrics: Arc::clone(metrics),
            acceptor: acceptor.take(),
        };
        seed.start()
    };
    (0..).zip(&metrics.shards).zip(received).map(start).collect()
}

/// The receivers of a shard's events: services, and the event log.
fn event_takers((services, log): (&Services, Option<&EventLog>), shard: u16) -> Vec<EventTaker> {
    let queue = log.and_then(|log| log.queue(usize::from(shard)));
    services.events(shard).chain(queue.map(|queue| queue as EventTaker)).collect()
}

/// Compares the clock with the spool's newest record: the last modification time of its files.
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

/// Runs after the spool is open: the log usually lies in the spool's directory, or in one beside it. Only the spool may
/// create its directory, with its mode, and errors there are reported as the spool's.
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

/// Claims as many descriptors as possible, and logs if the configuration needs more.
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
                "listener {name} may have {wanted} sessions, but the open-file limit allows \
                 {max}: raise it (LimitNOFILE=, ulimit -Hn)"
            ),
        );
    }
    descriptors
}
