//! The deterministic simulator: the relay's own code with clients, next hops, network, disks and
//! DNS around it, all in one thread on a virtual clock, all from one seed.
//!
//! [`run`] plays one history: clients hand in messages, next hops defer them, the process crashes
//! at some step and comes back on what the disk kept, and in the end all faults heal and the queue
//! must drain. The [`account`] then says whether all that was promised came true. The same seed
//! gives the same history, which [`RunResult::hash`] proves.

pub mod account;
pub mod attempts;
pub mod client;
pub mod command;
pub mod directory;
pub mod effects;
pub mod executor;
pub mod handshake;
pub mod inspector;
pub mod log;
pub mod names;
pub mod network;
pub mod node;
pub mod open_files;
pub mod p1;
pub mod paces;
pub mod peer;
pub mod plan;
pub mod plant;
pub mod pool;
pub mod promises;
pub mod rates;
pub mod ready_queues;
mod reloads;
pub mod tables;
pub mod trace;
mod verdict;
pub mod warming;
pub mod world;

pub use account::{Totals, Violation};
pub use command::{SimOptions, run_command};
pub use plan::Plan;
pub use plant::Plant;

use account::{Account, Bounds};
use attempts::{Deferred, Stumbles};
use client::Clients;
use directory::Directory;
use effects::Effects;
use executor::{Executor, OUTSIDE, TaskGroup};
use inspector::{Inspected, Inspector};
use load::random::Random;
use log::SimDisk;
use names::NODE;
use network::{Network, NetworkFaults, Queues};
use node::{Environment, Node};
use open_files::OpenFiles;
use p1::P1World;
use paces::Paces;
use peer::Peers;
use plan::{
    Act, ActKind, CROWD_FROM_US, Crash, CrashKind, DiskFailure, FaultRates, Hop, Mire, Mood,
};
use promises::Promises;
use rates::Beginnings;
use ready_queues::ReadyQueues;
use spool::memdisk::Faults;
use spool::{Disk as _, DiskErrorKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use trace::Trace;
use warming::Warmed;
use world::DnsFaults;

/// When all is healed the queue must be empty after so long: the longest retry, twice over, and
/// the timeouts of one attempt that was under way.
const DRAIN_US: u64 = 300_000_000;

/// After the queue is empty, so long nothing may come any more.
const QUIET_US: u64 = 60_000_000;

/// A sync that is to fail may wait so long for somebody to ask for it.
const POISON_WAIT_US: u64 = 20_000_000;

/// A crash amid a write may wait so long for one.
const WRITE_WAIT_US: u64 = 5_000_000;

/// Stopping takes each shard no longer: one after the other.
const STOP_EACH_US: u64 = 10_000_000;

/// What was being opened when a limit was lowered is opened within this time.
const LOWERED_US: u64 = 60_000_000;

/// What is for the domain that is well is there within this time: a connection that another's peer
/// dawdles on may have to come free.
const WELL_US: u64 = 15_000_000;

/// What is for hosts one of which is well is there within this time: the other one may be silent at every step, and
/// is tried again now and then.
const STUMBLE_US: u64 = 120_000_000;

const DISK_BYTES: u64 = 64 << 20;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Where it all came from.
    pub seed: u64,
    /// Of everything that happened.
    pub hash: u64,
    /// How much that was.
    pub events_count: u64,
    /// When it ended, in the simulated world.
    pub ended_us: u64,
    /// Figures.
    pub totals: Totals,
    /// Laws that were broken.
    pub violations: Vec<Violation>,
    /// What happened, line by line, if that was asked for.
    pub lines: Vec<String>,
}

/// Plays the history of one seed.
#[must_use]
pub fn run(seed: u64, plant: Option<Plant>, with_text: bool) -> RunResult {
    play(Plan::new(seed), plant, with_text)
}

/// The same in a world without what was added last ([`Plan::early`]).
#[must_use]
pub fn run_early(seed: u64) -> RunResult {
    play(Plan::early(seed), None, false)
}

fn play(plan: Plan, plant: Option<Plant>, with_text: bool) -> RunResult {
    let mut simulation = Simulation::new(plan, plant, with_text);
    if let Err(text) = simulation.play() {
        simulation.environment.account.violate(None, text);
    }
    simulation.outcome()
}

