//! A network in memory: connections of two bounded pipes with latency, ragged pieces, stalls and
//! resets, all from the seed.

use super::executor::{Executor, Group};
use super::open_files::{OpenFile, OpenFiles};
use super::trace::Trace;
use load::random::Random;
use mta::seams::{Endpoint, Listener, Net, Stream};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Hosts that the DNS named together. (Each has one name and one address.)
pub type HostSet = BTreeSet<IpAddr>;

/// Bytes under way in one direction, read buffers included; beyond it a writer waits.
const PIPE_BYTES_MAX: usize = 64 * 1024;

/// Connections that nobody has accepted yet; beyond it they are refused.
const BACKLOG_MAX: usize = 128;

/// A connect that is swallowed lasts longer than any timeout.
const SWALLOWED_US: u64 = 3_600_000_000;

/// What goes wrong, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFaults {
    /// Of connects: refused though somebody listens.
    pub refuse_permille: u16,
    /// Of connects: never answered.
    pub swallow_permille: u16,
    /// Of connections: reset after some bytes.
    pub reset_permille: u16,
    /// Of pieces under way: seconds late.
    pub stall_permille: u16,
    /// Nobody answers who is asked to.
    pub tarpits: bool,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Pipe {
    arrived: VecDeque<u8>,
    flying_bytes: usize,
    /// When the last piece arrives: none overtakes it.
    last_at_us: u64,
    written_bytes: u64,
    read_bytes: u64,
    /// How far each write went, and when it was.
    writes: Vec<(u64, u64)>,
    /// The writer's close has arrived.
    ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// How ragged what is read comes.
#[derive(Clone, Copy, Debug)]
enum Pieces {
    Whole,
    Ragged,
    /// Byte by byte for the first so many.
    Bytes(u64),
}

#[derive(Debug)]
struct Connection {
    /// Whose the ends are.
    owners: [Group; 2],
    open: [bool; 2],
    /// These write nothing any more, and read on.
    shut: [bool; 2],
    /// By who writes.
    pipes: [Pipe; 2],
    reset: bool,
    /// Reset once so many bytes were written in both directions.
    reset_after: Option<u64>,
    latency_us: u64,
    pieces: Pieces,
    /// Nothing goes wrong with it.
    is_well: bool,
}

impl Connection {
    fn wake_all(&mut self) {
        for pipe in &mut self.pipes {
            for waker in [pipe.reader.take(), pipe.writer.take()].into_iter().flatten() {
                waker.wake();
            }
        }
    }
}

#[derive(Debug)]
struct Backlog {
    owner: Group,
    waiting: VecDeque<(u64, SocketAddr)>,
    waker: Option<Waker>,
}

/// A limit on connections towards a set of addresses.
#[derive(Debug)]
struct Watch {
    addresses: Vec<SocketAddr>,
    /// Of one ready queue.
    max: u32,
    /// Until then this limit holds: what was being opened when it was lowered is opened.
    before: (u64, u32),
    /// Ready queues that use these addresses.
    queues: Queues,
    open: u32,
    /// The first time that there were too many: how many, and how many were allowed.
    exceeded: Option<(u32, u32)>,
}

/// How many ready queues there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// The configuration names the hosts.
    One,
    /// The DNS names them; so many sets until now.
    Named(u32),
}

impl Watch {
    /// What one ready queue may have.
    fn allowed_each(&self, now_us: u64) -> u32 {
        let (until_us, before) = self.before;
        if now_us < until_us { self.max.max(before) } else { self.max }
    }

    fn allowed(&self, now_us: u64) -> u32 {
        let queues = match self.queues {
            Queues::One => 1,
            Queues::Named(count) => count,
        };
        queues * self.allowed_each(now_us)
    }
}

