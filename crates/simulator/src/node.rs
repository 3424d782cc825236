//! One life of the node: logs, shards and acceptors joined as the program joins them.

use super::account::Account;
use super::directory::Directory;
use super::effects::Effects;
use super::executor::{Executor, TaskGroup, wall_ms};
use super::log::{LogParts, SimDisk, SimLog};
use super::names::NODE;
use super::network::{Network, SimAccepted};
use super::open_files::OpenFiles;
use super::plan::ResourceLimits;
use super::plant::Plant;
use super::promises::Promises;
use super::ready_queues::ReadyQueues;
use super::tables::SimTables;
use super::trace::Trace;
use super::verdict::{MemoryWaits, Wait};
use super::warming::{SimWarmups, WarmupFile};
use super::world::{DnsFaults, SimDns, SimSpawn, SimStore, SimTime, SimWorld};
use config::Config;
use load::random::Random;
use mail::Wall;
use mta::acceptor;
use mta::commands::ControlRequest;
use mta::console::{Console, Level};
use mta::control::ShardAnswer;
use mta::event::{Event, EventSink, Kind, json};
use mta::inbox::{ShardMessage, ShardSender};
use mta::line;
use mta::metrics::Metrics;
use mta::seams::{Net as _, World as _};
use mta::shaping::Rules;
use mta::shard::{Shard, ShardParts};
use mta::shared::SharedState;
use mta::watched::{Watched, Watcher};
use spool::{Opening, RecoveredMessage, SpoolConfig};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, oneshot};

/// What outlives the process.
#[derive(Debug)]
pub struct Environment {
    /// Runs everything.
    pub executor: Executor,
    /// History.
    pub trace: Rc<Trace>,
    /// Connects everything.
    pub network: Network,
    /// One disk per log.
    pub disks: Vec<Rc<SimDisk>>,
    /// Names.
    pub dns: Rc<DnsFaults>,
    /// Whom they lead to.
    pub ready_queues: Rc<ReadyQueues>,
    /// What was handed in and what arrived.
    pub account: Rc<Account>,
    /// The configuration file.
    pub config: RefCell<Arc<Config>>,
    /// Shards of the node.
    pub shards: u16,
    /// What was added to the wall clock, in milliseconds.
    pub wall_offset_ms: Rc<Cell<i64>>,
    /// For every life of the node another.
    pub random: RefCell<Random>,
    /// Mailbox files that can't be written, in thousandths.
    pub store_permille: Rc<Cell<u16>>,
    /// A fault to plant.
    pub plant: Option<Plant>,
    /// What the node may use.
    pub limits: ResourceLimits,
    /// Who has the recipients of some routes.
    pub directory: Option<Rc<Directory>>,
    /// The descriptors of its process.
    pub files: Arc<OpenFiles>,
    /// What DNSSEC and domains say of TLS.
    pub promises: Rc<Promises>,
    /// What sources have sent that warm up, over all shards.
    pub warmup_file: WarmupFile,
    /// What rules of shaping have set in force.
    pub effects: Rc<Effects>,
    /// Where it all comes from.
    pub seed: u64,
}

/// A running node.
pub struct Node {
    group: TaskGroup,
    logs: Vec<SimLog>,
    /// Budgets and counts.
    pub shared: Arc<SharedState>,
    shards: Vec<ShardSender<SimAccepted>>,
    /// Kept to be freed.
    running: Vec<Rc<Shard<SimWorld>>>,
    metrics: Vec<Arc<Metrics>>,
    account: Rc<Account>,
    limits: ResourceLimits,
    warmups: Rc<SimWarmups>,
    /// Who waits for memory.
    memory_waits: RefCell<MemoryWaits>,
    stopping: Cell<bool>,
    alive: Rc<Cell<bool>>,
    stop_accepting: Watched<bool>,
}

