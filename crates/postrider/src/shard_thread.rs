//! The thread of one shard: its runtime, the recovery of its messages, and for shard 0 the listeners.

use crate::advisers::PersistentState;
use crate::certificates::Certificates;
use crate::console::ConsoleLog;
use crate::dmarc_reports::DmarcReporting;
use crate::handed_sockets::OpenedListeners;
use crate::logs::{RecoveredReceiver, RecoveryEvent};
use crate::mta_sts::MtaSts;
use crate::named_keys::NamedKeys;
use crate::peer_tls::PeerTls;
use crate::services::EventTaker;
use crate::tables::{Registry, ShardTables};
use crate::tls_reports::TlsReporting;
use crate::world::clock::{Clock, Start, seed_of};
use crate::world::hashing::HashingThreads;
use crate::world::listening_socket::{AcceptedSocket, ListeningSocket};
use crate::world::long_work::LongWork;
use crate::world::mailbox_files::MailboxFiles;
use crate::world::programs::ProgramRunner;
use crate::world::resolver::Resolver;
use crate::world::sockets::Sockets;
use crate::world::{LocalSpawn, PlatformParts, Real};
use config::{Config, Listener};
use mta::acceptor;
use mta::console::{Console, Level};
use mta::control::Suspension;
use mta::custody::LogPort;
use mta::event::{Event, EventSink, NoEvents, NotedSession};
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::Metrics;
use mta::seams::{Listener as _, Net as _, World as _};
use mta::shard::{Shard, ShardParts};
use mta::shared::SharedState;
use mta::watched::Watcher;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// The common context of all shard threads.
#[derive(Clone)]
pub(crate) struct ShardContext {
    pub(crate) config: Arc<Config>,
    pub(crate) ports: Vec<Arc<LogPort>>,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) shards: Vec<ShardSender<AcceptedSocket>>,
    /// Suspensions by operators.
    pub(crate) suspensions: Arc<[Suspension]>,
    pub(crate) console: Arc<ConsoleLog>,
    /// Start of the process, the origin of time for all shards.
    pub(crate) started: Start,
    pub(crate) store: MailboxFiles,
    pub(crate) resolver: Resolver,
    pub(crate) hashing: HashingThreads,
    pub(crate) long_work: LongWork,
    pub(crate) programs: ProgramRunner,
    pub(crate) tables: Arc<Registry>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) peer_tls: Arc<PeerTls>,
    pub(crate) policies: MtaSts,
    pub(crate) dmarc_reports: DmarcReporting,
    pub(crate) tls_reports: TlsReporting,
    pub(crate) books: PersistentState,
}

/// The context of one shard thread.
pub(crate) struct ShardSeed {
    pub(crate) number: u16,
    pub(crate) common: ShardContext,
    pub(crate) inbox: mpsc::UnboundedReceiver<ShardMessage<AcceptedSocket>>,
    /// Messages recovered from the logs.
    pub(crate) recovered: RecoveredReceiver,
    /// Receivers of its events.
    pub(crate) events: Vec<EventTaker>,
    pub(crate) metrics: Arc<Metrics>,
    /// Shard 0 listens for all.
    pub(crate) acceptor: Option<AcceptorSeed>,
}

/// The listening addresses, or the error of binding.
pub(crate) type BoundAddresses = io::Result<Vec<SocketAddr>>;

/// The context of the shard that listens.
pub(crate) struct AcceptorSeed {
    /// Receives the addresses, or the error of binding.
    pub(crate) bound: std_mpsc::Sender<BoundAddresses>,
    pub(crate) stop: Watcher<bool>,
    /// Sockets that were opened before, by listener.
    pub(crate) opened: OpenedListeners,
}

impl ShardSeed {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns a sentence if the system cannot create a thread.
    pub(crate) fn start(self) -> Result<JoinHandle<()>, String> {
        thread::Builder::new()
            .name(format!("shard-{}", self.number))
            .spawn(move || run_shard(self))
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

fn run_shard(seed: ShardSeed) {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            if let Some(acceptor) = seed.acceptor {
                let _ = acceptor.bound.send(Err(error));
            }
            return;
        }
    };
    LocalSet::new().block_on(&runtime, async move {
        let common = seed.common;
        let clock = Clock::new(common.started, seed_of(seed.number));
        let world = Real::new(PlatformParts {
            net: Sockets::new(common.certificates, common.peer_tls),
            dns: common.resolver,
            time: clock,
            store: common.store,
            tables: ShardTables::new(common.tables),
            hashing: common.hashing,
            spawn: LocalSpawn(common.long_work),
            policies: common.policies,
            domain_reports: common.dmarc_reports,
            tls_reports: common.tls_reports,
            books: common.books,
            named_keys: NamedKeys::default(),
            programs: common.programs,
        });
        let console: Rc<dyn Console> = Rc::new(SharedConsole(common.console));
        let shard = Shard::new(ShardParts {
            number: seed.number,
            world: world.clone(),
            config: Arc::clone(&common.config),
            ports: common.ports,
            shared: Arc::clone(&common.shared),
            shards: common.shards.clone(),
            events: sink(seed.events),
            console: Rc::clone(&console),
            metrics: seed.metrics,
            suspensions: common.suspensions,
            channels: channels::channels(),
            protocols: channels::protocols(),
            stages: channels::stages(),
        });
        if !adopt_all(&shard, &seed.recovered) {
            return;
        }
        if let Some(acceptor) = seed.acceptor {
            let listening = AcceptorContext {
                world: &world,
                config: &common.config,
                shared: &common.shared,
                shards: &common.shards,
                console: &console,
            };
            listening.start(acceptor);
        }
        shard.run(seed.inbox).await;
    });
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Number of tasks between two polls of sockets. The default of 61 interrupts batches of completions for an
        // epoll_wait.
        .event_interval(127)
        .build()
}