#[derive(Debug)]
struct State {
    random: Random,
    faults: NetworkFaults,
    listeners: BTreeMap<SocketAddr, Backlog>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    next_port: u16,
    watches: Vec<Watch>,
    /// The way there is good, whatever goes wrong elsewhere.
    well: BTreeSet<IpAddr>,
    /// Connects to these are swallowed while there are [`NetworkFaults::tarpits`].
    tarpits: BTreeSet<IpAddr>,
}

impl State {
    fn faults_towards(&self, to: IpAddr) -> NetworkFaults {
        if self.well.contains(&to) { NetworkFaults::default() } else { self.faults }
    }
}

struct Inner {
    executor: Executor,
    trace: Rc<Trace>,
    state: RefCell<State>,
}

/// The network; clones are the same one.
#[derive(Clone)]
pub struct Network(Rc<Inner>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// A network without connections and faults.
    #[must_use]
    pub fn new(executor: Executor, trace: Rc<Trace>, seed: u64) -> Network {
        Network(Rc::new(Inner {
            executor,
            trace,
            state: RefCell::new(State {
                random: Random::new(seed),
                faults: NetworkFaults::default(),
                listeners: BTreeMap::new(),
                connections: BTreeMap::new(),
                next: 1,
                next_port: 10_000,
                watches: Vec::new(),
                well: BTreeSet::new(),
                tarpits: BTreeSet::new(),
            }),
        }))
    }

    /// What goes wrong from now on. Connections that will be reset stay so, unless there shall be
    /// no resets at all.
    pub fn set_faults(&self, faults: NetworkFaults) {
        let mut state = self.0.state.borrow_mut();
        state.faults = faults;
        if faults.reset_permille == 0 {
            state.connections.values_mut().for_each(|connection| connection.reset_after = None);
        }
    }

    /// Nothing goes wrong on the way to this host.
    pub fn spare(&self, host: IpAddr) {
        self.0.state.borrow_mut().well.insert(host);
    }

    /// This host swallows connects while there are tarpits.
    pub fn mire(&self, host: IpAddr) {
        self.0.state.borrow_mut().tarpits.insert(host);
    }

    /// Counts the connections towards these addresses, all together: never more than `max` for
    /// each ready queue.
    pub fn watch(&self, addresses: Vec<SocketAddr>, max: u32, queues: Queues) {
        self.0.state.borrow_mut().watches.push(Watch {
            addresses,
            max,
            before: (0, 0),
            queues,
            open: 0,
            exceeded: None,
        });
    }

    /// From now on `max` holds for the connections of a ready queue towards any of these addresses,
    /// but for those that are there, and for what is begun within `grace_us`: what was allowed may
    /// be opened still, and `more` besides, by those that were allowed less.
    pub fn limit(&self, addresses: &[SocketAddr], max: u32, more: u32, grace_us: u64) {
        let until_us = self.0.executor.now_us() + grace_us;
        let mut state = self.0.state.borrow_mut();
        let is_one = |watch: &&mut Watch| watch.addresses.iter().any(|to| addresses.contains(to));
        for watch in state.watches.iter_mut().filter(is_one) {
            let before = watch.allowed_each(self.0.executor.now_us());
            watch.before = (until_us, before.saturating_add(more).max(max));
            watch.max = max;
        }
    }

    /// The DNS has named these hosts together: that is one ready queue more.
    pub fn add_queue(&self, hosts: &HostSet) {
        let mut state = self.0.state.borrow_mut();
        let is_one = |watch: &&mut Watch| watch.addresses.iter().any(|to| hosts.contains(&to.ip()));
        for watch in state.watches.iter_mut().filter(is_one) {
            if let Queues::Named(count) = &mut watch.queues {
                *count += 1;
            }
        }
    }

    /// A life of the node begins: the DNS has named nothing to it.
    pub fn forget_queues(&self) {
        let mut state = self.0.state.borrow_mut();
        for watch in state.watches.iter_mut().filter(|watch| watch.queues != Queues::One) {
            watch.queues = Queues::Named(0);
        }
    }

    /// The watches that saw more than they should, with what they saw.
    #[must_use]
    pub fn exceeded(&self) -> Vec<(SocketAddr, u32, u32)> {
        let state = self.0.state.borrow();
        let first =
            |watch: &Watch| watch.exceeded.map(|(open, max)| (watch.addresses[0], open, max));
        state.watches.iter().filter_map(first).collect()
    }

    /// A view of the network for tasks of one group, whose address is `local`.
    #[must_use]
    pub fn attach(&self, group: Group, local: IpAddr) -> SimNet {
        SimNet { network: self.clone(), group, local, files: OpenFiles::new() }
    }

    /// The ends that belong to `group` vanish without a word; the others learn it sooner or later.
    pub fn crash(&self, group: Group) {
        let mut broken = Vec::new();
        {
            let state = &mut *self.0.state.borrow_mut();
            state.listeners.retain(|_, backlog| backlog.owner != group);
            for (&id, connection) in &mut state.connections {
                for side in 0..2 {
                    if connection.owners[side] == group && connection.open[side] {
                        connection.open[side] = false;
                        // Quickly where a kernel is left to say so, slowly where none is.
                        let after_us = match state.random.below(3) {
                            0 => state.random.below(8_000_000),
                            _ => state.random.below(40_000),
                        };
                        broken.push((id, after_us));
                    }
                }
            }
        }
        for (id, after_us) in broken {
            self.reset_at(id, self.0.executor.now_us() + after_us);
        }
    }

    /// Of what the server's end of a connection wrote, how much the client's end has read.
    #[must_use]
    pub fn read_by_client(&self, connection: u64) -> u64 {
        let state = self.0.state.borrow();
        let pipe = |c: &Connection| c.pipes[Side::Server as usize].read_bytes;
        state.connections.get(&connection).map_or(0, pipe)
    }

    /// When the client's end of a connection wrote the last of its first `bytes`.
    #[must_use]
    pub fn written_by_client_at(&self, connection: u64, bytes: u64) -> Option<u64> {
        let state = self.0.state.borrow();
        let writes = &state.connections.get(&connection)?.pipes[Side::Client as usize].writes;
        let at = writes.partition_point(|&(end, _)| end < bytes);
        writes.get(at).map(|&(_, at_us)| at_us)
    }

    /// Whose the client's end of a connection is.
    #[must_use]
    pub fn client_of(&self, connection: u64) -> Option<Group> {
        self.0.state.borrow().connections.get(&connection).map(|connection| connection.owners[0])
    }

    fn reset_at(&self, id: u64, at_us: u64) {
        let network = self.clone();
        self.0.executor.call_at(at_us, move || network.reset(id));
    }

    fn reset(&self, id: u64) {
        let mut state = self.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&id) else { return };
        if connection.reset || connection.open == [false, false] {
            return;
        }
        connection.reset = true;
        connection.wake_all();
        self.0.trace.note("reset", &[id], || format!("connection {id}"));
    }

    fn deliver(&self, id: u64, from: Side, piece: &[u8]) {
        let mut state = self.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&id) else { return };
        if connection.reset {
            return;
        }
        let gone = !connection.open[from.other() as usize];
        let after_us = connection.latency_us;
        let pipe = &mut connection.pipes[from as usize];
        pipe.flying_bytes -= piece.len();
        if gone {
            // Nobody takes it: the writer is told so.
            drop(state);
            return self.reset_at(id, self.0.executor.now_us() + after_us);
        }
        pipe.arrived.extend(piece);
        if let Some(waker) = pipe.reader.take() {
            waker.wake();
        }
        let length = piece.len() as u64;
        self.0.trace.note("deliver", &[id, from as u64, length], || {
            let start = String::from_utf8_lossy(&piece[..piece.len().min(60)]).into_owned();
            format!("connection {id} {from:?} {length} {start:?}")
        });
    }

    fn end(&self, id: u64, from: Side) {
        let mut state = self.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&id) else { return };
        let pipe = &mut connection.pipes[from as usize];
        pipe.ended = true;
        if let Some(waker) = pipe.reader.take() {
            waker.wake();
        }
        self.0.trace.note("end", &[id, from as u64], || format!("connection {id} {from:?}"));
    }

    fn close(&self, id: u64, side: Side) {
        let mut state = self.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&id) else { return };
        // Not open: its process has crashed, and nobody is there to close anything.
        if !std::mem::take(&mut connection.open[side as usize]) || connection.reset {
            return;
        }
        let now_us = self.0.executor.now_us();
        let unread = !connection.pipes[side.other() as usize].arrived.is_empty();
        let pipe = &mut connection.pipes[side as usize];
        let at_us = (now_us + connection.latency_us).max(pipe.last_at_us);
        pipe.last_at_us = at_us;
        drop(state);
        if unread {
            // Like TCP: who closes without having read everything resets.
            return self.reset_at(id, at_us);
        }
        let network = self.clone();
        self.0.executor.call_at(at_us, move || network.end(id, side));
    }

    /// Counts a connection towards `to` from its first packet on.
    fn count(&self, to: SocketAddr) -> Counted {
        let now_us = self.0.executor.now_us();
        let mut state = self.0.state.borrow_mut();
        for watch in state.watches.iter_mut().filter(|watch| watch.addresses.contains(&to)) {
            watch.open += 1;
            let allowed = watch.allowed(now_us);
            if watch.open > allowed && watch.exceeded.is_none() {
                watch.exceeded = Some((watch.open, allowed));
            }
        }
        Counted { network: self.clone(), to }
    }
}