/// Those that the node sends to.
fn peers(environment: &Environment, plan: &Rc<Plan>, seed: u64) -> Peers {
    Peers {
        executor: environment.executor.clone(),
        network: environment.network.clone(),
        account: Rc::clone(&environment.account),
        random: RefCell::new(Random::new(seed)),
        beginnings: Beginnings::default(),
        paces: Paces::default(),
        effects: Rc::clone(&environment.effects),
        warmed: Warmed::default(),
        wall_offset_ms: Rc::clone(&environment.wall_offset_ms),
        plan: Rc::clone(plan),
        deferred: Deferred::default(),
        stumbles: Stumbles::default(),
        fault_rates: plan.fault_rates,
        healed: Cell::new(false),
        plant: environment.plant,
        directory: environment.directory.clone(),
        promises: Rc::clone(&environment.promises),
    }
}

/// Everything that is there.
struct Simulation {
    plan: Rc<Plan>,
    environment: Environment,
    peers: Rc<Peers>,
    clients: Rc<Clients>,
    lives: u32,
    /// Acts that were done.
    done: usize,
    /// Changes of the configuration that were made.
    changes: Cell<usize>,
    /// The same, of what is shared.
    paces: Cell<usize>,
    /// Descriptors that the process may have now.
    files_max: Cell<u64>,
}

impl Simulation {
    fn new(plan: Plan, plant: Option<Plant>, with_text: bool) -> Simulation {
        let (mut random, plan) = (Random::new(plan.seed), Rc::new(plan));
        let (executor, files) = (Executor::default(), OpenFiles::new());
        let trace = Trace::new(executor.clone(), with_text);
        let account = Account::new(Rc::clone(&trace));
        let network = Network::new(executor.clone(), Rc::clone(&trace), random.next_u64());
        let disk =
            |_| Rc::new(SimDisk::new(random.next_u64(), DISK_BYTES, Arc::clone(&files), plant));
        let directory = Directory::new(&plan, &executor, &account);
        let sources = plan.pace.as_ref().map_or(1, |pace| pace.sources.len() as u32);
        let ready_queues = ReadyQueues::new(executor.clone(), network.clone(), sources);
        let promises = Promises::new(&plan, &executor, &account, &ready_queues);
        let wall_offset_ms = reloads::first_offset_ms(&plan, &executor);
        let heard_of = (&network, &ready_queues);
        let effects = Effects::new(&plan, &executor, &account, heard_of, &wall_offset_ms);
        let environment = Environment {
            disks: (0..plan.logs).map(disk).collect(),
            executor,
            trace,
            network,
            ready_queues,
            dns: DnsFaults::new(plan.zones()),
            account,
            config: RefCell::new(reloads::configuration(&plan, (0, 0), plant)),
            shards: plan.shards,
            wall_offset_ms,
            random: RefCell::new(Random::new(random.next_u64())),
            store_permille: Rc::default(),
            plant,
            limits: plan.limits(),
            directory,
            files,
            promises,
            warmup_file: Rc::default(),
            effects,
            seed: plan.seed,
        };
        let peers = Rc::new(peers(&environment, &plan, random.next_u64()));
        let clients = Rc::new(Clients {
            net: environment.network.attach(OUTSIDE, NODE),
            p1: P1World::new(&peers),
            executor: environment.executor.clone(),
            account: Rc::clone(&environment.account),
            directory: environment.directory.clone(),
            plan: Rc::clone(&plan),
            next: Cell::new(0),
            busy: Cell::new(0),
        });
        let files_max = Cell::new(plan.parts.map_or(u64::MAX, |parts| parts.files_max));
        let (lives, done, changes, paces) = (0, 0, Cell::default(), Cell::default());
        Simulation { plan, environment, peers, clients, lives, done, changes, paces, files_max }
    }

