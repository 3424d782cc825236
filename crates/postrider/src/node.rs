//! A running relay: logs, shards, acceptors and what they share.

use crate::commit_thread::{Log, NO_IDS};
use crate::console::ConsoleLog;
use crate::descriptors::Descriptors;
use crate::event_log::EventLog;
use crate::logs::{Handed, HandedMail, Hands, ReadLog, open_disks, read_logs};
use crate::mutex::lock;
use crate::suspensions::Suspensions;
use crate::world::{AcceptedSocket, Clock, MailboxFiles, MailboxThread, Real, Resolver};
use config::Config;
use mail::Wall;
use mta::acceptor;
use mta::clock::ClockDoubt;
use mta::console::{Console, Level};
use mta::control::{Scope, ShardPort, Suspension};
use mta::custody::LogPort;
use mta::event::{EventSink, NoEvents};
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::{EventMetrics, LogMetrics, Metrics};
use mta::seams::{Listener as _, Net as _, World as _};
use mta::shard::{Shard, ShardParts};
use mta::shared::Shared;
use spool::SpoolStatus;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

/// What comes to a shard.
pub(crate) type Mail = ShardMessage<AcceptedSocket>;

/// How long transactions may go on after a stop was asked for.
pub(crate) const GRACE_MS: u64 = 5_000;

/// Numbers of a running node, for whoever shows them.
#[derive(Clone)]
pub(crate) struct NodeMetrics {
    pub(crate) shards: Vec<Arc<Metrics>>,
    pub(crate) logs: Vec<Arc<LogMetrics>>,
    pub(crate) events: Arc<EventMetrics>,
}

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
    pub(crate) started: Instant,
    /// The configuration it was started with.
    first: Arc<Config>,
    /// What an operator has stopped.
    suspensions: Suspensions,
    shared: Arc<Shared>,
}

/// What every shard thread is given.
struct ShardSeed {
    number: u16,
    config: Arc<Config>,
    ports: Vec<Arc<LogPort>>,
    shared: Arc<Shared>,
    shards: Vec<ShardSender<AcceptedSocket>>,
    mail: mpsc::UnboundedReceiver<Mail>,
    /// What the logs held.
    handed: HandedMail,
    /// What an operator has suspended.
    suspensions: Arc<[Suspension]>,
    events: Option<Arc<dyn EventSink + Send + Sync>>,
    console: Arc<ConsoleLog>,
    metrics: Arc<Metrics>,
    clock: Clock,
    store: MailboxFiles,
    resolver: Resolver,
    /// Shard 0 listens for all.
    acceptor: Option<AcceptorSeed>,
}