/// A connection that counts towards a limit while it lives.
#[derive(Debug)]
struct Counted {
    network: Network,
    to: SocketAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.network.0.state.borrow_mut();
        for watch in state.watches.iter_mut().filter(|watch| watch.addresses.contains(&self.to)) {
            watch.open -= 1;
        }
    }
}

/// The network as tasks of one group see it.
#[derive(Clone, Debug)]
pub struct SimNet {
    network: Network,
    group: Group,
    local: IpAddr,
    /// What connections take of.
    files: Arc<OpenFiles>,
}

/// A connection that was accepted and belongs to no task yet.
#[derive(Debug)]
pub struct SimAccepted(u64, OpenFile);

/// A listening socket.
#[derive(Debug)]
pub struct SimListener {
    network: Network,
    address: SocketAddr,
    group: Group,
    files: Arc<OpenFiles>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct SimStream {
    network: Network,
    id: u64,
    local: SocketAddr,
    side: Side,
    _counted: Option<Counted>,
    _file: OpenFile,
}

enum Fate {
    Open,
    Refused,
    Swallowed,
}

impl SimNet {
    /// The same for a process that has so many descriptors.
    #[must_use]
    pub fn with_files(self, files: Arc<OpenFiles>) -> SimNet {
        SimNet { files, ..self }
    }