    /// From the first message to the empty queue.
    ///
    /// # Errors
    /// What can't go on, for people.
    fn play(&mut self) -> Result<(), String> {
        self.set_weather(Some(self.plan.fault_rates));
        for hop in &self.plan.hops {
            self.watch(hop);
            self.pave(hop);
            let hop = Rc::new(hop.clone());
            for &host in hop.hosts.iter().filter(|_| !hop.dead) {
                peer::start(&self.peers, &hop, host);
            }
        }
        self.watch_provider();
        if let Some(p1) = &self.clients.p1 {
            p1.listen();
        }
        let mut node = Rc::new(self.start_node()?);
        client::start(&self.clients);
        let plan = Rc::clone(&self.plan);
        for crash in &plan.crashes {
            node = Rc::new(self.crash(node, crash)?);
            self.inspect(&node);
        }
        self.play_until(&node, plan.heal_us);
        self.act(&node, ActKind::Free);
        self.set_weather(None);
        self.drain(&node);
        let bounds = Bounds {
            per_crash: plan.unsettled_max as usize
                + (plan.in_flight_max() + plan.activities_max()) as usize
                    * plan.recipients_max() as usize,
            failing_domains: plan.failing_domains(),
            well: if plan.is_mire() { (CROWD_FROM_US, WELL_US) } else { (u64::MAX, 0) },
            stumbling: (plan.stumbling_domains(), STUMBLE_US),
        };
        self.environment.account.check(&self.environment.network, &bounds);
        self.check_rates();
        self.check_attempts();
        self.stop(&node);
        self.environment.executor.end(TaskGroup(self.lives));
        self.verify();
        Ok(())
    }

    /// Lets the network count the connections towards a hop.
    fn watch(&self, hop: &Hop) {
        let network = &self.environment.network;
        if hop.is_by_entry {
            let each = hop.hosts.iter().map(|&host| vec![host]);
            return each.for_each(|host| network.watch(host, hop.connections_max, Queues::One));
        }
        if !hop.by_mx {
            return network.watch(hop.hosts.clone(), hop.connections_max, Queues::One);
        }
        let groups = match hop.is_crowd() {
            // Of many hosts there are too many groups.
            true => hop.hosts.iter().map(|&host| vec![host]).collect(),
            false => ready_queues::groups_of(&hop.hosts),
        };
        for hosts in groups {
            network.watch(hosts, hop.connections_max, Queues::Named(0));
        }
    }

    /// Lets the network count the connections of each source towards the provider.
    fn watch_provider(&self) {
        let Some(pace) = &self.plan.pace else { return };
        let hosts = self.plan.provider_hosts();
        for &source in &pace.sources {
            let max = pace.terms_after(0).connections_max;
            self.environment.network.watch_from(source, hosts.clone(), max);
        }
    }

    /// Says how the way to a hop is.
    fn pave(&self, hop: &Hop) {
        let network = &self.environment.network;
        if hop.is_well || hop.is_crowd() && self.plan.mire() == Some(Mire::Mute) {
            hop.hosts.iter().for_each(|host| network.spare(host.ip()));
        }
        hop.hosts.iter().take(hop.tarpits).for_each(|host| network.mire(host.ip()));
    }

    fn start_node(&mut self) -> Result<Node, String> {
        self.lives += 1;
        self.environment.network.forget_queues();
        self.limit(0);
        let group = TaskGroup(self.lives);
        self.begin_pace(group);
        self.environment.promises.begin(group);
        // What the start needs is there.
        self.environment.files.set_max(u64::MAX);
        self.mend_disks();
        let node = Node::start(&self.environment, group).inspect_err(|_| {
            // What had begun does not go on.
            self.environment.network.crash(group);
            self.environment.executor.end(group);
        })?;
        self.environment.files.set_max(self.files_max.get());
        self.environment.account.handle_start();
        Ok(node)
    }

    /// Disks do what they are asked to.
    fn mend_disks(&self) {
        for disk in &self.environment.disks {
            disk.memory.set_faults(Faults::default());
            disk.memory.clear_failure();
            disk.hang(0);
        }
    }

    fn set_files(&self, max: u64) {
        self.files_max.set(max);
        self.environment.files.set_max(max);
    }

    fn set_weather(&self, fault_rates: Option<FaultRates>) {
        let faults = fault_rates.map_or_else(NetworkFaults::default, |fault_rates| NetworkFaults {
            refuse_permille: fault_rates.refuse,
            swallow_permille: fault_rates.swallow,
            reset_permille: fault_rates.reset,
            stall_permille: fault_rates.stall,
            tarpits: true,
        });
        self.environment.network.set_faults(faults);
        let dns = &self.environment.dns;
        dns.failing_permille.set(fault_rates.map_or(0, |fault_rates| fault_rates.dns));
        dns.late_permille.set(fault_rates.map_or(0, |fault_rates| fault_rates.dns_late));
        if fault_rates.is_none() {
            dns.zones.borrow_mut().looped.clear();
            dns.zones.borrow_mut().hanging = None;
            dns.mood.set(Mood::Well);
            self.set_files(u64::MAX);
            self.mend_disks();
        }
        self.environment.store_permille.set(fault_rates.map_or(0, |fault_rates| fault_rates.store));
        self.peers.healed.set(fault_rates.is_none());
    }