struct AcceptorSeed {
    bound: std_mpsc::Sender<io::Result<Vec<SocketAddr>>>,
    stop: watch::Receiver<bool>,
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
    ) -> Result<Node, String> {
        let started = Instant::now();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| mpsc::unbounded_channel::<Mail>()).unzip();
        let metrics = NodeMetrics {
            shards: (0..shards).map(|_| Arc::default()).collect(),
            logs: config.spool.paths.iter().map(|_| Arc::default()).collect(),
            events: Arc::default(),
        };
        let descriptors = Descriptors::claim(config.spool.paths.len(), config.dns.max_lookups);
        warn_of_few(config, descriptors, console);
        let disks = open_disks(config, descriptors.log_files_max)?;
        let suspensions = Suspensions::open(&config.spool.paths[0])?;
        let clock = doubt_clock(config, console);
        let logs = read_logs(config, disks, console)?;
        // After the spool: the event log usually lies in its directory, which only the spool may
        // make, with its mode, and whose errors are told as the spool's.
        let events = start_events(config, shards, &metrics, console)?;
        let shared = Shared::new(config, shards)
            .with_clock(clock)
            .with_connections(descriptors.sessions_max, descriptors.egress_max)
            .with_lookups(descriptors.lookups_max);
        let shared = Arc::new(shared);
        let store = MailboxThread::start().map_err(|e| format!("cannot start a thread: {e}"))?;
        let resolver = Resolver::new(&config.dns);
        let (stop_accepting, stop) = watch::channel(false);
        let (bound, when_bound) = std_mpsc::channel();
        let mut acceptor = Some(AcceptorSeed { bound, stop });
        let (mut hands, handed) = Hands::new(shards);
        let mut threads = Vec::new();
        for ((number, mail), handed) in (0..shards).zip(receivers).zip(handed) {
            let seed = ShardSeed {
                number,
                config: Arc::clone(config),
                ports: logs.iter().map(ReadLog::port).collect(),
                shared: Arc::clone(&shared),
                shards: senders.clone(),
                mail,
                handed,
                suspensions: suspensions.in_force(crate::world::wall_now()),
                events: events
                    .as_ref()
                    .and_then(|log| log.queue(usize::from(number)))
                    .map(|queue| queue as Arc<dyn EventSink + Send + Sync>),
                console: Arc::clone(console),
                metrics: Arc::clone(&metrics.shards[usize::from(number)]),
                clock: Clock::new(started, seed_of(number)),
                store: store.clone(),
                resolver: resolver.clone(),
                acceptor: acceptor.take(),
            };
            let thread = thread::Builder::new()
                .name(format!("shard-{number}"))
                .spawn(move || run_shard(seed))
                .map_err(|e| format!("cannot start a thread: {e}"))?;
            threads.push(thread);
        }
        let start = |(log, metrics): (ReadLog, &Arc<LogMetrics>)| {
            log.start(config, &mut hands, &senders, metrics, console)
        };
        let logs = logs.into_iter().zip(&metrics.logs).map(start).collect::<Result<_, _>>()?;
        hands.finish();
        let addresses = when_bound
            .recv()
            .map_err(|_| "the first shard ended before it listened".to_owned())?
            .map_err(|error| error.to_string())?;
        Ok(Node {
            shards: senders,
            threads,
            logs,
            events,
            stop_accepting,
            addresses,
            metrics,
            started,
            first: Arc::clone(config),
            suspensions,
            shared,
        })
    }

    /// Ways to put an operator's requests before the shards.
    pub(crate) fn shard_ports(&self) -> Vec<ShardPort> {
        let port = |shard: &ShardSender<AcceptedSocket>| -> ShardPort {
            let shard = shard.clone();
            // A shard that has ended drops the answer's sender, which says enough.
            Box::new(move |request, answer| {
                let _ = shard.send(ShardMessage::Control { request: Box::new(request), answer });
            })
        };
        self.shards.iter().map(port).collect()
    }

    /// What of a new configuration takes effect only at the next start, for the operator.
    pub(crate) fn kept_from_start(&self, config: &Config) -> String {
        let mut kept = Vec::new();
        let listens = |config: &Config| {
            config.listeners.iter().map(|l| (Arc::clone(&l.name), l.address)).collect::<Vec<_>>()
        };
        if listens(config) != listens(&self.first) {
            kept.push("listener names and addresses");
        }
        if config.spool.paths != self.first.spool.paths {
            kept.push("spool paths");
        }
        if config.admin != self.first.admin || config.events != self.first.events {
            kept.push("admin and events");
        }
        if kept.is_empty() {
            String::new()
        } else {
            format!("; {} change with the next start", kept.join(", "))
        }
    }

    /// Gives every shard another configuration.
    pub(crate) fn reload(&self, config: &Arc<Config>) {
        for shard in &self.shards {
            let _ = shard.send(ShardMessage::Reload(Arc::clone(config)));
        }
    }

    /// What is suspended now.
    pub(crate) fn suspensions(&self) -> Arc<[Suspension]> {
        self.suspensions.in_force(crate::world::wall_now())
    }

    /// Suspends something. Says what was done.
    ///
    /// # Errors
    /// A sentence; nothing has changed then.
    pub(crate) fn suspend(&mut self, suspension: Suspension) -> Result<String, String> {
        let told = self.suspensions.suspend(suspension, crate::world::wall_now())?;
        self.tell_suspensions();
        Ok(told)
    }

    /// Ends a suspension. Says what was done.
    ///
    /// # Errors
    /// A sentence; nothing has changed then.
    pub(crate) fn resume(&mut self, scope: &Scope) -> Result<String, String> {
        let told = self.suspensions.resume(scope, crate::world::wall_now())?;
        self.tell_suspensions();
        Ok(told)
    }

    fn tell_suspensions(&self) {
        let all = self.suspensions();
        for shard in &self.shards {
            let _ = shard.send(ShardMessage::Suspensions(Arc::clone(&all)));
        }
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

    /// Messages with at least one open recipient, as of the last half second.
    pub(crate) fn message_count(&self) -> u64 {
        self.logs.iter().map(|log| lock(&log.status).live_count).sum()
    }

    /// Looks at the logs when called, for as long as anybody wants to know.
    pub(crate) fn problem_finder(&self) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
        let parts = |log: &Log| (Arc::clone(&log.status), Arc::clone(&log.port));
        let logs: Vec<_> = self.logs.iter().map(parts).collect();
        let shared = Arc::clone(&self.shared);
        Arc::new(move || {
            let clock = shared.clock.problem(crate::world::wall_now());
            let problems =
                logs.iter().flat_map(|(status, port)| problems_of(&lock(status), port.ids_left()));
            problems.chain(clock).collect()
        })
    }

    /// A sentence about name servers that do not answer, or next hops that are left alone, if there are
    /// any.
    pub(crate) fn suspension_finder(&self) -> Arc<dyn Fn() -> Option<String> + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.name_servers.trouble().or_else(|| shared.suspensions.summary()))
    }

    /// Stops: no new connections, transactions finish for a while, the rest gets 421, what was
    /// delivered is settled, the logs are closed.
    pub(crate) async fn stop(self) {
        let _ = self.stop_accepting.send(true);
        let mut waiting = Vec::new();
        for shard in &self.shards {
            let (done, stopped) = oneshot::channel();
            let _ = shard.send(ShardMessage::Stop { grace_ms: GRACE_MS, done });
            waiting.push(stopped);
        }
        for stopped in waiting {
            // An error means that the shard has ended already.
            let _ = stopped.await;
        }
        drop(self.shards);
        for log in self.logs {
            log.stop();
        }
        if let Some(events) = self.events {
            events.finish();
        }
        // Shard threads end with the process: nothing they still hold matters now.
        drop(self.threads);
    }
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
    let now = crate::world::wall_now();
    let doubt = ClockDoubt::new(newest, now);
    if let Some(problem) = doubt.problem(now) {
        console.line(Level::Error, "clock", format_args!("{problem}"));
    }
    doubt
}