    fn fate(&self, to: IpAddr) -> (Fate, u64, SocketAddr) {
        let state = &mut *self.network.0.state.borrow_mut();
        let faults = state.faults_towards(to);
        let is_tarpit = faults.tarpits && state.tarpits.contains(&to);
        let fate = if is_tarpit || state.random.permille(faults.swallow_permille) {
            Fate::Swallowed
        } else if state.random.permille(faults.refuse_permille) {
            Fate::Refused
        } else {
            Fate::Open
        };
        state.next_port = state.next_port.checked_add(1).unwrap_or(10_000);
        let latency_us = match state.random.below(4) {
            0 => 40 + state.random.below(200),
            1 | 2 => 200 + state.random.below(5_000),
            _ => 5_000 + state.random.below(60_000),
        };
        (fate, latency_us, SocketAddr::new(self.local, state.next_port))
    }

    fn establish(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        latency_us: u64,
        (counted, file): (Counted, OpenFile),
    ) -> io::Result<SimStream> {
        let inner = &self.network.0;
        let state = &mut *inner.state.borrow_mut();
        let faults = state.faults_towards(to.ip());
        let backlog = state.listeners.get_mut(&to).ok_or(ErrorKind::ConnectionRefused)?;
        if backlog.waiting.len() >= BACKLOG_MAX {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let id = state.next;
        state.next += 1;
        backlog.waiting.push_back((id, from));
        if let Some(waker) = backlog.waker.take() {
            waker.wake();
        }
        let random = &mut state.random;
        let resets = random.permille(faults.reset_permille);
        let connection = Connection {
            owners: [self.group, backlog.owner],
            open: [true, true],
            shut: [false, false],
            pipes: Default::default(),
            reset: false,
            reset_after: resets.then(|| match random.below(3) {
                0 => random.below(300),
                1 => random.below(3_000),
                _ => random.below(200_000),
            }),
            latency_us,
            pieces: match random.below(4) {
                0 => Pieces::Bytes(random.below(400)),
                1 => Pieces::Ragged,
                _ => Pieces::Whole,
            },
            is_well: state.well.contains(&to.ip()),
        };
        state.connections.insert(id, connection);
        inner.trace.note("connect", &[id, u64::from(to.port())], || {
            format!("connection {id} from {from} to {to}")
        });
        let network = self.network.clone();
        let _counted = Some(counted);
        Ok(SimStream { network, id, local: from, side: Side::Client, _counted, _file: file })
    }
}

impl Net for SimNet {
    type Listener = SimListener;
    type Accepted = SimAccepted;
    type Stream = SimStream;