impl Drop for Node {
    /// Only after its tasks.
    fn drop(&mut self) {
        self.running.iter().for_each(|shard| shard.abandon());
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Node {
    /// Recovers the disks and starts the process as tasks of `group`.
    ///
    /// # Errors
    /// A sentence: what could not be recovered or bound.
    pub fn start(environment: &Environment, group: TaskGroup) -> Result<Node, String> {
        let (shards, mails): (Vec<_>, Vec<_>) =
            (0..environment.shards).map(|_| mpsc::unbounded_channel()).unzip();
        let (logs, recovered) = open_logs(environment, group, &shards)?;
        let config = Arc::clone(&environment.config.borrow());
        let shared = Arc::new(divided(SharedState::new(&config, environment.shards), environment));
        set_rules(environment, &shared, &config);
        let stop_accepting = Watched::new(false);
        let stop = stop_accepting.follow();
        let alive = Rc::new(Cell::new(true));
        let running = Vec::new();
        let mut node = Node {
            group,
            logs,
            shared,
            shards,
            running,
            metrics: (0..environment.shards).map(|_| Arc::default()).collect(),
            account: Rc::clone(&environment.account),
            limits: environment.limits,
            warmups: SimWarmups::open(
                &environment.executor,
                &environment.wall_offset_ms,
                environment.seed ^ u64::from(group.0),
                &environment.warmup_file,
                environment.plant,
            ),
            memory_waits: RefCell::default(),
            stopping: Cell::new(false),
            alive,
            stop_accepting,
        };
        let store = SimStore::new(
            environment.executor.clone(),
            Rc::clone(&environment.account),
            Rc::clone(&environment.trace),
            environment.random.borrow_mut().next_u64(),
            Rc::clone(&environment.store_permille),
        );
        let tables = SimTables::start(
            &environment.executor,
            group,
            environment.directory.as_ref(),
            environment.plant,
        );
        for ((number, mail), recovered) in (0..environment.shards).zip(mails).zip(recovered) {
            let world = node.world(environment, store.clone(), tables.clone());
            if number == 0 {
                node.listen(environment, &world, &stop)?;
            }
            let shard = node.shard(environment, number, world);
            shard.adopt(recovered);
            node.running.push(Rc::clone(&shard));
            environment.executor.spawn(group, async move { shard.run(mail).await });
        }
        node.keep_effects(environment);
        Ok(node)
    }

    /// Writes what rules have set in force, whenever that changes.
    fn keep_effects(&self, environment: &Environment) {
        let effects = Rc::clone(&environment.effects);
        if !effects.are_possible() {
            return;
        }
        let (group, shared, executor) =
            (self.group, Arc::clone(&self.shared), environment.executor.clone());
        environment.executor.spawn(group, async move {
            let mut changes = shared.rules.follow();
            loop {
                changes.see();
                executor.sleep(KEEP_US).await;
                effects.keep(group, shared.rules.effects());
                if changes.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn world(&self, environment: &Environment, store: SimStore, tables: SimTables) -> SimWorld {
        let executor = environment.executor.clone();
        let seed = || environment.random.borrow_mut().next_u64();
        SimWorld::new(
            environment.network.attach(self.group, NODE).with_files(Arc::clone(&environment.files)),
            SimDns::new(
                executor.clone(),
                Rc::clone(&environment.dns),
                seed(),
                (self.group, Rc::clone(&environment.ready_queues)),
                Arc::clone(&environment.files),
                Rc::clone(&environment.promises),
            ),
            SimTime::new(executor.clone(), seed(), Rc::clone(&environment.wall_offset_ms)),
            SimSpawn::new(executor, self.group),
            store,
            tables,
            Rc::clone(&self.warmups),
        )
    }

    fn listen(
        &self,
        environment: &Environment,
        world: &SimWorld,
        stop: &Watcher<bool>,
    ) -> Result<(), String> {
        for (index, listener) in environment.config.borrow().listeners.iter().enumerate() {
            let socket = world.net().listen(listener.address).map_err(|e| e.to_string())?;
            let console: Rc<dyn Console> = self.console(environment);
            let accepting = acceptor::run(
                world.clone(),
                socket,
                index,
                Arc::clone(&self.shared),
                self.shards.clone(),
                console,
                stop.clone(),
            );
            environment.executor.spawn(self.group, accepting);
        }
        Ok(())
    }

    fn console(&self, environment: &Environment) -> Rc<TraceConsole> {
        Rc::new(TraceConsole {
            trace: Rc::clone(&environment.trace),
            alive: Rc::clone(&self.alive),
        })
    }

    fn shard(
        &self,
        environment: &Environment,
        number: u16,
        world: SimWorld,
    ) -> Rc<Shard<SimWorld>> {
        let events = Events {
            shard: number,
            account: Rc::clone(&environment.account),
            trace: Rc::clone(&environment.trace),
            alive: Rc::clone(&self.alive),
            line: RefCell::default(),
        };
        let shard = Shard::new(ShardParts {
            number,
            world,
            config: Arc::clone(&environment.config.borrow()),
            ports: self.logs.iter().map(|log| Arc::clone(&log.port)).collect(),
            shared: Arc::clone(&self.shared),
            shards: self.shards.clone(),
            events: Rc::new(events),
            console: self.console(environment),
            metrics: Arc::clone(&self.metrics[usize::from(number)]),
            suspensions: Arc::new([]),
            channels: channels::channels(),
            protocols: channels::protocols(),
            stages: channels::stages(),
        });
        #[cfg(feature = "planted")]
        if let Some(fault) = environment.plant.and_then(Plant::of_shard) {
            shard.plant(fault);
        }
        shard
    }

    /// Recipients that are queued, about.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.shared.queue_slots.used()
    }

    /// Messages with open recipients in the logs.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.logs.iter().map(|log| log.status().live_count).sum()
    }

    /// Sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.shared.sessions.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// A batch is being written to a log.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.logs.iter().any(SimLog::is_writing)
    }

    /// A log can't write any more.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.logs.iter().any(SimLog::has_failed)
    }

    /// Ends the process where it stands.
    pub fn crash(&self, environment: &Environment, power: bool) {
        environment.trace.note("crash", &[u64::from(power)], || format!("power lost: {power}"));
        // First of all it falls silent: what its tasks do while they are dropped nobody sees.
        self.alive.set(false);
        environment.network.crash(self.group);
        for log in &self.logs {
            log.crash(power);
        }
        environment.executor.end(self.group);
    }

    /// Reads the configuration file again.
    pub fn reload(&self, environment: &Environment) {
        environment.trace.note("reload", &[], String::new);
        self.shared.rules.set_rules(rules_of(&environment.config.borrow()));
        for shard in &self.shards {
            // All shards live as long as the node.
            let _ = shard.send(ShardMessage::Reload(Arc::clone(&environment.config.borrow())));
        }
    }

    /// How long rules hold something back from now on, in microseconds.
    #[must_use]
    pub fn held_us(&self, environment: &Environment) -> u64 {
        let now = Wall(wall_ms(&environment.executor, &environment.wall_offset_ms));
        let effects = self.shared.rules.effects().into_iter();
        let ends = effects.filter(|effect| effect.is_in_force()).map(|effect| effect.over_at());
        ends.max().map_or(0, |end| end.since(now).as_micros() as u64)
    }

    /// Asks a shard, as the control socket does.
    pub fn ask(&self, shard: u16, request: ControlRequest, answer: mpsc::Sender<ShardAnswer>) {
        // Nobody answers if the process has ended.
        let _ = self.shards[usize::from(shard)]
            .send(ShardMessage::Control { request: Box::new(request), answer });
    }

    /// It runs, and is to go on.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.alive.get() && !self.stopping.get()
    }

    /// Of those who wait for memory somebody gets it in time.
    pub fn check_memory(&self, waiting: BTreeSet<Wait>, now_us: u64) {
        let Some(within_us) = self.limits.memory_within_us else { return };
        let wrong = self.memory_waits.borrow_mut().look(waiting, now_us, within_us);
        wrong.into_iter().for_each(|text| self.account.violate(None, text));
    }

    /// Looks at what the node uses of what it may use.
    pub fn check_limits(&self) {
        let ResourceLimits { unsettled, sessions, .. } = self.limits;
        for text in self.logs.iter().filter_map(SimLog::false_alarm) {
            self.account.violate(None, text);
        }
        let told: i64 = self.metrics.iter().map(|metrics| metrics.unsettled.get()).sum();
        let (memory, slots) = (&self.shared.body_memory, &self.shared.queue_slots);
        for (what, used, max) in [
            ("bytes of body memory", memory.used(), memory.max()),
            ("queued recipients", slots.used(), slots.max()),
            ("sessions", u64::from(self.sessions()), sessions),
            ("unsettled recipients", u64::try_from(told).unwrap_or(0), unsettled),
        ] {
            if used > max {
                self.account.violate(None, format!("{used} {what}, at most {max} allowed"));
            }
        }
    }

    /// Stops in good order; ends when everything is written.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.stop_accepting.set(true);
        for shard in &self.shards {
            let (done, stopped) = oneshot::channel();
            let _ = shard.send(ShardMessage::Stop { grace_ms: 5_000, done });
            let _ = stopped.await;
        }
        self.warmups.close();
    }
}