fn sink(takers: Vec<EventTaker>) -> Rc<dyn EventSink> {
    match takers.is_empty() {
        true => Rc::new(NoEvents),
        false => Rc::new(SharedEvents(takers)),
    }
}

/// Queues the recovered messages. Returns false if the start has failed.
fn adopt_all(shard: &Rc<Shard<Real>>, recovered: &RecoveredReceiver) -> bool {
    loop {
        match recovered.recv() {
            Ok(RecoveryEvent::Messages(messages)) => shard.adopt(messages),
            Ok(RecoveryEvent::Ready) => return true,
            Err(_) => return false,
        }
    }
}

/// The context of all acceptors.
struct AcceptorContext<'a> {
    world: &'a Real,
    config: &'a Config,
    shared: &'a Arc<SharedState>,
    shards: &'a [ShardSender<AcceptedSocket>],
    console: &'a Rc<dyn Console>,
}

impl AcceptorContext<'_> {
    /// Binds every listener, or none, and reports the result.
    fn start(&self, mut seed: AcceptorSeed) {
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();
        for listener in &self.config.listeners {
            let net = self.world.net();
            let bound = match (seed.opened.remove(&listener.name), &listener.socket) {
                (Some(socket), _) => ListeningSocket::opened(socket),
                (None, Some(path)) => net.listen_local(path),
                (None, None) => net.listen(listener.address),
            };
            let bound = bound.and_then(|socket| {
                let address = socket.local_addr()?;
                Ok((socket, address))
            });
            match bound {
                Ok((socket, address)) => {
                    sockets.push(socket);
                    addresses.push(address);
                }
                Err(error) => {
                    let text = unbound(listener, &error);
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

/// The reason why a listener is not bound, for people.
fn unbound(listener: &Listener, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied
            if listener.socket.is_none() && listener.address.port() < 1024 =>
        {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE (AmbientCapabilities= in a \
             systemd unit)"
        }
        _ => "",
    };
    let (name, place) = (&listener.name, listener.place());
    format!("cannot listen on {place} (listener {name}): {error}{hint}")
}

/// A shard's handle to the process's console.
struct SharedConsole(Arc<ConsoleLog>);

impl Console for SharedConsole {
    fn shows(&self, level: Level) -> bool {
        self.0.shows(level)
    }

    fn line(&self, level: Level, kind: &'static str, text: std::fmt::Arguments<'_>) {
        self.0.line(level, kind, text);
    }
}

/// The receivers of a shard's events: the event log's queue, and services.
struct SharedEvents(Vec<EventTaker>);

impl EventSink for SharedEvents {
    fn emit(&self, event: Event) {
        let mut takers = self.0.iter().filter(|taker| taker.is_on()).peekable();
        while let Some(taker) = takers.next() {
            if takers.peek().is_none() {
                // The last receiver gets the original, so with the event log alone nothing is copied.
                taker.emit(event);
                return;
            }
            taker.emit(event.clone());
        }
    }

    fn is_on(&self) -> bool {
        self.0.iter().any(|taker| taker.is_on())
    }

    fn takes_sessions(&self) -> bool {
        self.0.iter().any(|taker| taker.takes_sessions())
    }

    fn note_session(&self, noted: NotedSession) {
        self.0.iter().for_each(|taker| taker.note_session(noted.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::{Adoption, CandidateConfig, Service, Services, nothing_to_adopt};
    use crate::world::clock::wall_now;
    use config::Problem;
    use mta::event::{Kind, Recipients};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[derive(Default)]
    struct Taker {
        is_on: AtomicBool,
        taken: AtomicU32,
    }

    impl EventSink for Taker {
        fn emit(&self, _event: Event) {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }

        fn is_on(&self) -> bool {
            self.is_on.load(Ordering::Relaxed)
        }
    }

    impl Service for Arc<Taker> {
        fn name(&self) -> &'static str {
            "taker"
        }

        fn prepare(&self, _next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
            Ok(nothing_to_adopt())
        }

        fn events(&self, shard: u16) -> Option<EventTaker> {
            (shard == 1).then(|| Arc::clone(self) as EventTaker)
        }
    }

    #[test]
    fn each_service_that_is_on_takes_each_event() {
        let takers = [(); 3].map(|()| Arc::new(Taker::default()));
        let services = takers.iter().cloned().fold(Services::default(), Services::with);
        assert_eq!(services.events(0).count(), 0);
        let shared = sink(services.events(1).collect());
        let mut expected = [0; 3];
        for which in 0..8 {
            for (at, taker) in takers.iter().enumerate() {
                taker.is_on.store(which >> at & 1 == 1, Ordering::Relaxed);
                expected[at] += which >> at & 1;
            }
            assert_eq!(shared.is_on(), which != 0);
            let (at, recipients) = (wall_now(), Recipients::new());
            shared.emit(Event { at, message: None, recipients, kind: Kind::Released });
            let taken = takers.each_ref().map(|taker| taker.taken.load(Ordering::Relaxed));
            assert_eq!(taken, expected, "{which:03b}");
        }
        assert!(!sink(Vec::new()).is_on());
    }
}