    fn listen(&self, address: SocketAddr) -> io::Result<SimListener> {
        let mut state = self.network.0.state.borrow_mut();
        if state.listeners.contains_key(&address) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let backlog = Backlog { owner: self.group, waiting: VecDeque::new(), waker: None };
        state.listeners.insert(address, backlog);
        drop(state);
        let files = Arc::clone(&self.files);
        Ok(SimListener { network: self.network.clone(), address, group: self.group, files })
    }

    fn adopt(&self, accepted: SimAccepted) -> io::Result<SimStream> {
        let network = self.network.clone();
        let local = SocketAddr::new(self.local, 0);
        let SimAccepted(id, file) = accepted;
        let (side, _counted) = (Side::Server, None);
        Ok(SimStream { network, id, local, side, _counted, _file: file })
    }

    async fn connect(&self, to: &Endpoint, from: Option<IpAddr>) -> io::Result<SimStream> {
        // The simulated machines share a network and no files.
        let &Endpoint::Tcp(to) = to else { return Err(ErrorKind::Unsupported.into()) };
        let file = self.files.open()?;
        let counted = self.network.count(to);
        let (fate, latency_us, mut local) = self.fate(to.ip());
        if let Some(from) = from {
            local.set_ip(from);
        }
        let executor = &self.network.0.executor;
        executor.sleep(2 * latency_us).await;
        match fate {
            Fate::Swallowed => {
                executor.sleep(SWALLOWED_US).await;
                Err(ErrorKind::TimedOut.into())
            }
            Fate::Refused => Err(ErrorKind::ConnectionRefused.into()),
            Fate::Open => self.establish(to, local, latency_us, (counted, file)),
        }
    }
}

impl Listener for SimListener {
    type Accepted = SimAccepted;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(SimAccepted, SocketAddr)>> {
        let mut state = self.network.0.state.borrow_mut();
        let Some(backlog) = state.listeners.get_mut(&self.address) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let Some(&(id, from)) = backlog.waiting.front() else {
            backlog.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        // Without a descriptor it stays where it is.
        let file = self.files.open()?;
        backlog.waiting.pop_front();
        Poll::Ready(Ok((SimAccepted(id, file), from)))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.network.0.state.borrow_mut();
            // After a crash another listener may stand here already.
            match state.listeners.get(&self.address) {
                Some(backlog) if backlog.owner == self.group => {
                    state.listeners.remove(&self.address).map(|backlog| backlog.waiting)
                }
                _ => None,
            }
        };
        for (id, _) in waiting.into_iter().flatten() {
            self.network.close(id, Side::Server);
        }
    }
}

impl SimStream {
    /// Which connection it is an end of.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// All that was written at this end so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let state = self.network.0.state.borrow();
        let pipe = |c: &Connection| c.pipes[self.side as usize].written_bytes;
        state.connections.get(&self.id).map_or(0, pipe)
    }