/// How long the file of effects takes to be written.
const KEEP_US: u64 = 5_000;

fn rules_of(config: &Config) -> Rules {
    match Rules::read(config.shaping_rules()) {
        Ok(rules) => rules,
        Err(mistakes) => unreachable!("the simulator's own rules are wrong: {mistakes:?}"),
    }
}

/// The rules, and what they had set in force when the process before ended.
fn set_rules(environment: &Environment, shared: &SharedState, config: &Config) {
    shared.rules.set_rules(rules_of(config));
    let effects = &environment.effects;
    if effects.are_possible() && environment.plant != Some(Plant::ForgetRules) {
        let now = wall_ms(&environment.executor, &environment.wall_offset_ms);
        shared.rules.restore(effects.kept(), Wall(now));
    }
}

/// Connections and lookups as the process's descriptors allow.
fn divided(shared: SharedState, environment: &Environment) -> SharedState {
    let Some(parts) = environment.limits.parts else { return shared };
    let sessions_max = u32::try_from(environment.limits.sessions).unwrap_or(u32::MAX);
    let shared =
        shared.with_connections(sessions_max, parts.egress_max).with_lookups(parts.lookups_max);
    if environment.plant == Some(Plant::NoParts) {
        shared.connections.set_parts(line::SemaphoreLimits::equal(parts.egress_max));
    }
    shared
}