    fn run_until(&self, at_us: u64) {
        let executor = &self.environment.executor;
        executor.call_at(at_us, || {});
        executor.run(|| executor.now_us() >= at_us);
    }

    /// As [`Simulation::run_until`], with what the plan has for that time.
    fn play_until(&mut self, node: &Rc<Node>, at_us: u64) {
        let plan = Rc::clone(&self.plan);
        while let Some(&Act { at_us: act_us, kind }) = plan.acts.get(self.done)
            && act_us <= at_us
        {
            self.run_until(act_us);
            self.act(node, kind);
            self.done += 1;
        }
        self.run_until(at_us);
    }

    fn act(&self, node: &Rc<Node>, kind: ActKind) {
        let environment = &self.environment;
        environment.trace.note("act", &[], || format!("{kind:?}"));
        match kind {
            ActKind::Reload => node.reload(environment),
            ActKind::Jump { ms } => self.turn_clock(ms as i64),
            ActKind::JumpBack { ms } => self.turn_clock(-(ms as i64)),
            ActKind::Change(number) => self.change(node, number),
            ActKind::Pace(number) => self.change_pace(node, number),
            ActKind::Zones(number) => {
                let zones = self.plan.zones_after(&self.plan.zone_changes[number]);
                *environment.dns.zones.borrow_mut() = zones;
            }
            ActKind::Fill { left_bytes } => self.set_room(Some(left_bytes)),
            ActKind::Free => self.set_room(None),
            ActKind::Reads { permille } => {
                let faults = Faults { read_permille: permille, ..Faults::default() };
                environment.disks.iter().for_each(|disk| disk.memory.set_faults(faults));
            }
            ActKind::Hang { log, for_us } => {
                let disk = &environment.disks[usize::from(log) % environment.disks.len()];
                disk.hang(environment.executor.now_us() + for_us);
            }
            ActKind::Files { max } => self.set_files(max),
            ActKind::Resolver(mood) => environment.dns.mood.set(mood),
            ActKind::Ask => {}
        }
        self.inspect(node);
    }

    /// Asks why everything is queued that is.
    fn inspect(&self, node: &Rc<Node>) {
        let environment = &self.environment;
        let inspector = Inspector {
            executor: environment.executor.clone(),
            account: Rc::clone(&environment.account),
            wall_offset_ms: Rc::clone(&environment.wall_offset_ms),
            horizon: self.plan.horizon(),
        };
        let inspected = Inspected::new(node, self.plan.shards);
        environment.executor.spawn(OUTSIDE, inspector.inspect(inspected));
    }

    /// How much can be written to each disk from now on.
    fn set_room(&self, left_bytes: Option<u64>) {
        for disk in &self.environment.disks {
            let memory = &disk.memory;
            memory.set_capacity_bytes(DISK_BYTES);
            if let Some(left_bytes) = left_bytes {
                let free_bytes = memory.free_bytes().unwrap_or(0);
                let used_bytes = DISK_BYTES.saturating_sub(free_bytes);
                memory.set_capacity_bytes(used_bytes + left_bytes);
            }
        }
    }

    /// Ends the process as planned and starts it again.
    fn crash(&mut self, node: Rc<Node>, crash: &Crash) -> Result<Node, String> {
        self.play_until(&node, crash.at_us);
        self.inspect(&node);
        match crash.kind {
            CrashKind::Kill => {}
            CrashKind::Poison(failure) => self.poison(&node, failure),
            CrashKind::Stop => self.stop(&node),
        }
        let executor = self.environment.executor.clone();
        let polls = executor.inside_polls_count() + crash.polls;
        if crash.kind != CrashKind::Stop {
            executor.run(|| executor.inside_polls_count() >= polls);
            if crash.amid_write {
                let until_us = executor.now_us() + WRITE_WAIT_US;
                executor.call_at(until_us, || {});
                executor.run(|| node.is_writing() || executor.now_us() >= until_us);
            }
        }
        node.crash(&self.environment, crash.power);
        drop(node);
        self.run_until(executor.now_us() + crash.down_us);
        if let Some(count) = crash.again_after {
            self.lose_power_at_start(count);
        }
        self.start_node().or_else(|text| {
            // Without room for a segment it can't start: somebody must see to that.
            self.environment.trace.note("restart", &[], || text);
            self.set_room(None);
            self.start_node()
        })
    }