/// Why a log does not take all mail, in sentences.
fn problems_of(status: &SpoolStatus, ids_left: u64) -> Vec<String> {
    let mut problems = Vec::new();
    if ids_left == 0 {
        problems.push(NO_IDS.to_owned());
    }
    if let Some(poison) = &status.poisoned {
        problems.push(format!("the spool takes no mail: {poison}"));
    } else if status.full {
        problems.push("the spool's disk is nearly full".to_owned());
    }
    if status.damaged_count > 0 {
        problems.push(format!("{} messages in the spool are damaged", status.damaged_count));
    }
    problems
}

pub(crate) fn seed_of(number: u16) -> u64 {
    let mut bytes = [0; 8];
    // Without the kernel's help the time will do: it is for jitter, not for secrets.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = crate::world::wall_now().0.to_le_bytes();
    }
    u64::from_le_bytes(bytes) ^ u64::from(number)
}

fn start_events(
    config: &Config,
    shards: u16,
    metrics: &NodeMetrics,
    console: &Arc<ConsoleLog>,
) -> Result<Option<EventLog>, String> {
    let Some(options) = &config.events else { return Ok(None) };
    let console = Arc::clone(console);
    let report = Box::new(move |text: &str| {
        console.line(Level::Warn, "events", format_args!("{text}"));
    });
    let events = Arc::clone(&metrics.events);
    EventLog::start(options, usize::from(shards), events, report)
        .map(Some)
        .map_err(|error| format!("cannot open the event log {}: {error}", options.path.display()))
}

/// Says where the process may open fewer files than the configuration counts on.
fn warn_of_few(config: &Config, descriptors: Descriptors, console: &ConsoleLog) {
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
}

