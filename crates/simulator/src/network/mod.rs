//! A network in memory: connections of two bounded pipes with latency, ragged pieces, stalls and
//! resets, all from the seed.

mod connection;
mod leaving;
mod net;
mod silence;
mod stream;

pub use leaving::{HostSet, Queues};
pub use net::{SimAccepted, SimListener, SimNet};
pub use stream::SimStream;

use super::executor::{Executor, TaskGroup};
use super::trace::Trace;
use connection::{Connection, Side};
use leaving::ConnectionLimit;
use load::random::Random;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;

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

#[derive(Debug)]
struct Backlog {
    owner: TaskGroup,
    waiting: VecDeque<(u64, SocketAddr)>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct State {
    random: Random,
    faults: NetworkFaults,
    listeners: BTreeMap<SocketAddr, Backlog>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    next_port: u16,
    watches: Vec<ConnectionLimit>,
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

struct NetworkState {
    executor: Executor,
    trace: Rc<Trace>,
    state: RefCell<State>,
}

/// The network; clones are the same one.
#[derive(Clone)]
pub struct Network(Rc<NetworkState>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// A network without connections and faults.
    #[must_use]
    pub fn new(executor: Executor, trace: Rc<Trace>, seed: u64) -> Network {
        Network(Rc::new(NetworkState {
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
        self.add_watch(addresses, None, max, queues);
    }

    /// The same of the connections that come from `from`: never more than `max`, whatever ready queue they are of.
    pub fn watch_from(&self, from: IpAddr, addresses: Vec<SocketAddr>, max: u32) {
        self.add_watch(addresses, Some(from), max, Queues::One);
    }

    fn add_watch(
        &self,
        addresses: Vec<SocketAddr>,
        from: Option<IpAddr>,
        max: u32,
        queues: Queues,
    ) {
        self.0.state.borrow_mut().watches.push(ConnectionLimit {
            addresses,
            from,
            max,
            before: (0, 0),
            cap: None,
            queues,
            left: Vec::new(),
            open: 0,
            exceeded: None,
        });
    }

    /// From now on `max` holds for the connections of a ready queue towards any of these addresses,
    /// but for those that are there, and for what is begun within `grace_us`: what was allowed may
    /// be opened still, and `more` besides, by those that were allowed less.
    pub fn limit(&self, addresses: &[SocketAddr], max: u32, more: u32, grace_us: u64) {
        let now_us = self.0.executor.now_us();
        let mut state = self.0.state.borrow_mut();
        let is_one = |watch: &&mut ConnectionLimit| {
            watch.from.is_none() && watch.addresses.iter().any(|to| addresses.contains(to))
        };
        for watch in state.watches.iter_mut().filter(is_one) {
            watch.limit(now_us, max, more, grace_us);
        }
    }

    /// A route to these domains goes elsewhere than to these addresses from now on.
    pub fn leave(&self, addresses: &[SocketAddr], domains: &[String]) {
        let now_us = self.0.executor.now_us();
        let mut state = self.0.state.borrow_mut();
        let is_one = |watch: &&mut ConnectionLimit| {
            watch.from.is_none() && watch.addresses.iter().any(|to| addresses.contains(to))
        };
        for watch in state.watches.iter_mut().filter(is_one) {
            watch.left.push((now_us, domains.to_vec()));
        }
    }

    /// As [`Network::limit`] for the connections from each source that has a limit.
    pub fn limit_sources(&self, max: u32, grace_us: u64) {
        let now_us = self.0.executor.now_us();
        let mut state = self.0.state.borrow_mut();
        for watch in state.watches.iter_mut().filter(|watch| watch.from.is_some()) {
            watch.limit(now_us, max, 0, grace_us);
        }
    }

    /// In this time (from when on, until when) no more than `max` are opened from `from`, whatever else is allowed.
    pub fn cap_from(&self, from: IpAddr, time_us: Option<(u64, u64)>, max: u32) {
        let mut state = self.0.state.borrow_mut();
        for watch in state.watches.iter_mut().filter(|watch| watch.from == Some(from)) {
            watch.cap = time_us.map(|time_us| (time_us, max));
        }
    }

    /// The DNS has named these hosts together: that is so many ready queues more.
    pub fn add_queues(&self, hosts: &HostSet, more: u32) {
        let mut state = self.0.state.borrow_mut();
        let is_one = |watch: &&mut ConnectionLimit| {
            watch.addresses.iter().any(|to| hosts.contains(&to.ip()))
        };
        for watch in state.watches.iter_mut().filter(is_one) {
            if let Queues::Named(count) = &mut watch.queues {
                *count += more;
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

    /// What the watches saw that saw more than they should, for people.
    #[must_use]
    pub fn exceeded(&self) -> Vec<String> {
        let state = self.0.state.borrow();
        let told = |watch: &ConnectionLimit| {
            let (most, max) = watch.exceeded?;
            let from = watch.from.map_or(String::new(), |from| format!(" from {from}"));
            let to = watch.addresses[0];
            Some(format!("{most} connections to {to}{from}, at most {max} allowed"))
        };
        state.watches.iter().filter_map(told).collect()
    }

    /// The ends that belong to `group` vanish without a word; the others learn it sooner or later.
    pub fn crash(&self, group: TaskGroup) {
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
    pub fn client_of(&self, connection: u64) -> Option<TaskGroup> {
        self.0.state.borrow().connections.get(&connection).map(|connection| connection.owners[0])
    }

    /// Whose the server's end of a connection is.
    #[must_use]
    pub fn server_of(&self, connection: u64) -> Option<TaskGroup> {
        self.0.state.borrow().connections.get(&connection).map(|connection| connection.owners[1])
    }

    /// From where the client's end of a connection came.
    #[must_use]
    pub fn source_of(&self, connection: u64) -> Option<IpAddr> {
        self.0.state.borrow().connections.get(&connection).map(|connection| connection.from)
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
}