    /// Writes nothing any more; the other end reads what was written, then the end.
    pub fn shut_down(&self) {
        let mut state = self.network.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&self.id) else { return };
        if connection.reset || std::mem::replace(&mut connection.shut[self.side as usize], true) {
            return;
        }
        let now_us = self.network.0.executor.now_us();
        let pipe = &mut connection.pipes[self.side as usize];
        let at_us = (now_us + connection.latency_us).max(pipe.last_at_us);
        pipe.last_at_us = at_us;
        let (network, id, side) = (self.network.clone(), self.id, self.side);
        self.network.0.executor.call_at(at_us, move || network.end(id, side));
    }

    /// Breaks the connection.
    pub fn abort(self) {
        self.network.reset(self.id);
    }

    /// Reads; 0 is the end.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Writes it all.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl Stream for SimStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let state = &mut *self.network.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if connection.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let pieces = connection.pieces;
        let pipe = &mut connection.pipes[self.side.other() as usize];
        if pipe.arrived.is_empty() {
            if pipe.ended {
                return Poll::Ready(Ok(0));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let all = buffer.len().min(pipe.arrived.len());
        let count = match pieces {
            Pieces::Bytes(first) if pipe.read_bytes < first => 1,
            Pieces::Ragged if state.random.below(2) == 0 => {
                1 + state.random.below(all as u64) as usize
            }
            _ => all,
        };
        for (to, from) in buffer.iter_mut().zip(pipe.arrived.drain(..count)) {
            *to = from;
        }
        pipe.read_bytes += count as u64;
        if let Some(waker) = pipe.writer.take() {
            waker.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let now_us = self.network.0.executor.now_us();
        let state = &mut *self.network.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if connection.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if connection.shut[self.side as usize] {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let total: u64 = connection.pipes.iter().map(|pipe| pipe.written_bytes).sum();
        let pipe = &mut connection.pipes[self.side as usize];
        let room = PIPE_BYTES_MAX.saturating_sub(pipe.arrived.len() + pipe.flying_bytes);
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut bytes = Vec::new();
        for piece in pieces {
            let left = room - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(left)]);
        }
        let count = bytes.len();
        pipe.written_bytes += count as u64;
        pipe.writes.push((pipe.written_bytes, now_us));
        pipe.flying_bytes += count;
        let mut latency_us =
            connection.latency_us + state.random.below(connection.latency_us / 4 + 1);
        if !connection.is_well && state.random.permille(state.faults.stall_permille) {
            latency_us += state.random.below(20_000_000);
        }
        pipe.last_at_us = pipe.last_at_us.max(now_us + latency_us);
        let at_us = pipe.last_at_us;
        let resets = connection.reset_after.is_some_and(|after| total + count as u64 > after);
        let (network, id, side) = (self.network.clone(), self.id, self.side);
        if resets {
            // Part of what was written before may still arrive.
            let after_us = state.random.below(2 * latency_us + 1);
            self.network.reset_at(id, now_us + after_us);
        }
        self.network.0.executor.call_at(at_us, move || network.deliver(id, side, &bytes));
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    async fn upgrade_server(self) -> io::Result<SimStream> {
        Err(ErrorKind::Unsupported.into())
    }

    async fn upgrade_client(self, _name: &str) -> io::Result<SimStream> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.network.close(self.id, self.side);
    }
}