/// What each shard gets of what the logs held.
type Recovered = Vec<Vec<RecoveredMessage>>;

/// All logs, and what each shard finds in them. All are read before one is opened.
fn open_logs(
    environment: &Environment,
    group: TaskGroup,
    shards: &[ShardSender<SimAccepted>],
) -> Result<(Vec<SimLog>, Recovered), String> {
    let mut recovered: Recovered = shards.iter().map(|_| Vec::new()).collect();
    let mut openings = Vec::new();
    for number in 0..environment.disks.len() {
        openings.push(read_log(environment, number)?);
    }
    let mut logs = Vec::new();
    for (number, opening) in openings.into_iter().enumerate() {
        logs.push(open_log(environment, group, (number, opening), shards, &mut recovered)?);
    }
    Ok((logs, recovered))
}

/// Reads a log. The salt of its segments goes with it.
fn read_log(environment: &Environment, number: usize) -> Result<(Opening, u64), String> {
    let seed = environment.random.borrow_mut().next_u64();
    let config = spool_config(number as u8, seed, environment.plant);
    let opening = Opening::read(&*environment.disks[number], config)
        .map_err(|error| format!("log {number} cannot be recovered: {error}"))?;
    Ok((opening, seed))
}

fn open_log(
    environment: &Environment,
    group: TaskGroup,
    (number, (opening, seed)): (usize, (Opening, u64)),
    shards: &[ShardSender<SimAccepted>],
    recovered: &mut Recovered,
) -> Result<SimLog, String> {
    let disk = Rc::clone(&environment.disks[number]);
    let log = number as u8;
    let (spool, report) = opening
        .finish(&*disk, &mut |message| {
            let shard = (message.id.sequence() % shards.len() as u64) as usize;
            recovered[shard].push(message);
        })
        .map_err(|error| format!("log {log} cannot be recovered: {error}"))?;
    let (live, torn) = (report.live_count, report.torn_count);
    environment
        .trace
        .note("recover", &[live, torn], || format!("log {log}: {live} live, {torn} torn"));
    for damage in &report.damage {
        environment.account.violate(None, format!("log {log} is damaged: {damage}"));
    }
    let parts = LogParts {
        executor: environment.executor.clone(),
        group,
        trace: Rc::clone(&environment.trace),
        account: Rc::clone(&environment.account),
        disk,
        spool,
        numbers: (log, environment.config.borrow().spool.node),
        seed,
        plant: environment.plant,
    };
    Ok(SimLog::start(parts, shards.to_vec()))
}

/// Small segments, so that they fill, roll and are compacted.
fn spool_config(log: u8, salt: u64, _plant: Option<Plant>) -> SpoolConfig {
    SpoolConfig {
        log,
        salt,
        segment_bytes: 1 << 20,
        first_segment_bytes: 256 << 10,
        reserve_bytes: 1 << 20,
        index_every_bytes: 64 << 10,
        compact_step_bytes: 32 << 10,
        #[cfg(feature = "planted")]
        trusts_torn_tail: _plant == Some(Plant::TrustTornTail),
        #[cfg(feature = "planted")]
        poisons_when_scarce: _plant == Some(Plant::PoisonWhenScarce),
        ..SpoolConfig::default()
    }
}

/// Events go into the history, and the account learns which shard took a message.
struct Events {
    shard: u16,
    account: Rc<Account>,
    trace: Rc<Trace>,
    alive: Rc<Cell<bool>>,
    line: RefCell<Vec<u8>>,
}

impl EventSink for Events {
    fn emit(&self, event: Event) {
        if !self.alive.get() {
            return;
        }
        if let (Kind::Received { .. }, Some(message)) = (&event.kind, &event.message)
            && let Some(sender) = message.envelope.as_ref().and_then(|e| e.reverse_path.as_ref())
        {
            self.account.handle_taken(sender.as_str(), self.shard);
        }
        let mut line = self.line.borrow_mut();
        line.clear();
        json::write_lines(&event, &mut line);
        self.trace
            .note_bytes("event", &line, || String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

/// So does what the node has to say about itself.
struct TraceConsole {
    trace: Rc<Trace>,
    alive: Rc<Cell<bool>>,
}

impl Console for TraceConsole {
    fn shows(&self, level: Level) -> bool {
        self.alive.get() && level <= Level::Info
    }

    fn line(&self, level: Level, kind: &'static str, text: fmt::Arguments<'_>) {
        if self.shows(level) {
            let text = format!("{} {kind}: {text}", level.as_str());
            self.trace.note_bytes("console", text.as_bytes(), || text.clone());
        }
    }
}