fn run_shard(seed: ShardSeed) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Between two looks at sockets so many tasks may run; the default of 61 makes batches of
        // completions wait for an epoll_wait in the middle.
        .event_interval(127)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            if let Some(acceptor) = seed.acceptor {
                let _ = acceptor.bound.send(Err(error));
            }
            return;
        }
    };
    LocalSet::new().block_on(&runtime, async move {
        let world = Real::new(seed.clock, seed.resolver, seed.store);
        let console: Rc<dyn Console> = Rc::new(SharedConsole(Arc::clone(&seed.console)));
        let events: Rc<dyn EventSink> = match seed.events {
            Some(queue) => Rc::new(SharedEvents(queue)),
            None => Rc::new(NoEvents),
        };
        let shard = Shard::new(ShardParts {
            number: seed.number,
            world: world.clone(),
            config: Arc::clone(&seed.config),
            ports: seed.ports,
            shared: Arc::clone(&seed.shared),
            shards: seed.shards.clone(),
            events,
            console: Rc::clone(&console),
            metrics: seed.metrics,
            suspensions: seed.suspensions,
            channels: channels::channels(),
        });
        if !adopt_all(&shard, &seed.handed) {
            return;
        }
        if let Some(acceptor) = seed.acceptor {
            let listening = Listening {
                world: &world,
                config: &seed.config,
                shared: &seed.shared,
                shards: &seed.shards,
                console: &console,
            };
            listening.start(&acceptor);
        }
        shard.run(seed.mail).await;
    });
}

/// Queues what the logs held. `false` when the start has failed meanwhile.
fn adopt_all(shard: &Rc<Shard<Real>>, handed: &HandedMail) -> bool {
    loop {
        match handed.recv() {
            Ok(Handed::Messages(messages)) => shard.adopt(messages),
            Ok(Handed::Ready) => return true,
            Err(_) => return false,
        }
    }
}

/// What the acceptors of all listeners need.
struct Listening<'a> {
    world: &'a Real,
    config: &'a Config,
    shared: &'a Arc<Shared>,
    shards: &'a [ShardSender<AcceptedSocket>],
    console: &'a Rc<dyn Console>,
}

impl Listening<'_> {
    /// Binds every listener, or none, and tells how that went.
    fn start(&self, seed: &AcceptorSeed) {
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for listener in &self.config.listeners {
            let bound = self.world.net().listen(listener.address).and_then(|socket| {
                let address = socket.local_addr()?;
                Ok((socket, address))
            });
            match bound {
                Ok((socket, address)) => {
                    sockets.push(socket);
                    addresses.push(address);
                }
                Err(error) => {
                    let (name, address) = (&listener.name, listener.address);
                    let hint = match error.kind() {
                        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
                            "; ports below 1024 need root or CAP_NET_BIND_SERVICE \
                             (AmbientCapabilities= in a systemd unit)"
                        }
                        _ => "",
                    };
                    let text =
                        format!("cannot listen on {address} (listener {name}): {error}{hint}");
                    let _ = seed.bound.send(Err(io::Error::new(error.kind(), text)));
                    return;
                }
            }
        }
        for (index, socket) in sockets.into_iter().enumerate() {
            tokio::task::spawn_local(acceptor::run(
                self.world.clone(),
                socket,
                index,
                Arc::clone(self.shared),
                self.shards.to_vec(),
                Rc::clone(self.console),
                seed.stop.clone(),
            ));
        }
        let _ = seed.bound.send(Ok(addresses));
    }
}

/// The console of the process, as each shard holds it.
struct SharedConsole(Arc<ConsoleLog>);

impl Console for SharedConsole {
    fn shows(&self, level: Level) -> bool {
        self.0.shows(level)
    }

    fn line(&self, level: Level, kind: &'static str, text: std::fmt::Arguments<'_>) {
        self.0.line(level, kind, text);
    }
}

/// A shard's queue to the event log.
struct SharedEvents(Arc<dyn EventSink + Send + Sync>);

impl EventSink for SharedEvents {
    fn emit(&self, event: mta::event::Event) {
        self.0.emit(event);
    }
}