    /// Starts the node on disks that go dark in the middle of that.
    fn lose_power_at_start(&mut self, operations_count: u64) {
        for disk in &self.environment.disks {
            disk.memory.set_fuse(operations_count);
        }
        // It may well come up: then it ends before it did anything.
        if let Ok(node) = self.start_node() {
            node.crash(&self.environment, true);
        }
        for disk in &self.environment.disks {
            disk.memory.crash();
        }
    }

    /// Lets the disks fail, and the node live on with that for a while.
    fn poison(&self, node: &Node, failure: DiskFailure) {
        let environment = &self.environment;
        for disk in &environment.disks {
            let (count, forever) = match failure {
                DiskFailure::Sync => {
                    let faults = Faults { sync_permille: 1_000, ..Faults::default() };
                    disk.memory.set_faults(faults);
                    continue;
                }
                DiskFailure::Once(count) => (count, false),
                DiskFailure::ForGood(count) => (count, true),
            };
            disk.memory.set_failure(count, DiskErrorKind::Failed, forever);
        }
        let executor = &environment.executor;
        let until_us = executor.now_us() + POISON_WAIT_US;
        executor.call_at(until_us, || {});
        executor.run(|| node.is_poisoned() || executor.now_us() >= until_us);
        if !matches!(failure, DiskFailure::ForGood(_)) {
            self.mend_disks();
        }
        let after_us = environment.random.borrow_mut().below(5_000_000);
        self.run_until(executor.now_us() + after_us);
    }

    /// Waits until nothing is queued any more.
    fn drain(&self, node: &Rc<Node>) {
        let environment = &self.environment;
        let executor = &environment.executor;
        let is_empty = || self.clients.are_done() && node.queued() == 0 && node.live() == 0;
        // Who hands in mail to thousands of domains takes his time.
        let until_us = executor.now_us() + 2 * DRAIN_US;
        executor.call_at(until_us, || {});
        executor.run(|| self.clients.are_done() || executor.now_us() >= until_us);
        // What rules hold back goes when their time is over, and no sooner.
        let mut held_us = node.held_us(environment);
        loop {
            let until_us = executor.now_us() + held_us + DRAIN_US;
            executor.call_at(until_us, || {});
            executor.run(|| is_empty() || executor.now_us() >= until_us);
            held_us = node.held_us(environment);
            if is_empty() || held_us == 0 {
                break;
            }
        }
        if !is_empty() {
            let (queued, live, busy) = (node.queued(), node.live(), self.clients.busy.get());
            let text = format!(
                "not drained: {queued} recipients queued, {live} messages in the spool, \
                 {busy} clients busy"
            );
            environment.account.violate(None, text);
            // What it waits for stands in the trace.
            self.inspect(node);
        }
        self.run_until(executor.now_us() + QUIET_US);
        let (sessions, memory) = (node.sessions(), node.shared.body_memory.used());
        if (sessions, memory) != (0, 0) {
            let text = format!("left over: {sessions} sessions, {memory} bytes of body memory");
            environment.account.violate(None, text);
        }
    }

    /// Stops the node in good order.
    fn stop(&self, node: &Rc<Node>) {
        let stopped = Rc::new(Cell::new(false));
        let (task, told) = (Rc::clone(node), Rc::clone(&stopped));
        let executor = &self.environment.executor;
        executor.spawn(OUTSIDE, async move {
            task.stop().await;
            told.set(true);
        });
        let until_us = executor.now_us() + u64::from(self.plan.shards) * STOP_EACH_US;
        executor.call_at(until_us, || {});
        executor.run(|| stopped.get() || executor.now_us() >= until_us);
        if !stopped.get() {
            self.environment.account.violate(None, "the node does not stop");
        }
    }

    fn outcome(self) -> RunResult {
        let Environment { executor, trace, account, .. } = &self.environment;
        let totals = account.totals();
        executor.clear();
        RunResult {
            seed: self.plan.seed,
            hash: trace.hash(),
            events_count: trace.events_count(),
            ended_us: executor.now_us(),
            totals,
            violations: account.violations(),
            lines: trace.take_lines(),
        }
    }
}
